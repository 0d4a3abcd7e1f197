"""What may be decided: incidents, approvals, new generations, rewinds."""

from tests.mutants.mutant import Mutant

INCIDENTS = "tests/unit/test_incidents.py"
DECISIONS = "tests/unit/test_decisions.py"
REWINDING = "tests/unit/test_rewinding.py"
MUTANTS = (
    Mutant(
        "only narrow incidents may be left open (R8)",
        "elif proceed and incident.finding.is_narrow and",
        "elif proceed and",
        INCIDENTS,
    ),
    Mutant(
        "the finder halts, whoever may proceed (R8)",
        "and incident.run_id != run_id:",
        "and True:",
        INCIDENTS,
    ),
    Mutant(
        "fail is no way on (R9)",
        'return tuple(choice for choice in self.choices if choice != "fail")',
        "return self.choices",
        INCIDENTS,
    ),
    Mutant(
        "a cut log goes on in a new generation (R9)",
        "return max(same) + 1 if same else 0",
        "return max(same) if same else 0",
        DECISIONS,
    ),
    Mutant(
        "an accepted loss is on record (R9)",
        "accepted_loss = add_coverage(head.accepted_loss, ((position.identity, r) for r in lost))",
        "accepted_loss = head.accepted_loss",
        DECISIONS,
    ),
    Mutant(
        "a choice has to be valid for its class (R9)",
        "if choice not in by_kind.get(kind, ()) or kind in chosen:",
        "if False:",
        "tests/unit/test_approval.py",
    ),
    Mutant(
        "removal of what was landed before, by a rewind",
        "claimed = dict(kept)",
        "claimed: dict[PartitionIdentity, Intervals] = {}",
        REWINDING,
    ),
    Mutant("coverage by an undone run", "        verified=(),\n", "", REWINDING),
)
