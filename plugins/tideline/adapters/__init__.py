"""One file per thing outside: Kafka, the ledger's store, the table, Spark, connections, files."""
