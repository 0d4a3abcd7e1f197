"""The rules, free of I/O: planning, detection, coverage, verification, advancing.

Imports the standard library and, for stream files, pydantic. Nothing else.
"""
