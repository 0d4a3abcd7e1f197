"""What a file of the streams folder is: a stream, or a fleet with a stream for each topic."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from tideline.documents import dump, load
from tideline.errors import BadInput, UnreadableDocument
from tideline.model.fleet import KnownTopic, TopicList
from tideline.model.wording import shown, system_message
from tideline.stream.fleet_file import SAMPLES, Fleet, collisions
from tideline.stream.parsing import Location, Parsed, Problem, of_file, refused_file
from tideline.stream.stream import Stream


@dataclass(frozen=True, slots=True)
class FileContents:
    """What a file of the streams folder is.

    Args:
        streams: One of a stream file; of a fleet's one for each topic that is known.
        parsed: The file itself.
        fleet: None of a stream file.
        problems: What is wrong with topics of a fleet that have no stream for it.
        is_discovered: Whether topics have been looked for; always of a fleet that names them.
        first_seen: When the topic of a stream was found, by the stream's name; nothing of streams
            that people have named.
    """

    streams: tuple[Stream, ...]
    parsed: Parsed
    fleet: Fleet | None = None
    problems: tuple[Problem, ...] = ()
    is_discovered: bool = True
    first_seen: Mapping[str, datetime] = field(default_factory=dict)

    def problem(self, stream: Stream, key: str, value: str, allowed: str) -> Problem:
        """What is wrong with a key of one of the streams, once more is known than the file says."""
        return self.parsed.problem(key, shown(value), allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetContents(FileContents):
    """What a fleet file is.

    Args:
        template: The stream of a topic that is none, for what all of the fleet's have in common.
        topics: Topic of each stream, in their order.
    """

    fleet: Fleet
    template: Stream
    topics: tuple[str, ...] = ()

    @property
    def by_topic(self) -> dict[str, Stream]:
        """The streams by their topics."""
        return dict(zip(self.topics, self.streams, strict=True))

    def problem(self, stream: Stream, key: str, value: str, allowed: str) -> Problem:
        """As of a stream file, with the topic."""
        topic = next(t for t, own in self.by_topic.items() if own.stream == stream.stream)
        text = f"{allowed} (topic {topic})"
        return self.parsed.problem(key, shown(value), text, _places_of(topic))


def contents_of(parsed: Parsed) -> FileContents:
    """The stream of a parsed file, or its fleet.

    Raises:
        StreamFileError: It is neither.
    """
    if "fleet" in parsed.data:
        return _fleet_in(parsed)
    stream, problems = parsed.checked(Stream, parsed.data)
    if parsed.problems or stream is None:
        raise refused_file([*parsed.problems, *problems])
    return FileContents((stream,), parsed)


def _fleet_in(parsed: Parsed) -> FleetContents:
    """A fleet and its streams; what is wrong with the template or an override refuses the file."""
    fleet, problems = parsed.checked(Fleet, parsed.data)
    problems += parsed.problems
    if fleet is None:
        raise refused_file(problems)
    samples, wrong = _expanded(parsed, fleet, dict.fromkeys(SAMPLES), "")
    problems += wrong
    if not wrong:  # of a template that is no stream every topic would say so
        problems += _expanded(parsed, fleet, dict.fromkeys(fleet.overrides))[1]
    if problems:
        raise refused_file(problems)
    found = FleetContents((), parsed, fleet=fleet, template=samples[SAMPLES[0]])
    return with_topics(found, known_topics(fleet, parsed.file))


def with_topics(contents: FleetContents, known: TopicList | None) -> FleetContents:
    """A fleet with a stream for each of its topics.

    Args:
        known: Those that were found so far; None before the first look.
    """
    fleet = contents.fleet
    topics: dict[str, KnownTopic | None] = dict.fromkeys(fleet.topics)
    if known is not None and not fleet.topics:
        topics |= {topic.name: topic for topic in known.topics if fleet.means(topic.name)}
    streams, wrong = _expanded(contents.parsed, fleet, topics)
    return replace(
        contents,
        streams=tuple(streams.values()),
        topics=tuple(streams),
        problems=tuple(wrong),
        is_discovered=known is not None or bool(fleet.topics),
        first_seen={s.stream: t.first_seen for n, s in streams.items() if (t := topics[n])},
    )


def _expanded(
    parsed: Parsed,
    fleet: Fleet,
    topics: Mapping[str, KnownTopic | None],
    whose: str = " (topic {})",
) -> tuple[dict[str, Stream], list[Problem]]:
    """A stream for each topic, and what is wrong with the others.

    Of two that meet, the one that was seen first goes on; both are left out if none was.
    """
    streams: dict[str, Stream] = {}
    problems: list[Problem] = []
    for topic in topics:
        places = _places_of(topic)
        data = fleet.file_of(topic)
        stream, wrong = parsed.checked(Stream, data, places, whose.format(topic))
        problems += wrong
        if stream is not None and stream.stream == fleet.fleet:
            text = f"the fleet's own name is its Dag's{whose.format(topic)}"
            problems.append(parsed.problem("stream", shown(stream.stream), text, _TEMPLATE))
        elif stream is not None:
            streams[topic] = stream
    while found := collisions(streams):  # once the second of three is out, the others may collide
        for collision in found:
            allowed = f"the topics {collision.one} and {collision.other} meet here; {_APART}"
            value = shown(collision.text, 200)
            problems.append(parsed.problem(collision.key, value, allowed, _TEMPLATE))
            for topic in _later(topics, collision.one, collision.other):
                streams.pop(topic, None)
    return streams, problems


_TEMPLATE: tuple[Location, ...] = (("stream",),)


def _places_of(topic: str) -> tuple[Location, ...]:
    return (("overrides", topic), *_TEMPLATE)


_APART = "write {topic} or {name} into it, or tell them apart by `names` or `overrides`"


def _later(topics: Mapping[str, KnownTopic | None], one: str, other: str) -> tuple[str, ...]:
    """Of two topics that meet the one that was seen later; both if neither was."""
    mine, theirs = topics[one], topics[other]
    if mine is None or theirs is None or mine.first_seen == theirs.first_seen:
        return one, other
    return (one,) if mine.first_seen > theirs.first_seen else (other,)


def topics_file(fleet: Fleet, file: str | Path) -> Path:
    """Where the topics of a fleet are kept that were found.

    Args:
        file: The fleet's.
    """
    return Path(file).absolute().parent / (fleet.topics_file or f"{fleet.fleet}.topics.json")


def known_topics(fleet: Fleet, file: str | Path) -> TopicList | None:
    """The topics of a fleet that were found so far; None before the first look.

    Args:
        file: The fleet's.

    Raises:
        StreamFileError: The document cannot be read, or is another fleet's.
    """
    path = topics_file(fleet, file)
    try:
        known = load(TopicList, path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnreadableDocument) as error:
        why = system_message(error) if isinstance(error, OSError) else error.message
        raise refused_file([of_file(str(file), str(path), f"topics_file: {why}")]) from error
    if known.fleet != fleet.fleet:
        what = f"topics_file: it is of fleet {known.fleet}; each has a file of its own"
        raise refused_file([of_file(str(file), str(path), what)])
    return known


def keep_topics(fleet: Fleet, file: str | Path, topics: TopicList) -> None:
    """Replace the document of a fleet's topics, in one step.

    Raises:
        BadInput: It cannot be written.
    """
    path = topics_file(fleet, file)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(dump(topics) + "\n")
        beside.replace(path)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written: {system_message(error)}; name a path in `topics_file`, in"
            f" {file}, that whoever parses Dags can read as well"
        ) from error
