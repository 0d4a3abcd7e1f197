"""`make bench` and `make bench-quick`: run what has not been run, and write docs/benchmarks.md.

Every timing is kept in `.bench/`; a run that was cut off goes on with the next pair. Remove that
folder to begin anew.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from bench.breakdown import breakdown
from bench.cold import cold
from bench.comparisons import A_A_TRIES, COMPARISONS, Comparison
from bench.control_plane import control_plane
from bench.dag_run import dag_run
from bench.decoding import decoding, decoding_whole
from bench.idle_runs import idle_run
from bench.levers import levers
from bench.pairs import estimate, orders
from bench.profile import profile
from bench.report import write_report
from bench.results import Results, Timing
from bench.shapes import SHAPES, fill
from bench.sides import SIDES, BenchHarness, Job, cache
from bench.tables import Table
from devstack.broker import Broker
from devstack.spark_apps import InProcessSpark
from tideline.launch.local_driver import end_drivers

_RESULTS = Path(".bench")
_A_A_PAIRS = 6


class Bench:
    """A broker, a warm session, and a folder.

    Args:
        folder: Holds everything but the results.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = Broker(folder / "kafka", heap_mb=1024).start()
        self.spark = InProcessSpark(is_small=False)
        _ = self.spark.session  # it sets variables: a warm driver from before would not be found
        self.harness = BenchHarness(self.broker, folder, "bench")
        self._warm: set[tuple[str, str]] = set()
        self._cached: str | None = None

    def stop(self) -> None:
        """Stop everything."""
        end_drivers()
        self.spark.stop()
        self.broker.stop()

    def compare(self, comparison: Comparison, results: Results, most: int) -> None:
        """Run pairs that are missing, at most so many in all, then a side against itself."""
        fill(self.broker.bootstrap_servers, SHAPES[comparison.shape])
        sides = ((comparison.ours,), comparison.others)
        for number, order in enumerate(orders(min(comparison.pairs, most), seed=1)):
            if number >= results.pairs(comparison.name):
                self._pair(comparison, sides, order, results, comparison.name)
        for attempt in range(A_A_TRIES):
            name = comparison.noise(attempt)
            same = (sides[0], sides[0])
            for number, order in enumerate(orders(min(_A_A_PAIRS, most), seed=2)):
                if number >= results.pairs(name):
                    self._pair(comparison, same, order, results, name)
            if estimate(*results.seconds(name)).is_even:
                break
        print(f"{comparison.name}: {estimate(*results.seconds(comparison.name))}", flush=True)

    def _pair(
        self,
        comparison: Comparison,
        sides: tuple[tuple[str, ...], tuple[str, ...]],
        order: tuple[int, int],
        results: Results,
        name: str,
    ) -> None:
        seconds = [0.0, 0.0]
        for which in order:
            seconds[which] = sum(self._time(side, comparison.shape) for side in sides[which])
        results.add(Timing(name, seconds[0], seconds[1]))
        print(f"  {name}: {seconds[0]:.2f} s, {seconds[1]:.2f} s", flush=True)

    def _time(self, side: str, shape: str) -> float:
        if (side, shape) not in self._warm:
            self._warm.add((side, shape))
            self._time(side, shape)
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        job = Job(self.harness, self.spark, SHAPES[shape], folder)
        if side == "write_only":
            self._hold(job)
        began = time.perf_counter()
        own = SIDES[side](job)
        taken = time.perf_counter() - began if own is None else own
        _check_all_landed(job)
        shutil.rmtree(folder)
        return taken

    def _hold(self, job: Job) -> None:
        if self._cached != job.shape.name:
            self.spark.session.catalog.clearCache()
            cache(job)
            self._cached = job.shape.name


def _check_all_landed(job: Job) -> None:
    """Raises RuntimeError where a side wrote a table with other than all records."""
    if Path(job.table).exists():
        rows = pa.table(DeltaTable(job.table).get_add_actions(flatten=True)).column("num_records")
        if sum(rows.to_pylist()) != job.shape.records:
            raise RuntimeError(f"{job.shape.name}: {rows.to_pylist()} rows landed")


TABLES: dict[str, Callable[[Path], Table]] = {
    "control-plane": control_plane,
    "breakdown": breakdown,
    "cold": cold,
    "dag-run": dag_run,
    "levers": levers,
    "idle-run": idle_run,
    "decoding": decoding,
    "decoding-whole": decoding_whole,
    "profile": profile,
}


def _compare(wanted: list[Comparison], results: Results, most: int) -> None:
    if not wanted:
        return
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
        bench = Bench(Path(folder))
        try:
            for comparison in wanted:
                bench.compare(comparison, results, most)
        finally:
            bench.stop()


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("names", nargs="*", help=", ".join([*COMPARISONS, *TABLES]))
    parser.add_argument("--quick", action="store_true", help="a few small ones, under ten minutes")
    parser.add_argument("--pairs", type=int, default=100, help="stop at fewer; a later run goes on")
    parser.add_argument("--rounds", type=int, default=3, help="of levers")
    parser.add_argument("--report", action="store_true", help="only write docs/benchmarks.md")
    options = parser.parse_args()
    for name in ("kafka", "tideline", "py4j"):
        logging.getLogger(name).setLevel(logging.ERROR)
    results = Results(_RESULTS)
    unknown = set(options.names) - {*COMPARISONS, *TABLES}
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: allowed: {', '.join([*COMPARISONS, *TABLES])}")
    if not options.report:
        quick = [name for name, c in COMPARISONS.items() if c.is_quick or not options.quick]
        names = options.names or [*quick, *(() if options.quick else TABLES)]
        measured = {**TABLES, "levers": partial(levers, rounds=options.rounds)}
        _compare([c for name, c in COMPARISONS.items() if name in names], results, options.pairs)
        for name in (n for n in TABLES if n in names):
            with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
                results.keep(name, measured[name](Path(folder)))
    write_report(results, Path("docs/benchmarks.md"))


if __name__ == "__main__":
    main()
