"""A real PostgreSQL and a real Debezium: what the database holds is the judge."""
