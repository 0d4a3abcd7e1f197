"""Stream files and fleet files: what is in one, in a folder, and which of several counts."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tideline.documents import load
from tideline.errors import BadInput, StreamFileError, UnreadableDocument
from tideline.model.fleet import TopicList
from tideline.model.wording import did_you_mean, first_few, not_among, shown, system_message
from tideline.stream.contents import FileContents, FleetContents, contents_of
from tideline.stream.fleet_file import Fleet
from tideline.stream.parsing import Problem, of_file, parse, read_text, refused_file, words_at_top
from tideline.stream.stream import Stream
from tideline.texts import read_regular

_BY_PEOPLE = datetime.min.replace(tzinfo=UTC)
_OF_CHECKOUT = Path(__file__).parents[3] / "dags" / "streams"


def streams_folder(folder: str | Path | None = None) -> Path:
    """The folder of stream files.

    Args:
        folder: Which; None: `TIDELINE_STREAMS`, otherwise `dags/streams` of the checkout.

    Raises:
        BadInput: There is no such folder.
    """
    found = Path(folder or os.environ.get("TIDELINE_STREAMS") or _OF_CHECKOUT)
    if not os.path.isdir(found):
        raise BadInput(
            f"the folder of stream files: got {found}, which is no folder. Set TIDELINE_STREAMS, or"
            " name the folder in the Dag file: stream_dags('/path/to/streams')"
        )
    return found


def stream_paths(folder: str | Path | None = None) -> list[Path]:
    """The paths of all stream files in the streams folder, sorted by name, .yaml before .yml.

    Raises:
        BadInput: There is no such folder, or it cannot be listed.
    """
    found = streams_folder(folder)
    try:
        with os.scandir(found):
            pass  # `glob` finds nothing in a folder that nobody may list
    except OSError as error:
        raise BadInput(
            f"the folder of stream files: {found} cannot be listed: {system_message(error)}"
        ) from error
    every = [*found.glob("*.yaml"), *found.glob("*.yml")]
    return sorted(path for path in every if not path.name.startswith("."))  # as editors leave


def files_in(given: Collection[str]) -> list[Path]:
    """Stream files: those that are named, all of each folder that is; for nothing the streams'.

    Raises:
        BadInput: A folder has none, or cannot be listed.
    """
    found: list[Path] = []
    for path in map(Path, given):
        inside = stream_paths(path) if os.path.isdir(path) else [path]
        if not inside:
            raise BadInput(f"{path}: no stream file in that folder; allowed: *.yaml, *.yml")
        found += inside
    return found if given else stream_paths()


def file_in(folder: str | Path, name: str | None) -> Path:
    """The file of a stream in a folder: of the stream with that name, or the folder's only file.

    Raises:
        BadInput: No stream has that name, or no name is given and there are several files.
    """
    files, problems = read_files(files_in([str(folder)]))
    known = by_name(files, claimed_names(problems))
    if name is not None and name in known:
        return known[name].path
    if name is None and len(files) + len(problems) == 1:
        return (*files, *problems)[0]
    broken = f"; refused files there: {len(problems)}" if problems else ""
    if name is not None:
        raise BadInput(f"--stream: {not_among(name, known)}{broken}")
    few = first_few(known) or "none"
    raise BadInput(f"{folder}: a folder; name one of its streams with --stream: {few}{broken}")


Rank = tuple[bool, datetime, bool, Path]
"""What goes before: people's files, of fleets the first to see, a file named so; by path."""


def claimed_names(refused_files: Iterable[Path]) -> dict[str, Rank]:
    """Names that refused files may mean: their own, and what they say of a stream or a fleet.

    Whatever is wrong with a file, nobody else takes its names meanwhile.

    Returns:
        By name, the rank of the file that would count for it; streams of a refused fleet's topics
        included, so far as its file can be read.
    """
    found: dict[str, Rank] = {}
    for path in refused_files:
        named = (path.stem, *_names_said(_beginning(path)))
        ranks = [(name, (False, _BY_PEOPLE, path.stem != name, path)) for name in named]
        ranks += [(name, (True, t, path.stem != name, path)) for name, t in _listed(path, named)]
        for name, rank in ranks:
            found[name] = min(rank, found.get(name, rank))
    return found


