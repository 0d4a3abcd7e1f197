"""The A-Z of incidents and errors: prose that people write, and what the code knows.

The prose stands on the page alone. A new class gets an entry with empty parts, and one that is gone
loses its entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from devstack.reference.markdown import code, page, table
from tideline.errors import TidelineError
from tideline.model.verdicts import DECODING, FOLDING, HALTING, POLICIES, VERDICTS

PAGE = Path(__file__).parents[2] / "docs/incidents-and-errors.md"
PROSE = ("Means", "At stake", "Look", "Do", "Verify")
_Prose = Mapping[str, str]


def build_page() -> str:
    """The text of docs/incidents-and-errors.md: the prose that stands there, and the rest anew."""
    _, *written = PAGE.read_text().split("\n## ")
    prose = dict(map(_prose, written))
    errors = {cls.__name__.lower(): cls for cls in _tree(TidelineError)}
    lines = [
        "Messages name their entry here; `tideline help NAME` prints an entry in a shell. An",
        "*incident* is a finding that halted a run. The ledger keeps the incident until somebody",
        "has [decided](when-something-is-wrong.md#decide); its class has small letters. An *error*",
        "is why a command or a task failed. With `--json`, `error` is the class, `retriable` says",
        "whether a later try may succeed, and `runbook` names the entry.",
        "",
        "[When something is wrong](when-something-is-wrong.md) says what holds after each of them,",
        "and in which order to proceed. `FILE` is the stream file.",
        "",
        *table(("", "entries"), _index(errors.values())),
    ]
    for anchor in sorted({*VERDICTS, *errors}):
        name = errors[anchor].__name__ if anchor in errors else anchor
        lines += [f"## {name}", "", _sort(anchor, errors.get(anchor)), ""]
        lines += [*_parts(anchor, prose.get(name, {})), ""]
    source = "`errors.py`, `model/verdicts.py` and the prose that stands here"
    return page("A-Z of incidents and errors", source, *lines)


def _prose(entry: str) -> tuple[str, _Prose]:
    """An entry's name, and what its parts say, line breaks and all."""
    name, *parts = entry.rstrip().split("\n- **")
    said = (part.partition(":** ") for part in parts)
    return name.split("\n")[0], {part: text for part, _, text in said}


def _tree(cls: type[TidelineError]) -> Iterator[type[TidelineError]]:
    """A class, then those below it."""
    yield cls
    for kind in cls.__subclasses__():
        yield from _tree(kind)


def _index(errors: Iterable[type[TidelineError]]) -> Iterator[tuple[str, str]]:
    yield "landing halts", _links(HALTING)
    yield "decoding halts", _links(DECODING)
    yield "the fold halts", _links(FOLDING)
    for status in sorted({cls.exit_code for cls in errors}):
        names = [cls.__name__ for cls in errors if cls.exit_code == status]
        yield f"exit status {status}", _links(names)


def _links(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}](#{name.lower()})" for name in sorted(names, key=str.lower))


def _sort(anchor: str, error: type[TidelineError] | None) -> str:
    """What kind of an entry it is, in a line."""
    if error is None:
        halts = "decoding halts, landing goes on" if anchor in DECODING else "landing halts"
        halts = "the fold halts, the rest goes on" if anchor in FOLDING else halts
        policy = f"; its policy is [`on_reset.{anchor}`](reference/stream-file.md#on_reset)"
        return f"*Incident: {halts}{policy if anchor in POLICIES else ''}.*"
    retriable = "retriable" if error.retriable else "not retriable"
    (above,) = error.__bases__
    top = above in (Exception, TidelineError)
    kind = "" if top else f"; a kind of {_links([above.__name__])}"
    return f"*Error, exit status {error.exit_code}, {retriable}{kind}.*"


def _parts(anchor: str, prose: _Prose) -> Iterator[str]:
    verdict = VERDICTS.get(anchor)  # type: ignore[call-overload]
    for part in PROSE:
        yield f"- **{part}:** {prose.get(part, '')}"
        if verdict is not None and part == "Means":
            told = verdict.evidence
            yield f"- **Evidence:** {told[:1].upper()}{told[1:]}."
        if verdict is not None and verdict.choices and part == "Look":
            said = "; ".join(f"{code(choice)}: {text}" for choice, text in verdict.choices.items())
            yield f"- **Choices:** {said}. Or `fail`: it stays open."
