"""Whatever is cut, decided, backfilled and rewound: a record of a log stands in the table once."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.build import ID, NOW, head, observation, plan, position, seen, topic
from tideline.model.incident import Decision, Incident
from tideline.model.observation import TableObservation
from tideline.model.offsets import OffsetRange, PartitionIdentity, union
from tideline.model.plan import BatchProposal, Stored, VerifiedRange
from tideline.model.run import Rewind, RunRecord, TableCommit
from tideline.rules.advance import advance_head
from tideline.rules.audit import audit
from tideline.rules.backfill import AskedOffsets, is_about, plan_backfill
from tideline.rules.planning import move_over_coverage, plan_ranges
from tideline.rules.replay import obstacles
from tideline.rules.reset_detection import find_resets
from tideline.rules.resolution import apply_decision
from tideline.rules.rewound import rewound_head, trimmed_record, undone_ranges, undone_record

PLACE = ("orders", 0)
TABLE = TableObservation(True, "t", 1, "orders", "l", token=1)
sizes = st.integers(0, 12)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), sizes, sizes),
        st.tuples(st.just("truncate"), sizes, sizes),
        st.tuples(st.just("expire"), sizes, sizes),
        st.tuples(st.just("live"), sizes, st.sampled_from(["accept_loss", "restart"])),
        st.tuples(st.just("freeze"), st.integers(0, 30), sizes),
        st.tuples(st.just("land"), sizes, sizes),
        st.tuples(st.just("rewind"), sizes, sizes),
    ),
    max_size=25,
)


class World:
    """One partition's log, its table and its ledger; records are numbers that never come again."""

    def __init__(self):
        self.start, self.log, self.records = 0, [], 0
        self.epochs = [(0, 0)]
        self.table = {}
        self.head, self.readings = head(position(0, epoch=None), table_id="t", table_version=1), 0
        self.closed, self.open, self.kept, self.runs = {}, [], [], 0
        self.reading_of = {0: 0}

    def produce(self, count, _):
        self.log += range(self.records, self.records + count)
        self.records += count

    def truncate(self, count, more):
        """An unclean leader lacks the newest records, and others take their offsets."""
        cut = max(self.start, len(self.log) - count)
        del self.log[cut:]
        self.epochs = [e for e in self.epochs if e[1] < cut]
        self.epochs.append((self.epoch + 1, cut))
        self.epoch += 1
        self.produce(more, None)

    epoch = 0

    def expire(self, count, _):
        self.start = min(len(self.log), self.start + count)

    def observed(self, epoch):
        """As brokers answer a request made with a known leader epoch."""
        later = [first for number, first in self.epochs if epoch is not None and number > epoch]
        end = len(self.log)
        ends = min(later, default=end)
        return observation(
            topic(seen(self.start, end, epoch=self.epoch, epoch_end=ends)), table=TABLE
        )

    def decided(self, choice):
        """An observation without findings, after every decision was carried out."""
        while True:
            now = self.observed(self.head.positions[0].leader_epoch)
            found = find_resets(self.head, now, stream="orders", ledger_id="l")
            if not found:
                return now
            for finding in found:
                assert finding.kind in ("truncation", "retention_loss")
                one = choice if finding.kind == "truncation" else "accept_loss"
                incident = Incident("i", "r", NOW, finding, decision=Decision(one, "ann", NOW, ""))
                before = self.head.positions[0].generation
                self.head = apply_decision(self.head, incident, now).head
                after = self.head.positions[0].generation
                if after != before:
                    self.readings += one == "restart"
                    self.reading_of[after] = self.readings

    def live(self, count, choice):
        now = self.decided(choice)
        self.head = move_over_coverage(self.head, now, frozenset())
        proposal = plan_ranges(
            self.head,
            now,
            isolation_level="read_uncommitted",
            max_records_per_run=count + 1,
            max_records_per_partition=count + 1,
        )
        self.execute(proposal, "live")
        (at,) = self.head.positions
        for identity, piece in self.head.generations.pieces(at.identity):
            first, end = max(piece.start_offset, self.start), min(piece.end_offset, at.next_offset)
            for offset in range(first, end):
                assert self.table[identity.generation, offset][0] == self.log[offset]

    def freeze(self, start, count):
        """A backfill; refused where the log is not the known one."""
        now = self.observed(self.head.positions[0].leader_epoch)
        end = min(start + count, len(self.log))
        if start >= end or find_resets(self.head, now, stream="orders", ledger_id="l"):
            return
        proposal = plan_backfill(
            self.head, now, {PLACE: AskedOffsets(start, end)}, "read_uncommitted"
        )
        assert is_about(self.head, proposal.ranges)
        self.open.append(proposal)

    def land(self, count, _):
        """Execute a backfill that was frozen some time ago, if its log is still the same."""
        if not self.open:
            return
        proposal = self.open.pop(count % len(self.open))
        now = self.observed(proposal.ranges[0].leader_epoch) if proposal.ranges else None
        made = plan(*proposal.ranges, lane="backfill")
        if now is not None and not obstacles(made.on_cluster, now):
            self.execute(proposal, "backfill")

    def execute(self, proposal: BatchProposal, lane):
        self.runs += 1
        frozen = plan(*proposal.ranges, lane=lane, run_id=f"r{self.runs}", plan_id=f"p{self.runs}")
        for planned in frozen.ranges:
            for offset in range(planned.start_offset, planned.end_offset):
                where = planned.generation, offset
                row = (self.log[offset], self.reading_of[planned.generation])
                assert self.table.setdefault(where, row) == row  # nothing landed is overwritten
        if frozen.ranges:
            self.head = advance_head(self.head, frozen, TableCommit("t", 1, 1, 1, 1))
        verified = tuple(VerifiedRange(r, len(r.offsets)) for r in frozen.ranges)
        self.closed[frozen.run_id] = RunRecord(
            frozen.run_id, lane, "done", "d", NOW, plan=frozen, verified=verified
        )
        self.kept.append((self.head, len(self.closed), dict(self.reading_of)))

    def rewind(self, back, _):
        """To an earlier head; what it takes away goes out of the table."""
        if back >= len(self.kept):
            return
        del self.kept[len(self.kept) - back :]
        then, count, self.reading_of = self.kept[-1]
        self.reading_of = dict(self.reading_of)
        undone = list(self.closed.values())[count:]
        found = undone_ranges(self.head, then, undone, {ID: "orders"})
        for planned in (r for group in found.values() for r in group):
            for offset in range(planned.start_offset, planned.end_offset):
                self.table.pop((planned.generation, offset), None)
        rewind = Rewind("rewind-1", "r", "why", "ann", NOW, "key")
        self.head = rewound_head(self.head, then, rewind, 1)
        for record in undone:
            self.closed[record.run_id] = undone_record(record, rewind, NOW)
        self.closed = {k: trimmed_record(r, then) for k, r in self.closed.items()}
        self.open = []

    def check(self):
        """Once per reading of the whole log, and the audit says so."""
        rows = list(self.table.values())
        assert len(set(rows)) == len(rows), "a record stands in the table twice"
        assert audited(self).clean


