"""Deploy mode cluster: what a connection may ask for, and what travels which way."""

import base64
import json
import re
import stat
from pathlib import Path

import pytest

from tests.worlds.build import planned
from tideline.connections import Connection
from tideline.documents import dump, load
from tideline.errors import BadInput, ConnectionMissing, ServiceAway
from tideline.launch import launcher, submit
from tideline.launch.launcher import Launcher
from tideline.launch.submit import submit_command
from tideline.launch.target import target_of
from tideline.model.spark_job import SparkJob
from tideline.spark.application import with_secrets
from tideline.store.s3 import S3Settings
from tideline.stream.landing import Spark

PASSWORD = "hidden-password"
KAFKA = {"kafka.bootstrap.servers": "broker:9092", "kafka.sasl.jaas.config": PASSWORD}


@pytest.fixture
def job_path(tmp_path):
    """A job in a private folder, for a table that is there."""
    (tmp_path / "lake/orders").mkdir(parents=True)
    job = SparkJob(
        stream="orders",
        plan_id="p",
        run_id="r",
        table_uri=str(tmp_path / "lake/orders"),
        folder="landed-p-1",
        partition_by=("topic_id",),
        isolation_level="read_committed",
        ranges=(planned(0, 10),),
        kafka_options=KAFKA,
        result_path=str(tmp_path / "result.json"),
        store_options={"fs.s3a.endpoint": "http://store"},
    )
    path = tmp_path / "job.json"
    path.write_text(dump(job))
    return path


@pytest.fixture
def on_yarn(monkeypatch, tmp_path):
    """A connection with deploy mode cluster."""
    found = Connection("spark", "yarn", extra={"deploy-mode": "cluster", "queue": "night"})
    monkeypatch.setattr(launcher, "find_connection", lambda _: found)
    monkeypatch.setattr(submit, "spark_jars", lambda *_: [])
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.of.the.site 1\n")


def submitted(job_path, answer=None, **options):
    """The submission, the job that its driver finds, the lines of its properties; it answers."""
    seen = []

    def run(submission):
        (address,) = submission.arguments
        job = load(SparkJob, Path(address).read_bytes(), address)
        file = submission.properties_file and Path(submission.properties_file)
        assert not file or stat.S_IMODE(file.stat().st_mode) == 0o600
        seen.append((submission, job, file.read_text().splitlines() if file else []))
        if answer is not None:
            Path(job.result_path).write_text(answer)

    Launcher(Spark(), run, **options).submit(str(job_path))
    (found,) = seen
    return found


def test_a_driver_on_yarn_gets_a_job_without_secrets(on_yarn, job_path):
    """They are in a file that spark-submit alone reads, beside the site's own properties."""
    store = S3Settings("store", access_key="id", secret_key="store-secret")
    submission, job, properties = submitted(job_path, store=store)
    command = " ".join(submit_command(submission))
    assert "--deploy-mode cluster" in command
    assert "--queue night" in command
    assert "--name tideline orders r" in command
    for secret in (PASSWORD, "store-secret"):
        assert secret not in command + dump(job)
    assert job.kafka_options == {**KAFKA, "kafka.sasl.jaas.config": ""}
    assert "spark.of.the.site 1" in properties
    given = dict(
        line.removeprefix("spark.yarn.appMasterEnv.").split("=", 1)
        for line in properties
        if "=" in line
    )
    assert given["AWS_SECRET_ACCESS_KEY"] == "store-secret"
    secrets = json.loads(base64.b64decode(given["TIDELINE_SECRETS"]))
    assert secrets == {"kafka.sasl.jaas.config": PASSWORD}
    assert submission.conf["spark.yarn.maxAppAttempts"] == "1"
    assert submission.conf["spark.hadoop.fs.s3a.endpoint"] == "http://store"
    assert "PYSPARK_PYTHON" not in submission.environment
    assert not any("log4j2" in value for value in submission.conf.values())


