"""What Airflow sees when it parses: Dags, tasks, no services."""

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.dags.parsing import connected, parsed, parsing_processes
from tideline.errors import BadInput, DecodingHalted, RegistryAway, RegistryRefused, StreamBusy
from tideline.model.decoding import Redriven
from tideline.stream.files import find_stream
from tideline.stream.schedules import PRESETS

ROOT = Path(__file__).parents[2]
KAFKA = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}'
"""Of a broker that nobody asks anything."""


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Where Dag files are parsed."""
    with parsing_processes(tmp_path_factory.mktemp("airflow")) as pool:
        yield pool


@pytest.fixture
def parse(processes):
    """Parse the Dag file where connecting raises, all or as a task's own process does for one."""

    def parse(streams, module="tideline_streams", wanted=None, path=()):
        variables = {"TIDELINE_STREAMS": str(streams)}
        if wanted is not None:
            variables["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = wanted
        return processes.submit(parsed, module, path, variables).result()

    return parse


@pytest.fixture
def streams(tmp_path):
    """A folder with one stream."""
    folder = tmp_path / "streams"
    folder.mkdir()
    data = {
        "stream": "orders",
        "kafka": {"topics": ["orders"]},
        "table": {"uri": "/data/lake/orders"},
        "schedule": "*/10 * * * *",
        "airflow": {"tags": ["sales"]},
    }
    (folder / "orders.yaml").write_text(yaml.safe_dump(data))
    return folder


def test_a_stream_file_becomes_a_dag_with_the_six_tasks(parse, streams):
    """Names and order are a contract; parsing touches no service."""
    dag = parse(streams)["orders"]
    assert dag["tasks"] == [
        "plan_offset_ranges",
        "detect_earliest_reset",
        "resolve_reset",
        "ingest_ranges",
        "verify_ranges",
        "advance_offsets",
    ]
    assert dag["downstream"]["detect_earliest_reset"] == ["resolve_reset"]
    assert dag["rules"]["ingest_ranges"] == "none_failed"
    assert dag["schedule"] == "CronDataIntervalTimetable"
    assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)
    assert dag["tags"] == ["sales", "tideline"]
    assert dag["params"] == ["from", "plan_only", "ranges", "reason", "to"]
    assert dag["outlets"] == ["tideline/orders/settled", "tideline/orders"]
    assert dag["loaded"] == []  # every task of every run would wait for their imports


def test_a_stream_with_typed_tables_has_eight_tasks(parse, streams):
    """The six, and two that decode, whether or not this run has landed something."""
    data = yaml.safe_load((streams / "orders.yaml").read_text())
    data["registry"] = {}
    data["decode"] = {
        "value": {"format": "avro", "subject": "orders-value"},
        "table": {"uri": "/data/lake/orders_decoded"},
        "quarantine": {"uri": "/data/lake/orders_quarantine"},
    }
    (streams / "orders.yaml").write_text(yaml.safe_dump(data))
    dag = parse(streams)["orders"]
    assert len(dag["tasks"]) == 8
    assert dag["tasks"][-3:] == ["advance_offsets", "decode_rows", "verify_decoded"]
    assert dag["downstream"]["advance_offsets"] == ["decode_rows"]
    assert dag["rules"]["decode_rows"] == "none_failed"
    typed = "tideline/orders/decoded"
    assert dag["outlets"][-3:] == ["tideline/orders", f"{typed}/settled", typed]
    assert dag["loaded"] == []


def test_each_event_type_has_an_asset_of_its_own(parse, streams):
    """The tasks are the same eight."""
    data = yaml.safe_load((streams / "orders.yaml").read_text())
    data["registry"] = {}
    types = [{"type": name, "subject": f"{name}-value"} for name in ("created", "paid")]
    data["decode"] = {"value": {"format": "avro", "types": types}, "tombstones": "drop"}
    (streams / "orders.yaml").write_text(yaml.safe_dump(data))
    dag = parse(streams)["orders"]
    assert dag["tasks"][-3:] == ["advance_offsets", "decode_rows", "verify_decoded"]
    assert dag["outlets"][-2:] == [
        "tideline/orders/decoded/created",
        "tideline/orders/decoded/paid",
    ]


