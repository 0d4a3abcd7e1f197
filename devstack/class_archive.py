"""Write the archive of Spark's classes before something is timed, as `bench` does.

Otherwise the first driver that has worked writes it when it ends. A few records go through a broker
and a driver of its own.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from devstack.broker import Broker
from tideline.launch.java import find_java
from tideline.launch.jvm import ClassArchive, base_command, is_plain
from tideline.launch.local_driver import end_drivers

_RECORDS = 5000
_WRITING_SECONDS = 300


def write_archive() -> None:
    """Write it unless it is there, or Spark has settings of its own and never asks for it.

    Raises:
        TidelineError: Broker or Spark could not be started.
        OSError: There is no room for their files.
    """
    archive = ClassArchive(base_command(find_java()))
    if not is_plain() or archive.path.exists():
        return
    print("writing an archive of Spark's classes, about a minute", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="tl-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.environ["TIDELINE_RUNTIME"] = str(folder / "run")
        broker = Broker(folder / "kafka")
        try:
            broker.start()
            _land(broker, folder)
        finally:
            end_drivers(seconds=_WRITING_SECONDS)
            broker.stop()
    if not archive.path.exists():
        print(f"no archive at {archive.path}; runs go on without", file=sys.stderr)


def _land(broker: Broker, folder: Path) -> None:
    from devstack.harness import StreamHarness

    harness = StreamHarness(broker, folder, "archive", keeps_spark_warm=True)
    harness.create(partitions=1)
    harness.send(_RECORDS)
    harness.run(harness.stream(), "archive", None)


if __name__ == "__main__":
    try:
        write_archive()
    except Exception as error:  # runs are only slower without it
        lines = str(error).splitlines() or [type(error).__name__]
        print(f"no archive of Spark's classes, runs go on without: {lines[0]}", file=sys.stderr)
