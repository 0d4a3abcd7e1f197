"""Sets of jars of a test's own: a manifest, and what a Maven repository has."""

import hashlib

from tideline.launch import jars

TEXTS = {
    "org/a/one/1/one-1.jar": b"one",
    "org/a/two/1/two-1.jar": b"two",
    "org/a/two/2/two-2.jar": b"two, newer",
}
"""Paths in the repository. Both sets have the first, and each a version of the second."""
SETS = {
    "first": ["org/a/one/1/one-1.jar", "org/a/two/1/two-1.jar"],
    "second": ["org/a/one/1/one-1.jar", "org/a/two/2/two-2.jar"],
}


def coordinate(path):
    """Organisation, module and version of a path in a repository."""
    *organisation, module, version, _ = path.split("/")
    return ".".join(organisation), module, version


def use_sets(monkeypatch, folder):
    """Let `tideline.launch.jars` know these sets, with an empty cache.

    Args:
        monkeypatch: Takes it back.
        folder: For manifest and cache.

    Returns:
        Where jars come to lie.
    """
    lines = [
        f"{hashlib.sha256(TEXTS[path]).hexdigest()}  {name}/{path.rsplit('/', 1)[1]}"
        f"  {':'.join(coordinate(path))}\n"
        for name, paths in SETS.items()
        for path in paths
    ]
    manifest = folder / "jars.sha256"
    manifest.write_text("".join(lines))
    asked = {name: ([coordinate(paths[0])], ()) for name, paths in SETS.items()}
    monkeypatch.setattr(jars, "MANIFEST", manifest)
    monkeypatch.setattr(jars, "JAR_SETS", asked)
    monkeypatch.setattr(jars, "pinned", jars.pinned.__wrapped__)
    monkeypatch.setenv("TIDELINE_CACHE", str(folder / "cache"))
    return folder / "cache" / "jars"


def fetched_from(place):
    """Text by set and file of what lies in the cache; the lock is passed over."""
    return {
        folder.name.rsplit("-", 1)[0]: {jar.name: jar.read_bytes() for jar in folder.iterdir()}
        for folder in place.iterdir()
        if folder.is_dir()
    }
