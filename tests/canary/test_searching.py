"""The search finds what it is for: a canary that nobody would hear proves nothing."""

import base64
import gzip
import json
import os
import subprocess
import sys
import zipfile

import pytest

from devstack.process import wait_until
from tests.canary.searching import Canaries, Findings, search_folder, watched

SECRET = 'pa"ss/wörd+of kafka'
CANARIES = Canaries({"kafka": SECRET, "store": "another-secret"})


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_a_secret_is_found_however_it_is_written_down(before):
    """As it stands, quoted, in base64 whatever stands around it."""
    for form in (
        SECRET.encode(),
        json.dumps({"a": SECRET}).encode(),
        b"user:pa%22ss%2Fw%C3%B6rd%2Bof%20kafka@host",
        SECRET.encode().hex().encode(),
        base64.b64encode(f"{before}{SECRET}{before}".encode()),
        base64.urlsafe_b64encode(f"{before}{SECRET}!".encode()),
    ):
        assert CANARIES.within(before.encode() + form + b"end") == {"kafka"}, form


def test_nothing_else_is_found():
    """Parts of a secret are no secret."""
    assert CANARIES.within(b"another-secre t, password, kafka") == set()


def test_files_are_unpacked(tmp_path):
    """Compressed logs and zips hide nothing."""
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"password another-secret"))
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as packed:
        packed.writestr("job.json", json.dumps(SECRET))
    (tmp_path / "clean").write_text("nothing")
    findings = Findings()
    search_folder(CANARIES, findings, "folder", tmp_path)
    assert findings.looked_at == {"folder": 3}
    assert findings.found == {"folder": {"store, log.gz", "kafka, job.zip"}}


def test_a_process_is_looked_at_while_it_runs():
    """Its arguments and its environment."""
    findings = Findings()
    program = [sys.executable, "-c", "input()", "--token=another-secret"]
    env = {**os.environ, "PLANTED": SECRET}
    with (
        watched(CANARIES, findings, "no mark"),
        subprocess.Popen(program, stdin=-1, env=env) as process,
    ):
        try:
            wait_until(lambda: len(findings.found) == 2, "the watch saw nothing", 20)
        finally:
            process.kill()
    assert {
        place: {found.partition(",")[0] for found in all_found}
        for place, all_found in findings.found.items()
    } == {
        "arguments of processes": {"store"},
        "environment of other processes": {"kafka"},
    }
