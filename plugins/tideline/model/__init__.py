"""Data: offsets, plans, runs, incidents, observations. No I/O."""
