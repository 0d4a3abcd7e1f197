"""Checks taken out, one at a time; `python -m tests.mutants` (`make mutants`) runs them."""

from tests.mutants import (
    connections,
    decisions,
    detection,
    launching,
    ledger,
    pipeline,
    planning,
    table,
    verification,
)

MUTANTS = (
    *detection.MUTANTS,
    *verification.MUTANTS,
    *planning.MUTANTS,
    *decisions.MUTANTS,
    *pipeline.MUTANTS,
    *table.MUTANTS,
    *ledger.MUTANTS,
    *connections.MUTANTS,
    *launching.MUTANTS,
)
