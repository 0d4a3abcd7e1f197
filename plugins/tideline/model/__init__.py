"""What is true: offsets, plans, runs, incidents, observations. Data without I/O."""
