"""`tideline`: its arguments, its exit status, and the function behind each command."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from inspect import getdoc
from pathlib import Path
from typing import Any, TextIO

from tideline import __version__
from tideline.cli import doctor as doctors
from tideline.cli import erasing, fleets, reading, starting, tables, validating, writing
from tideline.cli.helping import show_entries, whole_help
from tideline.cli.output import Output
from tideline.errors import TidelineError
from tideline.model.addresses import STORES
from tideline.model.wording import did_you_mean, not_among, shown
from tideline.stream.files import file_in
from tideline.waits import tell_waits

Answer = Callable[[argparse.Namespace, Output], int]
"""Executes a command; returns the exit status."""
AddCommand = Callable[[str, Answer, str], argparse.ArgumentParser]
"""Adds a command: its name, its function, what it does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status, as `errors.py` has them."""
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may come next
        import argcomplete

        argcomplete.autocomplete(parser)
    options, others = parser.parse_known_args(arguments)
    if others:
        known = [name for name in options.parser._option_string_actions if name.startswith("--")]
        options.parser.error(f"arguments: {not_among(others[0].partition('=')[0], known)}")
    # As an exception, so that `with` and `finally` release leases and stop child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    tell_waits()
    output = Output(options.output == "json", _file_of(options))
    _log_to_stderr(options.verbose, output)
    try:
        if options.takes_stream and Path(options.file).is_dir():
            options.file = str(file_in(options.file, options.stream))
        status: int = options.answer(options, output)
        sys.stdout.flush()  # here, where a broken pipe is caught
    except TidelineError as error:
        output.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        output.tell(_INTERRUPTED)
        return 130
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        traceback.print_exc()
        output.error(TidelineError(f"a bug of Tideline: {type(error).__name__}: {error}"))
        return 1
    return status


_FILES = "stream files, fleet files, or folders of them; default: TIDELINE_STREAMS"
_FOR_WHOM = "the person you act for; kept beside your user name"
_INTERRUPTED = (
    "interrupted: no work is lost. A position moves only after its rows are in the table and have"
    " been counted. Run the same command again: it finishes what this command began"
)


class _Parser(argparse.ArgumentParser):
    """Says which word was meant, where one of a few was mistyped."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        text = not_among(str(value), action.choices)
        if isinstance(action, argparse._SubParsersAction):  # nobody reads seventeen names in a line
            near = did_you_mean(str(value), action.choices).rstrip(";")
            text = f"got {shown(str(value))}{near}\n`tideline --help` lists the commands"
        raise argparse.ArgumentError(action, text)

    def format_help(self) -> str:
        """Of the whole program, commands by what people do; of a command, as ever."""
        commands = [a for a in self._actions if isinstance(a, argparse._SubParsersAction)]
        if not commands:
            text: str = super().format_help()
            return text
        texts = {action.dest: str(action.help) for action in commands[0]._choices_actions}
        return whole_help(self.prog, str(self.description), texts)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="tideline",
        description="Copy Kafka topics into Delta tables in batches, and prove each batch.",
    )
    parser.add_argument("--version", action="version", version=f"tideline {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, answer: Answer, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=getdoc(answer))
        command.add_argument(
            "--output",
            choices=("table", "json"),
            default="table",
            help="the form of the answer; default: table",
        )
        text_of_json = "print one JSON object; the same as --output json"
        command.add_argument(
            "--json", dest="output", action="store_const", const="json", help=text_of_json
        )
        command.add_argument("--verbose", "-v", action="store_true", help="log more")
        command.set_defaults(answer=answer, parser=command, takes_stream=False)
        return command

    def add_for_stream(name: str, answer: Answer, text: str) -> argparse.ArgumentParser:
        command = add(name, answer, text)
        command.add_argument(
            "file", metavar="FILE", help="a stream file, a fleet file, or a folder of them"
        )
        text = "the stream, if FILE is a fleet file or a folder"
        command.add_argument("--stream", metavar="NAME", help=text)
        command.set_defaults(takes_stream=True)
        return command

    # `helping.GROUPS` has the order in which `tideline --help` lists them.
    init = add("init", starting.init, "ask the cluster for its topics and write a stream file")
    init.add_argument("file", metavar="FILE", help="the file to write, for example orders.yaml")
    init.add_argument(
        "--connection", default="kafka_default", metavar="ID", help="the Kafka connection"
    )
    init.add_argument(
        "--topic", dest="topics", action="append", metavar="T", help="a topic; may be repeated"
    )
    init.add_argument("--stream", metavar="NAME", help="default: the file's name")
    init.add_argument("--table", metavar="ADDRESS", help="default: lake/NAME beside the file")
    validate = add("validate", validating.validate, "check stream files")
    validate.add_argument("files", nargs="*", metavar="FILE", help=_FILES)
    text = "also ask brokers, registry and ledger"
    validate.add_argument("--online", action="store_true", help=text)
    compare = add("diff", validating.diff, "say what an edit of a live stream's file changes")
    compare.add_argument("old", metavar="OLD")
    compare.add_argument("new", metavar="NEW")
    compare.add_argument("--stream", metavar="NAME", help="with fleet files: the stream to compare")
    _add_run_commands(add_for_stream)
    look = add("discover", fleets.discover_topics, "find the topics of a fleet")
    look.add_argument("file", metavar="FILE")
    text = "write the list of topics again if it was lost; deleted topics are not in it"
    look.add_argument("--new-list", action="store_true", help=text)
    text = "check every service that streams need; say what is wrong and how to fix it"
    asked = add("doctor", doctors.doctor, text)
    asked.add_argument("files", nargs="*", metavar="FILE", help=_FILES)
    status = add(
        "status", reading.status, "show one line for each stream: lag, headroom, incidents"
    )
    status.add_argument("files", nargs="*", metavar="FILE", help=_FILES)
    _add_record_commands(add_for_stream)
    _add_decision_commands(add_for_stream)
    audit = add_for_stream("audit", reading.audit, "compare ledger, table and broker")
    text = "also read all rows of N buckets of the current table, other buckets each day"
    audit.add_argument("--buckets", type=int, default=0, metavar="N", help=text)
    _add_operation_commands(add_for_stream)
    fetch = add("fetch", starting.fetch, "download the jars that Spark needs, once")
    text = "also jars for tables in this kind of store; may be repeated"
    kinds = tuple(dict.fromkeys(STORES.values()))
    fetch.add_argument("--for", dest="stores", action="append", choices=kinds, help=text)
    text = "the same as --for s3a"
    fetch.add_argument("--s3a", dest="stores", action="append_const", const="s3a", help=text)
    text = "copy the jars into this folder, for TIDELINE_SPARK_JARS"
    fetch.add_argument("--into", metavar="FOLDER", help=text)
    text = "explain an incident or an error, and what to do"
    entry = commands.add_parser("help", help=text, description=getdoc(show_entries))
    entry.add_argument("names", nargs="*", metavar="NAME", help="for example retention_loss")
    defaults: dict[str, Any] = {"output": "table", "verbose": False, "takes_stream": False}
    entry.set_defaults(answer=show_entries, parser=entry, **defaults)
    add("demo", starting.demo, "land sample events with a real broker, Airflow and Spark")
    return parser


def _add_run_commands(add: AddCommand) -> None:
    plan = add("plan", writing.plan, "show what a run would read; store nothing")
    _add_request(plan)
    run = add("run", writing.run, "land what is new, in one run")
    run.add_argument("--run-id", help="the run's id; the id of an earlier run replays its plan")
    text = "with a fleet file: land N topics at once; default: its `threads`"
    run.add_argument("--parallel", type=int, metavar="N", help=text)
    _add_request(run)
    decode = add("decode", tables.decode, "decode the landed rows that are not decoded yet")
    decode.add_argument(
        "--run-id", help="the run's id; the id of an earlier run decodes its plan again"
    )
    text = "decode all records again, and say how many rows have changed"
    decode.add_argument("--again", action="store_true", help=text)
    decode.add_argument(
        "--since", metavar="T", help="with --again: only records at or after this time"
    )
    fold = add("fold", tables.fold, "update the current table from the decoded rows")
    fold.add_argument(
        "--run-id", help="the run's id; the id of an earlier run folds its changes again"
    )
    text = "write nothing: compute every bucket again, and compare it with the table"
    either = fold.add_mutually_exclusive_group()
    either.add_argument("--check", action="store_true", help=text)
    text = "with --check: only N buckets, other buckets each day"
    fold.add_argument("--buckets", type=int, metavar="N", help=text)
    text = "rebuild every bucket from all decoded rows; ignore what the table holds"
    either.add_argument("--anew", action="store_true", help=text)
    text = "list rows that a newer snapshot no longer contains, then delete them"
    sweep = add("sweep", tables.sweep, text)
    text = "delete the N rows that were listed; without this option nothing is changed"
    sweep.add_argument("--rows", type=int, metavar="N", help=text)
    current = add(
        "current", tables.current_view, "print SQL that returns the latest row of each key"
    )
    current.add_argument(
        "--sql", required=True, choices=("spark", "duckdb", "trino"), help="the SQL dialect"
    )
    text = "print SQL that returns every version of each row, with valid_from and valid_to"
    current.add_argument("--history", action="store_true", help=text)
    text = "the names of the current table and the typed table in the engine; required by trino"
    current.add_argument("--names", nargs=2, metavar=("CURRENT", "TYPED"), help=text)
    redrive = add("redrive", tables.redrive, "decode quarantined records again")
    redrive.add_argument(
        "--class",
        dest="classes",
        action="append",
        metavar="C",
        help="only this error class; may be repeated",
    )
    redrive.add_argument("--since", metavar="T", help="only records at or after this time")
    redrive.add_argument("--run-id", help="the run's id")


def _add_record_commands(add: AddCommand) -> None:
    explain = add("explain", reading.explain_record, "say what happened to one record")
    explain.add_argument("topic", nargs="?", metavar="TOPIC")
    explain.add_argument("partition", nargs="?", type=int, metavar="PARTITION")
    explain.add_argument("offset", nargs="?", type=int, metavar="OFFSET")
    text = "instead of a record: show a key's row in the current table, and its changes; repeat the"
    text += " option for each column of the key; a column without = is null"
    explain.add_argument("--key", action="append", metavar="COLUMN[=VALUE]", help=text)
    add("ledger", reading.ledger, "show positions, plans, coverage, incidents and rewinds")


def _add_decision_commands(add: AddCommand) -> None:
    text = "show open incidents: what was found, what is at stake, what you can do"
    incident = add("incident", reading.incident, text)
    incident.add_argument("id", nargs="?", metavar="ID")
    resolve = add("resolve", reading.resolve, "decide about an incident")
    resolve.add_argument("--incident", required=True, metavar="ID")
    text = (
        "also decide all open incidents of the same topic and class; N is their number, so that no"
    )
    text += " incident is decided that you have not seen"
    resolve.add_argument("--all", type=int, metavar="N", help=text)
    resolve.add_argument("--choice", required=True, metavar="CHOICE")
    resolve.add_argument(
        "--reason", required=True, metavar="TEXT", help="the reason; kept in the ledger"
    )
    resolve.add_argument("--by", metavar="NAME", help=_FOR_WHOM)


def _add_operation_commands(add: AddCommand) -> None:
    text = "restore table and ledger to the state after a run"
    rewind = add("rewind", writing.rewind, text)
    rewind.add_argument("--to-run", required=True, metavar="ID", help="the last run to keep")
    rewind.add_argument(
        "--reason", required=True, metavar="TEXT", help="the reason; kept in the ledger"
    )
    rewind.add_argument(
        "--accept-loss",
        action="store_true",
        help="rewind even if Kafka no longer has some of the rows",
    )
    rewind.add_argument("--by", metavar="NAME", help=_FOR_WHOM)
    text = "merge small files of the stream's tables, and delete old files"
    maintain = add("maintain", writing.maintain, text)
    maintain.add_argument("--dry-run", action="store_true", help="only say what would happen")
    _add_erase_commands(add)
    move = add("move-ledger", writing.move, "move the ledger, or finish an interrupted move")
    where = ("delta", "airflow")
    move.add_argument("--to", required=True, choices=where, help="beside the table, or a database")
    move.add_argument(
        "--at",
        metavar="ADDRESS",
        help="the table's address or the connection's id; default: the one in FILE",
    )
    move.add_argument(
        "--connection",
        metavar="ID",
        help="Airflow connection for an address in an object store, if FILE names none",
    )


def _add_erase_commands(add: AddCommand) -> None:
    text = "erase the records of keys from every table; without a key: finish what is left"
    erase = add("erase", erasing.erase, text)
    text = "a column of the typed table and its value; may be repeated for more keys"
    erase.add_argument("--key", action="append", default=[], metavar="COLUMN=VALUE", help=text)
    text = "the raw Kafka key, as text or as 0x and hexadecimal digits; may be repeated"
    erase.add_argument("--raw-key", action="append", default=[], metavar="KEY", help=text)
    text = "a CSV file with one key per line; the first line names the columns"
    erase.add_argument("--keys-from", metavar="PATH", help=text)
    erase.add_argument(
        "--reason", metavar="TEXT", help="the reason, without the key itself; kept in the ledger"
    )
    erase.add_argument("--plan", action="store_true", help="only say what would happen")
    text = "also refuse later records of the keys"
    erase.add_argument("--future", action="store_true", help=text)
    text = "delete files of older versions at once: time travel ends, and their readers fail"
    erase.add_argument("--now", action="store_true", help=text)
    text = "do not ask for confirmation of --now"
    erase.add_argument("--yes", action="store_true", help=text)
    text = (
        "also erase records whose bytes contain a key but have no column for it, as in quarantine"
    )
    erase.add_argument("--quarantine-by-bytes", action="store_true", help=text)
    text = "erase all changes of keys whose current row would otherwise be an older row"
    erase.add_argument("--whole-keys", action="store_true", help=text)
    text = "an erasure of which only the coordinates are known: the given keys are all of its keys"
    erase.add_argument("--settles", action="append", default=[], metavar="ID", help=text)
    text = "the largest share of all rows that may be erased; default: 0.01"
    erase.add_argument("--most", type=float, default=0.01, metavar="SHARE", help=text)
    erase.add_argument("--by", metavar="NAME", help=_FOR_WHOM)
    listed = add("erasures", erasing.erasures, "list erasures, or print a report about one erasure")
    listed.add_argument("id", nargs="?", metavar="ID")


def _add_request(command: argparse.ArgumentParser) -> None:
    """Add the options that make a run a backfill."""
    text = "backfill records written {} this time: ISO 8601 with an offset from UTC"
    start, end = text.format("at or after"), text.format("before")
    command.add_argument("--from", dest="window_start", metavar="T", help=start)
    command.add_argument("--to", dest="window_end", metavar="T", help=end)
    command.add_argument(
        "--ranges",
        metavar="JSON",
        help="backfill [{topic, partition, start_offset, end_offset}]; end_offset is exclusive",
    )


def _file_of(options: argparse.Namespace) -> str | None:
    """The file that a command is about, as a further command names it; None if it is about more."""
    files = [options.file] if options.takes_stream else getattr(options, "files", [])
    if len(files) != 1:
        return None
    stream = getattr(options, "stream", None)
    return shlex.quote(files[0]) + (f" --stream {shlex.quote(stream)}" if stream else "")


class _ToStderr(logging.StreamHandler[TextIO]):
    """To standard error as it is now: what shows progress there puts lines above its own."""

    output = Output(False)

    def format(self, record: logging.LogRecord) -> str:
        """The record's text; its commands name the file."""
        return self.output.filled(super().format(record))

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        """It stays what it is."""


def _log_to_stderr(verbose: bool, output: Output) -> None:
    _ToStderr.output = output
    logging.basicConfig(handlers=[_ToStderr()], level=logging.WARNING, format="%(message)s")
    logging.getLogger("tideline").setLevel(logging.DEBUG if verbose else logging.INFO)
