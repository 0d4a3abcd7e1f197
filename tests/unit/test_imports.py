"""What a command imports although most streams do not need it: each start would pay for it."""

import os
import subprocess
import sys
from pathlib import Path

SPARED = (
    "pandas",
    "httpx",
    "pyspark",
    "airflow",
    "tideline.decoding.decode_execution",
    "tideline.decoding.readers",
    "tideline.decoding.schemas",
    "tideline.decoding.spark",
    "tideline.spark",
)
LANDING = ("tideline.cli.main", "tideline.pipeline.run_batch", "tideline.launch.local_driver")


def test_landing_imports_no_decoding_and_nothing_heavy():
    program = f"""
import sys
from importlib import import_module
for name in {LANDING!r}:
    import_module(name)
spared = tuple(n + "." for n in {SPARED!r})
print(*sorted(n for n in sys.modules if (n + ".").startswith(spared)))
"""
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "plugins")}
    said = subprocess.run(
        [sys.executable, "-c", program], env=path, check=True, capture_output=True
    )
    assert said.stdout.decode().split() == []
