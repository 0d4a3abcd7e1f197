"""The target table: schema, commits, file statistics."""
