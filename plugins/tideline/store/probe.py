"""Two questions to what answers as an object store, where no error would tell.

Does it keep two writers from creating the same object (ADR 27)? Every commit of table and ledger is
a put that may only create. A store that ignores the condition would let the second writer overwrite
the first one's commit, and report success to both. delta-rs looks before it puts, so its own
commits do not show this.

Is it a store at all? A web server's page, with status 200, is a list of objects without an object
to delta-rs: a table that is there would look as if it had never been created.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from tideline.errors import ServiceAway
from tideline.model.addresses import is_in_object_store, store_of
from tideline.store.store_refusals import endpoint_of, plain_text, refusal, store_refused
from tideline.store.store_settings import ROLE

log = logging.getLogger("tideline")

_SECONDS = 5
_PAGE = "text/html"


def refuse_unconditional_puts(uri: str, options: Mapping[str, str]) -> None:
    """Put the same new object twice beside a table's log: the second time has to be refused.

    Asked when a table or a ledger is created, so that no later run pays for it. A file system is
    not asked. Nor is a store with a role to assume: obstore has no client for that service.

    Raises:
        StoreRefused: The store puts it twice, or refuses us.
        ServiceAway: The store does not answer.
    """
    if not is_in_object_store(uri):
        return
    refuse_web_pages(uri, options)
    if ROLE in options:
        log.warning("%s: not probed for conditional puts, which needs a key and not a role", uri)
        return
    # Imported here: most runs create nothing.
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    from tideline.store.table_files import object_store

    try:
        store, prefix = object_store(uri, options)
        # Below the log: it is no foreign file there, whatever becomes of this process.
        key = f"{prefix}_delta_log/.tideline-probe-{uuid.uuid4().hex}"
        try:
            obstore.put(store, key, b"first", mode="create")
            obstore.put(store, key, b"second", mode="create")
        except AlreadyExistsError:
            return  # also where only the answer to the first was lost
        finally:
            with suppress(BaseError, FileNotFoundError):
                obstore.delete(store, key)
    except (BaseError, FileNotFoundError) as error:
        why = refusal(uri, options, error)
        if why is not None:
            raise why from error
        raise ServiceAway(
            f"{uri} cannot be used: {plain_text(error)}; nothing has moved, run again when"
            " its store is back",
            uri=uri,
        ) from error
    raise store_refused(
        uri, options, "conditional_put", "it puts an object that must not exist yet"
    )


def refuse_web_pages(uri: str, options: Mapping[str, str]) -> None:
    """Ask the endpoint for the bucket, where nothing was found: it must not answer with a page.

    Asked only then, so that no run of a stream that has landed pays for it. A store's answers are
    XML, the refusal of a stranger too, so that one request without a signature tells them apart.
    Neither a file system nor Amazon's own endpoint is asked.

    Raises:
        StoreRefused: A web server answers.
    """
    endpoint = endpoint_of(uri, options) or ""
    if store_of(uri) != "s3a" or urlsplit(endpoint).scheme not in ("http", "https"):
        return
    address = f"{endpoint.rstrip('/')}/{urlsplit(uri).netloc}?list-type=2&max-keys=0"
    try:
        with build_opener(_Stays).open(address, timeout=_SECONDS) as answer:
            kind = answer.headers.get_content_type()
    except (OSError, HTTPException, ValueError):
        return  # most stores refuse a stranger; what keeps us from asking, delta-rs meets as well
    if kind == _PAGE:
        text = f"what answers there is no S3 store: it sends a page ({_PAGE})"
        raise store_refused(uri, options, "endpoint", text)


class _Stays(HTTPRedirectHandler):
    """Follows nothing: some stores send browsers to a console."""

    def redirect_request(self, *_: object) -> None:
        return None
