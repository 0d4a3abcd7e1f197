"""What decoding and folding cost in an object store, in requests of the run's own: budgets.

Landing, idle runs and the commands are counted in tests/integration/test_store_costs.py, without a
Spark. Here a real one writes the tables, and its requests are not counted.
"""

import itertools

import pytest

from devstack.ledger_history import closed_run, fabricate
from tests.worlds.current_streams import Changing
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.model.request import RunRequest
from tideline.pipeline.run_batch import decode_batch, fold_batch
from tideline.wiring import open_run

pytestmark = [pytest.mark.slow, pytest.mark.s3a]
BUDGETS = {"decode": 110, "nothing to decode": 20, "fold": 90, "nothing to fold": 20}
"""Requests at most; `docs/object-stores.md` has what was measured."""
RUNS = 1000


def test_decoding_and_folding_do_not_grow_with_the_history(harness, bucket, spark_in_store):
    orders = Changing(harness, spark_in_store)
    table = {"uri": bucket.uri(), "connection": "lake"}
    found = {}

    ids = (f"run-{number}" for number in itertools.count())

    def cost(what, runs, act):
        bucket.proxy.clear()
        with open_run(orders.stream, next(ids), RunRequest(), spark_in_store) as run:
            act(run)
        ours = [request for request in bucket.proxy.requests if not request.is_spark]
        found.setdefault((what, runs), []).append(len(ours))

    orders.more = {"table": table}
    for runs in (1, RUNS):
        if runs == RUNS:
            store = DeltaLedgerStore(str(bucket.path("orders.ledger")))
            fabricate(store, "history:run:00000000", [closed_run(n) for n in range(RUNS)])
            ledger = Ledger(store, orders.stream.stream)
            for _ in range(105):
                ledger.update(lambda s: s.with_next_token())
        for portion in ("first", "second", "third"):
            orders.sends(("c", 1, portion, runs), ("c", 2, portion, runs), ("d", 2), (None, 2))
            harness.run(harness.stream(table=table), f"land-{portion}-{runs}", spark_in_store)
            cost("decode", runs, decode_batch)
            cost("fold", runs, fold_batch)
        cost("nothing to decode", runs, decode_batch)
        cost("nothing to fold", runs, fold_batch)
    for (what, runs), requests in found.items():
        print(what, runs, requests)
    for (what, _), requests in found.items():
        # The first creates tables, and one in 200 commits of the ledger tidies it as well.
        assert 0 < min(requests) <= BUDGETS[what], (what, found)
