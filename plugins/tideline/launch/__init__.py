"""How Spark is started: Java, jars, spark-submit or Spark Connect."""
