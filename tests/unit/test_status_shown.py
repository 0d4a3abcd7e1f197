"""`tideline status` while brokers are silent, as a person sees it."""

import json
import socket

import pytest

from tests.worlds.build import head, position
from tests.worlds.terminal import terminal
from tideline.cli.main import main
from tideline.ledger.ledger import Ledger
from tideline.stream.files import read_stream
from tideline.wiring import open_store


@pytest.fixture
def silent():
    """A broker that takes connections and never says anything; it can be closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def files(silent, tmp_path, monkeypatch):
    """Two streams there; the ledger of each stands at 100, where the log ended."""
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    _connect(address, 600_000, monkeypatch)
    found = []
    for name in ("orders", "sales"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(
            f"stream: {name}\nkafka: {{topics: [orders]}}\ntable: {{uri: {tmp_path}/lake/{name}}}\n"
        )
        ledger = Ledger(open_store(read_stream(path).ledger_location), name)
        stands = head(position(100, seen_end=100))
        with ledger.lease("live"):
            ledger.update(lambda state, h=stands: state.with_head(h))
        found.append(path)
    return found


def _connect(address, patience_ms, monkeypatch):
    """A connection with this much patience."""
    extra = {"bootstrap.servers": address, "default.api.timeout.ms": patience_ms}
    extra["request.timeout.ms"] = patience_ms
    connection = {"conn_type": "kafka", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))


def test_a_terminal_has_the_ledger_s_answer_before_the_brokers_(files):
    """Nobody waits for brokers to learn which stream is halted; what they add comes after."""
    with terminal("status", *files) as shown:
        shown.wait_for("sales: waiting for the brokers; lag as the last run saw it")
        assert shown.process.poll() is None
        assert "up to date" in shown.text


def test_lag_that_nobody_has_measured_is_a_lower_bound(silent, files, monkeypatch, capsys):
    """The page shows it as one, too. Brokers that are silent are waited for once."""
    _connect(f"127.0.0.1:{silent.getsockname()[1]}", 300, monkeypatch)
    assert main(["status", *map(str, files)]) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines() if line.startswith(("orders ", "sales "))]
    assert [row[:6] for row in rows] == [
        ["orders", "up", "to", "date", ">=", "0"],
        ["sales", "up", "to", "date", ">=", "0"],
    ]
    assert shown.count("does not answer") == 2


def test_a_connection_that_is_missing_hides_no_stream(files, monkeypatch, capsys):
    """The ledger answers, and what is wrong stands below."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "kafka"}')
    assert main(["status", str(files[0])]) == 0
    shown = capsys.readouterr().out
    assert "up to date  >= 0" in shown
    assert "orders: connection kafka_default" in shown
