"""A fleet file: many topics of one cluster, and one stream as the template of theirs.

Each topic becomes an ordinary stream, with a ledger, a head and incidents of its own: nothing but
what reads files, and what runs many at once, knows what a fleet is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic import model_validator as whole
from pydantic_core import PydanticCustomError

from tideline.model.addresses import folders_of
from tideline.model.wording import first_few
from tideline.stream.landing import DagName, TopicName, TopicNames, TopicPattern
from tideline.stream.sections import Schedule, Section
from tideline.stream.stream import Stream, json_schema_of, tables_of

Template = dict[str, Any]
MappedName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,199}$")]
"""What `{name}` stands for: one part of a path."""
SAMPLES = ("a-topic", "another-topic")
"""Topics by which a template is checked before any is known."""
_FIRST_LOOK = "@hourly"


class Fleet(Section):
    """One fleet file."""

    fleet: DagName = Field(
        description="The fleet's name, and the id of the Dag that looks for its topics; with"
        " `shards` it lands them as well."
    )
    topic_pattern: TopicPattern | None = Field(
        None,
        description="Regular expression that a topic's whole name matches. Either this or topics.",
    )
    topics: TopicNames = Field(
        default_factory=list, description="Topics by name: nothing is to be found out."
    )
    leave_out: list[TopicName] = Field(
        default_factory=list, description="Topics that match and are not meant."
    )
    max_topics: int = Field(
        500,
        ge=1,
        le=10_000,
        strict=True,
        description="More are refused, so that a bad pattern makes no thousands of tables.",
    )
    topics_file: str | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="Where the topics are kept that were found: a path, from this file's folder"
        " on, that whoever runs and whoever parses Dags share. Default: <fleet>.topics.json",
    )
    names: dict[TopicName, MappedName] = Field(
        default_factory=dict,
        description="The value of `{name}` in the stream of a topic; by default the topic.",
    )
    discover: Schedule | None = Field(
        _FIRST_LOOK,
        description="Cron expression: when the fleet's Dag looks for topics. With `shards` each of"
        " its runs does, and the template's schedule counts.",
    )
    shards: int | None = Field(
        None,
        ge=1,
        le=64,
        strict=True,
        description="One Dag with so many tasks lands all topics, each a part of them. Without it,"
        " each topic has a Dag of its own.",
    )
    threads: int = Field(
        4, ge=1, le=64, strict=True, description="How many topics a shard lands at once."
    )
    stream: Template = Field(
        description="A stream file without topics. `{topic}` and `{name}` in its texts are replaced"
        " by the topic's."
    )
    overrides: dict[TopicName, Template] = Field(
        default_factory=dict,
        description="Keys of the stream of some topics, by topic; other keys are the template's."
        " null takes a key of the template away.",
    )

    @whole(mode="after")
    def _one_way_to_name_topics(self) -> Fleet:
        if bool(self.topics) == (self.topic_pattern is not None):
            raise PydanticCustomError(
                "topic_pattern", "give either topics or topic_pattern, and only one of them"
            )
        if len(self.topics) > self.max_topics:
            raise PydanticCustomError("topics", "more than max_topics")
        return self

    @whole(mode="after")
    def _about_topics_that_are_meant(self) -> Fleet:
        for key in ("names", "overrides"):
            others = [topic for topic in getattr(self, key) if not self.means(topic)]
            if others:
                raise PydanticCustomError(
                    key, "no topic of this fleet: {others}", {"others": first_few(others)}
                )
        return self

    @whole(mode="after")
    def _one_schedule_for_all(self) -> Fleet:
        for topic, keys in self.overrides.items():
            if self.shards is not None and {"schedule", "timezone"} & set(keys):
                raise PydanticCustomError(
                    "overrides",
                    "{topic}: no schedule of its own with shards: one Dag lands all topics. Leave"
                    " the topic out, and give it a file of its own",
                    {"topic": topic},
                )
        return self

    @field_validator("stream")
    @classmethod
    def _without_topics(cls, value: Template) -> Template:
        kafka = value.get("kafka", {})
        if isinstance(kafka, dict) and (given := {"topics", "topic_pattern"} & set(kafka)):
            raise ValueError(f"kafka.{min(given)} does not belong here: each topic has a stream")
        return value

    def means(self, topic: str) -> bool:
        """Whether a topic of that name belongs to this fleet."""
        if topic in self.leave_out:
            return False
        if self.topic_pattern is None:
            return topic in self.topics
        return re.fullmatch(self.topic_pattern, topic) is not None

    def file_of(self, topic: str) -> Template:
        """The stream file of a topic, not checked yet."""
        words = {"{topic}": topic, "{name}": self.names.get(topic, topic)}
        data = _merged(self.stream, self.overrides.get(topic, {}))
        filled: Template = _filled(data, words)
        catalog, kafka = data.get("catalog"), filled.get("kafka")
        if isinstance(catalog, dict) and isinstance(catalog.get("name"), str):
            plain = {word: _NO_NAME.sub("_", text.lower()) for word, text in words.items()}
            filled["catalog"]["name"] = _filled(catalog["name"], plain)
        if kafka is None or isinstance(kafka, dict):
            filled["kafka"] = {**(kafka or {}), "topics": [topic]}
        return filled


_NO_NAME = re.compile("[^a-z0-9_]")
"""What a name in a catalog cannot have."""


def _merged(below: Template, above: Template) -> Template:
    """Keys of one mapping over those of another, at every level; null takes a key away."""
    merged = deepcopy(below)
    for key, value in above.items():
        if value is None and merged.pop(key, None) is not None:
            continue
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """A value with each text's words put in."""
    if isinstance(value, dict):
        return {key: _filled(inner, words) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, words) for inner in value]
    if isinstance(value, str):
        # In one go: a topic's name cannot bring a word with it, since no name has a brace.
        return re.sub(r"\{topic\}|\{name\}", lambda found: words[found.group()], value)
    return value


