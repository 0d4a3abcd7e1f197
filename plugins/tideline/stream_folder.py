"""The folder of stream files: which one it is, and what is in it."""

from __future__ import annotations

import os
from pathlib import Path

from tideline.errors import BadInput, StreamFileError
from tideline.model.stream import Stream
from tideline.stream_files import read_stream

_OF_CHECKOUT = Path(__file__).parents[3] / "dags" / "streams"


def streams_folder(folder: str | Path | None = None) -> Path:
    """The folder of stream files.

    Args:
        folder: Which; None: `TIDELINE_STREAMS`, otherwise `dags/streams` of the checkout.

    Raises:
        BadInput: There is no such folder.
    """
    found = Path(folder or os.environ.get("TIDELINE_STREAMS") or _OF_CHECKOUT)
    if not found.is_dir():
        raise BadInput(
            f"the folder of stream files: got {found}, which is no folder; set TIDELINE_STREAMS, or"
            " name it where Dags are made of it: stream_dags('/path/to/streams')"
        )
    return found


def stream_paths(folder: str | Path | None = None) -> list[Path]:
    """The paths of all stream files in the streams folder, sorted by name, .yaml before .yml.

    Raises:
        BadInput: There is no such folder.
    """
    found = streams_folder(folder)
    return sorted([*found.glob("*.yaml"), *found.glob("*.yml")])


def find_stream(name: str, folder: str | Path | None = None) -> Stream:
    """The stream with that name.

    If two files define it, the file with that name counts, as it does for Dags.

    Args:
        name: Of the stream.
        folder: Folder of stream files; None: `streams_folder` says which.

    Raises:
        BadInput: There is none; the message lists the streams. Or there is no such folder.
    """
    known = []
    for path in sorted(stream_paths(folder), key=lambda path: path.stem != name):
        try:
            stream = read_stream(path)
        except StreamFileError as error:
            known.append(f"({error})")
            continue
        if stream.stream == name:
            return stream
        known.append(stream.stream)
    raise BadInput(
        f"stream: got {name!r}; allowed: {', '.join(known) or 'no stream file is there yet'}"
    )
