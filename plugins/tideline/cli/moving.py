"""`tideline move-ledger`: move a stream's ledger to another location."""

from __future__ import annotations

import argparse
from functools import partial

from pydantic import ValidationError

from tideline.cli.output import Output
from tideline.contract.building import build_move
from tideline.errors import BadInput
from tideline.ledger.move import move_ledger
from tideline.model.addresses import without_login
from tideline.model.ledger_location import LedgerKind, LedgerLocation
from tideline.model.stream import Stream
from tideline.stream_files import read_stream
from tideline.wiring import find_store, open_store


def move(options: argparse.Namespace, output: Output) -> int:
    """Move the ledger, or finish an interrupted move; say what to change in the file."""
    stream = read_stream(options.file)
    target = _location(stream, options.to, options.at)
    store = find_store(stream)
    moved = move_ledger(stream.ledger_location, target, partial(open_store, store=store))
    summary = f"the ledger is in {moved.target} already"
    if moved.is_empty:
        summary = f"there is no ledger in {moved.source} yet, so nothing had to be moved"
    elif moved.source is not None:
        summary = f"moved the ledger from {moved.source} to {moved.target}"
    lines = []
    if moved.target != stream.ledger_location:
        lines.append(f"now set {moved.target.in_stream_file}, in {options.file}")
    output.answer(build_move(stream.stream, moved), summary, *lines)
    return 0


def _location(stream: Stream, kind: LedgerKind, address: str | None) -> LedgerLocation:
    """The location that a stream file with these keys names.

    Raises:
        BadInput: A stream file with these keys is refused.
    """
    if address is None and kind == stream.ledger:
        return stream.ledger_location
    data = stream.model_dump()
    data |= {"ledger": kind, "ledger_uri": None, "ledger_connection": None}
    data["ledger_uri" if kind == "delta" else "ledger_connection"] = address
    try:
        return Stream.model_validate(data).ledger_location
    except ValidationError as error:
        raise BadInput(f"--at {without_login(str(address))}: {error.errors()[0]['msg']}") from error
