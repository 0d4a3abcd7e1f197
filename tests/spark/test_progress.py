"""How far a run is, while a real Spark works for it."""

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

from devstack.process import wait_until
from tideline.spark.session import progress_of, report

ROOT = Path(__file__).parents[2]


def test_spark_s_own_status_tells_tasks_and_records(in_process_spark):
    """Tasks of one group only, while they run and after."""
    session = in_process_spark.session
    context, ended, lines = session.sparkContext, threading.Event(), []
    assert progress_of(context, "nobody") == {}
    context.setJobGroup("watched", "watched")
    told = threading.Thread(target=report, args=(context, "watched", lines.append, ended))
    told.start()
    assert session.range(0, 1000, 1, 4).rdd.map(lambda row: row.id).count() == 1000
    wait_until(lambda: lines, "nothing was told", 60)
    ended.set()
    told.join()
    context.setJobGroup("", "")
    assert lines[-1].startswith(b'progress {"tasks": ')
    assert (progress_of(context, "watched")["tasks"], progress_of(context, "nobody")) == (4, {})


def test_a_terminal_sees_progress_and_the_answer_stays_clean(harness, sockets):
    """Standard error is a terminal: what is shown there ends with an empty line."""
    harness.create(partitions=2)
    harness.send(30_000)
    harness.send(20_000, partition=1)
    file = harness.stream_file(spark={"keep_warm_seconds": 0})
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tideline", "run", str(file), "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins")},
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = []
    reader = threading.Thread(target=lambda: shown.extend(_lines(ours)), daemon=True)
    reader.start()
    output, _ = process.communicate(timeout=300)
    reader.join(30)
    os.close(ours)
    text = b"".join(shown).decode()
    assert process.returncode == 0, text
    assert output.startswith(b"{")
    assert "waiting for Spark" in text
    steps = re.findall(r"(\d+) of 2 partitions done, ([\d,]+) of 50,000 offsets read", text)
    assert steps, text
    counts = [(int(done), int(read.replace(",", ""))) for done, read in steps]
    assert counts == sorted(counts)
    assert re.search(r"\r\x1b\[2K\w+: 50000 rows", text), text
    assert "WARN" not in text


def _lines(descriptor):
    while True:
        try:
            found = os.read(descriptor, 65536)
        except OSError:  # the last writer has gone
            return
        if not found:
            return
        yield found
