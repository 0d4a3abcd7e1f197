"""Every JSON object that leaves the program keeps its keys; the schema says the same."""

import argparse
import json
import pkgutil
import re
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest

import tideline.contract
import tideline.model
import tideline.rules
from devstack.command_line import ROOT
from tests.worlds.build import ID, planned
from tests.worlds.contract_objects import (
    BEGUN,
    CLOSED,
    CLUSTER,
    COORDINATES,
    DONE,
    FROZEN,
    HEAD,
    HERE,
    ISO,
    LOSS,
    OPEN,
    REWIND,
    SUPERSEDED,
    THERE,
)
from tests.worlds.output_schema import SCHEMA, assert_fits
from tideline.cli.main import build_parser
from tideline.contract import answers, building
from tideline.contract import building as parts
from tideline.contract.output_schema import COMMANDS, LISTS, OTHERS, output_schema
from tideline.contract.parts import Shape
from tideline.errors import ReplayUnavailable, ResetDetected, ServiceAway, StreamFileError
from tideline.ledger.move import Move
from tideline.ledger.state import Control, LedgerState
from tideline.model.offsets import OffsetRange
from tideline.model.plan import Gone
from tideline.rules.audit import Audit, Flaw

NOTICE = {"kind": "new_topic", "topic": "orders", "partition": None, "text": "followed"}


NOTHING_DECODED = {"decoded": None, "quarantined": None, "tombstones": None, "folded": None}


def test_the_schema_of_the_output_is_current():
    """`make schema` writes it."""
    assert (ROOT / "docs/output.schema.json").read_text() == output_schema()


def test_every_answer_has_a_definition_and_requires_all_its_keys():
    """A key that may be left out would be no contract; null says that there is no value."""
    for name, shapes in {**COMMANDS, **OTHERS}.items():
        assert name in SCHEMA["$defs"]
        for shape in shapes:
            definition = SCHEMA["$defs"][shape.__name__]
            assert sorted(definition["required"]) == sorted(definition["properties"])


def test_every_command_and_what_every_task_builds_has_a_definition():
    """Read from the parser and from the operators, and from no list of the schema's own."""
    actions = build_parser()._actions
    (commands,) = (a for a in actions if isinstance(a, argparse._SubParsersAction))
    assert {*commands.choices} - {"help"} == {*COMMANDS}  # which prints a page
    operators = [p.read_text() for p in (ROOT / "plugins/tideline/airflow").glob("*.py")]
    called = {name for text in operators for name in re.findall(r"\b(build_\w+)\(", text)}
    built = {getattr(building, n).__annotations__["return"] for n in called & {*vars(building)}}
    told = {s.__name__ for shapes in (*OTHERS.values(), LISTS.values()) for s in shapes}
    assert "answers.Erased" in built
    assert {name.rpartition(".")[2] for name in built} <= told


def test_every_time_has_one_form():
    """`+00:00`, as `datetime.isoformat` writes it; pydantic's own form ends in `Z`."""
    assert not [
        f"{shape.__name__}.{name}"
        for shape in descendants(Shape)
        for name, kind in get_type_hints(shape, include_extras=True).items()
        if has_bare_time(kind)
    ]


def descendants(shape):
    return [shape, *(d for child in shape.__subclasses__() for d in descendants(child))]


def test_no_shape_repeats_a_class_of_the_model():
    """What has the same fields is that class; these have a field in another form."""
    kept = {
        "Day": "its day is a text",
        "Explained": "a command's answer as a whole",
        "FleetTopic": "its times have an offset as digits, and a stored topic's have not",
        "Notice": "its kind is any text, so that a later version may add one",
    }
    inner = [*classes_in(tideline.model), *classes_in(tideline.rules)]
    known = {tuple(f.name for f in fields(kind)) for kind in inner if is_dataclass(kind)}
    shapes = [s for s in classes_in(tideline.contract) if issubclass(s, Shape)]
    assert {s.__name__ for s in shapes if tuple(s.model_fields) in known} == {*kept}


def classes_in(room):
    found = pkgutil.iter_modules(room.__path__, f"{room.__name__}.")
    modules = [import_module(module.name) for module in found]
    return [k for module in modules for k in vars(module).values() if isinstance(k, type)]


