"""The A-Z has an entry for each error and each class of findings, and messages name it."""

import re
from functools import cache
from pathlib import Path

import pytest

from devstack.reference.entries import PROSE
from tests.worlds.build import ID, NOW
from tideline.airflow import approval
from tideline.cli import reading as command
from tideline.cli.helping import GROUPS
from tideline.cli.main import build_parser, main
from tideline.cli.output import CommandOutput
from tideline.errors import BadInput, ResetDetected, StreamFileError, TidelineError
from tideline.model.incident import Finding, Incident, class_entry, entries_for, error_entry
from tideline.model.verdicts import VERDICTS
from tideline.rules.incidents import where_to_read

ROOT = Path(__file__).parents[2]
PAGE = "docs/incidents-and-errors.md"


def tree():
    found = [TidelineError]
    for cls in found:
        found.extend(cls.__subclasses__())
    return found


@cache
def entries(page):
    """The text of each entry of a page, by its anchor."""
    parts = re.split(r"^## (.+)$", (ROOT / page).read_text(), flags=re.MULTILINE)
    return dict(zip((title.lower() for title in parts[1::2]), parts[2::2], strict=True))


def text_of(link):
    """The entry that a message names."""
    page, _, anchor = link.partition("#")
    return entries(page).get(anchor)


def parts_of(link):
    """The parts of an entry in which something stands."""
    return re.findall(r"^- \*\*(.+?):\*\* \S", text_of(link), re.MULTILINE)


def incident(kind, number=1):
    return Incident(f"incident-{number}", "run", NOW, Finding(kind, "e", "a", "orders", ID, 0))


@pytest.mark.parametrize("cls", tree())
def test_each_error_has_an_entry_with_all_its_parts(cls):
    """What it means, what is at stake, where to look, what to do, how to see that it is over."""
    parts = parts_of(error_entry(cls))
    assert set(PROSE) <= set(parts)
    assert set(parts) - set(PROSE) <= {"Evidence"}


@pytest.mark.parametrize("kind", VERDICTS)
def test_each_class_of_findings_has_an_entry_with_all_its_parts(kind):
    """With its evidence and choices; and it names no choice that the class does not have."""
    text = text_of(class_entry(kind))
    choices = ["Choices"] if VERDICTS[kind].choices else []
    assert parts_of(class_entry(kind)) == [
        *("Means", "Evidence", "At stake", "Look", *choices, "Do", "Verify")
    ]
    every = {choice for verdict in VERDICTS.values() for choice in verdict.choices}
    named = {choice for choice in every if f"`{choice}`" in text}
    assert named <= set(VERDICTS[kind].choices)
    assert set(VERDICTS[kind].choices) <= named


def test_no_entry_is_about_something_that_is_gone():
    """A class that was renamed takes its entry along; they stand from A to Z."""
    assert list(entries(PAGE)) == sorted({*VERDICTS, *(cls.__name__.lower() for cls in tree())})


def test_a_halted_run_names_the_classes_of_its_incidents_once():
    """They say more than the error's own class does."""
    found = tuple(
        incident(kind, n) for n, kind in enumerate(("truncation", "log_hole", "log_hole"))
    )
    halted = ResetDetected("halted", incidents=found)
    assert entries_for(halted) == (class_entry("truncation"), class_entry("log_hole"))
    assert entries_for(ResetDetected("empty", incidents=())) == (error_entry(ResetDetected),)


def test_help_lists_each_command_once():
    (commands,) = (a for a in build_parser()._actions if isinstance(a.choices, dict))
    listed = [name for names in GROUPS.values() for name in names]
    assert sorted(listed) == sorted(commands.choices)
    text = build_parser().format_help()
    assert [line for line in text.splitlines() if len(line) > 100] == []


def test_help_names_what_was_meant(capsys):
    assert main(["help", "retention_los"]) == 2
    assert "did you mean retention_loss?" in capsys.readouterr().err


@pytest.mark.parametrize("cls", tree())
def test_a_command_that_fails_names_its_entry(cls, capsys):
    """On standard error, behind the message; and in the JSON."""
    CommandOutput(as_json=False).error(cls("orders-0: gone"))
    said = capsys.readouterr().err
    if cls in (BadInput, StreamFileError):  # whose message says all
        assert said == "orders-0: gone\n"
    else:
        assert said == f"orders-0: gone\nrunbook: tideline help {cls.__name__.lower()}\n"
        assert main(said.splitlines()[1].split()[2:]) == 0
        assert capsys.readouterr().out.startswith(f"{cls.__name__}\n\n*Error, ")
    CommandOutput(as_json=True).error(cls("orders-0: gone"))
    assert f'"runbook": ["{error_entry(cls)}"]' in capsys.readouterr().out


@pytest.mark.parametrize("kind", VERDICTS)
def test_an_incident_names_its_entry_wherever_it_is_shown(kind):
    """`tideline incident`, and Airflow's form."""
    known = incident(kind)
    assert command._lines([], [known])[-1] == f"  {where_to_read(known)}"
    assert where_to_read(known) == f"Runbook: tideline help {kind}"
    assert f"- runbook: {class_entry(kind)}\n" in approval.body_for([known])
    assert text_of(class_entry(kind))


def test_no_message_names_a_page_in_another_way():
    """The page stands in one place: whoever moves it changes one line."""
    package = ROOT / "plugins/tideline"
    naming = [f.name for f in package.rglob("*.py") if f'"{PAGE}' in f.read_text()]
    assert naming == ["incident.py"]
    assert not [f.name for f in package.rglob("*.py") if "docs/runbook" in f.read_text()]
