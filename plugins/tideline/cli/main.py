"""`tideline`: arguments, exit status, and which function answers which command."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence

from tideline import __version__
from tideline.cli import commands, incidents, moving, rewinding
from tideline.cli.output import Output
from tideline.errors import TidelineError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 done or nothing to do, 1 a fault of ours, 2 bad input, 3 halted by a finding, 4 a
        service is away or busy, 5 verification failed, 6 audit not clean.
    """
    options = build_parser().parse_args(arguments)
    _log_to_stderr(options.verbose)
    # So that `with` and `finally` give leases back and stop what was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    output = Output(options.json)
    try:
        status: int = options.answer(options, output)
        sys.stdout.flush()
    except TidelineError as error:
        output.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        traceback.print_exc()
        output.error(TidelineError(f"a fault of ours: {type(error).__name__}: {error}"))
        return 1
    return status


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="tideline",
        description="Land Kafka topics in Delta tables, one bounded and proven batch at a time.",
        epilog="exit status: 0 done, 1 fault of ours, 2 bad input, 3 halted by a finding,"
        " 4 try later, 5 verification failed, 6 audit not clean",
    )
    parser.add_argument("--version", action="version", version=f"tideline {__version__}")
    commands_of = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, answer: Callable[[argparse.Namespace, Output], int], text: str
    ) -> argparse.ArgumentParser:
        sub = commands_of.add_parser(name, help=text, description=text)
        sub.add_argument("--json", action="store_true", help="one JSON object on standard output")
        sub.add_argument("--verbose", "-v", action="store_true", help="more on standard error")
        sub.set_defaults(answer=answer)
        return sub

    validate = command("validate", commands.validate, "check stream files")
    validate.add_argument("files", nargs="+", metavar="FILE")
    plan = command("plan", commands.plan, "plan and detect, persist nothing")
    plan.add_argument("file", metavar="FILE")
    _add_request(plan)
    run = command("run", commands.run, "one run through all steps")
    run.add_argument("file", metavar="FILE")
    run.add_argument("--run-id", help="the same id again replays its plan")
    _add_request(run)
    ledger = command("ledger", commands.ledger, "head, plans, coverage")
    ledger.add_argument("file", metavar="FILE")
    incident = command("incident", incidents.incident, "what was found and what is at stake")
    incident.add_argument("file", metavar="FILE")
    incident.add_argument("id", nargs="?", metavar="ID")
    resolve = command("resolve", incidents.resolve, "decide about an incident")
    resolve.add_argument("file", metavar="FILE")
    resolve.add_argument("--incident", required=True, metavar="ID")
    resolve.add_argument("--choice", required=True, metavar="CHOICE")
    resolve.add_argument("--reason", required=True, metavar="TEXT", help="goes into the ledger")
    resolve.add_argument("--by", metavar="NAME", help="who decides; default: the user")
    rewind = command("rewind", rewinding.rewind, "table and ledger together back to after a run")
    rewind.add_argument("file", metavar="FILE")
    rewind.add_argument("--to-run", required=True, metavar="ID", help="the last run to keep")
    rewind.add_argument("--reason", required=True, metavar="TEXT", help="goes into the ledger")
    rewind.add_argument(
        "--accept-loss",
        action="store_true",
        help="go on although Kafka can no longer give back some of the rows",
    )
    rewind.add_argument("--by", metavar="NAME", help="who rewinds; default: the user")
    audit = command("audit", commands.audit, "hold ledger, table and broker against each other")
    audit.add_argument("file", metavar="FILE")
    move = command("move-ledger", moving.move, "change the ledger's home, or finish that")
    move.add_argument("file", metavar="FILE")
    move.add_argument("--to", required=True, choices=("delta", "airflow"))
    move.add_argument(
        "--at", metavar="ADDRESS", help="a table's address or a connection's id; default: FILE's"
    )
    command("demo", commands.demo, "the embedded stack: real broker, real Airflow, real Spark")
    return parser


def _add_request(command: argparse.ArgumentParser) -> None:
    """A window or ranges make a run a backfill."""
    text = "backfill records {} this time, ISO 8601 with its offset from UTC"
    start, end = text.format("from"), text.format("before")
    command.add_argument("--from", dest="window_start", metavar="T", help=start)
    command.add_argument("--to", dest="window_end", metavar="T", help=end)
    command.add_argument(
        "--ranges",
        metavar="JSON",
        help="backfill [{topic, partition, start_offset, end_offset}], the end exclusive",
    )


def _log_to_stderr(verbose: bool) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    logging.getLogger("tideline").setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
