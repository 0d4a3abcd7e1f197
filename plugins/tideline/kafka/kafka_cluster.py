"""The Kafka client: retries, time-outs and translated errors around `tideline.kafka.requests`."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar, TypeVarTuple

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from tideline.errors import AccessRefused, ServiceAway, Transient
from tideline.kafka.broker_refusals import BrokerRefusal
from tideline.kafka.first_connect import (
    CutAtConnect,
    connected,
    message_of,
    refusal_of,
    silent_endpoint,
)
from tideline.kafka.kafka_settings import KafkaSettings
from tideline.kafka.listener import probe_listener
from tideline.kafka.requests import KafkaRequests
from tideline.kafka.tokens import Tokens, check_msk_iam
from tideline.model.observation import Ends, Gap, Observation, TimedOffset
from tideline.model.offsets import Intervals, TopicPartition
from tideline.waits import waiting

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

if (_library := logging.getLogger("kafka")).level == logging.NOTSET:
    # It tells each connection in twenty lines, and each broker that does not answer, which our
    # message says once. A site that has set a level keeps it.
    _library.setLevel(logging.CRITICAL)


class KafkaCluster:
    """Offsets, topic ids, epochs and topic settings of one cluster: implements `KafkaPort`.

    `tideline.kafka.kafka_port` documents the methods, their edge cases and their errors.

    Args:
        settings: Checked client properties. Methods try again for its `patience_seconds`.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._requests = KafkaRequests(self._connected)
        self._admin: KafkaAdminClient | None = None
        self._failed: Callable[[str], None] = lambda _: None  # told why a try failed
        self._until = 0.0

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
        """Close the connections; the next call opens new ones."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    @property
    def requests(self) -> int:
        """Number of requests that observations, look-ups by time and examinations have sent."""
        return self._requests.count

    def topics_matching(self, pattern: str) -> list[str]:
        """The names of the topics that match a pattern, without internal ones."""
        return list(self.topic_ids(pattern))

    def topic_ids(self, pattern: str) -> dict[str, str]:
        """The id of each topic that matches a pattern, by name and in its order."""
        expression = re.compile(pattern)
        metadata = self._call(self._requests.metadata, None)
        return {
            topic["name"]: str(topic["topic_id"])
            for topic in sorted(metadata["topics"], key=lambda topic: str(topic["name"]))
            if not topic["is_internal"] and expression.fullmatch(topic["name"])
        }

    def observe(self, topics: Iterable[str], epochs: Mapping[TopicPartition, int]) -> Observation:
        """Read the state of every partition of the named topics, once."""
        return self._call(self._requests.observe, sorted(set(topics)), epochs)

    def offsets_at(
        self, instant: datetime, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """The first record of each partition that is not older than an instant."""
        timestamp_ms = -((_EPOCH - instant) // timedelta(milliseconds=1))  # rounded up, exactly
        return self._call(self._requests.offsets_at, timestamp_ms, list(partitions))

    def ends(self, topics: Mapping[str, str], ages: Mapping[int, Collection[str]]) -> Ends:
        """Where topics end for a stream that reads them, and where what is young enough begins.

        Partitions that no broker can tell of are left out, and so are topics that are not there.

        Args:
            topics: The isolation level by which each is read, by its name.
            ages: Topics by age in seconds: records that are older are not young.
        """
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        return self._call(self._requests.ends, topics, ages, now_ms)

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """The next offsets that a consumer group has committed."""
        asked = [TopicPartition(*partition) for partition in partitions]
        answer = self._public(lambda admin: admin.list_group_offsets({group: asked}))[group]
        found = {partition: answer.get(partition) for partition in asked}
        # -1 is Kafka's word for none; an unknown partition is missing from the answer.
        return {p: c.offset if c is not None and c.offset >= 0 else None for p, c in found.items()}

    def examine(
        self, missing: Mapping[TopicPartition, Intervals], isolation_level: str
    ) -> dict[TopicPartition, tuple[Gap, ...]]:
        """Why offsets have no row, as far as the batches of the log show it."""
        return self._call(self._requests.examine, missing, isolation_level)

    def written_at(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime | None]:
        """When the record at an offset was written, or the next one after it."""
        return self._call(self._requests.written_at, offsets) if offsets else {}

    def retention_ms(self, topics: Iterable[str]) -> dict[str, int | None]:
        """How long topics keep records, in milliseconds."""
        retention: dict[str, int | None] = dict.fromkeys(topics)
        for name, values in self._settings(retention, "retention.ms", "cleanup.policy"):
            if "delete" in (values.get("cleanup.policy") or "delete"):
                kept = int(values.get("retention.ms") or -1)
                retention[name] = kept if kept >= 0 else None
        return retention

    def delete_retention_ms(self, topics: Iterable[str]) -> dict[str, int]:
        """How long compacted topics keep tombstones once they are cleaned, in milliseconds."""
        answer = self._settings(topics, "delete.retention.ms", "cleanup.policy")
        return {
            name: int(values["delete.retention.ms"] or 0)
            for name, values in answer
            if "compact" in (values.get("cleanup.policy") or "")
        }

    def compacted(self, topics: Iterable[str]) -> set[str]:
        """The topics among these whose log may have lost records to compaction."""
        asked = set(topics)
        # Brokers answer without settings for a topic that does not exist or may not be read.
        known = {n: v.get("cleanup.policy") for n, v in self._settings(asked, "cleanup.policy")}
        return {name for name in asked if "compact" in (known.get(name) or "compact")}

    def _settings(
        self, topics: Iterable[str], *wanted: str
    ) -> Iterator[tuple[str, dict[str, str | None]]]:
        names = sorted(set(topics))
        resources = [ConfigResource(ConfigResourceType.TOPIC, n, list(wanted)) for n in names]
        answer = self._public(lambda admin: admin.describe_configs(resources, config_filter="all"))
        for name, settings in answer.get("topic", {}).items():
            yield name, {key: setting["value"] for key, setting in settings.items()}

    def commit_group(self, group: str, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Commit a consumer group's offsets, for tools that show lag."""
        offsets = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", None)
            for partition, offset in next_offsets.items()
        }
        answers = self._public(lambda admin: admin.alter_group_offsets(group, offsets))
        if refused := {
            str(tp): e.__name__ for tp, e in answers.items() if e is not kafka_errors.NoError
        }:
            raise ServiceAway(
                f"group {group}: the brokers did not commit the offsets of {refused}; the group"
                " may have running members",
                group=group,
            )

    def _connected(self) -> KafkaAdminClient:
        if self._admin is None:
            # Towards the end of the patience a try still has the time for an error of its own.
            left_ms = max(2000, int(1000 * (self._until - monotonic())))
            self._admin = connected(
                self._failed,
                **self._arguments(),
                # One request's time, and not the patience: the retries are ours (`_public`).
                bootstrap_timeout_ms=min(self.settings.request_timeout_ms, left_ms),
                reconnect_backoff_max_ms=1000,
            )
        return self._admin

    def _arguments(self) -> dict[str, Any]:
        arguments = self.settings.for_python()
        if arguments.get("sasl_mechanism") == "AWS_MSK_IAM":
            check_msk_iam(self.settings.connection)
        if arguments.get("sasl_mechanism") == "OAUTHBEARER":
            tokens = Tokens(self.settings)
            tokens.token()  # here an error is itself; in the client it would be a lost connection
            arguments["sasl_oauth_token_provider"] = tokens
        return arguments

    def _public(self, ask: Callable[[KafkaAdminClient], Answer]) -> Answer:
        patience = self.settings.patience_seconds
        self._until = monotonic() + patience
        retrying = Retrying(
            stop=stop_after_delay(patience),
            wait=wait_exponential_jitter(multiplier=0.1, max=2),
            retry=retry_if_exception_type(Transient),
            reraise=True,
        )
        with waiting(f"Kafka at {self.settings.servers}", patience) as self._failed:
            answer: Answer = retrying(self._ask_once, ask)
        return answer

    def _ask_once(self, ask: Callable[[KafkaAdminClient], Answer]) -> Answer:
        try:
            return ask(self._connected())
        except (kafka_errors.KafkaError, OSError) as error:
            self.close()  # the next try opens new connections
            self._failed(self.settings.without_secrets(message_of(error)))
            raise _translated(error, self.settings) from error

    def _call(self, coroutine: Callable[[*Given], Awaitable[Answer]], *args: *Given) -> Answer:
        """The answer of one of our own coroutines, in the client's event loop."""
        answer: Answer = self._public(lambda admin: admin._manager.run(coroutine, *args))
        return answer


