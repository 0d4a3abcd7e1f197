"""Which jars are loaded: those that `jars.sha256` names, if their content is what it says.

The sums that Ivy compares come from the server that the jars come from; these come with Tideline.
`make pins` writes them. A jar is hashed when it is fetched, and again when its size, times or inode
have changed since; what was found lies in the cache, in `checked/`.

Jars from Maven Central, fetched once with pyspark's Ivy, and one of ours; never during a run. Ivy
resolves nothing: `jars.sha256` has the coordinate of each file, so all sets come by one start of
it, without reading any description. Java's own settings for proxies and certificates hold.

Those for object stores are an exception: the first run that needs them fetches them.
`tideline fetch --for azure` does it before.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tideline.children import run
from tideline.errors import BadInput, ServiceAway, TidelineError
from tideline.launch.java import PREFIX, build_jar, download_options, find_java, our_jar
from tideline.launch.programs import spark_variables
from tideline.launch.progress import working
from tideline.launch.runtime import cache_folder, own_folder, refuse_foreign, replaced
from tideline.model.addresses import STORES, StoreKind
from tideline.versions import ALONE, JAR_SETS, LZ4

MANIFEST = Path(__file__).with_name("jars.sha256")
"""Lines of a SHA-256, a path, a Maven coordinate, with two spaces between. A path is the name of a
set of jars, and that of a file."""
_Proofs = dict[str, list[int | str]]
Coordinate = tuple[str, ...]
"""Organisation, module, version; behind them a classifier where the jar has one."""


@cache
def pinned() -> Mapping[str, Mapping[str, str]]:
    """SHA-256 by set and file."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for digest, jars, file, _ in _pins():
        found[jars][file] = digest
    return found


def _pins() -> Iterator[tuple[str, str, str, Coordinate]]:
    """SHA-256, set, file and coordinate of each jar."""
    for line in MANIFEST.read_text().splitlines():
        digest, path, coordinate = line.split("  ")
        jars, file = path.split("/")
        yield digest, jars, file, tuple(coordinate.split(":"))


def digest_of_file(file: Path) -> str:
    """Its SHA-256."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def refuse_unknown_jars(folder: Path, sets: Iterable[str], others: Collection[str] = ()) -> None:
    """Refuse a folder with a jar that nobody has named.

    Args:
        folder: Holds jars.
        sets: Whose jars it may hold.
        others: What else it may hold.

    Raises:
        BadInput: It holds another one; it is named.
    """
    named = {file for jars in sets for file in pinned()[jars]} | {*others}
    strange = sorted(jar.name for jar in folder.glob("*.jar") if jar.name not in named)
    if strange:
        raise BadInput(
            f"{folder / strange[0]}: no jar of this version of Tideline; allowed: what"
            f" {MANIFEST.name} names. Remove it; Spark's own settings name jars of your own",
            path=str(folder / strange[0]),
        )


def verified(folder: Path, jars: str, *, may_lack: bool = False) -> list[Path]:
    """The jars of a set, in a folder, each of them unchanged.

    Args:
        folder: Where they are.
        jars: Name of the set.
        may_lack: Whether those that are missing are passed over.

    Raises:
        BadInput: One is missing, has another content, or could be somebody else's; it is named.
    """
    known = _Known(folder)
    found = []
    for file, digest in sorted(pinned()[jars].items()):
        path = folder / file
        if may_lack and not path.exists():
            continue
        known.check(path, digest)
        found.append(path)
    known.keep()
    return found


class _Known:
    """What was found about the jars in a folder, kept for other processes.

    Args:
        folder: Holds jars.
    """

    def __init__(self, folder: Path) -> None:
        self._name = f"{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]}.json"
        self._proofs: _Proofs = {}
        self._is_new = False
        with suppress(OSError, ValueError, BadInput):
            kept = own_folder("checked") / self._name
            refuse_foreign(kept)
            self._proofs = json.loads(kept.read_bytes())

    def check(self, jar: Path, digest: str) -> None:
        """Refuse a jar that has not this digest."""
        try:
            refuse_foreign(jar)
            found = jar.stat()
        except FileNotFoundError:
            raise BadInput(
                f"no {jar.name} in {jar.parent}; `tideline fetch`, in a checkout `make setup` or"
                " `make setup-tests`, fetches it once",
                folder=str(jar.parent),
            ) from None
        times = (found.st_mtime_ns, found.st_ctime_ns)
        proof: list[int | str] = [found.st_dev, found.st_ino, found.st_size, *times, digest]
        if self._proofs.get(jar.name) == proof:
            return
        if (actual := digest_of_file(jar)) != digest:
            raise BadInput(
                f"{jar}: SHA-256 {actual}, expected {digest}: it is damaged, or another one."
                f" Remove {jar.parent} and run `tideline fetch` again; if it comes again, look at"
                " what your Maven mirror serves",
                path=str(jar),
            )
        self._proofs[jar.name] = proof
        self._is_new = True

    def keep(self) -> None:
        """Write it down; where that cannot be, the next process looks again."""
        if self._is_new:
            with suppress(OSError, BadInput), replaced(own_folder("checked") / self._name) as draft:
                draft.write_text(json.dumps(self._proofs))


TYPES = ("jar", "bundle")
"""Ivy's types of artifacts that are jars."""
AS_THEY_ARE = (
    '<ivysettings><property name="ivy.checksums" value=""/>'
    '<settings defaultResolver="central" defaultConflictManager="all"/>'
    '<resolvers><ibiblio name="central" m2compatible="true" usepoms="false"'
    ' useMavenMetadata="false"/></resolvers></ivysettings>'
)
"""Ivy's settings for coordinates that are known: it reads no description, and no sum of the
server's own. Where two sets have two versions of a module, both come."""
_DRAFT = "draft-"


