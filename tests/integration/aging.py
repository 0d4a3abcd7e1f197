"""Files that were written long ago."""

import os
import time


def age(path, hours=200):
    """A file, or everything in a folder, was written that long ago."""
    then = time.time() - hours * 3600
    for file in [path] if path.is_file() else path.rglob("*"):
        os.utime(file, (then, then))
