"""`tideline maintain` and its Airflow task: JSON, exit statuses, and a process that is killed."""

import json
import re
from types import SimpleNamespace

import pytest
import yaml
from deltalake import DeltaTable

from devstack.command_line import finished, tideline
from tests.integration.aging import age
from tests.worlds.lake import rows
from tests.worlds.output_schema import assert_fits
from tideline.cli.main import main
from tideline.cli.output import os_user
from tideline.operations.questions import require_clean
from tideline.wiring import open_ledger

PLACES = ("merged", "committed", "vacuuming", "vacuumed")


@pytest.fixture(autouse=True)
def connection(monkeypatch):
    """The broker is named, and never asked."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", json.dumps(kafka))


@pytest.fixture
def file(lake, tmp_path):
    """The stream's file."""
    path = tmp_path / "orders.yaml"
    wanted = lake.stream.model_dump(include={"stream", "kafka", "table"}, exclude_unset=True)
    path.write_text(yaml.safe_dump(wanted))
    return path


def maintain(capsys, *arguments):
    """Exit status and the JSON object, which fits the schema."""
    status = main(["maintain", *map(str, arguments), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert_fits("maintain", answer)
    return status, answer


def test_what_was_done_is_told_per_table(lake, file, capsys):
    """Before and after, in files and bytes; a dry run says the same beforehand."""
    status, asked = maintain(capsys, file, "--dry-run")
    assert (status, asked["status"], asked["dry_run"]) == (0, "done", True)
    assert asked["tables"][0]["after"] is None
    status, answer = maintain(capsys, file)
    assert (status, answer["status"], answer["stream"]) == (0, "done", "orders")
    (table,) = answer["tables"]
    assert (table["table"], table["uri"]) == ("raw", lake.uri)
    assert table["merged"] == asked["tables"][0]["merged"] == table["before"]["active"]
    assert table["written"] == table["after"]["active"]
    assert (table["merged"]["files"], table["written"]["files"]) == (4, 2)
    commit = json.loads(DeltaTable(lake.uri).history(1)[0]["userMetadata"])
    assert commit["by"] == os_user()
    assert maintain(capsys, file)[1]["status"] == "nothing_to_do"


def test_a_person_reads_a_table(file, capsys):
    """One line per table."""
    assert main(["maintain", str(file), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "raw" in said
    assert re.search(r"\b4 \(\d+\.\d kB\)", said), said
    assert said.endswith("the table above shows what would happen\n")
    assert main(["maintain", str(file)]) == 0
    assert capsys.readouterr().out.endswith("done\n")
    assert main(["maintain", str(file)]) == 0
    assert capsys.readouterr().out.endswith("nothing to do\n")


def test_statuses_say_what_to_do(lake, file, capsys):
    """4 while somebody writes, 3 where a person has to decide."""
    with open_ledger(lake.stream).lease("writer"):
        status, answer = maintain(capsys, file)
    assert (status, answer["error"], answer["retriable"]) == (4, "StreamBusy", True)
    DeltaTable(lake.uri).delete("offset = 3")
    status, answer = maintain(capsys, file)
    assert (status, answer["error"], answer["status"]) == (3, "Halted", "halted")


@pytest.mark.parametrize("place", PLACES)
def test_a_process_that_is_killed_leaves_every_row_once(lake, file, place):
    """The next call goes on: its lease is known to be gone."""
    left = lake.file().parents[2] / "landed-plan-x-1" / "part.parquet"
    left.parent.mkdir()
    left.write_bytes(b"left")
    wanted = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**wanted, "maintenance": {"vacuum_hours": 1}}))
    age(left)
    killed = tideline("maintain", file, env={"TIDELINE_FAILPOINT": f"maintain:{place}:kill"})
    assert finished(killed)[0] == -9
    assert require_clean(lake.run).rows == 400
    status, answer, errors = finished(tideline("maintain", file, "--json"))
    assert status == 0, errors
    assert answer["tables"][0]["after"]["active"]["files"] == 2
    assert not left.exists()
    assert require_clean(lake.run).rows == 400
    lake.append(rows(900, 901))
    assert len(DeltaTable(lake.uri).to_pyarrow_table(columns=["offset"])) == 401


def test_airflow_s_task_does_the_same(lake, file, monkeypatch):
    """Its form is checked, and what it returns is what the command prints."""
    from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

    from tideline.airflow.operations import MaintainStream

    monkeypatch.setenv("TIDELINE_STREAMS", str(file.parent))

    def run(**conf):
        task = MaintainStream(task_id="maintain_stream")
        return task.execute({"dag_run": SimpleNamespace(conf=conf)})

    assert run(stream="orders", dry_run=True)["dry_run"] is True
    with open_ledger(lake.stream).lease("writer"), pytest.raises(AirflowRescheduleException):
        run(stream="orders")
    answer = run(stream="orders")
    assert_fits("xcom-maintain_stream", answer)
    assert answer["tables"][0]["after"]["active"]["files"] == 2
    with pytest.raises(AirflowFailException, match="force: unknown key"):
        run(stream="orders", force=True)
    with pytest.raises(AirflowFailException, match="stream: got nothing"):
        run()
    gated = MaintainStream(task_id="maintain_stream", stream="orders")
    assert gated.execute({})["status"] == "nothing_to_do"
