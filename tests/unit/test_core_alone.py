"""The core runs where nothing of the outside can be imported."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("airflow", "pyspark", "kafka", "deltalake", "pyarrow", "numpy"):
            raise ImportError("not here: " + name)

sys.meta_path.insert(0, Refuse())
import pkgutil
import tideline.model
import tideline.rules
for package in (tideline.model, tideline.rules):
    for module in pkgutil.iter_modules(package.__path__):
        __import__(package.__name__ + "." + module.name)

from tests.worlds.build import head, observation, position, seen, topic
from tideline.rules.reset_detection import find_resets
from tideline.rules.planning import plan_ranges

known = head(position(100))
now = observation(topic(seen(end=150)))
assert not find_resets(known, now, stream="orders", ledger_id="l")
proposal = plan_ranges(
    known, now, isolation_level="read_committed",
    max_records_per_run=30, max_records_per_partition=1000,
)
print(*proposal.ranges, proposal.offset_lag)
"""


def test_the_core_plans_and_detects_without_airflow_spark_or_kafka():
    """An interpreter in which importing them raises."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=root,
        env={"PYTHONPATH": f"{root}/plugins:{root}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "orders-0 [100, 130) 20"
