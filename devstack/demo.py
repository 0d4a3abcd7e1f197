"""`make demo`: lands and decodes events through a real broker, Airflow and Spark, and proves it."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from devstack.airflow_client import AirflowClient
from devstack.process import wait_until
from devstack.sample import ProducerLog, compare
from devstack.stack import Stack
from devstack.typed_sample import BAD, CORRECTED, compare_typed, json_schema
from tideline.cli.output import CommandOutput
from tideline.contract.answers import Demo
from tideline.errors import VerificationFailed
from tideline.ledger.ledger import Ledger
from tideline.model.request import RunRequest
from tideline.operations.questions import audit_stream
from tideline.stream.files import read_stream
from tideline.wiring import open_ledger, open_run

_STREAM = "orders"
_FILE = """\
stream: {stream}
kafka:
  connection: kafka_default
  topics: [{stream}]
  commit_group: {stream}-landing
table:
  uri: {lake}/{stream}
decode:
  value: {{format: json, schema: {stream}.schema.json}}
schedule: "* * * * *"
limits:
  max_records_per_run: 50_000
airflow: {{retries: 1, retry_delay_seconds: 5}}
"""


def run_demo(output: CommandOutput) -> int:
    """Produce events, let scheduled runs land and decode them, clear a finished run, redrive.

    Args:
        output: Where the result goes; progress is printed unless it is JSON.

    Returns:
        0 when the tables hold everything that was produced exactly once, 6 otherwise.

    Raises:
        BadInput: Too little disk space, or Java or the jars are missing.
        ServiceAway: A service does not start or does not answer.
        VerificationFailed: A run failed.
    """
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tideline-demo-"))

    def say(text: str) -> None:
        if not output.as_json:
            print(f"[{time.monotonic() - began:4.0f} s] {text}", flush=True)

    stack = Stack.build(folder)
    stream_file = _stream_file(stack)
    stream_file.write_text(_FILE.format(stream=_STREAM, lake=stack.lake))
    _schema_file(stack).write_text(json_schema(corrected=False))
    try:
        say("starting a Kafka broker and Airflow")
        stack.start()
        say(f"Kafka at {stack.broker.bootstrap_servers}; Airflow's page at {stack.airflow.url}")
        say(f"(user {stack.airflow.username}, password {stack.airflow.password}, while this runs)")
        log = ProducerLog(stack.broker.bootstrap_servers)
        client = stack.airflow.client()
        _land(log, client, stack, say)
        redriven = _redrive(client, stack, say)
        # The Dag is not paused: a paused Dag's runs do not go on. Later runs have nothing to read.
        wait_until(lambda: _none_running(client), f"{_STREAM}: a run is still running", 300, 0.5)
        proof = _prove(log, stack, stream_file)
    except BaseException:
        print(f"the demo failed; its logs are in {folder}", file=sys.stderr)
        raise
    finally:
        stack.stop()
        say("everything is stopped")
    seconds = round(time.monotonic() - began)
    exact = bool(proof["clean"] and proof["exact"] and proof["typed_exact"])
    if exact:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"table, ledger and logs are kept in {folder}")
    verdict = "proven" if exact else "NOT PROVEN"
    output.answer(
        Demo(**proof, redriven=redriven, status="done" if exact else "failed", seconds=seconds),
        "",
        f"produced   {proof['produced']}",
        f"landed     {proof['rows']} rows, {proof['equal']} equal to what was produced",
        f"lost       {proof['lost']}   duplicate {proof['duplicate']}   foreign {proof['foreign']}"
        f"   different {proof['different']}",
        f"typed      {proof['typed']} rows, {proof['tombstones']} tombstones,"
        f" {proof['quarantined']} in quarantine, {redriven} redriven",
        f"audit      {'clean' if proof['clean'] else 'NOT CLEAN'}, all three tables",
        f"{verdict}: produced == landed == typed + tombstones + quarantined,"
        f" one copy of each, in {seconds} s",
    )
    return 0 if exact else 6


def _land(log: ProducerLog, client: AirflowClient, stack: Stack, say: Any) -> None:
    log.create_topic(_STREAM, partitions=4)
    log.produce(_STREAM, 4000, seed=1)
    log.send(_STREAM, BAD, random.Random(1))
    first_all = 4000 + len(BAD)
    say(
        f"produced 4000 events to 4 partitions, and {len(BAD)} that no schema allows; the schedule"
        " is once a minute"
    )
    client.wait_for_dag(_STREAM)
    client.pause(_STREAM, False)
    first = _next_landing(client, stack, say, landed=first_all)
    log.produce(_STREAM, 2500, seed=2)
    client.trigger(_STREAM, "by-hand")
    say("produced 2500 more, and triggered a run: the schedule's next one may be a minute away")
    _next_landing(client, stack, say, landed=first_all + 2500)
    say(f"clearing ingest_ranges of {first}: its ranges are read again")
    client.clear(_STREAM, first, ["ingest_ranges"])
    state = client.wait_for_run(_STREAM, first)
    tries = client.tasks(_STREAM, first)["ingest_ranges"]["try_number"]
    if state != "success" or tries < 2:
        raise VerificationFailed(
            f"{_STREAM}, cleared run {first}: state {state}, ingest_ranges in try {tries}; expected"
            f" success in try 2 or later; logs in {stack.folder}"
        )
    say(f"{first} succeeded again, ingest_ranges in try {tries}")


def _redrive(client: AirflowClient, stack: Stack, say: Any) -> int:
    """Correct the schema, and have Airflow decode what is in quarantine again.

    Returns:
        How many records have typed rows then.
    """
    _schema_file(stack).write_text(json_schema(corrected=True))
    say("corrected the schema file; redriving the records in quarantine")
    dag_id, run_id = "tideline_redrive", "with-the-corrected-schema"
    client.wait_for_dag(dag_id)
    client.pause(dag_id, False)
    client.trigger(dag_id, run_id, {"stream": _STREAM})
    state = client.wait_for_run(dag_id, run_id)
    record = _ledger(stack).find_decoding(f"redrive__{run_id}")
    redriven = 0 if record is None else record.decoded
    if state != "success" or redriven != CORRECTED:
        raise VerificationFailed(
            f"{dag_id}, run {run_id}: state {state}, {redriven} records redriven; expected success"
            f" and {CORRECTED}; logs in {stack.folder}"
        )
    say(f"{dag_id}: {state}, {redriven} of {len(BAD)} records in quarantine has a typed row now")
    return redriven


def _next_landing(client: AirflowClient, stack: Stack, say: Any, landed: int) -> str:
    """Wait until scheduled runs have landed `landed` offsets in all; the id of the last run."""

    def is_landed() -> bool:
        failed = [r for r in client.runs(_STREAM) if r["state"] == "failed"]
        if failed:
            raise VerificationFailed(
                f"{_STREAM}: run {failed[0]['dag_run_id']} failed; logs in {stack.folder}"
            )
        return sum(p.next_offset for p in _ledger(stack).read().head.positions) >= landed

    wait_until(is_landed, f"{_STREAM}: {landed} offsets have not landed", 300, 0.5)
    run_id = [r.run_id for r in _ledger(stack).closed_runs() if r.status == "done"][-1]
    state = client.wait_for_run(_STREAM, run_id)
    say(f"{run_id}: {state}, {landed} offsets landed so far")
    return run_id


def _ledger(stack: Stack) -> Ledger:
    return open_ledger(read_stream(_stream_file(stack)))


def _stream_file(stack: Stack) -> Path:
    return stack.streams / f"{_STREAM}.yaml"


def _schema_file(stack: Stack) -> Path:
    return stack.streams / f"{_STREAM}.schema.json"


def _none_running(client: AirflowClient) -> bool:
    return all(r["state"] != "running" for r in client.runs(_STREAM))


def _prove(log: ProducerLog, stack: Stack, stream_file: Path) -> dict[str, Any]:
    os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = stack.kafka_connection
    stream = read_stream(stream_file)
    with open_run(stream, "audit", RunRequest()) as run:
        audit, findings = audit_stream(run)
    compared = compare(log, str(stack.lake / _STREAM))
    tables = (stack.lake / f"{_STREAM}_{name}" for name in ("decoded", "quarantine"))
    typed = compare_typed(log, *tables)
    return {
        "produced": len(log.written),
        "rows": audit.rows,
        **asdict(compared),
        "exact": compared.exact,
        "typed": typed.typed,
        "tombstones": typed.tombstones,
        "quarantined": typed.quarantined,
        "typed_exact": typed.exact,
        "clean": audit.clean and not findings,
    }
