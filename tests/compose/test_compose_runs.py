"""docker-compose.yaml does what it promises: what it starts lands a stream, exactly."""

import json
import subprocess
import sys

import pytest

from devstack.object_store_programs import GATEWAY
from tests.compose.compose_file import ROOT
from tests.compose.machine import may_start


@pytest.mark.timeout(1200)
def test_the_services_start_and_land_a_stream(tmp_path):
    """Every command, variable, health check and dependency of the file, in two Dag runs."""
    reason = may_start()
    if reason is not None:
        pytest.skip(reason)
    GATEWAY.built()  # built here: Go has to be on PATH, and the process below has none
    done = subprocess.run(
        [sys.executable, "-m", "tests.compose", tmp_path],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}/plugins:{ROOT}"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["states"] == ["success", "success"]
    assert (found["rows"], found["clean"], found["exact"]) == (found["produced"], True, True)
    assert found["workers"] == 2
    assert found["applications"] >= 1
