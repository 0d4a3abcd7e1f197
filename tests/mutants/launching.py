"""How runs find, share and give up the warm driver; how a command's process ends."""

from tests.mutants.mutant import Mutant

DRIVER = "tests/unit/test_local_driver.py"
NAMES = "tests/unit/test_local_driver_names.py"
PLACES = "tests/unit/test_local_driver_places.py"
ARCHIVE = "tests/unit/test_class_archive.py"
GATEWAY = "tests/unit/test_gateway.py"
ENVIRONMENT = "tests/unit/test_spark_environment.py"
HANDING = "tests/unit/test_handing_over.py"
CACHE = "tests/unit/test_cache.py"
CHECKSUMS = "tests/unit/test_checksums.py"
FETCHING = "tests/unit/test_fetching.py"
CLASS_PATHS = "tests/spark/test_class_paths.py"
LAUNCHER = "tests/unit/test_launcher.py"
ARROW = "tests/unit/test_arrow_tables.py"
PROCESS = "tests/unit/test_process.py"
INTERPRETED = "tests/spark/test_interpreted.py"
TASKS = "tests/unit/test_spark_tasks.py"
MUTANTS = (
    Mutant(
        "a large job is compiled",
        "_INTERPRETED if for_offsets < _FEW else _COMPILED",
        "_INTERPRETED",
        INTERPRETED,
    ),
    Mutant(
        "a run does not wait for pandas",
        "if column.type != pa.int64() or column.null_count:",
        "if True:",
        f"{ARROW}::test_neither_imports_pandas",
    ),
    Mutant(
        "nulls and narrow integers are not read as 64-bit integers",
        "if column.type != pa.int64() or column.null_count:",
        "if False:",
        f"{ARROW}::test_integers_are_those_of_pyarrow",
    ),
    Mutant(
        "a slice of a column is not read from the column's start",
        "len(chunk), chunk.offset * 8)",
        "len(chunk), 0)",
        f"{ARROW}::test_integers_are_those_of_pyarrow",
    ),
    Mutant(
        "a JVM does not wait for imports",
        "import ClassArchive, base_command, gateway_command, gateway_environment\n",
        "import ClassArchive, base_command, gateway_command, gateway_environment\n"
        "import tideline.documents\n",
        f"{DRIVER}::test_a_driver_starts_its_jvm_before_it_imports_anything_large",
    ),
    Mutant(
        "what a command says is written before its process ends",
        "            stream.flush()\n",
        "            pass\n",
        f"{PROCESS}::test_a_command_s_status_and_all_of_its_output",
    ),
    Mutant(
        "a job that has begun is not run twice",
        "if answers or self._is_stopped:",
        "if self._is_stopped:",
        f"{DRIVER}::test_a_job_that_has_begun_is_not_run_twice",
    ),
    Mutant(
        "a run that was stopped hands no job over",
        "if self._is_stopped:  # before",
        "if False:  # before",
        f"{DRIVER}::test_a_run_that_was_stopped_before_runs_nothing",
    ),
    Mutant(
        "a run that is stopped gives no healthy driver up",
        "if is_lost and not self._is_stopped:",
        "if is_lost:",
        f"{DRIVER}::test_a_signal_handler_ends_the_job_and_not_the_driver",
    ),
    Mutant(
        "a silent driver is given up",
        "connection.settimeout(runtime.SILENCE_SECONDS)",
        "connection.settimeout(None)",
        f"{DRIVER}::test_a_driver_that_hangs_in_a_job_is_given_up",
    ),
    Mutant(
        "a driver that somebody else has started is not given up",
        "if runtime.identity(address) == found:",
        "if True:",
        f"{DRIVER}::test_only_what_was_found_is_given_up",
    ),
    Mutant(
        "a folder that others may enter is not shared",
        "and not found.st_mode & 0o077",
        "",
        f"{PLACES}::test_a_folder_that_others_may_enter_is_not_shared",
    ),
    Mutant(
        "a folder of another user is not shared",
        "found.st_uid == os.geteuid() and",
        "",
        f"{PLACES}::test_a_folder_of_another_user_is_not_shared",
    ),
    Mutant(
        "a link in a folder that others may write is not followed",
        "found = folder.lstat()",
        "found = folder.stat()",
        f"{PLACES}::test_a_link_is_not_followed",
    ),
    Mutant(
        "a lock that a stopped process keeps is given up",
        "if time.monotonic() > until:",
        "if False:",
        f"{DRIVER}::test_a_lock_that_is_kept_is_waited_for_and_given_up",
        within="locked",
    ),
    Mutant(
        "drivers of another version are not met",
        "[source_digest(), sys.executable",
        "[sys.executable",
        f"{NAMES}::test_another_version_or_master_has_another_driver",
    ),
    Mutant(
        "drivers of other jars under the same names are not met",
        "sys.version, files]",
        "sys.version]",
        f"{NAMES}::test_jars_or_java_replaced_under_their_names_have_another_driver",
    ),
    Mutant(
        "drivers with other rights for files are not met",
        "*runtime.rights(), ",
        "",
        f"{NAMES}::test_another_umask_has_another_driver",
    ),
    Mutant(
        "it does not matter in which language a driver is started",
        'variables["LC_ALL"] = "C.UTF-8"',
        "pass",
        f"{NAMES}::test_a_driver_can_name_every_file",
    ),
    Mutant(
        "a driver whose log was tidied away is met",
        "except FileNotFoundError:\n        return open(os.devnull",
        "except ZeroDivisionError:\n        return open(os.devnull",
        f"{NAMES}::test_a_log_that_somebody_has_tidied_away_stops_nobody",
    ),
    Mutant(
        "another user's session is not ours",
        "elif session and _is_mine(session):",
        "elif session:",
        f"{PLACES}::test_the_session_folder_of_another_user_is_passed_over",
    ),
    Mutant(
        "a long TMPDIR leaves room for a socket's name",
        "return found if len(os.fsencode(found)) <= _LONGEST_TMPDIR else",
        "return found if True else",
        f"{PLACES}::test_a_long_tmpdir_is_no_obstacle",
    ),
    Mutant(
        "what a killed writer has left is removed",
        "left.unlink(missing_ok=True)",
        "pass",
        f"{ARCHIVE}::test_what_a_killed_writer_has_left_goes",
    ),
    Mutant(
        "an archive over which a JVM crashes goes",
        "        if has_crashed:\n            self._archive.discard()\n        answer",
        "        answer",
        f"{GATEWAY}::test_an_archive_over_which_it_crashes_goes",
    ),
    Mutant(
        "an archive outlives a start that fails without it as well",
        "                has_crashed = True\n",
        "                has_crashed = True\n                self._archive.discard()\n",
        f"{GATEWAY}::test_an_archive_stays_if_it_crashes_without_as_well",
    ),
    Mutant(
        "a JVM without memory says so",
        "if status == _OUT_OF_MEMORY:",
        "if False:",
        f"{GATEWAY}::test_what_ended_it_is_said",
    ),
    Mutant(
        "drivers of another environment are not met",
        "*runtime.rights(), *chosen]",
        "*runtime.rights()]",
        f"{NAMES}::test_another_environment_has_another_driver",
    ),
    Mutant(
        "Spark's processes get named variables only",
        "return child_env({name: v for name, v in variables.items() if _is_among(name, wanted)})",
        "return child_env(variables)",
        f"{ENVIRONMENT}::test_only_named_variables_pass",
    ),
    Mutant(
        "Airflow's variables pass to no process of Spark's",
        "if not k.startswith(_NEVER)}",
        "}",
        f"{ENVIRONMENT}::test_a_site_names_more_and_never_airflow_s",
    ),
    Mutant(
        "spark-submit does not get the task's environment",
        "submission_variables(submission, spark_variables(os.environ))",
        "submission_variables(submission, os.environ)",
        f"{ENVIRONMENT}::test_spark_submit_gets_none",
    ),
    Mutant(
        "a job is gone once it is read",
        "_remove(job_file)",
        "pass",
        f"{HANDING}::test_the_application_removes_its_job_once_it_is_read",
    ),
    Mutant(
        "the ports of a warm driver's Spark ask who is there",
        "            **ASKING,\n",
        "",
        "tests/spark/test_neighbour.py::test_a_warm_driver",
    ),
    Mutant(
        "so do those of a spark-submit with a local master",
        "ASKING if is_local(master) else {}",
        "{}",
        f"{TASKS}::test_a_spark_of_one_jvm_asks_who_is_there",
    ),
    Mutant(
        "what the site says about it holds",
        "for key, value in asking.items() if key not in site",
        "for key, value in asking.items()",
        f"{TASKS}::test_a_spark_of_one_jvm_asks_who_is_there",
    ),
    Mutant(
        "what a warm driver spills is private",
        "return [PrivateFolder(place) for place in places]",
        "return [PrivateFolder() for place in places]",
        f"{GATEWAY}::test_what_spills_is_private",
    ),
    Mutant(
        "what a killed run has left is swept",
        "        _sweep(place)\n",
        "",
        f"{HANDING}::test_what_a_killed_run_has_left_goes_with_the_next_one",
    ),
    Mutant(
        "the folder of a run that lives is not swept",
        "fcntl.flock(self._lock, fcntl.LOCK_SH)",
        "pass",
        f"{HANDING}::test_what_a_killed_run_has_left_goes_with_the_next_one",
    ),
    Mutant(
        "another user's folder is not swept",
        "if os.fstat(lock).st_uid == os.geteuid():",
        "if True:",
        f"{HANDING}::test_only_what_is_ours_is_swept",
    ),
    Mutant(
        "a result names a class of our tree only",
        "next((cls for cls in found if cls.__name__ == name), ServiceAway)",
        "globals().get(name, ServiceAway)",
        HANDING,
    ),
    Mutant(
        "somebody else's file in the cache is not executed",
        "return found.st_uid in (os.geteuid(), 0)",
        "return True",
        f"{CACHE}::test_a_file_of_somebody_else_is_refused_by_name",
    ),
    Mutant(
        "a file that others may write is not executed",
        "return _is_of_us(found) and bool(is_private)",
        "return _is_of_us(found)",
        f"{CACHE}::test_a_folder_that_others_may_write_is_refused_by_name",
    ),
    Mutant(
        "somebody else's link leads to no cache",
        " or not _is_of_us(one.lstat())",
        "",
        f"{CACHE}::test_a_link_of_somebody_else_is_not_followed",
    ),
    Mutant(
        "a changed jar is not loaded",
        "if (actual := digest_of_file(jar)) != digest:",
        "if (actual := digest_of_file(jar)) == '':",
        f"{CHECKSUMS}::test_a_changed_jar_is_refused_by_name",
    ),
    Mutant(
        "a jar that nobody has named is refused",
        "if strange:",
        "if False:",
        f"{CHECKSUMS}::test_another_jar_is_refused_by_name",
    ),
    Mutant(
        "a download is compared with its pin before it is let in",
        "            verified(ready / name, name)\n",
        "",
        f"{FETCHING}::test_a_wrong_file_lets_no_set_in",
    ),
    Mutant(
        "jars are not fetched under the name of a version that is not pinned",
        "if (jars, coordinate) not in pins:",
        "if False:",
        f"{FETCHING}::test_what_is_asked_for_has_to_be_pinned",
    ),
    Mutant(
        "what a killed download has left goes",
        'place.glob(f"{_DRAFT}*")',
        "()",
        f"{FETCHING}::test_what_a_killed_download_has_left_goes_with_the_next",
    ),
    Mutant(
        "ten that come at once fetch once",
        "if missing := _missing(names):",
        "if missing := list(names):",
        f"{FETCHING}::test_who_comes_second_takes_what_the_first_has_fetched",
    ),
    Mutant(
        "a token is in no address and no argument",
        "self._variables[TOKEN] = token",
        "self._variables['SPARK_REMOTE'] = f'{url};token={token}'",
        f"{LAUNCHER}::test_a_server_s_token_is_told_by_the_environment_only",
    ),
    Mutant(
        "a remote master without encryption is warned of",
        "_warn_in_clear(connection_id)\n        run,",
        "run,",
        f"{LAUNCHER}::test_a_remote_master_without_encryption_is_warned_of",
    ),
    Mutant(
        "a mended lz4 comes before Spark's",
        "return [*first, *_sparks_own(), *last]",
        "return [*_sparks_own(), *first, *last]",
        f"{CLASS_PATHS}::test_the_first_jar_with_the_class",
    ),
    Mutant(
        "a child stands in a folder of its own",
        "env=child_env(variables), cwd=folder.absolute(), **how)\n\n\n",
        "env=child_env(variables), **how)\n\n\n",
        "tests/unit/test_children.py::test_spark_submit",
    ),
    Mutant(
        "a child gets absolute paths",
        "os.pathsep.join(map(os.path.abspath, parts))",
        "os.pathsep.join(parts)",
        "tests/unit/test_children.py::test_only_absolute_paths_are_handed_on",
    ),
    Mutant(
        "executors that fetch the jars look into them first",
        "if not master.startswith(_HAVE_JARS):",
        "if False:",
        f"{CLASS_PATHS}::test_executors_that_fetch_the_jars_look_into_them_first",
    ),
    Mutant(
        "an archive of other jars is not used",
        'digest.update(f"{file}\\0{found.st_size}\\0{found.st_mtime_ns}\\0".encode())',
        "pass",
        f"{ARCHIVE}::test_an_archive_is_of_one_command",
    ),
    Mutant(
        "one process writes an archive",
        "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # or",
        "pass  # or",
        f"{ARCHIVE}::test_one_process_writes",
    ),
    Mutant(
        "executors of a local cluster need spark-submit",
        'return master == "local" or master.startswith("local[")',
        'return master.startswith("local")',
        f"{LAUNCHER}::test_local_processes_of_a_cluster_are_spark_submit_s",
    ),
    Mutant(
        "a Spark with settings of its own needs spark-submit",
        "if is_local(target.master) and is_plain():",
        "if is_local(target.master):",
        f"{LAUNCHER}::test_a_spark_with_settings_of_its_own_is_spark_submit_s",
    ),
    Mutant(
        "a Spark does not take another version's classes",
        'return f"tideline.spark.{name}_{digest_of_ours()}"',
        'return f"tideline.spark.{name}"',
        "tests/unit/test_packaging.py::test_jar_and_classes_for_spark_are_named_by_their_sources",
    ),
    Mutant(
        "a job that stands still is cancelled",
        "                cancel()  # again",
        "                pass  # again",
        "tests/spark/test_stall_limit.py",
    ),
    Mutant(
        "what moves starts the limit anew",
        "                seen, since = now, time.monotonic()",
        "                seen = now",
        "tests/spark/test_stall_limit.py",
    ),
    Mutant(
        "Spark is told how long a job may stand still",
        "stall_seconds=limit)",
        "stall_seconds=0)",
        "tests/steps/test_landing.py",
    ),
)
