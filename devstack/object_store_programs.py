"""The programs of S3-compatible servers, fetched or built once into the cache."""

from __future__ import annotations

from pathlib import Path

from devstack.go_programs import GoProgram
from tideline.launch.jars import fetch
from tideline.versions import VERSITYGW

GATEWAY = GoProgram(*VERSITYGW)


def proxy_jars() -> list[Path]:
    """The jars of S3Proxy, fetched if they are not in the cache.

    Raises:
        ServiceAway: Maven Central cannot be reached.
    """
    return fetch("s3proxy")
