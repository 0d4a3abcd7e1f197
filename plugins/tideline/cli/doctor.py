"""`tideline doctor`: each service that streams need, asked once, with what it says and a cure.

Nothing is changed, but for an object that is put beside a table's log and taken away again, or a
file in its folder: only a trial shows whether a place can be written to.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from threading import Thread
from time import monotonic

from tideline.catalog.catalog_port import SchemaMissing, client_message
from tideline.cli.output import CommandOutput
from tideline.connections import find_connection
from tideline.contract.answers import Diagnosis, DiagnosisLine
from tideline.decoding.decode_rules import TypedTable, reasons_not_to_touch
from tideline.errors import BadInput, ServiceAway, StreamFileError, TidelineError
from tideline.kafka.kafka_settings import SHORT_PATIENCE, kafka_settings
from tideline.landing.context import RunContext, now
from tideline.landing.proof import foreign_changes
from tideline.launch.jars import spark_jars
from tideline.launch.java import find_java
from tideline.launch.target import connect_url, spark_master
from tideline.ledger.state import LedgerState
from tideline.model.addresses import bucket_of, is_in_object_store, store_of
from tideline.model.catalog import TableName
from tideline.model.decoding import QUARANTINE
from tideline.model.erasures import untold_text
from tideline.model.incident import entries_for, has_entry, help_on
from tideline.model.maintenance import role_of
from tideline.model.observation import Observation, TableObservation
from tideline.model.offsets import OffsetRange, TopicPartition
from tideline.model.request import RunRequest
from tideline.model.table_features import table_refusals
from tideline.model.wording import duration_text, first_few, how_many, system_message
from tideline.operations.former_tables import former_addresses
from tideline.registry.registry_port import RegistryPort, SchemaUnreadable
from tideline.rules.catalog_names import misnamed
from tideline.store.probe import refuse_unconditional_puts
from tideline.stream.contents import FileContents
from tideline.stream.files import contents_in, files_in
from tideline.stream.stream import Stream, tables_of
from tideline.waits import waiting
from tideline.wiring import find_store, open_ledger, open_run, store_options

_MOST_SECONDS = 15.0
"""For all that a catalog or a registry is asked."""
_PACKAGES = ("tideline", "apache-airflow", "pyspark", "deltalake", "kafka-python")
_SHOWN = 5


class Warned(Exception):
    """Something that a run can live with, for now."""


@dataclass(frozen=True, slots=True)
class _Line:
    stream: str | None
    what: str
    place: str
    state: str
    text: str
    seconds: float
    error: TidelineError | None = None

    @property
    def runbook(self) -> tuple[str, ...]:
        return () if self.error is None else entries_for(self.error)


def doctor(options: argparse.Namespace, output: CommandOutput) -> int:
    """Check every service that streams need, and say what is wrong and how to fix it.

    The command checks brokers, topics and the right to read them, the registry, the object store
    (can two writers create the same object?), ledger, tables, Java, Spark's jars and versions. It
    asks once what several streams share. It does not start Spark.
    """
    files = {str(file): contents_in(file) for file in files_in(options.files)}
    streams = [stream for contents in files.values() for stream in contents.streams]
    if not streams:
        raise BadInput(
            "no stream: name a stream file, or run `tideline discover` for a fleet file first"
        )
    asked = _Doctor()
    lines = []
    for line in chain(_of_files(files), asked.lines(streams)):
        lines.append(line)
        output.line(_shown(line))
    wrong = [line for line in lines if line.state == "failed"]
    warned = [line for line in lines if line.state == "warning"]
    of_streams = f"{how_many(len(lines), 'check')} of {how_many(len(streams), 'stream')}"
    summary = f"{of_streams}: {len(wrong)} failed, {how_many(len(warned), 'warning')}"
    checks = [DiagnosisLine.of(line, seconds=round(line.seconds, 3)) for line in lines]
    output.answer(Diagnosis(healthy=not wrong, checks=checks), summary)
    return min((line.error.exit_code for line in wrong if line.error is not None), default=0)


def _of_files(files: Mapping[str, FileContents]) -> Iterator[_Line]:
    """What no service can say: topics of fleets that no stream lands, or that nobody knows yet."""
    for file, contents in files.items():
        for problem in contents.problems:
            error = StreamFileError(str(problem))
            yield _Line(None, "topic without a stream", file, "failed", str(problem), 0, error)
        if not contents.is_discovered:
            text = "no topic is known yet: tideline discover finds them"
            yield _Line(None, "topics", file, "warning", text, 0)


def _shown(line: _Line) -> str:
    where = f"{line.stream}: " if line.stream is not None else ""
    mark = {"ok": "ok     ", "warning": "WARNING", "failed": "FAILED "}[line.state]
    text = f"{mark} {where}{line.what} {line.place}: {line.text} ({duration_text(line.seconds)})"
    if line.error is None or not has_entry(line.error):
        return text
    return f"{text}\n        runbook: {help_on(*line.runbook)}"


class _Doctor:
    """Asks; what was asked for one stream is not asked for another."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self._silent: set[str] = set()

    def lines(self, streams: list[Stream]) -> Iterator[_Line]:
        """A line for each question, in the order in which a run would ask."""
        yield from self._once("versions", f"Python {platform.python_version()}", _versions)
        for stream in streams:
            spark = stream.spark.connection
            yield from self._once("spark", spark, partial(_spark, stream))
            for uri in tables_of(stream).values():
                yield from self._once("store", _place(uri), partial(_store, stream, uri))
            location = str(stream.ledger_location)
            yield self._ask(stream, "ledger", location, partial(_ledger, stream))
            yield from self._stream(stream)

    def _stream(self, stream: Stream) -> Iterator[_Line]:
        """What needs the stream's connections; a cluster that is silent is asked once."""
        cluster = stream.kafka.connection
        if cluster in self._silent:
            return
        try:
            kafka_settings(cluster)
        except TidelineError as error:
            yield _Line(stream.stream, "kafka", cluster, "failed", error.message, 0.0, error)
            return
        try:
            with open_run(stream, "doctor", RunRequest(), patience_seconds=SHORT_PATIENCE) as run:
                line = self._ask(stream, "kafka", cluster, partial(_kafka, run))
                if isinstance(line.error, ServiceAway):
                    self._silent.add(cluster)
                yield line
                for role, uri in tables_of(stream).items():
                    yield self._ask(stream, f"{role} table", uri, partial(_table, run, role))
                with suppress(TidelineError):  # the ledger's own line has told it
                    for role, uri in former_addresses(run):
                        yield self._ask(stream, f"former {role} table", uri, _former)
                if stream.catalog is not None:
                    place = f"{stream.catalog.connection} {stream.catalog.name}"
                    yield self._ask(stream, "catalog", place, _bounded(partial(_catalog, run)))
                if stream.registry is not None:
                    place = stream.registry.connection
                    yield self._ask(stream, "registry", place, _bounded(partial(_registry, run)))
        except TidelineError as error:  # of its object store
            place = str(stream.table.connection)
            yield _Line(stream.stream, "connection", place, "failed", error.message, 0.0, error)

    def _once(self, what: str, place: str, ask: Callable[[], str]) -> Iterator[_Line]:
        if (what, place) not in self._known:
            self._known.add((what, place))
            yield self._ask(None, what, place, ask)

    def _ask(self, stream: Stream | None, what: str, place: str, ask: Callable[[], str]) -> _Line:
        name, began = None if stream is None else stream.stream, monotonic()
        try:
            with waiting(f"{what} {place}"):
                text, state, error = ask(), "ok", None
        except Warned as warning:
            text, state, error = str(warning), "warning", None
        except TidelineError as found:
            text, state, error = found.message, "failed", found
        return _Line(name, what, place, state, text, monotonic() - began, error)