def test_presets_become_airflow_s_own_cron_expressions_with_data_intervals(parse, streams):
    """Every preset of this Airflow that has data intervals, and no other."""
    from airflow.timetables.interval import CronDataIntervalTimetable
    from airflow.utils.dates import cron_presets
    from pendulum import datetime

    assert set(PRESETS) == set(cron_presets)
    text = (streams / "orders.yaml").read_text()
    (streams / "orders.yaml").unlink()
    for preset in PRESETS:
        name = preset.removeprefix("@")
        changed = text.replace("stream: orders", f"stream: {name}").replace("lake/orders", name)
        (streams / f"{name}.yaml").write_text(changed.replace("'*/10 * * * *'", f"'{preset}'"))
    dags = parse(streams)
    assert {dag["schedule"] for dag in dags.values()} == {"CronDataIntervalTimetable"}
    for preset, start, end in (
        ("hourly", datetime(2026, 5, 14, 9), datetime(2026, 5, 14, 10)),
        ("daily", datetime(2026, 5, 13), datetime(2026, 5, 14)),
        ("weekly", datetime(2026, 5, 3), datetime(2026, 5, 10)),
        ("monthly", datetime(2026, 4, 1), datetime(2026, 5, 1)),
        ("quarterly", datetime(2026, 1, 1), datetime(2026, 4, 1)),
        ("yearly", datetime(2025, 1, 1), datetime(2026, 1, 1)),
    ):
        table = CronDataIntervalTimetable(dags[preset]["cron"], timezone="UTC")
        interval = table.infer_manual_data_interval(run_after=datetime(2026, 5, 14, 10, 30))
        assert (interval.start, interval.end) == (start, end)


def test_a_broken_file_shows_what_is_wrong_and_leaves_the_others_alone(parse, streams):
    """One typing error must not take a hundred streams down."""
    (streams / "broken.yaml").write_text("stream: broken\nkafka: {topics: [a]}\ntabel: {}\n")
    dags = parse(streams)
    assert dags["orders"]["tasks"]
    assert dags["broken"]["tasks"] == ["read_stream_file"]
    assert "broken.yaml:3: tabel" in dags["broken"]["doc"]
    assert "refused" in dags["broken"]["tags"]


def test_a_name_in_two_files_is_refused_where_it_stands_second(parse, streams):
    """Neither silently replaces the other; all processes agree on the one."""
    text = (streams / "orders.yaml").read_text()
    (streams / "zweite.yml").write_text(text.replace("lake/orders", "lake/other"))
    dags = parse(streams)
    assert len(dags["orders"]["tasks"]) == 6
    assert "orders is in another file already" in dags["zweite.refused"]["doc"]
    assert "zweite.yml also says stream: orders; orders.yaml is" in dags["orders"]["doc"]


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        (["b.yaml", "a.yaml"], "a.yaml"),
        (["a.yaml", "orders.yml", "b.yml"], "orders.yml"),
        (["orders.yml", "orders.yaml"], "orders.yaml"),
    ],
)
def test_dags_commands_and_the_page_take_the_same_of_several_files(tmp_path, names, counts):
    """And all of them say which one; a table must not be another one on the page."""
    from tideline.airflow.stream_dags import stream_dags
    from tideline.page.sources import _StreamFiles

    for name in names:
        table = f"table: {{uri: /data/{name}}}\n"
        (tmp_path / name).write_text(f"stream: orders\nkafka: {{topics: [orders]}}\n{table}")
    (dag, *refused) = stream_dags(None, tmp_path)
    shown = _StreamFiles(tmp_path).streams()["orders"]
    assert dag.description == f"orders -> /data/{counts}"
    assert find_stream("orders", tmp_path).table.uri == f"/data/{counts}"
    assert (shown.path.name, shown.stream.table.uri) == (counts, f"/data/{counts}")
    assert f"{counts} is what counts" in shown.warning
    assert shown.warning in dag.doc_md
    assert all(f"{counts} is what counts" in other.doc_md for other in refused)
    assert len(refused) == len(names) - 1


