"""What leaves the checkout: a wheel, and the zip that Spark gets. The embedded stack stays."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tideline.launch.submit import package_zip

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel that setuptools builds from a copy of the checkout: it leaves files in its way."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in ("plugins", "devstack", "spark_jobs", "dags"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    for file in ("pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / file, copy)
    build = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=copy, capture_output=True, check=True)
    (built,) = copy.glob("dist/*.whl")
    return built


def names_in(archive):
    with zipfile.ZipFile(archive) as opened:
        return {name for name in opened.namelist() if not name.endswith("/")}


def sources(*patterns):
    package = ROOT / "plugins"
    paths = {p for pattern in patterns for p in (package / "tideline").rglob(pattern)}
    return {str(path.relative_to(package)) for path in paths}


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    """No devstack, no job file, no Dag; the migrations of Airflow's database are there."""
    names = {name for name in names_in(wheel) if ".dist-info/" not in name}
    assert names == sources("*.py", "*.java", "alembic.ini")
    assert "tideline/airflow/migrations/alembic.ini" in names


def test_the_wheel_does_not_ask_for_what_only_the_embedded_stack_needs(wheel):
    """Airflow's client of its API is a package for development."""
    with zipfile.ZipFile(wheel) as opened:
        (metadata,) = (n for n in opened.namelist() if n.endswith("METADATA"))
        text = opened.read(metadata).decode()
    assert "Requires-Dist: deltalake==" in text
    assert "apache-airflow-client" not in text


def test_spark_gets_the_package_and_nothing_else(tmp_path, monkeypatch):
    """The zip for `--py-files`."""
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path))
    package_zip.cache_clear()
    try:
        assert names_in(package_zip()) == sources("*.py")
    finally:
        package_zip.cache_clear()


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
