"""Words of stores and of who gives out tokens: which are final, and which pass."""

import pytest

from tideline.store.store_refusals import refusal

AZURE = "abfss://lake@data.dfs.core.windows.net/orders"
GOOGLE = "gs://lake/orders"
TOKEN = "Generic MicrosoftAzure error: Error performing token request: Error performing POST"
ENTRA = "https://login.microsoftonline.com/t/oauth2/v2.0/token in 1s"
FINAL = {
    "a key of another account": (
        AZURE,
        "403 Forbidden: <Code>AuthenticationFailed</Code><Message>Server failed to authenticate",
        "authentication",
    ),
    "an emulator's word for it": (
        AZURE,
        "<Code>AuthorizationFailure</Code><Message>Server failed to authenticate the request",
        "authentication",
    ),
    "a firewall": (
        AZURE,
        "<Code>AuthorizationFailure</Code><Message>This request is not authorized to perform",
        "authorization",
    ),
    "an identity without the role": (
        AZURE,
        "<Code>AuthorizationPermissionMismatch</Code>",
        "authorization",
    ),
    "no such container": (AZURE, "<Code>ContainerNotFound</Code>", "bucket"),
    "a client's secret that has expired": (
        AZURE,
        f'{TOKEN} {ENTRA} - Server returned non-2xx status code: 401 Unauthorized: {{"error":"x"}}',
        "authentication",
    ),
    "no identity": (
        AZURE,
        "Error performing GET http://169.254.169.254/metadata/identity/oauth2/token: error",
        "authentication",
    ),
    "an identity that is not assigned": (
        AZURE,
        "GET http://169.254.169.254/metadata/identity - status code: 400 Bad Request: not found",
        "authentication",
    ),
    "a service account that is gone": (
        GOOGLE,
        'Error performing token request: 400 Bad Request: {"error":"invalid_grant"}',
        "authentication",
    ),
    "no such bucket": (GOOGLE, "404: <Code>NoSuchBucket</Code>", "bucket"),
    "no right": (GOOGLE, "403: <Code>AccessDenied</Code>", "authorization"),
}
PASSES = {
    "who gives out tokens does not answer": (AZURE, f"{TOKEN} {ENTRA} - HTTP error: timed out"),
    "who gives out tokens is busy": (
        AZURE,
        f"{TOKEN} {ENTRA} - Server returned non-2xx status code: 503 Service Unavailable",
    ),
    "the machine's identities are asked too often": (
        AZURE,
        "GET http://169.254.169.254/metadata/identity - status code: 429 Too Many Requests",
    ),
    "the store is busy": (AZURE, "503: <Code>ServerBusy</Code>"),
    "the store has an error": (GOOGLE, "status code: 500 Internal Server Error: "),
    "another store": ("/data/orders", "403: <Code>AccessDenied</Code>"),
}


@pytest.mark.parametrize("name", FINAL)
def test_what_another_try_does_not_change_is_final(name):
    uri, text, cause = FINAL[name]
    found = refusal(uri, {}, OSError(text))
    assert found is not None
    assert found.cause == cause


@pytest.mark.parametrize("name", PASSES)
def test_what_may_pass_is_tried_again(name):
    uri, text = PASSES[name]
    assert refusal(uri, {}, OSError(text)) is None
