"""Partitions for the page: logs with every kind of band."""

from datetime import UTC, datetime, timedelta

from tideline.contract.page import Band, Log, PagePartition, PartitionPage, Skew
from tideline.contract.parts import Headroom

OLD = "8f14e45f-ceea-467f-9b1c-1f2c7d0a11d2"
NEW = "c9f0f895-fb98-4b91-9d3a-54c1f6a2b7e3"
WEEK_MS = 7 * 86_400_000


def log(*edges, generation=0, topic_id=OLD, current=True):
    """A log of bands: a start, then kinds and the ends of their bands."""
    start, rest = edges[0], edges[1:]
    bands, at = [], start
    for kind, end in zip(rest[::2], rest[1::2], strict=True):
        if kind:
            bands.append(Band(kind=kind, start_offset=at, end_offset=end))
        at = end
    return Log(
        topic_id=topic_id,
        generation=generation,
        current=current,
        start_offset=start,
        end_offset=at,
        bands=tuple(bands),
    )


def partition(topic, number, next_offset, log_start, end, *logs, seconds_left=400_000.0):
    lag = None if end is None or next_offset is None else end - next_offset
    headroom = Headroom(
        topic=topic,
        partition=number,
        next_offset=next_offset or 0,
        written_at=datetime.now(UTC) - timedelta(hours=3),
        retention_ms=WEEK_MS,
        seconds_left=seconds_left if lag else None,
    )
    return PagePartition(
        topic=topic,
        partition=number,
        next_offset=next_offset,
        log_start_offset=log_start,
        end_offset=end,
        lag=lag,
        headroom=headroom,
        logs=logs,
    )


def partitions_of(topic):
    """Twelve partitions: a gap, losses, backfills, an incident, generations, a new topic id."""
    plain = [
        partition(
            topic,
            p,
            4_700_000 + 3_100 * p,
            3_150_000 + 41_000 * p,
            4_702_400 + 3_300 * p,
            log(1_200_000, "landed", 4_700_000 + 3_100 * p, "unread", 4_702_400 + 3_300 * p),
        )
        for p in range(12)
    ]
    return [
        plain[0],
        partition(
            topic,
            1,
            4_655_000,
            3_100_000,
            4_801_000,
            log(
                400_000,
                "backfilled",
                1_200_000,
                "landed",
                4_610_000,
                "open",
                4_655_000,
                "unread",
                4_801_000,
            ),
        ),
        partition(
            topic,
            2,
            4_690_000,
            3_000_000,
            4_694_000,
            log(
                1_200_000,
                "landed",
                2_610_000,
                "accepted_loss",
                2_610_800,
                "landed",
                3_700_000,
                "backfilled",
                3_900_000,
                "landed",
                4_690_000,
                "unread",
                4_694_000,
            ),
        ),
        partition(
            topic,
            3,
            1_900_000,
            700_000,
            1_930_000,
            log(1_200_000, "landed", 3_980_000, current=False),
            log(0, "landed", 1_900_000, "unread", 1_930_000, generation=1),
        ),
        partition(
            topic,
            4,
            4_702_000,
            3_200_000,
            4_705_000,
            log(
                1_200_000,
                "landed",
                3_300_000,
                "gap",
                3_420_000,
                "landed",
                4_702_000,
                "unread",
                4_705_000,
            ),
        ),
        partition(
            topic,
            5,
            4_120_000,
            4_268_300,
            5_010_000,
            log(1_200_000, "landed", 4_120_000, "at_stake", 4_268_300, "unread", 5_010_000),
            seconds_left=-7_200.0,
        ),
        partition(
            topic,
            6,
            4_610_000,
            3_000_000,
            4_790_000,
            log(
                1_200_000,
                "landed",
                2_000_000,
                "accepted_loss",
                2_350_000,
                "landed",
                4_610_000,
                "unread",
                4_790_000,
            ),
            seconds_left=90_000.0,
        ),
        partition(
            topic,
            7,
            880_000,
            0,
            905_000,
            log(1_200_000, "landed", 4_310_000, "accepted_loss", 4_420_000, current=False),
            log(0, "landed", 880_000, "unread", 905_000, topic_id=NEW),
        ),
        *plain[8:],
    ]


def wide(topic, number):
    """Many partitions, the lag of one far above the others'."""
    found = []
    for p in range(number):
        at = 1_000_000 + 13 * p
        lag = 900_000 if p == 4_321 else p % 50 * 30
        found.append(
            partition(
                topic,
                p,
                at,
                400_000,
                at + lag,
                log(200_000, "landed", at, *(("unread", at + lag) if lag else ())),
            )
        )
    return found


def partition_page(partitions, query, refreshing):
    """The page of them that a query asks for."""
    topic, sort = query.get("topic", ""), query.get("sort", "lag")
    first, count = int(query.get("first", 0)), int(query.get("count", 50))
    chosen = [one for one in partitions if not topic or one.topic == topic]
    if sort == "lag":
        chosen.sort(key=lambda one: -(one.lag or 0))
    elif sort == "headroom":
        chosen.sort(key=lambda one: _left(one))
    lags = sorted(one.lag for one in chosen if one.lag is not None)
    skew = (
        Skew(
            total=sum(lags),
            largest=lags[-1],
            median=lags[len(lags) // 2],
            p99=lags[int(len(lags) * 0.99)],
        )
        if lags
        else None
    )
    return PartitionPage(
        partitions=tuple(chosen[first : first + count]),
        total=len(chosen),
        skew=skew,
        refreshing=refreshing,
    )


def _left(one):
    return (
        one.headroom.seconds_left
        if one.headroom and one.headroom.seconds_left is not None
        else 1e12
    )