def test_a_task_s_own_process_reads_its_own_file_alone(parse, streams):
    """However many streams there are; a file of another name is found by a look at all."""
    (streams / "broken.yaml").write_text("stream: broken\n")
    text = (streams / "orders.yaml").read_text()
    (streams / "aaa.yaml").write_text(text.replace("stream: orders", "stream: other"))
    assert set(parse(streams, wanted="orders")) == {"orders"}
    assert set(parse(streams, wanted="other")) == {"other"}
    assert "broken" in parse(streams, wanted="broken")


def test_the_shipped_stream_parses(parse):
    """dags/streams is what a new user sees first."""
    assert "orders" in parse(ROOT / "dags" / "streams")


OPERATIONS = {
    "tideline_resolve": ["resolve_incidents"],
    "tideline_audit": ["audit_stream"],
    "tideline_rewind": ["rewind_stream"],
    "tideline_erase": ["erase_records"],
    "tideline_maintenance": ["maintain_stream"],
    "tideline_redrive": ["redrive_records"],
}


def test_operations_are_dags_by_hand(parse, streams):
    """Whatever streams there are; parsing touches no service."""
    dags = parse(streams, "tideline_operations")
    assert {name: dag["tasks"] for name, dag in dags.items()} == OPERATIONS
    assert {dag["schedule"] for dag in dags.values()} == {"NullTimetable"}
    assert dags["tideline_rewind"]["max_active_runs"] == 1
    assert dags["tideline_resolve"]["params"] == ["choice", "incident", "reason", "stream"]
    form = ["accept_loss", "confirm", "reason", "stream", "to_run"]
    assert dags["tideline_rewind"]["params"] == form
    assert dags["tideline_maintenance"]["params"] == ["dry_run", "stream"]
    assert dags["tideline_redrive"]["params"] == ["class", "since", "stream"]
    assert dags["tideline_audit"]["outlets"] == ["tideline/audited"]


OWN_FILE = """\
from tideline.airflow.dags import operation_dags, stream_dags
globals().update(stream_dags({folder!r}) | operation_dags({folder!r}))
"""
"""What a site that has installed the wheel writes (docs/install.md)."""


@pytest.fixture
def parse_own_file(parse, streams, tmp_path):
    """Parse a Dag file of somebody else's, whatever folder the environment names."""
    (tmp_path / "tides.py").write_text(OWN_FILE.format(folder=str(streams)))
    return lambda wanted=None: parse("/no/such/folder", "tides", wanted, [str(tmp_path)])


def test_two_lines_in_a_file_of_one_s_own_make_all_dags(parse_own_file, tmp_path):
    """Airflow looks into a file only if its text has both words."""
    dags = parse_own_file()
    assert set(dags) == {"orders", *OPERATIONS}
    assert len(dags["orders"]["tasks"]) == 6
    from airflow.utils.file import might_contain_dag

    assert might_contain_dag(str(tmp_path / "tides.py"), safe_mode=True)


def test_two_lines_make_one_dag_in_a_task_s_own_process(parse_own_file, streams):
    """However many streams there are; an operation reads no stream file."""
    (streams / "broken.yaml").write_text("stream: broken")
    assert set(parse_own_file("orders")) == {"orders"}
    assert set(parse_own_file("tideline_audit")) == {"tideline_audit"}


def test_an_operation_s_stream_is_found_in_the_named_folder(streams, monkeypatch):
    """And not in the one that the environment names."""
    from airflow.sdk.exceptions import AirflowFailException

    from tideline.airflow.dags import operation_dags

    monkeypatch.setenv("TIDELINE_STREAMS", "/no/such/folder")
    task = operation_dags(streams)["tideline_maintenance"].get_task("maintain_stream")
    with pytest.raises(AirflowFailException, match="stream: got 'payments'; allowed: the name"):
        task.execute({"dag_run": SimpleNamespace(conf={"stream": "payments"})})