@dataclass(frozen=True, slots=True)
class Collision:
    """Two streams that collide in a name, or in an address.

    Args:
        one: Topic of the first one.
        other: Topic of the second one.
        key: Where they collide, as the stream file calls it.
        text: What is the same, or which address lies inside which.
    """

    one: str
    other: str
    key: str
    text: str


def collisions(streams: Mapping[str, Stream]) -> list[Collision]:
    """Pairs of streams with one name, or with folders of which one holds the other.

    Args:
        streams: By topic.

    Returns:
        At least one pair for each stream that collides with another one; each pair once.
    """
    found = []
    catalogs = [(s.catalog, tables_of(s), t) for t, s in streams.items() if s.catalog is not None]
    for key, named in (
        ("stream", [(stream.stream, topic) for topic, stream in streams.items()]),
        ("catalog.name", [(c.name_of(role), t) for c, roles, t in catalogs for role in roles]),
    ):
        found += [
            Collision(one, other, key, name)
            for (name, one), (beside, other) in pairwise(sorted(named))
            if name == beside
        ]
    # A folder that holds others stands right before them, once folders are sorted.
    holding: tuple[tuple[str, ...], str, str] | None = None
    places = [(t, uri) for t, stream in streams.items() for uri in stream.addresses.values()]
    for folders, topic, uri in sorted((folders_of(uri), topic, uri) for topic, uri in places):
        if holding is not None and folders[: len(holding[0])] == holding[0]:
            if topic != holding[1]:  # what one stream says of itself is checked there
                text = uri if uri == holding[2] else f"{uri} lies inside {holding[2]}"
                found.append(Collision(holding[1], topic, "table.uri", text))
            continue
        holding = (folders, topic, uri)
    return list({(c.one, c.other): c for c in reversed(found)}.values())


if __name__ == "__main__":
    print(json_schema_of(Fleet), end="")
