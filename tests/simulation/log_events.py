"""What may happen to Kafka. Arguments are small numbers, taken modulo what there is."""

from __future__ import annotations

from tests.simulation.kafka import HOLE, OPEN, Log, Topic
from tests.simulation.world import World


def _place(world: World, topic: int, partition: int) -> tuple[str, Topic, int, Log] | None:
    names = sorted(world.cluster.topics)
    if not names:
        return None
    name = names[topic % len(names)]
    found = world.cluster.topics[name]
    number = partition % len(found.logs)
    return name, found, number, found.logs[number]


def produce(world: World, topic: int, partition: int, count: int) -> None:
    """Records outside of a transaction."""
    if at := _place(world, topic, partition):
        world.produce(at[0], at[2], count)


def stray(world: World, topic: int, partition: int) -> None:
    """Another client's partitioner: a record with a key that belongs into another partition."""
    if at := _place(world, topic, partition):
        world.strays.add(len(world.origins))
        world.happened("key_moved")
        world.produce(at[0], at[2], 1)


def transaction(world: World, topic: int, partition: int, count: int, commit: int) -> None:
    """A whole transaction, committed (1) or aborted (0), with its marker."""
    if at := _place(world, topic, partition):
        producer = world.number("producer")
        world.produce(at[0], at[2], count, producer)
        at[3].end_transaction(producer, bool(commit), world.clock.epoch_ms())


def open_transaction(world: World, topic: int, partition: int, count: int) -> None:
    """A transaction that stays open: readers of committed records stop before it."""
    if at := _place(world, topic, partition):
        world.produce(at[0], at[2], count, world.number("producer"))


def end_transactions(world: World, commit: int) -> None:
    """Every open transaction is committed (1) or aborted (0)."""
    for _, _, _, log in world.live_logs():
        for producer in sorted({e.producer for e in log.entries if e.kind == OPEN}):
            log.end_transaction(producer, bool(commit), world.clock.epoch_ms())


def expire(world: World, topic: int, partition: int, percent: int) -> None:
    """Retention, or DeleteRecords: the log start moves up."""
    if at := _place(world, topic, partition):
        name, _, number, log = at
        log.log_start += (log.stable_end - log.log_start) * percent // 100
        world.happened("retention_loss", (name, number))
        world.happened("unexplained_gap", (name, number))  # what would have explained it is gone


def truncate(world: World, topic: int, partition: int, back: int, refill: int) -> None:
    """An unclean election: the log's last records are gone, and others may take their offsets."""
    if at := _place(world, topic, partition):
        name, found, number, log = at
        cut = max(log.log_start, log.end - back)
        known = _proven_end(world, found.topic_id, number)
        world.unseen |= {e.serial for e in log.entries[max(cut, known) :]}
        world.shown[found.topic_id, number] = min(known, cut)
        log.elect(cut)
        world.happened("truncation", (name, number))
        world.produce(name, number, refill)


def _proven_end(world: World, topic_id: str, partition: int) -> int:
    """How far the ledger was shown a log: what is cut beyond was never known to anybody."""
    state = world.state()
    return max(
        0,
        world.shown.get((topic_id, partition), 0),
        *(
            p.proven_end
            for p in (state.head.positions if state is not None else ())
            if (p.topic_id, p.partition) == (topic_id, partition) and p.leader_epoch is not None
        ),
    )


def elect(world: World, topic: int, partition: int) -> None:
    """A clean election: another epoch, nothing is lost."""
    if at := _place(world, topic, partition):
        at[3].elect(at[3].end)


def hole(world: World, topic: int, partition: int, back: int) -> None:
    """A segment is damaged: an offset has neither a record nor a marker any more."""
    if at := _place(world, topic, partition):
        name, _, number, log = at
        offset = log.stable_end - 1 - back
        if offset >= log.log_start:
            log.entries[offset] = log.entries[offset]._replace(kind=HOLE)
            world.happened("log_hole", (name, number))


def unreadable(world: World, topic: int, partition: int, back: int) -> None:
    """Spark cannot read a record: a new one (0), or one of the last that is there already."""
    if at := _place(world, topic, partition):
        name, _, number, log = at
        if back == 0:
            world.produce(name, number, 1)
        offset = log.end - max(back, 1)
        if offset >= log.log_start:
            log.entries[offset] = log.entries[offset]._replace(is_broken=True)
            world.happened("unreadable_record", (name, number))