def _translated(error: Exception, settings: KafkaSettings) -> AccessRefused | ServiceAway:
    servers = settings.servers
    refusal = refusal_of(error)
    if refusal is None and isinstance(error, CutAtConnect):
        refusal = _protocol_refusal(error, settings)
    if refusal is not None:
        text = settings.without_secrets(refusal.text)
        return replace(refusal, text=text).as_error(settings.connection, servers)
    if silent := silent_endpoint(error):
        return ServiceAway(
            f"connection {settings.connection}: no token for Kafka at {servers}:"
            f" {settings.without_secrets(str(silent))}; no position has moved, run again when the"
            " token endpoint is back",
            bootstrap_servers=servers,
        )
    answer = settings.without_secrets(message_of(error)).removeprefix(f"{servers}: ")
    return ServiceAway(
        f"Kafka at {servers} does not answer: {answer}; no"
        " position has moved, run again when the brokers are back",
        bootstrap_servers=servers,
    )


def _protocol_refusal(cut: CutAtConnect, settings: KafkaSettings) -> BrokerRefusal | None:
    """A cut connection is a refusal only if the port proves to speak another protocol."""
    spoken = probe_listener(cut.host, cut.port)
    if spoken is None or not spoken.contradicts(settings.protocol):
        return None
    return BrokerRefusal(
        "protocol",
        f"security.protocol is {settings.protocol}, but the port speaks {spoken}"
        f" ({cut.host}:{cut.port})",
    )
