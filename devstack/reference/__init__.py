"""Pages of the reference, made of the code: `make reference` writes them, a test compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from devstack.reference import answers, api, commands, entries, stream_file, tables

PAGES: Mapping[str, Callable[[], str]] = {
    "incidents-and-errors.md": entries.build_page,
    "reference/stream-file.md": stream_file.build_page,
    "reference/fleet-file.md": stream_file.build_fleet_page,
    "reference/commands.md": commands.build_page,
    "reference/json.md": answers.build_page,
    "reference/api.md": api.build_page,
    "reference/tables.md": tables.build_page,
}
"""What builds each of these pages of docs/."""
