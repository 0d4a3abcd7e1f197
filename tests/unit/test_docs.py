"""The pages say what the code does: rules, links and names on them exist."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.mutants import MUTANTS
from tideline import __version__
from tideline.stream.files import read_stream

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "plugins/tideline"
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/pairs.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
_RULE = re.compile(r"\bR(\d{1,2})\b")
_NAMED = re.compile(r"([\w./-]+\.py)::(\w+)")
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s]+)\)")
_PICTURE = re.compile(r"!\[([^\[\]]*)\]\((?:\.\./)*(?:docs/)?pictures/([\w-]+\.svg)\)")
_VARIABLE = re.compile(r"\bTIDELINE_[A-Z_]*[A-Z]\b")
_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|yaml|md|json))`")


def ids(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


@cache
def prose(page):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    titles = (_LINK.sub(r"\1", t) for t in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@cache
def names_in(file):
    """Every class and function of a file."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {n.name for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, kinds)}


def found_at(path, *folders):
    """The file that a page means by a path: below the root, the package or another folder."""
    places = [folder / path for folder in (ROOT, PACKAGE, *folders)]
    return next((place for place in places if place.is_file()), None)


@cache
def rules():
    """The text of every rule on the page of rules, by number."""
    parts = re.split(r"^## ", prose(ROOT / "docs/rules.md"), flags=re.MULTILINE)
    headed = ((re.match(r"R(\d+): ", part), part) for part in parts)
    return {int(title[1]): part for title, part in headed if title}


def test_every_rule_that_is_cited_is_on_the_page_of_rules():
    """A reader who meets R7 in a docstring finds it."""
    sources = [p for folder in ("plugins", "tests") for p in (ROOT / folder).rglob("*.py")]
    cited = {
        (int(number), str(source.relative_to(ROOT)))
        for source in (*sources, *PAGES)
        for number in _RULE.findall(source.read_text())
    }
    assert not {(number, where) for number, where in cited if number not in rules()}


def test_the_rules_are_numbered_in_a_row():
    """None is missing and none stands twice."""
    titles = re.findall(r"^## R(\d+): ", prose(ROOT / "docs/rules.md"), re.MULTILINE)
    assert [int(number) for number in titles] == list(range(1, 15))


