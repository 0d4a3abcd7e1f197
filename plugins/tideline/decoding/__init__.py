"""Typed tables: raw rows in, columns or a reason out.

steps      the two steps, `decode_rows` and `verify_decoded`, and the plan that both execute
execution  a plan's parts, round by round, until each id of a schema is known
readers    which schemas a plan needs, and the columns that they make
event_types  the same where a topic has several event types: which one an id belongs to
verifying  what is in the tables against what the plan says, for a run and for an audit
tables     the typed table and the quarantine as a run meets them
rules      what is decoded, and what may be decoded next. Pure
schemas    from the schemas that records were written with to columns. Pure
spark      the code that runs inside Spark: `spark_jobs/decode_rows.py` puts it together

Landing knows nothing of this room. From outside only the steps, the audit and the rules are called.
"""
