"""How the control plane grows: partitions, history, streams. Prints a table of growth ratios."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tests.integration.test_costs import closed, fabricate
from tests.unit.build import head, observation, position, seen, topic

from tideline.adapters.ledger_delta import DeltaLedgerStore
from tideline.adapters.stream_files import read_stream
from tideline.core.detection import find_resets
from tideline.core.observation import TableObservation
from tideline.core.planning import plan_ranges
from tideline.ledger import Ledger

_STREAM = """stream: s{number}
kafka: {{topics: [orders]}}
table: {{uri: /lake/s{number}}}
schedule: "*/10 * * * *"
"""


_COMMITS = 40
"""Of both ledgers, so that their logs are equally long: in normal operation old entries are cleaned
up, and what is left grows with the history's files alone."""


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


def timed(work: Callable[[], object], times: int = 7) -> float:
    """Median seconds of a piece of work, the first one untimed."""
    work()
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return median(found)


def detection(partitions: int) -> float:
    """Hold a head of so many partitions against a look; nothing is found."""
    known = head(*(position(5, partition=p) for p in range(partitions)))
    table = TableObservation(True, "t", 1, "orders", "l")
    now = observation(topic(*(seen(end=10, partition=p) for p in range(partitions))), table=table)
    return timed(lambda: find_resets(known, now, stream="orders", ledger_id="l"))


def planning(partitions: int) -> float:
    """Ranges out of a look, asking nobody."""
    known = head(*(position(5, partition=p) for p in range(partitions)))
    now = observation(topic(*(seen(end=10, partition=p) for p in range(partitions))))
    return timed(
        lambda: plan_ranges(
            known,
            now,
            isolation_level="read_committed",
            max_records_per_run=10**6,
            max_records_per_partition=10**5,
        )
    )


def ledgers(folder: Path, runs: int) -> tuple[float, float, float]:
    """Current offsets, an advance, a look-up of an old run, after so many closed runs."""
    Ledger(DeltaLedgerStore(str(folder)), "s").update(lambda s: s.with_next_token())
    store = DeltaLedgerStore(str(folder))
    each = runs // _COMMITS
    for number in range(_COMMITS):
        entries = [closed(number * each + n) for n in range(each)]
        fabricate(store, history_slot("run", 4 * number * each, runs), entries)

    def fresh() -> Ledger:
        return Ledger(DeltaLedgerStore(str(folder)), "s")

    return (
        timed(lambda: fresh().read()),
        timed(lambda: fresh().update(lambda s: s.with_next_token())),
        timed(lambda: fresh().find_run("run-00000500")),
    )


def streams(folder: Path, count: int) -> float:
    """Read so many stream files."""
    files = []
    for number in range(count):
        files.append(folder / f"s{number}.yaml")
        files[-1].write_text(_STREAM.format(number=number))
    return timed(lambda: [read_stream(file) for file in files], 3)


def main() -> None:
    """Print the table."""
    print(f"{datetime.now(UTC):%Y-%m-%d}")
    print(f"detection      10,000 partitions {detection(10_000) * 1000:8.1f} ms,"
          f" 1,000 {detection(1_000) * 1000:.1f} ms")  # fmt: skip
    print(f"planning       10,000 partitions {planning(10_000) * 1000:8.1f} ms,"
          f" 1,000 {planning(1_000) * 1000:.1f} ms")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        few = ledgers(Path(folder, "few"), 1_000)
        many = ledgers(Path(folder, "many"), 1_000_000)
        for name, short, long in zip(("read", "advance", "find a run"), few, many, strict=True):
            print(f"ledger: {name:<11} after 1 M runs {long * 1000:8.1f} ms,"
                  f" after 1 k {short * 1000:.1f} ms, {long / short:.2f}x")  # fmt: skip
        print(f"streams        1,000 files       {streams(Path(folder), 1_000):8.2f} s")


if __name__ == "__main__":
    main()
