"""What the proof does with an environment: the previous version lands, the wheel goes on."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

from devstack.broker import Broker
from devstack.process import HOST, Server, free_ports, is_listening, wait_until
from devstack.sample import ProducerLog, compare
from tests.wheel.building import PREVIOUS, ROOT, Previous
from tests.wheel.venvs import Venv
from tideline.launch.local_driver import end_drivers
from tideline.launch.runtime import cache_folder

_OPERATIONS = {
    f"tideline_{name}" for name in ("resolve", "audit", "erase", "maintenance", "redrive", "rewind")
}
_DAG_FILE = """\
from tideline.airflow.dags import operation_dags, stream_dags
globals().update(stream_dags({folder!r}) | operation_dags({folder!r}))
"""
_FACTS = """
import json, sys
from importlib.metadata import distribution
from pathlib import Path
import tideline
from tideline.launch.programs import jobs_folder
package, found = Path(tideline.__file__).parent, distribution("tideline")
print(json.dumps({
    "package": str(package),
    "version": found.version,
    "jobs_folder": str(jobs_folder()),
    "jobs": sorted(path.name for path in jobs_folder().iterdir() if path.is_file()),
    "schema": (package / "stream.schema.json").read_text(),
    "licenses": [file.read_text() for file in found.files if file.name == "LICENSE"],
    "plugins": [e.value for e in found.entry_points if e.group == "airflow.plugins"],
    "path": sys.path,
}))
"""
_PARSED = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
tasks = {dag_id: [t.task_id for t in dag.tasks] for dag_id, dag in bag.dags.items()}
print(json.dumps({"errors": bag.import_errors, "tasks": tasks}))
"""


_FETCH = """
from tideline.launch.jars import fetch, spark_jars
from tideline.versions import SPARK_EXCLUDES, SPARK_JARS
fetch("spark", SPARK_JARS, SPARK_EXCLUDES)
print(len(spark_jars()))
"""


