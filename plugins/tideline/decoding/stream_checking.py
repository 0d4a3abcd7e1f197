"""What is wrong with the typed tables of stream files, as far as it can be known without a run.

Fields and columns that no schema has, and conditions that Spark refuses. Without a registry only
schema files are looked at; a part that a registry has the schema of is not known then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tideline.decoding.decode_steps import plan_without_ranges
from tideline.decoding.event_types import has_newest
from tideline.decoding.readers import (
    has_all_schemas,
    missing_fields,
    parts_without_a_run,
    unknown_columns,
)
from tideline.errors import BadInput, RegistryMisused
from tideline.model.decoding import Decoding, PartPlan
from tideline.registry.registry_port import RegistryPort
from tideline.stream.decode_section import Decode

if TYPE_CHECKING:
    from tideline.decoding.spark.looking import LookingSpark

Wrong = tuple[str, str, str]
"""A key of the stream file, its value, and what is allowed."""


class TypedTablesCheck:
    """Looks at the `decode` sections of stream files; Spark is started once, if it is needed."""

    def __init__(self) -> None:
        self._spark: LookingSpark | None = None

    def close(self) -> None:
        """End Spark, if it was started."""
        if self._spark is not None:
            self._spark.close()

    def wrong(
        self, decode: Decode, registry: RegistryPort | None = None, known: Decoding | None = None
    ) -> Iterator[Wrong]:
        """What is wrong with a section.

        Args:
            registry: None if the stream file names none, or it is not to be asked.
            known: What the ledger knows; None if no service is to be asked.

        Raises:
            BadInput: There is no Java for Spark.
        """
        if decode.types:
            for one in decode.types:
                yield from self._of_type(decode, one.type, registry, known)
            return
        try:
            parts = parts_without_a_run(decode, registry, known)
        except BadInput as error:
            yield "decode", "its schemas", error.message
            return
        if parts is not None:
            yield from missing_fields(p for p in parts if known is not None or has_all_schemas(p))
            wanted = decode.event_time.field if decode.event_time is not None else None
            yield from unknown_columns(wanted, parts)
        yield from self._refused(decode, parts, "decode.expect")

    def _of_type(
        self, decode: Decode, name: str, registry: RegistryPort | None, known: Decoding | None
    ) -> Iterator[Wrong]:
        """What is wrong with an event type; which columns it has, its newest schema may say."""
        key = f"decode.value.types.{name}"
        own = decode.of_type(name)
        try:
            is_known = registry is not None and has_newest(decode, name, registry)
        except RegistryMisused as error:
            yield f"{key}.subject", str(own.value.subject), error.message
            return
        if known is not None:
            mine = (p for p in known.parts if p.part == "key" or p.type == name)
            known = replace(known, parts=tuple(replace(p, type="") for p in mine))
        found = self.wrong(own, registry, known) if is_known else self.wrong(own)
        for where, value, allowed in found:
            for there in ("decode.value.fields", "decode.expect"):
                if where.startswith(there):
                    where = f"{key}{where.removeprefix(there.rpartition('.')[0])}"
            yield where, value, allowed

    def _refused(
        self, decode: Decode, parts: tuple[PartPlan, ...] | None, key: str
    ) -> Iterator[Wrong]:
        if not decode.expect:
            return
        from tideline.decoding.spark.looking import LookingSpark  # it imports pyspark

        if self._spark is None:
            self._spark = LookingSpark()
        plan = plan_without_ranges(decode, parts or ())
        for number, reason in self._spark.refused(plan, knows_columns=parts is not None):
            yield f"{key}.{number}.sql", decode.expect[number].sql, reason