def readable(world: World) -> None:
    """A disk is replaced, or Spark is: every record can be read again."""
    for _, _, _, log in world.live_logs():
        log.entries = [e._replace(is_broken=False) for e in log.entries]


def garble(world: World, topic: int, partition: int, back: int) -> None:
    """Nobody can decode a record, one of the last: it lands, and goes into quarantine."""
    if at := _place(world, topic, partition):
        log = at[3]
        world.spark.garbled |= {e.serial for e in log.entries[max(0, log.end - 1 - back) :][:1]}


def decodable(world: World) -> None:
    """A transform is mended: every record can be decoded."""
    world.spark.garbled.clear()


def recreate(world: World, topic: int, count: int) -> None:
    """The topic is deleted and created again; records follow."""
    if at := _place(world, topic, 0):
        name, found, _, _ = at
        world.new_topic(world.cluster, name, len(found.logs))
        world.happened("topic_recreated", (name, -1))
        for number in range(len(found.logs)):
            world.produce(name, number, count)


def grow(world: World, topic: int) -> None:
    """A further partition; one that was dropped stays away: Kafka never gives its number again."""
    at = _place(world, topic, 0)
    if at and len(at[1].logs) < 4 and (at[1].topic_id, len(at[1].logs)) not in world.dropped:
        at[1].logs.append(Log())


def drop_partition(world: World, topic: int) -> None:
    """The topic's last partition is gone, and the topic's id is as it was: metadata is damaged."""
    if (at := _place(world, topic, 0)) and len(at[1].logs) > 1:
        log = at[1].logs.pop()
        known = _proven_end(world, at[1].topic_id, len(at[1].logs))
        world.unseen |= {e.serial for e in log.entries[known:]}
        world.happened("partition_missing", (at[0], -1))
        world.dropped.add((at[1].topic_id, len(at[1].logs)))


def delete_topic(world: World, topic: int) -> None:
    """The topic is deleted."""
    if at := _place(world, topic, 0):
        del world.cluster.topics[at[0]]
        world.happened("topic_missing", (at[0], -1))


def create_topics(world: World, count: int) -> None:
    """Whoever deleted topics creates them again."""
    for name, partitions in world.topics.items():
        if name not in world.cluster.topics:
            world.new_topic(world.cluster, name, partitions)
            world.happened("topic_recreated", (name, -1))
            for number in range(partitions):
                world.produce(name, number, count)


def swap_cluster(world: World, count: int) -> None:
    """The connection leads to another cluster, new or known; its topics have the same names."""
    world.happened("cluster_changed")
    if len(world.clusters) == 1:
        cluster = world.new_cluster()
        for name, partitions in world.topics.items():
            world.new_topic(cluster, name, partitions)
    world.connected_to = (world.connected_to + 1) % 2
    for name, topic, number, _ in list(world.live_logs()):
        assert topic is not None
        world.produce(name, number, count)


def broker(world: World, mood: int, looks: int) -> None:
    """The next looks at the cluster meet a mood of its brokers."""
    named = ("away", "fault", "lagging", "stale", "absent")[mood % 5]
    looks = 1 if named == "absent" else looks
    if named == "absent" and world.number("absent") > 1:
        for name in world.topics:  # two false answers in a row are as good as the truth
            world.happened("topic_missing", (name, -1))
    world.cluster.moods += [named] * looks


def empty_epochs(world: World, hidden: int) -> None:
    """Leaders of empty logs report no epoch (1), as older brokers, or do (0)."""
    world.cluster.hides_empty_epochs = bool(hidden)


def hide(world: World, fact: int, hidden: int) -> None:
    """Brokers do not tell (1) epochs (0), topic ids (1) or times of new records (2), or do (0)."""
    name = ("epochs", "ids", "times")[fact]
    if hidden:
        world.cluster.hidden.add(name)
        world.happened("unknown")
    else:
        world.cluster.hidden.discard(name)


def refuse(world: World, topic: int) -> None:
    """The client loses its rights on a topic."""
    if at := _place(world, topic, 0):
        world.cluster.refused.add(at[0])
        world.happened("unknown", (at[0], -1))


def grant(world: World) -> None:
    """The client gets its rights back."""
    world.cluster.refused.clear()
