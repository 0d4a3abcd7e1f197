"""A spark-submit that keeps the variables that it was started with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tideline.launch.submit import Submission

_PROGRAM = f"""#!{sys.executable}
import json, os
json.dump(dict(os.environ), open(os.path.dirname(__file__) + "/shown", "w"))
"""


def submission_that_shows(folder: Path) -> Submission:
    """A submission to such a program, which is made in a folder."""
    (folder / "spark-submit").write_text(_PROGRAM)
    (folder / "spark-submit").chmod(0o700)
    ours = {"PATH": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    return Submission("local", "a.py", (), (), (), {}, ours)


def shown(folder: Path) -> dict[str, str]:
    """What the program was started with; the submission's own variables are there."""
    found: dict[str, str] = json.loads((folder / "shown").read_text())
    assert found["SPARK_LOCAL_IP"] == "127.0.0.1"
    return found
