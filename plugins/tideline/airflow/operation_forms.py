"""The forms of the operations' Dags: what Airflow asks for, and what a run's conf may hold."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

from airflow.sdk import Param

from tideline.errors import BadInput
from tideline.model.erasures import MOST
from tideline.model.verdicts import VERDICTS, valid_choices
from tideline.model.wording import key_shown, shown

Form = Mapping[str, Param]
"""Fields by name."""
_FILLED = {"minLength", "enum"}
"""A field with one of them in its schema has to be filled."""
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "text"),
    "array": ((list,), "a list"),
    "boolean": ((bool,), "true, false"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a whole number, a number"),
    "null": ((NoneType,), "null"),
}
"""Python's types of a JSON schema's, and words for people; in the order in which they are named."""


def _text(title: str, description: str) -> Param:
    """A field that has to be filled."""
    return Param(type="string", minLength=1, title=title, description=description)


def _flag(
    title: str, description: str, *, default: bool = False, section: str | None = None
) -> Param:
    more: dict[str, Any] = {} if section is None else {"section": section}
    return Param(default, type="boolean", title=title, description=description, **more)


_MORE = "More"
"""A section of a form that is closed at first."""


def _of_a_stream() -> Form:
    return {"stream": _text("Stream", "The name of the stream.")}


RESOLVE: Form = {
    **_of_a_stream(),
    "incident": _text("Incidents", "Ids of open incidents, with commas between them."),
    "choice": Param(
        type="string",
        enum=sorted({c for kind in VERDICTS for c in valid_choices(kind)}),
        title="Choice",
        description="fail leaves the incidents open.",
    ),
    "reason": _text("Reason", "Kept in the ledger."),
}
AUDIT: Form = {
    **_of_a_stream(),
    "buckets": Param(
        0,
        type="integer",
        minimum=0,
        title="Buckets",
        description="So many buckets of the current table are read in full; 0: none.",
    ),
}
REWIND: Form = {
    **_of_a_stream(),
    "to_run": _text("Last run to keep", "Its run id. The rows of all later runs are removed."),
    "reason": _text("Reason", "Kept in the ledger."),
    "accept_loss": _flag(
        "Accept the loss", "Rewind although Kafka can no longer give back some of the rows."
    ),
    "confirm": _text("Confirm", "The name of the stream again."),
}
ERASE: Form = {
    "stream": _text("Streams", "Names with commas between them, or patterns as orders-*."),
    "keys_from": _text("File of keys", "In the folder of TIDELINE_ERASE_KEYS."),
    "reason": _text("Reason", "Do not write a key here. Kept in the ledger."),
    "plan": _flag("Plan only", "Say what would be erased; change nothing.", default=True),
    "future": _flag("Future records", "Refuse later records as well.", section=_MORE),
    "now": _flag("At once", "Delete older files at once.", section=_MORE),
    "quarantine_by_bytes": _flag(
        "Quarantine by bytes",
        "Also take records whose bytes hold the key, although no column does.",
        section=_MORE,
    ),
    "whole_keys": _flag(
        "Whole keys",
        "Take all changes of keys whose row would become older.",
        section=_MORE,
    ),
    "most": Param(
        MOST,
        type="number",
        exclusiveMinimum=0,
        maximum=1,
        title="At most",
        section=_MORE,
        description="The share of a stream's rows that may be erased.",
    ),
    "confirm": Param(
        None,
        type=["null", "string"],
        title="Confirm",
        description="The streams again, as above; not needed with Plan only.",
    ),
}
MAINTENANCE: Form = {
    **_of_a_stream(),
    "dry_run": _flag("Dry run", "Say what would be done; change nothing."),
}
REDRIVE: Form = {
    **_of_a_stream(),
    "class": Param(
        None,
        type=["null", "string", "array"],
        items={"type": "string"},
        title="Error classes",
        description="Only these error classes, with commas between them; without it, all.",
    ),
    "since": Param(
        None,
        type=["null", "string"],
        title="Since",
        description="Only records with this time in Kafka or a later one, as ISO 8601.",
    ),
}


def check_form(conf: Mapping[str, Any] | None, form: Form) -> dict[str, Any]:
    """Check a run's conf: Airflow accepts unknown keys, and checks types only in its own form.

    Returns:
        A value for each key: the field's default where the conf has none.

    Raises:
        BadInput: An unknown key, a wrong type, or a required key without a value.
    """
    conf = conf or {}
    for key in sorted(set(conf) - set(form)):
        raise BadInput(f"the run's conf: {key_shown(key)}: unknown key; allowed: {', '.join(form)}")
    for key, field in form.items():
        given, named = conf.get(key), field.schema["type"]
        if field.schema.keys() & _FILLED and not given:
            raise BadInput(f"the run's conf: {key}: got nothing; it is needed")
        kinds = [_TYPES[n] for n in _TYPES if n in ([named] if isinstance(named, str) else named)]
        if key in conf and not any(_is_one(given, types) for types, _ in kinds):
            words = ", ".join(word for _, word in kinds)
            raise BadInput(f"the run's conf: {key}: got {shown(given)}; allowed: {words}")
    return {key: conf.get(key, field.value) for key, field in form.items()}


def _is_one(given: object, types: tuple[type, ...]) -> bool:
    """Whether a value has one of the types; to Python, `true` is a number."""
    return isinstance(given, types) and (bool in types or not isinstance(given, bool))


def classes_in(given: str | list[Any] | None) -> tuple[str, ...]:
    """Error classes of a form: a list, or text with commas or spaces between them.

    Raises:
        BadInput: An item of the list is no text.
    """
    if isinstance(given, list):
        if wrong := [item for item in given if not isinstance(item, str)]:
            raise BadInput(f"the run's conf: class: got {shown(wrong[0])}; allowed: text")
        return tuple(given)
    return listed("class", given) if given else ()


def listed(key: str, text: str) -> tuple[str, ...]:
    """The words of a form's text with commas or spaces between them.

    Raises:
        BadInput: There is none.
    """
    words = tuple(text.replace(",", " ").split())
    if not words:
        raise BadInput(f"the run's conf: {key}: got {shown(text)}, which names nothing")
    return words
