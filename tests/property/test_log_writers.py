"""Six processes write one log, three by our client, three by delta-rs, and are killed meanwhile."""

import json
import os
import random
import selectors
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tideline.delta.delta_log import DeltaLog

ROOT = Path(__file__).parents[2]
COMMITS = int(os.environ.get("TIDELINE_TEST_COMMITS", "900"))
KILL_AFTER = 40
"""Acknowledged commits between two kills."""


class Writers:
    """Programs by what they are called, each begun again under another name once it was killed."""

    def __init__(self, folder):
        self.folder, self.begun, self.chosen = str(folder), 0, selectors.DefaultSelector()
        for kind in ("ours", "theirs") * 3:
            self.begin(kind)

    def begin(self, kind):
        self.begun += 1
        command = [sys.executable, str(Path(__file__).with_name("log_writer.py"))]
        program = subprocess.Popen(
            [*command, self.folder, kind, f"w{self.begun}"],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'plugins'}"},
        )
        self.chosen.register(program.stdout, selectors.EVENT_READ, (program, kind))

    def said(self):
        """Lines as they come."""
        while True:
            for key, _ in self.chosen.select():
                if key.fileobj not in self.chosen.get_map():
                    continue  # killed since it was chosen, and read to its end
                line = key.fileobj.readline()
                assert line, "a writer has ended by itself"
                yield line.decode().split()

    def kill(self, key):
        program, kind = key.data
        program.send_signal(signal.SIGKILL)
        self.chosen.unregister(key.fileobj)
        lines = program.stdout.read().decode().splitlines(keepends=True)
        program.wait()
        return kind, [line.split() for line in lines if line.endswith("\n")]


@pytest.mark.slow
def test_six_writers_under_kills_lose_nothing(tmp_path):
    """What was acknowledged is there, once, at the version that was said; both readers agree."""
    folder, rng = tmp_path / "t", random.Random(1)
    schema = pa.schema([("slot", pa.string()), ("key", pa.string())])
    given = {"delta.checkpointInterval": "10"}
    DeltaTable.create(str(folder), schema, partition_by=["slot"], configuration=given)
    writers, known, kills = Writers(folder), {}, 0
    try:
        for version, path in writers.said():
            known[path] = int(version)
            if len(known) >= COMMITS:
                break
            if len(known) // KILL_AFTER > kills:
                kills += 1
                kind, more = writers.kill(rng.choice([*writers.chosen.get_map().values()]))
                known |= {path: int(version) for version, path in more}
                writers.begin(kind)
    finally:
        for key in [*writers.chosen.get_map().values()]:
            known |= {path: int(version) for version, path in writers.kill(key)[1]}
    assert kills > 10
    there = Counter[str]()
    at = {}
    for file in sorted(Path(folder, "_delta_log").glob("*.json")):
        for line in file.read_text().splitlines():
            if "add" in (action := json.loads(line)):
                there[action["add"]["path"]] += 1
                at[action["add"]["path"]] = int(file.name[:20])
    assert {path: at.get(path) for path in known} == known
    assert {*there.values()} == {1}
    table, state = DeltaTable(str(folder)), DeltaLog(str(folder), {}).newest()
    assert (table.version(), {*state.adds}) == (state.version, {*there})
    paths = pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()
    assert sorted(paths) == sorted(there)
    unasked = {path for path in there if path not in known}
    assert len(unasked) <= kills + 6
