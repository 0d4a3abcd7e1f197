"""Pages of the reference, made of the code: `make reference` writes them, a test compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from devstack.reference import answers, api, commands, error_classes, stream_file, tables

PAGES: Mapping[str, Callable[[], str]] = {
    "stream-file.md": stream_file.build_page,
    "commands.md": commands.build_page,
    "json.md": answers.build_page,
    "api.md": api.build_page,
    "errors.md": error_classes.build_page,
    "tables.md": tables.build_page,
}
"""What builds each page of docs/reference."""