def spark_jars(store: StoreKind | None = None) -> list[Path]:
    """The jars that Tideline's Spark application needs besides Spark's own.

    `TIDELINE_SPARK_JARS` names a folder that holds them. If it is empty, Spark has them already.

    Args:
        store: The object store that tables are in; its name is that of a set. The jars for it are
            fetched when they are first asked for.

    Raises:
        BadInput: The jars have not been fetched yet, ours is another version's, or there is one
            that nobody has named, or whose content has changed.
    """
    configured = os.environ.get("TIDELINE_SPARK_JARS")
    if configured == "":
        return []
    folder = Path(configured).absolute() if configured else _spark_folder()
    sets = ("spark", *STORES.values()) if configured else ("spark",)
    committers = [jar.name for jar in folder.glob(f"{PREFIX}*.jar")]  # of other versions, too
    refuse_unknown_jars(folder, sets, committers)
    fetched = verified(folder, "spark")
    ours = our_jar(folder)
    if not ours.exists():
        raise BadInput(
            f"no {ours.name} in {folder}; `make setup` builds it in {_spark_folder()}",
            folder=str(folder),
        )
    refuse_foreign(ours)
    if store and configured:
        fetched += verified(folder, store, may_lack=True)  # Spark may have them
    elif store:
        fetched += fetch(store)
    return [*fetched, ours]


def ahead_of_spark(jars: Sequence[Path]) -> list[Path]:
    """Those that stand in for one of Spark's own, so they come before it on each class path."""
    return [jar for jar in jars if jar.name == f"lz4-java-{LZ4}.jar"]


def delta_jars() -> list[Path]:
    """The jars of Delta's own engine, for tests and benchmarks."""
    return _jars_of("delta")


def broker_jars() -> list[Path]:
    """The jars of the embedded broker."""
    return _jars_of("broker")


def fetch_for_runs(*others: str) -> list[Path]:
    """Fetch the jars that runs need, unless they are in the cache, and compile ours.

    Args:
        others: Sets of jars that are wanted besides; they come by the same start of Ivy.

    Returns:
        Where they are.

    Raises:
        BadInput: There is no Java, or pyspark is not the pinned one.
    """
    fetch("spark", *others)
    build_jar(_spark_folder(), _ivy_jar().parent)
    return [*fetch("spark"), our_jar(_spark_folder()), *fetch(*others)]


