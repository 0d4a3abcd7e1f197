"""The object store behind `s3a://` addresses: how it is reached, from Python and from Spark."""
