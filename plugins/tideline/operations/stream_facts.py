"""What is known of a stream, and what follows from it: where it stands. Asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from functools import cached_property

from tideline.ledger.state import LedgerState
from tideline.model.head import Head, Headroom
from tideline.model.observation import Observation
from tideline.model.status import PartitionStatus, StreamStatus
from tideline.rules.partition_status import partition_statuses
from tideline.rules.positions import mark_followed
from tideline.rules.stream_state import doubt, summarize
from tideline.stream.landing import Kafka
from tideline.stream.stream import Stream


class StreamFacts:
    """A stream's facts, each worked out when somebody first asks for it.

    Args:
        stream: As in its file.
        state: Its ledger's.
        observed: What the brokers said last; None if they have not answered.
        estimated: Headroom that no run has measured.
        is_newer: Whether the ledger has not changed since before the brokers were asked.
        unanswered: Why there is no answer of the brokers, for people.
        mark: Sets those topics aside that the file no longer means.
    """

    def __init__(
        self,
        stream: Stream,
        state: LedgerState,
        observed: Observation | None,
        estimated: Collection[Headroom] = (),
        *,
        is_newer: bool = True,
        unanswered: str | None = "the brokers have not answered yet",
        mark: Callable[[Head, Kafka], Head] = mark_followed,
    ) -> None:
        self.stream = stream
        self.state = state
        self.observed = observed
        self._estimated = estimated
        self._is_newer = is_newer
        self._unanswered = unanswered
        self._mark = mark

    @cached_property
    def head(self) -> Head:
        """The ledger's, with those topics set aside that the file no longer means."""
        return self._mark(self.state.head, self.stream.kafka)

    @property
    def headroom(self) -> Collection[Headroom]:
        """As the last run measured it, or else as it was measured for whoever looks."""
        return self.head.headroom or self._estimated

    @cached_property
    def partitions(self) -> tuple[PartitionStatus, ...]:
        """Where each partition stands, by topic and number."""
        level = self.stream.kafka.isolation_level
        return partition_statuses(self.head, self.observed, level, self._estimated)

    @cached_property
    def doubt(self) -> str | None:
        """Why ledger and brokers do not tell how the stream is doing; None if they do.

        While a rewind is unfinished, rows may be gone that the ledger still has.
        """
        if (rewind := self.state.control.rewind) is not None:
            return rewind.under_way
        if self.observed is None:
            return self._unanswered
        return doubt(
            self.stream.kafka.topics,
            self.head,
            self.partitions,
            self.observed,
            is_newer=self._is_newer,
            incidents=self.state.open_incidents,
        )

    def status(self, now: datetime) -> StreamStatus:
        """The stream's status; `now` is UTC-aware."""
        return summarize(
            self.stream.stream,
            self.head,
            self.state.decoding,
            self.state.folding,
            self.state.open_incidents,
            self.partitions,
            self.doubt,
            now,
            self.state.erasing,
            is_typed=self.stream.decode is not None,
        )
