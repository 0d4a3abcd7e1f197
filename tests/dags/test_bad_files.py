"""One bad stream file never takes the other Dags away."""

import os

import pytest
from airflow.dag_processing.dagbag import DagBag

from tideline.airflow.dags import operation_dags
from tideline.airflow.stream_dags import stream_dags

GOOD = "stream: orders\nkafka: {topics: [orders]}\ntable: {uri: /data/lake/orders}\n"
LONG = "a" * 240 + ".md"
"""A topic may be called so; a file may not, with a path before it."""


@pytest.fixture
def streams(tmp_path):
    """A folder with one good stream."""
    (tmp_path / "orders.yaml").write_text(GOOD)
    return tmp_path


BAD = {
    "a text that ends like a file's name": GOOD.replace("[orders]", f"[{LONG}, {LONG}]"),
    "a path that ends like a file's name": GOOD
    + "decode:\n  value: {format: avro, schema: /etc/no/such.md}\n"
    + "  table: {uri: /data/b}\n  quarantine: {uri: /data/c}\n",
    "a tag that Airflow refuses": GOOD + f"airflow: {{tags: [{'t' * 101}]}}\n",
    "an owner that is no text": GOOD + "airflow: {owner: [a]}\n",
    "brackets without end": GOOD + "x: " + "[" * 100_000,
    "aliases": "a: &a [1, 2]\nb: [*a, *a]\n" + GOOD,
    "no UTF-8": GOOD + "# \xff\xfe",
    "control characters": GOOD + "timezone: \x07\n",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_becomes_a_dag_that_says_so_beside_the_good_ones(streams, name):
    """Notes that end in .md were opened as a file, and then all Dags were gone."""
    bad = BAD[name].replace("stream: orders", "stream: bad")
    (streams / "bad.yaml").write_text(bad, encoding="latin-1")
    dags = {dag.dag_id: dag for dag in stream_dags(None, streams)}
    assert set(dags) == {"orders", "bad"}
    assert "refused" in dags["bad"].tags
    assert str(streams / "bad.yaml") in dags["bad"].doc_md
    assert len(dags["orders"].tasks) == 6


def test_a_pipe_is_no_stream_file(streams):
    """Reading one would wait for a writer, and with it every Dag of the file."""
    os.mkfifo(streams / "pipe.yaml")
    dags = {dag.dag_id: dag for dag in stream_dags(None, streams)}
    assert "not a regular file" in dags["pipe"].doc_md
    assert len(dags["orders"].tasks) == 6


def test_a_refused_file_takes_no_stream_s_place(streams, tmp_path):
    """Airflow finds each stream's own Dag, whatever other files are called or say.

    But where a refused file goes before, as `a_b.yml` before `c.yaml`, the stream has none.
    """
    again = GOOD.replace("lake/orders", "lake/others")
    elsewhere = GOOD.replace("orders", "a_b")
    files = {
        "orders.yml": "stream: [\n",
        "second.yaml": again,
        "a b.yaml": "stream: [\n",
        "second.refused.yaml": elsewhere.replace("stream: a_b", "stream: second.refused"),
        "c.yaml": elsewhere,
        "a_b.yml": "stream: [\n",
    }
    for name, text in files.items():
        (streams / name).write_text(text)
    folder = tmp_path / "dags"
    folder.mkdir()
    lines = ["from tideline.airflow.dags import stream_dags  # airflow dag"]
    lines.append(f"globals().update(stream_dags({str(streams)!r}))")
    (folder / "all.py").write_text("\n".join(lines))
    bag = DagBag(str(folder))
    assert not bag.import_errors
    good = {"orders": "lake/orders", "second.refused": "lake/a_b"}
    bad = {"orders.refused", "second.refused.refused", "a_b", "a_b.refused", "c.refused"}
    assert set(bag.dags) == {*good, *bad}
    for dag_id, dag in bag.dags.items():
        assert ("refused" in dag.tags) == (dag_id in bad)
        assert good.get(dag_id, "refused") in f"{dag.doc_md} refused"
    assert "lake/others" not in bag.dags["orders"].doc_md
    assert "a_b.yml goes before, and is refused" in bag.dags["c.refused"].doc_md


def test_a_site_that_takes_one_dag_gets_no_other(streams, tmp_path):
    """Nor a refused file's: what its own Dag file does not name is not there."""
    (streams / "bad.yaml").write_text("stream: [\n")
    (streams / "others.yaml").write_text(GOOD.replace("orders", "others"))
    folder = tmp_path / "dags"
    folder.mkdir()
    lines = ["from tideline.airflow.dags import stream_dags  # airflow dag"]
    lines.append(f"one = stream_dags({str(streams)!r})['orders']")
    (folder / "one.py").write_text("\n".join(lines))
    assert set(DagBag(str(folder)).dags) == {"orders"}


@pytest.mark.parametrize("dag_id", sorted(operation_dags()))
def test_no_stream_takes_an_operation_s_place(streams, dag_id):
    """Airflow allows an id once: with two files that have it, either one may win."""
    (streams / "zebra.yaml").write_text(GOOD.replace("stream: orders", f"stream: {dag_id}"))
    (streams / f"{dag_id}.yaml").write_text("stream: [\n")
    dags = {dag.dag_id: dag for dag in stream_dags(None, streams)}
    assert set(dags) == {"orders", "zebra", f"{dag_id}.refused"}
    assert "name of an operation's Dag" in dags["zebra"].doc_md
