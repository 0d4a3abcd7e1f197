"""How the control plane grows: partitions, history, streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from bench.pure_work import detection, planning
from bench.tables import Table, judged, milliseconds
from devstack.broker import Broker
from devstack.command_line import ROOT
from devstack.harness import StreamHarness
from devstack.ledger_history import closed_run, fabricate
from devstack.spark_apps import NoSpark
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.model.request import RunRequest
from tideline.operations.questions import dry_run
from tideline.stream.files import read_stream
from tideline.wiring import open_run

_STREAM = """stream: s{number}
kafka: {{topics: [orders]}}
table: {{uri: /lake/s{number}}}
schedule: "*/10 * * * *"
"""
_COMMITS = 40
"""Of both ledgers, so that their logs are equally long: in normal operation old entries are cleaned
up, and what is left grows with the history's files alone."""
_PARSE = """
import sys, time
import airflow.sdk, tideline.airflow.stream_dags
began = time.perf_counter()
sys.path.insert(0, {dags!r})
import tideline_streams
print(time.perf_counter() - began)
"""


def control_plane(folder: Path) -> Table:
    """Everything that must not grow faster than what it is about.

    Args:
        folder: Empty.
    """
    table = Table(
        "Control plane",
        "Medians of seven, in one process after the other; the ledgers' histories are fabricated as"
        " normal operation leaves them.",
        ("work", "small", "large", "large / small", "pass", "aim", "verdict"),
    )
    few, many = (timed(detection(n)) for n in (1_000, 10_000))
    work = "detect resets, 1,000 and 10,000 partitions, nothing found"
    _aimed_at(table, work, few, many, "<= 50 ms", many <= 0.05)
    few, many = (timed(planning(n)) for n in (1_000, 10_000))
    work = "divide ranges among 1,000 and 10,000 partitions, a part of the next line"
    _compared(table, work, few, many, None, None)
    _observed(table, folder / "kafka")
    short = _ledger(folder / "few", 1_000)
    long = _ledger(folder / "many", 1_000_000)
    targets = {"read": (1.5, 1.1), "advance": (2.0, 1.2), "find a run": (None, None)}
    for name, (passes, aim) in targets.items():
        few, many = timed(short[name]), timed(long[name])
        work = f"ledger: {name}, after 1,000 and 1,000,000 runs"
        _compared(table, work, few, many, passes, aim)
    _parsed(table, folder / "streams")
    return table


def _aimed_at(table: Table, work: str, few: float, many: float, aim: str, fits: bool) -> None:
    """Where seconds are an aim only; what has to pass are the requests, in a line of their own."""
    shown = (milliseconds(few), milliseconds(many), f"{many / few:.1f}x")
    table.add(work, *shown, "", aim, "aim" if fits else "pass")


def _compared(
    table: Table, work: str, few: float, many: float, passes: float | None, aim: float | None
) -> None:
    ratio = many / few
    shown = ("", "") if passes is None else (f"<= {passes}x", f"<= {aim}x")
    verdict = "published" if passes is None else judged(ratio, passes, aim)
    table.add(work, milliseconds(few), milliseconds(many), f"{ratio:.2f}x", *shown, verdict)


def timed(work: Callable[[], object], times: int = 7) -> float:
    """Median seconds of a piece of work, the first one untimed."""
    work()
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return median(found)


