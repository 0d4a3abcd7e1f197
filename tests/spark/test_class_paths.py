"""From which jar Spark's JVMs take the code that decompresses what producers send."""

import os
import zipfile
from pathlib import Path

import pytest

from tests.worlds.streams import table_rows
from tideline.launch.gateway import Jvm
from tideline.launch.jars import broker_jars, spark_jars
from tideline.launch.jvm import class_path, spark_home
from tideline.launch.submit import class_paths
from tideline.versions import LZ4

CLASS = "net.jpountz.lz4.LZ4Factory"
JAR = f"lz4-java-{LZ4}.jar"
OWN_FIRST = "spark.executor.userClassPathFirst"
HARMLESS = ("META-INF/", "module-info", "org/apache/spark/annotation/", "org/apache/spark/unused/")


def source_of(java):
    """The jar that a JVM has loaded the class from."""
    found = java.java.lang.Class.forName(CLASS).getProtectionDomain().getCodeSource()
    return Path(found.getLocation().getPath()).name


def classes(jar):
    """The names of its classes that are code."""
    names = zipfile.ZipFile(jar).namelist()
    code = (name for name in names if name.endswith(".class"))
    return {name for name in code if not name.startswith(HARMLESS)}


@pytest.fixture
def variables(monkeypatch):
    """Put back afterwards: `open_gateway` sets some."""
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


def test_a_warm_driver_s_jvm(variables):
    """It is started without spark-submit."""
    jvm = Jvm("local[1]")
    try:
        jvm.open_gateway()
        from pyspark.java_gateway import launch_gateway

        gateway = launch_gateway()
        assert source_of(gateway.jvm) == JAR
        gateway.close()
    finally:
        jvm.end()
        jvm.tidy(has_worked=False)


def test_a_driver_of_spark_submit_s(harness, in_process_spark):
    """Its settings are those of every submission; records that were compressed come out right."""
    harness.create(partitions=1)
    harness.send_batch(100, compression="lz4")
    stream = harness.stream()
    assert harness.run(stream, "one", in_process_spark).status == "done"
    assert len(table_rows(stream)) == 100
    assert source_of(in_process_spark.session._jvm) == JAR


@pytest.mark.parametrize("jars", [class_path, broker_jars])
def test_the_first_jar_with_the_class(jars):
    """A JVM takes a class from the first; the embedded broker has no other one at all."""
    entry = CLASS.replace(".", "/") + ".class"
    with_it = [jar.name for jar in jars() if entry in zipfile.ZipFile(jar).namelist()]
    assert with_it[0] == JAR
    assert jars is class_path or with_it == [JAR]


def test_the_site_s_own_class_path_stays(monkeypatch, tmp_path):
    """A property of ours would hide that of its spark-defaults.conf."""
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.driver.extraClassPath=/opt/a.jar\nspark.executor.extraClassPath  /opt/b.jar"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    jars = spark_jars()
    (ours,) = [str(jar) for jar in jars if jar.name == JAR]
    assert class_paths(jars) == {
        "spark.driver.extraClassPath": f"{ours}:/opt/a.jar",
        "spark.executor.extraClassPath": f"{ours}:{JAR}:/opt/b.jar",
    }
    assert class_paths([]) == {}


@pytest.mark.parametrize(
    ("master", "first"),
    [("local[2]", None), ("yarn", None), ("spark://host:7077", "true"), ("k8s://host", "true")],
)
def test_executors_that_fetch_the_jars_look_into_them_first(monkeypatch, tmp_path, master, first):
    """When their JVM starts, the class path names a jar that is not there yet."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert class_paths(spark_jars(), master).get(OWN_FIRST) == first
    (tmp_path / "spark-defaults.conf").write_text(f"{OWN_FIRST} false")
    assert class_paths(spark_jars(), master).get(OWN_FIRST) == (first and "false")


def test_what_comes_first_is_no_other_version_of_spark_s_own_classes():
    """Of what our jars and Spark both have, lz4 alone differs; else executors would mix versions.

    Annotations, and the stub that each of Spark's jars holds, are in nobody's way.
    """
    of_spark = {}
    for jar in (spark_home() / "jars").glob("*.jar"):
        of_spark |= dict.fromkeys(classes(jar), jar.name)
    both = {
        (jar.name, of_spark[c]) for jar in spark_jars("s3a") for c in of_spark.keys() & classes(jar)
    }
    assert {pair for pair in both if pair[0] != pair[1]} == {(JAR, "lz4-java-1.8.0.jar")}
