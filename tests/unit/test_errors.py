"""The error tree: exit statuses, retriability, and survival of pickling."""

import pickle
import re

import pytest

from devstack.command_line import ROOT
from tideline import errors
from tideline.errors import TidelineError

EXIT = {
    "TidelineError": 1, "BadInput": 2, "StreamFileError": 2, "ConnectionMissing": 2,
    "LedgerElsewhere": 2, "AccessRefused": 2, "RegistryRefused": 2, "RegistryMisused": 2,
    "TopicIdMissing": 2, "SparkRefused": 2, "StoreRefused": 2,
    "NotEntitled": 2,
    "UnreadableDocument": 2, "NewerFormat": 2,
    "RequestConflict": 2, "Halted": 3, "ResetDetected": 3, "ReplayUnavailable": 3,
    "SchemaChanged": 3, "DecodingHalted": 3, "FoldingHalted": 3,
    "WindowUnavailable": 3, "UnreadableTable": 3,
    "UnreadableRecords": 3, "Transient": 4,
    "ServiceAway": 4, "RegistryAway": 4, "StreamBusy": 4, "AttemptFenced": 4, "CommitConflict": 4,
    "VerificationFailed": 5, "AuditNotClean": 6,
}  # fmt: skip


def tree():
    found = [TidelineError]
    for cls in found:
        found.extend(cls.__subclasses__())
    return found


def test_every_class_is_on_the_page_of_errors_and_has_its_exit_status():
    """The whole tree on one page, each class once, and nothing that is not on it."""
    assert {cls.__name__: cls.exit_code for cls in tree()} == EXIT
    index = re.findall(
        r"^\| exit status \d \| (.+) \|$",
        (ROOT / "docs/incidents-and-errors.md").read_text(),
        re.MULTILINE,
    )
    assert sorted(re.findall(r"\[(\w+)\]", " ".join(index))) == sorted(EXIT)


def test_only_what_may_pass_is_retriable():
    """Exit status 4 and retriable are one thing."""
    assert all(cls.retriable == (cls.exit_code == 4) for cls in tree())


@pytest.mark.parametrize("cls", tree())
def test_errors_survive_pickling_with_their_facts(cls):
    """Airflow and Spark hand them between processes."""
    error = pickle.loads(pickle.dumps(cls("orders-0: gone", partition=0)))
    assert type(error) is cls
    assert (str(error), error.partition) == ("orders-0: gone", 0)


@pytest.mark.parametrize(
    "name", ["Any", "ClassVar", "_rebuild", "__builtins__", "annotations", "SystemExit", "", "x"]
)
def test_a_report_names_a_class_of_the_tree_or_none(name):
    """It is read from a file: no other object of ours is looked up by what stands there."""
    assert errors.reported_error(name) is errors.ServiceAway


def test_a_report_names_every_class_of_the_tree():
    assert [errors.reported_error(name).__name__ for name in EXIT] == list(EXIT)