def _observed(table: Table, folder: Path) -> None:
    """Look at a real broker's partitions and plan; requests and seconds."""
    broker = Broker(folder, heap_mb=2048).start()
    try:
        harness = StreamHarness(broker, folder, "bench", keeps_spark_warm=True)
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        names = [f"t{n}" for n in range(10)]
        for name in names:
            admin.create_topics([NewTopic(name, 1000, 1)], timeout_ms=120_000)
            admin.wait_for_topics([name])
        admin.close()
        seconds, requests = [], []
        for count in (1, 10):
            kafka = {"connection": harness.connection, "topics": names[:count]}
            stream = harness.stream(name=f"s{count}", kafka=kafka)

            def look(stream: object = stream) -> None:
                with open_run(stream, "look", RunRequest(), NoSpark()) as run:
                    dry_run(run)
                    requests.append(run.kafka.requests)

            seconds.append(timed(look, 5))
        few, many = seconds
        work = "plan and detect on a real broker, 1,000 and 10,000 partitions"
        fits = many <= 1.0 and many / few <= 10
        _aimed_at(table, work, few, many, "<= 1,000 ms and 10x", fits)
        most = max(requests)
        table.add(
            "requests of that, headroom apart (one leader)",
            str(requests[0]),
            str(most),
            f"{most / requests[0]:.1f}x",
            "<= 9",
            "",
            judged(most, 9),
        )
    finally:
        broker.stop()


def _ledger(folder: Path, runs: int) -> dict[str, Callable[[], object]]:
    """Current offsets, an advance, a look-up of an old run, after so many closed runs."""
    Ledger(DeltaLedgerStore(str(folder)), "s").update(lambda s: s.with_next_token())
    store = DeltaLedgerStore(str(folder))
    each = runs // _COMMITS
    for number in range(_COMMITS):
        entries = [closed_run(number * each + n) for n in range(each)]
        fabricate(store, history_slot("run", 4 * number * each, runs), entries)

    def fresh() -> Ledger:
        return Ledger(DeltaLedgerStore(str(folder)), "s")

    return {
        "read": lambda: fresh().read(),
        "advance": lambda: fresh().update(lambda s: s.with_next_token()),
        "find a run": lambda: fresh().find_run("run-00000500"),
    }


def history_slot(kind: str, commit: int, runs: int) -> str:
    """Where normal operation has put what closed in a commit, four commits to a run.

    The newest volume is still loose slots; those before are bound.
    """
    newest = 4 * runs // 100_000
    bound = commit // 100_000 < newest
    return (
        f"history:{kind}:v{commit // 100_000:06d}"
        if bound
        else f"history:{kind}:{commit // 1000:08d}"
    )


def _parsed(table: Table, folder: Path) -> None:
    """Read stream files, parse all Dags, and parse as one task's own process does."""
    folders = {}
    for count in (1, 1_000):
        folders[count] = folder / str(count)
        folders[count].mkdir(parents=True)
        for number in range(count):
            (folders[count] / f"s{number}.yaml").write_text(_STREAM.format(number=number))
    files = sorted(folders[1_000].glob("*.yaml"))
    one, all_of_them = (
        timed(lambda: read_stream(files[0])),
        timed(lambda: [read_stream(f) for f in files], 3),
    )
    _compared(table, "read 1 and 1,000 stream files", one, all_of_them, None, None)
    whole = [_parse(folders[count], None) for count in (1, 1_000)]
    work = "parse the Dag file, 1 and 1,000 streams"
    table.add(
        work,
        milliseconds(whole[0]),
        milliseconds(whole[1]),
        f"{whole[1] / whole[0]:.0f}x",
        "<= 8 s",
        "<= 3 s",
        judged(whole[1], 8, 3),
    )
    own = [_parse(folders[count], "s0") for count in (1, 1_000)]
    _compared(table, "a task's own parse, 1 and 1,000 streams", *own, 2.0, 1.2)


def _parse(streams: Path, wanted: str | None) -> float:
    """Median seconds of the Dag file's import, Airflow being there already."""
    env = {
        **os.environ,
        "TIDELINE_STREAMS": str(streams),
        "PYTHONPATH": str(ROOT / "plugins"),
        "AIRFLOW_HOME": str(streams.parent / "home"),
    }
    if wanted is not None:
        env["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = wanted
    program = _PARSE.format(dags=str(ROOT / "dags"))

    def seconds() -> float:
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        )
        return float(json.loads(done.stdout.splitlines()[-1]))

    return median(seconds() for _ in range(5))
