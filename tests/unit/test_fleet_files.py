"""A fleet file becomes ordinary streams; what two topics would share is refused with both names."""

from datetime import timedelta

import pytest

from tests.texts import REFUSED_FILE
from tests.worlds.build import NOW
from tideline.cli.main import main
from tideline.errors import BadInput, StreamFileError
from tideline.model.fleet import update_topics
from tideline.stream.contents import keep_topics, known_topics, topics_file
from tideline.stream.files import (
    by_name,
    claimed_names,
    find_fleet,
    find_stream,
    find_streams,
    read_file,
    read_files,
    read_fleet,
    read_stream,
    refused_fleets_beside,
    stream_paths,
)

FLEET = """\
fleet: shop
topic_pattern: shop\\..*
leave_out: [shop.test]
names: {shop.orders: orders}
stream:
  stream: "{name}"
  kafka: {connection: cluster}
  table: {uri: "/lake/{name}"}
  registry: {}
  decode:
    value: {format: avro, subject: "{topic}-value"}
overrides:
  shop.orders:
    limits: {max_records_per_run: 7}
"""
LATER = NOW + timedelta(hours=1)


def write(folder, text=FLEET, topics=("shop.orders", "shop.carts"), name="shop.yaml"):
    path = folder / name
    path.write_text(text)
    if topics:
        found = dict.fromkeys(topics, "id")
        keep_topics(read_file(path).fleet, path, update_topics(None, "shop", found, NOW))
    return path


def test_each_topic_becomes_a_stream_of_its_own(tmp_path):
    """Names of streams and folders are mapped, a schema's subject goes by the topic."""
    contents = read_file(write(tmp_path))
    carts, orders = contents.streams
    assert contents.topics == ("shop.carts", "shop.orders")
    assert (orders.stream, orders.kafka.topics) == ("orders", ["shop.orders"])
    assert orders.kafka.connection == "cluster"
    assert orders.table.uri == "/lake/orders"
    assert str(orders.ledger_location) == "/lake/orders.ledger"
    assert orders.decode.value.subject == "shop.orders-value"
    assert (orders.limits.max_records_per_run, carts.limits.max_records_per_run) == (7, 5_000_000)
    assert (carts.stream, carts.table.uri) == ("shop.carts", "/lake/shop.carts")
    assert not contents.problems


def test_before_the_first_look_a_fleet_has_no_stream(tmp_path):
    contents = read_file(write(tmp_path, topics=()))
    assert (contents.streams, contents.is_discovered) == ((), False)
    with pytest.raises(StreamFileError, match="tideline discover"):
        read_stream(tmp_path / "shop.yaml")


def test_a_fleet_may_name_its_topics(tmp_path):
    """Then there is nothing to look for, and what lies beside the file counts for nothing."""
    text = FLEET.replace("topic_pattern: shop\\..*", "topics: [shop.orders, shop.b]")
    path = write(tmp_path, text, topics=("shop.orders", "shop.c"))
    contents = read_file(path)
    assert (contents.topics, contents.is_discovered) == (("shop.orders", "shop.b"), True)


