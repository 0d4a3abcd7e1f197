"""The folder of stream files: which one it is, and what is in it."""

from __future__ import annotations

import os
from pathlib import Path

from tideline.errors import BadInput, StreamFileError
from tideline.model.stream import Stream
from tideline.model.wording import shown
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
        BadInput: There is none, or no such folder. The message names no other stream: whoever asks
            may not know of it.
    """
    refused = 0
    for path in sorted(stream_paths(folder), key=lambda path: path.stem != name):
        try:
            stream = read_stream(path)
        except StreamFileError:
            refused += 1
            continue
        if stream.stream == name:
            return stream
    broken = f"; {refused} files there are refused" if refused else ""
    raise BadInput(
        f"stream: got {shown(name)}; allowed: the name of a stream file in the streams folder"
        f"{broken}. Its Dag has that name; `tideline validate FOLDER/*.yaml` lists all names"
    )
