"""Which files are merged: small ones that belong together."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tideline.model.maintenance import NO_ROWS, FileCount, TableFile, TableSize, TableUpkeep
from tideline.rules.upkeep import plan_merges, rounds
from tideline.stream.stream import Stream, tables_of


def file(path, size, low=0, day="1", holds=(("partition", 0),)):
    return TableFile(path, size, 1, (("day", day),), holds, low)


def planned(*files, below=10, target=30):
    groups = plan_merges(files, below_bytes=below, target_bytes=target)
    return [[f.path for f in group] for group in groups]


def test_small_files_are_merged_in_the_order_of_their_offsets():
    """Files of runs stand in the log as they came; a merged one holds offsets in a row."""
    assert planned(file("b", 5, 20), file("c", 5, 30), file("a", 5, 10)) == [["a", "b", "c"]]


def test_large_files_and_lone_ones_are_left_alone():
    """Rewriting them would cost, and bring nothing."""
    assert planned(file("a", 10), file("b", 9), file("c", 30)) == []
    assert planned(file("a", 9, 0), file("large", 10, 1), file("b", 9, 2)) == [["a", "b"]]


def test_a_merged_file_is_not_larger_than_wanted():
    """The next one begins a new group."""
    files = [file(str(n), 9, n) for n in range(7)]
    assert planned(*files) == [["0", "1", "2"], ["3", "4", "5"]]


def test_partition_values_and_logs_are_never_mixed():
    """A value of the folder is not in the file; a log's file proves what it holds."""
    assert planned(file("a", 1), file("b", 1, day="2"), file("c", 1, day=None)) == []
    assert planned(file("a", 1), file("b", 1, holds=(("partition", 1),)), file("c", 1)) == [
        ["a", "c"]
    ]


def test_files_without_statistics_come_first():
    """Whoever wrote them: they are merged among the others that are like them."""
    assert planned(file("b", 1, None), file("c", 1, 0), file("a", 1, None)) == [["a", "b", "c"]]


def test_rounds_bound_what_one_transaction_replaces():
    """A group that is larger than the bound has a transaction of its own."""
    groups = [(file(str(n), size), file(f"{n}x", 0)) for n, size in enumerate((4, 4, 4, 20, 1))]
    assert [len(r) for r in rounds(groups, 10)] == [2, 1, 1, 1]
    assert rounds((), 10) == ()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40), st.none() | st.integers(0, 9), st.sampled_from("ab"), st.booleans()
        )
    ),
    st.integers(1, 20),
    st.integers(0, 20),
)
def test_merging_until_nothing_is_left_to_merge_ends(given_files, below, more):
    """Each file is in one group at most, groups are alike and bounded, and it comes to an end."""
    files = [
        file(str(n), size, low, day, (("partition", 0),) if pure else ())
        for n, (size, low, day, pure) in enumerate(given_files)
    ]
    target = below + more
    for _ in range(len(files) + 1):
        groups = plan_merges(files, below_bytes=below, target_bytes=target)
        if not groups:
            break
        merged = [f.path for group in groups for f in group]
        assert len(set(merged)) == len(merged)
        for group in groups:
            assert len({(f.partition, f.holds) for f in group}) == 1
            assert len(group) > 1
            assert sum(f.bytes for f in group) <= target
            assert all(f.bytes < below for f in group)
        files = [f for f in files if f.path not in set(merged)]
        files += [
            replace(g[0], path="+".join(f.path for f in g), bytes=sum(f.bytes for f in g))
            for g in groups
        ]
    assert not plan_merges(files, below_bytes=below, target_bytes=target)


def test_a_stream_s_tables():
    """The raw one, and with decoding two more."""
    given_file = {
        "stream": "orders",
        "kafka": {"connection": "kafka", "topics": ["orders"]},
        "table": {"uri": "/lake/raw"},
    }
    assert tables_of(Stream.model_validate(given_file)) == {"raw": "/lake/raw"}
    decode = {
        "value": {"format": "json", "subject": "orders-value"},
        "table": {"uri": "/lake/typed"},
        "quarantine": {"uri": "/lake/bad"},
    }
    typed = Stream.model_validate({**given_file, "registry": {}, "decode": decode})
    assert tables_of(typed) == {
        "raw": "/lake/raw",
        "decoded": "/lake/typed",
        "quarantine": "/lake/bad",
    }


def test_a_line_for_the_log():
    """Before, what was done, after."""
    two, one, none = FileCount(2, 20), FileCount(1, 15), FileCount.of(())
    before = TableSize(1, two, two)
    done = TableUpkeep("raw", "/t", before, two, one, none, NO_ROWS, TableSize(2, one, two))
    assert str(done) == (
        "raw table /t: 2 files (20 B) before, 2 files (20 B) merged into 1 file"
        " (15 B), 0 files (0 B) deleted; 1 file (15 B) after"
    )
