"""The process of a command: how it ends, and what it says until then."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT / "plugins"), "PYTHONUNBUFFERED": ""}
BEFORE = "import sys; from tideline.__main__ import run; import tideline.cli.main as cli; "


def ended(program, **options):
    return subprocess.run(
        [sys.executable, "-c", BEFORE + program],
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )


@pytest.mark.parametrize("status", [0, 1, 4])
def test_a_command_s_status_and_all_of_its_output(status):
    done = ended(f"cli.main = lambda: print('x' * 100_000) or {status}; run()")
    assert (done.returncode, len(done.stdout)) == (status, 100_001)


@pytest.mark.parametrize(
    ("leaving", "status", "said"),
    [("sys.exit(143)", 143, ""), ("sys.exit()", 0, ""), ("sys.exit('why')", 1, "why\n")],
)
def test_a_command_that_leaves_by_itself(leaving, status, said):
    done = ended(f"cli.main = lambda: {leaving}; run()")
    assert (done.returncode, done.stderr) == (status, said)


INTERRUPTED = "interrupted: no work is lost. Run the same command again\n"


def test_an_interrupt_while_a_command_is_imported_shows_no_code():
    """Its longest part, for most commands."""
    program = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(*_): raise KeyboardInterrupt\n"
        "from tideline.__main__ import run\n"
        "sys.meta_path.insert(0, Finder)\n"
        "run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", INTERRUPTED)


@pytest.mark.parametrize("where", ["build_parser", "_log_to_stderr", "CommandOutput.tell"])
def test_an_interrupt_before_a_command_begins_or_while_it_ends_shows_no_code(where):
    """The last one is a second interrupt, while the first is told."""
    program = (
        "\ndef stop(*_): raise KeyboardInterrupt\n"
        f"cli.file_in = cli.{where} = stop\n"
        "sys.argv = ['tideline', 'plan', '/']\n"
        "run()"
    )
    done = ended(program)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", INTERRUPTED)


def test_the_interpreter_is_not_taken_apart():
    """A thread that is left keeps nobody waiting, and changes no status."""
    program = (
        "import atexit, threading; atexit.register(print, 'taken apart');"
        " threading.Thread(target=threading.Event().wait).start();"
        " cli.main = lambda: 3; run()"
    )
    done = ended(program)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_a_failure_is_told_even_if_nobody_reads_it(tmp_path):
    """Standard output is closed before the command has said a word."""
    read, write = os.pipe()
    os.close(read)
    missing = str(tmp_path / "no.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "tideline", "validate", "--json", missing],
        env=ENV,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_usage_errors_and_help_keep_their_statuses():
    for arguments, status in (["--help"], 0), (["nonsense"], 2):
        done = ended(f"sys.argv = {json.dumps(['tideline', *arguments])}; run()")
        assert done.returncode == status
        assert "usage: tideline" in done.stdout + done.stderr
