"""One registry by one connection: nothing that is not on the list, and no secret that shows."""

import json

import pytest

from tideline.connections import Connection
from tideline.errors import ConnectionMissing
from tideline.registry.registry_connection import read_settings, registry_settings

HERE = __file__  # any file that can be read
SECRET = "right-and-secret"


def settings(**parts):
    parts["schema"] = parts.pop("scheme", None)
    return read_settings("c", Connection("http", **{"host": "r", **parts}))


@pytest.mark.parametrize(
    ("parts", "url"),
    [
        ({}, "http://r"),
        ({"port": 8081}, "http://r:8081"),
        ({"scheme": "https"}, "https://r"),
        ({"host": "https://r"}, "https://r"),
        ({"host": "https://r:8443/"}, "https://r:8443"),
        ({"host": "https://r", "port": 8443, "scheme": "https"}, "https://r:8443"),
        ({"host": "https://r/apis/ccompat/v7/"}, "https://r/apis/ccompat/v7"),
        ({"extra": {"path": "/apis/ccompat/v7"}}, "http://r/apis/ccompat/v7"),
        ({"extra": {"path": "/"}}, "http://r"),
        ({"host": "http://[::1]:8081"}, "http://[::1]:8081"),
    ],
)
def test_host_port_and_schema_make_the_address(parts, url):
    """As Airflow's HTTP provider reads them."""
    assert settings(**parts).url == url


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"host": ""}, "host: not usable"),
        ({"host": None}, "host: not usable"),
        ({"host": "http://r:port"}, "host: not usable"),
        ({"host": f"https://me:{SECRET}@r"}, "host: not usable"),
        ({"host": f"https://r?token={SECRET}"}, "host: not usable"),
        ({"host": "ftp://r"}, "schema: not one of them; allowed: http or https"),
        ({"scheme": "ftp"}, "schema: not one of them"),
        ({"host": "http://r", "scheme": "https"}, "schema: 'https', and the host says 'http'"),
        ({"host": "http://r:1", "port": 2}, "port: 2, and the host says another"),
        ({"extra": {"path": "apis"}}, "extra path: no path; allowed: a path that begins with /"),
        ({"host": "http://r/a", "extra": {"path": "/b"}}, "given beside a path in the host"),
        ({"extra": {"timeout": 5}}, "extra timeout: unknown; allowed: one of token, path, ca"),
        ({"extra": {"token": ""}}, "extra token: no text, or empty"),
        ({"extra": {"token": [SECRET]}}, "extra token: no text, or empty"),
        ({"extra": {"token": f"{SECRET}\n"}}, "extra token: an unusual character"),
        ({"login": "me", "extra": {"token": SECRET}}, "extra token: given beside a login"),
        ({"password": SECRET}, "login: missing; allowed: required by the password"),
        ({"scheme": "https", "extra": {"ca": "/nowhere.pem"}}, "a file that can be read"),
        ({"scheme": "https", "extra": {"key": HERE}}, "extra certificate: missing"),
        ({"scheme": "https", "extra": {"verify": "no"}}, "extra verify: 'no'; allowed: true"),
        ({"scheme": "https", "extra": {"ca": HERE, "verify": False}}, "beside verify: false"),
        ({"extra": {"ca": HERE}}, "extra ca: given for http; allowed: only with https"),
        ({"extra": {"verify": False}}, "extra verify: given for http"),
    ],
)
def test_what_is_wrong_is_refused_by_name(parts, text):
    """A connection that seems to ask for something gets it, or says why not."""
    with pytest.raises(ConnectionMissing, match=text) as refused:
        settings(**parts)
    assert "connection c: " in str(refused.value)
    assert SECRET not in str(refused.value)


def test_secrets_stay_out_of_the_repr_and_of_others_texts():
    """A repr ends up in logs, and so does what a server says."""
    for found in (
        settings(login="me", password=SECRET),
        settings(extra={"token": SECRET}),
    ):
        assert SECRET not in repr(found)
        assert found.without_secrets(f"you sent {SECRET}") == "you sent ***"
    sent = "Basic bWU6cmlnaHQtYW5kLXNlY3JldA=="
    assert settings(login="me", password=SECRET).without_secrets(sent) == "Basic ***"


def test_the_connection_is_looked_up(monkeypatch):
    """Of type http; a missing one is shown by example."""
    connection = {"conn_type": "http", "host": "r", "port": 8081, "schema": "https", "login": "me"}
    connection |= {"password": SECRET, "extra": {"verify": False}}
    monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", json.dumps(connection))
    found = registry_settings("schemas")
    assert (found.url, found.login, found.password) == ("https://r:8081", "me", SECRET)
    assert found.verify is False
    monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", json.dumps({"conn_type": "kafka"}))
    with pytest.raises(ConnectionMissing, match="type 'kafka'; allowed: http"):
        registry_settings("schemas")


def test_a_missing_connection_is_shown_by_example(monkeypatch):
    """A person copies it."""
    monkeypatch.setattr("tideline.connections.find_connection", lambda name: None)
    with pytest.raises(ConnectionMissing, match=r'AIRFLOW_CONN_NOWHERE=.*"conn_type": "http"'):
        registry_settings("nowhere")
