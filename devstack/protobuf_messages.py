"""Classes of Protobuf's messages, made of a schema's text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tideline.model.decoding import PLAIN_ID, WriterSchema
from tideline.registry.protobuf_files import compiled_protobuf


def message_class(text: str, name: str, imports: Iterable[tuple[str, str]] = ()) -> Any:
    """The class of a message.

    Args:
        text: The schema.
        name: The message's full name.
        imports: Names and texts of files that the schema imports.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()
    schema = WriterSchema(PLAIN_ID, text, digest, references=tuple(imports))
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compiled_protobuf(schema)).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))
