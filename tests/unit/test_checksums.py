"""Which jars are loaded: those that the manifest names, as it names them."""

import hashlib
import os
import re
from pathlib import Path

import pytest

from devstack.jar_pins import line_of
from tideline.errors import BadInput
from tideline.launch import jars
from tideline.launch import jars as checksums
from tideline.launch.jars import pinned
from tideline.launch.java import PREFIX, our_jar
from tideline.model.addresses import STORES
from tideline.versions import JAR_SETS

ROOT = Path(__file__).parents[2]
TEXTS = {"kafka.jar": b"kafka", "lz4.jar": b"lz4"}
STORE = {"s3a.jar": b"s3a"}


def sums(texts):
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Two jars that are pinned, and ours."""
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    sets = {"spark": sums(TEXTS), "s3a": sums(STORE), "azure": {}, "google": {}}
    monkeypatch.setattr(checksums, "pinned", lambda: sets)
    place = jars._spark_folder()
    place.mkdir(parents=True)
    for name, text in TEXTS.items():
        (place / name).write_bytes(text)
    our_jar(place).touch()
    return place


@pytest.fixture
def hashed(monkeypatch):
    """Names of the jars that were read as a whole."""
    read = []
    digest = checksums.digest_of_file
    monkeypatch.setattr(
        checksums, "digest_of_file", lambda jar: read.append(jar.name) or digest(jar)
    )
    return read


def loaded():
    return [jar.name for jar in jars.spark_jars()]


def test_the_jars_that_are_named_are_loaded(folder):
    """And our own; those of other versions of Tideline are passed over."""
    (folder / f"{PREFIX}old.jar").touch()
    assert loaded() == ["kafka.jar", "lz4.jar", our_jar(folder).name]


def test_another_jar_is_refused_by_name(folder):
    """Nobody knows who has put it there."""
    (folder / "evil.jar").touch()
    with pytest.raises(BadInput, match=r"/evil\.jar: no jar of this version"):
        loaded()


def test_a_changed_jar_is_refused_by_name(folder):
    loaded()
    before = (folder / "kafka.jar").stat()
    (folder / "kafka.jar").write_bytes(b"KAFKA")  # as long as before
    os.utime(folder / "kafka.jar", ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(BadInput, match=r"/kafka\.jar: SHA-256 .*, expected "):
        loaded()


def test_a_missing_jar_is_named(folder):
    (folder / "lz4.jar").unlink()
    with pytest.raises(BadInput, match=r"no lz4\.jar in .*tideline fetch"):
        loaded()


def test_a_jar_is_read_once_until_it_changes(folder, hashed):
    """Sixty megabytes take a fifth of a second, for each run."""
    loaded()
    loaded()
    assert hashed == ["kafka.jar", "lz4.jar"]
    (folder / "lz4.jar").touch()
    loaded()
    assert hashed[2:] == ["lz4.jar"]


def test_what_somebody_else_has_found_is_not_believed(folder, hashed, monkeypatch):
    loaded()
    (kept,) = (folder.parents[1] / "checked").iterdir()
    kept.chmod(0o666)
    loaded()
    assert hashed == ["kafka.jar", "lz4.jar"] * 2


def test_a_cache_that_cannot_be_written_costs_time_only(folder, hashed, monkeypatch):
    monkeypatch.setenv("TIDELINE_SPARK_JARS", str(folder))
    (folder / "file").touch()
    monkeypatch.setenv("TIDELINE_CACHE", str(folder / "file"))
    assert loaded() == loaded()
    assert hashed == ["kafka.jar", "lz4.jar"] * 2


def test_a_folder_of_the_site_may_hold_those_for_object_stores(folder, monkeypatch):
    """As `tideline fetch --s3a --into` makes it; Spark may have them as well."""
    monkeypatch.setenv("TIDELINE_SPARK_JARS", str(folder))
    assert [jar.name for jar in jars.spark_jars("s3a")] == loaded()
    (folder / "s3a.jar").write_bytes(b"s3a")
    assert "s3a.jar" not in loaded()
    assert "s3a.jar" in [jar.name for jar in jars.spark_jars("s3a")]
    (folder / "evil.jar").touch()
    with pytest.raises(BadInput, match=r"evil\.jar"):
        loaded()


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({**STORE, "more.jar": b""}, "more.jar: no jar"),
        ({"s3a.jar": b"S3A"}, "s3a.jar: SHA-256"),
        ({"other.jar": b"s3a"}, "other.jar: no jar"),
    ],
)
def test_a_download_that_is_another_one_is_refused_by_name(folder, monkeypatch, texts, named):
    """Ivy compares with a sum of the server's own."""

    def retrieve(_module, target, *_):
        (target / "s3a").mkdir(parents=True)
        for name, text in texts.items():
            (target / "s3a" / name).write_bytes(text)

    monkeypatch.setattr(jars, "retrieve", retrieve)
    with pytest.raises(BadInput, match=re.escape(named)):
        jars.fetch("s3a")
    assert left_in(folder.parent) == ["lock", folder.name]


def left_in(place):
    return sorted(path.name for path in place.iterdir())


def test_every_jar_that_is_fetched_is_pinned():
    """`make pins` writes them all."""
    pinned.cache_clear()
    assert pinned().keys() == JAR_SETS.keys()
    folders = [ROOT / top for top in ("plugins", "devstack", "bench", "tests")]
    texts = [file.read_text() for folder in folders for file in folder.rglob("*.py")]
    fetched = {name for text in texts for name in re.findall(r'\bfetch\("([a-z0-9-]+)"', text)}
    for names in re.findall(r"\$\(JARS\) (.*?);", (ROOT / "Makefile").read_text()):
        fetched |= {*names.split()}
    assert fetched | {*STORES.values()} == JAR_SETS.keys()
    for name, (wanted, _) in JAR_SETS.items():
        assert {"-".join(parts[1:]) + ".jar" for parts in wanted} <= pinned()[name].keys()


def test_a_pin_has_the_coordinate_that_leads_to_the_file(tmp_path):
    """No description is read when it is fetched, so nothing else could name it."""
    jar = tmp_path / "org.a" / "one" / "1" / "one-1.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"one")
    digest = hashlib.sha256(b"one").hexdigest()
    assert line_of("spark", jar) == f"{digest}  spark/one-1.jar  org.a:one:1"
    other = jar.with_name("one-1-linux.jar")
    other.write_bytes(b"one")
    assert line_of("spark", other) == f"{digest}  spark/one-1-linux.jar  org.a:one:1:linux"
    with pytest.raises(BadInput, match=r"one-2\.jar: expected one-1\.jar"):
        line_of("spark", jar.with_name("one-2.jar"))


def test_each_coordinate_is_that_of_its_file():
    for _, _, file, (_, *named) in jars._pins():
        assert file == f"{'-'.join(named)}.jar"
