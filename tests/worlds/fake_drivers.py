"""A warm driver without Spark, whose behaviour is a word in a file."""

import os
import signal

from tideline.launch.local_driver import LocalDriver

DRIVER = """
import json, os, socket, sys, time
if os.fork():
    os._exit(0)
listener, address = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
here = os.path.dirname(__file__)
def plan():
    return open(here + "/plan").read()
def note(text):
    with open(here + "/notes", "a") as notes:
        notes.write(f"{text} {os.getpid()}\\n")
note("started")
try:
    print("a line of the log", flush=True)
except OSError:
    pass  # a full disk
if plan() == "dies early":
    os._exit(1)
if plan() == "dies early once":
    open(here + "/plan", "w").write("works")
    os._exit(1)
while True:
    connection, _ = listener.accept()
    if plan() == "silent":
        time.sleep(60)
    request = json.loads(connection.makefile("r").readline())
    if "status" in request:  # as a driver of an older version, which does not know it
        connection.close()
        continue
    note(json.dumps(request))
    connection.sendall(b"accepted\\n")
    if "end" in request:
        os._exit(0)
    if plan() == "dies":
        os._exit(1)
    if plan() == "hangs":
        connection.settimeout(15)
        connection.recv(1)
        note("client gone")
        continue
    if "progress" in request:
        connection.sendall(b"progress {}\\n")
        connection.sendall(b'progress {"tasks": 1, "of_tasks": 3, "records": 40}\\n')
    connection.sendall(b"alive\\nfailed\\n" if plan() == "fails" else b"alive\\ndone\\n")
    connection.close()
    if request["keep_seconds"] == 0:
        os._exit(0)
"""


class Fake:
    """The program of a driver, and what it has noted."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "local_driver.py").write_text(DRIVER)
        self.plans("works")

    def plans(self, word):
        (self.folder / "plan").write_text(word)

    @property
    def notes(self):
        file = self.folder / "notes"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.rpartition(" ")[0] for line in lines]

    @property
    def started(self):
        """Process ids of all that were started."""
        lines = (self.folder / "notes").read_text().splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith("started ")]

    def end(self):
        for pid in self.started if (self.folder / "notes").exists() else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def run(keep_seconds=900, master="local[2]"):
    """Hand a job to it."""
    LocalDriver(master, keep_seconds).submit("/job.json")