def _bounded(ask: Callable[[], str]) -> Callable[[], str]:
    """The same question, given up after a while: a server may drip, which no client limits."""

    def bounded() -> str:
        answer = Future[str]()

        def work() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:
                answer.set_exception(error)

        Thread(target=work, daemon=True).start()
        try:
            return answer.result(_MOST_SECONDS)
        except TimeoutError as error:
            raise ServiceAway(f"no whole answer within {_MOST_SECONDS:.0f} s") from error

    return bounded


def _versions() -> str:
    found = []
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} is not installed")
    return ", ".join(found)


def _spark(stream: Stream) -> str:
    """Java, the jars and which Spark; nothing is started."""
    connection = find_connection(stream.spark.connection)
    if connection is not None and connect_url(stream.spark.connection, connection) is not None:
        return "a Spark Connect server, which was not asked"
    master = spark_master(stream.spark.connection, connection)
    java = find_java()
    addresses = stream.store_addresses
    jars = spark_jars(store_of(addresses[0]) if addresses else None)
    return f"{master}, Java {java.home}, {how_many(len(jars), 'jar')}; Spark was not started"


def _place(uri: str) -> str:
    """What is tried once: a bucket, or the folder that tables are in."""
    if is_in_object_store(uri):
        return f"{uri.partition('://')[0]}://{bucket_of(uri)[0]}"
    return str(Path(uri.removeprefix("file://")).parent)


