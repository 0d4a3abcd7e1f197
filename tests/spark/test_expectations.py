"""What rows are expected to meet: in the pass that decodes, by the same words each time."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.worlds.raw_tables import avro, avro_part, decoded, job_of
from tests.worlds.streams import is_clean
from tests.worlds.typed_streams import V1, Typed
from tideline.decoding.spark.expectations import refused_conditions
from tideline.decoding.spark.row_columns import typed_type
from tideline.errors import BadInput, DecodingHalted
from tideline.model.decoding import Expectation
from tideline.model.incident import Decision
from tideline.model.request import RunRequest
from tideline.operations.redrive import redrive
from tideline.wiring import open_ledger, open_run

ROOT = Path(__file__).parents[2]
FIELDS = {"id": "long", "amount": "double", "value": "string"}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": ["null", "double"]},
        {"name": "value", "type": "string"},
    ],
}
PART = avro_part({1: ORDER}, ORDER, FIELDS)


def order(number, amount=1.0, value="1"):
    return avro(ORDER, {"id": number, "amount": amount, "value": value}, 1)


def held(spark, folder, *records, parts=(PART,), offsets=1_000, **rules):
    """Result, ids of typed rows, and offset and error of the others."""
    expect = tuple(
        Expectation(name, *((rule, "quarantine") if isinstance(rule, str) else rule))
        for name, rule in rules.items()
    )
    job = job_of(folder, records, parts, expect=expect, offsets=offsets)
    result, typed, bad = decoded(spark, job)
    return result, [row["id"] for row in typed], [(r["offset"], r["error"]) for r in bad]


@pytest.mark.parametrize("offsets", [1_000, 1_000_000], ids=["interpreted", "compiled"])
def test_a_row_that_fails_goes_to_quarantine_with_the_names(spark, tmp_path, offsets):
    """Of what only counts the row stays; null fails unless said; a tombstone is not asked."""
    result, ids, bad = held(
        spark,
        tmp_path,
        *(order(0), order(1, -1.0), order(2, None), None, order(4, -2.0, "x"), b"nonsense"),
        offsets=offsets,
        positive="amount > 0",
        small=("amount < 1e9", "quarantine", "pass"),
        number=("cast(value as int) = 1", "count"),
        even=("id % 2 = 0", "count"),
        same="`value` <> 'x'",
    )
    assert ids == [0, None]
    assert bad[:-1] == [
        (1, "fails positive"),
        (2, "fails positive"),
        (4, "fails positive, same"),
    ]
    assert dict(result.classes) == {"expectation": 3, "framing": 1}
    assert result.failed == {"positive": 3, "small": 0, "number": 1, "even": 1, "same": 1}
    assert result.halting == 0


@pytest.mark.parametrize(
    "sql",
    [
        "1 / (id - id) > 0",
        "cast(value as int) > 0",
        "to_date(value, 'yyyy-MM-dd') > date'2020-01-01'",
        "element_at(array(1), 5) > 0",
        "id + 9223372036854775807 + id > 0 and null",
        "value::timestamp > timestamp",
        "id * 1000 <= 1000000",
        "cast(id as int) < 100",
        "-(-id - 2) < 0",
        "timestamp_millis(id) <= timestamp + interval 1 day",
        "element_at(split(value, ','), (id - id)::int) = 'a'",
        "if(id + 1 > 0, null, true)",
        "raise_error(value) = 1",
    ],
)
def test_what_cannot_be_worked_out_is_null(spark, tmp_path, sql):
    """It fails the row, and never the job."""
    result, _, bad = held(spark, tmp_path, order(2**63 - 1, value="abc"), rule=sql)
    assert (result.failed, bad) == ({"rule": 1}, [(0, "fails rule")])
    assert spark.session.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("value like 'a/b' escape '/'", "ESC_IN_THE_MIDDLE"),
        ("date_format(timestamp, 'bb') = ''", "Unknown pattern letter"),
        ("from_utc_timestamp(timestamp, 'Nowhere') > timestamp", "INVALID_TIMEZONE"),
        ("value rlike '['", "PatternSyntaxException"),
    ],
)
def test_what_spark_fails_for_is_told_by_the_rules_name(spark, tmp_path, sql, why):
    """A constant that is none, which Spark looks at while it compiles: it is of no service."""
    expect = (Expectation("other", "id >= 0", "count"), Expectation("wrong", sql, "count"))
    job = job_of(tmp_path, [order(1)], [PART], expect=expect, offsets=1_000_000)
    with pytest.raises(BadInput, match=rf"decode.expect \(wrong\): .*{why}"):
        decoded(spark, job)


REFUSED = {
    "amounts > 0": "amounts",
    "amount >": "PARSE_SYNTAX_ERROR",
    "amount > 0; drop table x": "PARSE_SYNTAX_ERROR",
    "amount": "of type double; allowed: a condition",
    "sum(amount) > 0": "INVALID_WHERE_CONDITION",
    "row_number() over (order by id) = 1": "INVALID_WHERE_CONDITION|window",
    "explode(array(true))": "GENERATOR|generator",
    "rand() < 0.5": "depends on chance",
    "uuid() <> value": "depends on chance",
    "reflect('java.lang.System', 'exit', 0) = '1'": "depends on chance",
    "value <> '' and timestamp < now()": "Now says something else",
    "timestamp < current_timestamp": "CurrentTimestamp says something else",
    "unix_timestamp() > 0": "CurrentTimestamp says something else",
    "exists (select 1)": "other tables",
    "id in (select id from other)": "TABLE_OR_VIEW_NOT_FOUND",
    "no_such(id)": "UNRESOLVED_ROUTINE",
    "decode_plan_id = ''": "decode_plan_id",
    "*": "",
    "struct(*) is null and key is null": "key",
}
ALLOWED = [
    "amount > 0 or amount is null",
    "`value` <> 'now()' and value <> \"current_date\"",
    "at_least is null",
    "timestamp > '2020-01-01' and partition >= 0 and offset >= 0 and topic = 'orders'",
    "value rlike '^[0-9]+$' -- digits",
    "unix_timestamp(timestamp) > 0",
]


def test_which_conditions_are_refused(spark, tmp_path):
    job = job_of(tmp_path, [order(1)], [PART])
    rules = [Expectation(f"r{n}", sql, "count") for n, sql in enumerate([*REFUSED, *ALLOWED])]
    columns = typed_type(job.plan).add("at_least", "string")
    found = dict(refused_conditions(spark.session, columns, rules))
    assert [*found] == [*range(len(REFUSED))], found
    for number, (sql, said) in enumerate(REFUSED.items()):
        assert re.search(said, found[number]), (sql, found[number])


def test_a_refused_condition_names_key_and_value(spark, tmp_path):
    with pytest.raises(BadInput, match=r"decode\.expect\.1 \(b\): got 'amounts > 0'; .*`amount`"):
        held(spark, tmp_path, order(1), a="id > 0", b="amounts > 0")


def test_a_column_that_comes_with_the_records_schema(spark, tmp_path):
    """The registry is asked before a condition is refused."""
    known = avro_part({2: V1}, V1, {"id": "integer"})
    result, *_ = held(spark, tmp_path, order(1), parts=[known], positive="amount > 0")
    assert result.new_ids == {"value": (1,)}


@pytest.fixture
def typed(harness, registry, spark, request, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT / "plugins", ROOT))))
    name = request.node.name.removeprefix("test_")[:40]
    return lambda **decode: Typed(harness, registry, spark, name, **decode)


@pytest.mark.slow
def test_what_has_failed_can_be_redriven_after_the_rule_has_changed(typed):
    """Until then a clear and a redrive leave it where it is, and then a clear takes nothing back.

    Decoded anew, older rows fail.
    """
    rule = {"name": "few", "sql": "id < 3"}
    at = typed(expect=[rule])
    at.register(V1)
    at.send(V1, *({"id": n, "note": "a"} for n in range(5)))
    at.run("one")
    record = open_ledger(at.stream).find_decoding("one")
    assert (record.failed, record.classes) == ((("few", 2),), (("expectation", 2),))
    assert at.decode("one").failed == record.failed
    assert at.bad("error") == [(0, 3, "fails few"), (0, 4, "fails few")]
    rule["sql"] = "id < 4"
    with open_run(at.stream, "redrive", RunRequest(), at.spark) as run:
        assert (redrive(run, ["expectation"]).asked, redrive(run).moved) == (2, 0)
    assert [r[2] for r in at.rows("id")] == [0, 1, 2, 3]
    at.decode("one")
    assert [r[2] for r in at.rows("id")] == [0, 1, 2, 3]
    rule["sql"] = "id < 4 and id <> 1"
    again = at.decode_again("again")
    assert (again.changed, again.quarantine_changed) == (1, 1)
    assert [r[2] for r in at.rows("id")] == [0, 2, 3]
    assert is_clean(at.harness, at.stream)


def test_what_halts_asks_and_a_decision_lets_the_rest_through(typed):
    """Decided rows do not count for max_share; a clear of the run does not ask again."""
    rule = {"name": "few", "sql": "id < 1", "on_fail": "halt"}
    at = typed(expect=[rule])
    at.register(V1)
    at.send(V1, *({"id": n, "note": "a"} for n in range(4)))
    with pytest.raises(DecodingHalted, match=r"fails few.*3 of 4 records: 3 few"):
        at.run("one")
    ledger = open_ledger(at.stream)
    (incident,) = ledger.read().open_incidents
    assert incident.finding.kind == "expectation_failed"
    decision = Decision("quarantine", "ann", datetime.now(UTC), "known")
    ledger.update(lambda s: s.with_decision(incident.incident_id, decision))
    at.run("two")
    assert [r[2] for r in at.rows("id")] == [0]
    assert len(at.bad()) == 3
    assert not open_ledger(at.stream).read().open_incidents
    assert at.decode("one").failed == (("few", 3),)
    at.send(V1, {"id": 9, "note": "a"})
    with pytest.raises(DecodingHalted):
        at.run("three")
    rule["sql"] = "id < 10"
    at.run("four")
    assert [r[2] for r in at.rows("id")] == [0, 9]
    assert is_clean(at.harness, at.stream)


@pytest.mark.slow
def test_a_decision_holds_for_what_it_was_about(typed):
    """What came later, or fails another rule, halts again; the run decodes what was decided."""
    few = {"name": "few", "sql": "id < 40", "on_fail": "halt"}
    noted = {"name": "noted", "sql": "note <> ''", "on_fail": "halt"}
    at = typed(expect=[few, noted])
    at.register(V1)
    at.send(V1, *({"id": n, "note": "a" if n else ""} for n in range(31)))
    with pytest.raises(DecodingHalted, match="1 of 31 records: 1 noted"):
        at.run("one")
    ledger = open_ledger(at.stream)

    def decide():
        (incident,) = ledger.read().open_incidents
        decision = Decision("quarantine", "ann", datetime.now(UTC), "known")
        ledger.update(lambda s: s.with_decision(incident.incident_id, decision))

    decide()
    at.send(V1, *({"id": n, "note": "a"} for n in range(100, 1100)))
    with pytest.raises(DecodingHalted, match="1000 of 1000 records: 1000 few"):
        at.run("two")
    assert (len(at.rows("id")), len(at.bad())) == (30, 1)
    decide()
    few["sql"], noted["sql"] = "id < 5000", "note = 'b'"
    with pytest.raises(DecodingHalted, match="1000 of 1000 records: 1000 noted"):
        at.run("three")
    noted["sql"] = "note <> ''"
    at.run("four")
    assert (len(at.rows("id")), len(at.bad())) == (1030, 1)
    assert is_clean(at.harness, at.stream)


def validated(*files, **variables):
    """What `tideline validate` says, line by line, without the folder."""
    command = [sys.executable, "-m", "tideline", "validate", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    assert "Traceback" not in done.stderr
    said = (done.stdout + done.stderr).replace(f"{files[-1].parent}/", "")
    return done.returncode, [line for line in said.splitlines() if "runbook:" not in line]


FILE = """
kafka: {{connection: kafka_of_tests, topics: [{topic}]}}
table: {{uri: "{folder}/lake"}}
registry: {{connection: registry_of_tests}}
decode:
  value: {{format: avro, {schema}}}
  expect:
    - {{name: known, sql: id > 0}}
    - {{name: unknown, sql: idd > 0}}
    - name: unfinished
      sql: "id >"
