"""The schema registry: what its answers mean, how long they may be, and what an id stands for."""

from tests.mutants.mutant import Mutant

CONNECTIONS = "tests/integration/test_registry_connections.py"
CONTRACT = "tests/integration/test_registry_contract.py"
LEDGER = (
    "tests/integration/test_ledger_contract.py"
    "::test_an_id_with_another_schema_than_before_is_refused"
)
REFERENCES = "tests/unit/test_registry_references.py"
SETTINGS = "tests/unit/test_registry_settings.py"
MUTANTS = (
    Mutant(
        "a wrong path is not an unknown id",
        "if status == 404 and code in unknown:",
        "if status == 404:",
        CONNECTIONS,
    ),
    Mutant(
        "a redirect is not followed",
        "follow_redirects=False",
        "follow_redirects=True",
        CONNECTIONS,
    ),
    Mutant(
        "no proxy reads a login",
        "by_proxy = not settings.tells_in_clear",
        "by_proxy = True",
        f"{CONNECTIONS}::test_no_proxy_reads_a_login",
    ),
    Mutant(
        "a subject stands for no other place of a path",
        "if subject in _NO_SEGMENTS:",
        "if False:",
        f"{CONNECTIONS}::test_a_subject_that_no_address_can_name_is_refused",
    ),
    Mutant(
        "a message is short whatever it is about",
        "return one_line(what, _LONGEST_MESSAGE) + end",
        "return what",
        f"{CONNECTIONS}::test_a_message_is_short_whatever_it_is_about",
    ),
    Mutant(
        "an answer is bounded in size",
        "if len(found) > most_bytes:",
        "if False:",
        CONNECTIONS,
    ),
    Mutant(
        "an answer is bounded in time",
        'self._stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)',
        "pass",
        "tests/unit/test_words_of_others.py",
    ),
    Mutant(
        "references in a circle end",
        "            if document is None:\n                raise _unreadable",
        "            if False:\n                raise _unreadable",
        CONNECTIONS,
    ),
    Mutant(
        "a busy registry may pass",
        "if status in _PASSING or status >= 500:",
        "if status >= 500:",
        CONNECTIONS,
    ),
    Mutant(
        "secrets are taken out of a registry's texts",
        "redacted_line(text, (b64encode(login).decode(), self.password, self.token))",
        "text",
        SETTINGS,
    ),
    Mutant(
        "a password in the host is not shown",
        ' or "@" in parts.netloc',
        "",
        SETTINGS,
    ),
    Mutant(
        "deleted subjects count",
        'asked = "&".join(("deleted=true", *_context(subject)))',
        'asked = "&".join(_context(subject))',
        CONTRACT,
    ),
    Mutant(
        "an id keeps its schema",
        "        if known.says_the_same(answered):\n            return",
        "        if known:\n            return",
        LEDGER,
    ),
    Mutant(
        "a foreign type is defined once",
        "        self._done.add(full)\n",
        "",
        REFERENCES,
    ),
    Mutant(
        "two files of one name are refused",
        "if found.setdefault(name, other.text) != other.text:",
        "if False:",
        REFERENCES,
    ),
)
