"""Who is the authority on progress: documents, leases, history, and their stores."""
