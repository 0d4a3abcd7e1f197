"""A role in the connection: delta-rs and Spark both assume it, and use nothing else."""

import json
import re

import pytest

from devstack.store_faults import Rule
from tests.worlds.object_stores import AssumeRole
from tests.worlds.streams import is_clean
from tideline.errors import ServiceAway, StoreRefused
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.store.store_settings import store_settings, with_limits

ROLE = "arn:aws:iam::123456789012:role/lake"


@pytest.fixture
def service(bucket, monkeypatch):
    """It gives out the store's key for the role; the environment's own is unknown to the store."""
    endpoint, store = bucket.proxy.endpoint, bucket.store
    connect(monkeypatch, endpoint, ROLE)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "mine",
        "AWS_SECRET_ACCESS_KEY": "my-secret",
        "AWS_ENDPOINT_URL_STS": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return bucket.proxy.add(Rule(AssumeRole(ROLE, store.access_key, store.secret_key), "POST"))


def connect(monkeypatch, endpoint, role):
    extra = {"endpoint_url": endpoint, "region_name": "us-east-1", "role_arn": role}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "aws", "extra": extra}))


def keys(bucket, *, of_spark):
    """The keys that have signed requests, each with the service that it was meant for."""
    found = set()
    for request in bucket.proxy.requests:
        authorization = request.headers.get("authorization")
        if authorization is None:  # the look at whether the endpoint is a store at all
            continue
        signed = re.search(r"Credential=(\w+)/\d+/[\w-]+/(\w+)/", authorization)
        if request.is_spark is of_spark:
            found.add(signed.groups())
    return found


def ledger(bucket):
    options = with_limits(store_settings("lake", "s3a://lake/orders").for_delta())
    return Ledger(DeltaLedgerStore(bucket.uri("ledger"), options), "s")


def test_delta_rs_assumes_it(bucket, service):
    """With an endpoint of its own, delta-rs would otherwise use whatever key it finds."""
    ledger(bucket).update(lambda s: s.with_next_token())
    assert ledger(bucket).update(lambda s: s.with_next_token()).control.token == 2
    assert keys(bucket, of_spark=False) == {("mine", "sts"), (bucket.store.access_key, "s3")}


def test_a_role_that_is_denied_is_refused(bucket, service, monkeypatch):
    """It is no reason to go on with the key itself; delta-rs does not say what was answered."""
    connect(monkeypatch, bucket.proxy.endpoint, f"{ROLE}-of-others")
    with pytest.raises(ServiceAway):
        ledger(bucket).read()
    assert keys(bucket, of_spark=False) == {("mine", "sts")}


@pytest.mark.parametrize("missing", ["AWS_REGION", "AWS_ACCESS_KEY_ID"])
def test_what_it_needs_of_the_environment_is_named(bucket, service, monkeypatch, missing):
    """The connection's region is the bucket's."""
    monkeypatch.delenv(missing)
    with pytest.raises(StoreRefused) as refused:
        ledger(bucket).read()
    assert refused.value.cause == "authentication"
    assert not keys(bucket, of_spark=False)


@pytest.mark.slow
def test_spark_assumes_it(harness, bucket, service):
    """A run lands, with a driver of its own."""
    harness.create(partitions=1)
    harness.send(100)
    stream = harness.stream(table={"uri": bucket.uri(), "connection": "lake"})
    assert harness.run(stream, "lands", None).status == "done"
    assert is_clean(harness, stream)
    assumed = {("mine", "sts"), (bucket.store.access_key, "s3")}
    assert keys(bucket, of_spark=True) == assumed
    assert keys(bucket, of_spark=False) == assumed
