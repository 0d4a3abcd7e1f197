"""Whether a web server answers where an object store should.

Its page, with status 200, is a list of objects without an object to delta-rs: a table that is there
would look as if it had never been created. A store's answers are XML, the refusal of a stranger
too, so that one request without a signature tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPException
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from tideline.model.addresses import is_in_object_store
from tideline.store_io.refusals import endpoint_of, refused

_SECONDS = 5
_PAGE = "text/html"


class _Stays(HTTPRedirectHandler):
    """Follows nothing: some stores send browsers to a console."""

    def redirect_request(self, *_: object) -> None:
        return None


def refuse_web_pages(uri: str, options: Mapping[str, str]) -> None:
    """Ask the endpoint for the bucket, where nothing was found: it must not answer with a page.

    Asked only then, so that no run of a stream that has landed pays for it. Amazon's own endpoint
    is not asked.

    Args:
        uri: Address of the table or ledger; a file system's is not asked.
        options: delta-rs options of the object store.

    Raises:
        StoreRefused: A web server answers.
    """
    endpoint = endpoint_of(options) or ""
    if not is_in_object_store(uri) or urlsplit(endpoint).scheme not in ("http", "https"):
        return
    address = f"{endpoint.rstrip('/')}/{urlsplit(uri).netloc}?list-type=2&max-keys=0"
    try:
        with build_opener(_Stays).open(address, timeout=_SECONDS) as answer:
            kind = answer.headers.get_content_type()
    except (OSError, HTTPException, ValueError):
        return  # most stores refuse a stranger; what keeps us from asking, delta-rs meets as well
    if kind == _PAGE:
        said = f"what answers there is no S3 store: it sends a page ({_PAGE})"
        raise refused(uri, options, "endpoint", said)
