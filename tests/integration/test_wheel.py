"""The wheel, installed over the version before it, beside the packages of `make setup`."""

import pytest

from tests.wheel.building import build_wheel, previous
from tests.wheel.proof import Proof
from tests.wheel.venvs import Venv


@pytest.fixture
def proof(tmp_path):
    venv = Venv.beside(tmp_path / "venv")
    found = Proof(venv, tmp_path)
    yield venv, found
    found.close()


@pytest.mark.slow
def test_a_site_upgrades_goes_on_and_has_its_dags(proof, tmp_path):
    """Far from the checkout; `python -m tests.wheel` does it with every Python and Airflow."""
    venv, found = proof
    before = previous(tmp_path / "previous")
    venv.install("--no-deps", before.wheel)
    found.upgrade(build_wheel(tmp_path / "copy"), before)
    found.parse_dags()
