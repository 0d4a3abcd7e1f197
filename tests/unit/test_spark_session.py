"""How a session begins where there is no Spark to begin it."""

import pytest

from tideline.errors import ServiceAway
from tideline.spark import session

STOPPED = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."


class Builder:
    """Spark's builder, which fails."""

    def __init__(self, message):
        self._message = message

    def config(self, _key, _value):
        return self

    def getOrCreate(self):  # noqa: N802 (Spark's name)
        raise RuntimeError(self._message)


@pytest.mark.parametrize(("message", "kind"), [(STOPPED, ServiceAway), ("else", RuntimeError)])
def test_a_master_that_takes_no_application_is_named(monkeypatch, message, kind):
    """Spark says of its own context that it is stopped, and nothing of the master."""
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(session.SparkSession, "builder", Builder(message))
    with pytest.raises(kind) as raised:
        session.build_session(None)
    assert (kind is ServiceAway) == ("spark.authenticate.secret" in str(raised.value))
