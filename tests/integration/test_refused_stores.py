"""Object stores that can never be used as the connection says: bad input, at once, by name."""

import base64
import pickle
import time
from datetime import UTC, datetime

import pytest

from devstack.store_faults import Answer, Page, Rule
from tests.worlds.object_stores import BUCKET, ignoring_conditions, left_in
from tideline.errors import ServiceAway, StoreRefused
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.store.store_refusals import endpoint_of
from tideline.store.store_settings import CONNECTION, with_limits
from tideline.table.delta_table import TargetTable

AT_ONCE_SECONDS = 20
"""The longest is a name that does not resolve, which is tried again a few times."""
WAYS = {
    "the ledger is read": lambda uri, options: DeltaLedgerStore(uri, options).read(),
    "the ledger is written": lambda uri, options: Ledger(
        DeltaLedgerStore(uri, options), "s"
    ).update(lambda s: s.with_next_token()),
    "the table is observed": lambda uri, options: TargetTable(uri, options).observe(),
    "the table is created": lambda uri, options: TargetTable(uri, options).create(
        "s", "l", ["topic_id"]
    ),
}


@pytest.fixture(params=WAYS)
def use(request):
    """Each way to meet the store first."""
    return WAYS[request.param]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """The machine's own proxy would answer for names that do not exist."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def refused(use, bucket, uri=None, **options):
    """The error; it comes at once, names the connection, and shows no secret."""
    given = {name: value for name, value in {**bucket.options, **options}.items() if value}
    began = time.monotonic()
    with pytest.raises(StoreRefused) as error:
        use(uri or bucket.uri("new"), with_limits({**given, CONNECTION: "lake_store"}))
    assert time.monotonic() - began < AT_ONCE_SECONDS
    found = error.value
    assert (found.exit_code, found.connection, found.endpoint) == (
        2,
        "lake_store",
        endpoint_of(bucket.uri(), given),
    )
    assert "connection lake_store" in str(found)
    assert "run again" in str(found)
    assert "\x1b" not in str(found)
    secrets = [value for name, value in given.items() if "SECRET" in name or "KEY" in name]
    assert not any(secret in str(found) for secret in secrets if len(secret) > 8)
    assert "sig=" not in str(found)
    assert pickle.loads(pickle.dumps(found)).cause == found.cause
    return found


def test_an_unknown_key(bucket, use):
    assert refused(use, bucket, AWS_ACCESS_KEY_ID="nobody").cause == "authentication"


WRONG = {
    "s3a": {"AWS_SECRET_ACCESS_KEY": "a-wrong-secret"},
    "azure": {"AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(b"a wrong key").decode()},
}


def test_a_wrong_secret(any_bucket, use):
    if (wrong := WRONG.get(any_bucket.store.kind)) is None:
        pytest.skip("what stands in for Google's store asks for no login")
    assert refused(use, any_bucket, **wrong).cause == "authentication"


SAS = {
    "expired": ("rcwdl", datetime(2020, 1, 1, tzinfo=UTC), "authentication"),
    "without the right to list": ("rcwd", datetime(2099, 1, 1, tzinfo=UTC), "authorization"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", SAS)
def test_a_signature_of_azures_that_is_not_enough(azurite, use, how):
    rights, until, cause = SAS[how]
    token = azurite.store.sas(BUCKET, rights, until)
    given = {"AZURE_STORAGE_ACCOUNT_KEY": "", "AZURE_STORAGE_SAS_TOKEN": token}
    assert refused(use, azurite.bucket("sas"), **given).cause == cause


@pytest.mark.slow
def test_a_signature_of_azures_that_is_enough(azurite):
    bucket = azurite.bucket("sas-good")
    token = azurite.store.sas(BUCKET, "rcwdl", datetime(2099, 1, 1, tzinfo=UTC))
    options = {**bucket.options, "AZURE_STORAGE_SAS_TOKEN": token}
    del options["AZURE_STORAGE_ACCOUNT_KEY"]
    for uri, way in zip(("l", "l", "t", "t"), WAYS.values(), strict=True):
        way(bucket.uri(uri), with_limits(options))
    assert TargetTable(bucket.uri("t"), options).observe().exists


@pytest.mark.slow
def test_a_key_of_azures_that_is_none(azurite, use):
    wrong = {"AZURE_STORAGE_ACCOUNT_KEY": "no base64!"}
    assert refused(use, azurite.bucket("key"), **wrong).cause == "authentication"


@pytest.mark.slow
@pytest.mark.parametrize("text", ["{}", "no JSON", '{"client_email": "a"}'])
def test_a_key_of_googles_that_is_none(fake_gcs, use, text):
    wrong = {"GOOGLE_SERVICE_ACCOUNT_KEY": text}
    assert refused(use, fake_gcs.bucket("key"), **wrong).cause == "authentication"


@pytest.mark.slow
@pytest.mark.parametrize("server", ["azurite", "fake_gcs"])
def test_nothing_is_configured(request, use, server, monkeypatch):
    """The machine's identity is the last that is asked for; this machine has none."""
    bucket = request.getfixturevalue(server).bucket("none")
    none = {name: "" for name in bucket.options if name.endswith("_KEY")}
    found = refused(use, bucket, **none)
    assert (found.cause, "no credentials" in str(found)) == ("authentication", True)


