"""Which topics a fleet has: asked of the cluster by a run, never while Dags are parsed.

A topic that is not there any more stays in the list: its stream, whose run finds out what became of
it, would be gone otherwise, and its incidents with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tideline.errors import BadInput
from tideline.kafka.kafka_settings import kafka_settings
from tideline.landing.context import now
from tideline.model.fleet import TopicList, update_topics
from tideline.model.wording import first_few, how_many
from tideline.stream.contents import (
    FleetContents,
    keep_topics,
    known_topics,
    topics_file,
    with_topics,
)
from tideline.stream.files import names_taken_beside, read_file, refused_fleets_beside
from tideline.stream.fleet_file import SAMPLES, Fleet
from tideline.wiring import find_store, names_beside, open_ledger


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a look at the cluster has changed.

    Args:
        topics: All that are known now.
        new: Topics that were not known.
        gone: Topics that were there the last time.
        back: Topics that had gone.
        refused: What is wrong with topics that were not taken up.
    """

    topics: TopicList
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        changes = (("new", self.new), ("gone or hidden", self.gone), ("back", self.back))
        parts = [f"{len(names)} {what}: {first_few(names)}" for what, names in changes if names]
        return "; ".join([how_many(len(self.topics.topics), "topic"), *parts])


def discover(file: str | Path, *, is_list_new: bool = False) -> Discovery | None:
    """Look for a fleet's topics, and keep what was found beside its file.

    Args:
        is_list_new: Whether a list that is not there is made, also beside ledgers of its streams.

    Returns:
        What has changed; None for a fleet that names its topics.

    Raises:
        BadInput: It is no fleet's; more topics match than it allows, or the list was lost: nothing
            is kept then; or the list cannot be written.
    """
    contents = read_file(file)
    if not isinstance(contents, FleetContents):
        raise BadInput(f"{file}: a stream file, which names its topics; a fleet has a key `fleet`")
    fleet = contents.fleet
    if fleet.topic_pattern is None:
        return None
    found = _found(fleet, fleet.topic_pattern, contents.template.kafka.connection)
    known = known_topics(fleet, file)
    if len(found) > fleet.max_topics:
        raise BadInput(
            f"{file}: topic_pattern: {len(found)} topics match {fleet.topic_pattern!r}, and"
            f" max_topics is {fleet.max_topics}: correct the pattern, `leave_out` topics, or raise"
            f" max_topics. Nothing was taken up; among them are {first_few(sorted(found))}"
        )
    topics = update_topics(known, fleet.fleet, found, now())
    if known is None and not is_list_new:
        _refuse_lost(contents, found)
    before = set() if known is None else {topic.name for topic in known.topics}
    taken = names_taken_beside(with_topics(contents, topics))
    refused = {n: str(why) for n, why in taken.items() if why is not None and n not in before}
    if unsure := refused_fleets_beside(Path(file)):
        files = first_few((path.name for path in unsure), 3)
        why = f"{files} is refused, and may have it: it is taken up once that is mended"
        new = (topic.name for topic in topics.topics if topic.name not in before)
        refused |= {name: f"{file}: topic {name}: {why}" for name in new}
    topics = replace(topics, topics=tuple(t for t in topics.topics if t.name not in refused))
    keep_topics(fleet, file, topics)
    return replace(_changes(known, topics), refused=tuple(refused.values()))


def _refuse_lost(contents: FleetContents, found: Mapping[str, str]) -> None:
    """Refuse a first list where streams have run before: the list before it is lost.

    Also streams of topics that are gone by now: their ledgers are asked for by name.

    Raises:
        BadInput: It is so.
    """
    fleet, file = contents.fleet, contents.parsed.file
    gone = dict.fromkeys((*_named_beside(contents), *fleet.names, *fleet.overrides), "")
    topics = update_topics(None, fleet.fleet, {**gone, **found}, now())
    expected = with_topics(contents, topics)
    taken = names_taken_beside(expected)  # these ledgers are of other files' streams
    streams = [stream for topic, stream in expected.by_topic.items() if taken.get(topic) is None]
    ran = next((s.stream for s in streams if open_ledger(s).read().version >= 0), None)
    if ran is not None:
        raise BadInput(
            f"{topics_file(fleet, file)} is not there, and stream {ran} has a ledger: the list of"
            " topics was lost, and with it those that are gone, with their incidents. Nothing was"
            f" taken up. Restore the file; or tideline discover {file} --new-list, if no topic of"
            " the fleet was ever deleted, or its streams had files of their own before"
        )


def _named_beside(contents: FleetContents) -> Iterator[str]:
    """Topics of the fleet for which there may be ledgers, where the template puts them."""
    fleet, template = contents.fleet, contents.template
    location = template.ledger_location
    place = location.stream if location.kind == "airflow" else location.address
    before, _, after = place.partition(SAMPLES[0])
    folder, _, start = before.rpartition("/")
    end = after.partition("/")[0]
    like = replace(location, address=f"{folder}/any") if location.kind == "delta" else location
    for name in names_beside(like, find_store(template)):
        topic = name.removeprefix(start).removesuffix(end)
        if f"{start}{topic}{end}" == name and fleet.means(topic):
            yield topic


def _found(fleet: Fleet, pattern: str, connection: str) -> dict[str, str]:
    """Id of each topic that is there and meant."""
    # Imported here: other commands need no client.
    from tideline.kafka.kafka_cluster import KafkaCluster

    settings = kafka_settings(connection)
    with KafkaCluster(settings) as cluster:
        return {
            name: topic_id
            for name, topic_id in cluster.topic_ids(pattern).items()
            if fleet.means(name)
        }


def _changes(known: TopicList | None, topics: TopicList) -> Discovery:
    before = {} if known is None else {t.name: t for t in known.topics}
    there = [t for t in topics.topics if t.gone_since is None]
    return Discovery(
        topics,
        new=tuple(t.name for t in there if t.name not in before),
        gone=tuple(
            t.name
            for t in topics.topics
            if t.gone_since is not None and before[t.name].gone_since is None
        ),
        back=tuple(
            t.name for t in there if t.name in before and before[t.name].gone_since is not None
        ),
    )