@pytest.mark.parametrize(
    "secret",
    [
        "a\nspark.yarn.queue=mine",
        "a\r\nb",
        "back\\slash",
        "\\u0041",
        " =:#! ",
        "tab\tand\fmore",
        "ü€𝄞",
    ],
)
def test_any_secret_is_one_line_of_the_properties(on_yarn, job_path, secret):
    """Java reads back what was given, and no property that the secret spells."""
    store = S3Settings("store", access_key="id", secret_key=secret)
    _, _, properties = submitted(job_path, store=store)
    names = [line.partition("=")[0] for line in properties if "=" in line]
    assert all(name.startswith("spark.yarn.appMasterEnv.") for name in names)
    assert len(names) == len(set(names)) == 3  # the store's two, and the job's own
    (line,) = (p for p in properties if "AWS_SECRET_ACCESS_KEY" in p)
    assert as_java_reads(line.partition("=")[2]) == secret


def as_java_reads(value):
    """`java.util.Properties`: spaces before a value count not, and escapes of four digits do."""
    assert not re.search(r"^\s|[^\x20-\x7e]|\\(?!u[0-9a-f]{4})", value)
    units = re.sub(r"\\u(....)", lambda found: chr(int(found[1], 16)), value)
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def test_the_answer_comes_back_through_the_store(on_yarn, job_path):
    """And nothing stays there."""
    submitted(job_path, '{"rows": 1}')
    assert (job_path.parent / "result.json").read_text() == '{"rows": 1}'
    assert list((job_path.parent / "lake/orders").iterdir()) == []


@pytest.mark.parametrize("answer", [None, '{"rows": 1'])
def test_no_whole_answer_is_no_answer(on_yarn, job_path, answer):
    """The driver was killed, perhaps over its answer."""
    submitted(job_path, answer)
    assert not (job_path.parent / "result.json").exists()


def test_a_store_that_is_away_may_be_tried_again(on_yarn, job_path):
    """Nothing is submitted then."""
    folder = job_path.parent / "lake/orders"
    folder.rmdir()
    folder.touch()
    with pytest.raises(ServiceAway, match="cannot be used"):
        submitted(job_path)


@pytest.mark.parametrize(
    ("host", "extra", "problem"),
    [
        ("spark://master:7077", {"deploy-mode": "cluster"}, "cluster only with yarn or k8s://"),
        ("local[2]", {"deploy-mode": "cluster"}, "cluster only with yarn or k8s://"),
        ("yarn", {"deploy-mode": "far"}, "allowed: client, cluster"),
        ("yarn", {"deploy_mode": "cluster"}, "allowed: deploy-mode"),
        ("yarn", {"spark-binary": "/tmp/mine"}, "allowed: spark-submit"),
        ("yarn", {"spark-home": "/opt/spark"}, "SPARK_HOME"),
        ("yarn", {"keytab": "!"}, "base64"),
    ],
)
def test_what_a_spark_connection_may_not_ask_for(host, extra, problem):
    """Refused by name, before anything starts."""
    with pytest.raises(ConnectionMissing, match=problem):
        target_of("spark_default", Connection("spark", host, extra=extra))


def test_what_a_spark_connection_asks_for(tmp_path):
    """The keys mean what they mean to Airflow's provider; foreign ones pass."""
    extra = {"namespace": "data", "principal": "me", "keytab": base64.b64encode(b"k").decode()}
    target = target_of("s", Connection("spark", "k8s://host", extra={**extra, "other": 1}))
    options = target.options_with_files(tmp_path)
    assert target.conf == {"spark.kubernetes.namespace": "data"}
    assert options["--principal"] == "me"
    assert Path(options["--keytab"]).read_bytes() == b"k"
    assert stat.S_IMODE(Path(options["--keytab"]).stat().st_mode) == 0o600


@pytest.mark.parametrize("encoded", [True, False])
def test_the_driver_takes_secrets_from_its_variable(job_path, monkeypatch, encoded):
    """In base64, as YARN needs it, or plain, as a secret of Kubernetes holds it."""
    job = load(SparkJob, job_path.read_bytes(), "job")
    told = load(SparkJob, job_path.read_text().replace(PASSWORD, "").encode(), "job")
    text = json.dumps({"kafka.sasl.jaas.config": PASSWORD})
    monkeypatch.setenv(
        "TIDELINE_SECRETS", base64.b64encode(text.encode()).decode() if encoded else text
    )
    assert with_secrets(told) == job
    monkeypatch.delenv("TIDELINE_SECRETS")
    with pytest.raises(BadInput, match=r"kafka\.sasl\.jaas\.config"):
        with_secrets(told)
