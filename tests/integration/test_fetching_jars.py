"""Ivy itself and a Maven repository of a test's own: what it is asked for, what is refused."""

import pytest

from tests.jar_sets import SETS, TEXTS, fetched_from, use_sets
from tests.worlds.http_stub import http_stub
from tideline.errors import BadInput, ServiceAway
from tideline.launch import jars


@pytest.fixture
def repository(monkeypatch):
    """A server of `TEXTS`; 404 for all else."""
    with http_stub() as stub:
        stub.has = dict(TEXTS)

        def answer(request):
            data = stub.has.get(request.path.removeprefix("/"))
            request.send_response(404 if data is None else 200)
            request.send_header("Content-Length", str(len(data or b"")))
            request.end_headers()
            if request.command == "GET":
                request.wfile.write(data or b"")

        stub.answer = answer
        root = f'name="central" root="http://127.0.0.1:{stub.port}/"'
        monkeypatch.setattr(jars, "AS_THEY_ARE", jars.AS_THEY_ARE.replace('name="central"', root))
        yield stub


@pytest.fixture
def place(monkeypatch, tmp_path):
    """Where jars come to lie."""
    return use_sets(monkeypatch, tmp_path)


def test_each_file_is_asked_for_and_nothing_else(place, repository):
    """No description, no sum; two versions of a module come where two sets have them."""
    jars.fetch(*SETS)
    assert {path.removeprefix("/") for path, _ in repository.asked} == TEXTS.keys()
    assert fetched_from(place) == {
        name: {path.rsplit("/", 1)[1]: TEXTS[path] for path in paths}
        for name, paths in SETS.items()
    }
    assert sorted(path.name for path in place.parent.iterdir()) == ["checked", "jars"]


def test_a_wrong_file_is_refused(place, repository):
    repository.has["org/a/one/1/one-1.jar"] = b"another"
    with pytest.raises(BadInput, match=r"one-1\.jar: SHA-256 .*, expected "):
        jars.fetch(*SETS)
    assert [path.name for path in place.iterdir()] == ["lock"]


def test_a_missing_file_is_named(place, repository):
    del repository.has["org/a/two/2/two-2.jar"]
    with pytest.raises(ServiceAway, match=r"(?s)could not be fetched .*org\.a#two;2: not found"):
        jars.fetch(*SETS)
    assert [path.name for path in place.iterdir()] == ["lock"]
