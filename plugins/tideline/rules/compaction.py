"""Which small data files are merged into one. Pure.

Files are merged only with files of the same partition values, and of the same log where their
statistics name one: a file that holds a single log proves by its statistics what it holds, and
checks need not read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tideline.model.maintenance import TableFile

Group = tuple[TableFile, ...]
"""Files that one file replaces, in the order of their rows in it; two at least."""


def plan_merges(
    files: Iterable[TableFile], *, below_bytes: int, target_bytes: int
) -> tuple[Group, ...]:
    """The files to merge.

    Args:
        files: The data files of one version.
        below_bytes: Files of this size or larger are left alone.
        target_bytes: The files of a group are not larger together; at least `below_bytes`.

    Returns:
        Groups with files in the order of their offsets. No file is in two of them, and none in a
        group by itself.
    """
    alike: dict[object, list[TableFile]] = defaultdict(list)
    for file in files:
        if file.bytes < below_bytes:
            alike[file.partition, file.holds].append(file)
    groups = (
        group
        for key in sorted(alike, key=repr)
        for group in _packed(sorted(alike[key], key=_in_order), target_bytes)
    )
    return tuple(group for group in groups if len(group) > 1)


def rounds(groups: Iterable[Group], most_bytes: int) -> tuple[tuple[Group, ...], ...]:
    """Groups, split into transactions: a conflict or a crash loses one of them at most.

    Args:
        groups: In any order; it stays.
        most_bytes: Of the files of one transaction, unless a single group has more.
    """
    split: list[list[Group]] = []
    room = 0
    for group in groups:
        size = sum(file.bytes for file in group)
        if not split or size > room:
            split.append([])
            room = most_bytes
        split[-1].append(group)
        room -= size
    return tuple(map(tuple, split))


def _packed(files: Sequence[TableFile], target_bytes: int) -> list[Group]:
    packed: list[Group] = []
    gathered: list[TableFile] = []
    for file in files:
        if sum(f.bytes for f in gathered) + file.bytes > target_bytes:
            packed.append(tuple(gathered))
            gathered = []
        gathered.append(file)
    return [*packed, tuple(gathered)]


def _in_order(file: TableFile) -> tuple[int, str]:
    return (-1 if file.low is None else file.low, file.path)
