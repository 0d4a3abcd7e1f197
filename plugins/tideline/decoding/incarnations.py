"""Which incarnation of a topic came first, where an older version has not noted it in the head."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import Halted
from tideline.landing.context import RunContext
from tideline.ledger.state import LedgerState
from tideline.model.wording import first_few
from tideline.rules.older_ledger import landed_logs


def with_incarnations(run: RunContext, state: LedgerState) -> LedgerState:
    """The state whose head knows the order of all topic ids that rows are of; nothing is stored.

    The raw table's log has the first commit of each. What is older than the log is in the ledger's
    history, whose runs stand in the order in which they were closed.

    Raises:
        Halted: Neither tells it: two records of one key would have no order.
        ServiceAway: The table's store is away.
    """
    order, head = state.head.order_of_incarnations, state.head
    logs = {*head.coverage, *state.decoding.coverage}
    unknown = {i.topic_id for i in logs if order.of(i) is None}
    if not unknown:
        return state
    (topic,) = run.stream.kafka.topics
    in_log = [i.topic_id for i in landed_logs(run.table.commits_above(0))]
    closed = run.ledger.closed_runs() if unknown - {*in_log} else ()
    in_history = [v.planned.topic_id for r in closed if r.lane == "live" for v in r.verified]
    found = [*dict.fromkeys(i for i in in_history if i not in in_log), *dict.fromkeys(in_log)]
    missing = sorted(unknown - {*found})
    if missing and (len(unknown) > 1 or order.ids):
        raise Halted(
            f"stream {run.stream.stream}: nobody knows when topic id {first_few(missing)} of topic"
            f" {topic} was followed: the ledger's head does not list it, and neither the log of"
            f" {run.stream.table.uri} nor the ledger's history has a run that landed it. Records of"
            " a key in two incarnations of the topic have no order then. Nothing was changed. Next:"
            " put back a copy of the ledger that has landed them"
        )
    return replace(state, head=head.having_learned(topic, [*missing, *found]))


def learn_incarnations(run: RunContext) -> LedgerState:
    """Store what `with_incarnations` finds; nothing is read where the head knows all of them.

    Returns:
        The ledger, which knows them.

    Raises:
        Halted, ServiceAway: As there.
    """
    state = run.ledger.read()
    learned = with_incarnations(run, state).head.incarnations
    if learned == state.head.incarnations:
        return state
    return run.ledger.update(lambda s: s.with_head(replace(s.head, incarnations=learned)))
