"""What the embedded stack's own code promises, without a broker or an Airflow."""

import json
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from devstack.airflow_client import AirflowClient
from devstack.process import HOST, Server, free_ports, is_listening, wait_until
from tideline.errors import ServiceAway


def test_waiting_ends_with_the_condition_or_says_what_did_not_happen():
    answers = iter([False, False, True])
    wait_until(lambda: next(answers), "never", 10, every_seconds=0)
    with pytest.raises(ServiceAway, match="the door is shut: waited 0 s"):
        wait_until(lambda: False, "the door is shut", 0)


def test_what_the_condition_raises_goes_through():
    """A run that failed is not waited for."""
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0 == 1, "never", 10)


def test_a_server_that_ignores_sigterm_is_killed(tmp_path):
    """It is no zombie afterwards, and its end is seen by its process id alone."""
    script = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)"
    command = [sys.executable, "-c", f"{script}; time.sleep(60)"]
    server = Server.start("deaf", command, tmp_path / "log")
    server.wait_ready(lambda: "up" in server.log_tail(), 30)
    assert Server("by its id", server.pid, server.log).is_alive
    server.stop(timeout_seconds=0.2)
    assert not server.is_alive
    server.signal(signal.SIGTERM)  # nobody to tell: no error


def test_a_server_that_ends_is_not_waited_for(tmp_path):
    """The message holds what it said last."""
    server = Server.start("short", [sys.executable, "-c", "print('no disk')"], tmp_path / "log")
    with pytest.raises(ServiceAway, match=r"short ended while starting:\n.*\nno disk"):
        server.wait_ready(lambda: False, 60)


class Refusing(BaseHTTPRequestHandler):
    """Gives a token to everybody, and nothing else."""

    def do_POST(self):
        self._answer(201, {"access_token": "t"})

    def do_GET(self):
        self._answer(403, {"detail": f"not with {self.headers['Authorization']}"})

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


def test_airflow_s_refusal_names_call_status_and_answer():
    with HTTPServer((HOST, 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = AirflowClient(f"http://{HOST}:{server.server_port}", "user", "password")
        with pytest.raises(ServiceAway, match=r"GET .*/dagRuns/r: .* 403: .*not with Bearer t"):
            client.run("d", "r")
        assert not client.is_healthy()
        server.shutdown()


def test_an_airflow_that_is_away_is_a_service_away():
    (port,) = free_ports(1)
    client = AirflowClient(f"http://{HOST}:{port}", "user", "password")
    with pytest.raises(ServiceAway, match="no answer from Airflow"):
        client.runs("d")
    assert not client.is_healthy()
    assert not is_listening(port)
