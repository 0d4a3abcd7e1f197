"""Keep secrets out of messages and of logs: Airflow's, where its masker is loaded, kafka-python's.

What is secret by its key is left out with it. A secret that is only known as a text is replaced
where it is long enough: a short one stands in many words by chance.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from tideline.texts import bare, cleaned_beginning, one_line

_SECRET_KEY = re.compile(
    r"pass|secret|token|keytab|jaas|credential|private|(?:account|access|api)[_-]?key|keyfile"
    r"|(?<![a-z])sig(?:nature)?(?![a-z])",
    re.IGNORECASE,
)
_LOOKED_AT = 200
"""Characters of a text of others for each that is shown: what is taken out may be most of it."""
_SHORTEST_LINE = 16
"""Characters; a shorter line of a key says nothing, and may stand anywhere."""
_SHORTEST = 5
"""Characters of a secret that is replaced in texts; the same as Airflow's masker has."""
_NAMED = re.compile(
    rf"""((?:{_SECRET_KEY.pattern})[\w.\-]{{0,50}}(?:\s{{0,5}}=\s{{0,5}}|["']\s{{0,5}}:\s{{0,5}}))"""
    r"""("[^"]*"|'[^']*'|[^\s,;&)}\]]+)""",
    re.IGNORECASE,
)
"""A key and its value, as properties, addresses and JSON have them."""
_HEADER = re.compile(
    r"(?<![\w/-])((?:set-)?cookie|x-[\w-]*(?:key|secret|signature|token)[\w-]*|api-key"
    r"|(?:[\w-]{1,50}-)(?:secret|token|password))(\s{0,5}:\s{0,5})\S+"
    r"|\b(authorization:\s{0,5}\w+|basic|bearer)(\s{1,5})[\w.~+/=-]{8,}",
    re.IGNORECASE,
)
"""A header of a request as somebody repeats it, whose value may be a login."""
_LOGIN = re.compile(
    r"(?<!abfs)(?<!abfss)://[^/\s'\"]*@|abfss?://[^/\s'\"@]*:|://[^/\s'\"]*@[^/\s'\"]*@"
    r"|-----BEGIN "
)
"""What may be a login. A container stands before the account in an address of Azure's."""


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


def without(text: str, secrets: Iterable[str | None]) -> str:
    """A text of somebody else's, for messages, with secrets taken out.

    Args:
        text: May be of any length.
        secrets: As they may stand in it; one that is part of another does not spoil that.
    """
    text = _HEADER.sub(r"\1\2\3\4***", _NAMED.sub(r"\1***", text))
    long = sorted({s for s in secrets if s and len(s) >= _SHORTEST}, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, long)), "***", text) if long else text


def redacted_line(text: str, secrets: Iterable[str | None] = (), most: int = 500) -> str:
    """A text of somebody else's as `one_line` shows it, with secrets taken out."""
    known = [secret for secret in secrets if secret]
    longest = max(map(len, known), default=0)
    beginning = cleaned_beginning(text, _LOOKED_AT * most, partial(without, secrets=known), longest)
    return one_line(beginning, most)


def may_hold_secret(text: str) -> bool:
    """Whether a text has a login in an address, a key's beginning, or a secret by its name."""
    return _LOGIN.search(text) is not None or _NAMED.search(text) is not None


def without_login(text: str) -> str:
    """A text with everything taken out that may be a login in an address, for messages."""
    text = re.sub(r"://[^/\s'\"]*[@:][^/\s'\"]*", "://***", bare(text))
    return re.sub(r"[^\s'\",]*@[^\s'\",]*", "***", text)
