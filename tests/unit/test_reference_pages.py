"""What pages of the reference take from docstrings, and what stays of prose on a page."""

from devstack.reference import entries
from devstack.reference.docstrings import meanings, summary


class Kept:
    """A document that is kept.

    More about it,
    in two lines.

    Args:
        start, end: Bounds of the range: `[start, end)`.
        at: When; UTC-aware,
            and never null.

    Raises:
        ValueError: Never.
    """


def test_a_field_has_the_meaning_that_its_class_gives_it():
    """Over several lines, and for several fields at once; what comes after `Args` is none."""
    assert summary(Kept) == "A document that is kept."
    assert meanings(Kept) == {
        "start": "Bounds of the range: `[start, end)`.",
        "end": "Bounds of the range: `[start, end)`.",
        "at": "When; UTC-aware, and never null.",
    }


def test_a_class_without_a_word_has_no_meanings():
    """Its fields stand on the page without one."""
    assert (summary(type("Bare", (), {})), meanings(type("Bare", (), {}))) == ("", {})


def test_prose_of_the_a_z_outlives_a_new_writing(tmp_path, monkeypatch):
    """Evidence and choices are written anew, entries of what is gone go, new ones come empty."""
    page = tmp_path / "a-z.md"
    monkeypatch.setattr(entries, "PAGE", page)
    page.write_text(
        "# A-Z\n\n## Gone\n\n- **Means:** nothing.\n\n## unknown\n\n*Incident.*\n\n"
        "- **Means:** a refusal\n  of two lines.\n- **Evidence:** an old one.\n- **Do:** wait.\n"
    )
    written = entries.build_page()
    assert "## Gone" not in written
    _, _, entry = written.partition("\n## unknown\n")
    entry, _, after = entry.partition("\n## ")
    assert "- **Means:** a refusal\n  of two lines.\n- **Evidence:** An error that" in entry
    assert "an old one" not in entry
    assert "- **Choices:** `approve`: leave" in entry
    assert "- **Do:** wait.\n- **Verify:** \n" in entry
    assert after.startswith("unreadable_record\n")
