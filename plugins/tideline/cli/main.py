"""`tideline`: its arguments, its exit status, and the function behind each command."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import getdoc
from typing import Any, TextIO

from tideline import __version__
from tideline.cli import doctor as doctors
from tideline.cli import erase_commands, fleets, reading, starting, tables, validating, writing
from tideline.cli.arguments import Once, type_of
from tideline.cli.helping import show_entries, whole_help
from tideline.cli.output import CommandOutput
from tideline.cli.streams import READER_GONE, Untold, give_up_answer, own_streams
from tideline.errors import BadInput, TidelineError
from tideline.model.addresses import STORES
from tideline.model.erasures import MOST
from tideline.model.wording import did_you_mean, not_among, shown
from tideline.stream.files import file_in, read_stream
from tideline.stream.stream import Stream
from tideline.waits import tell_waits

Answer = Callable[[argparse.Namespace, CommandOutput], int | None]
"""Executes a command; returns the exit status, None for 0."""
StreamAnswer = Callable[[Stream, argparse.Namespace, CommandOutput], int | None]
"""The same, for a command about one stream."""
Words = Mapping[str, str]
"""Arguments as a line of usage has them, as `--to-run ID` or `[--key KEY]...`, and their help."""
AddCommand = Callable[[str, StreamAnswer, str, Words], argparse.ArgumentParser]
"""Adds a command about one stream: its name, its function, what it does, its arguments."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status, as `errors.py` has them."""
    status = 0
    with own_streams():
        try:
            try:
                status = _run(arguments)
            except SystemExit as leaving:  # after a help text, a wrong option, or SIGTERM
                status = leaving.code if isinstance(leaving.code, int) else 1
                sys.stdout.flush()
                raise
            sys.stdout.flush()
        except Untold as untold:  # the answer may be that nothing is well
            give_up_answer()
            if (error := untold.error) is None:
                return status or READER_GONE
            CommandOutput(False).error(error)
            return status or error.exit_code
    return status


def _run(arguments: Sequence[str] | None) -> int:
    """Parse the arguments and answer; the exit status."""
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
    output = CommandOutput(options.output == "json", _file_of(options))
    _log_to_stderr(options.verbose, output)
    try:
        if options.takes_stream and os.path.isdir(options.file):
            options.file = str(file_in(options.file, options.stream))
        return options.answer(options, output) or 0
    except Untold:
        raise
    except KeyboardInterrupt:
        output.tell(_INTERRUPTED)
        return 130
    except TidelineError as error:
        failure = error
    except Exception as error:
        traceback.print_exc()
        failure = TidelineError(f"a bug of Tideline: {type(error).__name__}: {error}")
    with suppress(Untold):  # a failure keeps its status, whoever reads of it
        output.error(failure)
    return failure.exit_code


