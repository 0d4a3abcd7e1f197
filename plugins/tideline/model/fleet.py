"""The topics that a fleet knows: found on the cluster, kept in a document beside its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic that was seen.

    Args:
        name: On the cluster.
        topic_id: Its id when it was seen last.
        first_seen: UTC-aware.
        gone_since: When it was missed first, or hidden from us; None while it is there. Its stream
            stays, and so do its incidents.
    """

    name: str
    topic_id: str
    first_seen: datetime
    gone_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class TopicList:
    """What a fleet's discovery has found so far.

    Args:
        fleet: Whose.
        looked_at: When the cluster was asked last, UTC-aware.
        topics: By name, each once.
    """

    fleet: str
    looked_at: datetime
    topics: tuple[KnownTopic, ...]


def update_topics(
    known: TopicList | None, fleet: str, found: Mapping[str, str], now: datetime
) -> TopicList:
    """The list after a look at the cluster; no topic ever leaves it.

    Args:
        known: The list before; None before the first look.
        found: Id of each topic that is there and meant, by name.
        now: UTC-aware.
    """
    before = {} if known is None else {topic.name: topic for topic in known.topics}
    topics = []
    for name in sorted({*before, *found}):
        first = before[name].first_seen if name in before else now
        if name in found:
            topics.append(KnownTopic(name, found[name], first))
        else:
            gone = before[name].gone_since or now
            topics.append(KnownTopic(name, before[name].topic_id, first, gone))
    return TopicList(fleet, now, tuple(topics))
