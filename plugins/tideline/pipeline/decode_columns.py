"""Refuse a stream file that names fields or columns which are not there."""

from __future__ import annotations

from collections.abc import Iterable

from tideline.errors import BadInput
from tideline.model.decoding import DecodePlan, PartPlan
from tideline.model.stream_decoding import Part
from tideline.model.typed_columns import FieldChoice
from tideline.model.wording import first_few
from tideline.pipeline.context import RunContext
from tideline.rules.schemas.merging import paths_of

_MOST = 40
"""Names in a message."""


def choices_of(part: Part) -> tuple[FieldChoice, ...]:
    """The fields that a part's section lists; none where every field becomes a column."""
    return tuple(FieldChoice(f.field, f.column) for f in part.listed)


def refuse_names(run: RunContext, part: PartPlan, refused: Iterable[str]) -> None:
    """Refuse names that listed fields cannot have.

    Raises:
        BadInput: There are some.
    """
    if wrong := tuple(refused):
        raise BadInput(
            f"stream {run.stream.stream}: decode.{part.part}.fields: {'; '.join(wrong)}; give"
            " another name with as. Nothing was decoded"
        )


def has_all_schemas(part: PartPlan) -> bool:
    """Whether no record can bring another schema: it is known which fields there are."""
    return part.framing == "plain"


def refuse_missing_fields(run: RunContext, parts: Iterable[PartPlan]) -> None:
    """Refuse listed fields that none of the schemas has, as far as they are known.

    Raises:
        BadInput: There is one; names the fields that there are.
    """
    for part in parts:
        there = {column.field for column in part.reader.listed or ()}
        for number, choice in enumerate(part.fields):
            if choice.path not in there:
                known = first_few(paths_of(part.format, part.writers), _MOST) or "none"
                raise BadInput(
                    f"stream {run.stream.stream}: decode.{part.part}.fields.{number}: got"
                    f" {choice.path!r}; no schema has that field; allowed: {known}. Nothing was"
                    " decoded"
                )


def refuse_event_time(run: RunContext, plan: DecodePlan) -> None:
    """Refuse an event's time that is no column of the typed table.

    Raises:
        BadInput: It is none; names the columns that there are.
    """
    wanted = plan.event_date.field if plan.event_date is not None else None
    columns = [c.name for part in plan.parts for c in part.reader.in_table]
    if wanted is not None and wanted not in columns:
        raise BadInput(
            f"stream {run.stream.stream}: decode.event_time.field: got {wanted!r}; no column of the"
            f" typed table; allowed: {first_few(columns, _MOST) or 'none'}. Nothing was decoded"
        )
