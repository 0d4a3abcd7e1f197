"""The page beside a long history: a viewer who asks all the time does not hold Airflow up."""

import threading
import time
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest

from devstack.airflow_services import EmbeddedAirflow
from devstack.ledger_history import closed_run, fabricate
from tests.worlds.build import CLUSTER, ID, position
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.stream.files import read_stream
from tideline.wiring import open_ledger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
RUNS = 1_000_000
CONNECTIONS = 16
STREAM = "stream: s\nkafka: {{topics: [orders]}}\ntable: {{uri: {folder}/lake/s}}\n"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """A server whose one stream has had a run a minute for two years."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "streams").mkdir()
    file = folder / "streams" / "s.yaml"
    file.write_text(STREAM.format(folder=folder))
    stream = read_stream(file)
    covered = Places({PartitionIdentity(ID, 0, 0): (OffsetRange(0, RUNS),)})
    open_ledger(stream).update(
        lambda s: s.with_head(
            replace(s.head, cluster_id=CLUSTER, positions=(position(RUNS),), coverage=covered)
        )
    )
    store = DeltaLedgerStore(stream.ledger_location.address)
    for slot in range(RUNS // 10_000):
        entries = [closed_run(slot * 10_000 + n) for n in range(10_000)]
        fabricate(store, f"history:run:{slot:08d}", entries)
    running = EmbeddedAirflow(folder / "home", folder / "streams", {}).start_pages()
    yield running
    running.stop()


def test_sixteen_connections_that_ask_for_old_records_hold_nobody_up(airflow):
    """Each asks for another record, none of which the newest runs have landed."""
    token = httpx.post(f"{airflow.url}/auth/token", json=airflow.login("admin")).json()
    given = {"base_url": airflow.url, "cookies": {"_token": token["access_token"]}, "timeout": 60}
    stop, answers = threading.Event(), []

    def ask(number):
        with httpx.Client(**given) as client:
            while not stop.is_set():
                with suppress(httpx.HTTPError):
                    number += CONNECTIONS
                    answer = client.get(f"/tideline/api/v1/streams/s/records/orders/0/{number}")
                    answers.append((answer.status_code, answer.json().get("text", "")))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(CONNECTIONS)]
    with httpx.Client(**given) as client:
        client.get("/api/v2/dags")
        for thread in threads:
            thread.start()
        try:
            took, end = [], time.monotonic() + 20
            while time.monotonic() < end:
                began = time.perf_counter()
                assert client.get("/api/v2/dags?limit=10").status_code == 200
                took.append(time.perf_counter() - began)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    took.sort()
    codes = {code for code, _ in answers}
    print(f"{len(answers)} answers, {codes}; Airflow's list: median {took[len(took) // 2]:.3f} s,")
    print(f"of {len(took)} the slowest {took[-1]:.3f} s")
    assert ("by a run before the newest" in answers[-1][1], codes) == (True, {200})
    assert took[int(len(took) * 0.95)] < 0.5
