"""The target table: schema, predicate, commits, file statistics."""
