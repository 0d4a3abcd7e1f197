"""What follows from the model: pure functions, one subject a file. No I/O."""
