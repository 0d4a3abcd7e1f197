"""A job on its way to Spark and back: what is believed of a result, and what a dead run leaves."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.build import planned
from tideline.errors import ServiceAway
from tideline.launch.job import SparkJob
from tideline.pipeline.attempts import submit

JOB = SparkJob(
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


def answering(**result):
    """A run whose Spark writes a result, and no more."""

    def answers(job_path):
        place = json.loads(Path(job_path).read_bytes())["result_path"]
        Path(place).write_text(json.dumps(result))

    return SimpleNamespace(spark=SimpleNamespace(submit=answers))


@pytest.mark.parametrize("name", ["Any", "ClassVar", "annotations", "NoSuchError"])
def test_a_result_may_name_no_other_object(name):
    """It is a file: what it names is a class of the tree, or the run may be tried again."""
    with pytest.raises(ServiceAway, match="could not read"):
        submit(answering(error=name, message="m"), JOB)
