"""A folder that somebody else fills, with code for Spark's launcher, and our commands run in it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.faults.processes import descendants
from tests.worlds.neighbour import listeners, table, tries
from tideline.launch.java import find_java
from tideline.launch.jvm import spark_home
from tideline.launch.submit import SparkSubmit, build_submission

FILE = """
stream: theirs
kafka: {{connection: kafka_of_tests, topics: [orders]}}
table: {{uri: "{folder}/lake"}}
registry: {{connection: registry_of_tests}}
decode:
  value: {{format: avro, subject: orders}}
  expect: [{{name: known, sql: "id >"}}]
"""
CLASS = """package {package};
public class {name} {{
    public static void main(String[] given) throws Exception {{
        new java.io.FileOutputStream("{mark}").close();
        System.exit(0);
    }}
}}
"""
CLASSES = ("org.apache.spark.deploy.SparkSubmit", "org.apache.spark.api.python.PythonGatewayServer")


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """A file that the folder's code makes; the caller stands in the folder."""
    folder, mark = tmp_path / "theirs", tmp_path / "their-code-ran"
    (folder / "hive-jackson").mkdir(parents=True)
    (folder / "theirs.yaml").write_text(FILE.format(folder=folder))
    compiler = "org.codehaus.commons.compiler.samples.CompilerDemo"
    sources = []
    for full in CLASSES:
        package, _, name = full.rpartition(".")
        sources.append(tmp_path / f"{name}.java")
        sources[-1].write_text(CLASS.format(package=package, name=name, mark=mark))
    made = [str(find_java().binary), "-cp", f"{spark_home()}/jars/*", compiler]
    subprocess.run([*made, "-d", str(tmp_path), *map(str, sources)], check=True, timeout=60)
    with zipfile.ZipFile(folder / "hive-jackson" / "x.jar", "w") as jar:
        for full in CLASSES:
            entry = f"{full.replace('.', '/')}.class"
            jar.write(tmp_path / entry, entry)
    monkeypatch.chdir(folder)
    return mark


def test_validate_runs_no_code_of_the_folder(mark):
    """A check of a pull request stands in what was sent."""
    path = {**os.environ, "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "tideline", "validate", "theirs.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, env=path, timeout=120)
    assert not mark.exists()
    assert "Spark refuses it" in done.stdout + done.stderr
    assert done.returncode == 2


def test_spark_submit_runs_no_code_of_the_folder(mark, tmp_path):
    """With a Spark that the site has set up, a run is spark-submit's."""
    application = tmp_path / "app.py"
    application.write_text(f"open({str(tmp_path / 'ours')!r}, 'w').close()\n")
    SparkSubmit().run(build_submission("local[1]", {}, str(application)))
    assert not mark.exists()
    assert (tmp_path / "ours").exists()


LOOKS = """
from tideline.decoding.spark.looking import LookingSpark
from tideline.decoding.decode_steps import plan_without_ranges
from tideline.stream.decode_section import Decode

value = {"format": "avro", "subject": "orders"}
decode = Decode.model_validate({"value": value, "expect": [{"name": "a", "sql": "id >"}]})
spark = LookingSpark()
print(len(spark.refused(plan_without_ranges(decode, ()), knows_columns=False)), flush=True)
input()
spark.close()
print("closed")
"""


def test_the_spark_of_validate_is_one_of_ours(tmp_path):
    """It stands apart, has no secret of Airflow's, and its ports ask who is there."""
    started = subprocess.Popen(
        [sys.executable, "-c", LOOKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "AIRFLOW_CONN_KAFKA_DEFAULT": "secret", "SPARK_REMOTE": "sc://away"},
    )
    with started as looking:
        assert looking.stdout.readline() == "1\n"
        (jvm,) = [p for p, words in descendants(looking.pid) if Path(words[0]).name == "java"]
        assert b"AIRFLOW_CONN" not in Path(f"/proc/{jvm}/environ").read_bytes()
        assert Path(f"/proc/{jvm}/cwd").readlink() != tmp_path
        words = Path(f"/proc/{jvm}/cmdline").read_bytes().decode().split("\0")
        assert all(map(os.path.isabs, words[words.index("-cp") + 1].split(":")))
        if os.geteuid() == 0:  # only root can become another user
            found = listeners([(jvm, "validate")])
            done = tries(found)
            assert len(found) == 3
            assert not [one for one in done if one.let_in], table(done)
        assert looking.communicate("\n", timeout=60)[0] == "closed\n"
    assert not Path(f"/proc/{jvm}").exists()
