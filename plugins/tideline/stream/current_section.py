"""The section of a stream file about the current table: one row a key."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from tideline.model.decoding import OF_ENVELOPE, without_case
from tideline.stream.decode_section import Decode
from tideline.stream.schedules import refused_schedule
from tideline.stream.sections import Address, Flag, Section, each_once

Column = Annotated[str, Field(min_length=1, max_length=200)]
_EACH_ONCE = each_once("each column once; {0} is named twice", without_case)
"""Whatever their case: Delta and Spark take `a` and `A` for one column."""
_Sequence = Annotated[list[Column], Field(min_length=1, max_length=5), _EACH_ONCE]


class CurrentTable(Section):
    """Where the rows go; fixed when the table is created."""

    uri: Address = Field(
        default_factory=str,  # until `Current.with_default_uris` has filled it in
        description="Absolute path, or file://, s3a://, abfss:// or gs:// address of the Delta"
        " table. Default: <table.uri>_current",
    )
    buckets: int = Field(
        16,
        ge=1,
        le=4096,
        strict=True,
        description="Number of buckets that the keys are spread over; a fold rewrites the buckets"
        " that its changes touch. Fixed when the table is created.",
    )


class Marked(Section):
    """A typed column that says that a row is gone."""

    column: Column = Field(description="The typed table's column.")
    equals: str = Field(description="Its text in changes that say so.")


class DeleteRules(Section):
    """Which changes say that a key's row is gone; each rule by default where it applies."""

    tombstone: Flag | None = Field(
        None,
        description="Whether a record without a value does. Default: with decode.tombstones: keep.",
    )
    when: Marked | None = Field(
        None,
        description="Default: op is d with an envelope, and __deleted is true where there is such a"
        " column.",
    )


class Current(Section):
    """One row a key, from the typed table."""

    type: str | None = Field(
        None,
        min_length=1,
        description="Only with decode.value.types: the event type whose typed table is folded;"
        " fixed when the table is created.",
    )
    table: CurrentTable = Field(default_factory=CurrentTable)
    key: Annotated[list[Column], Field(min_length=1), _EACH_ONCE] | None = Field(
        None,
        description="Columns of the typed table that make a key, fixed when the table is created."
        " Default: those of the decoded key.",
    )
    deletes: DeleteRules = DeleteRules()
    sequence_by: _Sequence | None = Field(
        None,
        description="Columns of the typed table that order the changes of a key, the first one"
        " first, before their offsets do; fixed when the table is created. Default: none, and a key"
        " whose changes are in two partitions halts the fold.",
    )
    every: Annotated[float, Field(ge=0, le=1)] | str = Field(
        0.0,
        description="A run folds once the unfolded changes are more than this share of the table's"
        " rows; or, by a cron expression in the stream's time zone, once such a time has come since"
        " the last fold. With 0 each run folds what is new.",
    )
    keep_deleted: Flag = Field(
        True,
        description="Whether rows of deleted keys stay. Otherwise they are removed once they are"
        " more than a tenth of the rows; an earlier change that arrives later rebuilds the table.",
    )

    @field_validator("every", mode="before")
    @classmethod
    def _share_or_schedule(cls, value: object) -> object:
        if isinstance(value, str):
            if (allowed := refused_schedule(value)) is not None:
                raise ValueError(f"a share from 0 to 1; or {allowed}")
        elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ValueError("a share from 0 to 1, or a cron expression, such as '0 3 * * *'")
        return value

    def with_default_uris(self, raw: str) -> Current:
        """The same with an address, beside that of the raw table."""
        uri = self.table.uri or f"{raw.rstrip('/')}_current"
        return self.model_copy(update={"table": self.table.model_copy(update={"uri": uri})})

    def lacking(self, decode: Decode | None, topics: int | None) -> str | None:
        """What the rest of the stream file lacks for a current table, in words; None for nothing.

        Args:
            decode: The section about typed tables.
            topics: How many topics the stream names; None for a pattern.
        """
        if decode is None:
            return "needs decode: it is folded from the typed table"
        types = [t.type for t in decode.types]
        if (self.type or "") not in (types or [""]):
            allowed = (
                f"one of {', '.join(types)}" if types else "nothing without decode.value.types"
            )
            return f"type: got {self.type or 'nothing'}; allowed: {allowed}"
        decode = decode.of_type(self.type or "")
        if topics != 1:
            return "needs one topic by its name: equal keys of two topics are two rows"
        if self.key is None and decode.key.format == "none":
            return "needs decode.key, or key: columns of the typed table"
        if self.key is None and decode.key.format in ("double", "float"):
            return f"needs keys that can be compared: format {decode.key.format} is none"
        if self.tombstones(decode) and decode.tombstones != "keep":
            return "deletes.tombstone needs decode.tombstones: keep"
        if (what := self._unordered(decode)) is not None:
            return what
        is_told = decode.value.envelope is not None or self.deletes.when is not None
        if self.tombstones(decode) and decode.key.format == "none" and not is_told:
            return (
                "key: a record without a value has no columns but those of decode.key, so it could"
                " delete no row. Give decode.key, and its columns in key; or deletes.when; or"
                " deletes: {tombstone: false} where no such records come"
            )
        wanted = {"timestamp", *(["op"] if decode.value.envelope else [])}
        wanted |= {"is_tombstone"} if self.tombstones(decode) else set()
        wanted |= {*(self.sequence_by or ())} & {*OF_ENVELOPE}
        if missing := sorted(wanted - {*decode.own_columns}):
            return f"needs {missing[0]} in decode.table.own_columns"
        return None

    def _unordered(self, decode: Decode) -> str | None:
        """What changes would have no place in the declared order, in words; None for none."""
        named = self.sequence_by or []
        others = [n for n in named if n != "timestamp"]
        if named and not self.keep_deleted:
            return "keep_deleted: false needs the order of offsets, without sequence_by"
        if "source_position" in named:
            return "sequence_by: source_position is a text that no engine orders as the source does"
        if decode.value.envelope is not None and {*others} - {"source_timestamp"}:
            return (
                "sequence_by: a delete has the columns that the row had before, or none;"
                " with an envelope allowed: source_timestamp, timestamp"
            )
        if others and decode.tombstones == "keep":
            return (
                f"sequence_by: a record without a value has no {others[0]}, and no place in the"
                " order; needs decode.tombstones: drop. The envelope, __deleted or deletes.when say"
                " that a row is gone"
            )
        return None

    def tombstones(self, decode: Decode) -> bool:
        """Whether a record without a value says that a row is gone."""
        given = self.deletes.tombstone
        return decode.tombstones == "keep" if given is None else given