def audited(world):
    offsets = {}
    for generation, offset in world.table:
        offsets.setdefault(generation, []).append(OffsetRange(offset, offset + 1))
    stored = [
        Stored(PartitionIdentity(ID, generation, 0), len(pieces), union(pieces))
        for generation, pieces in offsets.items()
    ]
    return audit(world.head, world.closed.values(), [], stored)


@given(actions)
def test_a_record_of_a_log_stands_in_the_table_once(steps):
    """In all generations together; reading the whole log again on request begins anew."""
    world = World()
    world.produce(20, None)
    world.live(9, "accept_loss")
    for name, one, other in steps:
        getattr(world, name)(one, other)
        world.check()


@given(actions, st.integers(0, 40))
def test_a_second_row_of_any_record_is_named(steps, at):
    """In the generation before or after its own."""
    world = World()
    world.produce(20, None)
    world.live(20, "accept_loss")
    for name, one, other in steps:
        getattr(world, name)(one, other)
    newest = world.head.positions[0].identity
    for identity, piece in world.head.generations.pieces(newest)[:-1]:
        offset = piece.start_offset + at
        if (identity.generation, offset) in world.table and offset < piece.end_offset:
            row = world.table[identity.generation, offset]
            world.table[newest.generation, offset] = row
            told = [(f.generation, f.start_offset) for f in audited(world).duplicates]
            assert told == [(newest.generation, offset)]
            return


def test_a_backfill_over_a_cut_is_split_there():
    """The records below stand under the older generation already."""
    world = World()
    world.produce(20, None)
    world.live(20, "accept_loss")
    world.truncate(5, 10)
    world.live(20, "accept_loss")
    world.freeze(10, 10)
    ranges = world.open[0].ranges
    assert [(r.generation, r.start_offset, r.end_offset) for r in ranges] == [
        (0, 10, 15), (1, 15, 20)
    ]  # fmt: skip
    world.land(0, None)
    world.check()
    assert len(world.table) == 20 + 10


def test_what_a_ledger_does_not_know_counts_as_its_own():
    """A generation that an earlier version began: as that version took it."""
    world = World()
    world.produce(20, None)
    world.live(20, "accept_loss")
    world.truncate(5, 10)
    world.live(20, "accept_loss")
    world.head = replace(world.head, beginnings=())
    world.freeze(10, 10)
    assert [(r.generation, r.start_offset) for r in world.open[0].ranges] == [(1, 10)]
