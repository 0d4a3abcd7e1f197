"""Who may do what with a stream: names in its file, held against the user whom Airflow names."""

import os
import pwd
from types import SimpleNamespace

import pytest

from tideline.airflow.approval import (
    may_decide,
    require_approver,
    require_operator,
    was_cleared,
)
from tideline.cli.output import os_user
from tideline.errors import NotEntitled, StreamFileError
from tideline.stream.files import parse_stream

GOOD = "stream: orders\nkafka: {topics: [orders]}\ntable: {uri: /data/lake/orders}\n"
OPEN = parse_stream(GOOD, "orders.yaml")
NAMED = parse_stream(GOOD + "airflow: {operators: [olga], approvers: [carol]}\n", "orders.yaml")
OPERATED = parse_stream(GOOD + "airflow: {operators: [olga]}\n", "orders.yaml")


def triggered(user, clears=0):
    """A run of Airflow's."""
    return SimpleNamespace(triggering_user_name=user, clear_number=clears)


@pytest.mark.parametrize(
    ("tries", "allowed", "is_cleared"),
    [(1, 0, False), (2, 0, True), (3, 2, False), (4, 2, True)],
)
def test_a_try_that_retries_do_not_allow_is_a_clear(tries, allowed, is_cleared):
    """Airflow restarts a cleared task that is at work, and leaves its largest number of tries."""
    task = SimpleNamespace(
        try_number=tries, max_tries=allowed, task=SimpleNamespace(retries=allowed)
    )
    assert was_cleared(triggered("olga"), task) is is_cleared


@pytest.mark.parametrize("user", [None, "olga", "otto"])
@pytest.mark.parametrize("from_form", [False, True])
def test_without_names_airflow_s_own_rights_are_all(user, from_form):
    """As before; the user is recorded all the same."""
    assert require_operator(OPEN, triggered(user, 1), from_form=from_form) == user
    assert may_decide(OPEN, user)
    assert require_operator(OPEN, None) is None


@pytest.mark.parametrize(
    ("user", "clears", "from_form", "problem"),
    [
        ("olga", 0, False, None),
        ("olga", 0, True, None),
        ("olga", 1, False, None),
        (None, 0, False, None),
        (None, 1, False, None),
        ("otto", 0, False, "user otto is not among airflow.operators"),
        ("otto", 0, True, "user otto is not among airflow.operators"),
        ("carol", 0, False, "user carol is not among airflow.operators"),
        ("OLGA", 0, True, "user OLGA is not among"),
        ("olga", 1, True, "this run was cleared, and Airflow does not say by whom"),
        (None, 0, True, "Airflow names no user"),
        ("", 0, True, "Airflow names no user"),
    ],
)
def test_operators_are_named(user, clears, from_form, problem):
    """A schedule needs nobody. In a form's run somebody must be known, and must not be guessed."""
    if problem is None:
        assert require_operator(NAMED, triggered(user, clears), from_form=from_form) == user
        return
    with pytest.raises(NotEntitled, match=problem) as refused:
        require_operator(NAMED, triggered(user, clears), from_form=from_form)
    assert "stream orders" in refused.value.message
    assert "olga" not in refused.value.message.replace("user olga", "")


def test_approvers_decide_and_without_them_the_operators():
    """An operator is no approver where approvers are named."""
    assert [may_decide(NAMED, u) for u in ("carol", "olga", None)] == [True, False, False]
    assert [may_decide(OPERATED, u) for u in ("carol", "olga", None)] == [False, True, False]
    with pytest.raises(NotEntitled, match=r"user olga is not among airflow\.approvers"):
        require_approver(NAMED, "olga")


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [
        ("operators: []", "at least 1 item"),
        ("operators: olga", "list"),
        ("approvers: ['']", "at least 1 character"),
        ("access_control: {Data: {Dags: [can_read]}}", "'DAGs' or 'DAG Runs'"),
        ("access_control: {Data: {DAGs: [can_fly]}}", "can_read"),
        ("access_control: {Data: {DAGs: [can_create]}}", "no can_create; allowed: can_delete"),
    ],
)
def test_rights_of_the_wrong_form_are_refused(keys, allowed):
    """An empty list would keep everybody out, or let everybody in: nobody could tell."""
    with pytest.raises(StreamFileError) as refused:
        parse_stream(GOOD + f"airflow: {{{keys}}}\n", "orders.yaml")
    assert allowed in refused.value.message


def test_a_shell_s_user_is_the_system_s_whatever_variables_say(monkeypatch):
    """A name that was typed in stands beside it."""
    monkeypatch.setenv("LOGNAME", "carol")
    monkeypatch.setenv("USER", "carol")
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert os_user() == f"os:{name}"
    assert os_user("carol") == f"os:{name} (for carol)"
    monkeypatch.setattr(pwd, "getpwuid", lambda number: {}[number])
    assert os_user() == f"os:{os.geteuid()}"