@pytest.mark.parametrize("page", ["output.schema.json", "page.openapi.json"])
def test_a_definition_made_of_a_class_of_the_model_speaks_of_json(page):
    """Its docstring has sections and values of Python; its name is the contract's."""
    text = (ROOT / "docs" / page).read_text()
    assert not re.findall(r"Args:|Raises:|\bNone\b|OffsetRange|PartitionIdentity", text)
    found = json.loads(text)
    named = found.get("$defs") or found["components"]["schemas"]
    assert "`untold`: Those of which" in named["StreamStatus"]["description"]
    assert named["Offsets"]["title"] == "Offsets"


def has_bare_time(kind):
    if get_origin(kind) is Annotated:
        return False
    if is_dataclass(kind):
        return any(map(has_bare_time, get_type_hints(kind, include_extras=True).values()))
    return kind is datetime or any(map(has_bare_time, get_args(kind)))


def test_a_run_with_everything():
    data = building.build_run(DONE).data()
    assert_fits("run", data)
    incident = data.pop("incidents")[0]
    assert data == {
        "status": "done",
        "run_id": "run-1",
        "plan_id": "plan-1",
        "lane": "live",
        "ranges": [{**COORDINATES, "rows": 3}],
        "rows": 3,
        **NOTHING_DECODED,
        "offset_lag": 0,
        "replayed": False,
        "table_version": 4,
        "notices": [
            {"kind": "new_topic", "topic": "orders", "partition": None, "text": "followed"}
        ],
        "superseded_by": None,
        "window": "[2026-01-01T12:00:00.123456Z, 2026-01-02T12:00:00.123456Z)",
        "reason": "again",
        "by": None,
    }
    assert incident == {
        "id": "incident-1",
        "class": "retention_loss",
        "expected": "the log from 1",
        "actual": "the log from 9",
        "topic": "orders",
        "topic_id": ID,
        "partition": 0,
        "intervals": [
            {"start_offset": 1, "end_offset": 5},
            {"start_offset": 7, "end_offset": 9},
        ],
        "detail": None,
        "decidable": True,
        "lost_from": ISO,
        "lost_until": "2026-01-01T13:00:00.123456+00:00",
        "backfill": None,
        "cause": LOSS.cause,
        "lost_start": 1,
        "lost_end": 9,
        "offsets_at_stake": 6,
        "next_step": LOSS.next_step,
        "run_id": "run-1",
        "opened_at": ISO,
        "plan_id": "plan-1",
        "choices": ["accept_loss", "fail"],
        "decision": "accept_loss",
        "decided_by": "ann",
        "decided_at": ISO,
        "reason": "it was meant",
        "closed_at": ISO,
        "outcome": "6 offsets lost",
        "removed_in_version": 7,
        "runbook": "docs/incidents-and-errors.md#retention_loss",
    }


def test_a_run_with_nothing():
    data = building.build_run(SUPERSEDED).data()
    assert_fits("run", data)
    assert data == {
        "status": "nothing_to_do",
        "run_id": "run-3",
        "plan_id": None,
        "lane": "backfill",
        "ranges": [],
        "rows": 0,
        **NOTHING_DECODED,
        "offset_lag": 0,
        "replayed": False,
        "table_version": None,
        "incidents": [],
        "notices": [],
        "superseded_by": "run-4",
        "window": None,
        "reason": None,
        "by": None,
    }


def test_a_replay_does_not_say_how_much_is_unread():
    """Its plan knew what was unread then."""
    data = building.build_run(DONE, replayed=True).data()
    assert_fits("run", data)
    assert (data["status"], data["replayed"], data["offset_lag"]) == ("done", True, None)


def test_a_run_that_failed_says_what_the_ledger_knows_of_it():
    """A frozen plan's ranges are named although no row is verified; the lag is unknown."""
    data = building.build_run_failure(ResetDetected("halted", incidents=(OPEN,)), FROZEN).data()
    assert_fits("RunFailure", data)
    assert data["ranges"] == [{**COORDINATES, "rows": None}]
    assert (data["status"], data["error"], data["retriable"]) == ("halted", "ResetDetected", False)
    assert (data["message"], data["offset_lag"], data["rows"]) == ("halted", None, 0)
    assert [i["id"] for i in data["incidents"]] == ["incident-2"]
    data = building.build_run_failure(ServiceAway("away"), SUPERSEDED).data()
    assert_fits("RunFailure", data)
    assert (data["status"], data["ranges"], data["incidents"]) == ("retry", [], [])


