"""A topic that others write to, and what `tideline run` makes of it."""

import json
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable


@pytest.fixture
def topic(harness):
    """One of one partition."""
    return harness.create("t", 1)


@pytest.fixture
def landed(harness, command, registry, monkeypatch, topic):
    """Runs `tideline run` on the topic: rows of the typed table, and of the quarantine."""

    def land(value, key=None, **decode):
        monkeypatch.setenv("AIRFLOW_CONN_REGISTRY_DEFAULT", json.dumps(registry.connection))
        decode = {"value": value, "quarantine": {"max_share": 1}, **decode}
        if key is not None:
            decode["key"] = key
        more = {"registry": {"connection": "registry_default"}} if "subject" in value else {}
        file = harness.stream_file(["t"], name="t", decode=decode, **more)
        status, said = command("run", str(file))
        assert status == 0, said
        typed, aside = (rows(f"{harness.lake}/t_{suffix}") for suffix in ("decoded", "quarantine"))
        return SimpleNamespace(typed=typed, aside=aside, said=said)

    return land


def rows(uri):
    """A table's rows by offset; none where there is no table."""
    if not DeltaTable.is_deltatable(uri):
        return []
    found = DeltaTable(uri).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["offset"])