def fetch(*names: str) -> list[Path]:
    """Jars of some sets; those that are not in the cache are fetched, all at once.

    Args:
        names: Of `JAR_SETS`.
    """
    if _missing(names):
        with open(own_folder("jars") / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if missing := _missing(names):
                _fetch(missing)
    return [jar for name in names for jar in verified(_folder(name), name)]


def _missing(names: Sequence[str]) -> list[str]:
    return [name for name in names if not _folder(name).is_dir()]


def _spark_folder() -> Path:
    return _folder("spark")


def _folder(name: str) -> Path:
    """Where a set lies: another one as soon as something else is asked for."""
    digest = hashlib.sha256(module_of(name, *JAR_SETS[name]).encode()).hexdigest()[:12]
    return cache_folder() / "jars" / f"{name}-{digest}"


def _jars_of(name: str) -> list[Path]:
    refuse_unknown_jars(_folder(name), [name])
    return verified(_folder(name), name)


def module_of(name: str, wanted: Sequence[Coordinate], excludes: Sequence[str]) -> str:
    """Ivy's description. Names and versions are ours, so nothing in them is escaped for XML."""
    is_alone = tuple(excludes) == ALONE
    dependencies = "".join(_dependency(one, "default", is_alone=is_alone) for one in wanted)
    left_out = "".join(
        f'<exclude org="{org}" module="{module}"/>'
        for org, module in (item.split(":") for item in excludes if not is_alone)
    )
    return (
        f'<ivy-module version="2.0"><info organisation="tideline" module="{name}"/>'
        f'<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{left_out}</dependencies></ivy-module>"
    )


def _dependency(wanted: Coordinate, configuration: str, *, is_alone: bool) -> str:
    """Ivy's line for one jar.

    Args:
        is_alone: Whether what it says that it needs is left out.
    """
    organisation, module, version, *classifiers = wanted
    alone = ' transitive="false"' if is_alone else ""
    line = f'<dependency org="{organisation}" name="{module}" rev="{version}"{alone}'
    line += f' conf="{configuration}->default"'
    if not classifiers:
        return f"{line}/>"
    artifact = f'name="{module}" type="jar" ext="jar" m:classifier="{classifiers[0]}"'
    maven = 'xmlns:m="http://ant.apache.org/ivy/maven"'
    return f"{line}><artifact {artifact} {maven}/></dependency>"


def _pinned_module(names: Sequence[str]) -> str:
    """Ivy's description of exactly the jars that are pinned, a configuration for each set.

    Raises:
        BadInput: What `versions.py` asks for is not pinned.
    """
    pins = {(jars, coordinate) for _, jars, _, coordinate in _pins()}
    wanted = [(jars, coordinate) for jars in names for coordinate in JAR_SETS[jars][0]]
    for jars, coordinate in wanted:
        if (jars, coordinate) not in pins:
            raise BadInput(
                f"{MANIFEST.name}: no {':'.join(coordinate)} among the {jars} jars; `make pins`, in"
                " a checkout, writes it"
            )
    configurations = "".join(f'<conf name="{name}"/>' for name in names)
    dependencies = "".join(
        _dependency(coordinate, jars, is_alone=True)
        for _, jars, _, coordinate in _pins()
        if jars in names
    )
    return (
        '<ivy-module version="2.0"><info organisation="tideline" module="jars"/>'
        f"<configurations>{configurations}</configurations><dependencies>{dependencies}"
        "</dependencies></ivy-module>"
    )


def _fetch(names: Sequence[str]) -> None:
    """Fetch sets of jars; called with the lock, so drafts that lie there are of the killed."""
    place = own_folder("jars")
    for left in place.glob(f"{_DRAFT}*"):
        shutil.rmtree(left, ignore_errors=True)
    with (
        working(f"fetching the {', '.join(names)} jars into {place}"),
        tempfile.TemporaryDirectory(dir=place, prefix=_DRAFT) as draft,
    ):
        ready = Path(draft, "jars")
        retrieve(_pinned_module(names), ready, TYPES, Path(draft), AS_THEY_ARE)
        for name in names:
            refuse_unknown_jars(ready / name, [name])
            verified(ready / name, name)
        for name in names:
            shutil.move(ready / name, _folder(name))


def retrieve(
    module: str,
    target: Path,
    types: Sequence[str],
    scratch: Path,
    settings: str | None = None,
    names: str = "[conf]/[artifact]-[revision](-[classifier]).[ext]",
) -> None:
    """Let Ivy download what a module needs, from Maven Central unless its settings say otherwise.

    Args:
        module: Ivy's description of the module.
        target: Folder for the files; made here.
        types: Types of artifacts.
        scratch: Folder for files of ours, and for Ivy's own copies.
        settings: Ivy's settings; its own when None.
        names: Ivy's pattern for the files.

    Raises:
        ServiceAway: Maven Central cannot be reached.
        BadInput: There is no Java, or no Ivy.
    """
    java = find_java()
    ivy_file = scratch / "ivy.xml"
    ivy_file.write_text(module)
    command: list[str | Path] = [
        java.binary,
        *download_options(java),
        "-jar",
        _ivy_jar(),
        *("-cache", scratch / "ivy"),
        *("-ivy", ivy_file),
        *("-retrieve", f"{target}/{names}"),
        *("-types", *types),
    ]
    if settings is not None:
        settings_file = scratch / "ivysettings.xml"
        settings_file.write_text(settings)
        command += ["-settings", settings_file]
    done = run(command, spark_variables(os.environ), scratch, capture_output=True, text=True)
    if done.returncode != 0 or not any(target.glob("*")):
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise ServiceAway(
            f"the jars could not be fetched from Maven Central (Ivy ended with status"
            f" {done.returncode}); check the network, then run again:\n{tail}"
        )


def _ivy_jar() -> Path:
    spark = find_spec("pyspark")
    folder = Path(spark.origin).parent if spark and spark.origin else Path()
    jars = sorted(folder.glob("jars/ivy-*.jar"))
    if not jars:
        raise BadInput("pyspark contains no Ivy jar; install pyspark as Tideline asks for it")
    return jars[-1]


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    try:
        fetch_for_runs(*sys.argv[1:])
    except TidelineError as error:
        sys.exit(f"{error}")
