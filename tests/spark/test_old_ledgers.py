"""Runs go on, and back, in ledgers that an earlier version wrote (tests/data/ledgers)."""

import json

import pytest

from devstack.broker import Broker
from tests.worlds.ledgers import Recorded, unpack
from tests.worlds.streams import decide, head, table_rows, table_version
from tideline.model.request import RunRequest
from tideline.operations.questions import audit_stream
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.run_batch import run_batch
from tideline.wiring import open_run


@pytest.fixture(scope="module")
def recorded_broker(tmp_path_factory):
    """The broker of the recordings: the same cluster id, topic ids and records."""
    folder = tmp_path_factory.mktemp("recorded-kafka")
    unpack("kafka", folder)
    found = Broker(folder).start()
    yield found
    found.stop()


@pytest.fixture(params=["delta", pytest.param("sql", marks=pytest.mark.slow)])
def recorded(request, recorded_broker, tmp_path, monkeypatch):
    """A recorded ledger with its table, connected to its cluster."""
    settings = {"bootstrap.servers": recorded_broker.bootstrap_servers}
    connection = {"conn_type": "kafka", "extra": settings}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    return Recorded(request.param, tmp_path)


def run(stream, run_id, spark):
    with open_run(stream, run_id, RunRequest(), spark) as context:
        return run_batch(context)


def rewind(stream, spark, to_run):
    with open_run(stream, "rewind", RunRequest(), spark) as context:
        return rewind_stream(context, RewindRequest(to_run, "try", "ann", accept_loss=True))


def audit(stream):
    with open_run(stream, "audit", RunRequest()) as context:
        return audit_stream(context)


def test_an_old_ledger_s_stream_goes_on_and_back(recorded, spark):
    """An open plan is landed, decisions are carried out, and a rewind undoes old and new runs."""
    stream = recorded.stream()
    a, b = (f"{recorded.stream_name}-{suffix}" for suffix in "ab")
    before = table_rows(stream)
    assert head(stream)[a, 0] == 30
    # The frozen plan of the killed run: exactly its offsets, as the earlier version chose them.
    landed = run(stream, "live-11-open", spark)
    assert (landed.status, landed.table_commit.rows) == ("done", 5)
    assert set(table_rows(stream)) - set(before) == {(a, 0, n) for n in range(30, 35)}
    # One decision was made then, the other is made now; both lost offsets 5 up to the log start.
    decide(stream, "accept_loss", "incident-3")
    for number in range(3):
        run(stream, f"after-{number}", spark)
    ledger = recorded.ledger()
    assert ledger.read().control.incidents == ()
    assert (head(stream)[b, 1], head(stream)[b, 2]) == (15, 15)
    found, findings = audit(stream)
    assert (found.clean, findings) == (True, ())
    # Back past runs of both versions, to a head that the earlier one kept.
    version = table_version(stream)
    done = rewind(stream, spark, "live-5")
    assert {"live-6", "live-8", "live-11-open", "after-0"} <= set(done.undone_runs)
    assert table_version(stream) > version
    closing = next(c for c in ledger.closings() if c.first.run_id == "live-5")
    then = ledger.kept_head(closing.first.head_key)
    assert head(stream) == {p.topic_partition: p.next_offset for p in then.positions}
    assert ledger.read().head.accepted_loss == then.accepted_loss
    found, findings = audit(stream)
    assert found.clean
    assert [(f.kind, f.place) for f in findings] == [  # the losses are before the head again
        ("retention_loss", f"{b}-1"),
        ("retention_loss", f"{b}-2"),
    ]
    assert all(offset < head(stream)[topic, number] for topic, number, offset in table_rows(stream))
