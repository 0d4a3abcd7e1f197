"""What a person at a terminal sees: colours of states, whole words, commands with their file."""

import io
import os
import re
import subprocess
import sys
from contextlib import suppress

import pytest
from rich.console import Console

from tideline.cli.main import build_parser, main
from tideline.cli.output import CommandOutput, grid, short_run
from tideline.launch.submit import Child

COLUMNS = ("stream", "state", "lag", "oldest unread", "last run")
FILES = {"good": "stream: s\nkafka: {topics: [t]}\ntable: {uri: /lake/t}\n", "bad": "stream: 1"}
"""A file that is accepted, and one that is not."""
ROWS = [
    ["orders", "halted", "148,300", "2 h ago", "scheduled 2026-11-25 16:00"],
    ["behind", "up to date", "0", None, None],
]


def shown(*lines, width=200, environ=None, file=None):
    """What a terminal of that many columns gets."""
    output = CommandOutput(False, file)
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, _environ=environ or {"TERM": "xterm"}
    )
    output._print(console, lines)
    return console.file.getvalue()


def plain(text):
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


def test_states_have_colours_and_no_color_is_obeyed():
    """Only words of a state: a stream may have the name of one."""
    text = shown(grid(COLUMNS, ROWS), "NOT CLEAN: 3 rows", "clean: 4 rows", "cleaner")
    coloured = re.findall(r"\x1b\[((?:1;)?3\d)m([\w ]+?)\x1b", text)
    assert coloured == [
        *(("1;31", "halted"), ("32", "up to date"), ("1;31", "NOT CLEAN"), ("32", "clean"))
    ]
    without = {"TERM": "xterm", "NO_COLOR": "1"}
    assert not re.search(r"\x1b\[(?:1;)?3\d", shown(grid(COLUMNS, ROWS), environ=without))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_words_stay_whole_at_any_width(width):
    """A table that does not fit becomes a few lines for each row; a command is not wrapped."""
    command = "Next: tideline resolve orders.yaml --incident incident-1 --choice accept_loss"
    text = "; ".join(["the brokers have not answered within eight seconds"] * 3)
    lines = plain(shown(grid(COLUMNS, ROWS), text, command, width=width))
    assert command in lines
    words = {*" ".join(lines).split()}
    assert {"oldest", "unread", "scheduled", "2026-11-25", "answered", "148,300"} <= words
    assert all(len(line) <= width for line in lines if line != command)
    if width < 60:
        assert lines[:3] == ["- stream         orders", *lines[1:3]]
        assert "  state          halted" in lines


def test_a_command_in_a_text_names_the_file():
    text = "not folded yet: run tideline fold FILE first; FILE"
    assert CommandOutput(False).filled(text) == text
    filled = CommandOutput(False, "a.yaml --stream b").filled(text)
    assert filled == "not folded yet: run tideline fold a.yaml --stream b first; FILE"


def test_a_run_of_airflow_s_is_shown_by_its_kind_and_minute():
    assert short_run("scheduled__2026-11-25T16:00:00+00:00") == "scheduled 2026-11-25 16:00"
    assert short_run("mine") == "mine"


@pytest.fixture
def folder(tmp_path):
    for name in ("orders", "sales"):
        (tmp_path / f"{name}.yaml").write_text(
            f"stream: {name}\nkafka: {{topics: [{name}]}}\ntable: {{uri: {tmp_path}/lake/{name}}}\n"
        )
    return tmp_path


