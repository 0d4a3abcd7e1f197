"""The page's API, version 1, and who may see what: Airflow's own rights, asked with each request.

Every route is a GET, and changes nothing. A new one belongs to one of the two routers: `everybody`,
for whoever is logged in, or `readers`, whose paths name a stream whose Dag the caller may read. A
test builds the table of routes from the application, and fails for one that asks for neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Literal, TypeVar

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from fastapi import APIRouter, Depends, Path, Query, Request

from tideline.contract import page
from tideline.contract.answers import Explained
from tideline.contract.building import build_incident
from tideline.errors import BadInput
from tideline.ledger.ledger import Ledger
from tideline.model.offsets import TopicPartition
from tideline.model.run import RunRecord
from tideline.model.status import Explanation
from tideline.page import page_answers
from tideline.page.bands import StreamView, lag_spread
from tideline.page.pace import MOST_RUNS, build_pace
from tideline.page.sources import PATIENCE_SECONDS, Sources, not_answered
from tideline.rules.stream_state import explain_offset
from tideline.table.scans import rows_at
from tideline.wiring import open_tables

LOGGED_IN = Depends(get_user)
"""Somebody whom Airflow knows; 401 otherwise."""


def _may_read(request: Request, user: GetUserDep) -> None:
    dag_id = _sources(request).dag_of(request.path_params["stream"])
    requires_access_dag("GET", param_dag_id=dag_id)(request, user)


MAY_READ = Depends(_may_read)
"""Whoever may read the Dag that lands the stream which the path names; 401 or 403 otherwise."""


def _readable(user: GetUserDep) -> set[str]:
    return get_auth_manager().get_authorized_dag_ids(user=user, method="GET")


Readable = Annotated[set[str], Depends(_readable)]
"""Ids of the Dags that the caller may read."""
Answer = TypeVar("Answer")
everybody = APIRouter(prefix="/api/v1", dependencies=[LOGGED_IN])
readers = APIRouter(prefix="/api/v1/streams/{stream}", dependencies=[MAY_READ])

StreamName = Annotated[str, Path(description="The stream's name.")]
_MOST_RUNS = 2_000
"""So many closed runs are looked through for a record, the newest: a history has any number."""
Count = Annotated[int, Query(ge=1, le=500, description="At most so many.")]
Sort = Annotated[
    Literal["lag", "headroom", "partition"],
    Query(description="The largest lag first, the least headroom, or by topic and number."),
]


@everybody.get("/streams")
def streams(request: Request, readable: Readable) -> page.StreamList:
    """All streams that the caller may read, at a glance."""
    sources = _sources(request)
    return page_answers.build_list(sources.views(sources.readable(readable)))


@readers.get("")
def one_stream(request: Request, stream: StreamName) -> page.StreamPage:
    """One stream: its state, its open incidents, and what can be done."""
    return page_answers.build_stream(_view(request, stream))


@readers.get("/partitions")
def partitions(
    request: Request,
    stream: StreamName,
    sort: Sort = "lag",
    first: Annotated[int, Query(ge=0, description="How many to leave out.")] = 0,
    count: Count = 50,
    topic: Annotated[str | None, Query(description="Only this topic's.")] = None,
) -> page.PartitionPage:
    """Some of a stream's partitions, with what became of their offsets."""
    view = _view(request, stream)
    return page_answers.build_partitions(view, sort=sort, first=first, count=count, topic=topic)


@readers.get("/runs")
async def runs(request: Request, stream: StreamName, count: Count = 50) -> page.RunPage:
    """The newest runs of which the ledger has a record: the open ones, then the closed ones."""
    file = (await asyncio.to_thread(_view, request, stream)).file

    def newest(ledger: Ledger) -> page.RunPage:
        closed = list(islice(ledger.recent_runs(), count + 1))  # one more tells whether there is
        state = ledger.read()
        still_open = list(state.runs.values())[::-1]
        opened = {record.run_id for record in still_open}
        ended = [record for record in closed if record.run_id not in opened]
        # Of two that were closed together, the later one has finished the other's plan.
        ended.sort(key=lambda r: (r.updated_at, r.begun_at or r.updated_at), reverse=True)
        found = [*still_open, *ended]
        return page.RunPage(
            runs=[page_answers.build_page_run(file, r, state) for r in found[:count]],
            more=len(found) > count,
        )

    return await _from_history(request, stream, newest, "runs", count)


