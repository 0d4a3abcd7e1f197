"""Tables at addresses that the stream file no longer names: what was written there is there still.

The ledger's plans name every address that was ever written to, so they are the list: it moves with
the ledger, and ledgers of earlier versions have it.
"""

from __future__ import annotations

from tideline.errors import TidelineError
from tideline.landing.context import RunContext
from tideline.model.erasures import untold_text
from tideline.model.maintenance import TableRole
from tideline.model.observation import TableObservation
from tideline.model.table_features import table_refusals
from tideline.stream.stream import tables_of
from tideline.table.table_port import MaintainedTablePort

Former = tuple[tuple[TableRole, MaintainedTablePort], ...]


def former_addresses(run: RunContext) -> tuple[tuple[TableRole, str], ...]:
    """Where plans have written, and none of today's tables is; oldest first; read once a run."""
    if run.former is None:
        run.former = _addresses(run)
    return run.former


def _addresses(run: RunContext) -> tuple[tuple[TableRole, str], ...]:
    ledger, state = run.ledger, run.ledger.read()
    runs = (*ledger.closed_runs(), *state.runs.values())
    decodings = (*ledger.decode_closings(), *([d] if (d := state.decoding.open) else []))
    folds = (*ledger.fold_closings(), *([f] if (f := state.folding.open) else []))
    named: list[tuple[TableRole, str]] = [("raw", r.plan.table_uri) for r in runs if r.plan]
    for plan in (d.plan for d in decodings):
        of_plan = ((uri, plan.quarantine_uri) for uri in plan.tables.values())
        for decoded, quarantine in (*plan.left_at, *of_plan):
            named += [("decoded", decoded), ("quarantine", quarantine)]
    named += [("current", f.plan.table_uri) for f in folds]
    today = {_bare(uri) for uri in tables_of(run.stream).values()}
    every = {_bare(uri): (role, uri) for role, uri in reversed(named) if uri}
    return tuple(every[uri] for uri in reversed(every) if uri not in today)


def _bare(uri: str) -> str:
    return uri.removeprefix("file://").rstrip("/")


def open_former(run: RunContext) -> tuple[Former, tuple[str, ...]]:
    """The tables there that can be written to, and why each of the others is left alone."""
    if not (addresses := former_addresses(run)):
        return (), ()
    typed = () if run.typed is None else run.typed.tables
    today = {t.observe().table_id for t in (run.table, *typed, run.current) if t is not None}
    found: list[tuple[TableRole, MaintainedTablePort]] = []
    left: list[str] = []
    for role, uri in addresses:
        try:
            table = run.open_table(role, uri) if run.open_table is not None else None
            seen = TableObservation(exists=False) if table is None else table.observe()
            why = _refused(run, seen)
        except TidelineError as error:
            why = error.message
        if why:
            left.append(f"the former {role} table at {uri}: {why}")
        elif table is not None and seen.table_id not in today:  # or it is another name of that
            found.append((role, table))
    return tuple(found), tuple(left)


def _refused(run: RunContext, seen: TableObservation) -> str:
    if not seen.exists:
        return "nothing is there any more; if it was moved, it is not reached"
    if wrong := seen.unreadable or "; ".join(r.why for r in table_refusals(seen)):
        return wrong
    if seen.ledger_id != run.ledger.read().control.ledger_id:
        return "the table there now is not this ledger's"
    return ""


def left_by_erasures(run: RunContext) -> tuple[str, ...]:
    """What keeps erasures from being through, for an audit; nothing is read if none ever was."""
    state = run.ledger.read()
    if not state.erasing.erased:
        return ()
    found = [untold_text(name) for name in state.erasing.untold]
    every = state.erasing.erased.ranges(state.head.topic_names)
    for role, table in () if state.erasing.is_removing else open_former(run)[0]:
        version = table.observe().version
        held = table.landed(every, version) if version is not None else {}
        if rows := sum(part.rows for part in held.values()):
            found.append(
                f"{rows} erased rows are still in {table.uri}, the former {role} table: run"
                " tideline erase FILE"
            )
    return tuple(found)
