"""Every error that Tideline raises, and what each means to a caller.

    TidelineError                      exit 1, a fault of ours
    |-- BadInput                       exit 2, a person has to change something
    |   |-- StreamFileError            a stream file, with file, line, key and what is allowed
    |   |-- ConnectionMissing          an Airflow connection that is not defined or unusable
    |   |-- LedgerElsewhere            the ledger was moved, or has not quite arrived
    |   `-- RequestConflict            a run id that was already used for a different request
    |-- Halted                         exit 3, the log or the table is not what the ledger knows
    |   |-- ResetDetected              findings of detect_earliest_reset, one per partition
    |   |-- ReplayUnavailable          Kafka no longer serves what a replay needs
    |   `-- WindowUnavailable          a backfill's window cannot be read as it was asked for
    |-- Transient                    exit 4, retriable: try again later
    |   |-- ServiceAway                a broker, the ledger's store or Spark did not answer
    |   |-- StreamBusy                 another attempt holds the lease
    |   |-- AttemptFenced              a newer attempt has published; this one must not
    |   `-- CommitConflict             somebody else moved the ledger first
    |-- VerificationFailed             exit 5, the table does not hold what the plan says
    `-- AuditNotClean                  exit 6, table, ledger and broker do not agree

Facts are attributes, so that a log line, the JSON output and a test read the same thing.
All of them survive pickling.
"""

from __future__ import annotations

from typing import Any, ClassVar


class TidelineError(Exception):
    """Base of the tree.

    Args:
        message: What happened, where, expected and actual, and what to do next.
        facts: Machine-readable details; they become attributes.
    """

    retriable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    status: ClassVar[str] = "failed"

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(cls: type[TidelineError], message: str, facts: dict[str, Any]) -> TidelineError:
    return cls(message, **facts)


class BadInput(TidelineError):
    """Something that a person wrote cannot be used as it is."""

    exit_code = 2


class StreamFileError(BadInput):
    """A stream file is refused; `facts["problems"]` lists file, line, key, value and allowed."""


class ConnectionMissing(BadInput):
    """An Airflow connection that a stream names does not exist or lacks a setting."""


class LedgerElsewhere(BadInput):
    """The home that a stream names is no longer, or not yet, in charge of its ledger."""


class RequestConflict(BadInput):
    """A run id stands for one request for good; a different one needs another run id."""


class Halted(TidelineError):
    """The run stops before anything moves, until somebody decides."""

    exit_code = 3
    status = "halted"


class ResetDetected(Halted):
    """What the ledger remembers and what is there now do not fit together."""


class ReplayUnavailable(Halted):
    """A replay would need offsets that Kafka no longer serves; the rows in the table stay."""


class WindowUnavailable(Halted):
    """Part of a backfill has expired, or times do not order the log; nothing was read."""


class Transient(TidelineError):
    """May well succeed when tried again; nothing has moved."""

    retriable = True
    exit_code = 4
    status = "retry"


class ServiceAway(Transient):
    """A broker, the ledger's store or Spark is unreachable or gave a passing error."""


class StreamBusy(Transient):
    """Another attempt is at work on this stream."""


class AttemptFenced(Transient):
    """A newer attempt has written to the table since this one began."""


class CommitConflict(Transient):
    """The ledger moved between reading it and writing it."""


class VerificationFailed(TidelineError):
    """The committed rows are not the planned ones; the position does not move."""

    exit_code = 5


class AuditNotClean(TidelineError):
    """An audit found flaws; work that builds on the table waits."""

    exit_code = 6
