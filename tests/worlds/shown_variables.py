"""A spark-submit that keeps what it was started with: variables, and the folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tideline.launch.submit import Submission

_PROGRAM = f"""#!{sys.executable}
import json, os, stat
folder = os.getcwd()
found = {{"variables": dict(os.environ), "folder": folder, "files": os.listdir(folder)}}
found["mode"] = stat.S_IMODE(os.stat(folder).st_mode)
json.dump(found, open(os.path.dirname(__file__) + "/shown", "w"))
"""


def submission_that_shows(folder: Path) -> Submission:
    """A submission to such a program, which is made in a folder."""
    (folder / "spark-submit").write_text(_PROGRAM)
    (folder / "spark-submit").chmod(0o700)
    ours = {"PATH": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    return Submission("local", "a.py", (), (), (), {}, ours)


def started(folder: Path) -> dict[str, Any]:
    """What the program was started with, and where: its mode, and what was in it."""
    found: dict[str, Any] = json.loads((folder / "shown").read_text())
    return found


def shown(folder: Path) -> dict[str, str]:
    """The variables of the program; the submission's own are there."""
    found: dict[str, str] = started(folder)["variables"]
    assert found["SPARK_LOCAL_IP"] == "127.0.0.1"
    return found
