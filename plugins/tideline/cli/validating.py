"""`tideline validate` and `diff`: whether files say what can be done, and what an edit does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tideline.cli.output import CommandOutput, grid
from tideline.contract.answers import Edits, FileEdit, Validation
from tideline.errors import BadInput, StreamFileError
from tideline.kafka.kafka_settings import SHORT_PATIENCE
from tideline.landing.context import RunContext
from tideline.launch.progress import working
from tideline.model.request import RunRequest
from tideline.model.wording import shown
from tideline.stream.contents import FileContents, FleetContents
from tideline.stream.edits import WHEN, Edit, edits, fleet_edits
from tideline.stream.files import contents_beside, contents_in, files_in, read_file, stream_of
from tideline.stream.parsing import Problem
from tideline.stream.stream import Stream
from tideline.wiring import Clusters, open_run

if TYPE_CHECKING:
    from tideline.decoding.stream_checking import Wrong


def validate(options: argparse.Namespace, output: CommandOutput) -> None:
    """Check stream files and fleet files; report every problem of every file.

    Spark checks the conditions under `decode.expect`; the command starts Spark if there are any.
    The command asks no service, so it knows columns only from schema files. With --online it also
    asks the brokers for the topics, the registry for the schemas, and the ledger for what has been
    decoded.
    """
    names: dict[str, str] = {}
    fleets: dict[str, str] = {}
    problems: list[Problem | dict[str, Any]] = []
    messages: list[str] = []
    with ExitStack() as opened:
        asked = _Asked(opened, is_online=options.online)
        for file in map(str, files_in(options.files)):
            try:
                contents = read_file(file)
            except StreamFileError as error:
                problems += error.problems
                messages.append(error.message)
                continue
            found = list(contents.problems)
            if contents.fleet is not None and not contents.is_discovered:
                fleets[contents.fleet.fleet] = file
            # a topic may have left its fleet for a file beside it
            for stream in contents_in(file).streams:
                if stream.stream in names:
                    first = names[stream.stream]
                    allowed = f"{first} has that name already"
                    found.append(Problem(file, 1, "stream", repr(stream.stream), allowed))
                names.setdefault(stream.stream, file)
                found += asked.problems(contents, stream)
            if isinstance(contents, FleetContents) and not contents.streams:
                found += asked.of_template(contents)
            problems += map(asdict, found)
            messages += map(str, found)
    if messages:
        raise StreamFileError("\n".join(messages), problems=problems)
    answer = Validation(streams=list(names))
    later = "a fleet whose topics are not known yet: `tideline discover` looks for them"
    output.answer(
        answer,
        *(f"{file}: {name}" for name, file in names.items()),
        *(f"{file}: {name}, {later}" for name, file in fleets.items()),
    )


def diff(options: argparse.Namespace, output: CommandOutput) -> int:
    """Say what an edit of a live stream's file changes: at once, later, or only with more work.

    The exit status is 2 if an edit is refused. OLD may come from your repository: `git show
    HEAD:orders.yaml > old.yaml`. Its schema files are then looked for beside NEW. The contents of
    schema files are not compared. Both files are stream files or fleet files; --stream chooses one
    stream of a fleet.
    """
    new = contents_in(options.new)
    old = contents_beside(options.old, options.new)
    if options.stream is None and old.fleet is not None and new.fleet is not None:
        found = fleet_edits(old.fleet, new.fleet)
    else:
        found = edits(*(stream_of(contents, options.stream) for contents in (old, new)))
    lines = [grid(("key", "old", "new", "counts"), (_edit_row(edit) for edit in found))]
    output.answer(
        Edits(edits=[FileEdit.of(edit) for edit in found]),
        *(lines if found else ["no key differs"]),
        *(f"{edit.key}: {edit.text}" for edit in found if edit.text),
    )
    return BadInput.exit_code if any(edit.when == "refused" for edit in found) else 0


def _edit_row(edit: Edit) -> list[object]:
    values = (None if value is None else shown(value) for value in (edit.old, edit.new))
    return [edit.key, *values, WHEN[edit.when]]


class _Asked:
    """Asks Spark, and services if they are to be asked.

    Args:
        opened: Closes what was opened.
    """

    def __init__(self, opened: ExitStack, *, is_online: bool) -> None:
        from tideline.decoding.stream_checking import TypedTablesCheck  # other commands need none

        self._is_online = is_online
        self._clusters = Clusters(opened, SHORT_PATIENCE)
        self._tables = opened.enter_context(closing(TypedTablesCheck()))

    def problems(self, contents: FileContents, stream: Stream) -> Iterator[Problem]:
        """What is wrong with a stream, as far as its file does not say so itself."""
        with _told(stream, is_online=self._is_online):
            for wrong in self._online(stream) if self._is_online else self._offline(stream):
                yield contents.problem(stream, *wrong)

    def of_template(self, contents: FleetContents) -> Iterator[Problem]:
        """What is wrong with the streams of a fleet that has none yet."""
        with _told(contents.template, is_online=False):
            for key, value, allowed in self._offline(contents.template):
                yield contents.parsed.problem(f"stream.{key}", repr(value), allowed)

    def _offline(self, stream: Stream) -> Iterator[Wrong]:
        return iter(()) if stream.decode is None else self._tables.wrong(stream.decode)

    def _online(self, stream: Stream) -> Iterator[Wrong]:
        cluster = self._clusters.of(stream.kafka.connection)
        with open_run(stream, "validate", RunRequest(), cluster=cluster) as run:
            yield from _unknown_topics(run)
            if stream.decode is not None:
                registry = run.registry if stream.registry is not None else None
                known = run.ledger.read().decoding
                yield from self._tables.wrong(stream.decode, registry, known)


def _told(stream: Stream, *, is_online: bool) -> AbstractContextManager[object]:
    """Tells who is asked about a stream, where that takes seconds."""
    if is_online:
        return working(f"asking brokers, registry and ledger about {stream.stream}")
    decode = stream.decode
    if decode is not None and (decode.expect or any(one.expect for one in decode.types)):
        return working(f"starting Spark, which looks at the conditions of {stream.stream}")
    return nullcontext()


def _unknown_topics(run: RunContext) -> Iterator[Wrong]:
    kafka = run.stream.kafka
    if kafka.topic_pattern is not None:
        if not run.kafka.topics_matching(kafka.topic_pattern):
            allowed = "no topic of the cluster matches, or all of them are hidden"
            yield "kafka.topic_pattern", kafka.topic_pattern, allowed
        return
    for topic in run.kafka.observe(kafka.topics, {}).topics:
        if topic.refusal or topic.fault:
            yield "kafka.topics", topic.topic, str(topic.refusal or topic.fault)
        elif topic.is_absent:
            yield "kafka.topics", topic.topic, "the cluster has no such topic, or hides the topic"
