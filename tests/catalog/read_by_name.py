"""Read tables by their names, as a Spark of somebody's with a metastore does.

Usage: read_by_name.py METASTORE_PORT STATEMENT...
"""

import json
import os
import sys

from pyspark.sql import SparkSession

from devstack.spark_apps import DELTA, DELTA_SESSION
from tideline.launch.jars import delta_jars
from tideline.launch.java import find_java

os.environ["JAVA_HOME"] = str(find_java().home)
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for key, value in {**DELTA, **DELTA_SESSION}.items():
    builder = builder.config(key, value)
builder = (
    builder.config("spark.jars", ",".join(map(str, delta_jars())))
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.catalogImplementation", "hive")
    .config("spark.hadoop.hive.metastore.uris", f"thrift://127.0.0.1:{sys.argv[1]}")
)
spark = builder.getOrCreate()
for statement in sys.argv[2:]:
    print("answer", json.dumps([list(row) for row in spark.sql(statement).collect()], default=str))
spark.stop()
