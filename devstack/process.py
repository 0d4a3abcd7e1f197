"""Start, watch and stop server processes; everything binds to 127.0.0.1."""

from __future__ import annotations

import contextlib
import operator
import os
import random
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from tideline.errors import ServiceAway
from tideline.model.wording import duration_text

HOST = "127.0.0.1"


def has_ended(pid: int) -> bool:
    """Whether nothing is left of a process but a zombie.

    The first thread of a killed JVM is a zombie while others still hold its ports and its memory.
    """
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that nothing listens on right now.

    They lie below the kernel's ephemeral range. So no outgoing connection can take one before the
    server has started, and no connection attempt can connect to itself. Libraries that let the
    kernel choose (bind to port 0) give ports inside that range.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(15_000, _first_ephemeral_port())
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            if port not in ports:
                ports.append(port)
    return ports


def _first_ephemeral_port() -> int:
    try:
        first = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]
    except OSError:
        return 32_768  # Linux' default
    return max(int(first), 20_000)


def is_listening(port: int) -> bool:
    """Whether something on 127.0.0.1 accepts a connection to the port within a second."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def wait_until(
    condition: Callable[[], bool], what: str, timeout_seconds: float, every_seconds: float = 0.1
) -> None:
    """Poll a condition until it holds; what the condition raises goes through.

    Args:
        condition: Called once at least, also without any time left.
        what: The state while it does not hold, for the message: "the broker is not ready".
        timeout_seconds: After this time the condition is not called again.
        every_seconds: Pause between two calls.

    Raises:
        ServiceAway: The condition did not hold in time.
    """
    polling = Retrying(
        retry=retry_if_result(operator.not_),
        stop=stop_after_delay(timeout_seconds),
        wait=wait_fixed(every_seconds),
    )
    try:
        polling(condition)
    except RetryError as error:
        raise ServiceAway(f"{what}: waited {duration_text(timeout_seconds)}") from error


@dataclass(frozen=True, slots=True)
class Server:
    """A process in a session of its own, with its output in a file.

    It is known by its process id alone, so that `make down` can stop what `make up` has started.

    Args:
        name: For messages.
        pid: Id of the process and of its process group.
        log: File with its output.
    """

    name: str
    pid: int
    log: Path

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str | os.PathLike[str]],
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> Server:
        """Start a process in the background; its output is appended to the log.

        Args:
            name: For messages.
            command: The program and its arguments.
            log: File for its output; its folder is created.
            env: All its variables; those of this process when None.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                start_new_session=True,
            )
        return cls(name, process.pid, log)

    @property
    def is_alive(self) -> bool:
        """Whether anything of the process is left, but for a zombie."""
        with contextlib.suppress(ChildProcessError, OSError):
            os.waitpid(self.pid, os.WNOHANG)  # a child of ours would stay a zombie
        return not has_ended(self.pid)

    @classmethod
    def ready(
        cls,
        name: str,
        command: Sequence[str | os.PathLike[str]],
        log: Path,
        condition: Callable[[], bool],
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
    ) -> Server:
        """Start a process, and wait until it is ready; of one that is not, nothing is left.

        Args:
            name, command, log, env: As of `start`.
            condition, timeout_seconds: As of `wait_ready`.

        Raises:
            ServiceAway: It ended, or is not ready in time; the message holds the end of its log.
        """
        server = cls.start(name, command, log, env)
        try:
            server.wait_ready(condition, timeout_seconds)
        except BaseException:
            server.stop()
            raise
        return server

    def wait_ready(self, condition: Callable[[], bool], timeout_seconds: float) -> None:
        """Wait until the server is ready.

        Args:
            condition: Whether it is ready.
            timeout_seconds: How long to wait.

        Raises:
            ServiceAway: It ended, or is not ready in time; the message holds the end of its log.
        """

        def ready_or_gone() -> bool:
            return not self.is_alive or condition()

        try:
            wait_until(ready_or_gone, f"{self.name} is not ready", timeout_seconds)
        except ServiceAway as error:
            raise ServiceAway(f"{error}\n{self.log_tail()}") from error
        if not self.is_alive:
            raise ServiceAway(f"{self.name} ended while starting:\n{self.log_tail()}")

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its output, under the file's name."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"--- {self.log}", *text.splitlines()[-lines:]])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self, timeout_seconds: float = 20) -> None:
        """Send SIGTERM, and SIGKILL after a time; returns when the process is gone.

        Args:
            timeout_seconds: How long it may take to end by itself.

        Raises:
            ServiceAway: It is still there 10 s after SIGKILL.
        """
        self.signal(signal.SIGTERM)
        with contextlib.suppress(ServiceAway):
            wait_until(lambda: not self.is_alive, f"{self.name} does not end", timeout_seconds)
        self.signal(signal.SIGKILL)
        wait_until(lambda: not self.is_alive, f"{self.name} survives SIGKILL", 10)
