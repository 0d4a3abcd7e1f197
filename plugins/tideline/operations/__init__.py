"""What is done beside the steps of a run: audit, rewind, dry run."""
