"""Forms, notes and assets of Dags: what people see of them in Airflow."""

import pytest

from tests.dags.golden import STREAMS
from tideline.airflow.forms import asset_of, links, run_form, topics_of
from tideline.stream.stream import Stream


@pytest.fixture
def stream():
    return Stream.model_validate(STREAMS["raw"])


def test_notes_lead_to_the_page_and_to_the_runbook(monkeypatch):
    """Below Airflow's own address; to the docs' site where there is one."""
    monkeypatch.delenv("TIDELINE_DOCS", raising=False)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://air.example/team/")
    page, runbook = links("orders").split(" | ")
    assert page == "[This stream](/team/tideline/?stream=orders)"
    assert runbook == "[runbook](/team/tideline/docs/incidents-and-errors.md)"
    monkeypatch.setenv("TIDELINE_DOCS", "https://docs.example/t/")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://air.example")
    assert links().split(" | ") == [
        "[All streams](/tideline/)",
        "[runbook](https://docs.example/t/incidents-and-errors/)",
        "[docs](https://docs.example/t/)",
    ]


def test_a_window_stands_apart_in_the_form():
    """Airflow's backfill form has a window of its own; each field has a title."""
    sections = {name: field.schema.get("section") for name, field in run_form().items()}
    assert [*sections] == ["plan_only", "reason", "from", "to", "ranges"]
    assert sections["plan_only"] is sections["reason"] is None
    assert len({sections[name] for name in ("from", "to", "ranges")}) == 1
    assert all(field.schema["title"] for field in run_form().values())


def test_topics_and_tables_are_assets(stream):
    """Each with a group and a description, so that Airflow's graph shows where records go."""
    (topic,) = topics_of(stream)
    assert (topic.name, topic.group) == ("kafka/kafka_default/orders", "kafka")
    table = asset_of(stream, stream.table.uri)
    typed = asset_of(stream, "s3a://lake/typed", "decoded")
    assert (table.name, table.uri, table.group) == (
        "tideline/orders",
        "file:///lake/orders",
        "tideline",
    )
    assert (typed.name, typed.uri) == ("tideline/orders/decoded", "s3a://lake/typed")
    assert typed.extra == {"description": "Typed rows of orders"}
