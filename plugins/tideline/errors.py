"""Every error that Tideline raises. The exit status says what the caller does next.

    1  report it with the log: a bug          4  run again later: the only retriable ones
    2  change what the message names          5  look at the table: it does not hold the plan
    3  decide: trying again changes nothing   6  look at the audit: do not build on the table

Exit 0 is success. Facts are attributes, so that a log line, the JSON output and a test read the
same values. Each class has an entry in docs/incidents-and-errors.md.

A docstring names the errors that its function raises itself. Others pass through: `ServiceAway`
wherever Kafka, Spark, a registry or a store is asked; `StreamBusy` wherever the ledger is written;
`ConnectionMissing` wherever a service is connected. Steps and operations name all of theirs.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tideline.texts import clean


class TidelineError(Exception):
    """Base of the tree.

    Args:
        message: What happened, where, expected and actual, and what to do next; kept `clean`.
        facts: Machine-readable details; they become attributes.
    """

    exit_code: ClassVar[int] = 1
    status: ClassVar[str] = "failed"
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, **facts: Any) -> None:
        message = clean(message)
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        # Not `self.facts`: until `__init__` has set it, that would ask here again without end.
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own way forgets keyword arguments; Airflow and Spark hand errors on pickled.
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(cls: type[TidelineError], message: str, facts: dict[str, Any]) -> TidelineError:
    return cls(message, **facts)


# The five kinds. Those below inherit all three attributes and set none.


class BadInput(TidelineError):
    """A person's input is invalid: a file, an option, a connection, an address."""

    exit_code = 2


class Halted(TidelineError):
    """The run stops before anything changes, until a person decides."""

    exit_code = 3
    status = "halted"


class Transient(TidelineError):
    """The same run may succeed later; nothing has changed."""

    exit_code = 4
    status = "retry"
    retriable = True


class VerificationFailed(TidelineError):
    """The committed rows are not the planned ones; the position does not move."""

    exit_code = 5


class AuditNotClean(TidelineError):
    """An audit has findings; work that depends on the table should wait."""

    exit_code = 6


# Exit 2: a person changes something.


class StreamFileError(BadInput):
    """A stream file is invalid; `facts["problems"]` lists file, line, key, value and allowed."""


class ConnectionMissing(BadInput):
    """A stream names an Airflow connection that does not exist or lacks a setting."""


class AccessRefused(BadInput):
    """Brokers refuse a connection for good; `cause`, if not Spark was refused, is why."""


class NotEntitled(BadInput):
    """An Airflow user may not do something with a stream, by the names in its file."""


class RegistryRefused(AccessRefused):
    """The schema registry refuses a connection for good; `cause` is why."""


class SparkRefused(AccessRefused):
    """A Spark Connect server refuses the token, or the lack of one."""


class StoreRefused(AccessRefused):
    """An object store cannot be used as its connection and address say; `cause` is why."""


class RegistryMisused(BadInput):
    """The registry does not have what a stream file names, or what answers is no registry."""


class TopicIdMissing(BadInput):
    """The cluster does not give a topic an id (KIP-516); nothing says which log is read."""


class LedgerElsewhere(BadInput):
    """The ledger at this location was moved away, or has not been moved here completely."""


class UnreadableDocument(BadInput):
    """A stored document is no JSON, or has an unknown field or a wrong value; none is dropped."""


class NewerFormat(UnreadableDocument):
    """A newer version of Tideline wrote a stored document; this one must not guess at it."""


class RequestConflict(BadInput):
    """The run id already stands for a different request; use another run id."""


# Exit 3: a person decides.


class ResetDetected(Halted):
    """The log or the table contradicts the ledger; the incidents say how."""


class DecodingHalted(Halted):
    """A schema does not fit, or too many records cannot be decoded; the landed rows stay."""


class FoldingHalted(Halted):
    """A key has moved, or the current table is not as it was left; landed and typed rows stay."""


class UnreadableTable(Halted):
    """The table, as it stands, cannot be read: a feature, its columns, its log; the text says."""


class ReplayUnavailable(Halted):
    """A plan needs offsets that Kafka no longer has; rows that are in the table stay."""


class SchemaChanged(Halted):
    """The registry gives another schema for an id than before: it may be another registry."""


class WindowUnavailable(Halted):
    """Part of a backfill has expired, or the log is not in time order; nothing was read."""


class UnreadableRecords(Halted):
    """Spark cannot read some records, however often it tries; the facts name their offsets."""


# Exit 4: time, or another attempt, may help.


class ServiceAway(Transient):
    """A broker, a store or Spark is unreachable, or answered with a transient error."""


class RegistryAway(ServiceAway):
    """The schema registry is unreachable, or answered with a transient error."""


class StreamBusy(Transient):
    """Another attempt works on this stream, or has changed what this one started from."""


class AttemptFenced(Transient):
    """A newer attempt has written to the table since this one began."""


class CommitConflict(Transient):
    """Another process changed the ledger or the table between this one's read and its write."""


def reported_error(name: str) -> type[TidelineError]:
    """The class that a result file names; ServiceAway, which is retriable, for any other text.

    Only this tree is searched: the text is from outside, and must not find another object of ours.
    """
    found: list[type[TidelineError]] = [TidelineError]
    for cls in found:
        found.extend(cls.__subclasses__())
    return next((cls for cls in found if cls.__name__ == name), ServiceAway)
