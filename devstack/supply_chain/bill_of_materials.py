"""A bill of materials in CycloneDX 1.6, the same bytes for the same parts.

Standard: https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component as Part
from cyclonedx.model.component import ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6

from devstack.supply_chain.components import Component, components
from tideline import __version__

_LIBRARY = ComponentType.LIBRARY


def write_bill(path: Path, parts: list[Component]) -> None:
    """Write it.

    Args:
        path: A file; its folder is created.
        parts: What is in it.
    """
    bill = Bom(components=[_part(part) for part in parts])
    whole = Part(name="tideline", version=__version__, bom_ref="tideline", type=_LIBRARY)
    bill.metadata.component = whole
    bill.register_dependency(whole, bill.components)
    bill.metadata.timestamp = None  # type: ignore[assignment]
    bill.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(map(str, parts)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(JsonV1Dot6(bill).output_as_string(indent=2) + "\n")


def _part(component: Component) -> Part:
    url = component.parsed
    return Part(
        type=_LIBRARY,
        bom_ref=f"{component.url}{'#' if component.inside else ''}{component.inside}",
        group=url.namespace,
        name=url.name,
        version=url.version,
        purl=url,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=component.sha256)]
        if component.sha256
        else (),
        licenses=[DisjunctiveLicense(name=component.license)] if component.license else (),
        properties=[Property(name="tideline:inside", value=component.inside)]
        if component.inside
        else (),
    )


if __name__ == "__main__":
    found = components()
    write_bill(Path(sys.argv[1]), found)
    print(f"{sys.argv[1]}: {len(found)} components")
