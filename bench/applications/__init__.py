"""Programs for spark-submit; apart, since their folder stands before Python's own modules."""
