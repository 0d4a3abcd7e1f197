"""Who may write to the ledger, and where it is."""

from tests.mutants.mutant import Mutant

LEDGER_CONTRACT = "tests/integration/test_ledger_contract.py"
OWN_LOG = "tests/property/test_delta_log.py"
PUT_BACK = "tests/integration/test_ledger_put_back.py"
TIDYING = "tests/integration/test_ledger_tidying.py"
MUTANTS = (
    Mutant(
        "a commit that is being made is waited for",
        "found = self._seen(path, _SEEN_SECONDS if is_refused else 0.0)",
        "found = self._read(path)",
        f"{OWN_LOG}::test_who_is_refused_waits_until_the_other_commit_is_to_be_seen",
    ),
    Mutant(
        "that a change is not needed counts only of what was just read",
        "            if after is not before:\n                with",
        "            if after is before:\n                return before\n"
        "            else:\n                with",
        f"{LEDGER_CONTRACT}::test_what_is_known_may_be_old",
    ),
    Mutant(
        "that a change is refused counts only of what was just read",
        "with suppress(TidelineError):\n                after = change(before)",
        "if True:\n                after = change(before)",
        f"{LEDGER_CONTRACT}::test_what_is_known_may_be_old",
    ),
    Mutant(
        "a lease that others had is lost for good (R5)",
        "            leases.refuse_lost(state, name, self.holder)\n",
        "            pass\n",
        LEDGER_CONTRACT,
    ),
    Mutant(
        "a run writes under its leases (R5)",
        "change(self._refuse_lost(state))",
        "change(state)",
        LEDGER_CONTRACT,
    ),
    Mutant(
        "a run that has lost its lease knows nothing (R5)",
        "return self._refuse_lost(self._decode(self._read()))",
        "return self._decode(self._read())",
        LEDGER_CONTRACT,
    ),
    Mutant(
        "a lease is given back though another one was lost",
        "self._swap(lambda state: state.without_lease(name, self.holder))",
        "self.update(lambda state: state.without_lease(name, self.holder))",
        LEDGER_CONTRACT,
    ),
    Mutant(
        "a holder in another namespace is waited for",
        'lease.host != socket.gethostname() or not here or known.rpartition(":")[0] != here',
        "lease.host != socket.gethostname() or not known",
        "tests/unit/test_leases.py",
    ),
    Mutant(
        "a /proc of another namespace tells nothing",
        'if str(Path("/proc/self").readlink()) != str(os.getpid()):',
        "if False:",
        "tests/unit/test_leases.py",
    ),
    Mutant(
        "a ledger that was there is not begun anew (R13)",
        "if snapshot.version < self._newest:",
        "if False:",
        "tests/integration/test_ledger_delta.py",
    ),
    Mutant(
        "a ledger is created once",
        "CREATED_ONCE = CommitProperties(max_commit_retries=0)",
        "CREATED_ONCE = CommitProperties()",
        "tests/integration/test_ledger_delta.py",
    ),
    Mutant(
        "a first commit counts only in an empty ledger",
        "if view is None or view.version != 0:",
        "if view is None:",
        "tests/integration/test_ledger_delta.py",
    ),
    Mutant(
        "the swap is of the version that was read (ledger in a database)",
        ".where(LEDGERS.c.name == self._name, LEDGERS.c.version == base)",
        ".where(LEDGERS.c.name == self._name)",
        LEDGER_CONTRACT,
    ),
    Mutant(
        "a swap that met another version writes nothing",
        "if connection.execute(swap).rowcount != 1:",
        "if connection.execute(swap).rowcount > 1:",
        LEDGER_CONTRACT,
    ),
    Mutant(
        "a read by another thread does not move what a commit has checked",
        "is_there = table is not None and table.version() == view.version",
        "is_there = table is not None",
        LEDGER_CONTRACT,
    ),
    Mutant(
        "a commit counts only on the version that was read (ledger in Delta)",
        'obstore.put(self._objects(), path, body, mode="create")["e_tag"]',
        'obstore.put(self._objects(), path, body)["e_tag"]',
        LEDGER_CONTRACT,
    ),
    Mutant(
        "a closed record that stands twice counts once",
        "yield from sorted(dict.fromkeys(found), key=lambda e: e.version)",
        "yield from sorted(found, key=lambda e: e.version)",
        TIDYING,
    ),
    Mutant(
        "a merge keeps each record once",
        "entries = sorted(dict.fromkeys(found), key=lambda e: (e.key, e.version))",
        "entries = sorted(found, key=lambda e: (e.key, e.version))",
        TIDYING,
    ),
    Mutant(
        "a file in which older versions left records twice is mended",
        " or _is_foreign(segments[k][0])",
        "",
        TIDYING,
    ),
    Mutant(
        "a merge that somebody else has done is not done again",
        "if view is None or not {f.path for f in old} <= {f.path for f in view.files}:",
        "if False:",
        TIDYING,
    ),
    Mutant(
        "a stopped writer holds nobody up for ever",
        "            _limit_waiting(connection)\n",
        "",
        "tests/integration/test_ledger_sql.py::test_the_server_ends_a_stopped_writer_s_transaction",
    ),
    Mutant(
        "a moved ledger is left at the version that was copied",
        "self.leaving.commit(base, put={MARKER: dump(marker)})",
        "self.leaving.commit(self.leaving.read(), put={MARKER: dump(marker)})",
        "tests/integration/test_ledger_move.py::test_what_is_written_while_it_copies_arrives_too",
    ),
    Mutant(
        "a copy of a third home is finished from there only",
        'if marker.state != "unfinished" or marker.other != self.source:',
        'if marker.state != "unfinished":',
        "tests/integration/test_ledger_move.py::"
        "test_a_copy_of_a_third_location_is_not_finished_from_the_first",
    ),
    Mutant(
        "a location without its ledger is not opened",
        "if marker is not None:",
        "if False:",
        "tests/integration/test_ledger_move.py::test_the_old_location_refuses_and_names_the_new_one",
    ),
    Mutant(
        "a write by somebody whom a rewind has overtaken",
        "tuple(held for held in self.control.leases if held.holder == holder)",
        "self.control.leases",
        LEDGER_CONTRACT,
    ),
    Mutant(
        "a run during an unfinished rewind",
        "    if rewind is None:",
        "    if True:",
        LEDGER_CONTRACT,
        within="refuse_during_rewind",
    ),
    Mutant(
        "a document of a newer format is not guessed at",
        "if number > FORMAT:",
        "if False:",
        "tests/unit/test_documents.py",
    ),
    Mutant(
        "an unknown field is not dropped in silence",
        'ConfigDict(extra="forbid")',
        "ConfigDict()",
        "tests/unit/test_documents.py",
    ),
    Mutant(
        "a move copies no history of a newer format",
        "refuse_newer_formats(store, store.read(), history=True)",
        "refuse_newer_formats(store, store.read())",
        "tests/integration/test_old_ledgers.py::"
        "test_an_entry_of_the_future_stops_who_reads_it_and_a_move",
    ),
    Mutant(
        "a commit of a newer version is not taken for somebody else's",
        "if number > COMMIT_FORMAT:",
        "if False:",
        "tests/unit/test_table.py",
    ),
    Mutant(
        "a database never comes to a version again",
        "+ secrets.randbelow(_LARGEST_STEP)",
        "",
        PUT_BACK,
    ),
    Mutant(
        "a commit on what a backup took back is refused",
        "if found is None or found.state is None or found.state.place != view.state.place:",
        "if found is None:",
        PUT_BACK,
    ),
    Mutant(
        "a commit on what a backup took back is refused (by delta-rs)",
        "is_there and self._stands(view)",
        "is_there",
        PUT_BACK,
    ),
    Mutant(
        "another log at the address is opened anew",
        "if commits.get(known.version) == known.tag:",
        "if known.version in commits:",
        f"{OWN_LOG}::test_another_log_at_the_address_is_opened_anew",
    ),
    Mutant(
        "a log with a hole is not understood",
        "if newer and newer[-1] - state.version != len(newer):",
        "if False:",
        f"{OWN_LOG}::test_a_log_with_a_hole_or_without_a_beginning_is_refused",
    ),
    Mutant(
        "a checkpoint that is newer than each commit counts",
        "if max(checkpoints, default=-1) > newest:  # to whom",
        "if False:  # to whom",
        f"{OWN_LOG}::test_a_checkpoint_that_is_newer_than_each_commit_is_not_passed_over",
    ),
    Mutant(
        "a file that one commit adds and removes is disputed",
        "if both := sorted(added & gone):",
        "if both := []:",
        f"{OWN_LOG}::test_a_commit_that_adds_and_removes_a_file_is_damaged",
    ),
    Mutant(
        "paths are written as delta-rs writes them",
        "quote(action.path, safe=_AS_DELTA_RS)",
        'quote(action.path, safe="/=-_.~")',
        f"{OWN_LOG}::test_delta_rs_takes_out_every_file_that_we_have_added",
    ),
    Mutant(
        "a checkpoint keeps what was taken out",
        "for r in (*_expiring(state.expiring), *state.removes)}",
        "for r in state.removes}",
        f"{OWN_LOG}::test_files_that_were_taken_out_are_deleted_after_our_checkpoint",
    ),
    Mutant(
        "what came back is not named as removed",
        "if path not in state.adds and (action",
        "if (action",
        f"{OWN_LOG}::test_a_file_that_has_come_back_is_no_removed_file",
    ),
    Mutant(
        "a checkpoint keeps removed files as long as the table says",
        "kept = kept_ms(state.properties, DELETED, DELETED_HOURS)",
        "kept = DELETED_HOURS * 3_600_000",
        f"{OWN_LOG}::test_a_checkpoint_keeps_removed_files_as_long_as_the_table_says",
    ),
    Mutant(
        "a file goes by the path of the log",
        "for path in known.get(action.path, [encoded]):",
        "for path in [encoded]:",
        f"{OWN_LOG}::test_a_file_goes_by_the_path_by_which_the_log_knows_it",
    ),
    Mutant(
        "a checkpoint that cannot be written fails no commit",
        """        except Exception as error:
            about""",
        """        except OSError as error:
            about""",
        f"{OWN_LOG}::test_a_checkpoint_that_cannot_be_written_fails_no_commit",
    ),
    Mutant(
        "sums of Hadoop's client go first",
        "        self.forget_sums(state.version)\n",
        "",
        f"{OWN_LOG}::test_sums_of_hadoops_client_go_with_what_they_are_about",
    ),
    Mutant(
        "files of another table are refused",
        "if _ABSOLUTE.match(path):",
        "if False:",
        f"{OWN_LOG}::test_a_file_of_another_table_is_refused",
    ),
    Mutant(
        "a damaged log of a ledger is told by name",
        "except DamagedLog as why:\n                raise self._damaged(why) from why",
        "except DamagedLog:\n                self._own = None",
        "tests/integration/test_ledger_delta.py::test_a_damaged_log_is_told_by_name",
    ),
    Mutant(
        "only the answer was lost",
        "if commit_id.encode() not in found[0]:",
        "if True:",
        "tests/integration/test_lost_answers.py",
    ),
    Mutant(
        "an object of what a backup took back does not move on",
        "(table if self._stands(view) else None), None",
        "table, None",
        PUT_BACK,
    ),
)