_FILES = "stream files, fleet files, or folders of them; default: TIDELINE_STREAMS"
_FOR_WHOM = "the person you act for; kept beside your user name"
_OF_STREAM: Words = {
    "FILE": "a stream file, a fleet file, or a folder of them",
    "[--stream NAME]": "the stream, if FILE is a fleet file or a folder",
}
_WRITTEN = "backfill records written {} this time: ISO 8601 with an offset from UTC"
_BACKFILL: Words = {
    "[--from T]": _WRITTEN.format("at or after"),
    "[--to T]": _WRITTEN.format("before"),
    "[--ranges JSON]": "backfill [{topic, partition, start_offset, end_offset}]; end_offset is"
    " exclusive",
}
_NEEDS = {"decode": "decode", **dict.fromkeys(("fold", "current", "sweep"), "current")}
"""Sections that a command needs in the stream file."""
_WORD = re.compile(r"(\[)?(--[a-z0-9-]+)? ?(\S*?)\]?(\.\.\.)?")
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

    def add(name: str, answer: Answer, text: str, words: Words) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=getdoc(answer))
        _add_words(command, {"[--output table|json]": "the form of the answer; default: table"})
        text_of_json = "print one JSON object; the same as --output json"
        command.add_argument(
            "--json", dest="output", action=Once, nargs=0, const="json", help=text_of_json
        )
        command.add_argument("--verbose", "-v", action="store_true", help="log more")
        command.set_defaults(answer=answer, parser=command, output="table")
        command.set_defaults(takes_stream=_OF_STREAM.items() <= words.items())
        _add_words(command, words)
        return command

    def add_for_stream(
        name: str, answer: StreamAnswer, text: str, words: Words
    ) -> argparse.ArgumentParser:
        reads = partial(_of_stream, answer, _NEEDS.get(name))
        command = add(name, reads, text, {**_OF_STREAM, **words})
        command.description = getdoc(answer)
        return command

    # `helping.GROUPS` has the order in which `tideline --help` lists them.
    words = {
        "FILE": "the file to write, for example orders.yaml",
        "[--connection ID]": "the Kafka connection",
        "[--topic T]...": "a topic; may be repeated",
        "[--stream NAME]": "default: the file's name",
        "[--table ADDRESS]": "default: lake/NAME beside the file",
    }
    text = "ask the cluster for its topics and write a stream file"
    add("init", starting.init, text, words).set_defaults(connection="kafka_default")
    words = {"[FILE]...": _FILES, "[--online]": "also ask brokers, registry and ledger"}
    add("validate", validating.validate, "check stream files", words)
    words = {"OLD": "", "NEW": ""}
    words["[--stream NAME]"] = "with fleet files: the stream to compare"
    add("diff", validating.diff, "say what an edit of a live stream's file changes", words)
    text = "show what a run would read; store nothing"
    add_for_stream("plan", writing.plan, text, _BACKFILL)
    words = {
        "[--run-id RUN_ID]": "the run's id; the id of an earlier run replays its plan",
        "[--parallel N]": "with a fleet file: land N topics at once; default: its `threads`",
    }
    words = {**_OF_STREAM, **words, **_BACKFILL}
    add("run", writing.run, "land what is new, in one run", words)
    _add_table_commands(add_for_stream)
    text = "write the list of topics again if it was lost; deleted topics are not in it"
    words = {"FILE": "", "[--new-list]": text}
    add("discover", fleets.discover_topics, "find the topics of a fleet", words)
    text = "check every service that streams need; say what is wrong and how to fix it"
    add("doctor", doctors.doctor, text, {"[FILE]...": _FILES})
    text = "show one line for each stream: lag, headroom, incidents"
    add("status", reading.status, text, {"[FILE]...": _FILES})
    _add_record_commands(add_for_stream)
    text = "also read all rows of N buckets of the current table, other buckets each day"
    words = {"[--buckets N]": text}
    text = "compare ledger, table and broker"
    add_for_stream("audit", reading.audit, text, words).set_defaults(buckets=0)
    _add_operation_commands(add_for_stream)
    text = "also jars for tables in this kind of store; may be repeated"
    words = {f"[--for {'|'.join(dict.fromkeys(STORES.values()))}]...": text}
    fetch = add("fetch", starting.fetch, "download the jars that Spark needs, once", words)
    text = "the same as --for s3a"
    fetch.add_argument("--s3a", dest="for", action="append_const", const="s3a", help=text)
    text = "copy the jars into this folder, for TIDELINE_SPARK_JARS"
    _add_words(fetch, {"[--into FOLDER]": text})
    text = "explain an incident or an error, and what to do"
    entry = commands.add_parser("help", help=text, description=getdoc(show_entries))
    _add_words(entry, {"[NAME]...": "for example retention_loss"})
    defaults: dict[str, Any] = {"output": "table", "verbose": False, "takes_stream": False}
    entry.set_defaults(answer=show_entries, parser=entry, **defaults)
    add("demo", starting.demo, "land sample events with a real broker, Airflow and Spark", {})
    return parser


def _add_table_commands(add: AddCommand) -> None:
    words = {
        "[--run-id RUN_ID]": "the run's id; the id of an earlier run decodes its plan again",
        "[--again]": "decode all records again, and say how many rows have changed",
        "[--since T]": "with --again: only records at or after this time",
    }
    add("decode", tables.decode, "decode the landed rows that are not decoded yet", words)
    text = "the run's id; the id of an earlier run folds its changes again"
    words = {"[--run-id RUN_ID]": text}
    fold = add("fold", tables.fold, "update the current table from the decoded rows", words)
    either = fold.add_mutually_exclusive_group()
    text = "write nothing: compute every bucket again, and compare it with the table"
    _add_words(either, {"[--check]": text})
    text = "with --check: only N buckets, other buckets each day"
    _add_words(fold, {"[--buckets N]": text})
    text = "rebuild every bucket from all decoded rows; ignore what the table holds"
    _add_words(either, {"[--anew]": text})
    text = "delete the N rows that were listed; without this option nothing is changed"
    words = {"[--rows N]": text}
    text = "list rows that a newer snapshot no longer contains, then delete them"
    add("sweep", tables.sweep, text, words)
    text = "print SQL that returns every version of each row, with valid_from and valid_to"
    words = {"--sql spark|duckdb|trino": "the SQL dialect", "[--history]": text}
    text = "print SQL that returns the latest row of each key"
    current = add("current", tables.current_view, text, words)
    text = "the names of the current table and the typed table in the engine; required by trino"
    current.add_argument("--names", nargs=2, metavar=("CURRENT", "TYPED"), help=text)
    words = {
        "[--class C]...": "only this error class; may be repeated",
        "[--since T]": "only records at or after this time",
        "[--run-id RUN_ID]": "the run's id",
    }
    add("redrive", tables.redrive, "decode quarantined records again", words)


