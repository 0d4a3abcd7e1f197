"""Protobuf's files: which ones a file imports, and what protoc makes of them.

Protoc comes with grpcio-tools. It runs in a child process, where its messages can be caught, and
where no schema can end this one. It knows Google's own files (`google/protobuf`, `google/type`) by
itself, and those that Confluent's serializers take for given (`imports/confluent`): a registry has
none of them as a reference.

Confluent's clients for Python and .NET register what protoc has made of a file, as Base64. Their
own registry gives a source for it; others give it as it came.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from tideline.children import run
from tideline.errors import BadInput, ServiceAway
from tideline.model.decoding import SchemaUnusable, WriterSchema

MAIN = "schema.proto"
"""Name of the file that nobody imports; a longer one if somebody imports one of that name."""
_SECONDS = 60
_GIVEN = Path(__file__).parent / "imports"
_VARIABLES = ("PATH", "PYTHON", "LD_", "LANG", "LC_", "HOME", "TMPDIR")
"""How those begin that protoc's Python gets."""
_NO_FILE = (FileExistsError, NotADirectoryError, IsADirectoryError, UnicodeEncodeError)
"""What a name or a text leads to; any other error is this machine's, and may pass."""
_LONGEST_NAME = 200
_IMPORT = re.compile(r'^\s*import\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;', re.MULTILINE)


def imported_files(folder: Path, text: str) -> tuple[tuple[str, str], ...]:
    """Names and texts of the files that a file imports, all levels, as far as they are there.

    Args:
        folder: Names are relative to it.
    """
    found: dict[str, str] = {}
    waiting = [text]
    while waiting:
        for name in _IMPORT.findall(waiting.pop(0)):
            if name not in found and _is_below(name) and (folder / name).is_file():
                found[name] = (folder / name).read_text(encoding="utf-8")
                waiting.append(found[name])
    return tuple(found.items())


@lru_cache(maxsize=256)
def compiled_protobuf(schema: WriterSchema) -> bytes:
    """A schema and everything it imports, as protoc's set of files, imports first.

    Raises:
        SchemaUnusable: Protoc refuses it.
        BadInput: Protoc is not installed.
        ServiceAway: It does not end in time.
    """
    if find_spec("grpc_tools") is None:
        raise BadInput(
            "format protobuf needs protoc, which the package grpcio-tools has: run"
            " `pip install 'tideline[protobuf]'`"
        )
    references = dict(schema.references)
    for name in references:
        if not _is_below(name):
            raise SchemaUnusable("", f"it imports {name!r}; a name has to be a path below a folder")
    main = MAIN
    while main in references:
        main = f"_{main}"
    with TemporaryDirectory(prefix="tideline-protoc-") as place:
        folder = Path(place, "files")
        folder.mkdir()
        described = FileDescriptorSet()
        try:
            for name, text in {**references, main: schema.text}.items():
                if (file := _described(text)) is not None:
                    file.name = name
                    described.file.append(file)
                    continue
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, encoding="utf-8")
        except _NO_FILE as error:
            raise SchemaUnusable("", f"its imports cannot be files: {error!r}") from error
        return _compiled(folder, main, described)


def _described(text: str) -> FileDescriptorProto | None:
    """What protoc has made of a file, where that is what the text is: no source is Base64."""
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (ValueError, DecodeError):
        return None


def _compiled(folder: Path, main: str, described: FileDescriptorSet) -> bytes:
    out = folder.with_suffix(".set")  # beside the files: nobody else can enter the folder above
    paths = [f"-I{path}" for path in (folder, _GIVEN, *_googles())]
    options = ["--include_imports", f"--descriptor_set_out={out}"]
    if described.file:
        given = folder.with_suffix(".described")
        given.write_bytes(described.SerializeToString())
        options.append(f"--descriptor_set_in={given}")
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *paths, *options, main]
    try:
        variables = {k: v for k, v in os.environ.items() if k.startswith(_VARIABLES)}
        captured = {"capture_output": True, "text": True, "errors": "replace"}
        done = run(command, variables, folder.parent, timeout=_SECONDS, **captured)
        if done.returncode != 0:
            raise SchemaUnusable("", f"protoc refuses it: {_first(done.stderr, folder)}")
        return out.read_bytes()
    except TimeoutExpired as error:
        raise ServiceAway(f"protoc has not ended within {_SECONDS} s") from error


def _googles() -> list[Path]:
    """Folders of Google's common types, if they are installed."""
    spec = find_spec("google.type")
    return [Path(p).parents[1] for p in spec.submodule_search_locations or ()] if spec else []


def _first(output: str, folder: Path) -> str:
    """What protoc says first, by the files' own names."""
    lines = output.replace(f"{folder}/", "").splitlines()
    lines = [line for line in lines if line.strip() and "warning:" not in line.lower()]
    return " / ".join(lines[:3]) or "it does not say why"


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    is_plain = 0 < len(name) <= _LONGEST_NAME and not {"\\", "\0"} & set(name)
    return is_plain and not path.is_absolute() and ".." not in path.parts
