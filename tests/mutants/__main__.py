"""Take each check out, one at a time: some test must turn red (`make mutants`).

Every mutant is one replacement in a copy of the project, and the tests that should notice. First
those tests pass unchanged; then each mutant has to fail at least one of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants import MUTANTS
from tests.mutants.mutant import PACKAGE, Mutant

ROOT = Path(__file__).parents[2]
COPIED = (
    "plugins",
    "dags",
    "spark_jobs",
    "devstack",
    "tests",
    "docs",
    "pyproject.toml",
    "requirements.txt",
    "requirements",
)


def main() -> int:
    """Run all mutants, or those whose check contains a word given on the command line."""
    words = sys.argv[1:]
    chosen = [m for m in MUTANTS if not words or any(w in m.check for w in words)]
    with tempfile.TemporaryDirectory(prefix="tideline-mutants-") as folder:
        began = time.monotonic()
        tests = sorted({t for m in chosen for t in m.tests.split()})
        clean = _copy(Path(folder, "clean"))
        if failed := _first_failure(clean, tests):
            print(f"unchanged, the tests do not pass: {failed}")
            return 1
        with ThreadPoolExecutor(max_workers=2) as pool:
            results = list(pool.map(lambda m: _noticed_by(m, Path(folder)), chosen))
    survivors = 0
    for mutant, by in zip(chosen, results, strict=True):
        print(f"{'noticed ' if by else 'SURVIVED'}  {mutant.check:58} {by or mutant.tests}")
        survivors += not by
    seconds = time.monotonic() - began
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants noticed in {seconds:.0f} s")
    return 1 if survivors else 0


def _noticed_by(mutant: Mutant, folder: Path) -> str | None:
    """The test that turned red, None if none did."""
    root = _copy(folder / f"mutant-{MUTANTS.index(mutant)}")
    try:
        file = mutant.apply(root / PACKAGE)
    except LookupError as error:
        raise SystemExit(str(error)) from error
    jar = _compiled(root) if file.suffix == ".java" else None
    failed = _first_failure(root, mutant.tests.split())
    if jar is not None:
        jar.unlink()
    shutil.rmtree(root, ignore_errors=True)
    return failed


def _compiled(root: Path) -> Path:
    """The jar of a copy's classes, beside the others: it has a name of its own."""
    code = "from tideline.launch.jars import fetch_for_runs as f; print(*f(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(root / "plugins")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"the mutant does not compile:\n{done.stderr[-3000:]}")
    return next(Path(jar) for jar in done.stdout.splitlines() if "/tideline-committer-" in jar)


def _copy(target: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)
    return target


def _first_failure(root: Path, tests: list[str]) -> str | None:
    """The first test that fails, None if all pass; anything else proves nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *tests],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode == 0:
        return None
    failed = re.search(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or failed is None:
        said = f"{done.stdout}{done.stderr}"[-3000:]
        raise SystemExit(f"pytest ended with {done.returncode}:\n{said}")
    return failed[1]


if __name__ == "__main__":
    sys.exit(main())