def _add_record_commands(add: AddCommand) -> None:
    text = "instead of a record: show a key's row in the current table, and its changes; repeat the"
    text += " option for each column of the key; a column without = is null"
    words = {"[TOPIC]": "", "[PARTITION]": "", "[OFFSET]": ""}
    words |= {"[--key COLUMN[=VALUE]]...": text}
    add("explain", reading.explain_record, "say what happened to one record", words)
    add("ledger", reading.ledger, "show positions, plans, coverage, incidents and rewinds", {})
    text = "show open incidents: what was found, what is at stake, what you can do"
    add("incident", reading.incident, text, {"[ID]": ""})
    words = {
        "--incident ID": "",
        "[--all N]": "also decide all open incidents of the same topic and class; N is their"
        " number, so that no incident is decided that you have not seen",
        "--choice CHOICE": "",
        "--reason TEXT": "the reason; kept in the ledger",
        "[--by NAME]": _FOR_WHOM,
    }
    add("resolve", reading.resolve, "decide about an incident", words)


def _add_operation_commands(add: AddCommand) -> None:
    words = {
        "--to-run ID": "the last run to keep",
        "--reason TEXT": "the reason; kept in the ledger",
        "[--accept-loss]": "rewind even if Kafka no longer has some of the rows",
        "[--by NAME]": _FOR_WHOM,
    }
    text = "restore table and ledger to the state after a run"
    add("rewind", writing.rewind, text, words)
    text = "merge small files of the stream's tables, and delete old files"
    add("maintain", writing.maintain, text, {"[--dry-run]": "only say what would happen"})
    words = {
        "[--key COLUMN=VALUE]...": "a column of the typed table and its value; may be repeated for"
        " more keys",
        "[--raw-key KEY]...": "the raw Kafka key, as text or as 0x and hexadecimal digits; may be"
        " repeated",
        "[--keys-from PATH]": "a CSV file with one key per line; the first line names the columns",
        "[--reason TEXT]": "the reason, without the key itself; kept in the ledger",
        "[--plan]": "only say what would happen",
        "[--future]": "also refuse later records of the keys",
        "[--now]": "delete files of older versions at once: time travel ends, and their readers"
        " fail",
        "[--yes]": "do not ask for confirmation of --now",
        "[--quarantine-by-bytes]": "also erase records whose bytes contain a key but have no column"
        " for it, as in quarantine",
        "[--whole-keys]": "erase all changes of keys whose current row would otherwise be an older"
        " row",
        "[--settles ID]...": "an erasure of which only the coordinates are known: the given keys"
        " are all of its keys",
        "[--most SHARE]": f"the largest share of all rows that may be erased; default: {MOST}",
        "[--by NAME]": _FOR_WHOM,
    }
    text = "erase the records of keys from every table; without a key: finish what is left"
    add("erase", erase_commands.erase, text, words).set_defaults(most=MOST)
    text = "list erasures, or print a report about one erasure"
    add("erasures", erase_commands.erasures, text, {"[ID]": "an erasure's id, as erase-1"})
    words = {
        "--to delta|airflow": "beside the table, or a database",
        "[--at ADDRESS]": "the table's address or the connection's id; default: the one in FILE",
        "[--connection ID]": "Airflow connection for an address in an object store, if FILE names"
        " none",
    }
    add("move-ledger", writing.move, "move the ledger, or finish an interrupted move", words)


def _of_stream(
    answer: StreamAnswer, section: str | None, options: argparse.Namespace, output: CommandOutput
) -> int | None:
    """Execute a command about one stream; its file needs the section, if one is named."""
    stream = read_stream(options.file, options.stream)
    if section is not None and getattr(stream, section) is None:
        raise BadInput(f"{options.file}: {section}: got nothing; required for this command")
    return answer(stream, options, output)


def _add_words(command: argparse._ActionsContainer, words: Words) -> None:
    """Add arguments to a command or to a group of them."""
    for word, text in words.items():
        found = _WORD.fullmatch(word)
        assert found is not None
        optional, flag, value, many = found.groups()
        more: dict[str, Any] = {"help": text}
        if not value:
            more["action"] = "store_true"
        elif "|" in value:
            more["choices"] = value.split("|")
        else:
            more |= {"metavar": value, "type": type_of(value)}
        if flag is None:
            more["nargs"] = "*" if many else "?" if optional else None
            command.add_argument(value.lower() + "s" * bool(many), **more)
        else:
            if many:
                more |= {"action": "append", "default": []}
            elif value:
                more["action"] = Once
            command.add_argument(flag, required=not optional, **more)


def _file_of(options: argparse.Namespace) -> str | None:
    """The file that a command is about, as a further command names it; None if it is about more."""
    files = [options.file] if options.takes_stream else getattr(options, "files", [])
    if len(files) != 1:
        return None
    stream = getattr(options, "stream", None)
    return shlex.quote(files[0]) + (f" --stream {shlex.quote(stream)}" if stream else "")


class _ToStderr(logging.StreamHandler[TextIO]):
    """To standard error as it is now: what shows progress there puts lines above its own."""

    output = CommandOutput(False)

    def format(self, record: logging.LogRecord) -> str:
        """The record's text; its commands name the file."""
        return self.output.filled(super().format(record))

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        """It stays what it is."""


def _log_to_stderr(verbose: bool, output: CommandOutput) -> None:
    _ToStderr.output = output
    logging.basicConfig(handlers=[_ToStderr()], level=logging.WARNING, format="%(message)s")
    logging.getLogger("tideline").setLevel(logging.DEBUG if verbose else logging.INFO)
