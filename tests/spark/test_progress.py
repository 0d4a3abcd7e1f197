"""How far a run is, while a real Spark works for it."""

import re
import subprocess
import threading

from devstack.process import wait_until
from tests.worlds.terminal import terminal
from tideline.spark.session import progress_of, report


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
    with terminal("run", file, "--json", stdout=subprocess.PIPE) as shown:
        status, output = shown.finish()
    assert status == 0, shown.text
    assert output.startswith(b"{")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.text)
    assert "waiting for Spark" in text
    assert text.index("starting Spark") < text.index("Spark is planning the job")
    steps = re.findall(r"(\d+) of 2 partitions done, ([\d,]+) of 50,000 offsets read", text)
    assert steps, text
    counts = [(int(done), int(read.replace(",", ""))) for done, read in steps]
    assert counts == sorted(counts)
    assert re.search(r"\r\w+: 50,000 rows", text), text
    assert "WARN" not in text
    with terminal("audit", file, "--json", stdout=subprocess.PIPE) as shown:
        assert shown.finish()[0] == 0
    assert "reading the tables of orders, and asking its brokers" in shown.text
