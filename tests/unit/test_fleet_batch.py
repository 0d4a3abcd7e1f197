"""A batch of many streams: what becomes of one holds up no other, and is told by its name."""

import logging
import threading
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.worlds.build import NOW
from tideline.errors import Halted, ServiceAway, StreamBusy, VerificationFailed
from tideline.fleet import batch
from tideline.fleet.batch import Batch, StreamRun, gravest, shard_of, summary
from tideline.model.request import RunRequest, Window
from tideline.model.run import RunRecord, TableCommit
from tideline.stream.files import parse_stream


def record(status, **facts):
    return RunRecord("run-1", "live", status, "digest", NOW, **facts)


def stream(name):
    """One of a name, of a cluster after a colon; `typed` ones are decoded."""
    name, _, cluster = name.partition(":")
    kafka = f"topics: [{name}], connection: {cluster or 'kafka_default'}"
    text = f"stream: {name}\nkafka: {{{kafka}}}\ntable: {{uri: /lake/{name}}}\n"
    if name.startswith("typed"):
        text += "decode: {value: {format: json, framing: connect}}\n"
    return parse_stream(text, "x.yaml")


class Ledgers:
    """What each stream's run does, and the runs that are closed already."""

    def __init__(self, monkeypatch):
        self.does = {}
        self.closed = {}
        self.ran, self.decoded = [], []
        monkeypatch.setattr(batch, "open_run", self.open_run)
        monkeypatch.setattr(batch, "land_batch", self.land_batch)
        monkeypatch.setattr(batch, "decode_batch", self.decode_batch)
        monkeypatch.setattr(batch, "fold_batch", lambda run: None)

    @contextmanager
    def open_run(self, stream, run_id, request, spark):
        known = self.closed.get(stream.stream)
        yield SimpleNamespace(
            stream=stream,
            run_id=run_id,
            typed=stream.decode,
            current=None,
            ledger=SimpleNamespace(read=lambda: None, find_decoding=lambda run_id: None),
            settled=[],
            record_in=lambda state: known,
        )

    def decode_batch(self, run):
        self.decoded.append((run.stream.stream, len(self.ran)))
        if isinstance(does := self.does.get(f"{run.stream.stream} decodes"), Exception):
            raise does
        run.decoded = "decoded"

    def land_batch(self, run):
        name = run.stream.stream
        self.ran.append(name)
        does = self.does.get(name)
        if isinstance(does, Exception):
            raise does
        if does is not None:
            does()
        logging.getLogger("tideline").warning("landing")
        return record("done", table_commit=TableCommit("id", 1, 1, 0, 0))


@pytest.fixture
def ledgers(monkeypatch):
    return Ledgers(monkeypatch)


def run(names, run_id="run-1", request=None, **arguments):
    given = {"threads": 2, "spark": object(), **arguments}
    batched = Batch(run_id, request or RunRequest(), **given)
    return {r.stream: r for r in batched.run([stream(name) for name in names])}


def test_what_one_stream_ends_with_holds_up_no_other(ledgers):
    """Each outcome has the state that an exit status would tell, and its own error."""
    ledgers.does = {
        "halts": Halted("x", incidents=()),
        "away": ServiceAway("x"),
        "busy": StreamBusy("x", lease="live"),
        "bad": VerificationFailed("x"),
        "bug": KeyError("x"),
    }
    names = [*ledgers.does, "good", "fine"]
    found = run(names)
    assert {name: r.state for name, r in found.items()} == {
        "halts": "halted",
        "away": "retry",
        "busy": "busy",
        "bad": "failed",
        "bug": "failed",
        "good": "done",
        "fine": "done",
    }
    assert "a bug of Tideline: KeyError" in found["bug"].error.message
    assert sorted(ledgers.ran) == sorted([*names, "busy"])  # it had a second turn
    told = summary(list(found.values()))
    assert told.splitlines()[0].startswith("7 streams: 2 done, 1 busy, 1 retry, 1 halted, 2 failed")
    assert "failed: bad, bug" in told
    assert gravest(list(found.values())).exit_code in (1, 5)
    assert gravest([found["busy"], found["good"]]) is None


def test_a_batch_that_is_run_again_lands_what_is_left(ledgers):
    """Closed runs are left alone; one that a rewind has undone is not closed."""
    undone = record("superseded", superseded_by="rewind-1 (to run-0)")
    ledgers.closed = {"a": record("done"), "b": record("planned"), "c": undone}
    found = run("abcd", only_left=True)
    assert found["a"].state == "closed_before"
    assert sorted(ledgers.ran) == ["b", "c", "d"]
    run("a")
    assert ledgers.ran[-1] == "a"


def test_a_service_that_is_away_is_not_waited_for_by_each_of_hundreds(ledgers):
    """Each would wait for a minute. Whatever goes well in between begins the count anew.

    One thread has an order: with two, one that stands still lets others end in a row.
    """
    ledgers.does = {f"s{n:02}": ServiceAway("no broker") for n in range(30)}
    found = run(sorted(ledgers.does))
    assert {r.state for r in found.values()} == {"retry"}
    assert 4 <= len(ledgers.ran) <= 8  # some once more, after all others
    assert sum("not begun: " in str(r.error) for r in found.values()) == 30 - len(ledgers.ran)
    ledgers.ran.clear()
    ledgers.does = {f"s{n:02}": ServiceAway("x") if n % 2 else None for n in range(30)}
    run(sorted(ledgers.does), threads=1)
    assert len(ledgers.ran) == 30


