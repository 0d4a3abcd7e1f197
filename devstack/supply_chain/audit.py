"""Known advisories about what a run loads, asked of OSV: https://google.github.io/osv.dev/api/."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from devstack.supply_chain.components import Component, components
from tideline.errors import ServiceAway, TidelineError

OSV = "https://api.osv.dev"
ACCEPTED = Path(__file__).with_name("accepted.toml")
_AT_ONCE = 500
_SECONDS = 30


def audit(parts: list[Component], address: str, accepted: Mapping[str, str]) -> list[str]:
    """Ask for advisories and hold them against those that were accepted.

    Args:
        parts: What to ask about.
        address: Of OSV, or of a mirror with its API.
        accepted: Reason by advisory.

    Returns:
        What is wrong: an advisory that was not accepted, an accepted one that is not reported.

    Raises:
        ServiceAway: OSV does not answer.
    """
    found = set(_advisories(parts, address))
    gone = sorted(accepted.keys() - {name for _, name in found})
    return [
        *sorted(f"{url}: {name}" for url, name in found if name not in accepted),
        *(f"{name}: accepted, but no longer reported; remove it" for name in gone),
    ]


def _advisories(parts: list[Component], address: str) -> Iterator[tuple[str, str]]:
    """Pairs of package URL and advisory."""
    urls = sorted({part.url.partition("?")[0] for part in parts})
    with httpx.Client(base_url=address, timeout=_SECONDS) as client:
        for start in range(0, len(urls), _AT_ONCE):
            some = urls[start : start + _AT_ONCE]
            queries = [{"package": {"purl": url}} for url in some]
            try:
                answer = client.post("/v1/querybatch", json={"queries": queries})
                answer.raise_for_status()
                results = answer.json()["results"]
            except (httpx.HTTPError, ValueError, KeyError) as error:
                raise ServiceAway(f"{address} cannot be asked for advisories: {error!r}") from error
            for url, result in zip(some, results, strict=True):
                yield from ((url, advisory["id"]) for advisory in result.get("vulns", ()))


def main(address: str = OSV) -> int:
    """Audit everything.

    Returns:
        An exit status: 1 when there are problems; 4 when OSV does not answer.
    """
    accepted = tomllib.loads(ACCEPTED.read_text())
    try:
        parts = components()
        problems = audit(parts, address, accepted)
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for problem in problems:
        print(problem)
    for name, reason in accepted.items():
        print(f"{name}: accepted: {reason}")
    print(f"{len(parts)} components, {len(problems)} problems, {len(accepted)} advisories accepted")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
