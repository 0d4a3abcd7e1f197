"""`tideline` in a process that can be killed or stopped, with Spark in the process that waits.

Starting a JVM takes most of a small run's time, so where it is not Spark that dies, the child asks
its parent to run the application: real Spark, real files, a real process to kill.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from devstack.process import wait_until
from tests.faults.processes import state
from tideline.errors import CommitConflict, ServiceAway, Transient

ROOT = Path(__file__).parents[2]
_PATHS = (ROOT / "plugins", ROOT, ROOT / "spark_jobs")
_CHANNEL, _LOSES = "TIDELINE_TEST_CHANNEL", "TIDELINE_TEST_LOSES"
Value = TypeVar("Value")
_AT_MOST = 6
_ERRORS = {"away": ServiceAway, "conflict": CommitConflict}


class Killable:
    """One command line in a process of its own.

    Args:
        spark: Runs the applications that the command submits, while `ended` or `stopped` waits.
        folder: Where its output goes.
        arguments: Of `tideline`.
        point: Value of TIDELINE_FAILPOINT.
        loses: `(number, kind)`: the answer of the ledger's commit of that number, from 1, is lost:
            it is written, and the caller gets an error, `away` or `conflict`.
        lease_seconds: How long its leases last.
    """

    def __init__(
        self,
        spark: object,
        folder: Path,
        *arguments: object,
        point: str | None = None,
        loses: tuple[int, str] | None = None,
        lease_seconds: float | None = None,
    ) -> None:
        self._spark, self._output, self._errors = spark, folder / "stdout", folder / "stderr"
        self._channel, theirs = socket.socketpair()
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _PATHS))}
        env[_CHANNEL] = str(theirs.fileno())
        if point is not None:
            env["TIDELINE_FAILPOINT"] = point
        if loses is not None:
            env[_LOSES] = f"{loses[0]}:{loses[1]}"
        if lease_seconds is not None:
            env["TIDELINE_LEASE_SECONDS"] = str(lease_seconds)
        with open(self._output, "wb") as output, open(self._errors, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.killable", *map(str, arguments)],
                cwd=ROOT,
                env=env,
                stdout=output,
                stderr=errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        theirs.close()

    def __enter__(self) -> Killable:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._channel.close()

    @property
    def said(self) -> str:
        """Its standard error."""
        return self._errors.read_text(errors="replace")

    @property
    def answer(self) -> str:
        """Its standard output."""
        return self._output.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def resume(self) -> None:
        """SIGCONT."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def ended(self, timeout_seconds: float = 300) -> int:
        """Run its applications until it ends; the exit status, negative for a signal."""
        self._serve_until(lambda: self.process.poll() is not None, timeout_seconds)
        return int(self.process.returncode)

    def stopped(self, timeout_seconds: float = 300) -> None:
        """Run its applications until it has stopped itself."""
        self._serve_until(
            lambda: state(self.process.pid) == "T" or self._is_over(), timeout_seconds
        )
        assert not self._is_over(), self.said

    def _is_over(self) -> bool:
        return self.process.poll() is not None

    def _serve_until(self, condition: Callable[[], bool], timeout_seconds: float) -> None:
        def served() -> bool:
            if select.select([self._channel], [], [], 0)[0]:
                self._serve()
            return condition()

        wait_until(served, f"the command goes on:\n{self.said}", timeout_seconds, 0.02)

    def _serve(self) -> None:
        with contextlib.suppress(ConnectionError):  # killed while Spark was at it
            job_path = self._channel.recv(4096).decode()
            if not job_path:
                return
            try:
                self._spark.submit(job_path)
            except ServiceAway as error:
                self._channel.sendall(f"failed: {error}".encode())
            else:
                self._channel.sendall(b"done")


def ended_at(place: str, spark: object, *arguments: object) -> tuple[int, str]:
    """A command that is killed at a place, if it gets there: its exit status, and what it said.

    Args:
        spark: Runs the applications that it submits.
        arguments: Of `tideline`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="attempt-") as folder,
        Killable(spark, Path(folder), *arguments, point=f"{place}:kill") as dying,
    ):
        return dying.ended(), dying.said


def until_it_passes(attempt: Callable[[], Value]) -> Value:
    """Try again as long as that may help; more than six times would be a stream that is stuck."""
    for _ in range(_AT_MOST):
        try:
            return attempt()
        except Transient as error:
            last = error
    raise AssertionError(f"stuck after {_AT_MOST} attempts: {last}")


class _SparkBeyond:
    """Asks the parent to run the application."""

    is_here = True

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def submit(self, job_path: str) -> None:
        """Wait until the parent has run the job file."""
        self._channel.sendall(job_path.encode())
        answer = self._channel.recv(4096).decode()
        if answer != "done":
            raise ServiceAway(answer)


class LosesAnswers:
    """A ledger's store whose commit of one number is written, and reported as an error.

    Args:
        store: The real one.
        number: Which commit of this process, counted from 1.
        kind: `away` or `conflict`.
    """

    commits = 0

    def __init__(self, store: object, number: int, kind: str) -> None:
        self._store, self._number, self._kind = store, number, kind

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def commit(self, *args: object, **kwargs: object) -> None:
        """Commit; then the answer is lost."""
        self._store.commit(*args, **kwargs)
        LosesAnswers.commits += 1
        if LosesAnswers.commits == self._number:
            print("THE ANSWER IS LOST", file=sys.stderr, flush=True)
            raise _ERRORS[self._kind]("the answer was lost")


def _main() -> int:
    from tideline import wiring
    from tideline.cli.main import main
    from tideline.ledger.ledger import Ledger

    channel = socket.socket(fileno=int(os.environ.pop(_CHANNEL)))
    wiring.Launcher = lambda *_, **__: _SparkBeyond(channel)
    loses = os.environ.pop(_LOSES, None)
    if loses is not None:
        number, _, kind = loses.partition(":")
        plain = Ledger.__init__

        def forgetful(self: Ledger, store: object, stream: str) -> None:
            plain(self, LosesAnswers(store, int(number), kind), stream)

        Ledger.__init__ = forgetful
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(_main())
