"""What the sections of a stream file share, and those that are about no record.

In this order: the base of each section and bounds of its values; what Airflow is told of the Dag;
what starts runs beside its schedule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from tideline.model.addresses import safe_uri
from tideline.model.maintenance import TableRole
from tideline.model.wording import first_few
from tideline.stream.schedules import refused_schedule

TEN_YEARS = 315_360_000
"""Seconds; the most that any setting takes."""
LARGEST_OFFSET = 2**63 - 1
LARGEST_PARTITION = 2**31 - 1
ConnectionId = Annotated[str, Field(max_length=250, pattern=r"^[\w#!()\-.:/\\]+$")]
"""As Airflow's own `sanitize_conn_id` takes it."""


FOLDER = "folder"
"""Key of the validation context of files: their folder, which schema files are beside."""


class Section(BaseModel):
    """Keys of one level of a stream file; unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _no_section_without_a_value(
        cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        """Refuse a section with nothing behind its name in a file, which turns something on.

        Null for a value is a word that files have: `schedule: null` is no schedule.
        """
        checked = handler(value)
        is_of_file = FOLDER in (info.context or {})
        if value is None and is_of_file and _holds_section(cls, info.field_name):
            raise PydanticCustomError("nothing", "a section, or leave the key out")
        return checked


def _holds_section(model: type[Section], name: str | None) -> bool:
    annotation = model.model_fields[str(name)].annotation
    kinds = (annotation, *get_args(annotation))  # of `X | None`
    return any(isinstance(kind, type) and issubclass(kind, Section) for kind in kinds)


class FileSchema(GenerateJsonSchema):
    """A JSON Schema in which a section is never null, as in files."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Null and what may be there; of a section the section alone."""
        found = self.generate_inner(schema["schema"])
        return found if "$ref" in found else super().nullable_schema(schema)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """With its default: of a section none where it is left out, or its keys' defaults."""
        found = self.generate_inner(schema["schema"])
        if "$ref" in found and "default_factory" in schema:
            return {**found, "default": {}}
        is_without = "$ref" in found and schema.get("default", ...) is None
        return found if is_without else super().default_schema(schema)


def given_twice(values: Iterable[str]) -> list[str]:
    """What stands more than once among values, sorted."""
    return sorted(value for value, times in Counter(values).items() if times > 1)


def each_once(text: str, name: Callable[[Any], str] = str) -> AfterValidator:
    """A check that no two values of a list have one name.

    Args:
        text: What is allowed; `{0}` stands for the first name that stands twice, `{1}` for some.
    """

    def checked(values: list[Any]) -> list[Any]:
        if twice := given_twice(map(name, values)):
            raise ValueError(text.format(twice[0], first_few(twice)))
        return values

    return AfterValidator(checked)


def _with_intervals(value: str) -> str:
    if allowed := refused_schedule(value):
        raise ValueError(allowed)
    return value


def written_out(example: str) -> BeforeValidator:
    """A check that a time is no number: nobody knows whether of seconds or of milliseconds."""

    def checked(value: object) -> object:
        if isinstance(value, int | float) or (isinstance(value, str) and not _DAY.match(value)):
            raise ValueError(f"allowed: {example}")
        return value

    return BeforeValidator(checked)


_DAY = re.compile(r"\d{4}-\d\d-\d\d(?!\d)", re.ASCII)
Day = Annotated[date, written_out("a day, for example 2026-01-31")]
Address = Annotated[str, AfterValidator(safe_uri)]
Schedule = Annotated[str, AfterValidator(_with_intervals)]
Flag = Annotated[bool, Field(strict=True)]
Seconds = Annotated[int, Field(ge=0, le=TEN_YEARS, strict=True)]
Records = Annotated[int, Field(ge=1, le=LARGEST_OFFSET, strict=True)]
"""Counted in offsets."""


