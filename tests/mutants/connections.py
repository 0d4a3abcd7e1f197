"""Who may connect: what is final, what may pass, and where topic ids are missing."""

from tests.mutants.mutant import Mutant

REFUSALS = "tests/unit/test_refusals.py"
MUTANTS = (
    Mutant(
        "errors that TLS has wrapped are looked at",
        "        waiting += [a for a in found.args if isinstance(a, BaseException)]\n",
        "",
        REFUSALS,
    ),
    Mutant(
        "errors beneath a failed handshake are looked at",
        "        waiting += [found.__cause__, found.__context__]\n",
        "",
        REFUSALS,
    ),
    Mutant(
        "a connection that is cut may pass", "if isinstance(error, _CUT):", "if False:", REFUSALS
    ),
    Mutant(
        "an alert about one connection may pass",
        "if any(word in reason for word in _PASSING_ALERTS):",
        "if False:",
        REFUSALS,
    ),
    Mutant(
        "a cut is a refusal only if the port speaks otherwise",
        "if spoken is None or not spoken.contradicts(settings.protocol):",
        "if spoken is None:",
        REFUSALS,
    ),
    Mutant(
        "a port that is spoken to in the wrong way is asked",
        "if refusal is None and isinstance(error, CutAtConnect):",
        "if False:",
        REFUSALS,
    ),
    Mutant(
        "secrets are taken out of others' texts",
        'text = text.replace(secret, "***")',
        "pass",
        REFUSALS,
    ),
    Mutant(
        "a refusal ends the first connect at once",
        "        if refusal_of(error) is not None:\n            self._refused",
        "        if False:\n            self._refused",
        "tests/integration/test_refused_connections.py::test_certificates_are_named",
    ),
    Mutant(
        "an answer before the end of a connection is read",
        "return data, None if data else error",
        "return data, error",
        "tests/integration/test_refused_connections.py::test_a_wrong_login_is_named",
    ),
    Mutant(
        "Java's alert about one connection may pass",
        'if "internal_error" in said:',
        "if False:",
        REFUSALS,
    ),
)
