"""What follows from what is true, one subject a file. Pure functions over the model; no I/O."""
