"""What secured brokers say to both clients, and how fast: right, wrong and expired.

The whole table is slow; it is printed at the end, and is the one in docs/brokers-security.md.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

import pytest

from devstack.harness import StreamHarness
from tests.worlds.secured_broker import PASSWORD
from tests.worlds.secured_cases import AWAY, CASES, WRONG, Case
from tests.worlds.secured_reads import HIDDEN, RECORDS, by_python, by_spark
from tests.worlds.token_issuer import SECRET
from tideline import errors

pytestmark = pytest.mark.slow

AT_ONCE_SECONDS = 15
"""Two cores that others use too; a client that goes on trying takes 60 s."""
_SAID_AT_MOST = 160


@dataclass(frozen=True)
class Row:
    """What came out."""

    mechanism: str
    given: str
    client: str
    answer: str
    exit: int
    seconds: str
    said: str


@pytest.fixture(scope="module")
def harness(secured, tmp_path_factory):
    found = StreamHarness(secured.broker, tmp_path_factory.mktemp("lake"), "secured")
    found.create(partitions=1)
    found.send(RECORDS)
    return found


@pytest.fixture(scope="module")
def warmed(secured, harness, in_process_spark, tmp_path_factory):
    """Spark after its first job: what starting takes is no part of the times."""
    folder = tmp_path_factory.mktemp("first")
    by_spark(harness, in_process_spark, secured.settings("PLAINTEXT"), folder)
    by_python(harness, secured.settings("PLAINTEXT"))
    return in_process_spark


@pytest.fixture(scope="module")
def table():
    rows: list[Row] = []
    yield rows
    print(f"\n{text_of(rows)}")
    if path := os.environ.get("TIDELINE_SECURITY_TABLE"):
        Path(path).write_text(f"{text_of(rows)}\n")


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.mechanism}-{c.given}".replace(" ", "-"))
def test_both_clients_are_told_at_once(secured, harness, warmed, table, tmp_path, case):
    """The same verdict of both, never a time-out, never a secret."""
    extra = case.extra(secured)
    if case.mechanism == "OAUTHBEARER":
        # One login serves all consumers of a JVM that are the same; here no case uses another's.
        extra["sasl.oauthbearer.scope"] = case.given.replace(" ", "-")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in case.issues.items():
            patch.setattr(secured.issuer, name, value)
        python = row(case, "kafka-python", lambda: by_python(harness, extra))
        spark = row(case, "Spark", lambda: by_spark(harness, warmed, extra, tmp_path))
    table += [python, spark]
    print(python, spark, sep="\n")
    assert (python.answer, spark.answer) == (case.python, case.spark)
    for found in (python, spark):
        assert not [s for s in (PASSWORD, WRONG, SECRET) if s in found.said]
        assert found.answer == AWAY or float(found.seconds) < AT_ONCE_SECONDS


def row(case: Case, client: str, ask: Callable[[], tuple[str, str]]) -> Row:
    began = time.monotonic()
    answer, said = ask()
    took = f"{time.monotonic() - began:.1f}"
    kind = getattr(errors, answer, None)
    # A topic that may not be seen halts a run (tests/spark/test_secured_runs.py).
    status = 3 if answer == HIDDEN else 0 if kind is None else kind.exit_code
    line = " ".join(said.split("\n", 1)[0].split())
    return Row(case.mechanism, case.given, client, answer, status, took, line)


def short(row: Row) -> Row:
    """Without the ports of this run, and what to do about it."""
    said = re.sub(r"^connection k: (Kafka at \S+ refuses it: )?", "", row.said)
    said = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", said.partition("; ")[0])
    return replace(row, said=said if len(said) <= _SAID_AT_MOST else f"{said[:_SAID_AT_MOST]}...")


def text_of(rows: list[Row]) -> str:
    """As Markdown."""
    names = [f.name for f in fields(Row)]
    lines = [names, ["---"] * len(names)]
    lines += [[str(cell).replace("|", "/") for cell in astuple(short(row))] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
