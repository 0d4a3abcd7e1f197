"""What tests build, start and look at; each module says what it is.

build, contract_objects, schemas, protobuf_schemas, avro_versions     values
rows, raw_tables, lake, decoded_lake, tables                          tables without Spark
clusters, registries, object_stores, ledgers, postgres                services and what befalls them
streams, typed_streams, backfills                                     what is asked of a stream
secured_broker, secured_cases, secured_reads, tls, token_issuer       connections that ask who comes
drivers, fake_drivers, spark_doubles, spark_ways, own_transforms      Spark, and what stands for it
airflow_fixtures, statsd_server, prometheus, http_stub                what is around an Airflow
"""
