"""`tideline move-ledger`: move a stream's ledger to another location."""

from __future__ import annotations

import argparse
from functools import partial

from pydantic import ValidationError

from tideline.cli.output import Output
from tideline.cli.who import os_user
from tideline.connections import store_settings
from tideline.contract.building import build_move
from tideline.errors import BadInput
from tideline.ledger.move import move_ledger
from tideline.model.addresses import is_in_object_store, without_login
from tideline.model.ledger_location import LedgerKind, LedgerLocation
from tideline.model.stream import Stream
from tideline.stream_files import read_stream
from tideline.wiring import open_store


def move(options: argparse.Namespace, output: Output) -> int:
    """Move the ledger, or finish an interrupted move; say what to change in the file."""
    stream = read_stream(options.file)
    target = _location(stream, options.to, options.at)
    connection = _connection(stream, options.connection)
    store = store_settings(connection)
    moved = move_ledger(stream.ledger_location, target, partial(open_store, store=store), os_user())
    summary = f"the ledger is in {moved.target} already"
    if moved.is_empty:
        summary = f"there is no ledger in {moved.source} yet, so nothing had to be moved"
    elif moved.source is not None:
        summary = f"moved the ledger from {moved.source} to {moved.target}"
    lines = []
    if moved.target != stream.ledger_location:
        lines.append(f"now set {moved.target.in_stream_file}, in {options.file}")
        lines += _about_the_connection(stream, moved.target, connection)
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
    data["table"]["connection"] = None  # it may have to come or to go with this address
    data |= {"ledger": kind, "ledger_uri": None, "ledger_connection": None}
    data["ledger_uri" if kind == "delta" else "ledger_connection"] = address
    try:
        return Stream.model_validate(data).ledger_location
    except ValidationError as error:
        raise BadInput(f"--at {without_login(str(address))}: {error.errors()[0]['msg']}") from error


def _connection(stream: Stream, named: str | None) -> str | None:
    """The object store's connection: of the stream file, or the one named for this move.

    A file without an s3a:// address may not name one, and the ledger may be about to get there.

    Raises:
        BadInput: They are two.
    """
    in_file = stream.table.connection
    if named is not None and in_file not in (None, named):
        raise BadInput(f"--connection {named}: the stream file's table.connection is {in_file}")
    return named or in_file


def _about_the_connection(
    stream: Stream, target: LedgerLocation, connection: str | None
) -> list[str]:
    """What else to change in the file, which names a connection exactly if an address needs it."""
    if connection is None:
        return []
    ledger = target.kind == "delta" and is_in_object_store(target.address)
    others = stream.model_copy(update={"ledger": "airflow"}).store_addresses
    if not ledger and not others:
        return ["also remove `table.connection`: no s3a:// address is left"]
    return [] if stream.table.connection else [f"also set `table.connection: {connection}`"]
