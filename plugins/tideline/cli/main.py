"""`tideline`: its arguments, its exit status, and the function behind each command."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from inspect import getdoc
from typing import Any, TextIO

from tideline import __version__
from tideline.cli import doctor as doctors
from tideline.cli import erasing, fleets, reading, starting, tables, validating, writing
from tideline.cli.helping import EXAMPLES, show_entries, whole_help
from tideline.cli.output import Output
from tideline.errors import TidelineError
from tideline.model.addresses import STORES
from tideline.model.wording import did_you_mean, not_among, shown

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
    _log_to_stderr(options.verbose)
    # As an exception, so that `with` and `finally` release leases and stop child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    output = Output(options.output == "json")
    try:
        status: int = options.answer(options, output)
        sys.stdout.flush()  # here, where a broken pipe is caught
    except TidelineError as error:
        output.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print(_INTERRUPTED, file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        traceback.print_exc()
        output.error(TidelineError(f"a bug of Tideline: {type(error).__name__}: {error}"))
        return 1
    return status


_INTERRUPTED = (
    "interrupted: nothing is half done. A position moves only after its rows are in the table and"
    " counted; the same command again finishes what this one has begun"
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
        description="Land Kafka topics in Delta tables, in bounded and verified batches.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"tideline {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, answer: Answer, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=getdoc(answer))
        command.add_argument(
            "--output", choices=("table", "json"), default="table", help="default: table"
        )
        text_of_json = "the same as --output json: print one JSON object"
        command.add_argument(
            "--json", dest="output", action="store_const", const="json", help=text_of_json
        )
        command.add_argument("--verbose", "-v", action="store_true", help="log more")
        command.set_defaults(answer=answer, parser=command)
        return command

    def add_for_stream(name: str, answer: Answer, text: str) -> argparse.ArgumentParser:
        command = add(name, answer, text)
        command.add_argument("file", metavar="FILE")
        text = "of a fleet file: which of its streams"
        command.add_argument("--stream", metavar="NAME", help=text)
        return command

    # `helping.GROUPS` has the order in which `tideline --help` lists them.
    init = add("init", starting.init, "write a stream file; ask the cluster for its topics")
    init.add_argument("file", metavar="FILE", help="to write, as in orders.yaml")
    init.add_argument("--connection", default="kafka_default", metavar="ID", help="of Kafka")
    init.add_argument(
        "--topic", dest="topics", action="append", metavar="T", help="may be repeated"
    )
    init.add_argument("--stream", metavar="NAME", help="default: the file's name")
    init.add_argument("--table", metavar="ADDRESS", help="default: lake/NAME beside the file")
    validate = add("validate", validating.validate, "check stream files")
    validate.add_argument("files", nargs="+", metavar="FILE")
    text = "ask brokers, registry and ledger as well"
    validate.add_argument("--online", action="store_true", help=text)
    compare = add("diff", validating.diff, "what an edit of a live stream's file does")
    compare.add_argument("old", metavar="OLD")
    compare.add_argument("new", metavar="NEW")
    compare.add_argument("--stream", metavar="NAME", help="of fleet files: which of the streams")
    _add_run_commands(add_for_stream)
    look = add("discover", fleets.discover_topics, "look for the topics of a fleet")
    look.add_argument("file", metavar="FILE")
    text = "make a list of topics that was lost anew: what is gone is not in it"
    look.add_argument("--new-list", action="store_true", help=text)
    text = "ask every service that streams need; say what is wrong and what cures it"
    asked = add("doctor", doctors.doctor, text)
    asked.add_argument("files", nargs="*", metavar="FILE", help="default: the streams' folder")
    status = add("status", reading.status, "one line for each stream: lag, headroom, incidents")
    status.add_argument("files", nargs="*", metavar="FILE", help="default: the streams' folder")
    _add_record_commands(add_for_stream)
    _add_decision_commands(add_for_stream)
    audit = add_for_stream("audit", reading.audit, "compare ledger, table and broker")
    text = "also all rows of N buckets of the current table, each day others in turn"
    audit.add_argument("--buckets", type=int, default=0, metavar="N", help=text)
    _add_operation_commands(add_for_stream)
    fetch = add("fetch", starting.fetch, "fetch the jars that Spark needs, once")
    text = "also those for tables in such a store; may be repeated"
    kinds = tuple(dict.fromkeys(STORES.values()))
    fetch.add_argument("--for", dest="stores", action="append", choices=kinds, help=text)
    text = "the same as --for s3a"
    fetch.add_argument("--s3a", dest="stores", action="append_const", const="s3a", help=text)
    text = "copy them into this folder, for TIDELINE_SPARK_JARS"
    fetch.add_argument("--into", metavar="FOLDER", help=text)
    text = "what an incident or an error means, and what to do"
    entry = commands.add_parser("help", help=text, description=getdoc(show_entries))
    entry.add_argument("names", nargs="*", metavar="NAME", help="as in retention_loss")
    entry.set_defaults(answer=show_entries, parser=entry, output="table", verbose=False)
    add("demo", starting.demo, "land sample events with a real broker, Airflow and Spark")
    return parser


def _add_run_commands(add: AddCommand) -> None:
    plan = add("plan", writing.plan, "plan and detect; persist nothing")
    _add_request(plan)
    run = add("run", writing.run, "execute one run through all steps")
    run.add_argument("--run-id", help="id of the run; the same id again replays its plan")
    text = "of a fleet file: land so many topics at once; default: its `threads`"
    run.add_argument("--parallel", type=int, metavar="N", help=text)
    _add_request(run)
    decode = add("decode", tables.decode, "decode what is landed and not decoded yet")
    decode.add_argument("--run-id", help="id of the run; the same id again decodes its plan again")
    text = "make the rows of decoded records anew; says how many rows are others now"
    decode.add_argument("--again", action="store_true", help=text)
    decode.add_argument(
        "--since", metavar="T", help="of --again: only records with this time or a later one"
    )
    fold = add("fold", tables.fold, "fold what is decoded into the current table")
    fold.add_argument("--run-id", help="id of the run; the same id again folds its changes again")
    text = "write nothing: fold all changes once more, and compare every bucket of the table"
    either = fold.add_mutually_exclusive_group()
    either.add_argument("--check", action="store_true", help=text)
    text = "of --check: only N buckets, each day others in turn"
    fold.add_argument("--buckets", type=int, metavar="N", help=text)
    text = "fold every bucket anew: what stands in the table counts for nothing"
    either.add_argument("--anew", action="store_true", help=text)
    text = "list rows that a newer snapshot no longer contains, then delete them"
    sweep = add("sweep", tables.sweep, text)
    text = "how many were listed; without it nothing is changed"
    sweep.add_argument("--rows", type=int, metavar="N", help=text)
    current = add(
        "current", tables.current_view, "print SQL that returns the latest row of each key"
    )
    current.add_argument(
        "--sql", required=True, choices=("spark", "duckdb", "trino"), help="whose SQL"
    )
    text = "each row of each time instead, with valid_from and valid_to"
    current.add_argument("--history", action="store_true", help=text)
    text = "what the engine calls the current table and the typed one; trino needs them"
    current.add_argument("--names", nargs=2, metavar=("CURRENT", "TYPED"), help=text)
    redrive = add("redrive", tables.redrive, "decode quarantined records again")
    redrive.add_argument(
        "--class",
        dest="classes",
        action="append",
        metavar="C",
        help="only this error class; may be given again",
    )
    redrive.add_argument("--since", metavar="T", help="only records with this time or a later one")
    redrive.add_argument("--run-id", help="id of the run")


def _add_record_commands(add: AddCommand) -> None:
    explain = add("explain", reading.explain_record, "what became of one record")
    explain.add_argument("topic", nargs="?", metavar="TOPIC")
    explain.add_argument("partition", nargs="?", type=int, metavar="PARTITION")
    explain.add_argument("offset", nargs="?", type=int, metavar="OFFSET")
    text = "in place of a record: a key's row in the current table, and its changes; of several"
    text += " columns, one each; a column alone, without =, is null"
    explain.add_argument("--key", action="append", metavar="COLUMN[=VALUE]", help=text)
    add("ledger", reading.ledger, "show head, plans, coverage, incidents and rewinds")


def _add_decision_commands(add: AddCommand) -> None:
    text = "show open incidents: what was found, what is at stake, what may be done"
    incident = add("incident", reading.incident, text)
    incident.add_argument("id", nargs="?", metavar="ID")
    resolve = add("resolve", reading.resolve, "decide about an incident")
    resolve.add_argument("--incident", required=True, metavar="ID")
    text = "and all open ones of its topic and class; N is how many they are together, so that none"
    text += " is decided that you have not seen"
    resolve.add_argument("--all", type=int, metavar="N", help=text)
    resolve.add_argument("--choice", required=True, metavar="CHOICE")
    resolve.add_argument("--reason", required=True, metavar="TEXT", help="why; kept in the ledger")
    resolve.add_argument("--by", metavar="NAME", help="on whose behalf, beside the user")


def _add_operation_commands(add: AddCommand) -> None:
    text = "put table and ledger back to the state after a run"
    rewind = add("rewind", writing.rewind, text)
    rewind.add_argument("--to-run", required=True, metavar="ID", help="the last run to keep")
    rewind.add_argument("--reason", required=True, metavar="TEXT", help="why; kept in the ledger")
    rewind.add_argument(
        "--accept-loss",
        action="store_true",
        help="rewind although Kafka can no longer give back some of the rows",
    )
    rewind.add_argument("--by", metavar="NAME", help="on whose behalf, beside the user")
    text = "merge small files of the stream's tables, delete those that nobody needs"
    maintain = add("maintain", writing.maintain, text)
    maintain.add_argument("--dry-run", action="store_true", help="only say what would be done")
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
    text = "erase the records of keys out of every table, and keep them out; without a key: go on"
    erase = add("erase", erasing.erase, text)
    text = "a column of the typed table and its value; of several keys, one each"
    erase.add_argument("--key", action="append", default=[], metavar="COLUMN=VALUE", help=text)
    text = "Kafka's key as it is, as text or as 0x and hexadecimal digits; may be repeated"
    erase.add_argument("--raw-key", action="append", default=[], metavar="KEY", help=text)
    text = "many keys: a CSV file whose first line names columns; a line is a key"
    erase.add_argument("--keys-from", metavar="PATH", help=text)
    erase.add_argument("--reason", metavar="TEXT", help="why, without the key; kept in the ledger")
    erase.add_argument("--plan", action="store_true", help="only say what would be done")
    text = "refuse later records of the keys as well"
    erase.add_argument("--future", action="store_true", help=text)
    text = "delete files of older versions at once: no time travel, and readers of these fail"
    erase.add_argument("--now", action="store_true", help=text)
    text = "do not ask before --now"
    erase.add_argument("--yes", action="store_true", help=text)
    text = "records go as well whose bytes hold a key and that no column tells, as in quarantine"
    erase.add_argument("--quarantine-by-bytes", action="store_true", help=text)
    text = "all changes go of the current table's keys that would have an older row otherwise"
    erase.add_argument("--whole-keys", action="store_true", help=text)
    text = (
        "an erasure of which a table has told the coordinates only: these are its keys, all of them"
    )
    erase.add_argument("--settles", action="append", default=[], metavar="ID", help=text)
    text = "the share of all rows that may be erased; default: 0.01"
    erase.add_argument("--most", type=float, default=0.01, metavar="SHARE", help=text)
    erase.add_argument("--by", metavar="NAME", help="on whose behalf, beside the user")
    listed = add("erasures", erasing.erasures, "list erasures, or show one as a page")
    listed.add_argument("id", nargs="?", metavar="ID")


def _add_request(command: argparse.ArgumentParser) -> None:
    """Add the options that make a run a backfill."""
    text = "backfill records written {} this time, ISO 8601 with its offset from UTC"
    start, end = text.format("from"), text.format("before")
    command.add_argument("--from", dest="window_start", metavar="T", help=start)
    command.add_argument("--to", dest="window_end", metavar="T", help=end)
    command.add_argument(
        "--ranges",
        metavar="JSON",
        help="backfill [{topic, partition, start_offset, end_offset}], the end exclusive",
    )


class _ToStderr(logging.StreamHandler[TextIO]):
    """To standard error as it is now: what shows progress there puts lines above its own."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        """It stays what it is."""


def _log_to_stderr(verbose: bool) -> None:
    logging.basicConfig(handlers=[_ToStderr()], level=logging.WARNING, format="%(message)s")
    logging.getLogger("tideline").setLevel(logging.DEBUG if verbose else logging.INFO)