@pytest.mark.parametrize("number", range(1, 15))
def test_a_rule_names_the_code_that_holds_it_and_tests_that_notice(number):
    """At least one of the tests is run by `make mutants` with the rule's check taken out."""
    _, _, held = rules()[number].partition("Held by:")
    held, _, noticed = held.partition("Turns red without it:")
    assert _NAMED.findall(held)
    tests = {f"{file}::{name}" for file, name in _NAMED.findall(noticed)}
    mutants = [m for m in MUTANTS if str(number) in _RULE.findall(m.check)]
    proving = {t for m in mutants for t in m.tests.split()}
    assert any(test.startswith(prefix) for test in tests for prefix in proving)


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_every_function_and_test_that_a_page_names_exists(page):
    """`path::name` is a class or function of that file, below the root or the package."""
    lost = []
    for path, name in _NAMED.findall(prose(page)):
        file = found_at(path)
        if file is None or name not in names_in(file):
            lost.append(f"{path}::{name}")
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_every_link_of_a_page_leads_somewhere(page):
    """To a file, and to a heading of it; a link that names a file leads to that file."""
    lost = []
    for text, target in _LINK.findall(prose(page)):
        if target.startswith(("http:", "https:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        named = _NAMED.search(text)
        if (
            not file.exists()
            or (anchor and anchor not in anchors(file))
            or (named and not str(file).endswith(f"/{named[1]}"))
        ):
            lost.append(f"[{text}]({target})")
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_every_path_that_a_page_mentions_exists(page):
    """A module that moved takes its mentions along."""
    paths = set(_PATH.findall(prose(page)))
    assert not {path for path in paths if found_at(path, ROOT / "docs", ROOT / "tests") is None}


def test_the_six_files_of_a_run_are_the_ones_that_the_package_names():
    """In the same order, with the same words; and then the two side doors."""
    page = (ROOT / "docs/architecture.md").read_text()
    told = re.findall(r"^\d\. \[`[\w/]+/(\w+)\.py`\]\(.+?\): (.+(?:\n   .+)*)", page, re.MULTILINE)
    drawn = ast.get_docstring(ast.parse((PACKAGE / "pipeline/__init__.py").read_text())) or ""
    known = re.findall(r"^    (\w+) +(?:\(in `.+?`\) )?(.+)$", drawn, re.MULTILINE)
    assert [name for name, _ in known] == [name for name, _ in told][:6]
    for (_, words), (_, text) in zip(known, told, strict=False):
        assert " ".join(text.split()).startswith(words), words


def test_every_room_and_single_module_has_a_line_in_the_layout():
    """A newcomer finds what each is for; none that is gone is left."""
    _, _, layout = (ROOT / "docs/architecture.md").read_text().partition("\n## The rooms\n")
    layout, _, _ = layout.partition("\n## ")
    lines = re.findall(r"^\| (`.+?`) \|", layout, re.MULTILINE)
    told = {name for line in lines for name in re.findall(r"`(.+?)`", line)}
    rooms = {f"{found.parent.name}/" for found in PACKAGE.glob("*/__init__.py")}
    modules = {found.name for found in PACKAGE.glob("*.py") if not found.name.startswith("__")}
    assert told == rooms | modules


def test_addresses_of_earlier_versions_lead_on():
    """Messages, bookmarks and alerts may name them; each old heading is a link now."""
    moved = [page for page in PAGES if page.read_text().startswith("# Moved\n")]
    names = {str(page.relative_to(ROOT / "docs")) for page in moved}
    assert names >= {"runbook.md", "runbook/incidents.md", "runbook/errors.md", "verdicts.md"}
    for page in moved:
        titles = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
        assert all(_LINK.fullmatch(title) for title in titles), page
        assert _LINK.search(page.read_text()), page
    incidents = anchors(ROOT / "docs/runbook/incidents.md")
    assert incidents == anchors(ROOT / "docs/verdicts.md") > {"moved", "retention_loss"}
    assert anchors(ROOT / "docs/runbook/errors.md") > {"tidelineerror", "serviceaway"}


def test_every_variable_is_on_its_page():
    """Those for users, and those that are internal; none that is gone."""
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "spark_jobs").glob("*.py")]
    known = {name for f in sources for name in _VARIABLE.findall(f.read_text())}
    assert set(_VARIABLE.findall(prose(ROOT / "docs/reference/variables.md"))) == known


def test_every_picture_can_be_heard_and_fetches_nothing():
    """It has a title and a description, is on a page, in a few words, and needs no other file."""
    shown = [found for page in PAGES for found in _PICTURE.findall(prose(page))]
    pictures = sorted((ROOT / "docs/pictures").glob("*.svg"))
    assert {name for _, name in shown} >= {picture.name for picture in pictures} > set()
    assert all(len(words.split()) > 4 for words, _ in shown)
    for picture in pictures:
        text = picture.read_text()
        assert re.search(r"<title id=.title.>.+</title>\n<desc id=.desc.>.+</desc>", text)
        assert "prefers-color-scheme: dark" in text
        elsewhere = re.findall(r"https?:[^\"]*|<script|<image|@import", text)
        assert elsewhere == ["http://www.w3.org/2000/svg"]


def test_no_page_puts_a_password_on_a_command_line():
    """Everybody on the machine sees it there, in the list of processes."""
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        assert not re.search(r"--conn-(uri|password|json)\b", page.read_text()), page


def test_contributors_find_every_spark_application():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (listed,) = re.findall(r"^spark_jobs/ +(.+): the Spark", text, re.M)
    programs = {file.name for file in (ROOT / "spark_jobs").glob("*.py")}
    assert programs == {*listed.split(", ")}