def _store(stream: Stream, uri: str) -> str:
    if is_in_object_store(uri):
        refuse_unconditional_puts(uri, store_options(uri, find_store(stream)))
        return "an object can be created once, and not twice"
    folder = Path(uri.removeprefix("file://")).parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tideline-"):
            pass
    except OSError as error:
        raise BadInput(
            f"{folder} cannot be written to by user {os.geteuid()}: {system_message(error)}; grant"
            " that user the right, or name another folder"
        ) from error
    return f"{folder} can be written to"


def _ledger(stream: Stream) -> str:
    state = open_ledger(stream).read()
    if state.version < 0:
        return "does not exist yet: the first run creates it"
    if (rewind := state.control.rewind) is not None:
        raise Warned(rewind.under_way)
    if state.open_incidents:
        kinds = first_few(i.finding.kind for i in state.open_incidents)
        raise Warned(
            f"version {state.version}, open incidents: {kinds}; `tideline incident` shows them"
        )
    if late := [e for e in state.erasing.open if e.is_overdue(now())]:
        raise Warned(f"{first_few(late, separator='; ')}: tideline erase FILE goes on with it")
    if state.erasing.untold:
        raise Warned(first_few(map(untold_text, state.erasing.untold), separator="; "))
    return f"version {state.version}, {how_many(len(state.head.positions), 'partition')}"


def _kafka(run: RunContext) -> str:
    """Every topic is described, and a record of each is read."""
    kafka = run.stream.kafka
    names = list(kafka.topics)
    if kafka.topic_pattern is not None:
        names = run.kafka.topics_matching(kafka.topic_pattern)
    observation = run.kafka.observe(names, {})
    wrong = [
        f"{t.topic}: {t.refusal or t.fault}" for t in observation.topics if t.refusal or t.fault
    ]
    absent = [t.topic for t in observation.topics if t.is_absent]
    if wrong or absent:
        text = first_few([*wrong, *(f"{name}: not there, or hidden" for name in absent)], _SHOWN)
        raise BadInput(f"{text}. Grant the connection's user Describe and Read on each topic")
    read = _first_records(observation)
    run.kafka.examine(read, kafka.isolation_level)
    count = sum(len(topic.partitions) for topic in observation.topics)
    return (
        f"cluster {observation.cluster_id}, {how_many(len(names), 'topic')} with"
        f" {how_many(count, 'partition')}, read from {len(read):,} of them"
    )


