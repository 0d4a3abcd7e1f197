"""The stream file: what may stand in it, and how it is read.

settings  where tables and ledgers may lie, and what Airflow is told
landing   the sections about landing
decoding  the section about typed tables
stream    the whole file, and its JSON Schema for editors
files     from a file's text to a stream, with the line of every error; all files of a folder
"""
