"""`make test` runs pytest part by part, and its last line tells of all."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests import __main__ as whole_run
from tests import in_store
from tests.__main__ import (
    COMMANDS,
    FOLDS,
    PARTS,
    PURPOSES,
    RESULTS,
    ROOT,
    PartResult,
    combine,
    described,
    run_part,
)

WELL = PartResult(0, "=========== 12 passed, 1 skipped, 425 deselected in 12.30s ===========")
LATE = PartResult(0, "======= 7 passed, 2 deselected, 1 warning in 601.30s (0:10:01) =======")
BAD = PartResult(1, "====== 2 failed, 30 passed, 1 error in 700.00s (0:11:40) ======")
CRASHED = PartResult(-9, "tests/spark/test_runs.py ..")


@pytest.mark.parametrize(
    ("results", "total"),
    [
        ([WELL, LATE], (0, "total: 19 passed, 0 failed")),
        ([WELL, BAD], (1, "total: 42 passed, 3 failed")),
        ([BAD, CRASHED], (1, "total: 30 passed, 4 failed")),
        ([WELL, PartResult(3, WELL.summary)], (1, "total: 24 passed, 1 failed")),
        (
            [WELL, PartResult(5, "====== no tests ran in 0.01s ======")],
            (1, "total: 12 passed, 1 failed"),
        ),
    ],
)
def test_the_total_counts_all_parts(results, total):
    """A part that crashed is a failure, whatever it had printed."""
    assert combine(results) == total


def test_a_part_keeps_the_names_of_its_failures(tmp_path, monkeypatch):
    """They are printed again at the end, where parts that ran beside it cannot bury them."""
    (tmp_path / "test_one.py").write_text("def test_bad():\n    assert not 'this one'\n")
    monkeypatch.setattr(whole_run, "ROOT", tmp_path)
    result = run_part("one", ["-p", "no:cacheprovider"], ("test_one.py",))
    assert result.status == 1
    assert [line.split(" - ")[0] for line in result.failures] == ["FAILED test_one.py::test_bad"]


def test_a_part_keeps_what_each_test_took(tmp_path, monkeypatch, capsys):
    """So that a claim about the time of tests can be checked."""
    (tmp_path / "test_one.py").write_text("import time\ndef test_it():\n    time.sleep(0.01)\n")
    monkeypatch.setattr(whole_run, "ROOT", tmp_path)
    run_part("one", ["-p", "no:cacheprovider"], ("test_one.py",))
    assert "slowest 15 durations" in capsys.readouterr().out
    kept = ElementTree.parse(tmp_path / RESULTS / "one.xml")
    assert [test.attrib["name"] for test in kept.iter("testcase")] == ["test_it"]
    assert f"{RESULTS}/" in (Path(__file__).parents[2] / ".gitignore").read_text().splitlines()


def test_each_part_says_what_it_is_for():
    assert PURPOSES.keys() == PARTS.keys()
    assert all(f"{name} " in described() for name in PARTS)


def test_in_the_store_each_file_is_a_part_of_its_own():
    """The faults with the slow ones, but for ledgers in a database."""
    wanted = {
        p.relative_to(ROOT) for s in ("spark", "faults") for p in ROOT.glob(f"tests/{s}/test_*.py")
    }
    parts = in_store.parts(in_store.files())
    assert {Path(part[-1]) for part in parts.values()} == wanted
    assert len(parts) == len(wanted)
    assert {part[:-1] for part in parts.values()} == {(), in_store.FAULTS}


def test_every_folder_with_tests_is_in_one_part():
    """But seven, which other targets run; a file may change the part."""
    folders = {f"tests/{p.parent.name}" for p in (ROOT / "tests").glob("*/test_*.py")}
    listed = [chosen for part in PARTS.values() for chosen in part]
    assert len(set(listed)) == len(listed)
    for file in (*COMMANDS, *FOLDS):
        assert (ROOT / file).exists()
        assert f"--ignore={file}" in listed
        assert file in listed
    own = {
        "tests/browser",
        "tests/catalog",
        "tests/cdc",
        "tests/cluster",
        "tests/compose",
        "tests/lineage",
        "tests/wire",
    }
    assert folders - set(listed) == own
