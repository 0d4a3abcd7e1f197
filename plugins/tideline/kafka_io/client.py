"""The one client of Kafka: retries, time-outs and what errors mean, around `kafka_requests`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import OffsetAndMetadata
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from tideline.errors import Halted, ServiceAway, Transient
from tideline.kafka_io.requests import KafkaRequests
from tideline.kafka_io.settings import KafkaSettings
from tideline.model.coverage import Intervals
from tideline.model.gaps import Gap
from tideline.model.observation import Observation, TimedOffset
from tideline.model.offsets import TopicPartition

Answer = TypeVar("Answer")

_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_ABSENT_EPOCH = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOPIC = MetadataRequest.MetadataRequestTopic


class KafkaCluster:
    """Offsets, ids and epochs of one cluster.

    Args:
        settings: Checked client properties.

    Every method tries again for `settings.patience_seconds`, then raises `ServiceAway` when the
    cluster cannot be reached or is busy with itself; it raises `Halted` when the cluster refuses.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._requests = KafkaRequests(self._connected)
        self._admin: KafkaAdminClient | None = None

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections; the next call opens new ones."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    @property
    def requests(self) -> int:
        """How many requests of a look were sent so far."""
        return self._requests.count

    def topics_matching(self, pattern: str) -> list[str]:
        """Names of topics that the whole pattern matches, internal ones left out."""
        expression = re.compile(pattern)
        metadata = self._call(self._requests.metadata, None)
        return sorted(
            topic["name"]
            for topic in metadata["topics"]
            if not topic["is_internal"] and expression.fullmatch(topic["name"])
        )

    def observe(self, topics: Iterable[str], epochs: Mapping[TopicPartition, int]) -> Observation:
        """One look at every partition of the named topics.

        Args:
            topics: Names; a name that the cluster does not know comes back with no topic id.
            epochs: Leader epochs whose end offset is wanted, by (topic, partition).
        """
        found: Observation = self._call(self._requests.observe, sorted(set(topics)), epochs)
        return found

    def offsets_at(
        self, instant: datetime, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """First record whose timestamp is at or after the instant; None where there is none."""
        timestamp_ms = -((_EPOCH - instant) // timedelta(milliseconds=1))  # rounded up, exactly
        found: dict[TopicPartition, TimedOffset | None] = self._call(
            self._requests.offsets_at, timestamp_ms, list(partitions)
        )
        return found

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """Next offsets that a consumer group has committed; None where it has not."""
        places = list(partitions)
        specs = {group: [TopicPartition(*place) for place in places]}
        found = self._public(lambda admin: admin.list_group_offsets(specs))[group]
        offsets: dict[TopicPartition, int | None] = dict.fromkeys(places)
        for place in places:
            committed = found.get(TopicPartition(*place))
            if committed is not None and committed.offset >= 0:
                offsets[place] = committed.offset
        return offsets

    def examine(
        self, missing: Mapping[TopicPartition, Intervals], isolation_level: str
    ) -> dict[TopicPartition, tuple[Gap, ...]]:
        """Why offsets have no row, from the batches that the log holds there."""
        found: dict[TopicPartition, tuple[Gap, ...]] = self._call(
            self._requests.examine, missing, isolation_level
        )
        return found

    def written_at(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime | None]:
        """When the first record at or after an offset was written; None where unknown."""
        if not offsets:
            return {}
        found: dict[TopicPartition, datetime | None] = self._call(
            self._requests.written_at, offsets
        )
        return found

    def retention_ms(self, topics: Iterable[str]) -> dict[str, int | None]:
        """The time after which topics delete records; None where time deletes nothing."""
        found: dict[str, int | None] = dict.fromkeys(topics)
        for name, values in self._settings(found, "retention.ms", "cleanup.policy"):
            if "delete" in (values.get("cleanup.policy") or "delete"):
                kept = int(values.get("retention.ms") or -1)
                found[name] = kept if kept >= 0 else None
        return found

    def compacted(self, topics: Iterable[str]) -> set[str]:
        """Those topics whose log may have lost records to compaction."""
        found = self._settings(topics, "cleanup.policy")
        return {name for name, values in found if "compact" in (values["cleanup.policy"] or "")}

    def _settings(
        self, topics: Iterable[str], *wanted: str
    ) -> Iterator[tuple[str, dict[str, str | None]]]:
        names = sorted(set(topics))
        resources = [ConfigResource(ConfigResourceType.TOPIC, n, list(wanted)) for n in names]
        answer = self._public(lambda admin: admin.describe_configs(resources, config_filter="all"))
        for name, settings in answer.get("topic", {}).items():
            yield name, {key: setting["value"] for key, setting in settings.items()}

    def commit_group(self, group: str, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Tell a consumer group its next offsets, for lag tools; never read back as truth."""
        offsets = {
            TopicPartition(*place): OffsetAndMetadata(offset, "", None)
            for place, offset in next_offsets.items()
        }
        answers = self._public(lambda admin: admin.alter_group_offsets(group, offsets))
        refused = {
            str(tp): e.__name__ for tp, e in answers.items() if e is not kafka_errors.NoError
        }
        if refused:
            raise ServiceAway(f"group {group}: offsets not taken: {refused}", group=group)

    def _connected(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = KafkaAdminClient(
                **self.settings.for_python(),
                bootstrap_timeout_ms=self.settings.request_timeout_ms,
                reconnect_backoff_max_ms=1000,
            )
        return self._admin

    def _public(self, ask: Callable[[KafkaAdminClient], Answer]) -> Answer:
        for attempt in Retrying(
            stop=stop_after_delay(self.settings.patience_seconds),
            wait=wait_exponential_jitter(multiplier=0.1, max=2),
            retry=retry_if_exception_type(Transient),
            reraise=True,
        ):
            with attempt:
                try:
                    return ask(self._connected())
                except (kafka_errors.KafkaError, OSError) as error:
                    self.close()
                    raise _translated(error, self.settings) from error
        raise AssertionError("unreachable")

    def _call(self, coroutine: Callable[..., Any], *args: Any) -> Any:
        return self._public(lambda admin: admin._manager.run(coroutine, *args))


def _translated(error: Exception, settings: KafkaSettings) -> Transient | Halted:
    servers = settings.properties["bootstrap.servers"]
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    refused = (
        kafka_errors.AuthorizationError,
        kafka_errors.UnsupportedVersionError,
        kafka_errors.KafkaConfigurationError,
    )
    if isinstance(error, refused):
        return Halted(f"Kafka at {servers} refuses: {text}", bootstrap_servers=servers)
    return ServiceAway(
        f"Kafka at {servers} does not answer: {text}; nothing moved, try again when it is back",
        bootstrap_servers=servers,
    )
