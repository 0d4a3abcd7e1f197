"""What a person asks for beside a run: audit, dry run, rewind, redrive, maintenance."""
