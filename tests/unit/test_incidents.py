"""What open incidents mean for a run: policies, decisions, proceed (R8, R9)."""

from dataclasses import replace

import pytest

from tests.worlds.build import ID, NOW, plan, planned
from tideline.ledger.state import Control, LedgerState
from tideline.model.incident import Decision, Finding, Incident, UnverifiedRows
from tideline.model.verdicts import HALTING, POLICIES
from tideline.rules.incidents import triage, without_doubted
from tideline.stream.landing import OnReset

LOSS = Finding("retention_loss", "e", "a", "orders", ID, 0)
INCIDENT = Incident("incident-1", "first", NOW, LOSS)
MEANINGS = ("halting", "asking", "decided", "left_open")


def sorted_out(incident=INCIDENT, policy="fail", proceed=False, run_id="first"):
    policies = {**OnReset().model_dump(), incident.finding.kind: policy}
    outlook = triage([incident], policies=policies, proceed=proceed, run_id=run_id, now=NOW)
    (name,) = [n for n in MEANINGS if getattr(outlook, n)]
    return name, getattr(outlook, name)[0]


def by(choice, **facts):
    return replace(INCIDENT, decision=Decision(choice, "ann", NOW), **facts)


@pytest.mark.parametrize(
    ("case", "incident", "policy", "proceed", "run_id", "meaning"),
    [
        ("the default", INCIDENT, "fail", False, "first", "halting"),
        ("a later run attaches", INCIDENT, "fail", False, "later", "halting"),
        ("ask", INCIDENT, "approve", False, "first", "asking"),
        ("by policy", INCIDENT, "accept_loss", False, "first", "decided"),
        ("a decision goes before the policy", by("accept_loss"), "fail", False, "x", "decided"),
        ("fail is no way on", by("fail"), "accept_loss", False, "later", "halting"),
        ("fail is not asked again", by("fail"), "approve", False, "later", "halting"),
        (
            "but by the run that asked, when it is cleared",
            by("fail", asked_in="first"),
            "approve",
            False,
            "first",
            "asking",
        ),
        ("the finder halts, whoever may proceed", INCIDENT, "fail", True, "first", "halting"),
        ("later runs leave it open", INCIDENT, "fail", True, "later", "left_open"),
        ("asked already", replace(INCIDENT, asked_in="first"), "approve", True, "x", "left_open"),
        ("and do not ask again", INCIDENT, "approve", True, "later", "left_open"),
    ],
)
def test_what_an_incident_means_for_a_run(case, incident, policy, proceed, run_id, meaning):
    """One row per rule."""
    assert sorted_out(incident, policy, proceed, run_id)[0] == meaning, case


def test_whoever_comes_first_with_a_form_asks():
    """The finder may have ended; one form at a time."""
    policies = {**OnReset().model_dump(), "retention_loss": "approve"}
    facts = {"policies": policies, "proceed": True, "run_id": "later", "now": NOW}
    assert triage([INCIDENT], **facts, can_ask=True).asking == (INCIDENT,)
    assert triage([INCIDENT], **facts, can_ask=False).left_open == (INCIDENT,)


def test_a_decision_that_is_no_longer_valid_decides_nothing():
    """The finding has changed since."""
    stale = replace(by("approve"), finding=Finding("table_changed", "e", "a", decidable=False))
    assert sorted_out(stale)[0] == "halting"


def test_a_policy_s_decision_is_recorded_as_such():
    """By whom, and which key of the stream file."""
    _, incident = sorted_out(policy="accept_loss")
    assert incident.decision == Decision("accept_loss", "policy", NOW, "on_reset.retention_loss")


@pytest.mark.parametrize("kind", ["cluster_changed", "table_changed"])
def test_nobody_proceeds_beside_what_concerns_all(kind):
    """There are no healthy partitions on another cluster or a changed table."""
    incident = replace(INCIDENT, finding=Finding(kind, "e", "a"))
    assert sorted_out(incident, proceed=True, run_id="later")[0] == "halting"


def test_a_table_that_is_not_ours_cannot_be_approved():
    """There is nothing to ask."""
    finding = Finding("table_changed", "e", "a", decidable=False)
    assert sorted_out(replace(INCIDENT, finding=finding), "approve")[0] == "halting"


