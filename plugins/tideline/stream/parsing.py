"""From a YAML text to a checked model; an error names file, line, key, value and what is allowed.

Airflow parses every file again and again, all in one process, so no file may take the others' time
or end the process. Hence the text is bounded before it is parsed: aliases multiply, a pipe has no
end, a number like 1:1:1 costs time with the square of its length, and libyaml's own composer
recurses until it crashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from tideline.errors import StreamFileError
from tideline.model.wording import did_you_mean, first_few, shown, system_message
from tideline.secrecy import may_hold_secret, without_login
from tideline.stream.sections import FOLDER
from tideline.texts import read_regular

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
_MISPLACED = (
    "extra_forbidden",
    "invalid_key",
    "model_type",
    "model_attributes_type",
    "dict_type",
    "list_type",
)
"""pydantic's names of what is wrong with a value that belongs somewhere else."""
_NOT_SHOWN = "a value that is not shown"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_OTHER_BASE = re.compile(r"[-+]?(0[0-7_]+|[0-9_]+(:[0-9_]+)+(\.[0-9_]*)?)")
Location = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)


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
        is_told = self.value != _NOT_SHOWN or not self.allowed.startswith("unknown key")
        got = f"got {self.value}; " if is_told else ""
        return f"{self.file}:{self.line}: {self.key}: {got}{self.allowed}"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A mapping in a YAML text.

    Args:
        file: Path of the file, for messages.
        data: The mapping.
        lines: Line of each key, from 1, by its place.
        problems: What is wrong with the text already: keys that stand there twice, and numbers that
            YAML reads in another base.
    """

    file: str
    data: dict[Any, Any]
    lines: Mapping[Location, int]
    problems: tuple[Problem, ...] = ()

    def checked(
        self, model: type[Model], data: object, places: Sequence[Location] = ((),), suffix: str = ""
    ) -> tuple[Model | None, list[Problem]]:
        """A mapping as a model, or what is wrong with it.

        Args:
            model: What it has to be.
            data: The mapping.
            places: Where in the file its keys may stand, the first one that has a key counts.
            suffix: What every problem says besides.

        Returns:
            None in place of the model if there are problems.
        """
        try:
            context = {FOLDER: Path(self.file).absolute().parent}
            return model.model_validate(data, context=context), []
        except ValidationError as error:
            found = error.errors()
            return None, [self._explained(model, item, places, suffix) for item in found]
        except Exception as error:  # whatever it is: other files, and who looks for them, go on
            what = f"{type(error).__name__}: {shown(str(error))}"
            return None, [of_file(self.file, "a value that cannot be checked", what)]

    def problem(
        self, key: str, value: str, allowed: str, places: Sequence[Location] = ((),)
    ) -> Problem:
        """What is wrong with a key, which the file may leave to its default.

        Args:
            key: With dots between levels.
            places: As of `checked`.
        """
        where, line = self._found(_place(key), places)
        return Problem(self.file, line, _dotted(where), value, allowed)

    def _explained(
        self, model: type[BaseModel], error: Any, places: Sequence[Location], suffix: str
    ) -> Problem:
        location = tuple(part for part in error["loc"] if part not in ("word", "place", "[key]"))
        given = error["input"]
        # a check of the whole model says by its type which key it is about
        about = _place(error["type"])
        if not location and about[0] in model.model_fields:
            location, given = about, _value_at(given, about)
        where, line = self._found(location, places)
        value = "nothing" if error["type"] == "missing" else value_shown(error["type"], given)
        allowed = f"{_allowed(model, error, location)}{suffix}"
        if error["type"] == "extra_forbidden" and not _is_word(where, model):
            where = (*where[:-1], "(a key that is not shown)")
        return Problem(self.file, line, _dotted(where) or "(file)", value, allowed)

    def _found(self, location: Location, places: Sequence[Location]) -> tuple[Location, int]:
        """The place of a key, and its line; of one that is missing, that of what it belongs in."""
        for length in range(len(location), -1, -1):
            for place in places:
                at = (*place, *location[:length])
                known = self.lines.get(at) or self.lines.get(tuple(map(str, at)))
                if known is not None:
                    return (*place, *location), known
        return (*places[-1], *location), 1


def _place(key: str) -> Location:
    """The place of a key that has dots between its levels."""
    return tuple(int(part) if part.isdecimal() else part for part in key.split("."))


def _value_at(data: Any, place: Location) -> Any:
    """The value at a place; None where the file leaves it to its default."""
    with suppress(LookupError, TypeError):
        for part in place:
            data = data[part]
        return data
    return None


def read_text(path: str | Path) -> str:
    """The text of a file.

    Raises:
        StreamFileError: It cannot be read, or is too long.
    """
    try:
        text = read_regular(path, MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        return text.decode()  # UnicodeDecodeError is a ValueError, too
    except (OSError, ValueError) as error:
        allowed = "allowed: the path of a stream file, which is text in UTF-8"
        if isinstance(error, FileNotFoundError):
            allowed = _near(Path(path))
        raise refused_file([of_file(str(path), system_message(error), allowed)]) from error


def _near(path: Path) -> str:
    """What is allowed instead of a path where nothing is, and the stream files that are near."""
    with suppress(OSError):
        beside = [p for end in ("*.yaml", "*.yml") for p in path.parent.glob(end)]
        if near := did_you_mean(path.name, sorted(p.name for p in beside if p != path)).strip(";"):
            return f"{near.removeprefix(', ')} allowed: the path of a stream file"
    return "allowed: the path of a stream file"


def parse(text: str, file: str) -> Parsed:
    """The mapping in a text.

    Args:
        text: YAML.
        file: Its path: schema files are looked for beside it, and messages name it.

    Raises:
        StreamFileError: It is no YAML, or no mapping; or a secret may stand in it.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_structure(text, loader)
        node = yaml.compose(text, Loader=loader)
        found = list(_walked(node))
        data = None if node is None else _constructed(node, loader)
    except Exception as error:  # whatever it is: other files, and who looks for them, go on
        position = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        line = position.line + 1 if position is not None else 1
        raise refused_file([of_file(file, "invalid YAML", problem, line)]) from error

    def about(kind: str, *what: str) -> list[Problem]:
        named = [
            (_dotted(at) or "(file)", line) for found_kind, at, line in found if found_kind == kind
        ]
        return [Problem(file, line, key, *what) for key, line in named]

    if misplaced := about("secret", "a text that is not shown", _ELSEWHERE):
        raise refused_file(misplaced)
    if not isinstance(data, dict):
        what = "a list" if isinstance(data, list) else "a single value"  # it may be a secret
        what = "nothing" if data is None else what
        raise refused_file([of_file(file, what, "allowed: a mapping with stream, kafka, ...")])
    problems = about("twice", "the key twice", "each key is allowed once")
    problems += about(
        "base", "a number in another base", "allowed: digits without a 0 before them, and without :"
    )
    lines = {at: line for kind, at, line in found if kind == "key"}
    return Parsed(file, data, lines, tuple(problems))


