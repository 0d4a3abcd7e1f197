"""The code that runs inside Spark. It imports neither Airflow nor a Kafka client."""
