"""Pure functions over the model, one subject per file. No I/O."""
