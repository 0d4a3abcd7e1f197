"""Secrets that a process holds: what may show them, and what may not."""

import ast
import re
from pathlib import Path

from pyspark.sql.connect.proto import relations_pb2

import tideline
from tests.worlds.build import spark_job
from tideline.spark.session import REDACTED, SESSION

PACKAGE = Path(tideline.__file__).parent
SECRET = ("password", "passphrase", "secret", "keytab", "kafka_options", "session_token")
"""Parts of the names of fields that hold secrets."""


def test_a_job_does_not_show_the_options_of_its_kafka_source():
    """A log line or a traceback may show the job."""
    job = spark_job(kafka_options={"kafka.sasl.jaas.config": "hidden"})
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


def test_a_statement_s_text_has_no_secret_option_of_the_kafka_source():
    """A Spark Connect server keeps it for its pages and event logs; Spark applies the pattern."""
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me"'
    statement = relations_pb2.Relation()
    options = statement.read.data_source.options
    options["kafka.bootstrap.servers"] = "broker:9092"
    options["kafka.sasl.jaas.config"] = f'{login} password="hidden-\\"one";'
    options["kafka.ssl.keystore.key"] = "-----BEGIN PRIVATE KEY-----\nhidden-two\n-----END"
    options["kafka.ssl.key.password"] = "hidden-three" * 10_000
    options["startingOffsets"] = "earliest"
    text = str(statement)
    assert text.count("hidden-") == 10_002
    assert SESSION["spark.sql.redaction.string.regex"] == REDACTED
    redacted = re.sub(REDACTED, "***", text)
    assert "hidden-" not in redacted
    assert "END" not in redacted
    assert "broker:9092" in redacted
    assert "earliest" in redacted
