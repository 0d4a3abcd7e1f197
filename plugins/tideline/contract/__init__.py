"""Every JSON object that leaves the program: its model, how it is built, and its schema.

Keys and values are a contract with users and other tools. The core's classes may change; a change
here is a change of the contract. The module imports model and rules only, so each task can load it.
"""