def test_an_error():
    data = building.build_failure(ServiceAway("away")).data()
    assert_fits("Failure", data)
    assert data == {
        "status": "retry",
        "error": "ServiceAway",
        "message": "away",
        "retriable": True,
        "incidents": [],
        "runbook": ["docs/incidents-and-errors.md#serviceaway"],
    }
    problem = {
        "file": "f.yaml",
        "line": 1,
        "key": "kafka",
        "value": "nothing",
        "allowed": "required",
    }
    data = building.build_failure(StreamFileError("refused", problems=[problem])).data()
    assert_fits("validate", data)
    assert data["problems"] == [problem]


def test_rows_of_a_plan_that_another_run_has_finished_count_once():
    """They stand at the run whose plan it was."""
    own = building.build_summary(DONE)
    other = building.build_summary(replace(DONE, run_id="later", finishes=DONE.run_id))
    assert (own.finishes, own.rows is None) == (None, False)
    assert (other.finishes, other.plan_id) == (DONE.run_id, own.plan_id)
    assert (other.offsets, other.rows, other.table_version) == (None, None, None)


def test_a_plan():
    dry_run = SimpleNamespace(
        proposal=SimpleNamespace(
            ranges=(planned(1, 5),),
            gone=(Gone("orders", 0, (OffsetRange(0, 1),), uncertain=True),),
            estimated_records=4,
            estimated_bytes=None,
            offset_lag=7,
        ),
        findings=(LOSS, CLUSTER),
        incidents=(OPEN,),
        notices=DONE.notices,
        headroom=HEAD.headroom,
    )
    data = building.build_plan("orders", dry_run).data()
    assert_fits("plan", data)
    observed = {"leader_epoch": 3, "log_start_offset": 0}
    observed |= {"high_watermark": 5, "last_stable_offset": 5}
    assert data["ranges"] == [{**COORDINATES, **observed}]
    lost = [{"start_offset": 0, "end_offset": 1}]
    assert data["gone"] == [
        {"topic": "orders", "partition": 0, "intervals": lost, "uncertain": True}
    ]
    assert [f["class"] for f in data["findings"]] == ["retention_loss", "cluster_changed"]
    assert data["findings"][1]["lost_start"] is None
    assert (data["estimated_records"], data["estimated_bytes"], data["offset_lag"]) == (4, None, 7)
    known, unknown = data["headroom"]
    assert known.pop("seconds_left") < 0
    assert known == {
        "topic": "orders",
        "partition": 0,
        "next_offset": 5,
        "written_at": ISO,
        "retention_ms": 1000,
    }
    assert (unknown["written_at"], unknown["seconds_left"]) == (None, None)


def test_a_ledger():
    state = LedgerState(3, Control("id", "orders", incidents=(OPEN,)), HEAD, {"run-2": FROZEN})
    data = building.build_ledger(
        "orders", "/l", state, [DONE, SUPERSEDED], [CLOSED], [REWIND, BEGUN]
    ).data()
    assert_fits("ledger", data)
    assert (data["location"], data["stream"], data["version"]) == ("/l", "orders", 3)
    assert data["head"][1] == {
        "topic": "orders",
        "topic_id": ID,
        "generation": 0,
        "partition": 1,
        "next_offset": 0,
        "leader_epoch": None,
        "seen_end": None,
        "followed": True,
    }
    aside = replace(state, head=replace(HEAD, set_aside=("orders",)))
    shown = building.build_ledger("orders", "/l", aside, [], [], []).data()["head"]
    assert {p["followed"] for p in shown} == {False}
    identity = {"topic_id": ID, "generation": 0, "partition": 0}
    intervals = [{"start_offset": 1, "end_offset": 5}]
    assert data["coverage"] == [{"identity": identity, "intervals": intervals}]
    assert [i["id"] for i in data["incidents"]] == ["incident-2", "incident-1"]
    done, superseded, frozen = data["plans"]
    assert (done["run_id"], done["offsets"], done["rows"], done["table_version"]) == (
        "run-1",
        4,
        3,
        4,
    )
    assert (superseded["plan_id"], superseded["offsets"], superseded["ranges"]) == (None, None, [])
    assert (frozen["status"], frozen["rows"], frozen["table_version"]) == ("planned", None, None)
    assert done["ranges"] == [{**COORDINATES, "rows": None}]
    assert data["rewinds"][0] == {
        "rewind_id": "rewind-1",
        "to_run": "run-1",
        "reason": "bad rows",
        "by": "ann",
        "begun_at": ISO,
        "finished_at": ISO,
        "removed_rows": 4,
        "table_version": 7,
        "undone_runs": ["run-2"],
        "lost": [{**COORDINATES, "rows": 2, "reason": "expired"}],
    }
    assert data["rewinds"][1]["finished_at"] is None