def test_topics_that_are_left_out_have_no_stream(tmp_path):
    contents = read_file(write(tmp_path, topics=("shop.test", "other", "shop.a")))
    assert contents.topics == ("shop.a",)


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "said"),
    [
        ('stream: "{name}"', "stream: orders", 6, "stream.stream", "topics a-topic and another"),
        ('"/lake/{name}"', "/lake/all", 8, "stream.table.uri", "write {topic} or {name} into it"),
        ("connection: cluster", "topics: [a]", 5, "stream", "each topic has a stream"),
        ("format: avro", "format: avroo", 11, "stream.decode.value.format", "allowed: "),
        ("max_records_per_run: 7", "max_records_per_run: 0", 14, "overrides.shop.orders", "topic"),
        ("    limits: {max", "    limitz: {max", 14, "overrides.shop.orders", "mean limits?"),
        ("  shop.orders:\n", "  orders:\n", 12, "overrides", "no topic of this fleet: orders"),
        ("{shop.orders: orders}", "{shop.orders: a/b}", 4, "names.shop.orders", "allowed"),
        ("{shop.orders: orders}", "{shop.orders: ..}", 4, "names.shop.orders", "allowed"),
        ("shop\\..*", "shop(", 2, "topic_pattern", "not a regular expression"),
        ("fleet: shop", "fleet: tideline_audit", 1, "fleet", "choose another one"),
        ("leave_out", "leave_aut", 3, "leave_aut", "did you mean leave_out?"),
        ("fleet: shop", "fleet: shop\ndiscover: often", 2, "discover", "cron"),
        ("    limits:", '    schedule: "@daily"\n    limits:', 12, "overrides", "with shards"),
        ("{topic}-value", "{topik}-value", 0, "", ""),
        ("/lake/{name}", "/lake/{table}", 8, "stream.table.uri", "without '{'; it has"),
        ('table: {uri: "/lake/{name}"}', "schedule: [", 10, "(file)", "invalid YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, old, new, line, key, said):
    """In the template it is said once, and not for each topic."""
    text = FLEET.replace(old, new)
    if "schedule" in new and "daily" in new:
        text = text.replace("fleet: shop", "fleet: shop\nshards: 2").replace("\nnames: {}", "")
        line += 1
    path = tmp_path / "shop.yaml"
    path.write_text(text)
    if not key:  # a word that is none stays as it is
        assert read_file(path).template.decode.value.subject == "{topik}-value"
        return
    with pytest.raises(StreamFileError) as refused:
        read_file(path)
    problem = refused.value.problems[0]
    assert (problem["line"], problem["key"][: len(key)]) == (line, key)
    assert said in problem["allowed"] + str(problem)
    assert str(refused.value).count(said) <= 2


def test_the_topic_that_was_there_first_goes_on(tmp_path):
    """Two topics that meet in a name are both named; the older one is not stopped by the newer."""
    path = write(tmp_path, topics=("shop.orders", "shop.a"))
    fleet = read_file(path).fleet
    known = known_topics(fleet, path)
    found = dict.fromkeys(("shop.orders", "shop.a", "shop.a.ledger"), "id")
    keep_topics(fleet, path, update_topics(known, "shop", found, LATER))
    contents = read_file(path)
    assert contents.topics == ("shop.a", "shop.orders")
    (problem,) = contents.problems
    assert "the topics shop.a and shop.a.ledger meet here" in problem.allowed
    assert problem.value == "'/lake/shop.a.ledger'"


def test_topics_that_meet_from_the_beginning_are_both_left_out(tmp_path):
    text = FLEET.replace("{shop.orders: orders}", "{shop.a: same, shop.b: same}")
    contents = read_file(write(tmp_path, text, topics=("shop.a", "shop.b", "shop.orders")))
    assert contents.topics == ("shop.orders",)
    (problem,) = contents.problems
    assert problem.key == "stream.stream"


def test_a_topic_named_like_the_fleet_is_refused(tmp_path):
    """The fleet's name is its Dag's."""
    text = FLEET.replace("{shop.orders: orders}", "{shop.carts: shop}")
    contents = read_file(write(tmp_path, text))
    assert contents.topics == ("shop.orders",)
    assert "the fleet's own name is its Dag's" in contents.problems[0].allowed


def test_what_a_look_has_found():
    """Nothing ever leaves the list; the first look counts, and the last id."""
    first = update_topics(None, "shop", {"a": "1", "b": "2"}, NOW)
    second = update_topics(first, "shop", {"b": "9", "c": "3"}, LATER)
    third = update_topics(second, "shop", {"a": "1", "b": "9"}, LATER + timedelta(hours=1))
    told = [(t.name, t.topic_id, t.first_seen, t.gone_since) for t in second.topics]
    assert told == [("a", "1", NOW, LATER), ("b", "9", NOW, None), ("c", "3", LATER, None)]
    assert [t.gone_since for t in third.topics] == [None, None, LATER + timedelta(hours=1)]
    again = update_topics(third, "shop", {"a": "1", "b": "9"}, LATER + timedelta(days=1))
    assert again.topics == third.topics  # since the first time that it was missed


def test_a_topic_leaves_its_fleet_by_a_file_of_its_own(tmp_path):
    """The file counts, the fleet goes on without it, and nobody calls that a mistake."""
    path = write(tmp_path)
    (tmp_path / "orders.yaml").write_text(
        "stream: orders\nkafka: {topics: [shop.orders]}\ntable: {uri: /lake/orders}\n"
        "limits: {max_records_per_run: 3}\n"
    )
    assert find_stream("orders", tmp_path).limits.max_records_per_run == 3
    assert [s.stream for s in read_fleet(path).streams] == ["shop.carts"]
    files, problems = read_files(stream_paths(tmp_path))
    named = by_name(files, {})
    assert not problems
    assert (named["orders"].fleet, named["orders"].warning) == (None, None)
    assert named["shop.carts"].fleet.fleet == "shop"


def test_validate_takes_a_fleet_and_a_topic_that_has_left_it(tmp_path, capsys):
    path = write(tmp_path)
    own = tmp_path / "orders.yaml"
    own.write_text("stream: orders\nkafka: {topics: [a]}\ntable: {uri: /lake/orders}\n")
    assert main(["validate", str(path), str(own)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [f"{path}: shop.carts", f"{own}: orders"]
    later = write(tmp_path, FLEET.replace("fleet: shop", "fleet: later"), (), "later.yaml")
    assert main(["validate", str(later)]) == 0
    assert "`tideline discover` looks for them" in capsys.readouterr().out


def test_a_stream_that_has_left_does_not_come_back_while_its_file_is_refused(tmp_path):
    """A slip in its file must not have the fleet land it, perhaps into another table."""
    path = write(tmp_path)
    (tmp_path / "orders.yaml").write_text("stream: [")
    assert [s.stream for s in read_fleet(path).streams] == ["shop.carts"]
    files, problems = read_files(stream_paths(tmp_path))
    assert set(by_name(files, claimed_names(problems))) == {"shop.carts"}
    with pytest.raises(BadInput, match=REFUSED_FILE):
        find_stream("orders", tmp_path)


@pytest.mark.parametrize("slip", ["slip: 1\n", "slip: [\n"])
@pytest.mark.parametrize(("seen", "counts"), [(LATER, False), (NOW - timedelta(hours=1), True)])
def test_no_other_fleet_lands_what_a_refused_fleet_has_found_first(tmp_path, slip, seen, counts):
    """Nor does a refused fleet take away what another one saw first, or a file of its own has."""
    path = write(tmp_path, FLEET.replace("shop.orders: orders", ""))
    path.write_text(FLEET.replace("shop.orders: orders", "") + slip)
    other = write(tmp_path, FLEET.replace("fleet: shop", "fleet: b"), (), "b.yaml")
    topics = {"shop.carts": "id", "shop.new": "id"}
    keep_topics(read_file(other).fleet, other, update_topics(None, "b", topics, seen))
    (tmp_path / "z.yaml").write_text(
        "stream: shop.orders\nkafka: {topics: [a]}\ntable: {uri: /lake/a}\n"
    )
    files, problems = read_files(stream_paths(tmp_path))
    named = by_name(files, claimed_names(problems))
    assert set(named) == {"shop.new", "shop.orders"} | ({"shop.carts"} if counts else set())
    told = "\n".join(map(str, read_fleet(other).problems))
    assert ("shop.yaml has it, a fleet that is refused" in told) is not counts


def test_a_refused_file_that_says_nothing_may_be_a_fleet_with_a_list(tmp_path):
    """The list of its topics, which lies there by its name, does not make it a stream's file."""
    write(tmp_path).write_text("")
    other = write(tmp_path, FLEET.replace("fleet: shop", "fleet: b"), (), "b.yaml")
    assert refused_fleets_beside(other) == (tmp_path / "shop.yaml",)


@pytest.mark.parametrize(
    ("refused_name", "refused_text", "copy", "counts"),
    [
        ("orders.yaml", "stream: orders\nslip: 1\n", "orders-old.yaml", False),
        ("orders.yaml", "stream: [", "a.yaml", False),
        ("a.yaml", "stream: orders\nslip: 1\n", "b.yaml", False),
        ("a.yaml", "\ufeffstream: orders\nslip: 1\n", "b.yaml", False),
        ("a.yaml", "slip: 1\n? stream\n: !!str 'orders'\n", "b.yaml", False),
        ("a.yaml", '{slip: [1], "str\\u0065am": "ord\\u0065rs"}', "b.yaml", False),
        ("a.yaml", "stream: &x orders\ntable: [", "b.yaml", False),
        ("orders.yaml", "stream: orders\nslip: 1\n", "orders.yml", False),
        ("b.yaml", "stream: orders\nslip: 1\n", "a.yaml", True),
        ("orders-old.yaml", "stream: orders\nslip: 1\n", "orders.yaml", True),
        ("other.yaml", "table: {stream: orders}\n", "orders-old.yaml", True),
        (".#orders.yaml", "stream: orders\nslip: 1\n", "orders-old.yaml", True),
    ],
)
def test_an_older_copy_does_not_count_while_the_file_that_would_is_refused(
    tmp_path, refused_name, refused_text, copy, counts
):
    """It may say another table, or an earlier topic: no run must land by it."""
    (tmp_path / refused_name).write_text(refused_text)
    (tmp_path / copy).write_text(
        "stream: orders\nkafka: {topics: [a]}\ntable: {uri: /lake/orders}\n"
    )
    files, problems = read_files(stream_paths(tmp_path))
    assert set(by_name(files, claimed_names(problems))) == ({"orders"} if counts else set())
    if counts:
        assert find_stream("orders", tmp_path).stream == "orders"
    else:
        with pytest.raises(BadInput, match=REFUSED_FILE):
            find_stream("orders", tmp_path)


def test_two_fleets_with_one_stream_are_told(tmp_path):
    write(tmp_path)
    write(tmp_path, FLEET.replace("fleet: shop", "fleet: shop2"), (), "shop2.yaml")
    other = tmp_path / "shop2.yaml"
    fleet = read_file(other).fleet
    keep_topics(fleet, other, update_topics(None, "shop2", {"shop.orders": "id"}, NOW))
    named = by_name(read_files(stream_paths(tmp_path))[0], {})
    assert (
        "shop2.yaml also says stream: orders; shop.yaml is what counts" in named["orders"].warning
    )


def test_one_of_a_fleet_s_streams_is_named(tmp_path):
    path = write(tmp_path)
    assert read_stream(path, "orders").stream == "orders"
    assert find_stream("shop.carts", tmp_path).stream == "shop.carts"
    assert find_fleet("shop", tmp_path)[1] == path
    with pytest.raises(StreamFileError, match="did you mean orders"):
        read_stream(path, "order")
    with pytest.raises(StreamFileError, match="with --stream: shop"):
        read_stream(path)
    own = tmp_path / "one.yaml"
    own.write_text("stream: one\nkafka: {topics: [a]}\ntable: {uri: /lake/one}\n")
    with pytest.raises(StreamFileError, match="a fleet file, which has a key `fleet`"):
        read_fleet(own)


def test_the_list_of_topics_is_one_fleet_s_and_is_replaced_as_a_whole(tmp_path):
    path = write(tmp_path)
    fleet = read_file(path).fleet
    kept = topics_file(fleet, path)
    assert kept == tmp_path / "shop.topics.json"
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".")] == []
    kept.write_text(kept.read_text()[:40])
    with pytest.raises(StreamFileError, match=r"topics_file: .*cannot be read"):
        read_file(path)
    keep_topics(fleet, path, update_topics(None, "other", {}, NOW))
    with pytest.raises(StreamFileError, match="it is of fleet other"):
        read_file(path)
    path.write_text("topics_file: /no/such/folder/t.json\n" + FLEET)
    elsewhere = read_file(path).fleet
    with pytest.raises(BadInput, match="no such file or directory; name a path in `topics_file`"):
        keep_topics(elsewhere, path, update_topics(None, "shop", {}, NOW))


OWN = 'stream: "people-{n}"\nkafka: {topics: [people]}\ntable: {uri: "/lake/people-{n}"}\n'


def test_a_pattern_says_which_streams_it_means(tmp_path):
    """Each once, in the order of what has named it first."""
    write(tmp_path)
    for n in "ab":
        (tmp_path / f"people-{n}.yaml").write_text(OWN.replace("{n}", n))
    found = find_streams("people-b, people-*  shop.*,orders", tmp_path)
    assert [s.stream for s in found] == ["people-b", "people-a", "shop.carts", "orders"]


UNSURE = {
    "a file that is refused": (lambda f: (f / "people-b.yaml").write_text("stream: ["), 1),
    "one of another name": (lambda f: (f / "x.yml").write_text(OWN + "oops: 1\n"), 1),
    "topics that meet": (lambda f: write(f, topics=("shop.a", "shop.a.ledger")), 1),
    "a fleet whose topics are not known": (lambda f: write(f, topics=()), 1),
    "a list of topics that is damaged": (
        lambda f: topics_file(read_file(write(f)).fleet, f / "shop.yaml").write_text("{"),
        1,
    ),
    "two files of one stream": (
        lambda f: (f / "z.yaml").write_text(OWN.replace("{n}", "a").replace("/lake", "/other")),
        1,
    ),
    "a link to nothing": (lambda f: (f / "gone.yaml").symlink_to(f / "nothing"), 1),
}


@pytest.mark.parametrize("what", UNSURE)
@pytest.mark.parametrize("pattern", ["people-*", "*", "people-a,people-?"])
def test_a_pattern_is_refused_where_nobody_knows_whom_it_would_miss(tmp_path, what, pattern):
    """How many are meant, and not which: whoever asks may not know of them."""
    (tmp_path / "people-a.yaml").write_text(OWN.replace("{n}", "a"))
    make, count = UNSURE[what]
    make(tmp_path)
    with pytest.raises(BadInput, match=f"pattern.*: {count}; so .*Nothing was done") as refused:
        find_streams(pattern, tmp_path)
    assert "shop" not in refused.value.message
    assert "people-b" not in refused.value.message
    assert [s.stream for s in find_streams("people-a", tmp_path)] == ["people-a"]


@pytest.mark.parametrize("names", ["", " ", ",", " , ", "\t,\n"])
def test_a_selection_of_no_stream_is_refused(tmp_path, names):
    with pytest.raises(BadInput, match="got no name"):
        find_streams(names, tmp_path)


def test_null_takes_a_key_of_the_template_away_and_nothing_else(tmp_path):
    """Of one topic; a key that the template lacks was forgotten, as in a stream file."""
    text = FLEET.replace("limits: {max_records_per_run: 7}", "decode: null\n    registry:")
    carts, orders = read_file(write(tmp_path, text)).streams
    assert carts.decode is not None
    assert (orders.decode, orders.registry) == (None, None)
    for key, line in (("current:", 14), ("limits: {max_records_per_run: }", 14)):
        text = FLEET.replace("limits: {max_records_per_run: 7}", key)
        with pytest.raises(StreamFileError, match=f":{line}: overrides.shop.orders.* got nothing"):
            read_file(write(tmp_path, text))
    text = FLEET.replace("  registry: {}\n", "  registry:\n")
    with pytest.raises(StreamFileError, match=r"stream\.registry: got nothing; allowed"):
        read_file(write(tmp_path, text))
