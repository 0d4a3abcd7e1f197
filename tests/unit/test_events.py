"""Asset events, the return values of tasks, and `.stack.json` keep their keys."""

import json

from tests.worlds.contract_objects import (
    COORDINATES,
    DONE,
    REWIND,
)
from tests.worlds.output_schema import assert_fits
from tideline.contract import answers, events
from tideline.rules.audit import Audit


def test_what_waits_for_a_table_is_told():
    data = events.build_landed_event(DONE).data()
    assert_fits("landed-event", data)
    assert data == {
        "plan_id": "plan-1",
        "lane": "live",
        "rows": 3,
        "table_version": 4,
        "ranges": [{**COORDINATES, "rows": 3}],
    }
    data = events.AuditedEvent.of(Audit(9, (), (), (), (), (), (), 3)).data()
    assert_fits("audited-event", data)
    assert data == {"rows": 9, "table_version": 3}


def test_what_tasks_return():
    data = events.TableCommit.model_validate(DONE.table_commit).data()
    assert_fits("xcom-ingest_ranges", data)
    assert data == {"table_id": "table", "version": 4, "token": 2, "rows": 3, "bytes": 99}
    data = events.build_rewind_report("run-1", REWIND).data()
    assert_fits("RewindReport", data)
    assert (data["removed_rows"], data["undone_runs"]) == (4, ["run-2"])
    (lost,) = data["lost"]
    assert (lost["rows"], lost["expired"], lost["planned"]["end_offset"]) == (2, True, 5)
    data = events.build_rewind_report("run-1", None).data()
    assert_fits("NoRewindReport", data)
    assert data == {"rewind_id": None, "to_run": "run-1", "removed_rows": 0}


def test_the_rest():
    """What has no object of the core behind it."""
    assert_fits("validate", answers.Validation(streams=["orders"]).data())
    counts = {"lost": 0, "duplicate": 0, "foreign": 0, "different": 0}
    typed = {"typed": 7, "tombstones": 1, "quarantined": 1, "redriven": 1, "typed_exact": True}
    raw = {"produced": 9, "rows": 9, "equal": 9, "exact": True, "clean": True}
    demo = answers.Demo(**raw, **counts, **typed, status="done", seconds=60)
    assert_fits("demo", demo.data())
    process = {"name": "kafka", "pid": 7, "started": "boot:1", "log": "/k.log"}
    stack = answers.StackFile(
        bootstrap_servers="127.0.0.1:1",
        airflow_url="http://127.0.0.1:2",
        username="admin",
        password="secret",
        streams_folder="/s",
        processes=[process],
    )
    assert_fits("stack-file", stack.data())
    assert json.loads(json.dumps(stack.data()))["processes"] == [process]