OPERATION_DAGS = (
    "tideline_erase",
    "tideline_resolve",
    "tideline_audit",
    "tideline_rewind",
    "tideline_maintenance",
    "tideline_redrive",
)
"""Ids of the Dags that work on any stream; no stream may be called so."""
UserName = Annotated[str, Field(min_length=1, max_length=512)]
UserNames = Annotated[list[UserName], Field(min_length=1, max_length=1000)]
RoleName = Annotated[str, Field(min_length=1, max_length=64)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
Resource = Literal["DAGs", "DAG Runs"]
Action = Literal["can_read", "can_edit", "can_create", "can_delete", "menu_access"]
_ACTIONS = {
    "DAGs": {"can_read", "can_edit", "can_delete"},
    "DAG Runs": {"can_read", "can_create", "can_delete", "menu_access"},
}


class AirflowSettings(Section):
    """How the Dag looks and behaves."""

    start_date: Day = Field(date(2020, 1, 1), description="The Dag's start date.")
    tags: list[Tag] = Field(default_factory=list, description="Tags besides `tideline`.")
    owner: str = Field("data", description="Owner of the tasks.")
    retries: int = Field(2, ge=0, le=100, strict=True, description="Retries of a task.")
    retry_delay_seconds: Seconds = Field(60, description="Seconds between two tries.")
    approval_timeout_seconds: int = Field(
        86_400,
        ge=1,
        le=TEN_YEARS,
        strict=True,
        description="Seconds until an unanswered approval fails.",
    )
    access_control: dict[RoleName, dict[Resource, list[Action]]] | None = Field(
        None, description="Roles of Airflow's auth manager, and what each may do with the Dag."
    )
    operators: UserNames | None = Field(
        None,
        description="Airflow users who may trigger runs and operations of the stream; without it,"
        " whoever may trigger the Dag.",
    )
    approvers: UserNames | None = Field(
        None, description="Airflow users whose decisions count; without it, the operators."
    )

    @field_validator("access_control")
    @classmethod
    def _actions_of_the_resource(
        cls, value: dict[str, dict[str, list[str]]] | None
    ) -> dict[str, dict[str, list[str]]] | None:
        for role, resources in (value or {}).items():
            for resource, actions in resources.items():
                if wrong := sorted(set(actions) - _ACTIONS[resource]):
                    allowed = ", ".join(sorted(_ACTIONS[resource]))
                    raise ValueError(f"{role}: {resource}: no {wrong[0]}; allowed: {allowed}")
        return value

    @property
    def deciders(self) -> list[str] | None:
        """Whose decisions about incidents count; None for everybody whom Airflow lets answer."""
        return self.approvers or self.operators


class Catalog(Section):
    """Names for the stream's tables in a catalog: external tables, never dropped, never moved."""

    connection: ConnectionId = Field(
        description="Airflow connection of type hive_metastore, aws (Glue) or http (Unity's REST)."
    )
    name: str = Field(
        pattern=r"^([a-z0-9_]{1,100}\.){1,2}[a-z0-9_]{1,100}$",
        description="Name of the raw table: schema.table, for Unity catalog.schema.table. The other"
        " tables' names end in _decoded, _quarantine and _current; with decode.value.types, in the"
        " type's name for _decoded.",
    )

    def name_of(self, role: TableRole) -> str:
        """The name of a table."""
        return self.name if role == "raw" else f"{self.name}_{role.partition(':')[2] or role}"


class Trigger(Section):
    """Runs that are started by lag, beside the schedule. Needs Airflow 3.3."""

    lag_records: Records | None = Field(None, description="So many unread offsets start one.")
    lag_seconds: int | None = Field(
        None,
        ge=1,
        le=TEN_YEARS,
        strict=True,
        description="A record that has waited for so long starts one.",
    )
    poll_seconds: int = Field(
        10, ge=1, le=3600, strict=True, description="How often the brokers are asked."
    )

    @model_validator(mode="after")
    def _starts_somewhere(self) -> Trigger:
        if self.lag_records is None and self.lag_seconds is None:
            raise ValueError("give lag_records, lag_seconds or both")
        return self
