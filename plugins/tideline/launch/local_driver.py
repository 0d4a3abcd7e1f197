"""A Spark driver on this machine that outlives the run: started at first use, then kept warm.

The run is a client: it hands over the path of a job file through a Unix socket, and waits. The
driver is `spark_jobs/local_driver.py`, a process in a session of its own. It ends when it has had
nothing to do for a while.

One driver serves the streams of one user with the same master, program, Java, jars and environment:
its socket's name is made of them, so nobody meets a driver of another version. The socket lies in
a folder that only its owner can enter. There are few drivers: before another one starts, idle ones
end.

    run     {"job_path": ..., "keep_seconds": 900}
    driver  accepted, then alive every few seconds, then done or failed

With `"progress": true` in what the run says, the driver adds a line about it twice a second, which
is empty until Spark has a job. A request without a job only has the driver wait for one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, SubprocessError
from typing import IO, TYPE_CHECKING, Any

from tideline.children import ROOT, child_env, run
from tideline.errors import ServiceAway
from tideline.launch import runtime
from tideline.launch.java import find_java
from tideline.launch.jvm import base_command, files_digest
from tideline.launch.programs import decisive, jobs_folder, source_digest, spark_variables
from tideline.store.store_settings import StoreSettings

if TYPE_CHECKING:  # most runs have nobody who watches
    from tideline.launch.progress import ProgressLine

log = logging.getLogger("tideline")

_Start = Callable[[socket.socket], None]
"""Starts a driver on a listening socket."""
_PREPARED_SECONDS = 120
"""A driver that was prepared ends if no job has come after so long."""
_TRIES = 3
"""A driver that is about to end may have been found; the next one is new."""


class LocalDriver:
    """Runs jobs in the warm driver of this user, and starts it where there is none.

    Args:
        master: `local`, `local[4]`, `local[*]`.
        keep_seconds: How long the driver waits for the next job; with 0 it serves this job only.
        store: How the object store is reached that holds the tables; None for file systems.
        watcher: Shows how far the job is; None if nobody wants to know.
    """

    def __init__(
        self,
        master: str,
        keep_seconds: int,
        store: StoreSettings | None = None,
        watcher: ProgressLine | None = None,
    ) -> None:
        self._master = master
        self._keep_seconds = keep_seconds
        self._store = store
        self._watcher = watcher
        self._connection: socket.socket | None = None
        self._is_stopped = False

    def submit(self, job_path: str) -> None:
        """Run the application that a job file is for, to its end.

        Raises:
            ServiceAway: The driver could not be started, has ended meanwhile, or the job failed.
        """
        shared = runtime.runtime_folder()
        keep_seconds = self._keep_seconds if shared else 0  # nobody else would find it
        with ExitStack() as after:
            folder = shared or Path(after.enter_context(runtime.folder_of_this_run()))
            variables = _environment(self._store)
            address = folder / f"{self._name(variables, keep_seconds)}.socket"
            if not keep_seconds:
                after.callback(runtime.remove_driver_files, address)
            elif shared:
                make_room(address)
            start = partial(self._start, address, variables)
            request: dict[str, Any] = {"job_path": job_path, "keep_seconds": keep_seconds}
            if self._watcher is not None:
                request["progress"] = True
            self._run(address, start, request)

    def prepare(self) -> None:
        """Start the driver for a job that comes soon, unless a driver is there; wait for nothing.

        Does nothing where no later process could find the driver.
        """
        folder = runtime.runtime_folder()
        if folder is None or not self._keep_seconds:
            return
        variables = _environment(self._store)
        address = folder / f"{self._name(variables, self._keep_seconds)}.socket"
        if address.exists():
            return
        make_room(address)
        with _connected(address, partial(self._start, address, variables)) as (driver, _, _):
            request = {"keep_seconds": min(self._keep_seconds, _PREPARED_SECONDS)}
            driver.sendall(json.dumps(request).encode() + b"\n")

    def stop(self) -> None:
        """Leave; the driver cancels the job. A signal handler may call this."""
        self._is_stopped = True
        if self._connection is not None:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def _name(self, variables: Mapping[str, str], keep_seconds: int) -> str:
        """Of the socket: what makes two drivers different, or nobody else's where none is kept."""
        if not keep_seconds:
            return uuid.uuid4().hex[:16]
        kind = None if self._store is None else self._store.kind
        return _name(self._master, base_command(find_java(), kind), variables)

    def _run(self, address: Path, start: _Start, request: Mapping[str, Any]) -> None:
        """Run a job in the driver at an address; another one is started if it dies at once."""
        for _ in range(_TRIES):
            try:
                answers, words = self._try(address, start, request)
            except (OSError, SubprocessError) as error:
                raise ServiceAway(
                    f"no Spark driver can be started or reached at {address}: {error}; nothing"
                    " moved. TIDELINE_RUNTIME names another folder for its socket"
                ) from error
            if answers[-1:] == ["done"]:
                return
            if answers or self._is_stopped:  # a job that has begun is not run twice
                break
        what = "has failed" if answers[-1:] == ["failed"] else "is lost: its driver was ended"
        if not answers:
            what = f"was not started: its driver ended at once, {_TRIES} times"
        raise ServiceAway("\n".join([f"the Spark application {what}; the driver's log:", *words]))

    def _try(
        self, address: Path, start: _Start, request: Mapping[str, Any]
    ) -> tuple[list[str], list[str]]:
        """All that the driver answered, and the end of its log."""
        with _connected(address, start) as (connection, found, output):
            self._connection = connection
            log.info("the job goes to the Spark driver at %s", address)
            if self._is_stopped:  # before there was something to shut down
                return [], []
            answers = [line for line in _answers(connection, request) if not self._shows(line)]
            is_lost = answers[-1:] not in (["done"], ["failed"])
            if is_lost and not self._is_stopped:  # it was killed, or hangs
                _give_up(address, found)
            return answers, _tail(output)

    def _shows(self, line: str) -> bool:
        """Whether a line is about progress; if so, it is shown."""
        word, _, facts = line.partition(" ")
        if self._watcher is None or word != "progress":
            return False
        if progress := json.loads(facts):
            self._watcher.update(progress["tasks"], progress["of_tasks"], progress["records"])
        else:
            self._watcher.stage("Spark is planning the job")
        return True

    def _start(self, address: Path, variables: Mapping[str, str], listener: socket.socket) -> None:
        """Start a driver that takes over a socket; clients may connect before it is ready."""
        log.info("starting Spark; its log: %s", address.with_suffix(".log"))
        if self._watcher is not None:
            self._watcher.stage("starting Spark")
        program = os.path.abspath(jobs_folder() / "local_driver.py")
        paths = [str(Path(__file__).parents[2]), variables.get("PYTHONPATH", "")]
        jars = [] if self._store is None else [self._store.kind]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        output = os.open(address.with_suffix(".log"), flags, 0o600)
        descriptor = listener.fileno()
        try:
            # It forks once more, so that this process is not its parent.
            run(
                [sys.executable, program, str(descriptor), str(address), self._master, *jars],
                {**variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
                ROOT,  # it outlives the folder that it was started in
                check=True,
                pass_fds=[descriptor],
                start_new_session=True,
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                timeout=runtime.SILENCE_SECONDS,
            )
        finally:
            os.close(output)


def planned_work(job_path: str) -> tuple[int, int]:
    """How many ranges a job file reads, and how many offsets they have."""
    job: dict[str, Any] = json.loads(Path(job_path).read_text())
    ranges = job["plan"]["ranges"] if "plan" in job else job["ranges"]
    return len(ranges), sum(r["end_offset"] - r["start_offset"] for r in ranges)


MOST_DRIVERS = 4
"""Idle ones end, the longest idle first, before there are more."""
_ROOM_BYTES = 1 << 30
"""What a new driver takes, about: so much has to be free, or idle ones end."""
_ASK_SECONDS = 5
_LEAVE_SECONDS = 20


@dataclass(frozen=True, slots=True)
class WarmDriver:
    """A driver of this user.

    Args:
        address: Its socket.
        pid: Of its process, whose child the JVM is.
        jobs: How many it runs.
        idle_seconds: Since its last job ended; 0 while it runs one.
        bytes: Memory that both processes take.
    """

    address: Path = field(repr=False)
    pid: int
    jobs: int
    idle_seconds: float
    bytes: int


def warm_drivers(folder: Path | None = None) -> list[WarmDriver]:
    """The drivers whose sockets are in a folder, the longest idle first; those that answer.

    Args:
        folder: This user's runtime folder if None.
    """
    folder = folder or runtime.runtime_folder()
    found = []
    for address in sorted(folder.glob("*.socket")) if folder else ():
        if answers := _asked(address, {"status": True}, _ASK_SECONDS):
            with suppress(ValueError, TypeError):  # it is of a version that tells nothing
                found.append(WarmDriver(address, **json.loads(answers[0])))
    return sorted(found, key=lambda driver: -driver.idle_seconds)


def make_room(address: Path) -> None:
    """End idle drivers before another one starts: there may be few, and memory is needed.

    Args:
        address: Where the new one will be; nothing happens if a driver is there.
    """
    if address.exists():
        return
    others = warm_drivers(address.parent)
    idle = [driver for driver in others if not driver.jobs]
    count = len(others)
    while idle and (count >= MOST_DRIVERS or runtime.free_bytes() < _ROOM_BYTES):
        longest = idle.pop(0)
        request = {"end": "jvm", "if_idle": True}
        if _asked(longest.address, request, _LEAVE_SECONDS):
            log.debug("a Spark driver that was idle for %d s has ended", longest.idle_seconds)
            count -= 1


def _asked(address: Path, request: Mapping[str, Any], seconds: float) -> list[str]:
    """All that a driver answers, until it closes the connection; nothing if it is not there."""
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.settimeout(seconds)
        connection.connect(str(address))
        return list(_answers(connection, request))
    return []


def end_drivers(folder: Path | None = None, seconds: float = 120, *, archived: bool = True) -> None:
    """End all drivers whose sockets are in a folder, and wait for them.

    Args:
        folder: This user's runtime folder if None.
        seconds: How long to wait for each.
        archived: Whether to wait for the archive, too, where a driver writes one. It takes half a
            minute, and nothing but the cache is written meanwhile.
    """
    request = {"end": True if archived else "jvm"}
    folder = folder or runtime.runtime_folder()
    for address in folder.glob("*.socket") if folder else ():
        _asked(address, request, seconds)  # until it is gone


def _name(master: str, base: Sequence[str], variables: Mapping[str, str]) -> str:
    """Stands for all that makes two drivers different."""
    chosen = [f"{name}={value}" for name, value in sorted(decisive(variables).items())]
    try:
        files = files_digest(base)
    except OSError as error:
        raise ServiceAway(f"Java or a jar is gone: {error}; an upgrade may be under way") from error
    program = [source_digest(), sys.executable, sys.version, files]
    identity = "\0".join([master, *program, *runtime.rights(), *chosen])
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _environment(store: StoreSettings | None) -> dict[str, str]:
    """A driver's variables, with absolute paths.

    Those of the object store's connection are there: another connection makes another driver.

    Java cannot name files outside of ASCII where the language is unset, as under cron: it would
    matter who has started the driver.
    """
    variables = spark_variables(os.environ)
    variables["LC_ALL"] = "C.UTF-8"
    if store is not None:
        variables = store.within(variables)
    return child_env(variables)


@contextmanager
def _connected(
    address: Path, start: _Start
) -> Iterator[tuple[socket.socket, tuple[int, int] | None, IO[bytes]]]:
    """A connection to the driver at an address, which may still be starting; its file; its log."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(runtime.SILENCE_SECONDS)
        with runtime.locked(address.parent):
            try:
                connection.connect(str(address))
            except (FileNotFoundError, ConnectionRefusedError):
                with _listening(address) as listener:
                    connection.connect(str(address))
                    start(listener)
            found = runtime.identity(address)
            output = runtime.opened(address.with_suffix(".log"))  # the driver may remove its name
        with output:
            yield connection, found, output


@contextmanager
def _listening(address: Path) -> Iterator[socket.socket]:
    """A socket at an address; it stays there unless nobody takes it over."""
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        try:
            listener.listen(64)
            yield listener
        except BaseException:
            runtime.remove_driver_files(address)
            raise


def _answers(connection: socket.socket, request: Mapping[str, Any]) -> Iterator[str]:
    """What the driver says; ends where it is gone or silent for too long."""
    with suppress(TimeoutError, ConnectionError):
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("r") as lines:
            yield from (line.strip() for line in lines)


def _tail(output: IO[bytes]) -> list[str]:
    """The last lines of a log."""
    output.seek(max(0, os.fstat(output.fileno()).st_size - 8192))
    return output.read().decode(errors="replace").splitlines()[-15:]


def _give_up(address: Path, found: tuple[int, int] | None) -> None:
    """Let the next run start another driver; this one ends once nobody finds it any more."""
    with runtime.locked(address.parent):
        if runtime.identity(address) == found:  # nobody has started another one meanwhile
            runtime.remove_driver_files(address)
