"""Which jars are loaded: those that `jars.sha256` names, if their content is what it says.

The sums that Ivy compares come from the server that the jars come from; these come with Tideline.
`make pins` writes them. A jar is hashed when it is fetched, and again when its size, times or inode
have changed since; what was found lies in the cache, in `checked/`.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from tideline.errors import BadInput
from tideline.launch.cache import own_folder, refuse_foreign, replaced

MANIFEST = Path(__file__).with_name("jars.sha256")
"""Lines as `sha256sum` writes them; a path is the name of a set of jars, and that of a file."""
_Proofs = dict[str, list[int | str]]


@cache
def pinned() -> Mapping[str, Mapping[str, str]]:
    """SHA-256 by set and file."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in MANIFEST.read_text().splitlines():
        digest, path = line.split("  ")
        jars, file = path.split("/")
        found[jars][file] = digest
    return found


def digest_of_file(file: Path) -> str:
    """Its SHA-256."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def refuse_strangers(folder: Path, sets: Iterable[str], others: Collection[str] = ()) -> None:
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
                f"no {jar.name} in {jar.parent}; `tideline fetch`, in a checkout `make setup`,"
                " fetches it once",
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