def test_no_credentials_at_all(bucket, use, monkeypatch):
    """The machine's role is the last that is asked for."""
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    found = refused(use, bucket, **none)
    assert (found.cause, "no credentials" in str(found)) == ("authentication", True)


def test_a_bucket_that_is_not_there(any_bucket, use):
    if any_bucket.store.kind == "google":
        pytest.skip("what stands in for Google's store names no code")
    uri = any_bucket.store.address("no-such-bucket", "orders")
    found = refused(use, any_bucket, uri=uri)
    assert (found.cause, found.bucket) == ("bucket", "no-such-bucket")


@pytest.mark.slow
def test_another_region(gateway, use):
    """S3Proxy takes any."""
    found = refused(use, gateway.bucket("region"), AWS_REGION="eu-west-7")
    assert (found.cause, "us-east-1" in str(found)) == ("region", True)


def test_a_name_that_does_not_resolve(bucket, use):
    found = refused(use, bucket, AWS_ENDPOINT_URL="http://no-such-host.invalid:9000")
    assert (found.cause, "does not resolve" in str(found)) == ("endpoint", True)


def test_tls_where_there_is_none(bucket, use):
    endpoint = bucket.proxy.endpoint.replace("http:", "https:")
    assert refused(use, bucket, AWS_ENDPOINT_URL=endpoint).cause == "endpoint"


@pytest.mark.parametrize(
    ("status", "code", "cause"),
    [
        (403, "AccessDenied", "authorization"),
        (400, "ExpiredToken", "authentication"),
        (403, "RequestTimeTooSkewed", "authentication"),
        (400, "AuthorizationHeaderMalformed", "region"),
        (301, "PermanentRedirect", "region"),
    ],
)
def test_what_amazon_s_store_says(bucket, use, status, code, cause):
    """Words of the real one, which cannot be asked here."""
    with bucket.proxy.applying(Rule(Answer(status, code))):
        assert refused(use, bucket).cause == cause


def test_a_web_page_is_no_empty_store(bucket, use):
    """It is a list of objects without an object, as far as delta-rs reads it."""
    with bucket.proxy.applying(Rule(Page())):
        found = refused(use, bucket)
    assert (found.cause, "text/html" in str(found)) == ("endpoint", True)


def test_what_answers_is_only_asked_where_nothing_is(bucket):
    """No run of a stream that has landed pays for it."""

    def unsigned():
        return [r for r in bucket.proxy.requests if "max-keys=0" in r.target]

    table = TargetTable(bucket.uri(), with_limits(bucket.options))
    assert not table.observe().exists
    assert len(unsigned()) == 1
    table.create("s", "l", ["topic_id"])
    before = len(unsigned())
    assert table.observe().exists
    assert len(unsigned()) == before


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError")])
def test_a_store_that_is_busy_is_only_away(bucket, status, code):
    """It is tried again, later."""
    table = TargetTable(bucket.uri(), {**with_limits(bucket.options), "max_retries": "1"})
    with bucket.proxy.applying(Rule(Answer(status, code))), pytest.raises(ServiceAway):
        table.observe()


def test_a_store_that_is_busy_for_a_moment_is_not_even_noticed(bucket):
    """object_store tries again by itself."""
    table = TargetTable(bucket.uri(), with_limits(bucket.options))
    with bucket.proxy.applying(Rule(Answer(503, "SlowDown"), times=3)) as rule:
        assert not table.observe().exists
    assert bucket.proxy.applied(rule) == 3


def test_where_nothing_listens_the_store_is_only_away(bucket):
    """It may be starting."""
    options = {**with_limits(bucket.options), "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    with pytest.raises(ServiceAway):
        TargetTable(bucket.uri(), options).observe()


@pytest.mark.parametrize("way", ["the ledger is written", "the table is created"])
def test_a_store_that_ignores_conditions_is_refused_before_the_first_commit(any_bucket, way):
    """ADR 27: two writers would both believe that they have committed."""
    with any_bucket.proxy.applying(ignoring_conditions(any_bucket)):
        found = refused(WAYS[way], any_bucket)
    assert (found.cause, "If-None-Match" in str(found)) == ("conditional_put", True)
    assert left_in(any_bucket, "new") == []


@pytest.mark.parametrize("way", ["the ledger is written", "the table is created"])
def test_a_store_that_honours_them_is_asked_once(any_bucket, way):
    """Nothing is left of it, and nothing is asked of a table that is there."""

    def probes():
        puts = [r for r in any_bucket.proxy.requests if r.method == "PUT"]
        return sum("tideline-probe" in request.key for request in puts)

    WAYS[way](any_bucket.uri("new"), any_bucket.options)
    assert probes() == 2
    assert [key for key in left_in(any_bucket, "new") if "probe" in key] == []
    WAYS[way](any_bucket.uri("new"), any_bucket.options)
    assert probes() == 2