"""


def written(folder, name, schema, topic="orders"):
    path = folder / f"{name}.yaml"
    path.write_text(f"stream: {name}{FILE.format(folder=folder, schema=schema, topic=topic)}")
    return path


@pytest.mark.slow  # half a minute beside other parts
def test_validate_knows_what_spark_refuses(tmp_path):
    """Columns where a schema file names them; else the grammar; of a fleet, the template's line."""
    (tmp_path / "v1.avsc").write_text(json.dumps(V1))
    plain = written(tmp_path, "plain", "framing: plain, schema: v1.avsc")
    asked = written(tmp_path, "asked", "subject: orders")
    stream = "".join(f"\n  {line}" for line in plain.read_text().splitlines())
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        f"fleet: shop\ntopics: [a]\nstream:{stream}".replace("stream: plain", "stream: '{name}'")
        .replace(", topics: [orders]", "")
        .replace("/lake", "/{topic}")
    )
    status, lines = validated(plain, asked, fleet)
    assert status == 2
    assert [line.split("Spark refuses it: ")[0] for line in lines] == [
        "plain.yaml:9: decode.expect.1.sql: got 'idd > 0'; ",
        "plain.yaml:11: decode.expect.2.sql: got 'id >'; ",
        "asked.yaml:11: decode.expect.2.sql: got 'id >'; ",
        "fleet.yaml:12: stream.decode.expect.1.sql: got 'idd > 0'; ",
        "fleet.yaml:14: stream.decode.expect.2.sql: got 'id >'; ",
    ]
    assert "`idd` cannot be resolved. Did you mean one of the following? [`id`" in lines[0]


@pytest.mark.slow  # half a minute beside other parts
def test_validate_online_asks_registry_and_brokers(typed, tmp_path):
    """Columns of before are known as well; a topic that is not there is named."""
    at = typed()
    at.register(V1)
    kafka = json.dumps(
        {
            "conn_type": "kafka",
            "extra": {"bootstrap.servers": at.harness.broker.bootstrap_servers},
        }
    )
    file = written(tmp_path, "asked", f"subject: {at.subject}", topic=at.harness.topic())
    absent = written(tmp_path, "absent", f"subject: {at.subject}", topic="not-there")
    status, lines = validated(
        "--online",
        file,
        absent,
        AIRFLOW_CONN_KAFKA_OF_TESTS=kafka,
    )
    assert status == 2
    assert [re.split("Spark|the cluster", line)[0] for line in lines] == [
        "asked.yaml:9: decode.expect.1.sql: got 'idd > 0'; ",
        "asked.yaml:11: decode.expect.2.sql: got 'id >'; ",
        "absent.yaml:2: kafka.topics: got 'not-there'; ",
        "absent.yaml:9: decode.expect.1.sql: got 'idd > 0'; ",
        "absent.yaml:11: decode.expect.2.sql: got 'id >'; ",
    ]
