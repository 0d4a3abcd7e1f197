"""`make test` runs pytest part by part, and its last line tells of all."""

import pytest

from tests.__main__ import COMMANDS, PARTS, ROOT, combine

WELL = (0, "=========== 12 passed, 1 skipped, 425 deselected in 12.30s ===========")
LATE = (0, "======= 7 passed, 2 deselected, 1 warning in 601.30s (0:10:01) =======")
BAD = (1, "====== 2 failed, 30 passed, 1 error in 700.00s (0:11:40) ======")
CRASHED = (-9, "tests/spark/test_rewind.py ..")


@pytest.mark.parametrize(
    ("results", "total"),
    [
        ([WELL, LATE], (0, "total: 19 passed, 0 failed")),
        ([WELL, BAD], (1, "total: 42 passed, 3 failed")),
        ([BAD, CRASHED], (1, "total: 30 passed, 4 failed")),
        ([WELL, (3, WELL[1])], (1, "total: 24 passed, 1 failed")),
        ([WELL, (5, "====== no tests ran in 0.01s ======")], (1, "total: 12 passed, 1 failed")),
    ],
)
def test_the_total_counts_all_parts(results, total):
    """A part that crashed is a failure, whatever it had printed."""
    assert combine(results) == total


def test_every_folder_with_tests_is_in_one_part():
    """But the browser's, which has a target of its own; a file may change the part."""
    folders = {f"tests/{p.parent.name}" for p in (ROOT / "tests").glob("*/test_*.py")}
    listed = [chosen for part in PARTS.values() for chosen in part]
    assert len(set(listed)) == len(listed)
    for file in COMMANDS:
        assert (ROOT / file).exists()
        assert f"--ignore={file}" in listed
        assert file in listed
    assert folders - set(listed) == {"tests/browser"}
