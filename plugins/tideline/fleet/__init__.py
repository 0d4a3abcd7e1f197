"""Many topics from one file: which there are, and a run of all of them in one process."""
