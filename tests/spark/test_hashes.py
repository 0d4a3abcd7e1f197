"""What is stored of a hash depends on values alone: on no setting of Spark's, and on each value."""

from dataclasses import replace

import pytest

from tests.worlds.build import ID
from tests.worlds.fold_plans import KEYS, NESTED, plan_of
from tideline.documents import dump
from tideline.folding.spark.changes import bucket_of, current_schema, key_text
from tideline.folding.spark.sums import standing_sums
from tideline.model.current import OLD_SUMS, SUMS, Folding
from tideline.model.spark_job import FoldJob, FoldResult, Output
from tideline.spark.application import ALONE, run_job
from tideline.spark.failures import failed_to_fold
from tideline.spark.session import SESSION

ANSI = "spark.sql.ansi.enabled"


@pytest.fixture(params=["true", "false"], ids=["ansi", "not ansi"])
def session(spark, request):
    """A session with and without ANSI mode: a cluster's defaults may say either."""
    before = spark.session.conf.get(ANSI)
    spark.session.conf.set(ANSI, request.param)
    yield spark.session
    spark.session.conf.set(ANSI, before)


def rows_of(session, plan, *rows):
    """Rows of the current table; what is not told is null."""
    schema = current_schema(plan)
    known = {"topic_id": ID, "is_deleted": False, "bucket": 0}
    told = [tuple((known | row).get(f.name) for f in schema.fields) for row in rows]
    return session.createDataFrame(told, schema)


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_has_one_text(session, kind):
    """The text of each value is what it always was, in every mode."""
    plan = plan_of(("k", "n"), k=kind, n="long")
    found = rows_of(session, plan, *({"k": k} for k in KEYS[kind])).select(key_text(plan))
    expected = [f'["{text}",null]' for text in KEYS[kind].values()]
    assert [row[0] for row in found.collect()] == expected


def test_a_key_has_one_bucket(session):
    """Buckets of composite keys of every type, as tables of before have them."""
    names = {f"k{n}": kind for n, kind in enumerate(KEYS)}
    plan = plan_of((*names,), **names)
    most = max(map(len, KEYS.values()))
    rows = [
        {name: [*KEYS[kind], None][n % (len(KEYS[kind]) + 1)] for name, kind in names.items()}
        for n in range(4 * most)
    ]
    found = rows_of(session, plan, *rows).select(bucket_of(plan)).collect()
    assert [row[0] for row in found] == BUCKETS


def test_each_job_begins_with_the_settings_that_stored_values_depend_on(session, tmp_path):
    """A warm session may have served another job, or have its cluster's defaults."""
    job = FoldJob("orders", "run", "", (), (), plan_of(("k",), k="long"), Output("", "", ()))
    job = replace(job, result_path=str(tmp_path / "result.json"))
    (tmp_path / "job.json").write_text(dump(job))
    seen = {}

    def execute(spark, _job):
        seen.update({key: spark.conf.get(key) for key in SESSION})
        return FoldResult()

    kinds = (FoldJob, FoldResult)
    run_job(str(tmp_path / "job.json"), kinds, execute, failed_to_fold, session, ALONE)
    assert seen == SESSION


BUCKETS = [10, 10, 11, 7, 8, 10, 15, 1, 5, 13, 8, 11, 8, 8, 8, 9]
"""As the first version of this table had them."""
UNLIKE = [
    {},
    {"one": []},
    {"one": [None]},
    {"one": [None, None]},
    {"two": [None]},
    {"one": ["a", None]},
    {"one": [None, "a"]},
    {"one": ["a", "b"], "two": ["c"]},
    {"one": ["a"], "two": ["b", "c"]},
    {"one": ["a", "b", "c"], "two": []},
    {"deep": [["a"], ["b"]]},
    {"deep": [["a", "b"]]},
    {"deep": [["a", "b"], []]},
    {"deep": [["a", "b"], None]},
    {"deep": [None, ["a", "b"]]},
    {"pairs": {"k": ["a"], "l": None}},
    {"pairs": {"k": None, "l": ["a"]}},
    {"pairs": {"k": ["a", None], "l": []}},
    {"pairs": {"k": ["a"]}},
    {"pairs": {}},
    {"row": (7, None)},
    {"row": (None, 7)},
    {"row": (None, None)},
    {"rows": [(7, None)]},
    {"rows": [(None, 7)]},
    {"rows": [None, (None, 7)]},
    {"rows": [(None, None), (None, 7)]},
]
"""Rows that Spark's own hash takes for another one of them, and their like."""


def sums_of(session, plan, rows):
    """The sum of each row, as if it were alone in its bucket."""
    table = rows_of(session, plan, *(row | {"bucket": n} for n, row in enumerate(rows)))
    found = {r["bucket"]: (r["found_low"], r["found_high"]) for r in standing_sums(plan, table)}
    return [found[n] for n in range(len(rows))]


def test_rows_that_are_unlike_have_other_sums(session):
    """A null, an end of a list, a pair elsewhere in a value is another value."""
    found = sums_of(session, plan_of(("k",), k="long", **NESTED), UNLIKE)
    groups = {}
    for row, pair in zip(UNLIKE, found, strict=True):
        groups.setdefault(pair, []).append(row)
    assert [rows for rows in groups.values() if len(rows) > 1] == []


def test_pairs_of_a_map_have_no_order(session):
    rows = [{"pairs": {"k": ["a"], "l": None}}, {"pairs": {"l": None, "k": ["a"]}}]
    one, other = sums_of(session, plan_of(("k",), k="long", **NESTED), rows)
    assert one == other


def test_rows_without_nested_values_keep_their_sums(session):
    """So tables without such columns need no new sums."""
    kinds = {f"c{n}": kind for n, kind in enumerate(KEYS)}
    plan = plan_of(("k",), k="long", **kinds)
    rows = [{c: next(iter(KEYS[kind])) for c, kind in kinds.items()}, {"k": 1}]
    rows += [{"unavailable_columns": ["c1", "c2"]}]
    old = sums_of(session, replace(plan, sums=OLD_SUMS), rows)
    assert sums_of(session, plan, rows) == old
    flat = Folding(columns=plan.columns)
    assert not flat.has_old_sums
    nested = plan_of(("k",), k="long", **NESTED)
    assert replace(flat, columns=nested.columns).has_old_sums
    assert not replace(flat, columns=nested.columns, sums=SUMS).has_old_sums


def test_a_field_that_comes_later_changes_no_hash(session):
    """Inside of values as well: a fold would say that others have changed the table."""

    def struct(*names):
        fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in names]
        return {"type": "struct", "fields": fields}

    def listed(*names):
        return {"type": "array", "elementType": struct(*names), "containsNull": True}

    found = []
    for names in (("a",), ("a", "b")):
        plan = plan_of(("k",), k="long", v=struct(*names), w=listed(*names))
        told = dict.fromkeys(names) | {"a": 7}
        rows = [{"k": 1, "v": told, "w": [told, None]}, {"k": 2, "v": dict.fromkeys(names)}]
        found.append(sums_of(session, plan, rows))
    assert found[0] == found[1]