def test_a_folder_that_is_not_there_is_an_import_error(monkeypatch, tmp_path):
    """Without one, all Dags of a site would be gone without a word."""
    from tideline.airflow.dags import stream_dags

    with pytest.raises(BadInput, match=r"got /no/such, which is no folder\. Set TIDELINE_STREAMS"):
        stream_dags("/no/such")
    monkeypatch.setenv("TIDELINE_STREAMS", str(tmp_path / "typo"))
    with pytest.raises(BadInput, match="typo, which is no folder"):
        stream_dags()


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ({"confirm": "order"}, "confirm: got 'order'; allowed: 'orders'"),
        ({"force": True}, "force: unknown key; allowed: stream, to_run"),
        ({"accept_loss": "yes"}, "accept_loss: got 'yes'; allowed: true, false"),
        ({"reason": ""}, "reason: got nothing"),
        ({"to_run": 7}, "to_run: got 7; allowed: text"),
    ],
)
def test_a_form_that_is_not_right_rewinds_nothing(conf, text):
    """Airflow takes unknown keys, and a trigger by API skips its form: our code checks."""
    from airflow.sdk.exceptions import AirflowFailException

    from tideline.airflow.operations import RewindStream

    form = {"stream": "orders", "to_run": "one", "reason": "why", "confirm": "orders", **conf}
    task = RewindStream(task_id="rewind_stream")
    with pytest.raises(AirflowFailException, match=re.escape(text)):
        task.execute({"dag_run": SimpleNamespace(conf=form)})


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ({"key": "id=4711"}, "key: unknown key; allowed: stream, keys_from"),
        ({"keys_from": None}, "keys_from: got nothing"),
        ({"plan": False}, "confirm: got None; allowed: 'orders'"),
        ({"plan": False, "confirm": "order"}, "confirm: got 'order'; allowed: 'orders'"),
        ({"most": "all"}, "most: got 'all'; allowed: a whole number, a number"),
        ({"stream": "x*"}, "stream: got 'x*'; allowed: a pattern of a stream's name"),
        ({"stream": " , "}, "stream: got no name"),
    ],
)
def test_a_form_that_is_not_right_erases_nothing(streams, conf, text):
    """And no key stands in a form: Airflow would keep it."""
    from airflow.sdk.exceptions import AirflowFailException

    from tideline.airflow.operations import EraseRecords

    form = {"stream": "orders", "keys_from": "/keys.csv", "reason": "why", **conf}
    task = EraseRecords(task_id="erase_records", folder=streams)
    with pytest.raises(AirflowFailException, match=re.escape(text)):
        task.execute({"dag_run": SimpleNamespace(conf=form)})


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ({"classes": []}, "classes: unknown key; allowed: stream, class, since"),
        ({"class": 7}, "class: got 7; allowed: text, a list, null"),
        ({"class": ["framing", 7]}, "class: got 7; allowed: text"),
        ({"class": " , "}, "class: got ' , ', which names nothing"),
        ({"since": "yesterday"}, "since: got 'yesterday'; allowed: a time with its offset"),
        ({"since": "2026-01-31T00:00:00"}, "since: got '2026-01-31T00:00:00'; allowed: a time"),
        ({"stream": None}, "stream: got nothing"),
        ({"class": None, "since": None}, "orders: decode: got nothing; a redrive needs it"),
    ],
)
def test_a_form_that_is_not_right_redrives_nothing(streams, monkeypatch, conf, text):
    """What Airflow's page sends for fields that nobody has filled, null, is right."""
    from airflow.sdk.exceptions import AirflowFailException

    from tideline.airflow.operations import RedriveRecords

    monkeypatch.setenv("TIDELINE_STREAMS", str(streams))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", KAFKA)
    task = RedriveRecords(task_id="redrive_records")
    asked = SimpleNamespace(conf={"stream": "orders", **conf}, run_id="manual")
    with pytest.raises(AirflowFailException, match=re.escape(text)):
        task.execute({"dag_run": asked})


