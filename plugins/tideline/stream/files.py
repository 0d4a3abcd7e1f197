"""From a file's text to a stream, and all files of a folder.

An error names file, line, key, value and what is allowed. Airflow parses every file again and
again, all in one process, so no file may take the others' time or end the process. Hence the text
is bounded before it is parsed: aliases multiply, a pipe has no end, a number like 1:1:1 costs time
with the square of its length, and libyaml's own composer recurses until it crashes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from tideline.errors import BadInput, StreamFileError
from tideline.model.wording import did_you_mean, first_few, said_by_system, shown
from tideline.secrecy import may_hold_secret, without_login
from tideline.stream.decoding import FOLDER
from tideline.stream.schedules import refused_schedule
from tideline.stream.stream import Stream

MOST_BYTES = 1_000_000
DEEPEST = 20
"""Levels of lists and mappings; a stream file needs seven."""
LONGEST = 10_000
"""Characters of a key or a value. A number of a million characters took a minute to read."""
MOST_VALUES = 50_000
"""Keys and values; the first offsets of ten thousand partitions are half as many."""
_ELSEWHERE = "a login, a password or a key belongs into an Airflow connection"
_SHOWN = 20
"""Problems of one file in a message."""
_MISPLACED = ("extra_forbidden", "model_type", "model_attributes_type", "dict_type", "list_type")
"""pydantic's names of what is wrong with a value that belongs somewhere else."""
_OF_CHECKOUT = Path(__file__).parents[3] / "dags" / "streams"
Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a stream file.

    Args:
        file: Path of the file.
        line: Line number, from 1.
        key: The key, with dots between levels; `(file)` for the file as a whole.
        value: What the file says.
        allowed: What it may say.
    """

    file: str
    line: int
    key: str
    value: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: got {self.value}; {self.allowed}"


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


@dataclass(frozen=True, slots=True)
class StreamFile:
    """A stream, and the files that name it.

    Args:
        stream: As the file has it that counts.
        path: That file.
        others: The other files that name the stream; they count for nothing.
    """

    stream: Stream
    path: Path
    others: tuple[Path, ...] = ()

    @property
    def warning(self) -> str | None:
        """Which file counts, where several name the stream; None where one does."""
        if not self.others:
            return None
        names = first_few((path.name for path in self.others), 3)
        return f"{names} also says stream: {self.stream.stream}; {self.path.name} is what counts"


def by_name(streams: Iterable[tuple[Path, Stream]]) -> dict[str, StreamFile]:
    """The streams of accepted files by name, for Dags, commands and the page alike.

    Where several files name one stream, the one that is named like it counts; without such a one,
    the first by name, whatever order they come in.
    """
    found: dict[str, StreamFile] = {}
    for path, stream in sorted(streams, key=lambda item: (item[0].stem != item[1].stream, item[0])):
        known = found.get(stream.stream)
        found[stream.stream] = (
            StreamFile(stream, path)
            if known is None
            else replace(known, others=(*known.others, path))
        )
    return found


def find_stream(name: str, folder: str | Path | None = None) -> Stream:
    """The stream with that name.

    If two files define it, the one that counts is as `by_name` says.

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


def read_stream(path: str | Path) -> Stream:
    """Read one stream file.

    Raises:
        StreamFileError: The file cannot be read, is not YAML, or does not fit the model.
    """
    try:
        text = _bounded_text(path)
    except (OSError, ValueError) as error:
        raise _refuse([_of_file(str(path), said_by_system(error), _near(Path(path)))]) from error
    return parse_stream(text, str(path))


def parse_stream(text: str, file: str) -> Stream:
    """The stream in a YAML text.

    Args:
        text: The YAML.
        file: Its path: schema files are looked for beside it, and messages name it.

    Raises:
        StreamFileError: The text is not YAML, or does not fit the model.
    """
    data, lines, problems = _parse(text, file)
    stream = None
    try:
        stream = Stream.model_validate(data, context={FOLDER: Path(file).absolute().parent})
    except ValidationError as error:
        problems += [_explain(file, lines, item) for item in error.errors()]
    except Exception as error:  # whatever it is: other files, and who looks for them, go on
        what = f"{type(error).__name__}: {shown(str(error))}"
        problems.append(_of_file(file, "a value that cannot be checked", what))
    schedule = data.get("schedule")
    if isinstance(schedule, str) and (allowed := refused_schedule(schedule)):
        problems.append(
            Problem(file, lines.get(("schedule",), 1), "schedule", _value("", schedule), allowed)
        )
    if problems or stream is None:
        raise _refuse(sorted(problems, key=lambda p: (p.line, p.key)))
    return stream


def _near(path: Path) -> str:
    """What is allowed instead of a path that cannot be read, and the stream files that are near."""
    with suppress(OSError):
        beside = [p for end in ("*.yaml", "*.yml") for p in path.parent.glob(end)]
        if near := did_you_mean(path.name, sorted(p.name for p in beside if p != path)).strip(";"):
            return f"{near.removeprefix(', ')} allowed: the path of a stream file"
    return "allowed: the path of a stream file"


