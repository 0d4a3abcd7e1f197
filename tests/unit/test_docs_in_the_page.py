"""Where no site is named, the page shows a checkout's docs: each link to an entry finds it."""

import re

import pytest

from tideline.model.incident import class_entry
from tideline.model.verdicts import VERDICTS
from tideline.page import docs


@pytest.mark.parametrize("kind", VERDICTS)
def test_the_entry_of_each_class_is_there(kind):
    """A link of an incident leads to a heading of a page that is served."""
    page, _, anchor = class_entry(kind).removeprefix("docs/").partition("#")
    assert page in docs.names()
    assert f' id="{anchor}">' in docs.render(page)


@pytest.mark.parametrize("name", sorted(n for n in docs.names() if n.endswith(".md")))
def test_links_between_pages_lead_to_pages(name):
    """Relative ones are followed as they stand: a page's address ends like its file's path."""
    here = docs.FOLDER / name
    for link in re.findall(r'(?:href|src)="([^":#]+\.(?:md|png))(?:#[^"]*)?"', docs.render(name)):
        target = (here.parent / link).resolve()
        if target.is_relative_to(docs.FOLDER):
            assert target.relative_to(docs.FOLDER).as_posix() in docs.names(), link


def test_texts_of_pages_are_no_markup(tmp_path, monkeypatch):
    """What stands in a page as HTML is shown as text."""
    (tmp_path / "x.md").write_text("# <b>A</b>\n\n<script>alert(1)</script>\n")
    monkeypatch.setattr(docs, "FOLDER", tmp_path)
    shown = docs.render("x.md")
    assert "<script>alert" not in shown
    assert "<title>&lt;b&gt;A&lt;/b&gt; · Tideline</title>" in shown
