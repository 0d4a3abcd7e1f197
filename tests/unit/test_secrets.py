"""Secrets that a process holds: what may show them, and what may not."""

import ast
from pathlib import Path

import tideline
from tests.unit.build import planned
from tideline.launch.job import SparkJob

PACKAGE = Path(tideline.__file__).parent
SECRET = ("password", "passphrase", "secret", "keytab", "kafka_options", "session_token")
"""Parts of the names of fields that hold secrets."""


def test_a_job_does_not_show_the_options_of_its_kafka_source():
    """A log line or a traceback may show the job."""
    job = SparkJob(
        stream="orders",
        plan_id="p",
        run_id="r",
        table_uri="/lake/orders",
        folder="landed-p-1",
        partition_by=("topic_id",),
        isolation_level="read_committed",
        ranges=(planned(0, 10),),
        kafka_options={"kafka.sasl.jaas.config": "hidden"},
    )
    assert "orders" in repr(job)
    assert "hidden" not in repr(job)


def fields():
    """File, class, name and default of every field of a dataclass of the package."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and "dataclass" in map(_name, node.decorator_list):
                for line in node.body:
                    if isinstance(line, ast.AnnAssign):
                        default = ast.unparse(line.value) if line.value else ""
                        yield file.name, node.name, ast.unparse(line.target), default


def _name(decorator):
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called)


def test_no_field_that_holds_a_secret_is_in_a_repr():
    """The next class with a password is found here, by the field's name."""
    held = [f for f in fields() if any(part in f[2] for part in SECRET)]
    assert len(held) > 5
    assert [f for f in held if "repr=False" not in f[3]] == []