REDRIVEN = [
    ({"class": ["framing", "malformed"]}, ("framing", "malformed"), None),
    ({"class": "framing, malformed"}, ("framing", "malformed"), None),
    ({"since": "2026-01-31T00:00:00Z"}, (), datetime(2026, 1, 31, tzinfo=UTC)),
]


@pytest.mark.parametrize(("conf", "classes", "since"), REDRIVEN)
def test_a_redrive_does_what_its_form_says(streams, monkeypatch, conf, classes, since):
    """Under a run id that no run of the stream's own Dag has."""
    from tideline.airflow import operations

    asked = []

    def redrive(run, classes, since):
        asked.append((run.run_id, classes, since))
        return Redriven(3, ())

    monkeypatch.setenv("TIDELINE_STREAMS", str(streams))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", KAFKA)
    monkeypatch.setattr(operations, "redrive", redrive)
    run = SimpleNamespace(conf={"stream": "orders", **conf}, run_id="manual")
    answer = operations.RedriveRecords(task_id="redrive_records").execute({"dag_run": run})
    assert asked == [("redrive__manual", classes, since)]
    assert (answer["status"], answer["asked"], answer["left"]) == ("nothing_to_do", 3, 3)


@pytest.mark.parametrize(
    ("error", "airflow_s"),
    [
        (StreamBusy("the decoder is at work", lease="decoder"), "AirflowRescheduleException"),
        (RegistryAway("no answer"), "AirflowException"),
        (RegistryRefused("401"), "AirflowFailException"),
        (DecodingHalted("no"), "AirflowFailException"),
    ],
    ids=["busy", "away", "refused", "halted"],
)
def test_a_redrive_s_errors_are_translated_as_everywhere(streams, monkeypatch, error, airflow_s):
    """Somebody else at work costs no try; a registry that is away costs one."""
    from airflow.sdk import exceptions

    from tideline.airflow import operations

    def redrive(run, classes, since):
        raise error

    monkeypatch.setenv("TIDELINE_STREAMS", str(streams))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", KAFKA)
    monkeypatch.setattr(operations, "redrive", redrive)
    run = SimpleNamespace(conf={}, run_id="manual")
    task = operations.RedriveRecords(task_id="redrive_records", stream="orders")
    expected = getattr(exceptions, airflow_s)
    with pytest.raises(expected) as raised:
        task.execute({"dag_run": run})
    assert type(raised.value) is expected


def test_a_stream_that_is_not_there_is_named_without_those_that_are(streams, monkeypatch):
    """Found in the streams folder, as its Dag is. Not everybody may know of every stream."""
    from airflow.sdk.exceptions import AirflowFailException

    from tideline.airflow.operations import AuditStream

    monkeypatch.setenv("TIDELINE_STREAMS", str(streams))
    task = AuditStream(task_id="audit", stream="payments")
    with pytest.raises(AirflowFailException, match="stream: got 'payments'; allowed: the name"):
        task.execute({})


def test_an_audit_reads_no_negative_number_of_buckets(streams, monkeypatch):
    from airflow.sdk.exceptions import AirflowFailException

    from tideline.airflow.operation_forms import AUDIT
    from tideline.airflow.operations import AuditStream

    monkeypatch.setenv("TIDELINE_STREAMS", str(streams))
    for arguments, buckets, said in (
        ({"buckets": -1}, None, "buckets: got -1; allowed: 0 or more"),
        ({"form": AUDIT}, -2, "buckets: got -2; allowed: 0 or more"),
        ({"form": AUDIT}, "2", "buckets: got '2'; allowed: a whole number"),
    ):
        task = AuditStream(task_id="audit", stream="orders", **arguments)
        run = SimpleNamespace(conf={"stream": "orders", "buckets": buckets})
        with pytest.raises(AirflowFailException, match=said):
            task.execute({"dag_run": run})


def test_connecting_is_really_refused_here(processes):
    """Or the first test would prove nothing."""
    with pytest.raises(AssertionError, match="a Dag file opened a connection"):
        processes.submit(connected).result()
