"""Random histories of changes, folded and held against a definition.

Read in this order:

    oracle.py       what a current table, its view and its history are, by definition; no Tideline
    histories.py    events, and what a seed makes of them; a history is printed and replayed
    topic.py        the topic, the source behind it, and what is decoded of it; no Tideline
    lake.py         real typed and current tables, and the real steps over them
    play.py         a history happens; what is wrong is named

A slice is `tests/spark/test_fuzz.py`; `make fuzz SEED=1 MINUTES=10` goes on for longer.
"""
