"""The identity of a process on this machine; process ids are reused."""

from __future__ import annotations

from pathlib import Path


def process_identity(pid: int) -> str:
    """Boot and start time of a process (proc(5), field 22); empty if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else f"{boot}:{fields[19]}"
