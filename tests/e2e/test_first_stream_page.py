"""What the page of a first stream shows is what its commands print."""

import re

import pytest

from devstack.command_line import ROOT, finished, tideline

PAGE = (ROOT / "docs" / "first-stream.md").read_text()


def words(line):
    """A line without what differs from run to run: ids, numbers, sizes, widths, folders."""
    line = re.sub(r"\btable /\S+", "table FOLDER", re.sub(r"\b[0-9a-f]{32}\b", "ID", line))
    return re.sub(r"\d[\d,.]*( [kM]?B)?", "N", re.sub(r"t\d+-\d+-orders", "orders", line)).split()


def shown():
    """The lines of the page's outputs, from planning on; `...` leaves some out."""
    for block in PAGE[PAGE.index("## 4.") :].split("```")[1::2]:
        language, _, block = block.partition("\n")
        if language == "python":
            continue
        for line in block.splitlines():
            if line and line != "..." and not line.startswith("$"):
                yield line


@pytest.mark.usefixtures("warm_spark")
def test_the_page_s_lines_are_the_commands_lines(harness):
    """A number may differ, and no word; whoever compares them begins to doubt the product."""
    harness.create(partitions=3)
    for partition in range(3):
        harness.send(500, partition=partition)
    file, topic, said = harness.stream_file(), harness.topic(), []
    run = ("run", file, "--run-id", "first")
    explain = ("explain", file, topic, 0, 471)
    for command in (("plan", file), run, run, ("audit", file), ("status", file), explain):
        status, output, errors = finished(tideline(*command))
        assert status == 0, errors
        said += [*output.splitlines(), *errors.splitlines()]
    real = [words(line) for line in said]
    lines = [words(line) for line in shown()]
    assert len(lines) > 15
    assert [line for line in lines if line not in real] == []