def test_an_incident_with_what_it_touches():
    """The key `doubtful` is older than the word in the code."""
    details = [
        parts.build_incident_details(CLOSED, [(4, DONE)]),
        parts.build_incident_details(OPEN, []),
    ]
    data = answers.Incidents(incidents=details).data()
    assert_fits("incident", data)
    touched, untouched = data["incidents"]
    assert touched["doubtful"] == [["orders", ID, 0, 0, 1, 5]]
    assert (touched["affected_versions"], touched["affected_runs"]) == ([4], ["run-1"])
    assert (untouched["doubtful"], untouched["affected_versions"]) == ([], [])
    assert (untouched["topic"], untouched["decision"], untouched["closed_at"]) == (None, None, None)
    assert "unverified" not in touched
    shown = parts.build_incident(OPEN)
    assert_fits("resolve", answers.Resolution(incident=shown, incidents=[shown]).data())


def test_an_audit():
    flaw = Flaw(None, ID, 0, 0, 1, 5, 4)
    nameless = {**COORDINATES, "topic": None, "offsets": 4}
    data = building.build_audit(Audit(9, (flaw,), (), (), (), (), (), 3), [LOSS]).data()
    assert_fits("audit", data)
    assert data["gaps"] == [nameless]
    assert (data["clean"], data["rows"], data["table_version"]) == (False, 9, 3)
    assert data["findings"][0]["class"] == "retention_loss"
    data = building.build_audit(Audit(9, (), (), (), (), (), (flaw,)), ()).data()
    assert_fits("audit", data)
    assert (data["clean"], data["unverified"], data["table_version"]) == (True, [nameless], None)
    assert not building.build_audit(Audit(0, (), (), (), (), (), ()), [CLUSTER]).clean


def test_a_rewind():
    data = building.build_rewound(REWIND, HEAD).data()
    assert_fits("Rewound", data)
    assert (data["status"], data["removed_rows"], data["table_version"]) == ("done", 4, 7)
    assert [p["next_offset"] for p in data["head"]] == [5, 0]
    assert building.build_rewound(BEGUN, HEAD).table_version == HEAD.table_version
    data = building.build_not_rewound("run-1", HEAD).data()
    assert_fits("NotRewound", data)
    del data["head"]
    assert data == {
        "status": "nothing_to_do",
        "rewind_id": None,
        "to_run": "run-1",
        "removed_rows": 0,
        "table_version": 9,
        "undone_runs": [],
        "lost": [],
    }
    error = ReplayUnavailable("lost for good", lost=[REWIND.lost[0]], rows=2)
    data = building.build_rewind_failure(error, "run-1").data()
    assert_fits("RewindFailure", data)
    assert (data["status"], data["to_run"]) == ("halted", "run-1")
    assert data["lost"] == [{**COORDINATES, "rows": 2, "reason": "expired"}]


@pytest.mark.parametrize(
    ("move", "moved", "source"),
    [
        (Move(HERE, THERE), True, "/l"),
        (Move(HERE, THERE, is_empty=True), False, "/l"),
        (Move(None, THERE), False, None),
    ],
)
def test_a_move(move, moved, source):
    data = building.build_move("orders", move).data()
    assert_fits("move-ledger", data)
    assert data == {
        "stream": "orders",
        "moved": moved,
        "from": source,
        "location": "db: orders",
    }
