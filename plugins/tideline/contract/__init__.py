"""Every JSON object that leaves the program: its model, how it is built, and its schema.

Keys and values are a contract with users and other tools. Where a class of model or rules has the
same fields in the same order, the contract has that class itself: a change there is a change here,
and `docs/output.schema.json` shows it. A `Shape` stands for what is sums, renamed, hidden, written
in another form, or an answer as a whole. The module imports model and rules only, so each task can
load it.
"""
