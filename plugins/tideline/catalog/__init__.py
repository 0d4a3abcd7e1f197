"""Names for a stream's tables in a Hive metastore, in AWS Glue or in Unity Catalog."""
