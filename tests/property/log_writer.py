"""Commits file after file to a Delta log, by our client or by delta-rs, and says which are there.

Usage: log_writer.py FOLDER ours|theirs NAME; a line for each commit that was acknowledged.
"""

import itertools
import json
import sys

from deltalake import CommitProperties, DeltaTable
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction

from tideline.delta.delta_checkpoint import NotUnderstood
from tideline.delta.delta_log import CommitTaken, DeltaLog


def ours(folder, action, name):
    log = DeltaLog(folder, {})
    made = log.commit(log.newest(), [action], {"txn": {"appId": name, "version": 1}})
    if made.is_due:
        log.checkpoint(made)
    return made.version


def theirs(folder, action, name):
    table = DeltaTable(folder)
    version = table.version()
    table.create_write_transaction(
        [action],
        "append",
        table.schema(),
        partition_by=["slot"],
        commit_properties=CommitProperties(max_commit_retries=0),
    )
    return version + 1


def main(folder, kind, name):
    for number in itertools.count():
        path = f"{name}-{number}.parquet"
        action = AddAction(path, 1, {"slot": "s"}, 5, True, json.dumps({"numRecords": number}))
        while True:
            try:
                version = {"ours": ours, "theirs": theirs}[kind](folder, action, name)
                break
            # of a log that others are just writing a listing may miss a commit
            except (CommitTaken, NotUnderstood, delta_errors.DeltaError):
                continue
        print(version, path, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
