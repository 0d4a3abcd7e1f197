"""What a run says of itself: each step ends with a line, and that line has the numbers.

In Airflow each step has a log of its own: one that says nothing proves nothing to its reader.
"""

import ast
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tideline.decoding.decode_steps import decode_rows, verify_decoded
from tideline.folding.fold_steps import fold_changes, verify_current
from tideline.landing.context import hold_lane
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)

STEPS = (
    *(plan_offset_ranges, detect_earliest_reset, resolve_reset),
    *(ingest_ranges, verify_ranges, advance_offsets),
    *(decode_rows, verify_decoded, fold_changes, verify_current),
)
IN_LANE = 6
PACKAGE = Path(__file__).parents[2] / "plugins" / "tideline"


@pytest.fixture
def said(memory, caplog):
    """What each step of a run says, by its name."""
    caplog.set_level(logging.INFO, "tideline")

    def run(run_id):
        found = {}
        for number, step in enumerate(STEPS):
            context = memory.open(run_id)
            caplog.clear()
            if number < IN_LANE:
                with hold_lane(context):
                    step(context)
            else:
                step(context)
            found[step.__name__] = [r.getMessage() for r in caplog.records]
        return found

    return run


@pytest.fixture
def typed(memory):
    memory.configure(
        decode={"value": {"format": "json"}},
        current={"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}},
    )
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.grow(2)
    return memory


def test_each_step_says_what_it_has_done(typed, said):
    typed.send(500, 0)
    typed.send(1, 1)
    found = said("one")
    assert [name for name, lines in found.items() if not lines] == []
    assert found["plan_offset_ranges"][-1] == "to read: 501 offsets of 2 partitions"
    assert found["resolve_reset"] == ["nothing to resolve"]
    assert (
        found["verify_ranges"][-1] == "verified: 501 rows for 501 planned offsets, table version 1"
    )
    assert found["advance_offsets"][-1] == "next offsets: orders-0: 0 -> 500, orders-1: 0 -> 1"
    assert found["decode_rows"][0] == "to decode: 501 offsets"
    uri = typed.stream.table.uri
    for step, table in ("ingest_ranges", uri), ("fold_changes", f"{uri}_current"):
        (line,) = (each for each in found[step] if each.startswith("committed"))
        assert f" rows, table {table} version " in line
    assert found["verify_decoded"][-1] == "decoded 501, quarantined 0, tombstones 0"


def test_a_run_without_work_says_so_in_each_step_that_runs(typed, said):
    typed.send(5)
    said("one")
    found = said("two")
    assert found["plan_offset_ranges"][-1] == "to read: nothing"
    assert found["detect_earliest_reset"][-1] == "up to date"


def test_each_operator_logs_a_sentence_or_runs_a_step_that_does():
    """The steps of a stream's Dag, shards of a fleet, audit, erasure, rewind and the others."""
    by_steps = tuple(f"{step.__name__}(" for step in STEPS)
    operators, silent = [], []
    for file in sorted((PACKAGE / "airflow").glob("*.py")):
        for cls in ast.walk(ast.parse(file.read_text())):
            for part in cls.body if isinstance(cls, ast.ClassDef) else ():
                if isinstance(part, ast.FunctionDef) and part.name == "execute":
                    operators.append(cls.name)
                    if not {w for w in ("self.log.", *by_steps) if w in ast.unparse(part)}:
                        silent.append(cls.name)
    assert len(operators) > len(STEPS)
    assert silent == ["RefusedStream"]  # whose error is all that it says


def test_no_log_has_a_line_of_the_client_s_own(tmp_path):
    """Whoever connects imports it in one place; a log that takes everything has none of its lines.

    The broker is away: the client would tell each try.
    """
    code = (
        "import logging, sys; logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)\n"
        "from tideline.kafka.kafka_cluster import KafkaCluster\n"
        "from tideline.kafka.kafka_settings import KafkaSettings\n"
        "from tideline.errors import ServiceAway\n"
        "away = {'bootstrap.servers': '127.0.0.1:9', 'default.api.timeout.ms': '300'}\n"
        "try:\n    KafkaCluster(KafkaSettings('k', away)).observe([], {})\n"
        "except ServiceAway as error:\n    print(error)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 1, lines
    assert "connection refused" in lines[0]
    assert done.stderr == ""