def _bounded_text(path: str | Path) -> str:
    """The text of a file; UnicodeDecodeError is a ValueError, too."""
    if Path(path).exists() and not Path(path).is_file():
        raise ValueError("not a regular file")
    with open(path, "rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    return text.decode()


def _parse(text: str, file: str) -> tuple[dict[Any, Any], dict[Location, int], list[Problem]]:
    """The mapping in a text, the line of each of its keys, and keys that stand there twice."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_structure(text, loader)
        node = yaml.compose(text, Loader=loader)
        lines = dict(_lines_by_key(node))
        twice = list(_keys_given_twice(node))
        data = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader either way
    except Exception as error:  # likewise
        position = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        line = position.line + 1 if position is not None else 1
        raise _refuse([_of_file(file, "invalid YAML", problem, line)]) from error
    misplaced = [
        Problem(file, line, _dotted(where) or "(file)", "a text that is not shown", _ELSEWHERE)
        for where, line in _secrets(node)
    ]
    if misplaced:
        raise _refuse(misplaced)
    if not isinstance(data, dict):
        what = f"a {type(data).__name__}"
        raise _refuse([_of_file(file, what, "a mapping with stream, kafka, ...")])
    problems = [
        Problem(file, line, _dotted(where), "the key twice", "each key is allowed once")
        for where, line in twice
    ]
    return data, lines, problems


def _check_structure(text: str, loader: Any) -> None:
    """Look at a YAML text event by event, which recurses nowhere.

    Raises:
        YAMLError: It is no YAML, has an anchor or an alias, is nested too deeply, or has a value
            that is too long, or too many of them.
    """
    depth = values = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise _marked("write it out, without anchors and aliases", event)
        if isinstance(event, yaml.ScalarEvent):
            values += 1
            if values > MOST_VALUES or len(event.value) > LONGEST:
                most = f"at most {MOST_VALUES:,} keys and values of {LONGEST:,} characters each"
                raise _marked(most, event)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _marked(f"at most {DEEPEST} levels", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _marked(problem: str, what: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=what.start_mark)


def _lines_by_key(node: yaml.Node | None, at: Location = ()) -> Iterator[tuple[Location, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _marked("a key has to be a word", key)
            where = (*at, key.value)
            yield where, key.start_mark.line + 1
            yield from _lines_by_key(value, where)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*at, index), value.start_mark.line + 1
            yield from _lines_by_key(value, (*at, index))


def _keys_given_twice(node: yaml.Node | None, at: Location = ()) -> Iterator[tuple[Location, int]]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield (*at, key.value), key.start_mark.line + 1
            seen.add(key.value)
            yield from _keys_given_twice(value, (*at, key.value))


def _secrets(node: yaml.Node | None, at: Location = ()) -> Iterator[tuple[Location, int]]:
    """Where a key or a value is, or holds, what may be a secret."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if may_hold_secret(key.value):
                yield at, key.start_mark.line + 1
            else:
                yield from _secrets(value, (*at, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _secrets(value, (*at, index))
    elif isinstance(node, yaml.ScalarNode) and may_hold_secret(node.value):
        yield at, node.start_mark.line + 1


def _explain(file: str, lines: dict[Location, int], error: Any) -> Problem:
    location = tuple(part for part in error["loc"] if part not in ("word", "place", "[key]"))
    given = error["input"]
    # a check of the whole file says by its type which key it is about
    if not location and error["type"] in Stream.model_fields:
        location, given = (error["type"],), given.get(error["type"])
    line = 1
    # a key that is missing has no line: that of the section is the nearest one
    for length in range(len(location), 0, -1):
        known = lines.get(location[:length]) or lines.get(tuple(map(str, location[:length])))
        if known is not None:
            line = known
            break
    value = "nothing" if error["type"] == "missing" else _value(error["type"], given)
    return Problem(file, line, _dotted(location) or "(file)", value, _allowed(error, location))


def _allowed(error: Any, location: Location) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "required"
    if kind == "extra_forbidden":
        known = _fields_at(location[:-1])
        near = did_you_mean(str(location[-1]), known)
        return f"unknown key{near} allowed: {', '.join(known)}"
    if kind in ("literal_error", "enum"):
        return f"allowed: {context['expected']}"
    if kind == "string_pattern_mismatch":
        return f"allowed: {context['pattern']}"
    if kind == "value_error":
        return str(context["error"])
    return str(error["msg"])


def _fields_at(location: Location) -> list[str]:
    model: type[BaseModel] = Stream
    for part in location:
        if isinstance(part, int):  # of a list, whose field is known already
            continue
        field = model.model_fields.get(part)
        if field is None:
            break
        nested = [c for c in types_in(field.annotation) if issubclass(c, BaseModel)]
        if not nested:
            break
        model = nested[0]
    return [field.alias or name for name, field in model.model_fields.items()]


def types_in(annotation: Any) -> Iterator[type]:
    """A type, and those that it is made of."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from types_in(inner)


def _dotted(location: Location) -> str:
    text = ".".join(str(part) for part in location)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _value(problem: str, given: Any) -> str:
    """A value as a message shows it; what stands in the wrong place may be a secret."""
    if problem in _MISPLACED:
        return "a value that is not shown"
    if isinstance(given, dict | list):
        return "a mapping" if isinstance(given, dict) else "a list"
    return without_login(shown(given))


def _of_file(file: str, value: str, allowed: str, line: int = 1) -> Problem:
    return Problem(file, line, "(file)", value, allowed)


def _refuse(problems: list[Problem]) -> StreamFileError:
    text = first_few(problems, _SHOWN, "\n")
    return StreamFileError(text, problems=[asdict(p) for p in problems])
