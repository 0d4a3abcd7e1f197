"""Whether an object store keeps two writers from creating the same object (ADR 27).

Every commit of table and ledger is a put that may only create. A store that ignores the condition
would let the second writer overwrite the first one's commit, and report success to both. delta-rs
looks before it puts, so its own commits do not show this.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from tideline.errors import ServiceAway
from tideline.store.refusals import plain_text, refusal, refuse_web_pages, refused
from tideline.store.settings import ROLE, for_obstore
from tideline.stream.settings import is_in_object_store

log = logging.getLogger("tideline")


def refuse_unconditional_puts(uri: str, options: Mapping[str, str]) -> None:
    """Put the same new object twice beside a table's log: the second time has to be refused.

    Asked when a table or a ledger is created, so that no later run pays for it. With a role to
    assume it is not asked: obstore has no client for that service.

    Args:
        uri: Address of the table or ledger; a file system's is not asked.
        options: delta-rs options of the object store.

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
    from obstore.store import S3Store

    address = urlsplit(uri)
    # Below the log: it is no foreign file there, whatever becomes of this process.
    key = f"{address.path.strip('/')}/_delta_log/.tideline-probe-{uuid.uuid4().hex}"
    try:
        store = S3Store(address.netloc, **for_obstore(options))
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
    raise refused(uri, options, "conditional_put", "it puts an object that must not exist yet")