@readers.get("/pace")
async def pace(request: Request, stream: StreamName) -> page.Pace:
    """Lag and duration of the last day's runs by hour, and when the stream will have caught up."""
    facts = (await asyncio.to_thread(_view, request, stream)).facts

    def newest(ledger: Ledger) -> list[RunRecord]:
        return list(islice(ledger.recent_runs(), MOST_RUNS))

    records = await _from_history(request, stream, newest, "pace", None)
    spread = None if facts is None else lag_spread(s.lag for s in facts.partitions)
    return build_pace(records, None if spread is None else spread[0], datetime.now(UTC))


@readers.get("/quarantine")
async def quarantine(request: Request, stream: StreamName) -> page.Quarantine:
    """Rows of the quarantine by error class, with some of each; none without typed tables."""
    typed = (await asyncio.to_thread(_view, request, stream)).stream

    def held(_: Ledger) -> page.Quarantine:
        if typed.decode is None:
            return page_answers.build_quarantine(())
        rows = rows_at(open_tables(typed)["quarantine"], None, page_answers.QUARANTINED)
        return page_answers.build_quarantine(rows)

    return await _from_history(request, stream, held, "quarantine", None)


@readers.get("/incidents")
async def incidents(request: Request, stream: StreamName, count: Count = 50) -> page.IncidentPage:
    """The open incidents, then the newest closed ones."""

    def newest(ledger: Ledger) -> page.IncidentPage:
        closed = islice(ledger.recent_incidents(), count + 1)
        found = [*ledger.read().open_incidents, *closed]
        return page.IncidentPage(
            incidents=[build_incident(i) for i in found[:count]], more=len(found) > count
        )

    return await _from_history(request, stream, newest, "incidents", count)


@readers.get("/records/{topic}/{partition}/{offset}")
async def record(
    request: Request,
    stream: StreamName,
    topic: Annotated[str, Path(max_length=249)],
    partition: Annotated[int, Path(ge=0, lt=2**31)],
    offset: Annotated[int, Path(ge=0, lt=2**63)],
) -> Explained:
    """What became of one record."""

    def explained(ledger: Ledger) -> Explanation:
        state = ledger.read()
        return explain_offset(
            TopicPartition(topic, partition),
            offset,
            state.head,
            state.runs.values(),
            state.open_incidents,
            state.decoding,
            ledger.recent_runs(),
            islice(ledger.recent_incidents(), _MOST_RUNS),
            state.erasing,
            _MOST_RUNS,
            state.control.rewind,
        )

    asked = (topic, partition, offset)
    return Explained.of(await _from_history(request, stream, explained, "record", asked))


def _sources(request: Request) -> Sources:
    found: Sources = request.app.state.sources
    return found


def _view(request: Request, name: str) -> StreamView:
    view = _sources(request).view(name)
    if view is None:
        raise _unknown(name)
    return view


async def _from_history(
    request: Request, name: str, question: Callable[[Ledger], Answer], kind: str, what: Hashable
) -> Answer:
    """A ledger's answer, if it comes in time; the server goes on with other requests.

    Args:
        kind, what: As of `Sources.ask`.

    Raises:
        BadInput: There is no such stream.
        ServiceAway: It did not come in time, or the ledger does not answer.
    """
    sources = _sources(request)
    if name not in await asyncio.to_thread(sources.names):
        raise _unknown(name)
    clock = asyncio.get_running_loop().time
    end, is_mine = clock() + PATIENCE_SECONDS, False
    while not is_mine:
        asked, is_mine = sources.ask(name, question, kind, what)
        await asyncio.wait([asyncio.wrap_future(asked)], timeout=end - clock())
        if not asked.done() and is_mine:
            sources.give_up(name, asked)
        if not asked.done() or asked.cancelled():
            raise not_answered(name)
    return asked.result()


def _unknown(name: str) -> BadInput:
    return BadInput(f"no stream file is named {name}, or it is refused: its Dag says why")
