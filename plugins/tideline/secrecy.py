"""Keep secrets out of logs: of Airflow's, where its masker is loaded, and of kafka-python's."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

_SECRET_KEY = re.compile(r"pass|secret|token|keytab|jaas|credential|private", re.IGNORECASE)
_SHORTEST_LINE = 16
"""Characters; a shorter line of a key says nothing, and may stand anywhere."""


def mask(secrets: Iterable[str | None]) -> None:
    """Have Airflow take secrets out of a task's log, in the task and in what watches over it.

    Nothing happens where Airflow is not loaded: there, nothing of it logs. Of a text of several
    lines, a key for example, each line is masked as well.
    """
    masker = sys.modules.get("airflow.sdk.log")
    if masker is None:
        return
    found = [secret for secret in secrets if secret]
    lines = [line for secret in found if "\n" in secret for line in secret.splitlines()]
    longer = [line for line in lines if len(line) >= _SHORTEST_LINE and "-----" not in line]
    masker.mask_secret([*found, *longer])


def secrets_in(extra: Mapping[str, Any]) -> list[str]:
    """The values of a connection's extra that are secret by their keys, at any depth."""
    found: list[str] = []
    for key, value in extra.items():
        if isinstance(value, Mapping):
            found += secrets_in(value)
        elif isinstance(value, str) and _SECRET_KEY.search(key):
            found.append(value)
    return found


def clamp_kafka_logs() -> None:
    """kafka-python logs passwords at DEBUG: the whole configuration, and each request.

    A level may be set for all, for `kafka`, or for one of its modules; whichever it is, INFO is the
    most that is logged.
    """
    names = [n for n in logging.root.manager.loggerDict if n.startswith("kafka.")]
    for logger in map(logging.getLogger, ["kafka", *names]):
        if logger.getEffectiveLevel() < logging.INFO:
            logger.setLevel(logging.INFO)


def without_login(text: str) -> str:
    """A text with everything taken out that may be a login in an address, for messages."""
    text = re.sub(r"://[^/\s'\"]*[@:][^/\s'\"]*", "://***", text)
    return re.sub(r"[^/\s'\",]+@", "***@", text)
