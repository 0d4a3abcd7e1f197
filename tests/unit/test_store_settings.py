"""An object store's connection: what is allowed, and how it is spelled for delta-rs and Spark."""

import pytest

from tideline.connections import Connection
from tideline.errors import ConnectionMissing
from tideline.store.s3 import S3Settings, read_settings
from tideline.store.store_settings import store_settings

ROLE = "arn:aws:iam::123456789012:role/lake"


def read(login="AKIA", password="hidden", **extra):
    return read_settings("store", Connection("aws", login=login, password=password, extra=extra))


def test_a_connection_is_spelled_for_both_sides():
    """The secret is among the variables; Hadoop's properties have none."""
    found = read(endpoint_url="http://127.0.0.1:9000/", aws_session_token="temporary")
    assert found.for_delta() == {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "AWS_SESSION_TOKEN": "temporary",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_ALLOW_HTTP": "true",
    }
    assert found.environment() == {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "AWS_SESSION_TOKEN": "temporary",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000",
    }
    assert found.for_spark() == {
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
    }
    assert "hidden" not in repr(found)
    assert "temporary" not in repr(found)


def test_a_role_is_assumed_on_both_sides():
    """With the environment's credentials, which Spark's process needs as well."""
    found = read("", "", role_arn=ROLE, region_name="eu-central-1")
    assert found.for_delta()["AWS_IAM_ROLE_ARN"] == ROLE
    assert found.within({"AWS_ACCESS_KEY_ID": "AKIA", "AWS_REGION": "theirs"}) == {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_REGION": "eu-central-1",
        "AWS_IAM_ROLE_ARN": ROLE,
    }
    assert found.for_spark()["fs.s3a.assumed.role.arn"] == ROLE
    assert "fs.s3a.endpoint" not in found.for_spark()
    assert "AWS_ALLOW_HTTP" not in found.for_delta()


def test_without_a_connection_each_side_looks_for_itself(monkeypatch):
    """The endpoint alone comes from the environment: Spark would not find it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    found = store_settings(None, "s3a://lake/orders")
    assert found.for_delta() == {"AWS_ALLOW_HTTP": "true"}
    assert found.environment() == {}
    assert found.within({"AWS_SESSION_TOKEN": "mine"}) == {"AWS_SESSION_TOKEN": "mine"}
    assert found.for_spark()["fs.s3a.endpoint"] == "http://127.0.0.1:9000"


def test_a_connection_replaces_what_the_environment_says():
    """A token of somebody else's beside our key would be refused by the store."""
    others = {"AWS_SESSION_TOKEN": "theirs", "AWS_PROFILE": "theirs", "HOME": "/home/x"}
    variables = read().within(others)
    assert variables == {
        "HOME": "/home/x",
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "hidden",
    }


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"password": ""}, "password: missing; allowed: required by the login"),
        ({"login": ""}, "login: missing; allowed: required by the password"),
        ({"login": "", "password": "", "aws_session_token": "t"}, "login: missing"),
        ({"region": "eu"}, "extra region: unknown; allowed: one of aws_session_token"),
        ({"region_name": "Frankfurt am Main"}, "allowed: a region as in eu-central-1"),
        ({"role_arn": "lake"}, "allowed: an ARN as in arn:aws:iam::"),
        ({"sts_endpoint_url": "https://sts"}, "extra sts_endpoint_url: unknown"),
        ({"role_arn": ROLE}, "login: given; allowed: none beside role_arn"),
        ({"endpoint_url": "store:9000"}, "'store:9000'; allowed: http:// or https://"),
        ({"endpoint_url": "http://store:9000/lake"}, "a path; allowed"),
        ({"endpoint_url": "http://me:hidden@store"}, "a login, a query or a fragment; allowed"),
        ({"endpoint_url": 9000}, "no text, or empty"),
    ],
)
def test_a_part_of_the_wrong_form_is_refused_by_name(parts, said):
    with pytest.raises(ConnectionMissing) as refused:
        read(**parts)
    assert said in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("defined", "said"),
    [
        (None, "no Airflow connection 'store'; define it, for example as AIRFLOW_CONN_STORE="),
        ('{"conn_type": "s3"}', "type 's3'; allowed: aws"),
    ],
)
def test_a_connection_that_is_none_is_refused(monkeypatch, defined, said):
    monkeypatch.setattr("tideline.connections._from_airflow", lambda _: None)
    if defined:
        monkeypatch.setenv("AIRFLOW_CONN_STORE", defined)
    with pytest.raises(ConnectionMissing) as refused:
        store_settings("store", "s3a://lake/orders")
    assert said in str(refused.value)


def test_the_example_in_the_error_is_a_connection(monkeypatch):
    """Whoever copies it gets no second error."""
    monkeypatch.setattr("tideline.connections._from_airflow", lambda _: None)
    with pytest.raises(ConnectionMissing) as refused:
        store_settings("store", "s3a://lake/orders")
    example = str(refused.value).partition("AIRFLOW_CONN_STORE='")[2].removesuffix("'")
    monkeypatch.setenv("AIRFLOW_CONN_STORE", example)
    assert store_settings("store", "s3a://lake/orders") == S3Settings(
        "store", "ACCESS_KEY", "SECRET_KEY", region="eu-central-1"
    )
