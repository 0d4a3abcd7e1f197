"""What Airflow sees of a fleet when it parses: a Dag for each topic, or one for all."""

import pytest

from tests.dags.parsing import parsed, parsing_processes
from tests.worlds.build import NOW
from tideline.model.fleet import update_topics
from tideline.stream.contents import keep_topics
from tideline.stream.files import read_file

FLEET = """\
fleet: shop
topic_pattern: shop\\..*
stream:
  stream: "{topic}"
  table: {uri: "/data/lake/{topic}"}
  schedule: "*/10 * * * *"
  airflow: {tags: [sales], retries: 3}
"""


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    with parsing_processes(tmp_path_factory.mktemp("airflow")) as pool:
        yield pool


@pytest.fixture
def parse(processes, tmp_path):
    def parse(wanted=None):
        variables = {"TIDELINE_STREAMS": str(tmp_path)}
        if wanted is not None:
            variables["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = wanted
        return processes.submit(parsed, "tideline_streams", (), variables).result()

    return parse


def write(folder, text=FLEET, topics=("shop.a", "shop.b")):
    path = folder / "shop.yaml"
    path.write_text(text)
    if topics:
        found = dict.fromkeys(topics, "id")
        keep_topics(read_file(path).fleet, path, update_topics(None, "shop", found, NOW))
    return path


def test_each_topic_has_a_dag_and_the_fleet_one_that_looks(parse, tmp_path):
    write(tmp_path)
    dags = parse()
    assert set(dags) == {"shop", "shop.a", "shop.b"}
    assert dags["shop"]["tasks"] == ["discover_topics"]
    assert dags["shop"]["cron"] == "0 * * * *"
    assert dags["shop.a"]["cron"] == "*/10 * * * *"
    assert dags["shop.a"]["tags"] == ["sales", "tideline"]
    assert len(dags["shop.b"]["tasks"]) == 6
    assert dags["shop"]["loaded"] == []


def test_before_the_first_look_there_is_the_fleet_s_dag_alone(parse, tmp_path):
    write(tmp_path, topics=())
    dags = parse()
    assert set(dags) == {"shop"}
    assert "the first run looks for them" in dags["shop"]["doc"]


def test_shards_land_all_topics_in_one_dag(parse, tmp_path):
    """As many tasks as shards, however many topics; it runs when its template says."""
    write(tmp_path, FLEET.replace("stream:\n", "shards: 3\nstream:\n", 1))
    (dag,) = parse().values()
    assert dag["tasks"] == ["discover_topics", "land_shard", "tell_shard"]
    assert dag["rules"]["land_shard"] == "all_done"
    assert dag["cron"] == "*/10 * * * *"
    assert (dag["max_active_runs"], dag["params"]) == (1, ["from", "to"])
    assert "shop.a, shop.b" in dag["doc"]


def test_a_task_s_process_finds_its_dag_alone(parse, tmp_path):
    path = write(tmp_path)
    assert set(parse("shop.a")) == {"shop.a"}
    assert set(parse("shop")) == {"shop"}
    write(tmp_path, path.read_text().replace("stream:\n", "shards: 3\nstream:\n", 1))
    assert set(parse("shop")) == {"shop"}


def test_a_topic_that_has_left_has_its_own_dag_and_nobody_complains(parse, tmp_path):
    write(tmp_path, FLEET.replace("stream:\n", "shards: 3\nstream:\n", 1))
    own = "stream: shop.a\nkafka: {topics: [shop.a]}\ntable: {uri: /data/lake/shop.a}\n"
    (tmp_path / "shop.a.yaml").write_text(own)
    dags = parse()
    assert set(dags) == {"shop", "shop.a"}
    assert len(dags["shop.a"]["tasks"]) == 6


def test_what_is_wrong_with_topics_has_a_dag_that_says_so(parse, tmp_path):
    """The others go on; a fleet that a stream is named like does not take its place."""
    write(tmp_path, topics=("shop.a", "shop.a.ledger"))
    dags = parse()
    assert "refused" in dags["shop.refused"]["tags"]
    assert "the topics shop.a and shop.a.ledger meet here" in dags["shop.refused"]["doc"]
    (tmp_path / "own.yaml").write_text(
        "stream: shop\nkafka: {topics: [x]}\ntable: {uri: /data/lake/x}\n"
    )
    dags = parse()
    assert len(dags["shop"]["tasks"]) == 6
    assert any("a stream has that name" in str(dag["doc"]) for dag in dags.values())


def test_of_two_fleets_of_one_name_the_one_whose_file_is_called_so_counts(parse, tmp_path):
    """For all Dags, and for a task's process that builds its own only."""
    path = write(tmp_path, FLEET.replace("stream:\n", "shards: 3\nstream:\n", 1))
    (tmp_path / "a.yaml").write_text(path.read_text().replace("shards: 3", "shards: 2"))
    assert len(parse()["shop"]["doc"]) == len(parse("shop")["shop"]["doc"])
    assert "3 tasks land all topics" in parse()["shop"]["doc"]
    assert "a fleet of another file" in parse()["a"]["doc"]


LAG = 'schedule: "*/10 * * * *"\n  trigger: {lag_records: 1000}\n'


def test_runs_by_lag_keep_their_clock(parse, tmp_path):
    """Backfills go by it, and it is the net under events that get lost."""
    write(tmp_path, FLEET.replace('schedule: "*/10 * * * *"\n', LAG))
    dags = parse()
    assert dags["shop.a"]["schedule"] == "AssetOrTimeSchedule"
    assert dags["shop.a"]["watchers"] == {
        "tideline/shop.a/lag": {"dag_id": "shop.a", "folder": None}
    }
    assert dags["shop"]["schedule"] == "CronDataIntervalTimetable"
    assert dags["shop.a"]["loaded"] == ["kafka"]  # the trigger's; no connection is opened


def test_a_fleet_s_shards_have_one_watcher(parse, tmp_path):
    text = FLEET.replace('schedule: "*/10 * * * *"\n', LAG)
    write(tmp_path, text.replace("stream:\n", "shards: 3\nstream:\n", 1))
    (dag,) = parse().values()
    assert dag["watchers"] == {"tideline/shop/lag": {"dag_id": "shop", "folder": None}}