SEARCHED = {
    "current.md": ("upsert", "merge", "deduplicate", "latest", "SCD", "CDC"),
    "how-to/read-again.md": ("replay", "reset offsets", "offset reset", "backfill", "rewind"),
    "how-to/decode.md": ("dead letter", "quarantine"),
    "how-to/debezium.md": ("CDC", "change events"),
    "decoding.md": ("schema registry",),
    "concepts.md": ("exactly once", "checkpoint"),
}
"""Words that people search for, and the page that says what to do."""


@pytest.mark.parametrize("name", SEARCHED)
def test_words_that_people_search_for_stand_in_headings_and_first_sentences(name):
    """The search weighs headings most, then the text above the first of them."""
    text = prose(ROOT / "docs" / name)
    first, _, rest = text.partition("\n## ")
    seen = "\n".join([first, *re.findall(r"^#+ (.+)$", f"## {rest}", re.MULTILINE)]).lower()
    assert [word for word in SEARCHED[name] if word.lower() not in seen] == []


README = (ROOT / "README.md").read_text()


def test_the_readme_s_stream_file_is_one(tmp_path):
    (text,) = re.findall(r"```yaml\n(.+?)```", README, re.S)
    (tmp_path / "orders.yaml").write_text(text)
    stream = read_stream(tmp_path / "orders.yaml")
    assert stream.decode is not None
    assert stream.current is not None


def test_the_readme_names_every_dag_of_the_operations():
    text = (PACKAGE / "airflow" / "dags.py").read_text()
    listed = text[text.index("OPERATIONS: Mapping") :]
    known = set(re.findall(r'^    "(tideline_\w+)": ', listed, re.M))
    assert set(re.findall(r"`(tideline_\w+)`", README)) == known


def test_the_readme_s_versions_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    low, high = re.findall(r"3\.(\d+)", project["requires-python"])
    assert f"| Python | 3.{low} to 3.{int(high) - 1} |" in README
    bounds = {re.split(r"[=<>]", d)[0]: d for d in project["dependencies"]}
    assert (
        f"| Airflow | {re.findall(r'>=([0-9.]+)', bounds['apache-airflow'])[0]} and newer |"
        in README
    )
    assert f"| Spark | {re.findall(r'==([0-9]+[.][0-9]+)', bounds['pyspark'])[0]}: " in README
    assert f"tideline-{__version__}-py3-none-any.whl" in README
    assert project["license"].replace("-", " ") in README


def test_the_readme_is_read_in_a_minute():
    assert len(README.splitlines()) <= 90


PRODUCERS = ROOT / "docs/how-to/what-producers-write.md"


def proofs():
    """Each row of the page whose table has proofs: its first cell, and the names of the last."""
    rows, wanted = [], False
    for line in prose(PRODUCERS).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            wanted = False
        elif cells[-1] == "proof":
            wanted = True
        elif wanted and not line.startswith("|--"):
            rows.append((cells[0], re.findall(r"`([^`]+)`", cells[-1])))
    return rows


def serializers_of_tests():
    """The names of `tests/wire`'s tests."""
    files = sorted((ROOT / "tests/wire").glob("test_*.py"))
    return [n for file in files for n in names_in(file) if n.startswith("test_")]


@pytest.mark.parametrize(("what", "names"), proofs(), ids=lambda row: str(row)[:40])
def test_a_row_of_what_producers_write_has_its_proof(what, names):
    cases = [path.stem for path in (ROOT / "tests/data/wire").glob("*.json")]
    assert names, what
    for name in names:
        if name.startswith("test_"):
            assert name in serializers_of_tests(), name
        elif name.startswith("tests/"):
            assert (ROOT / name).exists(), name
        else:
            assert any(case.startswith(name) for case in cases), name


def test_every_test_of_a_serializer_is_the_proof_of_a_row():
    """And is found by its name alone."""
    every = serializers_of_tests()
    assert len(set(every)) == len(every)
    assert {*every} == {n for _, names in proofs() for n in names if n.startswith("test_")}
