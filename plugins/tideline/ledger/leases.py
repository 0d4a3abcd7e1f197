"""Leases in the ledger's control document: who may work on a stream now.

A lease keeps others out. A holder that slept through its end neither reads nor writes the ledger
once another has taken it over, and its token keeps it from the table (R5).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tideline.errors import Halted, StreamBusy
from tideline.ledger.state import Lease, LedgerState
from tideline.model.wording import duration_text

log = logging.getLogger("tideline")
_MOST_OFTEN = 0.1
"""Seconds between renewals at least, however short a lease is: the ledger has other writers."""


def lease_seconds() -> float:
    """How long a silent holder keeps a lease (`TIDELINE_LEASE_SECONDS`, 60 s)."""
    return float(os.environ.get("TIDELINE_LEASE_SECONDS", "60"))


def take(state: LedgerState, name: str, holder: str) -> LedgerState:
    """The state with a lease taken.

    Raises:
        StreamBusy: Somebody else holds it.
    """
    refuse_held(state, holder, name)
    return extend(state, name, holder)


def extend(state: LedgerState, name: str, holder: str) -> LedgerState:
    """The state with a lease that lasts from now on."""
    return state.with_lease(
        Lease(
            name=name,
            holder=holder,
            host=socket.gethostname(),
            pid=os.getpid(),
            process_started=process_identity(os.getpid()),
            expires_at=datetime.now(UTC) + timedelta(seconds=lease_seconds()),
        )
    )


@contextmanager
def renewed(name: str, renew: Callable[[], object]) -> Iterator[None]:
    """Renew a lease in the background for the length of a block.

    Args:
        renew: Writes the new expiry; failures are logged, and the lease then expires.
    """
    stop = threading.Event()

    def keep() -> None:
        while not stop.wait(max(lease_seconds() / 3, _MOST_OFTEN)):  # one may fail
            try:
                renew()
            except Exception as error:
                log.warning("the %s lease was not renewed: %s", name, error)

    keeper = threading.Thread(target=keep, name=f"lease-{name}", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        stop.set()
        keeper.join()


def refuse_lost(state: LedgerState, name: str, holder: str) -> None:
    """Make sure that a holder still holds its lease; it may have expired if nobody took it over.

    Raises:
        StreamBusy: Another attempt took it over. It is lost for good: others may have worked since.
    """
    if not any(held.name == name and held.holder == holder for held in state.control.leases):
        raise StreamBusy(
            f"stream {state.control.stream}: this attempt has lost the {name} lease: it did not"
            f" renew it for {duration_text(lease_seconds())}, and another attempt or a rewind took"
            " over; run again",
            stream=state.control.stream,
            lease=name,
        )


def refuse_held(state: LedgerState, holder: str, *names: str) -> None:
    """Make sure that nobody else holds a lease.

    Args:
        holder: The attempt that asks.
        names: The leases to look at; all if none is named.

    Raises:
        StreamBusy: Another holder, as far as we can tell alive, has one that is not expired.
    """
    now = datetime.now(UTC)
    for held in state.control.leases:
        theirs = held.holder != holder and held.expires_at > now and not _is_gone(held)
        if theirs and (not names or held.name in names):
            raise StreamBusy(
                f"stream {state.control.stream}: the {held.name} lease is held by process"
                f" {held.pid} on {held.host} until {held.expires_at:%H:%M:%S} UTC at"
                " least; try again later",
                stream=state.control.stream,
                lease=held.name,
                rewind=state.control.rewind is not None,
            )


def _is_gone(lease: Lease) -> bool:
    """Whether the holder ran where we can look, and has ended; elsewhere only expiry tells."""
    here, known = _namespace(), lease.process_started
    if lease.host != socket.gethostname() or not here or known.rpartition(":")[0] != here:
        return False
    return process_identity(lease.pid) != known


def process_identity(pid: int) -> str:
    """Namespace and start time of a process (proc(5), field 22); empty if none is seen.

    A process id alone would name whoever has got it since.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    here = _namespace()
    return "" if fields[0] == "Z" or not here else f"{here}:{fields[19]}"


def _namespace() -> str:
    """Boot and number of the namespace that our process ids belong to; empty where not known.

    Containers of one machine may have one host name, and each has a process 7.
    """
    try:
        if str(Path("/proc/self").readlink()) != str(os.getpid()):
            return ""  # /proc shows the processes of another one
        inode = Path("/proc/self/ns/pid").stat().st_ino
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}:{inode}"
    except OSError:
        return ""


def refuse_during_rewind(state: LedgerState, holder: str) -> None:
    """Keep everybody out until a rewind has finished with table and ledger.

    Raises:
        StreamBusy: A rewind is at work.
        Halted: A rewind was interrupted; a person has to repeat the command.
    """
    rewind = state.control.rewind
    if rewind is None:
        return
    refuse_held(state, holder, "live", "writer")
    raise Halted(
        f"stream {state.control.stream}: {rewind.rewind_id} to run {rewind.to_run} was begun"
        f" {rewind.begun_at:%Y-%m-%dT%H:%M:%S}Z by {rewind.by} and not finished; nothing else may"
        " move until it is: give the same tideline rewind command again",
        rewind_id=rewind.rewind_id,
    )