def test_streams_of_services_that_answer_land_all_the_same(ledgers):
    """Whichever the batch begins with; and of those in trouble others are tried each time."""
    away = [f"a{n:02}:dead" for n in range(10)]
    ledgers.does = {name.partition(":")[0]: ServiceAway("no broker") for name in away}
    tried = set()
    for number in range(5):
        found = run([*away, "b", "c"], run_id=f"run-{number}")
        assert (found["b"].state, found["c"].state) == ("done", "done")
        tried |= {*ledgers.ran}
        ledgers.ran.clear()
    assert len(tried - {"b", "c"}) > 4


def test_a_stream_that_was_not_begun_has_a_turn_once_others_have_landed(ledgers):
    """Two that are in trouble by themselves hold up none that is not."""
    calls = dict.fromkeys("ab", 0)

    def away(name):
        calls[name] += 1
        raise ServiceAway("no leader")

    ledgers.does = {"a": lambda: away("a"), "b": lambda: away("b")}
    for number in range(6):  # the batch begins with each in turn
        found = run("abcdef", threads=1, run_id=f"run-{number}")
        assert [found[name].state for name in "cdef"] == ["done"] * 4


def test_several_that_are_in_trouble_by_themselves_hold_up_none_however_they_stand(ledgers):
    """Whatever lands in between shows that the service answers: what waits has another turn."""
    names = [f"s{n:02}" for n in range(30)]
    away = {name for n, name in enumerate(names) if n % 10 in (4, 5, 6)}
    ledgers.does = dict.fromkeys(away, ServiceAway("no leader"))
    for number in range(6):
        found = run(names, run_id=f"run-{number}")
        assert {n for n, r in found.items() if r.state == "done"} == {*names} - away
        assert {n for n, r in found.items() if r.state == "retry"} == away


def test_what_cannot_be_decoded_holds_up_no_landing(ledgers):
    """All land before any decodes; what has landed is told, whatever comes of its decoding."""
    names = [f"typed-{n}" for n in range(6)]
    ledgers.does = {f"{name} decodes": ServiceAway("poison") for name in names[:4]}
    found = run([*names, "plain"])
    assert len(ledgers.ran) == 7
    assert {at for _, at in ledgers.decoded} == {7}
    assert {name: (r.state, r.has_landed) for name, r in found.items()} == {
        **dict.fromkeys(names[:4], ("retry", True)),
        **dict.fromkeys((*names[4:], "plain"), ("done", True)),
    }
    assert found["typed-5"].decoded == "decoded"


@pytest.mark.parametrize("facts", [{"lease": "live"}, {"lease": "writer"}, {}])
def test_a_window_that_others_hold_up_has_not_landed(ledgers, facts):
    """Who holds a lane lands its own offsets: only the live lane's are those of this run."""
    ledgers.does = {"a": StreamBusy("held", **facts)}
    window = RunRequest(window=Window(NOW - timedelta(hours=1), NOW))
    found = run("ab", request=window)
    assert found["a"].state == "retry"
    assert gravest(list(found.values())) is found["a"].error
    assert ledgers.ran.count("a") == 2
    is_landing = facts == {"lease": "live"}  # a backfill or an erasure lands nothing of this run's
    assert run("a")["a"].state == ("busy" if is_landing else "retry")


def test_streams_are_worked_on_at_once_but_no_more_than_asked(ledgers):
    """Three threads meet at a barrier for three; a fourth would break it."""
    at_work, most, lock = set(), [], threading.Lock()
    barrier = threading.Barrier(3)

    def meet():
        with lock:
            at_work.add(threading.get_ident())
            most.append(len(at_work))
        barrier.wait(10)
        with lock:
            at_work.discard(threading.get_ident())

    ledgers.does = dict.fromkeys((f"s{n}" for n in range(9)), meet)
    run(sorted(ledgers.does), threads=3)
    assert max(most) <= 3


def test_who_stops_asking_ends_the_batch(ledgers):
    """Streams that have not begun do not begin."""
    batched = Batch("run-1", RunRequest(), threads=1, spark=object())
    stopped, stop = threading.Event(), batched.stop
    batched.stop = lambda: (stop(), stopped.set())

    def waits():
        if len(ledgers.ran) > 1:
            stopped.wait(10)

    ledgers.does = dict.fromkeys((f"s{n}" for n in range(50)), waits)
    outcomes = batched.run([stream(f"s{n}") for n in range(50)])
    next(outcomes)
    outcomes.close()
    assert len(ledgers.ran) <= 2
    (left,) = batched.run([stream("late")])
    assert (left.state, "late" in ledgers.ran) == ("retry", False)


def test_each_line_of_the_log_names_its_stream(ledgers, caplog):
    """And none does so after the batch."""
    with caplog.at_level(logging.WARNING, "tideline"):
        run("ab")
        logging.getLogger("tideline").warning("after")
    assert {r.message for r in caplog.records} == {"a: landing", "b: landing", "after"}


def test_every_run_is_told_of_also_one_that_halts(ledgers):
    told = {}
    ledgers.does = {"b": Halted("x", incidents=())}
    run("ab", tell=lambda run, record: told.update({run.stream.stream: record}))
    assert (told["a"].status, told["b"]) == ("done", None)


def test_each_stream_is_in_one_shard_and_stays_there():
    """Whatever other streams there are; and no shard is left without work."""
    streams = [stream(f"topic-{n}") for n in range(400)]
    sizes = [sum(shard_of(s, 4) == shard for s in streams) for shard in range(4)]
    assert sum(sizes) == 400
    assert min(sizes) > 60
    assert [shard_of(stream(n), 8) for n in ("orders", "carts")] == [6, 4]


def test_a_summary_names_fifty_at_most():
    runs = [StreamRun(f"s{n:03}", "halted", error=Halted("x")) for n in range(80)]
    assert summary(runs).endswith("s049 and 30 more")
