"""A schema and those that it refers to, made one. Pure: whoever asks the registry passes them in.

Registries keep references beside a schema's text: a name as the text uses it, and the version of a
subject that it stands for. Decoders know nothing of them.
"""

from __future__ import annotations

import hashlib

from tideline.model.decoding import WriterSchema
from tideline.registry_io.avro_references import with_types_written_out
from tideline.registry_io.document import Document, Unresolvable
from tideline.registry_io.json_references import with_documents_in_defs


def resolved(document: Document, schema_id: int, known_as: str) -> WriterSchema:
    """The schema with everything that it refers to. Without references the text stays as it is.

    Args:
        document: The schema.
        schema_id: Its id.
        known_as: `SUBJECT:VERSION`.

    Raises:
        Unresolvable: A text is no JSON, or is too deeply nested, or two imports have one name.
    """
    text = document.text
    imports: tuple[tuple[str, str], ...] = ()
    if document.references:
        if any(d.format != document.format for d in _below(document)):
            raise Unresolvable("a schema of another format is referred to")
        try:
            if document.format == "protobuf":
                imports = _imports(document)
            elif document.format == "avro":
                others = [d.text for d in _below(document)]
                text = with_types_written_out(text, others)
            else:
                text = with_documents_in_defs(document)
        except Unresolvable:
            raise
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise Unresolvable(f"{type(error).__name__}: {error}") from error
    digest = hashlib.sha256(text.encode()).hexdigest()
    return WriterSchema(schema_id, text, digest, known_as, imports, document.format)


def _below(document: Document) -> list[Document]:
    """What a schema refers to, all levels, each once; ways to one may double with every level.

    Of several places in depth-first order the last one counts: later definitions of a type win.
    """
    found: dict[int, Document] = {}

    def visit(above: Document) -> None:
        for _, other in reversed(above.references):
            if id(other) not in found:
                visit(other)
                found[id(other)] = other

    visit(document)
    return [*reversed(found.values())]


def _imports(document: Document) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    waiting, seen = [document], {id(document)}
    while waiting:
        for name, other in waiting.pop(0).references:
            if found.setdefault(name, other.text) != other.text:
                raise Unresolvable(f"two different files are imported as {name}")
            if id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)
    return tuple(found.items())