def _first_records(observation: Observation) -> dict[TopicPartition, tuple[OffsetRange, ...]]:
    """The first offset of one partition with records of each topic."""
    found: dict[TopicPartition, tuple[OffsetRange, ...]] = {}
    for topic in observation.topics:
        for p in topic.partitions:
            start, end = p.log_start_offset, p.last_stable_offset
            if start is not None and end is not None and end > start:
                place = TopicPartition(topic.topic, p.partition)
                found[place] = (OffsetRange(start, start + 1),)
                break
    return found


def _table(run: RunContext, role: str) -> str:
    found: TableObservation = run.tables[role].observe()
    state = run.ledger.read()
    known = _known_tables(state).get(role)
    if not found.exists:
        if known:
            raise Warned(
                f"no table is there, and the ledger knows table {known}. If the stream file has a"
                " new address, the first run creates the table; else it is gone: tideline audit"
                " FILE says what is missing"
            )
        return "does not exist yet: the first run creates it"
    if reasons := list(table_refusals(found)):
        text = "; ".join(f"{r.name}: {r.why}. Cure: {r.remedy}" for r in reasons[:_SHOWN])
        raise BadInput(f"the table takes no plain data files: {text}")
    if role == "raw":
        wrong = [str(finding) for finding in foreign_changes(run, state)[1]]
    else:
        one = TypedTable(f"{role} table", tables_of(run.stream)[role], found)
        wrong = [*reasons_not_to_touch([one], run.stream.stream, state.control.ledger_id)]
    if wrong:
        raise BadInput(f"no run writes to it: {first_few(wrong, _SHOWN, '; ')}")
    if known not in (None, found.table_id):
        raise Warned(
            f"table {found.table_id}, and the ledger knows table {known}: tideline audit FILE says"
            " whether a run refuses it"
        )
    return f"version {found.version}"


def _known_tables(state: LedgerState) -> dict[str, str | None]:
    """Delta's ids of the tables that a ledger knows, by role."""
    found = {"raw": state.head.table_id, "current": state.folding.table_id}
    for name, table_id in state.decoding.known_tables.items():
        found[name if name == QUARANTINE else role_of(name)] = table_id
    return found


def _former() -> str:
    raise Warned(
        "the stream file no longer names this table: no run writes to it or maintains it; only"
        " tideline erase removes rows from it. Delete the table if nobody reads it"
    )


def _catalog(run: RunContext) -> str:
    section, connect = run.stream.catalog, run.connect_catalog
    assert section is not None
    assert connect is not None
    catalog, tables = connect(), tables_of(run.stream)
    try:
        found = {role: catalog.find(TableName.of(section.name_of(role))) for role in tables}
    except SchemaMissing as error:
        raise BadInput("there is no such schema; create it") from error
    except TidelineError:
        raise
    except Exception as error:  # of a client of somebody else's
        raise ServiceAway(client_message(error, catalog)) from error
    named = {role: entry for role, entry in found.items() if entry is not None}
    wrong = (misnamed(section.name_of(r), tables[r], entry) for r, entry in named.items())
    if texts := [text for _, text in filter(None, wrong)]:
        raise Warned(first_few(texts, _SHOWN, " "))
    if not named:
        return "no table has that name yet: the first run creates the entry"
    if lacking := [section.name_of(role) for role in found.keys() - named.keys()]:
        return f"no table is called {first_few(sorted(lacking))} yet; the other names are right"
    return f"{how_many(len(named), 'name')} as expected"


def _registry(run: RunContext) -> str:
    registry: RegistryPort | None = run.registry
    decode = run.stream.decode
    assert registry is not None
    named: list[str | None] = []
    if decode is not None:
        named = [decode.value.subject, decode.key.subject]
        named += [t.subject for t in decode.types if not t.ended]  # the others may be deleted
    subjects = [subject for subject in named if subject is not None and "*" not in subject]
    if not subjects:
        registry.subjects_of(1, "")
        return "the registry answers; the stream file names no subject"
    try:
        return ", ".join(str(registry.latest(subject)[0]) for subject in subjects)
    except SchemaUnreadable as error:
        raise Warned(f"the newest schema cannot be read: {error}") from None
