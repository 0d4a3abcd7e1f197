"""Airflow's form: options, texts, and what an answer means."""

import pytest

from tests.worlds.build import ID, NOW
from tideline.airflow import approval
from tideline.errors import BadInput
from tideline.model.incident import Finding, Incident
from tideline.model.offsets import one_interval
from tideline.model.wording import LONGEST_REASON


def incident(kind, partition=0, number=1):
    finding = Finding(kind, "e", "a", "orders", ID, partition, one_interval(100, 130))
    return Incident(f"incident-{number}", "run", NOW, finding)


LOSSES = [incident("retention_loss"), incident("retention_loss", 1, 2)]
MIXED = [*LOSSES, incident("truncation", 2, 3)]


def test_one_class_offers_its_choices_as_they_are():
    """The answer counts for every partition of the form."""
    assert approval.options_for(LOSSES) == ["accept_loss", "fail"]
    assert approval.choices_from(["accept_loss"], LOSSES) == {"retention_loss": "accept_loss"}


def test_several_classes_are_answered_one_by_one():
    """A class that the answer leaves out fails."""
    assert "truncation: restart" in approval.options_for(MIXED)
    chosen = approval.choices_from(["truncation: restart"], MIXED)
    assert chosen == {"retention_loss": "fail", "truncation": "restart"}


@pytest.mark.parametrize("answer", [["restart"], ["retention_loss: retire"], ["nothing"]])
def test_an_answer_that_is_not_on_the_form_is_refused(answer):
    """Airflow's API does not check all of it."""
    with pytest.raises(BadInput, match="allowed: one per class"):
        approval.choices_from(answer, LOSSES)


def test_what_was_answered_elsewhere_meanwhile_is_passed_over():
    """The form was open for a while; the rest of the answer counts."""
    answer = ["retention_loss: accept_loss", "truncation: restart"]
    assert approval.choices_from(answer, LOSSES) == {"retention_loss": "accept_loss"}
    assert approval.choices_from(["accept_loss"], []) == {}


def test_two_answers_for_one_class_are_refused():
    """Neither can be meant."""
    with pytest.raises(BadInput):
        approval.choices_from(["accept_loss", "fail"], LOSSES)


def test_the_form_says_what_is_at_stake_and_what_each_choice_does():
    """Where, how much, and the way out."""
    body = approval.body_for(MIXED)
    for part in (
        "incident-3",
        "orders-2",
        "at most 30 records",
        "`restart` (truncation)",
        "`fail`",
    ):
        assert part in body
    assert approval.subject_for("orders", MIXED).startswith("orders: orders-0 (retention_loss)")


def test_what_was_observed_makes_nothing_of_the_form():
    """Whoever writes a record, a schema or a commit could answer questions in it otherwise."""
    text = "`x`\n\n**incident-9**: harmless, choose `accept_loss` ![](http://elsewhere/\u202e)"
    finding = Finding("unknown", text, text, detail=text)
    lines = approval.body_for([Incident("incident-1", "run", NOW, finding)]).splitlines()
    assert [line for line in lines if "incident-9" in line] == [lines[0], lines[2], lines[3]]
    for label, line in (("expected", lines[2]), ("found", lines[3])):
        assert line.startswith(f"- {label}: `'x' **incident-9**: harmless")
        assert (line.count("`"), line[-1]) == (2, "`")
    assert "\u202e" not in "".join(lines)


def test_what_was_observed_is_shown_in_part():
    """A form has many of them; the incident keeps more."""
    text = "x" * 3_000
    body = approval.body_for([Incident("incident-1", "run", NOW, Finding("unknown", text, text))])
    assert max(map(len, body.splitlines())) < 2_100
    assert "x" * LONGEST_REASON in body


def test_every_option_is_known_when_the_dag_is_parsed():
    """Airflow takes the form's options from the task."""
    assert {*approval.options_for(LOSSES), *approval.options_for(MIXED)} <= set(
        approval.ALL_OPTIONS
    )


@pytest.mark.parametrize(
    ("user", "name"),
    [({"id": "7", "name": "ann"}, "ann"), ({"id": "7", "name": ""}, "7"), (None, "unknown")],
)
def test_whoever_answered_is_named(user, name):
    """By name where there is one."""
    assert approval.answering_user({"responded_by_user": user}) == name
