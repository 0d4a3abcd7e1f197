"""The commands of the first ten minutes: `init`, `fetch` (what pip does not bring) and `demo`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import yaml
from rich.prompt import Prompt

from tideline.cli.output import CommandOutput
from tideline.contract.answers import Begun, Fetched
from tideline.errors import BadInput
from tideline.kafka.kafka_settings import kafka_settings
from tideline.launch.jars import fetch_for_runs
from tideline.launch.jvm import prepare_archives
from tideline.model.wording import first_few, how_many, system_message
from tideline.stream.files import parse_stream

_SHOWN = 50
"""How many topics a person is shown."""
_HEADER = """\
# Lands {topics} in bounded, verified batches.
#   tideline plan {file}      what a run would read
#   tideline run {file}       one run; in Airflow, a Dag of the same name
# All keys: the reference, "Stream file".
"""


def init(options: argparse.Namespace, output: CommandOutput) -> None:
    """Ask the cluster for its topics, and write a stream file that lands some of them.

    Without --topic the command asks you to choose. It overwrites no file.
    """
    path = Path(options.file)
    if path.suffix not in (".yaml", ".yml"):
        raise BadInput(
            f"{path}: a stream file ends with .yaml or .yml; Airflow loads no other file"
        )
    if os.path.lexists(path):
        raise BadInput(f"{path} is there already; remove it, or name another file")
    if not os.path.isdir(path.parent):
        raise BadInput(f"{path}: there is no folder {path.parent}; create it, or name another file")
    known = _topics(options.connection)
    if not known:
        raise BadInput(_empty(options.connection, path, (options.topic or ["orders"])[0]))
    chosen = options.topic or _ask(known, options.connection)
    missing = [topic for topic in chosen if topic not in known]
    if missing:
        raise BadInput(
            f"--topic: got {', '.join(missing)}; allowed, since connection {options.connection} may"
            f" read them: {_listed(known)}"
        )
    name = options.stream or path.stem
    table = options.table or f"{path.parent.resolve()}/lake/{name}"
    if "://" not in table:
        table = str(Path(table).resolve())
    file = {
        "stream": name,
        "kafka": {"connection": options.connection, "topics": chosen},
        "table": {"uri": table},
    }
    header = _HEADER.format(topics=", ".join(chosen), file=path)
    text = header + yaml.safe_dump(file, sort_keys=False)
    parse_stream(text, str(path))  # a refused name leaves no file behind
    try:
        path.write_text(text)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {system_message(error)}") from error
    output.answer(
        Begun(file=str(path), stream=name, topics=chosen, table=table),
        f"{path}: stream {name}, {', '.join(chosen)} into {table}",
        f"Next: tideline doctor {path}; tideline plan {path}",
    )


def _topics(connection: str) -> list[str]:
    # Imported here: no other command of this module needs a client.
    from tideline.kafka.kafka_cluster import KafkaCluster

    settings = kafka_settings(connection).less_patient()
    with KafkaCluster(settings) as cluster:
        return cluster.topics_matching(".*")


def _empty(connection: str, path: Path, topic: str) -> str:
    """What to do about a cluster that shows no topic: the commands, where no login is needed."""
    settings = kafka_settings(connection)
    text = f"connection {connection}: the cluster shows no topic; create one, or grant its user"
    text += " the right to describe it"
    if settings.protocol != "PLAINTEXT":
        return f"{text}. Then: tideline init {path}"
    server = settings.servers.split(",")[0]
    create = f"{sys.executable} -m kafka.admin -b {server} topics create -t {topic}"
    return f"{text}. To create a topic and continue:\n  {create}\n  tideline init {path}"


def _ask(known: list[str], connection: str) -> list[str]:
    """Let a person choose; without a terminal, say what there is.

    Raises:
        BadInput: There is no terminal, or the answer names no topic.
    """
    if not sys.stdin.isatty():
        raise BadInput(f"--topic: missing; allowed by connection {connection}: {_listed(known)}")
    answer = Prompt.ask(f"topics: {_listed(known)}\nwhich of them, separated by spaces")
    chosen = answer.replace(",", " ").split()
    if not chosen:
        raise BadInput("no topic was named; nothing was written")
    return chosen


def _listed(known: list[str]) -> str:
    return first_few(known, _SHOWN)


def fetch(options: argparse.Namespace, output: CommandOutput) -> None:
    """Download the jars that Spark needs into the cache, once, and archive Spark's classes.

    Jars that are there already are kept. --into copies all of them into a folder for
    TIDELINE_SPARK_JARS.
    """
    stores = dict.fromkeys(vars(options)["for"])
    jars = fetch_for_runs(*stores)
    prepare_archives(stores)
    if options.into is not None:
        folder = Path(options.into).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            jars = [Path(shutil.copy(jar, folder)) for jar in jars]
        except OSError as error:
            raise BadInput(
                f"--into: {folder} cannot be written: {system_message(error)}"
            ) from error
    counted = Counter(jar.parent for jar in jars)
    answer = Fetched(jars=[str(jar) for jar in jars])
    output.answer(
        answer, *(f"{how_many(count, 'jar')} in {folder}" for folder, count in counted.items())
    )


def demo(options: argparse.Namespace, output: CommandOutput) -> int:
    """Start the embedded stack, land sample events, and prove the result."""
    checkout = Path(__file__).parents[3]  # where the package is in one
    if not (checkout / "devstack").is_dir():
        raise BadInput(
            f"tideline demo: no devstack/ in {checkout}. The embedded stack is not in the package:"
            " run the command in a checkout of Tideline"
        )
    sys.path.insert(0, str(checkout))
    try:
        # By its name: nothing that ships depends on what is only in a checkout.
        run_demo: Callable[[CommandOutput], int] = import_module("devstack.demo").run_demo
    except ModuleNotFoundError as error:
        raise BadInput(
            f"tideline demo: the Python module {error.name} is missing; `make setup` installs it"
        ) from error

    return run_demo(output)