def test_an_incident_of_a_landed_plan_remembers_the_doubtful_ranges():
    """Those in the finding's scope, and no others."""
    frozen = plan(planned(partition=0), planned(partition=1))
    state = LedgerState(0, Control("ledger-1", "orders"))
    after = state.with_incidents([LOSS], "run-1", NOW, frozen)
    (incident,) = after.incidents_of_plan("plan-1")
    assert incident.unverified == (planned(partition=0),)
    assert incident.plan_run_id == "run-1"
    assert after.with_incidents_closed([incident]).control.incidents == ()


def test_an_incident_of_several_plans_remembers_the_rows_of_each():
    """Also where an earlier plan meets the finding again: none is told twice."""
    state = LedgerState(0, Control("ledger-1", "orders"))
    for plan_id, start in (("plan-1", 0), ("plan-2", 10), ("plan-1", 0)):
        frozen = plan(planned(start, start + 10), run_id=f"of {plan_id}", plan_id=plan_id)
        state = state.with_incidents([LOSS], "run-1", NOW, frozen)
    (incident,) = state.control.incidents
    assert state.incidents_of_plan("plan-1") == state.incidents_of_plan("plan-2") == (incident,)
    first, newest = incident.plans
    assert first == UnverifiedRows("plan-2", "of plan-2", (planned(10, 20),))
    assert newest == UnverifiedRows("plan-1", "of plan-1", (planned(0, 10),))
    assert incident.of(*incident.plans) == incident


def test_rows_that_are_verified_after_all_leave_those_of_other_plans_in_doubt():
    """The incident is closed with the last of them."""
    state = LedgerState(0, Control("ledger-1", "orders"))
    for plan_id in ("plan-1", "plan-2"):
        state = state.with_incidents([LOSS], "run-1", NOW, plan(planned(), plan_id=plan_id))
    state = state.with_rows_verified("plan-2", "verified", NOW)
    (left,) = state.control.incidents
    assert [p.plan_id for p in left.plans] == ["plan-1"]
    assert not state.noted
    state = state.with_rows_verified("plan-1", "verified", NOW)
    assert not state.control.incidents
    (closed,) = state.noted
    assert closed.outcome == "verified"


def test_policies_are_the_stream_file_s():
    """Every class but the passing one has a key in on_reset with exactly its policies."""
    properties = OnReset.model_json_schema()["properties"]
    assert set(properties) == set(HALTING)
    for kind, policies in POLICIES.items():
        assert set(properties[kind]["enum"]) == set(policies), kind


def doubting(kind, plan_id, *ranges):
    finding = Finding(kind, "e", "a", "orders", ID)
    return Incident(f"i-{kind}", "a", NOW, finding, plan_id=plan_id, unverified=ranges)


@pytest.mark.parametrize(
    ("case", "other", "left"),
    [
        ("nothing is in doubt", INCIDENT, 2),
        ("no rows are", doubting("topic_recreated", None), 2),
        ("rows of another plan are", doubting("topic_recreated", "p2", planned(0, 10)), 2),
        ("another gap is no doubt", doubting("log_hole", "p1", planned(0, 10)), 2),
        ("one of its ranges is", doubting("truncation", "p1", planned(0, 10)), 1),
        (
            "all of it is",
            doubting("cluster_changed", "p1", planned(0, 10), planned(10, 20, generation=1)),
            0,
        ),
    ],
)
def test_a_gap_decides_about_its_rows_but_where_the_log_is_doubted(case, other, left):
    """A doubt says nothing about rows of other plans: nobody else would decide about those (R6)."""
    ranges = (planned(0, 10), planned(10, 20, generation=1))
    gap = doubting("unexplained_gap", "p1", *ranges)
    assert without_doubted(gap, [gap, other]).unverified == ranges[2 - left :], case


def test_what_a_finding_says_is_one_line():
    """Whoever writes a commit, a schema or a record could write lines of a log otherwise."""
    text = "a\n2026-11-29 INFO all is well \u202e"
    finding = Finding("unknown", text, text, detail=text)
    for said in (finding.expected, finding.actual, finding.cause):
        assert said.startswith("a 2026")
        assert "\u202e" not in said
