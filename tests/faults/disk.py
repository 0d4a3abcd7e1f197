"""What happens to a broker's disk while the broker is down."""

from __future__ import annotations

import shutil
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack.broker import Broker

QUICK_RESTART = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
"""Settings: the controller takes a killed broker back as soon as its old session has run out."""

_BATCH_HEADER = struct.Struct(">qi")  # base offset, bytes that follow (record batch, KIP-98)
_DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot")


@contextmanager
def started(broker: Broker) -> Iterator[Broker]:
    """A broker of the test's own; stopped in the end, however often it was killed meanwhile."""
    try:
        yield broker.start()
    finally:
        broker.stop()


def kill(broker: Broker) -> None:
    """SIGKILL: no clean shutdown is marked, so the logs are recovered at the next start."""
    assert broker.server is not None
    broker.server.signal(signal.SIGKILL)
    broker.stop()
    assert not (broker.data / ".kafka_cleanshutdown").exists()


def segments(broker: Broker, topic: str, partition: int = 0) -> list[Path]:
    """The partition's log files, oldest first."""
    return sorted((broker.data / f"{topic}-{partition}").glob("*.log"))


def cut_tail(broker: Broker, topic: str, offset: int) -> None:
    """Cut the newest log file so that the batch at that offset is the first one missing."""
    newest = segments(broker, topic)[-1]
    with open(newest, "r+b") as file:
        position = 0
        for base_offset, size in _batches(file.read()):
            if base_offset == offset:
                file.truncate(position)
                break
            position += size
        else:
            raise ValueError(f"{newest}: no batch begins at offset {offset}")
    for derived in newest.parent.iterdir():
        if derived.suffix in _DERIVED:
            derived.unlink()


def wipe(broker: Broker, topic: str, partition: int = 0) -> None:
    """A new, empty disk."""
    shutil.rmtree(broker.data / f"{topic}-{partition}")


def middle_segment(broker: Broker, topic: str) -> tuple[int, int]:
    """The offsets of a segment between others, end exclusive."""
    bases = [int(path.stem) for path in segments(broker, topic)]
    middle = len(bases) // 2
    return bases[middle], bases[middle + 1]


def remove_segment(broker: Broker, topic: str, start_offset: int) -> None:
    """Remove the segment that begins at that offset."""
    (log,) = (path for path in segments(broker, topic) if int(path.stem) == start_offset)
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()


def _batches(content: bytes) -> Iterator[tuple[int, int]]:
    position = 0
    while position + _BATCH_HEADER.size <= len(content):
        base_offset, length = _BATCH_HEADER.unpack_from(content, position)
        size = _BATCH_HEADER.size + length
        if length <= 0:
            return
        yield base_offset, size
        position += size
