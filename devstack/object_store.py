"""Real object stores: S3Proxy, a JVM, and versitygw, a program of Go; both speak S3.

What stands in for Azure's and Google's is in `devstack.cloud_emulators`.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

from devstack.object_store_programs import GATEWAY, proxy_jars
from devstack.process import HOST, Server, free_ports, wait_until
from tideline.errors import ServiceAway
from tideline.launch.java import find_java
from tideline.model.addresses import StoreKind

REGION = "us-east-1"
_START_SECONDS = 60
_LOGGING = (
    '<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>'
    "<pattern>%d %level %logger{0} %msg%n</pattern></encoder></appender>"
    '<root level="warn"><appender-ref ref="out"/></root></configuration>'
)
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ObjectStore:
    """One server with its objects in a folder; it can be stopped and started again.

    Args:
        folder: Holds its objects and its log.
        port: Its port; a free one when None.
    """

    name = "object store"
    kind: StoreKind

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_ports(1)[0]
        self.server: Server | None = None

    @property
    def endpoint(self) -> str:
        """URL for clients."""
        return f"http://{HOST}:{self.port}"

    def address(self, bucket: str, path: str) -> str:
        """Of a table, as a stream file has it."""
        raise NotImplementedError

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """delta-rs options of a client; in a process's environment they do the same.

        Args:
            endpoint: Of a proxy in front of it; its own when None.
        """
        raise NotImplementedError

    def connection(self, endpoint: str | None = None) -> dict[str, Any]:
        """The store as an Airflow connection; arguments as of `options`."""
        raise NotImplementedError

    def create_bucket(self, bucket: str) -> None:
        """Create a bucket; one that is there is no error.

        Raises:
            ServiceAway: The store does not do it.
        """
        raise NotImplementedError

    def objects(self, bucket: str) -> Path | None:
        """Where the bucket's objects lie as files; None where they do not."""
        return None

    def start(self, timeout_seconds: float = _START_SECONDS) -> ObjectStore:
        """Start it, and wait until it answers.

        Args:
            timeout_seconds: How long to wait.

        Raises:
            BadInput: Its program is missing.
            ServiceAway: It is not ready in time or ended; the message holds the end of its log.
        """
        for part in ("objects", "beside"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        env = {**os.environ, **self._environment()}
        log = self.folder / f"{self.name}.log"
        self.server = Server.ready(
            self.name, self._command(), log, self._answers, timeout_seconds, env
        )
        return self

    def stop(self) -> None:
        """Shut down cleanly; does nothing when it is not running."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def _command(self) -> list[str | Path]:
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        return {}

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.endpoint, timeout=2).close()  # noqa: S310
        except urllib.error.HTTPError:
            return True  # nobody may list buckets without a signature
        except OSError:
            return False
        return True


class S3Server(ObjectStore):
    """Speaks S3."""

    kind = "s3a"

    def __init__(self, folder: Path, port: int | None = None) -> None:
        super().__init__(folder, port)
        self.access_key = "tideline"
        self.secret_key = "tideline-secret"  # noqa: S105  (of a server of our own)

    def address(self, bucket: str, path: str) -> str:
        """As `ObjectStore.address`."""
        return f"s3a://{bucket}/{path}"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """As `ObjectStore.options`."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    def connection(self, endpoint: str | None = None) -> dict[str, Any]:
        """As `ObjectStore.connection`."""
        return {
            "conn_type": "aws",
            "login": self.access_key,
            "password": self.secret_key,
            "extra": {"endpoint_url": endpoint or self.endpoint, "region_name": REGION},
        }

    def objects(self, bucket: str) -> Path:
        """As `ObjectStore.objects`."""
        return self.folder / "objects" / bucket

    def create_bucket(self, bucket: str) -> None:
        """As `ObjectStore.create_bucket`."""
        # Imported here: `make setup` may run before it is installed.
        import obstore
        from obstore.store import S3Store

        store = S3Store(
            bucket,
            config={
                "endpoint": self.endpoint,
                "access_key_id": self.access_key,
                "secret_access_key": self.secret_key,
                "region": REGION,
            },
            client_options={"allow_http": True},
        )
        url = obstore.sign(store, "PUT", "", timedelta(minutes=5))
        request = urllib.request.Request(url, method="PUT")  # noqa: S310  (a URL of our own)
        try:
            urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            if "BucketAlready" not in said:
                raise ServiceAway(f"{self.name}: bucket {bucket}: {error}: {said}") from error
        wait_until(lambda: (self.folder / "objects" / bucket).is_dir(), f"no bucket {bucket}", 10)


class S3Proxy(S3Server):
    """Java's S3Proxy over a folder: 0.35 GB, ready in 1.2 s."""

    name = "s3proxy"

    def _command(self) -> list[str | Path]:
        settings = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.access_key,
            "s3proxy.credential": self.secret_key,
            "s3proxy.ignore-unknown-headers": "true",  # that of a session's token
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self.folder / "objects"),
        }
        file = self.folder / "s3proxy.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        logging = self.folder / "logback.xml"
        logging.write_text(_LOGGING)  # every request would be 30 lines
        classpath = ":".join(str(jar) for jar in proxy_jars())
        given = f"-Dlogback.configurationFile={logging}"
        java: list[str | Path] = [find_java().binary, *_JAVA, given, "-cp", classpath]
        return [*java, "org.gaul.s3proxy.Main", "--properties", file]


class VersityGateway(S3Server):
    """Versity's gateway over a folder: 40 MB, ready in 0.2 s; its program is built with Go."""

    name = "versitygw"

    def _command(self) -> list[str | Path]:
        where = ["--port", f"{HOST}:{self.port}", "--region", REGION]
        program: list[str | Path] = [GATEWAY.built(), *where, "posix"]
        return [*program, "--sidecar", self.folder / "beside", self.folder / "objects"]

    def _environment(self) -> dict[str, str]:
        return {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
