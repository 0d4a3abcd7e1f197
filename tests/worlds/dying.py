"""A process over memory that dies at one of the places where a crash may come."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Died(BaseException):
    """What nothing in the package catches."""


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, module: str, place: str) -> Iterator[None]:
    """Whatever is called meanwhile dies there, and has to.

    Args:
        monkeypatch: The test's.
        module: Which one reaches the place.
        place: As of `tideline.failpoints`.
    """

    def reached(there: str) -> None:
        if there == place:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(f"{module}.reach", reached)
        with pytest.raises(Died):
            yield
