"""Addresses of tables: which are safe to use, and which lie inside each other."""

from __future__ import annotations

import re
from pathlib import PurePosixPath


def safe_uri(value: str) -> str:
    """Check an address that is passed to Spark, delta-rs and SQL.

    Args:
        value: Absolute path, `file:///...` or `s3a://bucket/...`.

    Returns:
        The address, unchanged.

    Raises:
        ValueError: A scheme other than file and s3a, a login, a relative path, a bucket without a
            path, an empty part of a store's path, `..`, or a character that is not allowed in a
            path.
    """
    scheme, separator, rest = value.partition("://")
    path = rest if separator else value
    if separator and scheme not in ("file", "s3a"):
        raise ValueError("allowed are an absolute path, file:///... and s3a://bucket/...")
    if scheme != "s3a" and not path.startswith("/"):
        raise ValueError("needs an absolute path, file:///... or s3a://bucket/...")
    if separator and re.search("[@:]", rest.partition("/")[0]):
        raise ValueError(
            "a login or a port does not belong into an address; credentials come from a connection"
        )
    if scheme == "s3a":
        bucket, _, key = path.removesuffix("/").partition("/")
        if not bucket or not all(key.split("/")):
            raise ValueError(
                "needs a bucket and a path without empty parts, as in s3a://lake/orders"
            )
    if ".." in PurePosixPath(path).parts:
        raise ValueError("'..' is not allowed")
    if re.search(r"[`'\"\s\\%?#*\[\]{}\x00-\x1f]", value):
        raise ValueError("allowed are letters, digits and . _ - / = : + @ ,")
    return value


def path_shown(path: object) -> str:
    """A path in a connection, for messages; what is none may be the file's content."""
    text = str(path)
    return repr(text) if text.startswith(("/", ".")) and len(text) < 300 else "no path"


def without_login(text: str) -> str:
    """A text with everything taken out that may be a login in an address, for messages."""
    text = re.sub(r"://[^/\s'\"]*[@:][^/\s'\"]*", "://***", text)
    return re.sub(r"[^/\s'\",]+@", "***@", text)


def is_in_object_store(uri: str) -> bool:
    """Whether an address is `s3a://...`, and no folder of a file system."""
    return uri.startswith("s3a://")


def one_inside_the_other(one: str, other: str) -> bool:
    """Whether two addresses are the same folder, or one holds the other.

    Links of a file system are not followed: what is there may be another machine's.
    """
    mine, theirs = _parts(one), _parts(other)
    shorter = min(len(mine), len(theirs))
    return mine[:shorter] == theirs[:shorter]


def _parts(uri: str) -> tuple[str, ...]:
    """Scheme and folders, each once: `/a//b/./c/` is `/a/b/c`."""
    scheme, _, path = uri.removeprefix("file://").rpartition("://")
    return (scheme, *PurePosixPath("/", path.lstrip("/")).parts)
