"""What follows from a ledger's state and an observation: worked out once, however many look."""

from __future__ import annotations

from functools import cached_property
from itertools import islice

from tideline.ledger.state import LedgerState
from tideline.model.bands import Standing
from tideline.model.head import Head
from tideline.model.observation import Observation
from tideline.model.request import RequestedRange
from tideline.model.stream import Stream
from tideline.rules.bands import Painter, standings
from tideline.rules.following import mark_named
from tideline.rules.status import doubt

_RANGES = 20
"""At most so many ranges are offered to be landed."""


class StreamFacts:
    """A stream's facts, each worked out when somebody first asks for it.

    Args:
        stream: From its file.
        state: Of its ledger.
        observed: What the brokers said last; None if they have never answered.
        is_newer: Whether the ledger has not changed since before they were asked.
    """

    def __init__(
        self, stream: Stream, state: LedgerState, observed: Observation | None, *, is_newer: bool
    ) -> None:
        self.stream = stream
        self.state = state
        self.observed = observed
        self._is_newer = is_newer

    def stand_on(self, stream: Stream, state: LedgerState, observed: Observation | None) -> bool:
        """Whether they are made of these very objects."""
        return self.stream is stream and self.state is state and self.observed is observed

    @cached_property
    def head(self) -> Head:
        """The ledger's, with those topics set aside that the file no longer names."""
        return mark_named(self.state.head, self.stream.kafka)

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """Where each partition stands, by topic and number."""
        level = self.stream.kafka.isolation_level
        return standings(self.state.head, self.observed, level)

    @cached_property
    def painter(self) -> Painter:
        """Paints their bands."""
        return Painter(self.state.head, self.state.runs.values(), self.state.control.incidents)

    @cached_property
    def doubt(self) -> str | None:
        """Why the brokers' last answer does not tell how the stream is doing; None if it does."""
        if self.observed is None:
            return "the brokers have not answered yet"
        topics, stand = self.stream.kafka.topics, self.standings
        return doubt(topics, self.head, stand, self.observed, is_newer=self._is_newer)

    @cached_property
    def not_landed(self) -> tuple[RequestedRange, ...]:
        """Readable offsets below the next ones that nobody has landed, one range a partition."""
        return tuple(islice(filter(None, map(self._first_gap, self.standings)), _RANGES))

    def _first_gap(self, standing: Standing) -> RequestedRange | None:
        start = standing.log_start_offset
        if start is None or standing.topic is None:
            return None
        for log in self.painter.paint(standing):
            for band in log.bands if log.is_current else ():
                offsets = band.offsets
                if band.kind == "gap" and offsets.end_offset > start:
                    first = max(start, offsets.start_offset)
                    place = (standing.topic, standing.partition)
                    return RequestedRange(*place, first, offsets.end_offset)
        return None
