"""A folder of stream files for who looks at it again and again: the page, the watch of lags."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tideline.errors import StreamFileError
from tideline.stream.contents import FileContents, topics_file
from tideline.stream.files import Rank, StreamFile, by_name, claimed_names, read_file, stream_paths

_EVERY = 5
"""Seconds before files are looked at again."""
_Stamp = tuple[int, int, int, int]


class StreamsFolder:
    """Streams of accepted files; a file is parsed when it has changed. Threads may share it.

    Args:
        folder: None: `streams_folder` says which.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._parsed: dict[Path, tuple[_Stamp, FileContents | None]] = {}
        self._streams: Mapping[str, StreamFile] = {}
        self._files: tuple[Mapping[Path, FileContents], Mapping[str, Rank]] = ({}, {})
        self._read_at: float | None = None
        self._lock = threading.Lock()

    def streams(self) -> Mapping[str, StreamFile]:
        """All streams as they were a few seconds ago at most, by name."""
        with self._lock:
            now = time.monotonic()
            if self._read_at is None or now - self._read_at >= _EVERY:
                self._streams = self._read()
                self._read_at = now
            return self._streams

    def files(self) -> tuple[Mapping[Path, FileContents], Mapping[str, Rank]]:
        """What the streams are made of, as `by_name` takes it: accepted files, and other names."""
        self.streams()
        return self._files

    def paths(self) -> list[Path]:
        """The paths of all stream files."""
        return stream_paths(self._folder)

    def _read(self) -> Mapping[str, StreamFile]:
        parsed = {}
        for path in self.paths():
            known = self._parsed.get(path)
            contents = known[1] if known is not None else None
            try:
                stamp = _stamp(path, contents)
                if known is None or known[0] != stamp:
                    contents = _accepted(path)
                    stamp = _stamp(path, contents)
            except FileNotFoundError:
                continue  # deleted since it was listed
            parsed[path] = (stamp, contents)
        self._parsed = parsed
        accepted = {path: found for path, (_, found) in parsed.items() if found is not None}
        self._files = accepted, claimed_names(parsed.keys() - accepted.keys())
        return by_name(*self._files)


def _stamp(path: Path, contents: FileContents | None) -> _Stamp:
    """Changes with a file, and with the topics that were found where it is a fleet's."""
    own = path.stat()
    found = (0, 0)
    if contents is not None and contents.fleet is not None:
        with suppress(OSError):
            topics = topics_file(contents.fleet, path).stat()
            found = (topics.st_mtime_ns, topics.st_size)
    return own.st_mtime_ns, own.st_size, *found


def _accepted(path: Path) -> FileContents | None:
    try:
        return read_file(path)
    except StreamFileError:
        return None  # its Dag shows why
