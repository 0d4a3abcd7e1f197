"""The checked settings of Google's Cloud Storage, from a connection `google_cloud_platform`.

Its parts mean what they mean to Airflow's Google provider. A connection has one form: a key's file,
a key's text, or none of them, which is the machine's identity. Any other part is refused by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tideline.connections import (
    Connection,
    given_only,
    refuse_missing_files,
    refuse_on_cluster,
    refuse_others,
    refuse_variables,
    refused,
)
from tideline.model.addresses import StoreKind

EXAMPLE = '{"conn_type": "google_cloud_platform", "extra": {"key_path": "/etc/keys/lake.json"}}'
ALLOWED = ("key_path", "keyfile_dict", "project", "num_retries", "scope")
"""The last three have no meaning here, and Airflow's form sends them."""
PATH, KEY = "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY"
"""Variables, and options of delta-rs in capitals: the file, and its text."""
_DEFAULT = "GOOGLE_APPLICATION_CREDENTIALS"
_OTHERS = (
    *("GOOGLE_SERVICE_ACCOUNT_PATH", _DEFAULT, "GOOGLE_BASE_URL", "GOOGLE_SKIP_SIGNATURE"),
    *("SERVICE_ACCOUNT", "GOOGLE_BEARER_TOKEN"),
)
_AUTH = "fs.gs.auth.type"
_BOUNDED = {
    # Its jar names it for nobody who was started before the jar came.
    "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "fs.gs.http.max.retry": "3",  # by default it had not ended after 200 s
}
_OF_KEY = ("client_email", "private_key", "private_key_id")
_OTHER_KEYS = {
    "authorized_user": "a person's login by gcloud, taken without a connection only",
    "external_account": "a workload's federation, taken without a connection only",
    "impersonated_service_account": "one account in place of another, which is not supported",
}
"""Files of gcloud's that are no service account's key, and what they are."""
_FILE = "google-key.json"


@dataclass(frozen=True, slots=True)
class GoogleSettings:
    """How the buckets of one stream are reached.

    Args:
        connection: As `StoreSettings` has it.
        path: Of a service account's key, on every machine that runs a part of Spark.
        key: The key's text; with neither it is the identity that the environment has.
    """

    kind: ClassVar[StoreKind] = "google"
    connection: str | None = None
    path: str | None = None
    key: str | None = field(default=None, repr=False)

    def for_delta(self) -> dict[str, str]:
        """As `StoreSettings` has it."""
        given = {} if self.connection is None else self.environment()
        is_plain = (self._emulator or "").startswith("http:")
        return {**given, **({"ALLOW_HTTP": "true"} if is_plain else {})}

    def environment(self) -> dict[str, str]:
        """Variables that hold the secrets; `with_key_file` makes a file of the text."""
        return given_only({PATH: self.path, KEY: self.key})

    def within(self, variables: Mapping[str, str]) -> dict[str, str]:
        """As `StoreSettings` has it."""
        if self.connection is None:
            return dict(variables)
        mixed = (PATH, KEY, *_OTHERS) if self.path or self.key else ()
        kept = {name: value for name, value in variables.items() if name not in mixed}
        return {**kept, **self.environment()}

    def for_spark(self) -> dict[str, str]:
        """Properties of Google's client for Hadoop; none is a secret."""
        if (url := self._emulator) is not None:
            asks_nobody = {_AUTH: "UNAUTHENTICATED", "fs.gs.project.id": "emulator"}
            return {**_BOUNDED, **asks_nobody, "fs.gs.storage.root.url": f"{url.rstrip('/')}/"}
        if self.path is None and self.key is None:
            return {**_BOUNDED, _AUTH: "APPLICATION_DEFAULT"}
        return {
            **_BOUNDED,
            _AUTH: "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": self.path or f"${{env.{PATH}}}",
        }

    @property
    def _emulator(self) -> str | None:
        """URL of a server that asks for no login; object_store reads the same keys of a key."""
        key = json.loads(self.key) if self.key is not None else {}
        return key.get("gcs_base_url") if key.get("disable_oauth") else None

    def refuse_cluster(self) -> None:
        """As `StoreSettings` has it: a key's text is in the variables of the driver only.

        Raises:
            ConnectionMissing: There is one.
        """
        if self.key is not None and self._emulator is None:
            allowed = "key_path, a file on each machine, or the machines' identity"
            refuse_on_cluster(self.connection, "a key's text", allowed)


def from_environment() -> GoogleSettings:
    """What delta-rs finds in this process's variables, so that Spark gets the same."""
    path = os.environ.get(PATH) or os.environ.get("GOOGLE_SERVICE_ACCOUNT_PATH") or None
    return GoogleSettings(path=path, key=os.environ.get(KEY) or None)


def read_settings(connection: str, given: Connection, uri: str = "") -> GoogleSettings:
    """Check the parts of a connection.

    Args:
        given: Its extra has keys of `ALLOWED`; it has neither login nor password.
        uri: An address in the store; Google's connections are not about a bucket.

    Raises:
        ConnectionMissing: A part is unknown, of the wrong form, or contradicts another, or a
            variable of this process would be taken beside it.
    """
    extra = {name: value for name, value in given.extra.items() if value not in (None, "", False)}
    refuse_others(connection, extra, ALLOWED)
    for part, value in (("login", given.login), ("password", given.password)):
        if value:
            raise refused(connection, part, "given", "none; a key's file, or its text, is in extra")
    path, text = extra.get("key_path"), extra.get("keyfile_dict")
    if path and text:
        raise refused(connection, "extra keyfile_dict", "given", "none beside key_path")
    refuse_missing_files(connection, extra, ["key_path"])
    if path is not None:
        _check_key(connection, "key_path", _content(connection, path))
    found = GoogleSettings(connection, path, None if text is None else _text(connection, text))
    others = _OTHERS if path or text else [name for name in _OTHERS if name != _DEFAULT]
    refuse_variables(connection, (PATH, KEY, *others))
    return found


def _content(connection: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        raise refused(connection, "extra key_path", "cannot be read", "a key's file") from None


def _text(connection: str, given: object) -> str:
    """The key as JSON; Airflow has it as an object, or as a text."""
    text = given if isinstance(given, str) else json.dumps(given)
    _check_key(connection, "keyfile_dict", text)
    return text


def _check_key(connection: str, part: str, text: str) -> None:
    allowed = f"a service account's key in JSON, with {', '.join(_OF_KEY)}"
    try:
        key: Any = json.loads(text)
    except ValueError:
        raise refused(connection, f"extra {part}", "no JSON", allowed) from None
    kind = str(key.get("type")) if isinstance(key, dict) else ""
    if kind in _OTHER_KEYS:
        raise refused(connection, f"extra {part}", f"{kind}, which is {_OTHER_KEYS[kind]}", allowed)
    missing = [name for name in _OF_KEY if not isinstance(key, dict) or name not in key]
    if missing:
        raise refused(connection, f"extra {part}", f"no {missing[0]}", allowed)


def with_key_file(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """A process's variables with a key's file in place of its text: Spark's client reads files.

    Args:
        folder: Private, and gone with the process.
    """
    found = dict(variables)
    text = found.pop(KEY, None)
    if text is not None:
        file = folder / _FILE
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
            opened.write(text)
        found[PATH] = str(file)
    return found
