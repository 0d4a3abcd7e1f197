"""What the steps of a run share: the way into the raw table, and what is known of its rows.

context       what every step is given, and the lease that it holds
observing     the cluster as it is now, as often as it takes to agree
attempts      tokens and folders of attempts, and what one of them has left
proof         which planned rows the table holds, and which copies are the only ones
incidents     what was found, opened or attached to
closing       how a run ends in the ledger
table_commit  the one way in which rows get into the table and out of it
"""
