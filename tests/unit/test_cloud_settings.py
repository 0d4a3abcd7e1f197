"""Connections of Azure's and Google's stores: their forms, for delta-rs and for Spark."""

import json
import os

import pytest

from tideline.cli import writing
from tideline.connections import Connection
from tideline.errors import ConnectionMissing
from tideline.model.addresses import LedgerLocation, account_of, bucket_of, safe_uri, store_of
from tideline.store import azure, google
from tideline.store.store_settings import for_obstore, store_settings

URI = "abfss://lake@data.dfs.core.windows.net/orders"
KEY = "c2VjcmV0LWtleQ=="
JSON_KEY = {"client_email": "e@p", "private_key": "secret-pem", "private_key_id": "1"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    """Of these stores, in this process."""
    for name in [n for n in os.environ if n.startswith(("AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)


def in_azure(kind="wasb", login="data", password="", host=None, **extra):
    given = Connection(kind, host=host, login=login, password=password, extra=extra)
    return azure.read_settings("lake", given, URI)


def in_google(login=None, **extra):
    return google.read_settings(
        "lake", Connection("google_cloud_platform", login=login, extra=extra)
    )


SAS = "?sv=2024&sig=secret%3D"
PRINCIPAL = {"login": "client", "password": "secret-of-client", "tenant_id": "t-1"}
FORMS = {
    "key": (
        {"password": KEY},
        {"AZURE_STORAGE_ACCOUNT_KEY": KEY},
        {
            "fs.azure.account.auth.type": "SharedKey",
            "fs.azure.account.key": "${env.AZURE_STORAGE_ACCOUNT_KEY}",
        },
    ),
    "key in extra": (
        {"account_key": KEY},
        {"AZURE_STORAGE_ACCOUNT_KEY": KEY},
        {"fs.azure.account.auth.type": "SharedKey"},
    ),
    "key of adls": (
        {"kind": "adls", "host": "data", "login": "", "password": KEY},
        {"AZURE_STORAGE_ACCOUNT_KEY": KEY},
        {"fs.azure.account.auth.type": "SharedKey"},
    ),
    "SAS": (
        {"sas_token": SAS},
        {"AZURE_STORAGE_SAS_TOKEN": SAS[1:]},
        {
            "fs.azure.account.auth.type": "SAS",
            "fs.azure.sas.fixed.token": "${env.AZURE_STORAGE_SAS_TOKEN}",
        },
    ),
    "service principal": (
        PRINCIPAL,
        {
            "AZURE_CLIENT_ID": "client",
            "AZURE_CLIENT_SECRET": "secret-of-client",
            "AZURE_TENANT_ID": "t-1",
        },
        {
            "fs.azure.account.auth.type": "OAuth",
            "fs.azure.account.oauth2.client.endpoint": (
                "https://login.microsoftonline.com/t-1/oauth2/token"
            ),
            "fs.azure.account.oauth2.client.id": "client",
            "fs.azure.account.oauth2.client.secret": "${env.AZURE_CLIENT_SECRET}",
        },
    ),
    "the machine's identity": (
        {"login": ""},
        {},
        {
            "fs.azure.account.oauth.provider.type": (
                "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider"
            )
        },
    ),
    "one of the machine's identities": (
        {"login": "", "managed_identity_client_id": "c-2"},
        {"AZURE_CLIENT_ID": "c-2"},
        {"fs.azure.account.oauth2.client.id": "c-2"},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_azures_is_spelled_for_both_sides(form):
    """No property of Spark's is a secret, and no repr shows one."""
    parts, variables, properties = FORMS[form]
    found = in_azure(**parts)
    assert found.environment() == found.for_delta() == variables
    assert properties.items() <= found.for_spark().items()
    told = f"{found!r} {found.for_spark()}"
    assert not any(secret in told for secret in (KEY, "secret-of-client", "secret%3D"))


def test_a_workloads_identity_is_taken_where_its_token_is_named(monkeypatch):
    """As Kubernetes has it."""
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", "/var/token")
    monkeypatch.setenv("AZURE_CLIENT_ID", "c")
    found = in_azure(login="", workload_identity_tenant_id="t")
    assert found.for_delta() == {
        "AZURE_CLIENT_ID": "c",
        "AZURE_TENANT_ID": "t",
        "AZURE_FEDERATED_TOKEN_FILE": "/var/token",
    }
    properties = found.for_spark()
    assert properties["fs.azure.account.oauth2.token.file"] == "/var/token"
    assert properties["fs.azure.account.oauth.provider.type"].endswith(
        "WorkloadIdentityTokenProvider"
    )
    found.refuse_cluster()


def test_a_connection_of_azures_replaces_what_the_environment_says():
    variables = in_azure(password=KEY).within({"AZURE_CLIENT_ID": "theirs", "HOME": "/h"})
    assert variables == {"AZURE_STORAGE_ACCOUNT_KEY": KEY, "HOME": "/h"}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"login": "other", "password": KEY},
            "login: 'other'; allowed: data, the account of abfss",
        ),
        ({"login": "", "password": KEY}, "login: missing; allowed: data"),
        ({"kind": "adls", "host": "x", "password": KEY}, "host: 'x'; allowed: data"),
        ({**PRINCIPAL, "kind": "adls", "host": "x"}, "host: 'x'; allowed: data"),
        ({"password": "secret!"}, "password: another form; allowed: an account key, in base64"),
        ({"sas_token": "secret"}, "extra sas_token: another form; allowed: a shared access"),
        ({"sas_token": f"https://data.blob.core.windows.net/lake{SAS}"}, "a whole URL; allowed: a"),
        ({"sas_token": "sv=1&sig="}, "another form; allowed: a shared access"),
        ({"sas_token": f"{SAS} &x"}, "another form; allowed: a shared access"),
        ({"sas_token": f"{SAS}&sp=rl"}, "it may do rl only; allowed: one that may read, write"),
        (
            {"sas_token": f"{SAS}&se=2024-01-01T00%3A00%3A00Z"},
            "it has expired at 2024-01-01T00:00:00Z",
        ),
        ({"sas_token": f"{SAS}&se=2024-01-01"}, "it has expired at 2024-01-01; allowed: one"),
        ({"password": KEY, "sas_token": SAS}, "extra sas_token: given; allowed: none beside passw"),
        ({**PRINCIPAL, "login": ""}, "login: missing; allowed: the client's id"),
        ({**PRINCIPAL, "password": ""}, "password: missing; allowed: the client's secret"),
        ({"tenant_id": "t", "sas_token": SAS}, "extra sas_token: given; allowed: the client's"),
        ({**PRINCIPAL, "tenant_id": "a/b"}, "extra tenant_id: another form; allowed: an id"),
        (
            {"password": KEY, "managed_identity_client_id": "c"},
            "given; allowed: only for the machine",
        ),
        ({**PRINCIPAL, "workload_identity_tenant_id": "t"}, "given; allowed: only for the machine"),
        ({"connection_string": "secret"}, "extra connection_string: unknown; allowed: one of"),
        (
            {"host": "https://data.blob.core.chinacloudapi.cn"},
            "host: 'https://data.blob.core.china",
        ),
        (
            {"host": "https://other.blob.core.windows.net"},
            "allowed: https://data.blob.core.windows",
        ),
        ({"host": "http://azurite:10000/other"}, "or an emulator's URL as in http://azurite:10000"),
        ({"account_url": "https://data.blob.core.windows.net/?sig=secret"}, "a login, a query or"),
        ({"login": "", "workload_identity_tenant_id": "t"}, "given; allowed: only where AZURE_FED"),
        ({"login": "", "managed_identity_client_id": "a b"}, "another form; allowed: an id"),
        ({"password": KEY, "account_key": 5}, "extra account_key: no text"),
    ],
)
def test_a_part_of_azures_of_the_wrong_form_is_refused_by_name(parts, said):
    with pytest.raises(ConnectionMissing) as refused:
        in_azure(**parts)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value).replace("the client's secret", "")


@pytest.mark.parametrize(
    "sas", [SAS, SAS[1:], f' "{SAS}"\n', f"{SAS[1:]}&sp=racwdl&se=2999-01-01", f"{SAS}&se=soon"]
)
def test_a_shared_access_signature_is_taken_as_it_is_copied(sas):
    """With its mark, in quotes, with a line's end, and with a stored policy in place of a time."""
    assert in_azure(sas_token=sas).sas == sas.strip(' "\n').removeprefix("?")


@pytest.mark.parametrize(
    "host",
    [
        "https://data.blob.core.windows.net",
        "https://data.dfs.core.windows.net/",
        "data.blob.core.windows.net",
    ],
)
def test_an_accounts_own_url_says_nothing_new(host):
    """Airflow's form asks for it."""
    assert in_azure(password=KEY, host=host) == in_azure(password=KEY)


def test_an_emulator_is_named_by_the_connection():
    found = in_azure(password=KEY, host="http://azurite:10000/data")
    assert found.for_delta()["AZURE_STORAGE_ENDPOINT"] == "http://azurite:10000/data"
    assert for_obstore(found.for_delta())["client_options"]["allow_http"] == "true"
    assert found.for_spark()["fs.azure.abfs.endpoint"] == "azurite:10000"


@pytest.mark.parametrize(
    ("parts", "variable"),
    [
        ({"password": KEY}, "AZURE_STORAGE_TOKEN"),
        ({"sas_token": SAS}, "AZURE_FEDERATED_TOKEN_FILE"),
        ({"sas_token": SAS}, "AZURE_STORAGE_ACCOUNT_KEY"),
        (PRINCIPAL, "AZURE_STORAGE_ENDPOINT"),
        ({"login": ""}, "AZURE_STORAGE_SAS_TOKEN"),
        ({"login": ""}, "AZURE_CLIENT_SECRET"),
    ],
)
def test_a_variable_that_the_client_would_take_first_is_refused(monkeypatch, parts, variable):
    """The run's own process has them; Spark's is started without."""
    monkeypatch.setenv(variable, "theirs")
    with pytest.raises(ConnectionMissing, match=f"{variable} is set for this process as well"):
        in_azure(**parts)


def test_an_identity_that_the_environment_names_is_both_sides(monkeypatch):
    """delta-rs would find it by itself, and Spark would not."""
    monkeypatch.setenv("AZURE_CLIENT_ID", "c-3")
    found = in_azure(login="")
    assert found.for_delta() == {"AZURE_CLIENT_ID": "c-3"}
    assert found.for_spark()["fs.azure.account.oauth2.client.id"] == "c-3"


def test_a_variable_that_comes_behind_is_passed_over(monkeypatch):
    """As a pod with a workload's identity has it, beside an account's key."""
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", "/var/token")
    assert in_azure(password=KEY).for_delta() == {"AZURE_STORAGE_ACCOUNT_KEY": KEY}


def test_without_a_connection_spark_gets_what_delta_rs_finds(monkeypatch):
    """The first of several, as object_store takes them."""
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", SAS)
    found = store_settings(None, URI)
    assert found.for_delta() == {}
    assert found.for_spark()["fs.azure.account.auth.type"] == "SAS"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    assert store_settings(None, URI).for_spark()["fs.azure.account.auth.type"] == "SharedKey"
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", "/k.json")
    properties = store_settings(None, "gs://lake/orders").for_spark()
    assert properties["fs.gs.auth.service.account.json.keyfile"] == "/k.json"


@pytest.mark.parametrize("parts", [{"password": KEY}, {"sas_token": SAS}, PRINCIPAL])
def test_a_secret_of_azures_is_refused_on_a_cluster(parts):
    with pytest.raises(ConnectionMissing, match="reaches no executor on another machine"):
        in_azure(**parts).refuse_cluster()


def test_googles_forms_are_spelled_for_both_sides(tmp_path):
    file = tmp_path / "key.json"
    file.write_text(json.dumps(JSON_KEY))
    found = in_google(key_path=str(file))
    assert found.for_delta() == {"GOOGLE_SERVICE_ACCOUNT": str(file)}
    assert found.for_spark()["fs.gs.auth.service.account.json.keyfile"] == str(file)
    found.refuse_cluster()
    found = in_google(keyfile_dict=JSON_KEY)
    assert json.loads(found.for_delta()["GOOGLE_SERVICE_ACCOUNT_KEY"]) == JSON_KEY
    assert found == in_google(keyfile_dict=json.dumps(JSON_KEY))
    properties = found.for_spark()
    assert properties["fs.gs.auth.service.account.json.keyfile"] == "${env.GOOGLE_SERVICE_ACCOUNT}"
    assert "secret-pem" not in f"{found!r} {properties}"
    with pytest.raises(ConnectionMissing, match="key_path, a file on each machine"):
        found.refuse_cluster()
    assert in_google(project="p").for_spark()["fs.gs.auth.type"] == "APPLICATION_DEFAULT"
    assert in_google().within({"GOOGLE_APPLICATION_CREDENTIALS": "/adc"}) == {
        "GOOGLE_APPLICATION_CREDENTIALS": "/adc"
    }


def test_a_keys_text_becomes_a_private_file_of_the_driver(tmp_path):
    variables = in_google(keyfile_dict=JSON_KEY).within({"GOOGLE_APPLICATION_CREDENTIALS": "/adc"})
    found = google.with_key_file({**variables, "HOME": "/h"}, tmp_path)
    file = tmp_path / "google-key.json"
    assert found == {"GOOGLE_SERVICE_ACCOUNT": str(file), "HOME": "/h"}
    assert json.loads(file.read_text()) == JSON_KEY
    assert file.stat().st_mode & 0o777 == 0o600
    assert google.with_key_file({"HOME": "/h"}, tmp_path) == {"HOME": "/h"}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"keyfile_dict": JSON_KEY, "key_path": "/k"}, "extra keyfile_dict: given; allowed: none"),
        ({"keyfile_dict": "secret"}, "extra keyfile_dict: no JSON; allowed: a service account's"),
        (
            {"keyfile_dict": {"type": "authorized_user"}},
            "authorized_user, which is a person's login",
        ),
        ({"keyfile_dict": {"type": "external_account"}}, "external_account, which is a workload's"),
        ({"keyfile_dict": {"type": ["x"]}}, "extra keyfile_dict: no client_email"),
        ({"keyfile_dict": "[]"}, "extra keyfile_dict: no client_email"),
        ({"key_path": "/not/there.json"}, "extra key_path: '/not/there.json'; allowed: a file"),
        ({"key_secret_name": "secret"}, "extra key_secret_name: unknown; allowed: one of key_path"),
        ({"impersonation_chain": "a"}, "extra impersonation_chain: unknown"),
        ({"credential_config_file": "/c"}, "extra credential_config_file: unknown"),
        ({"is_anonymous": True}, "extra is_anonymous: unknown"),
        ({"login": "me"}, "login: given; allowed: none"),
    ],
)
def test_a_part_of_googles_of_the_wrong_form_is_refused_by_name(parts, said):
    with pytest.raises(ConnectionMissing) as refused:
        in_google(**parts)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value).replace("key_secret_name", "")


