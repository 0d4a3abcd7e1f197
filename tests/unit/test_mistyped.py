"""What a person mistypes is recognized: commands, options, choices, files, keys."""

import pytest

from tideline.cli.main import main


def said(capsys, *arguments):
    """What the command prints about it on standard error; it ends with status 2."""
    try:
        status = main([*map(str, arguments)])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    return capsys.readouterr().err


@pytest.fixture
def orders(tmp_path):
    path = tmp_path / "orders.yaml"
    path.write_text("stream: orders\nkafka: {topics: [a]}\ntable: {uri: /l}\nschedules: '@daily'\n")
    return path


def test_a_command_is_recognized_and_not_all_seventeen_are_printed(capsys):
    """A word that is near none leads to the help."""
    text = said(capsys, "statusx")
    assert "argument COMMAND: got 'statusx', did you mean status?" in text
    assert "move-ledger" not in text
    text = said(capsys, "xyz")
    assert "got 'xyz'\n`tideline --help` lists the commands" in text


def test_options_and_choices_are_recognized(capsys, orders):
    """With what is allowed there."""
    text = said(capsys, "run", orders, "--runid=one")
    assert "got '--runid', did you mean --run-id?" in text
    assert "tideline run" in text
    text = said(capsys, "move-ledger", orders, "--to", "deltas")
    assert "got 'deltas', did you mean delta? allowed: delta, airflow" in text


def test_a_key_of_a_stream_file_is_recognized(capsys, orders):
    """Its value may be a secret, and is not shown."""
    text = said(capsys, "validate", orders)
    assert f"{orders}:4: schedules: unknown key, did you mean" in text
    assert "did you mean schedule? allowed: stream, " in text


def test_a_file_that_is_not_there_is_told_in_words(capsys, orders, tmp_path):
    """No name of Python's; the nearest file beside it."""
    text = said(capsys, "status", tmp_path / "order.yaml")
    assert "order.yaml:1: (file): got no such file or directory; did you mean orders.yaml?" in text
    for wrong in (tmp_path / "x", orders / "y"):
        text = said(capsys, "plan", wrong)
        assert "allowed: the path of a stream file" in text
        assert "Error;" not in text
        assert "[Errno" not in text
    (tmp_path / "order2.yaml").write_bytes(b"stream: \xff")
    text = said(capsys, "plan", tmp_path / "order2.yaml")
    assert "got not text in UTF-8; allowed: the path of a stream file, which is text" in text


def test_a_time_that_nobody_looks_at_is_refused(capsys, tmp_path):
    """`--since` belongs to `--again`; a time has its offset, and typed tables have to be there."""
    text = "stream: orders\nkafka: {topics: [a]}\ntable: {uri: /l}\n"
    raw, typed = tmp_path / "raw.yaml", tmp_path / "typed.yaml"
    raw.write_text(text)
    typed.write_text(f"{text}decode: {{value: {{format: json}}}}\n")
    assert "decode: got nothing; required" in said(capsys, "decode", raw, "--again")
    at = ("--since", "2026-01-31T00:00:00Z")
    assert "--since: got '2026-01-31T00:00:00Z'; allowed only" in said(capsys, "decode", typed, *at)
    wrong = said(capsys, "decode", typed, "--again", "--since", "yesterday")
    assert "--since: got 'yesterday'; allowed: a time with its offset from UTC" in wrong


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate", ""),
        ("plan", "orders.yaml", "--from", "", "--to", ""),
        ("plan", "orders.yaml", "--ranges", ""),
        ("run", "orders.yaml", "--run-id", ""),
        ("status", "orders.yaml", ""),
        ("erase", "orders.yaml", "--plan", "--raw-key", ""),
        ("redrive", "orders.yaml", "--class", ""),
    ],
)
def test_an_empty_argument_is_no_argument_that_was_left_out(capsys, arguments):
    """As of a variable that is not set: a run by an empty window would be a live one."""
    assert ": got nothing; allowed: " in said(capsys, *arguments)


@pytest.mark.parametrize("text", ["1_0", " 1 ", "٣", "+1", "1.0", "0x1", "x", "9" * 5000])
def test_a_number_is_digits(capsys, orders, text):
    got = said(capsys, "explain", orders, "a", "0", text)
    assert "argument OFFSET: got '" in got
    assert "; allowed: a whole number, in digits" in got
    assert len(got) < 1000


@pytest.mark.parametrize("text", [" ", "a\0b", "a\nb\x1b", "x" * 251])
def test_a_run_id_is_a_line_of_text(capsys, orders, text):
    assert "allowed: text of at most 250 characters" in said(
        capsys, "run", orders, "--run-id", text
    )


def test_an_option_that_is_given_twice_says_one_thing(capsys, orders):
    """The last one would count in silence."""
    for given in (("--run-id", "a", "--run-id", "b"), ("--json", "--output", "table")):
        assert "given twice, and not alike; allowed: once" in said(capsys, "run", orders, *given)
    text = said(capsys, "run", orders, "--json", "--output", "json", "--run-id", "a", "--run-id=a")
    assert "unknown key, did you mean schedule?" in text


def test_a_key_that_stands_twice_in_an_object_of_json_is_refused(capsys, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("stream: a\nkafka: {topics: [a]}\ntable: {uri: /l}\n")
    ranges = '[{"topic": "a", "partition": 0, "start_offset": 5, "end_offset": 8, "end_offset": 9}]'
    text = said(capsys, "plan", path, "--ranges", ranges)
    assert "'end_offset', 'end_offset']; allowed: each key of an object once" in text


@pytest.mark.parametrize("command", ["validate", "plan", "status", "diff", "init", "doctor"])
def test_a_path_that_no_system_takes_is_bad_input(capsys, orders, command):
    path = f"{'x' * 5000}.yaml"
    files = [path, orders] if command == "diff" else [path]
    assert "bug" not in said(capsys, command, *files)


@pytest.mark.parametrize(
    ("to", "at", "wrong"),
    [
        ("delta", "there", "--at: got 'there', as ledger_uri; needs an absolute path, file:///"),
        ("delta", "/l/x y", "--at: got '/l/x y', as ledger_uri; allowed: an address without ' '"),
        ("airflow", "a b", "--at: got 'a b', as ledger_connection; allowed: the id of an Airflow"),
    ],
)
def test_an_address_to_move_to_is_refused_in_words(capsys, tmp_path, to, at, wrong):
    path = tmp_path / "a.yaml"
    path.write_text("stream: a\nkafka: {topics: [a]}\ntable: {uri: /l}\n")
    assert wrong in said(capsys, "move-ledger", path, "--to", to, "--at", at)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"conn_type": "kafka", extra: s3cret}', "it is no JSON from character 24 on"),
        ('{"conn_type": "kafka", "extra": "{s3cret"}', "it is no JSON from character 2 on"),
        ('{"extra": {"password": "s3cret"}}', "it has no conn_type"),
        ('{"conn_type": "kafka", "port": "s3cret"}', "a part of it has another type"),
        ('{"conn_type": "kafka", "extra": ["s3cret"]}', "a part of it has another type"),
    ],
)
def test_a_connection_that_is_mistyped_is_told_where(capsys, tmp_path, monkeypatch, text, why):
    """In words, without what it holds."""
    path = tmp_path / "a.yaml"
    path.write_text("stream: a\nkafka: {topics: [a]}\ntable: {uri: /l}\n")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", text)
    got = said(capsys, "plan", path)
    assert f"AIRFLOW_CONN_KAFKA_DEFAULT is not a connection in Airflow's JSON form: {why}; a" in got
    assert "s3cret" not in got
