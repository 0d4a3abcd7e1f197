"""A warm Spark driver: runs the applications for one run after the other, or several at once.

Usage: local_driver.py LISTENER_FD ADDRESS MASTER [s3a | azure | google]

`tideline.launch.local_driver` starts it and describes what is said. It ends when nobody has asked
for anything for as long as the last run wished, when nobody can find it any more, when its JVM has
ended or does not answer, or by SIGTERM.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and os.fork():
    os._exit(0)  # whoever started this does not wait for a driver

import json
import select
import signal
import socket
import threading
import time
import traceback
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tideline.launch.gateway import Jvm
from tideline.launch.programs import INGEST, application_for
from tideline.launch.runtime import (
    BEAT_SECONDS,
    SILENCE_SECONDS,
    identity,
    locked,
    remove_driver_files,
)
from tideline.model.addresses import STORES, StoreKind

_START_SECONDS = 300
_STOP_SECONDS = 10
_QUIET_SECONDS = 10
"""After so much quiet, garbage is collected, and the heap shrinks."""
_LOG_BYTES = 1_000_000
"""A longer log begins anew when nothing runs."""
_LOG_BYTES_AT_WORK = 50_000_000
"""A longer one always does: there may never be a quiet moment."""


class Driver:
    """Serves connections until there is nothing left to do.

    Args:
        listener: A listening Unix socket.
        address: Its path.
        master: Spark master URL.
        store: The object store that tables are in; None for file systems.
    """

    def __init__(
        self, listener: socket.socket, address: Path, master: str, store: StoreKind | None
    ) -> None:
        self._listener = listener
        self._address = address
        self._identity = identity(address)
        self._jvm = Jvm(master, store)
        self._session: Future[Any] = Future()
        self._lock = threading.Lock()
        self._running = 1  # whoever started this comes first
        self._jobs = 0
        self._has_worked = False
        self._keep_until = 0.0
        self._heard = self._busy = self._worked = time.monotonic()
        self._is_leaving = threading.Event()
        self._jvm_has_ended = threading.Event()

    def serve(self) -> None:
        """Accept connections; returns when the driver has ended."""
        signal.signal(signal.SIGTERM, lambda *_: self._is_leaving.set())
        for target in (self._start_session, self._listen_to_jvm):
            threading.Thread(target=target, daemon=True).start()
        is_first = True
        while not self._ends():
            if _is_readable(self._listener, 0.5):
                connection, _ = self._listener.accept()
                with self._lock:
                    self._running += 0 if is_first else 1
                is_first = False
                threading.Thread(target=self._attend, args=(connection,), daemon=True).start()
            if self._running:
                self._busy = time.monotonic()
        if self._session.done() and not self._session.exception() and not self._is_silent():
            stopping = threading.Thread(target=self._session.result().stop, daemon=True)
            stopping.start()
            stopping.join(_STOP_SECONDS)  # a JVM that was stopped does not answer
        status = self._jvm.end()
        self._jvm_has_ended.set()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self._jvm.tidy(has_worked=self._has_worked and status == 0)

    def _ends(self) -> bool:
        """Whether to end; if so, nobody finds the socket any more."""
        has_failed = self._session.done() and self._session.exception() is not None
        must = self._is_leaving.is_set() or has_failed or not self._jvm.is_alive
        must = must or self._is_silent()
        is_found = self._identity is not None and identity(self._address) == self._identity
        is_wanted = self._running or (is_found and time.monotonic() < self._keep_until)
        if not must and is_wanted:
            return False
        # The lock may be kept, or the folder gone.
        with suppress(OSError), locked(self._address.parent):
            if not must and _is_readable(self._listener, 0):
                return False  # somebody has come meanwhile
            if identity(self._address) == self._identity:
                remove_driver_files(self._address)
        self._listener.close()
        return True

    def _is_silent(self) -> bool:
        """Whether the JVM does not answer: it was stopped, or it has no memory left."""
        limit = SILENCE_SECONDS if self._session.done() else _START_SECONDS
        return time.monotonic() - self._heard > limit

    def _start_session(self) -> None:
        try:
            import_module(INGEST)  # it imports pyspark while the JVM starts
            from tideline.spark.session import build_session

            self._jvm.open_gateway()
            session = build_session("tideline")
            self._heard = time.monotonic()
            self._session.set_result(session)
        except BaseException as error:
            self._session.set_exception(error)  # first: the log's disk may be full
            _log_error()

    def _listen_to_jvm(self) -> None:
        """Ask the JVM for a sign of life again and again; tidy up when it is quiet."""
        with suppress(Exception):  # it has ended
            system = self._session.result()._jvm.java.lang.System
            collected = 0.0
            while True:
                system.nanoTime()
                self._heard = time.monotonic()
                is_quiet = self._busy < self._heard - _QUIET_SECONDS
                if is_quiet and collected < self._busy:
                    system.gc()
                    collected = time.monotonic()
                _bound_log(_LOG_BYTES if is_quiet else _LOG_BYTES_AT_WORK)
                time.sleep(BEAT_SECONDS)

    def _jvm_answers(self) -> bool:
        """Whether it can be given a job; its process may be there still when it is dead."""
        if self._session.done() and not self._session.exception():
            try:
                self._session.result()._jvm.java.lang.System.nanoTime()
            except Exception:
                return False
        return True

    def _attend(self, connection: socket.socket) -> None:
        """Run what one client asks for."""
        keep_seconds = 0
        try:
            with connection:
                connection.settimeout(SILENCE_SECONDS)
                with connection.makefile("r") as lines:
                    request = json.loads(lines.readline())
                if "status" in request:
                    connection.sendall(json.dumps(self._status()).encode() + b"\n")
                    return
                if "job_path" not in request and "end" not in request:
                    keep_seconds = request["keep_seconds"]  # a job comes soon
                    return
                if not self._jvm.is_alive or ("end" not in request and not self._jvm_answers()):
                    return  # unanswered, so the client starts another driver
                if "if_idle" in request and self._jobs:
                    return  # somebody was quicker
                connection.sendall(b"accepted\n")
                if "end" in request:
                    self._is_leaving.set()
                    self._jvm_has_ended.wait()
                    if request["end"] == "jvm":
                        return
                    threading.Event().wait()  # the client waits for the connection's end
                keep_seconds = request["keep_seconds"]
                is_done = self._counted(connection, request["job_path"], "progress" in request)
                connection.sendall(b"done\n" if is_done else b"failed\n")
        except (OSError, ValueError) as error:
            with suppress(OSError):
                print(f"a client has left: {error}", file=sys.stderr)
        finally:
            with self._lock:
                self._running -= 1
                self._keep_until = max(self._keep_until, time.monotonic() + keep_seconds)

    def _status(self) -> dict[str, float]:
        """What `tideline.launch.local_driver.WarmDriver` tells of it."""
        idle = 0.0 if self._jobs else time.monotonic() - self._worked
        counts = {"pid": os.getpid(), "jobs": self._jobs, "bytes": self._bytes()}
        return {**counts, "idle_seconds": idle}

    def _bytes(self) -> int:
        """Memory of this process and of its JVM."""
        processes = ("self", str(self._jvm.pid))
        pages = 0
        for process in processes:
            with suppress(OSError):  # it has ended
                pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _counted(self, connection: socket.socket, job_path: str, is_watched: bool) -> bool:
        with self._lock:
            self._jobs += 1
        try:
            return self._run(connection, job_path, is_watched)
        finally:
            with self._lock:
                self._jobs -= 1
                self._worked = time.monotonic()

    def _run(self, connection: socket.socket, job_path: str, is_watched: bool) -> bool:
        """Run a job to its end, or until its client leaves; whether it went well."""
        ended = threading.Event()
        arguments = (connection, job_path, ended)
        watcher = threading.Thread(target=self._watch, args=arguments, daemon=True)
        watcher.start()
        try:
            session = self._session.result()
            if _is_readable(connection, 0):
                return False  # nobody waits for it any more
            spark = session.newSession()
            spark.sparkContext.setJobGroup(job_path, job_path, interruptOnCancel=True)
            if is_watched:
                from tideline.spark.session import report

                told = (spark.sparkContext, job_path, connection.sendall, ended)
                threading.Thread(target=report, args=told, daemon=True).start()
            program = import_module(application_for(job_path))
            from tideline.spark.application import Host

            host = Host(self._jvm.why_ended, self._is_leaving.set)
            result = program.run(job_path, spark, host)
        except Exception:
            _log_error()
            return False
        finally:
            ended.set()
            watcher.join()
        self._has_worked = self._has_worked or not result.error
        return not result.error

    def _watch(self, connection: socket.socket, group: str, ended: threading.Event) -> None:
        """Say that the driver lives; cancel the job's Spark jobs once its client is gone."""
        said = time.monotonic()
        is_gone = False
        while not ended.wait(1 if is_gone else 0.05):
            is_gone = _is_readable(connection, 0)  # a client says nothing more, so it has left
            if is_gone and self._session.done():
                with suppress(Exception):
                    self._session.result().sparkContext.cancelJobGroup(group)
            elif not is_gone and time.monotonic() - said > BEAT_SECONDS:
                said = time.monotonic()
                with suppress(OSError):
                    connection.sendall(b"alive\n")


def _bound_log(most: int) -> None:
    output = sys.stdout.fileno()
    if os.fstat(output).st_size > most:
        os.ftruncate(output, 0)


def _log_error() -> None:
    """The current exception, unless the log's disk is full: what follows matters more."""
    with suppress(OSError):
        traceback.print_exc()


def _is_readable(connection: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


if __name__ == "__main__":
    try:
        descriptor, path, spark_master, *named = sys.argv[1:]
        kind = next((kind for kind in STORES.values() if kind in named), None)
        opened = socket.socket(fileno=int(descriptor))
        Driver(opened, Path(path), spark_master, kind).serve()
    except Exception:
        _log_error()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(0)  # a thread may wait for a JVM that never answers
