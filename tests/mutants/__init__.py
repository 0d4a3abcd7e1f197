"""Checks taken out, one at a time; `python -m tests.mutants` (`make mutants`) runs them."""

from tests.mutants import (
    avro,
    connections,
    decisions,
    decoding,
    detection,
    json,
    launching,
    ledger,
    looking,
    maintaining,
    pipeline,
    planning,
    protobuf,
    registry,
    table,
    verification,
)

MUTANTS = (
    *detection.MUTANTS,
    *verification.MUTANTS,
    *planning.MUTANTS,
    *decisions.MUTANTS,
    *decoding.MUTANTS,
    *avro.MUTANTS,
    *json.MUTANTS,
    *protobuf.MUTANTS,
    *pipeline.MUTANTS,
    *table.MUTANTS,
    *ledger.MUTANTS,
    *maintaining.MUTANTS,
    *connections.MUTANTS,
    *launching.MUTANTS,
    *registry.MUTANTS,
    *looking.MUTANTS,
)
