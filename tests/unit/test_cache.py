"""What lies in a cache is executed: whose it may be, and how it comes there."""

import hashlib
import os
import shutil
import stat
from pathlib import Path

import pytest

from tideline.errors import BadInput
from tideline.launch import jars, java
from tideline.launch import jars as checksums
from tideline.launch.java import our_jar
from tideline.launch.jvm import ClassArchive
from tideline.launch.runtime import foreign, own_folder, replaced
from tideline.launch.submit import package_zip

STRANGER = 65534
EMPTY = hashlib.sha256().hexdigest()


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache of our own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TIDELINE_CACHE", str(folder))
    package_zip.cache_clear()
    yield folder
    package_zip.cache_clear()


@pytest.fixture
def given_away(monkeypatch):
    """Makes a file or folder somebody else's, as well as this test may."""

    def gives(path):
        if os.geteuid() == 0:
            os.chown(path, STRANGER, STRANGER)
        else:
            me = os.geteuid()
            monkeypatch.setattr(os, "geteuid", lambda: me + 1)

    return gives


def zip_of_the_package():
    """The one that Spark's processes import."""
    package_zip.cache_clear()
    return Path(package_zip())


def script_of_java():
    """The one that Spark takes for Java."""
    return java._from_package(Path("/opt/java")).home / "bin" / "java"


def jar_for_spark():
    """One of those on Spark's class path."""
    return jars.spark_jars()[0]


@pytest.fixture
def fetched(cache, monkeypatch):
    """Jars in the cache, as if they had been fetched."""
    folder = jars._spark_folder()
    folder.mkdir(parents=True)
    for jar in (folder / "a.jar", our_jar(folder)):
        jar.touch()
    monkeypatch.setattr(checksums, "pinned", lambda: {"spark": {"a.jar": EMPTY}})
    return cache


USED = [zip_of_the_package, script_of_java, jar_for_spark]


@pytest.mark.parametrize("use", USED)
def test_a_file_of_somebody_else_is_refused_by_name(fetched, given_away, use):
    """Their code would run with our secrets."""
    used = use()
    assert foreign(used) is None
    given_away(used)
    with pytest.raises(BadInput, match=rf"{fetched}.*: owned by user .*TIDELINE_CACHE"):
        use()


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o737])
@pytest.mark.parametrize("use", USED)
def test_a_folder_that_others_may_write_is_refused_by_name(fetched, mode, use, monkeypatch):
    """They could put another file in its place at any time."""
    folder = use().parent
    folder.chmod(mode)
    group = os.getegid()
    monkeypatch.setattr(os, "getegid", lambda: group + 1)  # so its group is another one
    with pytest.raises(BadInput, match=rf"{folder}: .*mode {mode:04o}"):
        use()


def test_what_root_or_a_user_s_own_group_may_write_is_trusted(fetched):
    """Images belong to root; many systems give each user a group."""
    jar = jar_for_spark()
    jar.chmod(0o664)
    jar.parent.chmod(0o775)
    assert foreign(jar) is None


def test_a_cache_beside_others_in_a_folder_as_tmp_is_trusted(fetched, monkeypatch):
    """Nobody may rename what others own there."""
    fetched.parent.chmod(0o1777)
    assert foreign(jar_for_spark()) is None
    monkeypatch.setenv("TIDELINE_CACHE", str(fetched.parent))
    assert foreign(own_folder("cache", "jars")) is None


def test_an_archive_of_somebody_else_is_not_mapped(cache, given_away, tmp_path):
    """It costs time only, so nobody is stopped."""
    for name in ("java", "a.jar"):
        (tmp_path / name).touch()
    found = ClassArchive([str(tmp_path / "java"), "-cp", f"{tmp_path}/a.jar"])
    assert found.options()[0].startswith("-XX:DumpLoadedClassList=")
    found.path.touch()
    assert found.options()[0].startswith("-XX:SharedArchiveFile=")
    given_away(found.path)
    assert found.options() == []


def test_a_draft_lies_where_nobody_else_can_be(cache, tmp_path):
    """A name that can be guessed may be a link that somebody has put there."""
    target = own_folder("packages") / "a.zip"
    with replaced(target) as draft:
        draft.write_text("new")
        assert stat.S_IMODE(draft.parent.stat().st_mode) == 0o700
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("make", [zip_of_the_package, script_of_java])
def test_no_draft_has_a_name_that_can_be_guessed(cache, monkeypatch, make, tmp_path):
    """Links at all names that another process could have thought of."""
    folder = make().parent
    names = [f"{path.name}{end}" for path in folder.iterdir() for end in ("", f".{os.getpid()}")]
    names += [Path(name).with_suffix(f".{os.getpid()}").name for name in names]
    shutil.rmtree(folder)
    folder.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in {n for n in names if str(os.getpid()) in n}:
        (folder / name).symlink_to(victim)
    make()
    assert victim.read_text() == "precious"


def test_the_notes_for_an_archive_have_a_name_that_nobody_can_guess(cache, tmp_path):
    for name in ("java", "a.jar"):
        (tmp_path / name).touch()
    command = [str(tmp_path / "java"), "-cp", f"{tmp_path}/a.jar"]
    one, two = (ClassArchive(command).options()[0] for _ in range(2))
    assert one != two


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of somebody else's")
def test_a_link_of_somebody_else_is_not_followed(tmp_path, monkeypatch):
    """It leads to a folder of ours now, and to theirs in a moment."""
    link = tmp_path / "link"
    (tmp_path / "ours" / "archives").mkdir(parents=True)
    link.symlink_to(tmp_path / "ours")
    monkeypatch.setenv("TIDELINE_CACHE", str(link))
    assert foreign(link / "archives" / "x.jsa") is None
    os.lchown(link, STRANGER, STRANGER)
    assert foreign(link / "archives" / "x.jsa") == link
    with pytest.raises(BadInput, match=f"{link}: owned by user {STRANGER}"):
        own_folder("archives")