class Proof:
    """One proof, step by step; each raises AssertionError where something is not as it should be.

    Args:
        venv: The environment.
        folder: For broker, streams, lake; outside of the checkout.
    """

    def __init__(self, venv: Venv, folder: Path) -> None:
        assert not folder.is_relative_to(ROOT)
        self._began = time.monotonic()
        self._venv = venv
        self._streams = folder / "streams"
        self._lake = folder / "lake"
        self._dags = folder / "dags"
        for made in (self._streams, self._dags):
            made.mkdir()
        self._runtime = Path(tempfile.mkdtemp(prefix="tideline-"))  # a socket's path is short
        self._broker = Broker(folder / "kafka")
        self._log = ProducerLog(self._broker.bootstrap_servers)
        self._file = self._streams / "orders.yaml"
        data = {
            "stream": "orders",
            "kafka": {"topics": ["orders"]},
            "table": {"uri": str(self._lake / "orders")},
            "schedule": "@hourly",
            "airflow": {"retries": 0},  # a task that fails is seen at once, not after its delay
        }
        self._file.write_text(yaml.safe_dump(data))
        kafka = {"bootstrap.servers": self._broker.bootstrap_servers}
        self._env = {
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": kafka}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self._dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "TIDELINE_CACHE": str(_cache(folder / "cache")),
            "TIDELINE_RUNTIME": str(self._runtime),
        }

    def upgrade(self, wheel: Path, previous: Previous) -> None:
        """The previous version lands; the wheel is installed over it, goes on and proves all.

        Args:
            wheel: This version's; not installed yet.
            previous: The version before; installed.
        """
        self._broker.start()
        log = self._log
        log.create_topic("orders", partitions=2)
        log.produce("orders", 1000, seed=1)
        old = {"TIDELINE_SPARK_JOBS": str(previous.spark_jobs)}
        assert self._venv.version("tideline") == PREVIOUS
        self._say(f"{PREVIOUS} has {self._python('-c', _FETCH)} jars of its own")
        first = self._answer("run", self._file, "--run-id", "one", env=old)
        self._say(f"{PREVIOUS} landed {first['rows']} rows")
        assert (first["status"], first["rows"]) == ("done", 1000)

        self._venv.install("--no-deps", wheel)
        self._venv.check()
        self.look_at_what_is_installed()
        log.produce("orders", 500, seed=2)
        second = self._answer("run", self._file, "--run-id", "two")
        ends = {r["partition"]: r["end_offset"] for r in first["ranges"]}
        assert {r["partition"]: r["start_offset"] for r in second["ranges"]} == ends
        assert (second["status"], second["rows"]) == ("done", 500)
        again = self._answer("run", self._file, "--run-id", "one")
        assert (again["plan_id"], again["rows"]) == (first["plan_id"], 1000)
        assert again["table_version"] > second["table_version"]
        audit = self._answer("audit", self._file)
        assert (audit["clean"], audit["rows"]) == (True, 1500)
        assert compare(log, self._lake / "orders").exact
        self._say("upgraded: 500 rows landed, 1000 replayed, audit clean, exact")

    def look_at_what_is_installed(self) -> None:
        """Package, package data, license and entry point, none of them of the checkout."""
        facts = self._python("-c", _FACTS)
        package = Path(facts["package"])
        assert package.is_relative_to(self._venv.folder)
        assert not [p for p in facts["path"] if Path(p).resolve().is_relative_to(ROOT / "plugins")]
        assert Path(facts["jobs_folder"]) == package / "spark_jobs"
        assert {f.name for f in (ROOT / "spark_jobs").iterdir() if f.is_file()} == {*facts["jobs"]}
        assert facts["schema"] == (ROOT / "docs/stream.schema.json").read_text()
        assert facts["licenses"] == [(ROOT / "LICENSE").read_text()]
        assert facts["plugins"] == ["tideline.airflow.plugin:TidelinePlugin"]
        assert facts["version"] == self._venv.version("tideline") != PREVIOUS

    def parse_dags(self) -> None:
        """Two lines in a Dag file of one's own."""
        (self._dags / "tides.py").write_text(_DAG_FILE.format(folder=str(self._streams)))
        parsed = self._python("-c", _PARSED, self._dags)
        assert parsed["errors"] == {}
        assert set(parsed["tasks"]) == {"orders", *_OPERATIONS}
        assert parsed["tasks"]["orders"][::5] == ["plan_offset_ranges", "advance_offsets"]
        self._say(f"Airflow parses {', '.join(sorted(parsed['tasks']))}")

    def run_commands(self) -> None:
        """What takes a process each: Airflow has the plugin, jars are found, nothing is to do."""
        version = self._venv.version("tideline")
        assert self._tideline("--version") == f"tideline {version}"
        shown = self._python("-m", "airflow", "plugins", "--output", "json")
        ours = [plugin for plugin in shown if plugin["name"] == "tideline"]
        assert [plugin["source"] for plugin in ours] == [
            f"tideline=={version}: EntryPoint(name='tideline',"
            " value='tideline.airflow.plugin:TidelinePlugin', group='airflow.plugins')"
        ]
        assert self._answer("fetch")["jars"]
        idle = self._answer("run", self._file, "--run-id", "three")
        assert (idle["status"], idle["ranges"]) == ("nothing_to_do", [])
        self._say("Airflow has the plugin; jars are found; there is nothing to do")

    def run_dag(self) -> None:
        """Airflow runs the stream's Dag, task by task, in a database of its own."""
        self._airflow("db", "migrate")
        self._log.produce("orders", 200, seed=3)
        said = self._airflow("dags", "test", "orders")
        rows = self._answer("audit", self._file)["rows"]
        assert rows == 1700, said
        assert compare(self._log, self._lake / "orders").exact
        self._say("Airflow's Dag run landed 200 rows more, exact")

    def serve_page(self) -> None:
        """Airflow's server serves the page, to whoever has logged in; `run_dag` came before."""
        self._airflow("dags", "reserialize")
        (port,) = free_ports(1)
        passwords = self._venv.home / "passwords.json"
        passwords.write_text(json.dumps({"admin": "for-the-proof"}))
        settings = {
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "TIDELINE_STREAMS": str(self._streams),
        }
        command = [str(self._venv.python), "-m", "airflow", "api-server", "--port", str(port)]
        log, env = self._venv.home / "api-server.log", self._venv.variables(self._env | settings)
        server = Server.start("api-server", [*command, "--host", HOST, "--workers", "1"], log, env)
        try:
            server.wait_ready(lambda: is_listening(port), 180)
            with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=60) as client:
                self._look_at_page(client)
        finally:
            server.stop()
        self._say("Airflow's server serves the page")

    def _look_at_page(self, client: httpx.Client) -> None:
        streams = "/tideline/api/v1/streams"
        assert client.get(streams).status_code == 401
        login = {"username": "admin", "password": "for-the-proof"}
        token = client.post("/auth/token", json=login).json()["access_token"]
        client.cookies.set("_token", token)
        shown = client.get("/api/v2/plugins", headers={"Authorization": f"Bearer {token}"}).json()
        (ours,) = [plugin for plugin in shown["plugins"] if plugin["name"] == "tideline"]
        routes = [view["url_route"] for view in ours["external_views"]]
        assert routes == ["tideline", "tideline-stream"]
        for file in sorted((ROOT / "plugins/tideline/page/assets").iterdir()):
            assert client.get(f"/tideline/assets/{file.name}").content == file.read_bytes()

        def is_known() -> bool:
            (one,) = client.get(streams).json()["streams"]
            status = one["status"]
            return bool(status and status["is_measured"] and status["state"] == "up_to_date")

        wait_until(is_known, "the page does not show the stream as up to date", 60)

    def close(self) -> None:
        """Stop broker and Spark."""
        end_drivers(self._runtime)
        self._broker.stop()
        shutil.rmtree(self._runtime, ignore_errors=True)

    def _answer(self, *arguments: object, env: dict[str, str] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._tideline(*arguments, "--json", env=env))
        return answer

    def _tideline(self, *arguments: object, env: dict[str, str] | None = None) -> str:
        done = self._venv.run("-m", "tideline", *arguments, env={**self._env, **(env or {})})
        assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def _airflow(self, *arguments: str) -> str:
        done = self._venv.run("-m", "airflow", *arguments, env=self._env)
        assert done.returncode == 0, f"{arguments}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout + done.stderr

    def _python(self, *arguments: object) -> Any:
        done = self._venv.run(*arguments, env=self._env)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:4.0f} s] {text}", file=sys.stderr, flush=True)


def _cache(folder: Path) -> Path:
    """A cache with what `make setup` has fetched; another version's jars come to lie beside it.

    An archive of Spark's classes would take half a minute, and nobody would use it again.
    """
    folder.mkdir()
    (folder / "jars").symlink_to(cache_folder() / "jars")
    (folder / "archives").touch()
    return folder
