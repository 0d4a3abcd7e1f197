"""What may be decided: incidents, approvals, new generations, rewinds."""

from tests.mutants.mutant import Mutant

INCIDENTS = "tests/unit/test_incidents.py"
DECISIONS = "tests/unit/test_decisions.py"
REWINDING = "tests/unit/test_rewinding.py"
GENERATIONS = "tests/unit/test_generations.py"
ROWS = "tests/unit/test_rows_of_a_gap.py"
FOUND = "tests/simulation/test_found.py"
COUNTED = "tests/unit/test_counted_again.py"
OPEN = "tests/integration/test_decoding.py"
LOGS = "tests/steps/test_identities_of_logs.py"
DETECTION = "tests/unit/test_detection.py"
GIVEN_UP = "tests/unit/test_given_up_tables.py"
TAKEN_OUT = "tests/steps/test_topics_taken_out.py"
DECIDING = "tests/dags/test_deciding.py"
RIGHTS = "tests/dags/test_who_asks.py"
LEFT = "tests/steps/test_left_logs.py"
MUTANTS = (
    Mutant(
        "a decision by which a log is left is a loss of what came there",
        "    return replace(effect, head=effect.head.having_left(head))",
        "    return effect",
        LEFT,
    ),
    Mutant(
        "so is one that the ledger has forgotten, and the table tells",
        "    head = head.having_left(before)\n",
        "",
        LEFT,
    ),
    Mutant(
        "a log that is read on is not left",
        "            if now != p.identity:",
        "            if True:",
        LEFT,
    ),
    Mutant(
        "a form's choice is one that the class allows",
        "if decision.choice not in known.finding.choices:",
        "if False:",
        DECIDING,
    ),
    Mutant(
        "a form decides about open incidents only",
        "            if known is None:\n                raise not_open",
        "            if known is None:\n                continue\n                raise not_open",
        DECIDING,
    ),
    Mutant(
        "a decision by tideline_resolve is an approver's",
        "    user = _sender(stream, dag_run, task)\n    require_approver(stream, user)",
        "    user = _sender(stream, dag_run, task)",
        "tests/dags/test_rights_of_tasks.py",
    ),
    Mutant(
        "what a form asks for needs a person",
        "operators is not None and (user is not None or given_in(dag_run))",
        "operators is not None and user is not None",
        RIGHTS,
    ),
    Mutant(
        "a run that a backfill runs again names nobody",
        "    if is_reprocessed(dag_run):\n        return None\n",
        "",
        RIGHTS,
    ),
    Mutant(
        "a run that a backfill runs again takes no conf",
        "if is_reprocessed(dag_run) and (given := given_in(dag_run)):",
        "if False and (given := given_in(dag_run)):",
        RIGHTS,
    ),
    Mutant(
        "an accepted loss is decided by who sends the form",
        'stream, dag_run, context.get("ti"), from_form=True, decides=form["accept_loss"]',
        'stream, dag_run, context.get("ti"), from_form=True',
        RIGHTS,
    ),
    Mutant(
        "an erasure is decided by who sends the form",
        "require_operator(stream, dag_run, task, from_form=True, decides=True)",
        "require_operator(stream, dag_run, task, from_form=True)",
        RIGHTS,
    ),
    Mutant(
        "rows that a refusal left in doubt are verified where the cluster answers (R6)",
        "if incident.finding.kind not in VERIFIED_FIRST:",
        "if incident.finding.kind not in GAP_CLASSES:",
        TAKEN_OUT,
    ),
    Mutant(
        "rows that verify in part only go with the others (R6)",
        'if incident.finding.kind == "unknown" and counted.mismatches:',
        "if False:",
        TAKEN_OUT,
    ),
    Mutant(
        "rows that verify are known before a loss is accepted (R9)",
        "sorted(decided, key=lambda i: i.finding.kind not in VERIFIED_FIRST)",
        "sorted(decided, key=lambda i: i.finding.kind not in GAP_CLASSES)",
        TAKEN_OUT,
    ),
    Mutant(
        "only narrow incidents may be left open (R8)",
        "elif proceed and incident.finding.is_of_one_topic and",
        "elif proceed and",
        INCIDENTS,
    ),
    Mutant(
        "the finder halts, whoever may proceed (R8)",
        "and incident.run_id != run_id:",
        "and True:",
        INCIDENTS,
    ),
    Mutant(
        "fail is no way on (R9)",
        'return tuple(choice for choice in self.choices if choice != "fail")',
        "return self.choices",
        INCIDENTS,
    ),
    Mutant(
        "a cut log goes on in a new generation (R9)",
        "return max((i.generation for i in given), default=-1) + 1",
        "return max((i.generation for i in given), default=0)",
        DECISIONS,
    ),
    Mutant(
        "an accepted loss is on record (R9)",
        "added = self.generations.split(newest, lost)",
        "added = ()",
        DECISIONS,
    ),
    Mutant(
        "a new generation begins at the cut (R9)",
        "first_offset, next_offset = max(cut, 0), max(start, unread)  # below",
        "first_offset, next_offset = start, max(start, unread)  # below",
        GENERATIONS,
    ),
    Mutant(
        "a decision about a cut begins a generation (R9)",
        "_with(head.begun([Beginning(reached.identity, first_offset)]), position, reached)",
        "_with(head, position, reached)",
        GENERATIONS,
    ),
    Mutant(
        "no number is given twice, whatever a rewind takes back (R9)",
        "for i in (*self.identities, *self.given) if",
        "for i in self.identities if",
        LOGS,
    ),
    Mutant(
        "a number that was undone holds no offset (R9)",
        "undone = {i for i in lower if i not in known and i not in self.identities}",
        "undone = set()",
        GENERATIONS,
    ),
    Mutant(
        "two heads that give up on different offsets are merged (R9)",
        "                h.accepted_loss,\n                h.unreadable,\n",
        "                h.accepted_loss,\n",
        "tests/unit/test_unreadable.py",
    ),
    Mutant(
        "no number is given of which the table has rows (R9)",
        "head = skip_landed_generations(run, head, observation, incident.finding)",
        "pass",
        LOGS,
    ),
    Mutant(
        "what a rewind undoes in typed tables is on record (R12)",
        ".with_undecoded(rewind.removes)",
        "",
        LOGS,
    ),
    Mutant(
        "a rewind takes its records out of an open decoding (R12)",
        "open=None if self.open is None else self.open.without(gone),",
        "open=self.open,",
        OPEN,
    ),
    Mutant(
        "new typed tables owe no removal",
        "table_ids=(), parts=parts, undone=NOWHERE",
        "table_ids=(), parts=parts",
        OPEN,
    ),
    Mutant(
        "what a proposal has seen is known (R7)",
        "adopted, observation = with_observed_ends(adopted, observed)",
        "observation = observed",
        LOGS,
    ),
    Mutant(
        "what a superseded plan has seen is known (R3)",
        "latest.with_head(\n                with_planned_ends(latest.head, plan.ranges)\n"
        "            ).with_plan_closed(",
        "latest.with_plan_closed(",
        LOGS,
    ),
    Mutant(
        "a window's end that was cut is a finding, and no wait (R11)",
        "topics[position.topic].topic_id != position.topic_id or is_cut(position, seen)",
        "topics[position.topic].topic_id != position.topic_id",
        LOGS,
    ),
    Mutant(
        "an end is taken for known only of a log that shows no cut (R7)",
        'if any(f.kind != "retention_loss" for f in _partition_findings(position, seen, {})):',
        "if False:",
        DETECTION,
    ),
    Mutant(
        "what expired behind a cut is on record (R9)",
        "lost = lost_to_retention(reached, start, after.landed)",
        "lost = ()",
        GENERATIONS,
    ),
    Mutant(
        "a restart past the cut begins at the cut (R9)",
        "first_offset, next_offset = min(start, first_offset), start",
        "first_offset, next_offset = start, start",
        GENERATIONS,
    ),
    Mutant(
        "a table that is gone is given up with its approval (R13)",
        "given_up = {*head.given_up, head.table_id, planned_id} - {None, table.table_id}",
        "given_up = {*head.given_up}",
        GIVEN_UP,
    ),
    Mutant(
        "what a plan knows of a table that was given up counts no more (R13)",
        "if plan is not None and plan.table_id not in state.head.given_up:",
        "if plan is not None:",
        GIVEN_UP,
    ),
    Mutant(
        "the head knows the table from the first plan on (R13)",
        "moved.that_knows(plan.table_id, plan.table_version)",
        "moved",
        "tests/steps/test_recovery.py",
    ),
    Mutant(
        "a plan does not bring back a table that was given up (R13)",
        "if self.table_id is not None or table_id is None or table_id in self.given_up:",
        "if self.table_id is not None or table_id is None:",
        GIVEN_UP,
    ),
    Mutant(
        "a table given up beside another approval stays given up (R13)",
        "given_up = tuple(sorted({*head.given_up, *self.head.given_up}))",
        "given_up = head.given_up",
        GIVEN_UP,
    ),
    Mutant(
        "versions of another table tell nothing about a commit (R13)",
        "if found is None and after is not None and table.table_id != table_id:",
        "if False:",
        GIVEN_UP,
    ),
    Mutant(
        "a rewind keeps which tables were given up (R13)",
        "given_up=head.given_up,",
        "given_up=(),",
        REWINDING,
    ),
    Mutant(
        "a rewind asks about a table that is gone (R13)",
        "    if foreign and table.table_id != state.head.table_id:",
        "    if False:",
        "tests/steps/test_rewind.py",
    ),
    Mutant(
        "a ledger that is put back before a rewind removes is told",
        "    if attempt.state.control.rewind != rewind:",
        "    if False:",
        FOUND,
    ),
    Mutant(
        "a table is known before anybody lands there (R13)",
        "if attempt.state.head.table_id is None:",
        "if False:",
        "tests/steps/test_recovery.py::"
        "test_a_delete_under_the_first_plan_is_told_whoever_lands_first",
    ),
    Mutant(
        "a rewind finds its commit in an older copy of the table",
        "return remove(run, change, after_version=table.version)",
        "return remove(run, change, after_version=rewind.known_version or -1)",
        "tests/steps/test_rewind.py",
    ),
    Mutant(
        "a gap is counted again when its decision is carried out (R9)",
        "counted = recount_gap(run, incident) if is_gap else incident",
        "counted = incident",
        FOUND,
    ),
    Mutant(
        "a gap that its own run accepts is counted again (R9)",
        "effect = accept_gap(head, recount_gap(run, incident))",
        "effect = accept_gap(head, incident)",
        COUNTED,
    ),
    Mutant(
        "a gap that was filled while it was counted is not lost (R9)",
        "if counted.head.coverage != latest.head.coverage:",
        "if False:",
        COUNTED,
    ),
    Mutant(
        "a rewind forgets nothing that was seen of a log",
        "_as_seen(p, newest.get((p.topic_id, p.partition))),",
        "p,",
        f"{FOUND} {REWINDING}",
    ),
    Mutant(
        "nor of the log behind a cut that it goes back before",
        "seen_end=max(position.proven_end, newest.proven_end)",
        "seen_end=position.seen_end",
        "tests/steps/test_identities_of_logs.py",
    ),
    Mutant(
        "a row where Spark can read nothing is counted again, too (R9)",
        "if version is None or not incident.unverified:",
        'if version is None or incident.finding.kind == "unreadable_record":',
        COUNTED,
    ),
    Mutant(
        "rows of doubt go before a partition is left out of a run (R6)",
        'if i.finding.kind == "unknown" and not i.unverified)',
        'if i.finding.kind == "unknown")',
        FOUND,
    ),
    Mutant(
        "a superseded plan does not claim what no head moved over (R6)",
        "                verified=(),  # nothing of it is there any more\n",
        "",
        "tests/steps/test_recovery.py",
    ),
    Mutant(
        "an accepted gap counts in its own generation (R9)",
        "if incident.unverified:  # a range per generation",
        "if False:",
        GENERATIONS,
    ),
    Mutant(
        "a rewind asks nobody twice about a loss",
        "reached = covered_until(union(covered, never_read), first)",
        "reached = first",
        GENERATIONS,
    ),
    Mutant(
        "a choice has to be valid for its class (R9)",
        "if choice not in by_kind.get(kind, ()) or kind in chosen:",
        "if False:",
        "tests/unit/test_approval.py",
    ),
    Mutant(
        "removal of what was landed before, by a rewind",
        "claimed = dict(then.coverage)",
        "claimed: dict[PartitionIdentity, Intervals] = {}",
        REWINDING,
    ),
    Mutant("coverage by an undone run", "        verified=(),\n", "", REWINDING, "undone_record"),
    Mutant(
        "rows of a gap that nothing will verify do not stay (R6)",
        "if good and changes_after_read(run, asked):  # nothing",
        "if False:  # nothing",
        ROWS,
    ),
    Mutant(
        "an incident remembers the rows of every plan that met its finding (R6)",
        "known = known.of(*known.plans_but(plan.plan_id), newest)",
        "known = known.of(newest)",
        INCIDENTS,
    ),
    Mutant(
        "rows that are verified after all leave those of other plans in doubt (R6)",
        "i.of(*i.plans_but(plan_id)) for i in held if i.plans_but(plan_id)}",
        "i for i in held if False}",
        INCIDENTS,
    ),
    Mutant(
        "a rewind leaves a doubt about rows that it does not remove",
        "all(p.plan_run_id in rewind.undone_runs for p in plans)",
        "any(p.plan_run_id in rewind.undone_runs for p in plans)",
        REWINDING,
    ),
    Mutant(
        "a change of the table is decided before a halted plan is closed in part (R8)",
        "open_and_halt(run, state, foreign)",
        "commit = None",
        FOUND,
        "close_partially",
    ),
    Mutant(
        "an approved change of the table is carried out beside an open gap (R8)",
        "state = take_decided_table(run, state, plan)  # whoever closes",
        "# whoever closes",
        "tests/simulation/test_table_first.py",
    ),
    Mutant(
        "what verifies of a range that does not is kept (R6)",
        "good = (*counted.verified, *parts)",
        "good, parts = counted.verified, ()",
        f"{ROWS} {FOUND}",
    ),
    Mutant(
        "nothing of a range with a second copy is sound",
        "        if not item.duplicates\n",
        "",
        "tests/property/test_verification.py",
    ),
    Mutant(
        "what others have verified is no part of a range that does not verify",
        "            covered[item.planned.identity],\n        )\n    )",
        "            (),\n        )\n    )",
        "tests/property/test_verification.py",
        "sound_parts",
    ),
    Mutant(
        "a doubt about one plan's rows leaves a gap of another to itself (R6)",
        "if (gap.plan_id, r.identity) not in doubted)",
        "if r.identity not in {identity for _, identity in doubted})",
        INCIDENTS,
    ),
    Mutant(
        "gaps are decided before losses (R9)",
        "sorted(decided, key=lambda i: i.finding.kind not in VERIFIED_FIRST)",
        "decided",
        FOUND,
    ),
    Mutant(
        "a range is verified once in a record",
        "return (*kept, *good)",
        "return (*known, *good)",
        FOUND,
    ),
    Mutant(
        "every closed record of a plan counts in an audit",
        "or (record.plan.plan_id, verified.planned) in seen:",
        "or record.plan.plan_id in {plan for plan, _ in seen}:",
        "tests/simulation/test_found.py",
    ),
    Mutant(
        "no epoch takes the place of a known one",
        "epoch is not None and (known is None or epoch > known)",
        "(epoch or 0) > (known or 0)",
        f"{REWINDING}::test_no_epoch_takes_the_place_of_a_known_one",
    ),
    Mutant(
        "what was decided about a window whose plan was closed is the live lane's",
        "if i.finding.backfill not in owned)",
        "if i.finding.backfill is None)",
        "tests/steps/test_windows_undone.py",
    ),
)
