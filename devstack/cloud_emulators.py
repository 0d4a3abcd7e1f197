"""What stands in for Azure's and Google's stores: Azurite, and fake-gcs-server.

Each is real, and lacks something that clients ask for. A proxy that belongs to it makes that up:
`OfAzure` and `OfGoogle` say what. Neither checks a login as the service would.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from devstack.go_programs import GoProgram
from devstack.npm_packages import npm_packages
from devstack.object_store import ObjectStore
from devstack.process import HOST, free_ports
from devstack.store_faults import Adapter, StoreAnswer, StoreRequest
from devstack.store_proxy import StoreProxy
from tideline.errors import ServiceAway
from tideline.versions import AZURITE, FAKE_GCS

FAKE_GCS_SERVER = GoProgram(*FAKE_GCS)
ACCOUNT = "tideline"
_KEY = base64.b64encode(b"the key of a store for tests").decode()
_LOCKED = Path(__file__).with_name("npm")
_START_SECONDS = 60
Send = Callable[[StoreRequest], StoreAnswer]


class Emulator(ObjectStore):
    """A server behind the proxy that makes up for what it lacks.

    Args:
        folder: Holds its log.
        port: The proxy's; a free one when None.
    """

    def __init__(self, folder: Path, port: int | None = None) -> None:
        super().__init__(folder, port)
        self._own_port = free_ports(1)[0]
        self._proxy: StoreProxy | None = None

    def start(self, timeout_seconds: float = _START_SECONDS) -> ObjectStore:
        """Start both; as `ObjectStore.start`."""
        self._proxy = StoreProxy(self._own_port, self.port, self._adapter())
        return super().start(timeout_seconds)

    def stop(self) -> None:
        """Stop both."""
        super().stop()
        if self._proxy is not None:
            self._proxy.stop()
            self._proxy = None

    def _adapter(self) -> Adapter:
        raise NotImplementedError

    def _answers(self) -> bool:
        """Whether the server itself answers: the proxy always does."""
        try:
            urllib.request.urlopen(f"http://{HOST}:{self._own_port}", timeout=2).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True


class OfAzure:
    """Azurite ignores `startFrom` (its issue 2619): what comes before is taken out."""

    def __call__(self, request: StoreRequest, send: Send) -> StoreAnswer:
        """Answer a request."""
        answer = send(request)
        if (start := request.query.get("startFrom")) is None or answer.status != 200:
            return answer

        def kept(blob: re.Match[bytes]) -> bytes:
            name = unquote(blob[1].decode().replace("&amp;", "&"))
            return blob[0] if name >= start[0] else b""

        return replace(answer, body=_BLOB.sub(kept, answer.body))


_BLOB = re.compile(rb"<Blob>.*?<Name[^>]*>(.*?)</Name>.*?</Blob>", re.DOTALL)


class Azurite(Emulator):
    """Azure's own emulator, from npm: 0.2 GB; it has the Blob endpoint and no DFS endpoint."""

    name = "azurite"
    kind = "azure"

    def __init__(self, folder: Path, port: int | None = None) -> None:
        super().__init__(folder, port)
        self.key = _KEY

    def address(self, bucket: str, path: str) -> str:
        """As `ObjectStore.address`."""
        return f"abfs://{bucket}@{ACCOUNT}.dfs.core.windows.net/{path}"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """As `ObjectStore.options`."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_STORAGE_ENDPOINT": f"{endpoint or self.endpoint}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
        }

    def connection(self, endpoint: str | None = None) -> dict[str, Any]:
        """As `ObjectStore.connection`."""
        host = f"{endpoint or self.endpoint}/{ACCOUNT}"
        return {"conn_type": "wasb", "host": host, "login": ACCOUNT, "password": self.key}

    def sas(self, bucket: str, rights: str, until: datetime) -> str:
        """A signature for a container (Microsoft's "Create a service SAS").

        Args:
            rights: Letters of it, in their order, as in `rcwdl`.
            until: When it expires, in UTC.
        """
        version, end = "2020-12-06", f"{until:%Y-%m-%dT%H:%M:%SZ}"
        lines = [rights, "", end, f"/blob/{ACCOUNT}/{bucket}", "", "", "", version, "c"]
        text = "\n".join([*lines, *[""] * 7])
        digest = hmac.digest(base64.b64decode(self.key), text.encode(), "sha256")
        signed = base64.b64encode(digest).decode()
        return urlencode({"sv": version, "sr": "c", "sp": rights, "se": end, "sig": signed})

    def create_bucket(self, bucket: str) -> None:
        """As `ObjectStore.create_bucket`."""
        # Microsoft's "Authorize with Shared Key": obstore signs no request for a container.
        path, query = f"/{ACCOUNT}/{bucket}", "restype=container"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        named = "".join(f"{name}:{value}\n" for name, value in headers.items())
        text = "PUT" + "\n" * 12 + named + f"/{ACCOUNT}{path}\n{query.replace('=', ':')}"
        digest = hmac.digest(base64.b64decode(self.key), text.encode(), "sha256")
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        url = f"{self.endpoint}{path}?{query}"
        request = urllib.request.Request(url, headers=headers, method="PUT")  # noqa: S310
        _done(request, "ContainerAlreadyExists", f"{self.name}: container {bucket}")

    def _adapter(self) -> Adapter:
        return OfAzure()

    def _command(self) -> list[str | Path]:
        where = ["--blobHost", HOST, "--blobPort", str(self._own_port)]
        place: list[str | Path] = ["-l", self.folder / "objects"]
        # A newer client's version of the protocol is no error.
        return [azurite_program(), "--disableTelemetry", "--skipApiVersionCheck", *where, *place]

    def _environment(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.key}"}


def azurite_program() -> Path:
    """Azurite, fetched by npm if it is not in the cache; errors as of `npm_packages`."""
    return npm_packages(_LOCKED, f"azurite-{AZURITE}") / ".bin" / "azurite-blob"


class OfGoogle:
    """fake-gcs-server speaks Google's JSON, and of its XML only a part: the rest is made of JSON.

    A plain PUT becomes an upload, with its condition; an upload in parts is put together here; of a
    listing that begins behind a name, what comes before is taken out.

    Args:
        host: The server's name for itself; it knows no bucket under another one.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._uploads: dict[str, dict[int, bytes]] = {}

    def __call__(self, request: StoreRequest, send: Send) -> StoreAnswer:
        """Answer a request."""
        request = replace(request, headers={**request.headers, "host": self._host})
        path, query = urlsplit(request.target).path, request.query
        if path.startswith(("/storage/", "/upload/", "/download/", "/b/", "/batch")):
            return send(request)  # Spark's client speaks JSON
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        upload = query.get("uploadId", [""])[0]
        if request.method == "POST" and "uploads" in query:
            upload = uuid.uuid4().hex
            self._uploads[upload] = {}
            named = f"<UploadId>{upload}</UploadId>"
            return _xml(f"<InitiateMultipartUploadResult>{named}</InitiateMultipartUploadResult>")
        if request.method == "PUT" and upload:
            number = int(query["partNumber"][0])
            self._uploads[upload][number] = request.body
            return StoreAnswer(200, (("ETag", f'"{number}"'),), b"")
        if request.method == "DELETE" and upload:
            self._uploads.pop(upload, None)
            return StoreAnswer(204, (), b"")
        if request.method == "POST" and upload:
            parts = self._uploads.pop(upload)
            body = b"".join(parts[number] for number in sorted(parts))
            answer = self._put(request, bucket, key, body, send)
            tag = dict(answer.headers).get("ETag", "")
            done = f"<ETag>{tag}</ETag>"
            return _xml(f"<CompleteMultipartUploadResult>{done}</CompleteMultipartUploadResult>")
        if request.method == "PUT":
            return self._put(request, bucket, key, request.body, send)
        answer = send(request)
        if answer.status == 206 and not answer.body and request.method == "GET":
            return StoreAnswer(416, (), b"")  # of an empty object; it says "bytes 0--1/0"
        if (after := query.get("start-after")) is None or answer.status != 200:
            return answer

        def kept(entry: re.Match[bytes]) -> bytes:
            return entry[0] if entry[1].decode().replace("&amp;", "&") > after[0] else b""

        return replace(answer, body=_CONTENTS.sub(kept, answer.body))

    def _put(
        self, request: StoreRequest, bucket: str, key: str, body: bytes, send: Send
    ) -> StoreAnswer:
        query = {"uploadType": "media", "name": key}
        if (match := request.headers.get("x-goog-if-generation-match")) is not None:
            query["ifGenerationMatch"] = match
        target = f"/upload/storage/v1/b/{quote(bucket)}/o?{urlencode(query)}"
        headers = {"content-type": "application/octet-stream", "host": self._host}
        answer = send(StoreRequest("POST", target, headers, body))
        if answer.status != 200:
            return answer
        put = json.loads(answer.body)
        told = (("ETag", f'"{put["etag"]}"'), ("x-goog-generation", str(put["generation"])))
        return StoreAnswer(200, told, b"")


_CONTENTS = re.compile(rb"<Contents>.*?<Key>(.*?)</Key>.*?</Contents>", re.DOTALL)


def _xml(text: str) -> StoreAnswer:
    return StoreAnswer(200, (("Content-Type", "application/xml"),), text.encode())


class FakeGcs(Emulator):
    """fake-gcs-server, with its objects in memory; its program is built with Go."""

    name = "fake-gcs-server"
    kind = "google"

    def __init__(self, folder: Path, port: int | None = None) -> None:
        super().__init__(folder, port)
        self.private_key = ""

    def address(self, bucket: str, path: str) -> str:
        """As `ObjectStore.address`."""
        return f"gs://{bucket}/{path}"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """As `ObjectStore.options`."""
        key = json.dumps(self._key(endpoint))
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": key, "ALLOW_HTTP": "true"}

    def connection(self, endpoint: str | None = None) -> dict[str, Any]:
        """As `ObjectStore.connection`."""
        extra = {"keyfile_dict": self._key(endpoint)}
        return {"conn_type": "google_cloud_platform", "extra": extra}

    def _key(self, endpoint: str | None) -> dict[str, Any]:
        """A service account's key, as object_store has it for a server that asks for none."""
        nobody = {"client_email": "", "private_key": self.private_key, "private_key_id": ""}
        return {"gcs_base_url": endpoint or self.endpoint, "disable_oauth": True, **nobody}

    def create_bucket(self, bucket: str) -> None:
        """As `ObjectStore.create_bucket`."""
        request = urllib.request.Request(  # noqa: S310  (a URL of our own)
            f"{self.endpoint}/storage/v1/b?project=p",
            data=json.dumps({"name": bucket}).encode(),
            headers={"Content-Type": "application/json"},
        )
        _done(request, "already exists", f"{self.name}: bucket {bucket}")

    def _adapter(self) -> Adapter:
        return OfGoogle(f"{HOST}:{self.port}")

    def _command(self) -> list[str | Path]:
        where = ["-scheme", "http", "-host", HOST, "-port", str(self._own_port)]
        outside = ["-external-url", self.endpoint, "-public-host", f"{HOST}:{self.port}"]
        return [FAKE_GCS_SERVER.built(), *where, *outside, "-backend", "memory"]


def _done(request: urllib.request.Request, is_there: str, what: str) -> None:
    try:
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")
        if is_there not in said:
            raise ServiceAway(f"{what}: {error}: {said}") from error
