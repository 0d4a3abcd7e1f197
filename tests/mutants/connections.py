"""What comes from outside: connections, topic ids, schedules; and lengths of time in messages."""

from tests.mutants.mutant import Mutant

REFUSALS = "tests/unit/test_refusals.py"
TOKENS = "tests/integration/test_kafka_tokens.py"
SETTINGS = "tests/unit/test_kafka_settings.py"
KAFKA_ANSWERS = "tests/unit/test_kafka_answers.py"
IDENTITIES = "tests/unit/test_identities.py"
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
        "the client logs no secret",
        "    clamp_kafka_logs()\n    made",
        "    made",
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
        "tests/unit/test_first_connection.py::test_an_answer_is_read_before_the_end_that_comes_with_it",
    ),
    Mutant(
        "a token endpoint that redirects is refused",
        "        if status != 200:\n            raise self._refused(f",
        "        if status >= 400:\n            raise self._refused(f",
        TOKENS,
    ),
    Mutant(
        "a busy token endpoint may pass",
        "if status in _LATER or status >= 500:",
        "if status >= 500:",
        TOKENS,
    ),
    Mutant(
        "a token is not kept until it has expired",
        "asked + 0.8 * lifetime",
        "asked + 2 * lifetime",
        TOKENS,
    ),
    Mutant(
        "Java's words about a token endpoint are read",
        "endpoint = _JAVA_NO_TOKEN.search(text)",
        "endpoint = None",
        REFUSALS,
    ),
    Mutant(
        "a token endpoint is no file",
        'url.scheme in ("http", "https") and',
        "",
        SETTINGS,
    ),
    Mutant(
        "a login in clear is warned of",
        'if self.protocol == "SASL_PLAINTEXT" and',
        "if False and",
        SETTINGS,
    ),
    Mutant(
        "Java's alert about one connection may pass",
        'if "internal_error" in said:',
        "if False:",
        REFUSALS,
    ),
    Mutant(
        "a topic without an id is refused",
        "if not (_has_id(before) and _has_id(after)):",
        "if False:",
        KAFKA_ANSWERS,
    ),
    Mutant(
        "a topic id of zero is none",
        'and UUID(str(topic["topic_id"])).int != 0',
        "",
        KAFKA_ANSWERS,
    ),
    Mutant("no two topics have one id", "if other != topic.topic:", "if False:", KAFKA_ANSWERS),
    Mutant("no value holds a topic id of zero", "    if number == 0:", "    if False:", IDENTITIES),
    Mutant(
        "coordinates have a topic id",
        "        checked_topic_id(self.topic_id)",
        "        pass",
        IDENTITIES,
        within="CoordinateRange",
    ),
    Mutant(
        "positions have a topic id",
        "        checked_topic_id(self.topic_id)",
        "        pass",
        IDENTITIES,
        within="PartitionPosition",
    ),
    Mutant(
        "observations have a topic id",
        "            checked_topic_id(self.topic_id)",
        "            pass",
        IDENTITIES,
        within="TopicObservation",
    ),
    Mutant(
        "a head has each identity once",
        "if (other := seen.setdefault(key, position)) is not position:",
        "if (other := position) is not position:",
        IDENTITIES,
    ),
    Mutant(
        "a head's coverage has each identity once",
        "if len({c.identity for c in self.coverage}) < len(self.coverage):",
        "if False:",
        IDENTITIES,
    ),
    Mutant(
        "operators are named by the stream",
        "    if operators is not None and user is not None and user not in operators:",
        "    if False:",
        "tests/unit/test_rights.py",
    ),
    Mutant(
        "nobody knows who has cleared an operation",
        'if (getattr(dag_run, "clear_number", None) or 0) > 0:',
        "if False:",
        "tests/unit/test_rights.py",
    ),
    Mutant(
        "only an approver's answer counts",
        "            if not approval.may_decide(self.stream, by):",
        "            if False:",
        "tests/dags/test_rights_of_tasks.py",
    ),
    Mutant(
        "secrets of connections are masked",
        "        mask([found.password, *secrets_in(found.extra)])",
        "        pass",
        "tests/unit/test_secrecy.py",
    ),
    Mutant(
        "a backend in airflow.cfg comes first",
        '        written.get(section, f"{key}{how}", fallback="").strip()',
        '        ""',
        "tests/unit/test_secrecy.py",
    ),
    Mutant(
        "values in the wrong place are not shown",
        "    if problem in _MISPLACED:",
        "    if False:",
        "tests/unit/test_misplaced_secrets.py",
    ),
    Mutant(
        "a stream file has no aliases",
        "if isinstance(event, yaml.NodeEvent) and event.anchor is not None:",
        "if False:",
        "tests/unit/test_stream_files.py",
    ),
    Mutant(
        "notes are no file's name",
        'notes = f"{message}\\n"',
        "notes = message",
        "tests/dags/test_bad_files.py",
    ),
    Mutant(
        "a reason is short",
        '    if problem := reason_problem(given.get("reason", "")):',
        "    if problem := None:",
        "tests/unit/test_bounds.py",
    ),
    Mutant(
        "a schedule has data intervals",
        "    if schedule in _WITHOUT_INTERVALS:",
        "    if False:",
        "tests/unit/test_stream_files.py",
    ),
    Mutant(
        "a reason is text",
        "    if found := _NO_TEXT.search(text):",
        "    if found := None:",
        "tests/unit/test_bounds.py",
    ),
    Mutant(
        "a stream file's values are short and few",
        "if values > MOST_VALUES or len(event.value) > LONGEST:",
        "if False:",
        "tests/unit/test_stream_files.py",
    ),
    Mutant(
        "Dags are found by the module's names alone",
        "doc_md=notes, auto_register=False",
        "doc_md=notes",
        "tests/dags/test_bad_files.py",
    ),
    Mutant(
        "a refused file has an id of its own",
        "while dag_id in taken or dag_id in OPERATION_DAGS:",
        "while dag_id in OPERATION_DAGS:",
        "tests/dags/test_bad_files.py",
    ),
    Mutant(
        "what was observed makes no line of a form",
        'return kept_reason(" ".join(text.split()))',
        "return kept_reason(text)",
        "tests/unit/test_approval.py",
    ),
    Mutant(
        "a table inside another one keeps its files",
        "            self._refuse_tables_inside(sizes)",
        "            pass",
        "tests/integration/test_merged_files.py::test_a_table_inside_of_another_one_keeps_its_files",
    ),
    Mutant(
        "presets are Airflow's",
        "    if schedule in PRESETS:",
        "    if schedule.startswith('@'):",
        "tests/unit/test_stream_files.py",
    ),
    Mutant(
        "what is overdue is said so",
        "    if seconds_left <= 0:",
        "    if False:",
        "tests/unit/test_durations.py",
    ),
    Mutant(
        "what a message does not name is counted",
        'if len(every) > most else ""',
        'if False else ""',
        "tests/unit/test_wording.py",
    ),
)
