"""What is compared with what, on which shape, how often, and what it should come to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table of results.

    Args:
        name: Names its results' file.
        title: For people.
        ours: The side that is ours.
        others: Sides whose times are added up: the one it is compared with.
        shape: The topic.
        passes: Smallest acceptable `time(others) / time(ours)`.
        aim: What would be good.
        pairs: How many timed pairs.
        is_quick: Whether it is part of the quick bench.
    """

    name: str
    title: str
    ours: str
    others: tuple[str, ...]
    shape: str
    passes: float | None
    aim: float | None
    pairs: int = 10
    is_quick: bool = False

    def noise(self, attempt: int) -> str:
        """Under which name our side is timed against itself: once for all that it is compared with.

        Args:
            attempt: Which one of several, from 0.
        """
        return f"{self.ours}-{self.shape}.aa{attempt}"


A_A_TRIES = 3
"""How often our side is timed against itself until the noise is small enough."""

_ROOFLINE = ("read_only", "write_only")
_PEERS = (
    ("available_now", "AvailableNow as it comes", 1.0, 1.5),
    ("available_now_tuned", "AvailableNow tuned", 0.95, 1.1),
    ("python_peer", "confluent-kafka + pyarrow + deltalake", 1.2, 1.7),
)
_EQUAL = "AvailableNow tuned, with our session's settings too"
_OTHER_SHAPES = ("large-100-random", "large-1k-json", "large-1k-random", "skewed")

COMPARISONS = {
    comparison.name: comparison
    for comparison in (
        *(
            Comparison(f"{peer}-large", f"a run / {title}", "tideline", (peer,), "large-100-json",
                       passes, aim)
            for peer, title, passes, aim in _PEERS
        ),
        *(
            Comparison(f"available-now-equal-{shape.partition('-')[0]}", f"a run / {_EQUAL}",
                       "tideline", ("available_now_equal",), shape, None, None, 5)
            for shape in ("large-100-json", "small")
        ),
        Comparison("available-now-small", "a run / AvailableNow tuned", "tideline",
                   ("available_now_tuned",), "small", 1.2, 1.5, is_quick=True),
        Comparison("available-now-middle", "a run / AvailableNow tuned", "tideline",
                   ("available_now_tuned",), "middle", None, None, 5, is_quick=True),
        Comparison("python-middle", "a run / confluent-kafka + pyarrow + deltalake", "tideline",
                   ("python_peer",), "middle", None, None, 5, is_quick=True),
        Comparison("roofline-large", "a run / read + write apart", "tideline", _ROOFLINE,
                   "large-100-json", round(1 / 1.15, 2), round(1 / 1.05, 2)),
        Comparison("append-large", "a landing / Spark's blind append", "land", ("blind_append",),
                   "large-100-json", 0.85, 0.95),
        Comparison("perf-read-large", "our reader / consumer-perf-test, reading only", "read_only",
                   ("consumer_perf_test",), "large-100-json", 0.9, 1.1),
        Comparison("perf-read-1k", "our reader / consumer-perf-test, reading only", "read_only",
                   ("consumer_perf_test",), "large-1k-json", 0.9, 1.1, 5),
        Comparison("perf-landed-100", "a run / consumer-perf-test", "tideline",
                   ("consumer_perf_test",), "large-100-json", 0.45, 0.65, 5),
        Comparison("perf-landed-1k", "a run / consumer-perf-test", "tideline",
                   ("consumer_perf_test",), "large-1k-json", 0.25, 0.45, 5),
        *(
            Comparison(f"available-now-{shape}", "a run / AvailableNow tuned", "tideline",
                       ("available_now_tuned",), shape, 0.95, 1.1, 5)
            for shape in _OTHER_SHAPES
        ),
        *(
            Comparison(f"python-{shape}", "a run / confluent-kafka + pyarrow + deltalake",
                       "tideline", ("python_peer",), shape, 1.2, 1.7, 5)
            for shape in _OTHER_SHAPES
        ),
    )
}  # fmt: skip
