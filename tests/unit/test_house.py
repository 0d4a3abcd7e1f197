"""Facts about the repository that something else leans on."""

import ast
import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from devstack.broker import new_cluster_id
from devstack.reference import PAGES
from tests.browser.page_world import World, fleets, many
from tests.mutants import MUTANTS
from tideline.failpoints import (
    DECODE_PLACES,
    ERASE_PLACES,
    FOLD_PLACES,
    PLACES,
    RARE_PLACES,
    SPARK_PLACES,
)
from tideline.stream.fleet_file import Fleet
from tideline.stream.stream import Stream, json_schema_of

ROOT = Path(__file__).parents[2]
LOCKS = [ROOT / "requirements.txt", *sorted((ROOT / "requirements").glob("*.txt"))]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_current(name):
    """A key, a command, an error or a column that is new is on its page; `make reference` does."""
    assert (ROOT / "docs" / name).read_text() == PAGES[name]()


def test_the_schema_for_editors_is_current():
    """`make schema` writes it."""
    assert (ROOT / "docs/stream.schema.json").read_text() == json_schema_of(Stream)
    assert (ROOT / "docs/fleet.schema.json").read_text() == json_schema_of(Fleet)


def test_airflow_s_plugin_loader_is_kept_out_of_the_package():
    """It executes every .py it finds and registers it by its bare stem."""
    assert (ROOT / "plugins/.airflowignore").read_text().split() == ["tideline"]


def test_no_module_is_named_like_an_installed_one():
    """A nested kafka.py would replace `import kafka` wherever a loader goes by stems."""
    stems = {p.stem for p in (ROOT / "plugins/tideline").glob("*.py")} - {"__init__", "__main__"}
    taken = {s for s in stems if s in sys.stdlib_module_names or importlib.util.find_spec(s)}
    assert not taken


def imported_modules(file):
    """Names of the modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_helpers_of_tests_live_in_modules_of_their_own():
    """Nothing imports from a test_* module; nothing outside tests imports from tests."""
    folders = ("plugins", "dags", "spark_jobs", "devstack", "bench", "tests")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 200
    for file in files:
        at_home = file.is_relative_to(ROOT / "tests")
        for name in imported_modules(file):
            parts = name.split(".")
            assert parts[0] != "tests" or at_home, f"{file} imports {name}"
            assert not any(p.startswith("test_") for p in parts), f"{file} imports {name}"


def own_file(module):
    """The file of a module of the project; None for a package without a face, or another's."""
    places = (ROOT / folder / module.replace(".", "/") for folder in ("plugins", "", "spark_jobs"))
    found = (place for path in places for place in (path.with_suffix(".py"), path / "__init__.py"))
    return next((place for place in found if place.is_file()), None)


def bound_names(file):
    """Names that a module has at its top, however it got them."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)


def test_every_name_that_is_imported_from_our_own_files_is_there():
    """Slow suites are collected by their own targets only: a stale import there shows here."""
    missing, names = [], {}
    for folder in ("bench", "tests"):  # mypy looks at the others
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                source = isinstance(node, ast.ImportFrom) and node.module and own_file(node.module)
                if not source:
                    continue
                if source not in names:
                    names[source] = set(bound_names(source))
                missing += [
                    f"{file.relative_to(ROOT)}: {node.module}.{alias.name}"
                    for alias in node.names
                    if alias.name not in names[source]
                    and not own_file(f"{node.module}.{alias.name}")
                ]
    assert not missing


def test_the_browser_suite_s_world_is_made_of_the_contract():
    """It has a target of its own: that a class of its answers is another one shows here."""
    assert len(World().streams) == len(many(40)) == len(fleets(40)) == 40


def test_the_dag_files_stay_small():
    """They run at every parse."""
    for name, lines in (("tideline_streams", 20), ("tideline_operations", 90)):
        assert len((ROOT / f"dags/{name}.py").read_text().splitlines()) <= lines
    assert len((ROOT / "spark_jobs/ingest_range.py").read_text().splitlines()) <= 80


def test_every_mutant_finds_its_check():
    """`make mutants` takes hours; that a check or a test was rewritten is seen at once."""
    problems = [problem for m in MUTANTS for problem in m.problems(ROOT)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_requirement_is_pinned_and_hashed(lock):
    """One version of everything from the registry, and no file but those that were locked."""
    entries = re.sub(r"^ *#.*\n", "", lock.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    for entry in entries.splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[^ ]+( +--hash=sha256:[0-9a-f]{64})+", entry), entry


def test_locks_that_are_installed_together_agree():
    """The later of two would replace what the earlier has installed."""
    pins = [{*re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), re.MULTILINE)} for lock in LOCKS]
    assert Counter(name for name, _ in set().union(*pins)).most_common(1)[0][1] == 1


def test_a_cluster_id_never_looks_like_an_option():
    """One in 64 random ids begins with a dash."""
    ids = {new_cluster_id() for _ in range(2000)}
    assert all(len(i) == 22 and i[0].isalpha() for i in ids)
    assert len(ids) == 2000


def test_every_failpoint_is_listed_and_every_listed_one_is_there():
    """The crash matrix kills at every place that is listed, so each has to be."""
    sources = [*(ROOT / "plugins/tideline").rglob("*.py"), *(ROOT / "spark_jobs").glob("*.py")]
    reached = {p for file in sources for p in re.findall(r'reach\(f?"(.+?)"\)', file.read_text())}
    leases = {f"lease:{name}" for name in ("live", "writer", "decoder")}
    listed = {*PLACES, *SPARK_PLACES, *DECODE_PLACES, *FOLD_PLACES, *ERASE_PLACES, *RARE_PLACES}
    assert (reached - {"lease:{name}"}) | leases == listed


OF_A_PROCESS = {"DEVNULL", "PIPE", "Popen", "SubprocessError", "TimeoutExpired"}
"""What other modules may know of `subprocess`, to speak of a child that was started."""
STARTS_ONE = re.compile(
    r"\bPopen\(|\bos\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*)\(|\bmultiprocessing\b"
    r"|create_subprocess|launch_gateway|PYSPARK_SUBMIT_ARGS"
)
OF_A_SESSION = re.compile(r"SparkSession\.builder|SparkContext\(|\bgateway_command\(")
BUILDS_ONE = ("launch/gateway.py", "launch/jvm.py", "spark/session.py")


def test_one_module_starts_processes_and_one_builds_spark_s_sessions():
    """Another one would start them where its caller stands, with all that its caller has."""
    package = ROOT / "plugins/tideline"
    for file in [*package.rglob("*.py"), *(ROOT / "dags").glob("*.py")]:
        name, text = str(file).removeprefix(f"{package}/"), file.read_text()
        known = {n.removeprefix("subprocess.") for n in imported_modules(file) if "subprocess" in n}
        starts = STARTS_ONE.search(text) or not known <= OF_A_PROCESS
        assert name == "children.py" or not starts, name
        assert name in BUILDS_ONE or not OF_A_SESSION.search(text), name
