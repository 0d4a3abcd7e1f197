"""What runs inside Spark: source, transforms, sink. Imports neither Airflow nor Kafka clients."""
