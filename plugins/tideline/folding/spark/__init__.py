"""The fold in Spark: changes, the last of each key, and a bucket's rows beside them."""
