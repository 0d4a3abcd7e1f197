"""Jars come by coordinates that are pinned: all at once, each as it was, or none at all."""

import fcntl
import shutil
from xml.etree import ElementTree

import pytest

from tests.jar_sets import SETS, TEXTS, fetched_from, use_sets
from tideline.errors import BadInput, ServiceAway
from tideline.launch import jars

FIRST, SECOND = SETS
WANTED = {name: {p.rsplit("/", 1)[1]: TEXTS[p] for p in paths} for name, paths in SETS.items()}


class Ivy:
    """Stands for `retrieve`: brings what the module names from a repository in memory."""

    def __init__(self):
        self.repository = dict(TEXTS)
        self.starts = []
        self.fails = None

    def __call__(self, module, target, types, scratch, settings):
        dependencies = ElementTree.fromstring(module).findall("dependencies/dependency")
        asked = [one.attrib["name"] for one in dependencies]
        self.starts.append(asked)
        for one in dependencies:
            assert one.attrib["transitive"] == "false"
            org, name, version = (one.attrib[k] for k in ("org", "name", "rev"))
            file = f"{name}-{version}.jar"
            text = self.repository.get(f"{org.replace('.', '/')}/{name}/{version}/{file}")
            folder = target / one.attrib["conf"].removesuffix("->default")
            folder.mkdir(parents=True, exist_ok=True)
            if text is not None:
                (folder / file).write_bytes(text)
            if self.fails is not None:
                raise self.fails


@pytest.fixture
def ivy(monkeypatch):
    found = Ivy()
    monkeypatch.setattr(jars, "retrieve", found)
    return found


@pytest.fixture
def place(monkeypatch, tmp_path, ivy):
    """Where jars come to lie."""
    return use_sets(monkeypatch, tmp_path)


def test_all_sets_come_by_one_start(place, ivy):
    """A start takes longer than most files; a jar of two sets comes to lie in both."""
    found = jars.fetch(FIRST, SECOND)
    assert fetched_from(place) == WANTED
    assert [jar.name for jar in found] == [file for files in WANTED.values() for file in files]
    assert ivy.starts == [["one", "two", "one", "two"]]


def test_what_is_there_is_not_fetched_again(place, ivy):
    jars.fetch(FIRST)
    jars.fetch(FIRST, SECOND)
    jars.fetch(FIRST, SECOND)
    assert ivy.starts == [["one", "two"], ["one", "two"]]
    assert fetched_from(place) == WANTED


def test_a_wrong_file_lets_no_set_in(place, ivy):
    ivy.repository["org/a/two/2/two-2.jar"] = b"two, changed"
    with pytest.raises(BadInput, match=r"two-2\.jar: SHA-256 .*, expected "):
        jars.fetch(FIRST, SECOND)
    assert [file.name for file in place.iterdir()] == ["lock"]


def test_a_missing_file_lets_no_set_in(place, ivy):
    del ivy.repository["org/a/two/2/two-2.jar"]
    with pytest.raises(BadInput, match=r"no two-2\.jar in "):
        jars.fetch(FIRST, SECOND)
    assert [file.name for file in place.iterdir()] == ["lock"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), ServiceAway("no network")])
def test_a_download_that_ends_early_leaves_nothing(place, ivy, failure):
    ivy.fails = failure
    with pytest.raises(type(failure)):
        jars.fetch(FIRST)
    assert [file.name for file in place.iterdir()] == ["lock"]
    ivy.fails = None
    jars.fetch(FIRST)
    assert fetched_from(place) == {FIRST: WANTED[FIRST]}


def test_what_a_killed_download_has_left_goes_with_the_next(place, ivy, monkeypatch):
    """Nobody tidies up after SIGKILL."""
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)
        ivy.fails = ServiceAway("killed")
        with pytest.raises(ServiceAway):
            jars.fetch(FIRST)
    assert len([left for left in place.iterdir() if left.is_dir()]) == 1
    ivy.fails = None
    jars.fetch(FIRST)
    assert fetched_from(place) == {FIRST: WANTED[FIRST]}


def test_who_comes_second_takes_what_the_first_has_fetched(place, ivy, monkeypatch):
    """Ten streams on a new machine fetch once."""
    lock = fcntl.flock

    def another_has_fetched(*_):
        monkeypatch.setattr(fcntl, "flock", lock)
        jars.fetch(FIRST)

    monkeypatch.setattr(fcntl, "flock", another_has_fetched)
    jars.fetch(FIRST)
    assert ivy.starts == [["one", "two"]]


def test_what_is_asked_for_has_to_be_pinned(place, monkeypatch):
    """Otherwise the jars of the version before would come, under the new version's name."""
    sets = {FIRST: ((("org.a", "one", "2"),), ())}
    monkeypatch.setattr(jars, "JAR_SETS", sets)
    with pytest.raises(BadInput, match=r"no org\.a:one:2 among the first jars; `make pins`"):
        jars.fetch(FIRST)