def _constructed(node: yaml.Node, loader: Any) -> Any:
    """The values of a YAML text.

    Raises:
        yaml.YAMLError: At the value that is none: a day 2026-02-30.
    """
    try:
        return loader("").construct_document(node)
    except yaml.MarkedYAMLError:
        raise
    except Exception as error:
        for one in _scalars(node):
            try:
                loader("").construct_document(one)
            except Exception:
                raise _marked(f"{shown(one.value)}: {error}", one) from error
        raise


def _scalars(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from (one for part in pair for one in _scalars(part))
    elif isinstance(node, yaml.SequenceNode):
        yield from (one for part in node.value for one in _scalars(part))
    elif isinstance(node, yaml.ScalarNode):
        yield node


def _check_structure(text: str, loader: Any) -> None:
    """Look at a YAML text event by event, which recurses nowhere."""
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


def words_at_top(text: bytes) -> Iterator[tuple[str, str]]:
    """The keys of the outermost mapping that have a single word, with it, up to the first mistake.

    What comes after more than `DEEPEST` levels is not looked at: no such file is read.

    Raises:
        yaml.YAMLError: At the mistake.
    """
    depth, key = 0, None
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if depth > DEEPEST:  # the time of LibYAML grows with the square of the depth
            return
        if isinstance(event, yaml.NodeEvent) and depth == 1:
            word = event.value if isinstance(event, yaml.ScalarEvent) else None
            if key is None:
                key = word or ""
            else:
                if word is not None:
                    yield key, word
                key = None
        is_end = isinstance(event, yaml.CollectionEndEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - is_end


def _marked(problem: str, what: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=what.start_mark)


def _is_in_other_base(node: yaml.ScalarNode) -> bool:
    return node.tag in _NUMBERS and _OTHER_BASE.fullmatch(node.value) is not None


def _walked(node: yaml.Node | None, at: Location = ()) -> Iterator[tuple[str, Location, int]]:
    """Each `key` and item with its line, which ones stand `twice`, which may hold a `secret`.

    And which numbers are in another `base`: YAML 1.1 reads 010 as 8, and 1:30 as 90.
    """
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _marked("a key has to be a word", key)
            where, line = (*at, key.value), key.start_mark.line + 1
            yield "key", where, line
            if key.value in seen:
                yield "twice", where, line
            seen.add(key.value)
            if _is_in_other_base(key):
                yield "base", where, line
            if is_secret := may_hold_secret(key.value):
                yield "secret", at, line
            yield from (f for f in _walked(value, where) if not is_secret or f[0] != "secret")
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield "key", (*at, index), value.start_mark.line + 1
            yield from _walked(value, (*at, index))
    elif isinstance(node, yaml.ScalarNode):
        kinds = {"secret": may_hold_secret(node.value), "base": _is_in_other_base(node)}
        yield from ((kind, at, node.start_mark.line + 1) for kind, is_so in kinds.items() if is_so)


def _allowed(root: type[BaseModel], error: Any, location: Location) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "required"
    if kind in ("extra_forbidden", "invalid_key"):
        known = _fields_at(root, location[:-1])
        near = did_you_mean(str(location[-1]), known)
        return f"unknown key{near} allowed: {', '.join(known)}"
    if kind in ("model_type", "nothing"):
        below = _sections_at(root, location)
        keys = f"keys below it: {', '.join(_fields_of(below[0]))}" if below else "a value"
        keys += "; {} for their defaults" if below and _has_defaults(below[0]) else ""
        return f"allowed: {keys}{'; or leave the key out' if kind == 'nothing' else ''}"
    if kind in ("literal_error", "enum"):
        return f"allowed: {context['expected']}"
    if kind == "string_pattern_mismatch":
        return f"allowed: {context['pattern']}"
    if kind == "value_error":
        return str(context["error"])
    return str(error["msg"]).replace("Input should be ", "allowed: ")


def _sections_at(model: type[BaseModel], location: Location) -> list[type[BaseModel]]:
    """The section at a place, in a list of one; empty where another value stands."""
    found = [model]
    for part in location:
        if isinstance(part, int):  # of a list, whose field is known already
            continue
        fields = {f.alias or name: f for name, f in found[0].model_fields.items()} if found else {}
        kinds = types_in(fields[str(part)].annotation) if part in fields else ()
        found = [kind for kind in kinds if issubclass(kind, BaseModel)][:1]
    return found


def _fields_of(section: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def _fields_at(model: type[BaseModel], location: Location) -> list[str]:
    """The keys of the section at a place, or of the innermost that the place leads into."""
    for length in range(len(location), -1, -1):
        if found := _sections_at(model, location[:length]):
            return _fields_of(found[0])
    return []


def _has_defaults(section: type[BaseModel]) -> bool:
    with suppress(ValidationError):
        return section.model_validate({}) is not None
    return False


def types_in(annotation: Any) -> Iterator[type]:
    """A type, and those that it is made of."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from types_in(inner)


def _is_word(location: Location, root: type[BaseModel]) -> bool:
    """Whether an unknown key may be one that was meant; anything else may be a secret."""
    name = str(location[-1])
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z_.-]{0,40}", name) is not None
    return is_plain or "did you mean" in did_you_mean(name, _fields_at(root, location[:-1]))


def _dotted(location: Location) -> str:
    text = ".".join(str(part) for part in location)
    return text if len(text) <= 200 else f"{text[:197]}..."


def value_shown(problem: str, given: Any) -> str:
    """A value as a message shows it; what stands in the wrong place may be a secret."""
    if given is None and problem != "extra_forbidden":
        return "nothing"
    if problem in _MISPLACED:
        return _NOT_SHOWN
    if isinstance(given, dict | list):
        return "a mapping" if isinstance(given, dict) else "a list"
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, date):  # or a time
        return given.isoformat()
    if isinstance(given, str) and "@" in given and "://" not in given:
        return _NOT_SHOWN
    return shown(without_login(given) if isinstance(given, str) else given)


def of_file(file: str, value: str, allowed: str, line: int = 1) -> Problem:
    """What is wrong with a file as a whole."""
    return Problem(file, line, "(file)", value, allowed)


def refused_file(problems: Iterable[Problem]) -> StreamFileError:
    """The error that names problems, by their lines."""
    problems = sorted(problems, key=lambda p: (p.line, p.key))
    text = first_few(problems, _SHOWN, "\n")
    return StreamFileError(text, problems=[asdict(p) for p in problems])
