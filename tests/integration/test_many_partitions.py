"""What `tideline plan` shows a person where a topic has many partitions."""

import re
from dataclasses import replace

from tideline.cli.main import main
from tideline.landing.observing import observe_topics
from tideline.model.head import Head, PartitionPosition
from tideline.model.request import RunRequest
from tideline.stream.files import read_stream
from tideline.wiring import open_run


def test_a_plan_of_thirty_partitions_is_read_at_a_glance(harness, capsys):
    """Ranges and findings: the first ones, and how many there are beside."""
    harness.create(partitions=30)
    for partition in range(30):
        harness.send(1, partition=partition)
    file = str(harness.stream_file())
    assert main(["plan", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "and 10 more; --json has them all" in lines
    assert lines[-1].startswith("30 offsets to read")
    assert len(lines) == 1 + 20 + 5 + 2

    stream = read_stream(file)
    with open_run(stream, "before", RunRequest()) as run:
        seen = observe_topics(run, Head())
        (topic,) = seen.topics
        stand = [
            PartitionPosition(topic.topic, topic.topic_id, 0, p.partition, 9, p.leader_epoch, 9)
            for p in topic.partitions
        ]
        with run.ledger.lease("live"):
            run.ledger.update(
                lambda state: state.with_head(
                    replace(state.head, cluster_id=seen.cluster_id, start="x", positions=(*stand,))
                )
            )
    assert main(["plan", file]) == 3
    shown = capsys.readouterr().out
    assert len(re.findall("truncation: the log was truncated", shown)) == 5
    assert "\nand 25 more\n" in shown
    assert "nothing will be read: 30 findings" in shown
