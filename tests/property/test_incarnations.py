"""Incarnations of a topic: which one a log belongs to, by whatever way they were followed."""

from dataclasses import dataclass, field, replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tideline.folding.fold_rules import are_reordered, newest_logs
from tideline.ledger.state import Control, LedgerState
from tideline.model.current import Folding
from tideline.model.head import PartitionPosition
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places

IDS = [str(UUID(int=n)) for n in (3, 1, 2)]
"""Topic ids; those that are met later may sort before the others."""
STAYS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 2),
        st.lists(st.integers(0, 3), max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)
"""Each: which topic id is followed, how many partitions it has got meanwhile, which logs are cut
while it is followed, and whether one more partition comes then."""


@dataclass
class Followed:
    """What runs have followed, and the head that they left.

    Args:
        logs: Generations of each topic id's partitions.
        stays: The logs of each stay at a topic id, oldest first.
    """

    state: LedgerState = field(default_factory=lambda: LedgerState(0, Control("l", "s")))
    logs: dict[str, list[int]] = field(default_factory=dict)
    stays: list[set[PartitionIdentity]] = field(default_factory=list)
    topic_id: str = ""

    def follow(self, number, grows):
        """The topic has another id: one that was never there, or one that comes back."""
        if IDS[number] != self.topic_id:
            self.topic_id = IDS[number]
            known = [g + 1 for g in self.logs.get(self.topic_id, ())]
            self.logs[self.topic_id] = [*known, *[0] * (grows + (not known))]
            self.stays.append(set())
        self.note()

    def cut(self, partition):
        """A log has a new generation."""
        generations = self.logs[self.topic_id]
        generations[partition % len(generations)] += 1
        self.note()

    def grow(self):
        """One more partition."""
        self.logs[self.topic_id].append(0)
        self.note()

    def note(self):
        """A run has written its positions."""
        logs = [
            PartitionIdentity(self.topic_id, g, n) for n, g in enumerate(self.logs[self.topic_id])
        ]
        self.stays[-1] |= {*logs}
        positions = (PartitionPosition("t", i.topic_id, i.generation, i.partition, 9) for i in logs)
        self.state = self.state.with_head(replace(self.state.head, positions=tuple(positions)))

    @property
    def order(self):
        """As the head has it."""
        return self.state.head.order_of_incarnations


def followed(stays):
    """A head after all of these."""
    found = Followed()
    for number, grows, cuts, is_grown in stays:
        found.follow(number, grows)
        for partition in cuts:
            found.cut(partition)
        if is_grown:
            found.grow()
    return found


@given(STAYS)
def test_each_log_belongs_to_the_stay_in_which_it_was_followed(stays):
    """Also of a topic id that has come back; and what Spark and SQL ask says the same."""
    found = followed(stays)
    for n, logs in enumerate(found.stays):
        for log in logs:
            assert found.order.of(log) == n
            held = [
                era
                for topic_id, partition, generation, era in found.order.conditions
                if topic_id == log.topic_id
                and partition in (None, log.partition)
                and generation <= log.generation
            ]
            assert held[-1] == n


@given(STAYS, st.integers(1, 6))
def test_what_is_followed_later_changes_no_order(stays, count):
    """What was folded in this order before stands as it is; a guess by ids is seen."""
    before, after = followed(stays[:count]), followed(stays)
    logs = sorted(log for stay in before.stays for log in stay)
    coverage = Places({log: (OffsetRange(0, 9),) for log in logs})
    folding = Folding(coverage=coverage, eras=before.order.ids, returns=before.order.returns)
    assert not are_reordered(folding, after.order)
    newest = newest_logs(logs, after.order)
    assert {log.topic_id for log in newest} == {before.topic_id}
    generations = dict(enumerate(before.logs[before.topic_id]))
    assert {log.partition: log.generation for log in newest} == generations
    once = len({*before.order.ids}) == len(before.order.ids)
    if once and [*before.order.ids] != sorted(before.order.ids):
        assert are_reordered(replace(folding, eras=tuple(sorted(before.order.ids))), after.order)
