"""What is true: offsets, plans, runs, incidents, observations as values. No I/O."""
