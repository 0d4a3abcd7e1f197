"""The list of parts, the bill of materials, and advisories about them."""

import json
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from devstack.supply_chain.audit import audit
from devstack.supply_chain.bill_of_materials import write_bill
from devstack.supply_chain.components import Component, parts_of
from tests.worlds.http_stub import HttpStub
from tests.worlds.serializers import KAFKAJS
from tideline.errors import BadInput, ServiceAway
from tideline.versions import AZURITE

LZ4 = Component("pkg:maven/org.lz4/lz4-java@1.8.0", sha256="ab" * 32)
SIX = Component("pkg:pypi/six@1.17.0", license="MIT")


@pytest.fixture
def osv():
    """A server that knows of one advisory, about lz4-java 1.8.0."""
    stub = HttpStub()

    def answer(request):
        size = int(request.headers["Content-Length"])
        queries = json.loads(request.rfile.read(size))["queries"]
        known = {LZ4.url: {"vulns": [{"id": "CVE-2025-12183"}]}}
        results = [known.get(query["package"]["purl"], {}) for query in queries]
        body = json.dumps({"results": results}).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    stub.answer = answer
    yield stub
    stub.close()


@pytest.mark.parametrize(
    ("folder", "package", "version"),
    [
        ("devstack/npm", "azurite", AZURITE),
        ("tests/wire/programs/npm", "kafkajs", KAFKAJS),
    ],
)
def test_what_npm_brings_is_held_against_hashes(folder, package, version):
    """Of the version that the tests name, and without a script of a package or a host's name."""
    lock = json.loads(Path(folder, "package-lock.json").read_text())
    parts = {name: part for name, part in lock["packages"].items() if name}
    assert parts[f"node_modules/{package}"]["version"] == version
    assert all(part["integrity"].startswith("sha512-") for part in parts.values())
    assert not any("resolved" in part or part.get("hasInstallScript") for part in parts.values())


def test_an_advisory_is_reported_unless_it_was_accepted(osv):
    """An accepted one has to be reported still, so that the list stays short."""
    address = f"http://127.0.0.1:{osv.port}"
    assert audit([LZ4, SIX], address, {}) == [f"{LZ4.url}: CVE-2025-12183"]
    assert audit([LZ4, SIX], address, {"CVE-2025-12183": "no lz4 here"}) == []
    (line,) = audit([SIX], address, {"CVE-2025-12183": "no lz4 here"})
    assert line == "CVE-2025-12183: accepted, but no longer reported; remove it"


def test_a_server_that_does_not_answer_is_no_clean_audit(osv):
    """Neither is one that answers with something else."""
    osv.close()
    with pytest.raises(ServiceAway, match="cannot be asked"):
        audit([SIX], f"http://127.0.0.1:{osv.port}", {})


def test_a_bill_of_materials_is_valid_and_always_the_same(tmp_path):
    """Bytes that change without a reason hide those that change with one."""
    parts = [LZ4, SIX, Component("pkg:maven/a/b@1", inside="outer-1.jar")]
    bills = []
    for name in ("one", "two"):
        write_bill(tmp_path / name / "bill.json", parts)
        bills.append((tmp_path / name / "bill.json").read_text())
    assert bills[0] == bills[1]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bills[0]) is None
    assert {c["purl"] for c in json.loads(bills[0])["components"]} == {p.url for p in parts}


def jar(path, *coordinates):
    with zipfile.ZipFile(path, "w") as opened:
        for organisation, name, version in coordinates:
            text = f"groupId={organisation}\nartifactId={name}\nversion={version}\n"
            opened.writestr(f"META-INF/maven/{organisation}/{name}/pom.properties", text)
    return path


def test_a_jar_is_named_with_what_was_copied_into_it(tmp_path):
    """What is inside runs as well."""
    outer, inner = ("org.a", "outer", "1.2-3"), ("org.b", "inner", "4")
    found = list(parts_of(jar(tmp_path / "outer-1.2-3-linux.jar", inner, outer)))
    assert [(p.url, p.inside) for p in found] == [
        ("pkg:maven/org.a/outer@1.2-3?classifier=linux", ""),
        ("pkg:maven/org.b/inner@4", "outer-1.2-3-linux.jar"),
    ]
    assert found[0].sha256
    (known,) = parts_of(jar(tmp_path / "zstd-jni-1.5.6-9.jar"))
    assert known.url == "pkg:maven/com.github.luben/zstd-jni@1.5.6-9"


def test_a_jar_that_nobody_can_name_is_refused(tmp_path):
    """Nothing is left out in silence."""
    with pytest.raises(BadInput, match="does not say who publishes it"):
        list(parts_of(jar(tmp_path / "riddle-1.0.jar")))
