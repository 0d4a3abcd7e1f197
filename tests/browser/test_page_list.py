"""All streams on one page: order, filters, search, refreshing, a thousand of them."""

import pytest
from playwright.sync_api import expect

from devstack.process import wait_until
from tests.browser.page_world import fleets, listed, many, now, status
from tideline.contract.page import Look, StreamList

pytestmark = pytest.mark.slow


def names(page):
    return page.locator(".list tbody .name").all_inner_texts()


def states(page):
    return [text.split("\n")[0] for text in page.locator(".list tbody .state").all_inner_texts()]


def test_the_worst_comes_first(visitor, world):
    """Halted, waiting, behind, never run, up to date; the least headroom first among equals."""
    world.streams = [
        listed("a-well", status("a-well", "up_to_date")),
        listed("b-new", status("b-new", "never_run", last_run=None)),
        listed("c-behind", status("c-behind", "behind", offset_lag=9, headroom_seconds=90_000.0)),
        listed("d-behind", status("d-behind", "behind", offset_lag=5, headroom_seconds=60.0)),
        listed("e-asked", status("e-asked", "waiting", open_incidents=1)),
        listed("f-halted", status("f-halted", "halted", open_incidents=2)),
        listed("g-silent", None),
    ]
    page = visitor.streams()
    order = ["f-halted", "e-asked", "g-silent", "d-behind", "c-behind", "b-new", "a-well"]
    assert names(page) == order


def test_each_column_sorts(visitor, world):
    """A head sorts, says so, and turns around; unknown values stay last."""
    page = visitor.streams()
    heads = page.locator(".list thead th")
    for at in range(heads.count()):
        before = names(page)
        heads.nth(at).get_by_role("button").click()
        first = heads.nth(at).get_attribute("aria-sort")
        assert first in ("ascending", "descending")
        once = names(page)
        heads.nth(at).get_by_role("button").click()
        assert {first, heads.nth(at).get_attribute("aria-sort")} == {"ascending", "descending"}
        assert names(page) != once
        assert sorted(once) == sorted(before)
        assert page.locator(".list th[aria-sort=none]").count() == heads.count() - 1
    page.get_by_role("columnheader", name="Lag").get_by_role("button").click()
    lags = [one.status.offset_lag for one in world.streams]
    shown = page.locator(".list tbody .lag").all_inner_texts()
    assert [int(text.replace(",", "")) for text in shown] == sorted(lags, reverse=True)


def test_filter_and_search(visitor, world):
    """A state and a word narrow the list; both are in the address; one button shows all again."""
    world.streams = many(200)
    page = visitor.streams()
    page.get_by_role("button", name="behind").click()
    behind = [one.stream for one in world.streams if one.status.state == "behind"]
    assert sorted(names(page)) == behind
    expect(page.get_by_role("button", name="behind")).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Search streams").fill("payments")
    expect(page.locator(".found")).to_contain_text("of 200 streams")
    assert sorted(names(page)) == [name for name in behind if "payments" in name]
    page.reload()
    expect(page.locator(".found")).to_contain_text("of 200 streams")
    assert sorted(names(page)) == [name for name in behind if "payments" in name]
    page.get_by_label("Search streams").fill("no such stream")
    page.get_by_role("button", name="Show all").click()
    expect(page.locator(".found")).to_have_text("200 streams")


def test_three_hundred_streams_of_fleets(visitor, world):
    """A button for each fleet with how many need somebody, the worst first; it narrows the list."""
    world.streams = fleets(300)
    page = visitor.streams()
    wrong = {}
    for one in world.streams:
        found = wrong.setdefault(one.fleet or "in no fleet", [0, 0])
        found[0] += one.status.state in ("halted", "waiting")
        found[1] += 1
    group = page.get_by_role("group", name="Filter by fleet")
    told = group.get_by_role("button").all_inner_texts()
    assert len(told) == 3
    for name, (bad, every) in wrong.items():
        (text,) = [text for text in told if name in text]
        assert text.endswith(f"{bad} of {every}" if bad else str(every))
    group.get_by_role("button", name="clicks").click()
    clicks = sorted(one.stream for one in world.streams if one.fleet == "clicks")
    expect(page.locator(".list tbody tr")).to_have_count(len(clicks))
    assert sorted(names(page)) == clicks
    page.get_by_role("button", name="behind").click()
    behind = [one.stream for one in world.streams if one.status.state == "behind"]
    assert sorted(names(page)) == [name for name in behind if name in clicks]
    page.reload()
    expect(group.get_by_role("button", name="clicks")).to_have_attribute("aria-pressed", "true")
    assert sorted(names(page)) == [name for name in behind if name in clicks]
    world.streams = many(10)
    visitor.streams()
    expect(page.get_by_role("group", name="Filter by state")).to_be_visible()


def test_a_refresh_keeps_focus_and_scroll(visitor, world):
    """What changed is shown anew; the reader stays where they were."""
    world.streams = many(100)
    page = visitor.streams()
    name = page.get_by_role("link", name=world.streams[80].stream)
    name.focus()
    page.evaluate("window.scrollTo(0, 3000)")
    before = page.evaluate("window.scrollY")
    assert before > 0
    changed = listed(
        world.streams[3].stream, status(world.streams[3].stream, "halted", open_incidents=1)
    )
    world.streams[3] = changed
    visitor.refreshed(page)
    expect(page.locator(".list tbody tr").first).to_contain_text("halted")
    assert names(page).index(changed.stream) < 5
    expect(name).to_be_focused()
    assert page.evaluate("window.scrollY") == before
    expect(page.locator("#live")).to_have_text(f"{changed.stream}: halted")


