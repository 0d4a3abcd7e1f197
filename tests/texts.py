"""Texts of messages that tests of several kinds hold: whoever rewords one, changes it here."""

STAYS = "rows of the plan in the table stay"
PLANNED_AGAIN = "the run makes a new plan of what is left"
REFUSED_FILE = "refused files there: 1"
NOT_REACHED = "Not reached by the erasure:"
ONE_TOO_MANY = "1 row too many"
