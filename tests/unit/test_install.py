"""How packages are installed: by uv, and by pip where uv cannot do it; never without the hashes."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from devstack import install

ROOT = Path(__file__).parents[2]
OPTIONS = ["--require-hashes", "-r", "requirements.txt"]
BOOTSTRAP = ["pip", "install", "--require-hashes", "-r", str(ROOT / "requirements/uv.txt")]


class Programs:
    """Stands for uv and pip: notes what they are told, and fails where it is told to."""

    def __init__(self):
        self.told = []
        self.settings = ""
        self.failing = set()
        self.variables = {}

    def run(self, command, env=None, **_):
        python, flag, *words = command
        assert (python, flag) == (sys.executable, "-m")
        done = subprocess.CompletedProcess(command, 0, stdout="")
        if words == ["pip", "config", "list"]:
            done.stdout = self.settings
            return done
        name = words[0]
        assert {"--quiet", "--no-deps"} < {*words}
        plain = ("--quiet", "--no-deps", "--python", sys.executable)
        self.told.append([word for word in words if word not in plain])
        self.variables[name] = env
        done.returncode = 1 if name in self.failing else 0
        return done


@pytest.fixture
def programs(monkeypatch):
    """Uv is there already."""
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name, raising=False)
    found = Programs()
    monkeypatch.setattr(subprocess, "run", found.run)
    monkeypatch.setattr(install, "find_spec", lambda _: "uv")
    return found


@pytest.fixture
def no_uv(programs, monkeypatch):
    """Uv is not there yet."""
    monkeypatch.setattr(install, "find_spec", lambda _: None)
    return programs


BY_UV = ["uv", "pip", "install", *OPTIONS]
BY_PIP = ["pip", "install", *OPTIONS]


def test_uv_installs(programs):
    """It trusts what the system trusts, and compiles, as pip does."""
    assert install.install(OPTIONS) == 0
    assert programs.told == [BY_UV]
    given = programs.variables["uv"]
    assert (given["UV_SYSTEM_CERTS"], given["UV_COMPILE_BYTECODE"]) == ("true", "true")


def test_uv_comes_by_its_hash(no_uv):
    assert install.install(OPTIONS) == 0
    assert no_uv.told == [BOOTSTRAP, BY_UV]


def test_pip_installs_where_uv_fails(programs, capsys):
    programs.failing = {"uv"}
    assert install.install(OPTIONS) == 0
    assert programs.told == [BY_UV, BY_PIP]
    assert "uv ended with status 1; pip tries it" in capsys.readouterr().err


def test_what_neither_can_install_is_a_failure(programs):
    """As a file with another hash than the lock's."""
    programs.failing = {"uv", "pip"}
    assert install.install(OPTIONS) == 1
    assert programs.told == [BY_UV, BY_PIP]


def test_pip_installs_where_uv_cannot_be_had(no_uv, monkeypatch, capsys):
    run = no_uv.run

    def without_uv(command, **options):
        done = run(command, **options)
        done.returncode = int(str(ROOT / "requirements/uv.txt") in command)
        return done

    monkeypatch.setattr(subprocess, "run", without_uv)
    assert install.install(OPTIONS) == 0
    assert no_uv.told == [BOOTSTRAP, BY_PIP]
    assert "uv cannot be had" in capsys.readouterr().err


@pytest.mark.parametrize(
    "setting",
    ["global.index-url", ":env:.extra-index-url", "install.no-index", "user.proxy"],
)
def test_an_index_that_only_pip_knows_is_asked_by_pip(programs, monkeypatch, setting):
    """Uv reads none of pip's settings, and would wait for an index that may be out of reach."""
    programs.settings = f"global.cert='/ca.pem'\n{setting}='x'\n"
    assert install.install(OPTIONS) == 0
    assert programs.told == [BY_PIP]
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://example.org/simple")
    assert install.install(OPTIONS) == 0
    assert programs.told == [BY_PIP, BY_UV]


def test_other_settings_of_pip_do_not_matter(programs):
    programs.settings = ":env:.cert='/ca.pem'\nglobal.find-links='/wheels'\n"
    assert install.install(OPTIONS) == 0
    assert programs.told == [BY_UV]


def test_it_needs_nothing_that_it_installs():
    """It runs before there is anything but Python."""
    code = "import devstack.install, sys; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {*done.stdout.split()} - {*sys.stdlib_module_names, "__main__"} == {"devstack"}


def test_the_lock_of_uv_is_that_of_the_packages_for_tests():
    """A test that starts uv starts the one that installs."""
    (line,) = [x for x in (ROOT / "requirements/uv.txt").read_text().splitlines() if "==" in x]
    assert line in (ROOT / "requirements/dev.txt").read_text().splitlines()
    assert find_spec("uv") is not None