def test_a_thousand_streams(visitor, world):
    """A page of them is drawn faster than a person waits, and again for less."""
    world.streams = many(1_000)
    measured = "performance.getEntriesByName('tideline-list').map(entry => entry.duration)"
    page = visitor.streams()
    drawn = []
    for _ in range(3):  # the best of three: the machine has other work
        page.reload()
        expect(page.locator(".list tbody tr")).to_have_count(100)
        drawn.append(page.evaluate(measured)[0])
    first = min(drawn)
    asked = Look(asked_at=now(), problem=None)
    looked = {"ledger": asked, "brokers": asked}
    world.streams = [one.model_copy(update=looked) for one in world.streams]
    visitor.refreshed(page)
    wait_until(lambda: page.evaluate(f"{measured}.length") > 1, "no second measurement", 60)
    again = page.evaluate(measured)[-1]
    plain = page.evaluate("""() => {
        const start = performance.now(), body = document.createElement("div");
        for (let at = 0; at < 20000; at++) body.append(document.createElement("span"));
        return performance.now() - start; }""")
    size = len(StreamList(streams=tuple(world.streams), refreshing=False).model_dump_json())
    print(
        f"1,000 streams: {first:.0f} ms, {first / plain:.1f} times 20,000 empty elements;", end=" "
    )
    print(f"again {again:.0f} ms; {size:,} bytes")
    assert first < 1_000
    assert again < max(first, 100)
    page.get_by_label("Search streams").fill("payments")
    expect(page.locator(".paging")).to_contain_text("1 to 100 of 125 streams")
    page.get_by_role("button", name="Next page").click()
    expect(page.locator(".list tbody tr")).to_have_count(25)
    page.reload()
    expect(page.locator(".paging")).to_contain_text("101 to 125 of 125 streams")
    page.get_by_label("Search streams").fill("payments-orders")
    expect(page.locator(".paging")).to_be_hidden()


def test_what_airflow_knows_is_a_state(visitor, world):
    """A stream whose Dag is paused, or whose last run has failed, is not only behind."""
    world.streams = [
        listed("a", status("a", "behind", offset_lag=5)),
        listed("b", status("b", "behind", offset_lag=5)),
        listed("c", status("c", "up_to_date")),
        listed("d", status("d", "halted", open_incidents=1)),
        listed("e", status("e", "up_to_date")),
    ]
    world.paused, world.failed = {"a", "d"}, {"b", "d"}
    page = visitor.streams()
    expect(page.locator(".list tbody .state .badge").nth(2)).to_have_text("‖paused")
    assert names(page) == ["d", "b", "a", "c", "e"]
    badges = page.locator(".list tbody .state .badge").all_text_contents()
    assert badges[1:3] == ["\u00d7last run failed", "‖paused"]
    line = page.get_by_role("row").filter(has_text="paused")
    link = line.get_by_role("link", name="its Dag")
    assert link.get_attribute("href").endswith("/dags/a")
    page.get_by_role("button", name="needs me").click()
    assert names(page) == ["d", "b", "a"]
    page.goto(f"{visitor.root}/tideline/")  # without an address of its own: as it was left
    expect(page.locator(".list tbody .state .badge")).to_have_count(3)
    expect(page.get_by_role("button", name="needs me")).to_have_attribute("aria-pressed", "true")
    assert names(page) == ["d", "b", "a"]


def test_a_table_is_named_whole(visitor, world):
    """Its column is wide enough for the name of a table in an object store."""
    world.streams = many(20)
    page = visitor.streams()
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
    for part in ("th .sub", ".runname"):  # a time without its zone is none
        assert page.eval_on_selector_all(f".list tbody {part}", cut) == 0
    deleted = status("gone", "behind", offset_lag=9, headroom_seconds=0.0)
    guessed = status("new", "behind", offset_lag=9, headroom_seconds=9e4, headroom_estimated=True)
    world.streams = [listed("gone", deleted), listed("new", guessed)]
    visitor.refreshed(page)
    shown = page.locator(".list tbody .headroom")
    expect(shown.first).to_contain_text("0: records are deleted")
    expect(shown.last).to_contain_text("estimated")


def test_brokers_away(visitor, world):
    """The page says who does not answer, since when, and why; it goes on showing what it knew."""
    away = "no broker of kafka-1:9092 has answered"
    one = world.streams[0]
    look = one.brokers.model_copy(update={"problem": away})
    world.streams[0] = one.model_copy(update={"brokers": look})
    page = visitor.streams()
    expect(page.locator("#notices")).to_contain_text("The brokers do not answer for 1 stream")
    expect(page.locator("#notices")).to_contain_text(away)
    expect(page.locator("tr", has_text=one.stream)).to_contain_text("brokers away")


def test_no_streams(visitor, world):
    """An empty list says why it may be empty."""
    world.streams = []
    page = visitor.open()
    expect(page.locator("main")).to_contain_text("No streams.")


@pytest.mark.parametrize("width", [360, 390, 768])
def test_narrow(visitor, width):
    """A narrow window scrolls down, never sideways; sorting stays."""
    page = visitor.streams(width=width, height=800)
    inner, scroll = page.evaluate("[window.innerWidth, document.documentElement.scrollWidth]")
    assert scroll <= inner
    page.get_by_role("columnheader", name="Lag").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="Lag")).to_have_attribute(
        "aria-sort", "descending"
    )
