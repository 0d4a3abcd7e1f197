"""Start, watch and stop server processes; everything binds to 127.0.0.1."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import ServiceAway

HOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on right now, all different.

    They lie below the kernel's ephemeral range: no outgoing connection can take one between now
    and the server's start, and no connection attempt can meet itself there.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(15_000, _first_ephemeral_port())
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            if port not in found:
                found.append(port)
    return found


def _first_ephemeral_port() -> int:
    try:
        first = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]
    except OSError:
        return 32_768  # Linux' default
    return max(int(first), 20_000)


def is_listening(port: int) -> bool:
    """Whether a connection to the port is accepted."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def wait_until(
    condition: Callable[[], bool], what: str, timeout_seconds: float, every_seconds: float = 0.1
) -> None:
    """Poll a condition.

    Raises:
        ServiceAway: It did not come true in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServiceAway(f"{what}: not within {timeout_seconds:.0f} s")
        time.sleep(every_seconds)


@dataclass(frozen=True, slots=True)
class Server:
    """A process in a session of its own, with its output in a file.

    Args:
        name: For messages.
        pid: Process id, also of its group.
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
        """Start it in the background."""
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
        """Whether the process exists and is not a zombie."""
        with contextlib.suppress(ChildProcessError, OSError):
            os.waitpid(self.pid, os.WNOHANG)
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return _exists(self.pid)
        return state != "Z"

    def wait_ready(self, condition: Callable[[], bool], timeout_seconds: float) -> None:
        """Wait until it serves.

        Raises:
            ServiceAway: It ended or is not ready in time; carries the end of its log.
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
        """The end of its output."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"--- {self.log}", *text.splitlines()[-lines:]])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self, timeout_seconds: float = 20) -> None:
        """Ask it to end, then insist; returns when the process is gone."""
        self.signal(signal.SIGTERM)
        with contextlib.suppress(ServiceAway):
            wait_until(lambda: not self.is_alive, f"{self.name} does not end", timeout_seconds)
        self.signal(signal.SIGKILL)
        wait_until(lambda: not self.is_alive, f"{self.name} survives SIGKILL", 10)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
