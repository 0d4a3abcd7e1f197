"""The process of a driver's JVM: its start, its gateway for PySpark, its end."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from subprocess import PIPE, Popen, TimeoutExpired
from typing import IO

from tideline.children import start
from tideline.launch.java import find_java
from tideline.launch.jvm import ClassArchive, base_command, gateway_command, gateway_environment
from tideline.launch.programs import ASKING, LOCAL, log_settings, spark_variables
from tideline.launch.runtime import SPILLS, spill_folders
from tideline.model.addresses import StoreKind
from tideline.store.google import with_key_file

_END_SECONDS = 30
_ENDING_SECONDS = 1
_OUT_OF_MEMORY = 3
"""Exit status of a JVM with `ExitOnOutOfMemoryError`."""
_CRASHES = (-signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL, -signal.SIGSEGV)
"""How a JVM ends that has met a damaged archive."""
_REFUSED = 1
"""How it ends by an error while it starts: also with a full disk, or without memory."""


class Jvm:
    """A running JVM with the gateway that PySpark speaks to.

    Args:
        master: Spark master URL.
        store: The object store that tables are in; None for file systems.
        is_plain: Whether it has Spark's jars alone.
        words: Takes what it says; None leaves that where this process's goes.
    """

    def __init__(
        self,
        master: str,
        store: StoreKind | None = None,
        *,
        is_plain: bool = False,
        words: IO[bytes] | None = None,
    ) -> None:
        base = base_command(find_java(), store, is_plain=is_plain)
        self._words = words
        self._archive = ClassArchive(base)
        self._base = base
        self._properties = {
            "spark.master": master,
            **LOCAL,
            **ASKING,
            **log_settings(),
        }
        self._folders = spill_folders()
        self._told = self._folders[0].path / "gateway"
        self._may_restart = self._archive.path.exists()
        self._process = self._start(self._archive.options())

    def why_ended(self) -> str | None:
        """What ended it, in words; None if it runs. Waits a moment for what is about to end."""
        try:
            status = self._process.wait(_ENDING_SECONDS)
        except TimeoutExpired:
            return None
        if status == _OUT_OF_MEMORY:
            return (
                "its JVM has run out of memory, which all jobs of a driver share: the reason may be"
                " another stream's run. Set SPARK_DRIVER_MEMORY=4g to start a driver with more. A"
                " lower limits.max_records_per_run makes later plans smaller, and not one that is"
                " frozen"
            )
        killed = "; the kernel kills where memory is short" if status == -signal.SIGKILL else ""
        return f"its JVM has ended with status {status}{killed}"

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or is about to be started again."""
        return self._process.poll() is None or self._may_restart

    def _start(self, archive: Sequence[str]) -> Popen[bytes]:
        command = gateway_command(self._base, archive, self._properties)
        spills = ",".join(str(folder.path) for folder in self._folders)
        folder = self._folders[0].path
        variables = with_key_file(spark_variables(os.environ), folder)
        variables = {**variables, **gateway_environment(self._told), SPILLS: spills}
        streams = {"stdin": PIPE, "stdout": self._words, "stderr": self._words}
        return start(command, variables, folder, **streams)

    def open_gateway(self) -> None:
        """Wait for the gateway, and tell PySpark where it is.

        A JVM that has crashed, perhaps over its archive, is started once more, without one. The
        archive goes if that helps.

        Raises:
            RuntimeError: The JVM has ended.
        """
        has_crashed = False
        while not self._told.exists():
            status = self._process.poll()
            if status in (*_CRASHES, _REFUSED) and self._may_restart:
                has_crashed = True
                self._process = self._start(())
                self._may_restart = False
            elif status is not None:
                self._may_restart = False
                raise RuntimeError(f"the JVM ended with status {status}")
            time.sleep(0.01)
        self._may_restart = False
        if has_crashed:
            self._archive.discard()
        answer = self._told.read_bytes()  # renamed into place, so it is whole
        self._told.unlink()
        port, length = struct.unpack("!ii", answer[:8])
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = answer[8 : 8 + length].decode()
        os.environ.update(gateway_environment(self._told))

    def end(self) -> int:
        """End it, by force if it does not end by itself; its exit status."""
        has_crashed = self._process.poll() in _CRASHES
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            status = self._process.wait(_END_SECONDS)
        except TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        for folder in self._folders:
            folder.remove()
        if has_crashed:
            self._archive.discard()
        return status

    def tidy(self, *, has_worked: bool) -> None:
        """After its end: write the archive, or remove what was noted for it.

        Args:
            has_worked: Whether a job has run: only then its classes are worth an archive.
        """
        if has_worked:
            os.nice(19)
            self._archive.write()
        else:
            self._archive.forget()
