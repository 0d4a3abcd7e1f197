"""What a stream's status claims."""

from tests.mutants.mutant import Mutant

LOOKING = "tests/unit/test_looking.py"
LOOKOUT = "tests/unit/test_lookout.py"
ALIKE = "tests/unit/test_alike.py"
EXPLAINING = "tests/steps/test_explaining.py"
MUTANTS = (
    Mutant(
        "of two files of one stream the one that is named like it counts",
        "return contents.fleet is not None, path.stem != stream.stream, path",
        "return contents.fleet is not None, False, path",
        "tests/dags/test_dags.py",
    ),
    Mutant(
        "a stream whose own file is refused is not landed by its fleet",
        "if known is None and not (fleet is not None and name in refused_ones):",
        "if known is None:",
        "tests/unit/test_fleet_files.py",
    ),
    Mutant(
        "of two topics that meet the one that was seen first goes on",
        "return (one,) if mine.first_seen > theirs.first_seen else (other,)",
        "return one, other",
        "tests/unit/test_fleet_files.py",
    ),
    Mutant(
        "a topic that is gone stays in its fleet",
        "    for name in sorted({*before, *found}):",
        "    for name in sorted(found):",
        "tests/unit/test_fleet_files.py",
    ),
    Mutant(
        "a batch that is run again lands only what is left",
        "record = self._closed(run) if self._only_left else None",
        "record = None",
        "tests/unit/test_fleet_batch.py",
    ),
    Mutant(
        "hundreds of streams do not wait for the same broker one by one",
        "if len(known) >= max(self._threads, 2):",
        "if False:",
        "tests/unit/test_fleet_batch.py",
    ),
    Mutant(
        "a window that others hold up has not landed",
        'return "busy" if self._request.lane == "live" else "retry"',
        'return "busy"',
        "tests/simulation/test_fleet.py",
    ),
    Mutant(
        "a batch that is run again lands what a rewind has undone",
        'record.status in ("proposed", "planned") or record.is_to_replan:',
        'record.status in ("proposed", "planned"):',
        "tests/simulation/test_fleet.py",
    ),
    Mutant(
        "a batch that is run again ends a plan that was left open",
        'record.status in ("proposed", "planned") or record.is_to_replan:',
        'record.status == "proposed" or record.is_to_replan:',
        "tests/simulation/test_fleet.py",
    ),
    Mutant(
        "streams of services that answer land beside those of one that is away",
        "return (stream.kafka.connection, str(store), ledger.kind, stream.spark.connection)",
        "return ()",
        "tests/unit/test_fleet_batch.py::test_streams_of_services_that_answer_land_all_the_same",
    ),
    Mutant(
        "all streams land before any decodes",
        'elif found.is_wrong or found.state == "busy" or stream.decode is None:',
        "elif True:",
        "tests/unit/test_fleet_batch.py::test_what_cannot_be_decoded_holds_up_no_landing",
    ),
    Mutant(
        "a run lands by the number of shards that it began with",
        "mine = (s for s in contents.streams if shard_of(s, self.shards) == self.shard)",
        "mine = (s for s in contents.streams if shard_of(s, contents.fleet.shards) == self.shard)",
        "tests/dags/test_fleet_tasks.py",
    ),
    Mutant(
        "a form of a stream is none of a fleet's",
        "request_of(dag_run, [*window_form()])",
        "request_of(dag_run)",
        "tests/dags/test_fleet_tasks.py",
    ),
    Mutant(
        "what a failed shard has landed is told",
        "task.xcom_push(_TOLD, [run.stream for run in told])",
        "task.xcom_push(_TOLD, [])",
        "tests/dags/test_fleet_tasks.py",
    ),
    Mutant(
        "what is landed of a window is left alone when its task comes again",
        "only_left=task.try_number > 1 or task.get_first_reschedule_date(context) is not None,",
        "only_left=task.try_number > 1,",
        "tests/dags/test_fleet_tasks.py",
    ),
    Mutant(
        "what an incident bars is no lag",
        "if (topic, partition) in barred:",
        "if False:",
        "tests/unit/test_lag.py::test_what_an_incident_bars_is_no_lag",
    ),
    Mutant(
        "a record from the future hides no waiting one",
        "elif seconds is not None and self._clock() - since > seconds:",
        "elif False:",
        "tests/unit/test_lag.py::test_a_record_from_the_future_hides_no_waiting_one",
    ),
    Mutant(
        "a list of topics that is lost is told",
        "if known is None and not is_list_new:",
        "if False:",
        "tests/unit/test_fleet_lists.py::test_a_list_that_was_lost_is_not_made_anew_in_silence",
    ),
    Mutant(
        "a stream of two fleets is landed by one",
        "mine = {name for name, file in counts.items() if file.path == path}",
        "mine = {*counts}",
        "tests/unit/test_fleet_lists.py::test_a_stream_of_two_fleets_is_landed_by_one",
    ),
    Mutant(
        "a lag that stays is told again",
        "    return now - before.at >= before.wait",
        "    return False",
        "tests/unit/test_lag.py",
    ),
    Mutant(
        "a lag that stays is told ever more seldom",
        "    return Asked(positions, now, min(2 * before.wait, MOST_WAIT))",
        "    return Asked(positions, now)",
        "tests/unit/test_lag.py",
    ),
    Mutant(
        "no run is started that would halt",
        "if why is None or _halts(stream, state) or not may_ask(before, positions, now):",
        "if why is None or not may_ask(before, positions, now):",
        "tests/unit/test_lag.py",
    ),
    Mutant(
        "a lag is measured against the head as it is now",
        "        state = ledger.read_since(state)\n",
        "",
        "tests/unit/test_lag.py",
    ),
    Mutant(
        "a run that halts keeps how long retention leaves what is unread",
        "    if triage.halting or triage.asking:  # retention",
        "    if False:  # retention",
        "tests/steps/test_halting.py",
    ),
    Mutant(
        "a question that hangs keeps no turn",
        "            done.wait(self._turn)",
        "            done.wait()",
        LOOKOUT,
    ),
    Mutant(
        "only so many questions are under way",
        "            self._room.acquire()\n",
        "",
        LOOKOUT,
    ),
    Mutant(
        "a service that hangs is said to",
        "if begun is None or self._clock() - begun < PATIENCE_SECONDS:",
        "if True:",
        LOOKOUT,
    ),
    Mutant(
        "a topic that refuses is not up to date",
        "if said := seen.refusal or seen.fault:",
        "if said := seen.fault:",
        LOOKING,
    ),
    Mutant(
        "a topic created again is not up to date",
        "if seen is not None and seen.topic_id not in (None, topic_id):",
        "if False:",
        LOOKING,
    ),
    Mutant(
        "a log that ends below the next offset is told",
        "if s.end_offset is not None and s.end_offset < following:",
        "if False:",
        LOOKING,
    ),
    Mutant(
        "a log that starts above the next offset is told",
        "if start is not None and lost_to_retention(s.position, start, landed):",
        "if False:",
        LOOKING,
    ),
    Mutant(
        "an answer from before the last run cuts no log",
        "    if is_newer:\n        found += _others",
        "    if True:\n        found += _others",
        LOOKING,
    ),
    Mutant(
        "lag is measured where all partitions were observed",
        "is_measured=all(s.is_observed for s in followed) if followed else problem is None,",
        "is_measured=True,",
        LOOKING,
    ),
    Mutant(
        "what an open incident is about is not called unread",
        "if (incident := self._about(self._open_incidents)) is not None:",
        "if (incident := self._about(())) is not None:",
        EXPLAINING,
    ),
    Mutant(
        "an offset past the log's end is refused",
        "if found.offset >= end:",
        "if found.offset > end:",
        EXPLAINING,
    ),
    Mutant(
        "what Kafka has deleted is not called unread",
        "if found.offset < start:",
        "if False:",
        EXPLAINING,
    ),
    Mutant(
        "a group's answer decides nothing that nobody has seen",
        "if len(found) != alike:",
        "if False:",
        ALIKE,
    ),
    Mutant(
        "a group is of one class (R8)",
        "key = (found.kind, found.topic,",
        "key = (found.topic,",
        ALIKE,
    ),
)