def test_two_keys_of_googles_are_refused(monkeypatch):
    """object_store takes one only, and cannot be told to pass over the environment's."""
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", "/theirs.json")
    for parts in ({"keyfile_dict": JSON_KEY}, {}):
        with pytest.raises(ConnectionMissing, match="GOOGLE_SERVICE_ACCOUNT is set for this"):
            in_google(**parts)


@pytest.mark.parametrize(
    ("kind", "uri", "allowed"),
    [
        ("aws", URI, "wasb, adls"),
        ("wasb", "gs://lake/orders", "google_cloud_platform"),
        ("google_cloud_platform", "s3a://lake/orders", "aws"),
    ],
)
def test_the_address_says_which_connection_it_needs(monkeypatch, kind, uri, allowed):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": kind}))
    with pytest.raises(ConnectionMissing, match=f"type '{kind}'; allowed: {allowed}"):
        store_settings("lake", uri)


@pytest.mark.parametrize(
    ("uri", "kind", "bucket", "account"),
    [
        ("s3a://lake/a/b/", "s3a", ("lake", "a/b"), None),
        (URI, "azure", ("lake", "orders"), "data"),
        ("abfs://a-b@data.dfs.core.windows.net/a/b", "azure", ("a-b", "a/b"), "data"),
        ("gs://lake.example.com/a_b", "google", ("lake.example.com", "a_b"), None),
    ],
)
def test_an_address_says_where_it_is(uri, kind, bucket, account):
    assert safe_uri(uri) == uri
    assert (store_of(uri), bucket_of(uri), account_of(uri)) == (kind, bucket, account)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("abfss://lake/orders", "needs a container and an account, as in abfss://lake@account.dfs"),
        ("abfss://lake@data.blob.core.windows.net/o", "needs a container and an account"),
        ("abfss://lake@data.dfs.core.windows.net", "needs a bucket and a path"),
        ("abfss://lake:secret@data.dfs.core.windows.net/o", "needs a container and an account"),
        ("abfss://Lake@data.dfs.core.windows.net/o", "needs a container and an account"),
        ("abfss://lake@data.dfs.core.windows.net:443/o", "needs a container and an account"),
        ("abfss://lake@data.dfs.core.windows.net/o//p", "a path without empty parts"),
        (
            "abfss://l@data.privatelink.dfs.core.windows.net/o",
            "write data.dfs.core.windows.net, which",
        ),
        ("abfss://l@data.z12.dfs.storage.azure.net/o", "endpoints in a DNS zone are not supported"),
        ("abfss://$web@data.dfs.core.windows.net/o", "name another container"),
        ("abfss://w@onelake.dfs.fabric.microsoft.com/o", "OneLake is not supported"),
        ("abfss://l@data.dfs.core.usgovcloudapi.net/o", "only Azure's public cloud"),
        ("wasbs://lake@data.blob.core.windows.net/o", "not supported; Azure's stores are abfss"),
        ("az://lake/o", "not supported; Azure's stores are abfss"),
        ("gcs://lake/o", "write gs://bucket/path"),
        ("s3://lake/o", "write s3a://bucket/path"),
        ("gs://lake", "needs a bucket and a path without empty parts, as in gs://lake/orders"),
        ("gs://me:secret@lake/o", "a login or a port does not belong into an address"),
        ("hdfs://lake/o", "allowed are an absolute path, file:///..., or an address as in s3a://"),
    ],
)
def test_an_address_that_one_side_does_not_know_is_refused(uri, said):
    with pytest.raises(ValueError, match=said.replace(".", r"\.")) as refused:
        safe_uri(uri)
    assert "secret" not in str(refused.value)


def test_a_move_takes_the_connection_for_each_address_in_a_store(monkeypatch):
    """It may meet one that only the mark of an unfinished move names; another store is refused."""
    connection = {"conn_type": "aws", "login": "a", "password": "b"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    opened = []
    monkeypatch.setattr(writing, "open_store", lambda *given: opened.append(given))
    opens = writing._opens("lake")
    opens(LedgerLocation("delta", "/l", "orders"))
    opens(LedgerLocation("airflow", "tideline_ledger", "orders"))
    opens(LedgerLocation("delta", "s3a://lake/orders.ledger", "orders"))
    assert [store and store.connection for _, store in opened] == [None, None, "lake"]
    with pytest.raises(ConnectionMissing, match="type 'aws'; allowed: wasb, adls"):
        opens(LedgerLocation("delta", f"{URI}.ledger", "orders"))
