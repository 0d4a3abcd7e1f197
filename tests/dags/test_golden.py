"""Dags, their forms and the command line are as they were, but where somebody means to change them.

`python -m tests.dags.golden` writes the files anew; the difference is for a reviewer.
"""

import json

import pytest

from tests.dags.golden import FOLDER, dags, helps


@pytest.mark.parametrize(("file", "made"), [("dags.json", dags), ("help.txt", helps)])
def test_what_users_see_is_what_it_was(file, made):
    assert (FOLDER / file).read_text() == "".join(made())


def test_every_dag_is_one_of_a_file_that_can_be_read():
    """A file that is refused has a Dag as well, which says so."""
    found = json.loads((FOLDER / "dags.json").read_text())
    first = {name: dag["dag"]["tasks"][0]["__var"]["task_id"] for name, dag in found.items()}
    assert {*first} >= {"orders", "customers", "clicks", "shop", "tideline_erase"}
    assert "read_stream_file" not in first.values()
