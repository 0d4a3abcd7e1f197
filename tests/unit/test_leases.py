"""Whether the holder of a lease lives, as far as another process can tell."""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tideline.documents import load
from tideline.errors import StreamBusy
from tideline.ledger import leases
from tideline.ledger.state import Control, Lease, LedgerState

NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
CAN_UNSHARE = not subprocess.run(
    (*NAMESPACE, "--mount-proc", "true"), capture_output=True
).returncode
HOLDS = """
import sys
from tideline.documents import dump
from tideline.ledger import leases
from tideline.ledger.state import Control, LedgerState
(lease,) = leases.take(LedgerState(0, Control("l", "s")), "live", "theirs").control.leases
print(dump(lease), flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(*within):
    """The lease of a process that lives for the length of a block."""
    command = (*within, sys.executable, "-c", HOLDS)
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        yield load(Lease, process.stdout.readline(), "the lease")
        process.communicate()


def take(lease):
    """Somebody else wants it."""
    return leases.take(LedgerState(0, Control("l", "s", leases=(lease,))), "live", "mine")


def test_a_dead_holder_s_lease_is_taken_at_once():
    """On its host, in its namespace."""
    with holder() as lease, pytest.raises(StreamBusy, match="live lease is held"):
        take(lease)
    assert take(lease).control.leases[0].holder == "mine"


@pytest.mark.skipif(not CAN_UNSHARE, reason="this kernel lets nobody make a namespace")
@pytest.mark.parametrize("proc", [("--mount-proc",), ()], ids=["its own /proc", "the host's /proc"])
def test_a_holder_in_another_namespace_is_waited_for(proc):
    """Two containers may have one host name; a process id means something in its namespace only."""
    with (
        holder(*NAMESPACE, *proc) as lease,
        pytest.raises(StreamBusy, match="live lease is held"),
    ):
        take(lease)


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"process_started": ""}, "older"])
def test_what_is_not_known_to_be_dead_is_waited_for(change):
    """Another host, a system without /proc, and a lease of a version that noted no namespace."""
    with holder() as lease:
        pass
    if change == "older":
        boot, _, started = lease.process_started.split(":")
        change = {"process_started": f"{boot}:{started}"}
    with pytest.raises(StreamBusy, match="live lease is held"):
        take(replace(lease, **change))


def test_a_proc_of_another_namespace_says_nothing_of_a_process(monkeypatch):
    """Its process of that number is somebody else."""
    assert leases.process_identity(os.getpid())
    monkeypatch.setattr(leases.os, "getpid", lambda: 1)
    assert not leases.process_identity(1)