def test_a_folder_is_taken_wherever_files_are(folder, capsys, monkeypatch):
    assert main(["validate", str(folder)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    monkeypatch.setenv("TIDELINE_STREAMS", str(folder))
    assert main(["validate"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["ledger", str(folder), "--stream", "sales"]) == 0
    assert f"ledger {folder}/lake/sales.ledger" in capsys.readouterr().out
    assert main(["ledger", str(folder), "--stream", "sale"]) == 2
    assert "--stream: got 'sale', did you mean sales?" in capsys.readouterr().err
    assert main(["ledger", str(folder)]) == 2
    assert "name one of its streams with --stream: orders, sales" in capsys.readouterr().err
    (folder / "sales.yaml").unlink()
    assert main(["ledger", str(folder)]) == 0
    (folder / "orders.yaml").unlink()
    assert main(["validate", str(folder)]) == 2
    assert "no stream file in that folder; allowed: *.yaml, *.yml" in capsys.readouterr().err


def test_status_names_the_folder_that_it_reads(folder, capsys, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "kafka"}')
    monkeypatch.setenv("TIDELINE_STREAMS", str(folder))
    for arguments in ([], [str(folder)]):
        assert main(["status", *arguments]) == 0
        assert capsys.readouterr().out.splitlines()[0] == f"streams of {folder}"
    assert main(["status", str(folder / "orders.yaml")]) == 0
    assert capsys.readouterr().out.startswith("stream ")
    assert main(["status", "--json"]) == 0
    assert capsys.readouterr().out.startswith("{")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_help_fits_the_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = build_parser().format_help().splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.split() == ["tideline", "run", "orders.yaml"] for line in lines) == (width < 73)


@pytest.mark.parametrize(
    ("given", "as_json", "status"),
    [("good", True, 141), ("good", False, 141), ("bad", True, 2), ("bad", False, 2)],
)
def test_whoever_closes_the_output_gets_no_success_and_no_bug(
    tmp_path, monkeypatch, capfd, given, as_json, status
):
    """As `tideline ... | head -1` does; a status of 0 would be told whatever the answer is.

    A failure keeps its status.
    """
    path = tmp_path / "s.yaml"
    path.write_text(FILES[given])
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr("sys.stdout", gone)
        assert main(["validate", str(path), *(["--json"] if as_json else [])]) == status
    assert "bug" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("validate", "good.yaml"), 4),
        (("validate", "good.yaml", "--json"), 4),
        (("validate", "bad.yaml"), 2),
        (("validate", "bad.yaml", "--json"), 2),
        (("help",), 4),
        (("help", "retention_loss"), 4),
        (("--help",), 4),
        (("--version",), 4),
        (("plan", "--help"), 4),
    ],
)
def test_an_answer_for_which_a_disk_is_too_full_is_no_success_and_no_bug(
    tmp_path, monkeypatch, capfd, arguments, status
):
    """The text says so, and what to do; a failure keeps its status, and is told."""
    for name, text in FILES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        try:
            ended = main(arguments)
        except SystemExit as leaving:
            ended = leaving.code
    assert ended == status
    said = capfd.readouterr().err
    assert "bug" not in said
    assert "Traceback" not in said
    if status == 2:
        assert "bad.yaml:1: stream: got 1" in said
    else:
        assert "standard output cannot be written: no space left on device" in said
        assert "Free space or send the output elsewhere" in said


@pytest.mark.parametrize(("name", "status"), [("good", 0), ("bad", 2), ("absent", 2)])
@pytest.mark.parametrize("mode", [(), ("--json",)])
def test_what_nobody_can_be_told_changes_no_status(
    tmp_path, monkeypatch, capfd, name, status, mode
):
    """Standard error on a full disk."""
    if name in FILES:
        (tmp_path / f"{name}.yaml").write_text(FILES[name])
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        assert main(["validate", str(tmp_path / f"{name}.yaml"), *mode]) == status
        monkeypatch.undo()
        with suppress(OSError):
            full.close()
    assert bool(capfd.readouterr().out) == (name == "good" or bool(mode))


def test_a_command_needs_no_streams(tmp_path):
    """As a service starts without any: no file of the command's gets their numbers."""
    (tmp_path / "good.yaml").write_text(FILES["good"])
    for name, status in (("good", 0), ("bad", 2)):
        call = f'exec "{sys.executable}" -m tideline validate {name}.yaml <&- >&- 2>&-'
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(["bash", "-c", call], cwd=tmp_path, env={**os.environ, **path})
        assert done.returncode == status


def test_a_character_that_the_locale_lacks_is_told_by_its_number(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(written, "ascii", write_through=True))
    assert main(["validate", "größe.yaml"]) == 2
    assert rb"gr\xf6\xdfe.yaml:1: (file): got no such file" in written.getvalue()


def test_a_child_that_failed_has_its_status_whoever_reads_what_it_said(monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        environment = {"PATH": os.environ["PATH"]}
        assert Child().run(["sh", "-c", "echo it said; exit 7"], environment) == 7