def _listed(path: Path, names: Iterable[str]) -> Iterator[tuple[str, datetime]]:
    """The streams that a refused fleet has of topics found so far, and when these were seen."""
    data: dict[str, Any] = {}
    with suppress(StreamFileError):
        data = parse(read_text(path), str(path)).data
    given = {k: v for k in ("stream", "names", "overrides") if isinstance(v := data.get(k), dict)}
    empty: dict[str, Any] = {"stream": {"stream": "{name}"}, "names": {}, "overrides": {}}
    fleet = Fleet.model_construct(**(empty | given))
    for name in {str(data.get("topics_file") or f"{one}.topics.json") for one in names}:
        with suppress(OSError, ValueError, TypeError, AttributeError, UnreadableDocument):
            file = path.absolute().parent / name
            known = load(TopicList, read_regular(file, _MOST_LOOKED_AT), str(file))
            for topic in known.topics:
                yield str(fleet.file_of(topic.name)["stream"]), topic.first_seen


def _names_said(text: bytes) -> set[str]:
    """Names of a stream or a fleet in a text: as YAML has them, or as lines where it is none."""
    names = {name.decode() for name in _NAMED.findall(text)}
    with suppress(yaml.YAMLError, UnicodeError):
        for key, word in words_at_top(text):
            names |= {word} if key in ("stream", "fleet") else set()
    return names


def _beginning(path: Path) -> bytes:
    """The first bytes of a file; nothing of one that cannot be read, or is none, as a pipe."""
    with suppress(OSError, ValueError):
        return read_regular(path, _MOST_LOOKED_AT)
    return b""


