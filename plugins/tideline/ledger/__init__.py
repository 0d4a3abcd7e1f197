"""The authority on progress: documents, leases and history, in a Delta table or a database."""
