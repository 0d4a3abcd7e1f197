"""A command that works for longer than a second says for whom, before it begins."""

from contextlib import contextmanager, suppress

import pytest

from tideline.cli import fleets, reading, runs, validating
from tideline.cli.main import main
from tideline.errors import ServiceAway
from tideline.launch import local_driver

FILE = """\
stream: orders
kafka: {topics: [orders]}
table: {uri: /lake/orders}
decode:
  value: {format: json}
  key: {format: long}
  expect: [{name: some, sql: "value is not null"}]
current: {}
"""
FLEET = "fleet: shop\ntopics: [a, b]\nstream: {stream: '{topic}', table: {uri: '/lake/{topic}'}}\n"


class Begun(Exception):
    """The work itself."""


def begins(*_, **__):
    raise Begun


@pytest.fixture
def asked(tmp_path, monkeypatch, capsys, caplog):
    """What a command has told when its work begins, in its log and on standard error."""

    def ask(text, *arguments):
        path = tmp_path / "file.yaml"
        path.write_text(text)
        name, *rest = arguments
        for module in (runs, reading):
            monkeypatch.setattr(module, "open_run", contextmanager(begins))
        monkeypatch.setattr(validating._Asked, "_online", begins)
        monkeypatch.setattr(validating._Asked, "_offline", begins)
        monkeypatch.setattr(fleets.Batch, "run", begins)
        monkeypatch.setattr("traceback.print_exc", lambda: None)
        caplog.clear()
        assert main([name, str(path), *rest]) == 1
        return "\n".join([*caplog.messages, capsys.readouterr().err])

    return ask


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("erase", "--key", "id=1", "--plan"), "looking for what is to be erased in the tables of"),
        (("explain", "--key", "key=1"), "looking for the key in the tables of"),
        (("fold", "--check"), "folding the changes of"),
        (("sweep",), "looking for rows of"),
        (("redrive",), "looking for quarantined records of"),
        (("decode", "--again"), "decoding again what"),
        (("audit",), "reading the tables of"),
        (("validate",), "starting Spark, which looks at the conditions of"),
        (("validate", "--online"), "asking brokers, registry and ledger about"),
    ],
)
def test_a_command_says_what_it_works_at(asked, arguments, said):
    assert asked(FILE, *arguments).startswith(f"{said} orders")


def test_a_fleets_run_says_how_many_topics_it_lands(asked):
    """Whatever is found: with topics by name nothing is said of the search."""
    assert asked(FLEET, "run", "--parallel", "2").startswith("shop: landing 2 topics, at most 2 at")
    assert "shop: landing 2 topics, one after the other\n" in asked(FLEET, "run", "--parallel", "1")


def test_spark_that_starts_is_told_with_its_log(tmp_path, monkeypatch, caplog):
    """A cold start takes ten seconds and more."""
    monkeypatch.setattr(local_driver, "run", begins)
    driver = local_driver.LocalDriver("local[*]", 900)
    caplog.set_level("INFO", "tideline")
    with suppress(Begun, ServiceAway):
        driver._start(tmp_path / "a.socket", {}, _Listener())
    assert caplog.messages == [f"starting Spark; its log: {tmp_path}/a.log"]


class _Listener:
    def fileno(self):
        return 0
