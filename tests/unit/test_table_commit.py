"""The loop in which a change is committed, over a table that does what a test wants."""

from types import SimpleNamespace

import pytest

from tests.texts import ONE_TOO_MANY
from tests.worlds.build import ID, planned
from tests.worlds.build import plan as plan_of
from tideline.errors import AttemptFenced, CommitConflict, ServiceAway, VerificationFailed
from tideline.landing.table_commit import Landing, land, remove
from tideline.model.head import KnownCommit
from tideline.model.observation import TableObservation
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.plan import LandedRange, WrittenRows
from tideline.model.run import TableCommit
from tideline.table.schema import TableChange

CHANGE = TableChange("l", "p.removed", "r", 5, (planned(0, 10).as_coordinates,))


class Table:
    """A table of which only the version, the tokens and the commits are there.

    Args:
        answers: What `commit` does, one after the other: None commits, an error is raised, and
            `lost` commits and raises.
        token: The newest token.
    """

    def __init__(self, *answers, token=4):
        self.answers, self.token, self.commits, self.based_on = list(answers), token, [], []
        self.version, self.uri = 0, "/lake/t"

    def observe(self, known_version=None, at=None):
        return TableObservation(exists=True, table_id="t", version=self.version)

    def find_commit(self, commit_id, after_version, at=None):
        found = [c for c in self.commits if c.version > after_version]
        return found[-1] if found else None

    def newest_token(self, app_id, at=None):
        return self.token

    def commit(self, change, files, based_on):
        self.based_on.append(based_on)
        answer = self.answers.pop(0) if self.answers else None
        self.version += 1  # somebody's commit, ours or another's
        if isinstance(answer, CommitConflict):
            raise answer
        if not isinstance(answer, ServiceAway) or "lost" in str(answer):
            self.commits.append(TableCommit("t", self.version, change.token, 0, 0))
            self.token = change.token
        if answer is not None:
            raise answer


def run_over(table):
    stream = SimpleNamespace(table=SimpleNamespace(uri="/lake/t"))
    return SimpleNamespace(table=table, stream=stream)


def test_a_change_is_committed_once():
    """On the version that was looked at."""
    table = Table()
    assert remove(run_over(table), CHANGE, after_version=0).version == 1
    assert table.based_on == [0]


def test_a_removal_is_noted_as_it_was_made():
    """R13: the head names the coordinates that the commit took rows from, and no others."""
    made = remove(run_over(Table()), CHANGE, after_version=0)
    assert made == KnownCommit(1, 5, "p.removed", "r", CHANGE.ranges)


def test_each_try_looks_anew():
    """Others were first twice; the third try is based on what they left."""
    table = Table(CommitConflict("x"), CommitConflict("x"))
    assert remove(run_over(table), CHANGE, after_version=0).version == 3
    assert table.based_on == [0, 1, 2]


def test_others_who_never_stop_are_a_passing_fault():
    """Ten tries, and nothing was committed."""
    table = Table(*[CommitConflict("x")] * 20)
    with pytest.raises(ServiceAway, match="committed first, 10 times"):
        remove(run_over(table), CHANGE, after_version=0)
    assert (table.based_on, table.commits) == ([*range(10)], [])


def test_a_commit_whose_answer_was_lost_is_found():
    """It is there, and is not made again."""
    table = Table(ServiceAway("the answer was lost"))
    assert remove(run_over(table), CHANGE, after_version=0).version == 1
    assert table.based_on == [0]


def test_a_store_that_is_away_is_said():
    """Nobody knows whether it committed: the next attempt looks."""
    table = Table(ServiceAway("no answer"))
    with pytest.raises(ServiceAway, match="no answer"):
        remove(run_over(table), CHANGE, after_version=0)


@pytest.mark.parametrize("token", [5, 6])
def test_a_newer_attempt_fences(token):
    """R5: before anything is asked or committed."""
    table = Table(token=token)
    with pytest.raises(AttemptFenced):
        remove(run_over(table), CHANGE, after_version=0)
    assert table.based_on == []


def test_an_offset_that_was_read_twice_is_not_committed():
    """R2: one copy; the table would say so only afterwards."""
    one = PartitionIdentity(ID, 0, 0)
    read = {one: LandedRange(one, 11, (OffsetRange(0, 10),))}
    table, plan = Table(), plan_of(planned(0, 10))
    landing = Landing(None, None, plan, CHANGE, WrittenRows((), read))
    with pytest.raises(VerificationFailed, match=ONE_TOO_MANY):
        land(run_over(table), landing, after_version=0)
    assert table.based_on == []