_MOST_LOOKED_AT = 1_000_000
_NAMED = re.compile(
    rb"""^[{ ]*["']?(?:stream|fleet)["']?[ \t]*:[ \t]*["']?([A-Za-z0-9_.-]+)""", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class StreamFile:
    """A stream, and the files that name it.

    Args:
        stream: As the file has it that counts.
        path: That file.
        fleet: The fleet that it belongs to; None for a stream with a file of its own.
        others: The other files that name the stream; they count for nothing.
    """

    stream: Stream
    path: Path
    fleet: Fleet | None = None
    others: tuple[Path, ...] = ()

    @property
    def warning(self) -> str | None:
        """Which file counts, where several name the stream; None where one does."""
        if not self.others:
            return None
        names = first_few((path.name for path in self.others), 3)
        return f"{names} also says stream: {self.stream.stream}; {self.path.name} is what counts"

    @property
    def dag_id(self) -> str:
        """The Dag that lands the stream: its own, or its fleet's where that lands all of them."""
        if self.fleet is not None and self.fleet.shards is not None:
            return self.fleet.fleet
        return self.stream.stream


def by_name(files: Mapping[Path, FileContents], left: Mapping[str, Rank]) -> dict[str, StreamFile]:
    """The streams of accepted files by name, for Dags, commands and the page alike.

    A stream with a file of its own has left its fleet, and belongs to it no more. What people have
    named goes before what was found on a cluster: a fleet's own name is no topic's, and of two
    fleets that have found a name, the one that saw it first has it. Where else several files name
    one stream, the one that is named like it counts; without such a one, the first by name,
    whatever order they come in. A refused file that would be the one leaves the stream out: an
    older copy may say another table.

    Args:
        files: By path.
        left: Names of refused files, as of `claimed_names`: no fleet must land such streams.
    """
    found: dict[str, StreamFile] = {}
    named = [(path, contents, s) for path, contents in files.items() for s in contents.streams]
    fleets = fleet_names(files)
    for path, contents, stream in sorted(named, key=_rank):
        name, fleet = stream.stream, contents.fleet
        known = found.get(name)
        if name in contents.first_seen and name in fleets:
            continue
        if known is None and not (name in left and left[name] < _rank((path, contents, stream))):
            found[name] = StreamFile(stream, path, fleet)
        elif known is not None and (fleet is None or known.fleet is not None):
            found[name] = replace(known, others=(*known.others, path))
    return found


def _rank(named: tuple[Path, FileContents, Stream]) -> Rank:
    path, contents, stream = named
    seen = contents.first_seen.get(stream.stream, _BY_PEOPLE)
    return contents.fleet is not None, seen, path.stem != stream.stream, path


def fleet_names(files: Mapping[Path, FileContents]) -> dict[str, Path]:
    """The file of each fleet, by the fleet's name."""
    return {c.fleet.fleet: path for path, c in files.items() if c.fleet is not None}


def find_streams(names: str, folder: str | Path | None = None) -> tuple[Stream, ...]:
    """The streams with these names, or whose names match patterns.

    Args:
        names: With commas between them; `*` and `?` stand for others, as in a shell.
        folder: As for `streams_folder`.

    Raises:
        BadInput: There is no name, or no stream for one of them; no such folder; or a pattern is
            among them, and what is in the folder cannot all be read. No message names a stream that
            was not asked for: whoever asks may not know of it.
    """
    given = names.replace(",", " ").split()
    if not given:
        raise BadInput("stream: got no name; allowed: names with commas between them, or patterns")
    found: dict[str, Stream] = {}
    for name in given:
        if not {*name} & {*"*?["}:
            found[name] = find_stream(name, folder)
            continue
        matching = {n: s for n, s in _every_stream(name, folder).items() if fnmatchcase(n, name)}
        if not matching:
            raise BadInput(f"stream: got {shown(name)}; allowed: a pattern of a stream's name")
        found |= matching
    return tuple(found.values())


def _every_stream(pattern: str, folder: str | Path | None) -> dict[str, Stream]:
    """All streams of the folder by name, for a pattern, which may mean any of them.

    Raises:
        BadInput: One may be missing.
    """
    files, problems = read_files(stream_paths(folder))
    left = claimed_names(problems)
    known = by_name(files, left)
    unsure = {
        "files are refused": len(problems),
        "topics of fleets have no stream": sum(
            len(_without(c, taken_names(c, files, left)).problems)
            for c in files.values()
            if isinstance(c, FleetContents)
        ),
        "fleets do not know their topics yet": sum(not c.is_discovered for c in files.values()),
        "streams have more than one file": sum(bool(file.others) for file in known.values()),
    }
    if any(unsure.values()):
        what = ", ".join(f"{what}: {count}" for what, count in unsure.items() if count)
        raise BadInput(
            f"stream: got the pattern {shown(pattern)}; {what}; so a pattern may leave one out."
            " Nothing was done; mend that (`tideline validate` and `tideline status` say what is"
            " wrong), or give names"
        )
    return {name: file.stream for name, file in known.items()}


def find_stream(name: str, folder: str | Path | None = None) -> Stream:
    """The stream with that name.

    If two files define it, the one that counts is as `by_name` says.

    Raises:
        BadInput: There is none, or no such folder. The message names no other stream: whoever asks
            may not know of it.
    """
    paths = stream_paths(folder)
    for path in [path for path in paths if path.stem == name][:1]:  # the one that counts
        with suppress(StreamFileError):
            contents = read_file(path)
            if contents.fleet is None and contents.streams[0].stream == name:
                return contents.streams[0]
    files, problems = read_files(paths)
    found = by_name(files, claimed_names(problems)).get(name)
    if found is not None:
        return found.stream
    broken = f"; refused files there: {len(problems)}" if problems else ""
    raise BadInput(
        f"stream: got {shown(name)}; allowed: the name of a stream of the streams folder, which a"
        f" file or a topic of a fleet has (a fleet's own name is none){broken}. `tideline status`"
        " lists all names"
    )


def find_fleet(name: str, folder: str | Path | None = None) -> tuple[FleetContents, Path]:
    """The file of the fleet with that name, and its path.

    Raises:
        BadInput: There is none, or no such folder.
    """
    for path in sorted(stream_paths(folder), key=lambda path: path.stem != name):
        with suppress(StreamFileError):
            contents = read_file(path)
            if isinstance(contents, FleetContents) and contents.fleet.fleet == name:
                return contents, path
    raise BadInput(f"fleet: got {shown(name)}; allowed: the name of a fleet in the streams folder")


def read_files(
    paths: Iterable[Path],
) -> tuple[dict[Path, FileContents], dict[Path, StreamFileError]]:
    """The files that are accepted, and why the others are not."""
    files: dict[Path, FileContents] = {}
    problems: dict[Path, StreamFileError] = {}
    for path in paths:
        try:
            files[path] = read_file(path)
        except StreamFileError as error:
            problems[path] = error
    return files, problems


def read_fleet(path: str | Path) -> FleetContents:
    """A fleet, without the streams that have left it, or are another fleet's: as `by_name` says.

    A topic leaves by a file of its own, in the same folder and named like its stream or saying so.

    Raises:
        StreamFileError: The file is refused, or is no fleet's.
    """
    contents = contents_in(path)
    if not isinstance(contents, FleetContents):
        what = "a fleet file, which has a key `fleet`"
        raise refused_file([of_file(str(path), "a stream file", what)])
    return contents


def _without(contents: FleetContents, wrong: Mapping[str, Problem | None]) -> FleetContents:
    kept = {topic: stream for topic, stream in contents.by_topic.items() if topic not in wrong}
    problems = (*contents.problems, *(p for p in wrong.values() if p is not None))
    return replace(contents, streams=tuple(kept.values()), topics=tuple(kept), problems=problems)


def names_taken_beside(contents: FleetContents) -> dict[str, Problem | None]:
    """As `taken_names`, of the files beside a fleet's as they are now."""
    path = Path(contents.parsed.file)
    files, problems = read_files(p for p in stream_paths(path.parent) if p.name != path.name)
    return taken_names(contents, files, claimed_names(problems))


def refused_fleets_beside(path: Path) -> tuple[Path, ...]:
    """Refused files beside a fleet's that may be fleets: nobody knows which topics are theirs."""
    _, problems = read_files(p for p in stream_paths(path.parent) if p.name != path.name)
    texts = {p: _beginning(p) for p in problems}
    return tuple(p for p, t in texts.items() if _names_said(t) <= {p.stem} or _FLEET.search(t))


_FLEET = re.compile(rb"""^[{ ]*["']?fleet["']?[ \t]*:""", re.MULTILINE)


def taken_names(
    contents: FleetContents, files: Mapping[Path, FileContents], left: Mapping[str, Rank]
) -> dict[str, Problem | None]:
    """Topics of a fleet whose stream has the name of something else, and what is wrong with that.

    Nothing is, where a file of its own lands the topic, or is refused: it has left the fleet.

    Args:
        contents: The fleet; what `files` has of it does not count.
        files, left: All files of the folder, as for `by_name`.
    """
    path = Path(contents.parsed.file)
    others = {p: c for p, c in files.items() if p.name != path.name}
    fleets = fleet_names(others)
    counts = by_name({path: contents, **others}, left)
    found: dict[str, Problem | None] = {}
    for topic, stream in contents.by_topic.items():
        name, file = stream.stream, counts.get(stream.stream)
        if file is not None and file.path == path:
            continue
        owner = None
        if file is None and name in fleets:
            owner = f"{fleets[name].name} is a fleet of that name"
        elif file is None and left[name][0]:
            owner = f"{left[name][-1].name} has it, a fleet that is refused; mend that"
        elif file is not None and not _has_left(topic, stream, file):
            owner = f"{file.path.name} has a stream of that name, of another topic"
        text = f"another name: {owner}"
        found[topic] = contents.problem(stream, "stream", name, text) if owner else None
    return found


def _has_left(topic: str, stream: Stream, file: StreamFile) -> bool:
    """Whether a stream with a file of its own lands a topic of a fleet."""
    own, of_fleet = file.stream.kafka, stream.kafka
    return file.fleet is None and own.means(topic) and own.connection == of_fleet.connection


def read_stream(path: str | Path, name: str | None = None) -> Stream:
    """The stream of a stream file, or one of a fleet's.

    Args:
        name: Which one of a fleet's; None for the only one of a stream file.
    """
    return stream_of(contents_in(path), name)


def stream_of(contents: FileContents, name: str | None) -> Stream:
    """The stream of a file, or one of a fleet's; as `read_stream`."""
    path = contents.parsed.file
    names = [stream.stream for stream in contents.streams]
    few = first_few(names) or "none yet: `tideline discover` looks for its topics"
    if name is None and contents.fleet is not None:
        what = f"name one of its streams with --stream: {few}"
        raise refused_file([of_file(path, "a fleet of streams", what)])
    for stream in contents.streams:
        if name in (None, stream.stream):
            return stream
    near = did_you_mean(str(name), names).strip(",; ")
    allowed = f"{near} allowed: {few}".strip()
    raise refused_file([Problem(path, 1, "--stream", shown(name), allowed)])


def contents_in(path: str | Path) -> FileContents:
    """What is in a file; of a fleet without the streams that have left it."""
    contents = read_file(path)
    if not isinstance(contents, FleetContents):
        return contents
    return _without(contents, names_taken_beside(contents))


def contents_beside(path: str | Path, other: str | Path) -> FileContents:
    """What is in a file that may have come from another folder.

    Args:
        other: A file in the folder where topics and schema files are, if they are not beside it.
    """
    moved = str(Path(other).absolute().with_name(Path(path).name))
    try:
        found = contents_in(path)
    except StreamFileError:
        return contents_of(parse(read_text(path), moved))
    return found if found.is_discovered else contents_of(parse(read_text(path), moved))


def read_file(path: str | Path) -> FileContents:
    """What is in a stream file, or in a fleet file."""
    return contents_of(parse(read_text(path), str(path)))


def parse_stream(text: str, file: str) -> Stream:
    """The stream in a YAML text; arguments as of `parse`."""
    (stream,) = contents_of(parse(text, file)).streams
    return stream
