"""Which of this process's variables Spark's processes get: those named here, and no others.

A task of Airflow has the keys of its database, of its tokens and of its connections in its
environment. Whatever runs beside Spark could read them there.
"""

from __future__ import annotations

from collections.abc import Mapping

SITE = "TIDELINE_SPARK_VARIABLES"
"""Names more of them, with commas between; `*` at the end of one stands for any rest."""
_DECIDE = (
    *("AWS_*", "AZURE_*", "GOOGLE_*", "HADOOP_*", "PYSPARK_*", "SPARK_*", "TIDELINE_*", "YARN_*"),
    *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "LD_*"),
    *("KRB5*", "KUBECONFIG", "KUBERNETES_*", "PYTHONPATH", "SSL_CERT_FILE", "TMPDIR", "TZ"),
)
"""They change what a driver does."""
_BESIDE = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "HOSTNAME", "VIRTUAL_ENV"),
    *("GRPC_*", "XDG_*", "SSL_CERT_DIR", "PYTHON*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
)
_NEVER = ("AIRFLOW_*", "_AIRFLOW_*")


def spark_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """What a process of Spark's is started with.

    Args:
        variables: Of this process.
    """
    wanted = (*_DECIDE, *_BESIDE, *_of_the_site(variables))
    return {
        name: value
        for name, value in variables.items()
        if _is_among(name, wanted) and not _is_among(name, _NEVER)
    }


def decisive(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that make two drivers different; what Airflow sets for each task is not among them."""
    wanted = (*_DECIDE, *_of_the_site(variables))
    return {name: value for name, value in variables.items() if _is_among(name, wanted)}


def _of_the_site(variables: Mapping[str, str]) -> tuple[str, ...]:
    named = variables.get(SITE, "")
    return tuple(filter(None, (name.strip() for name in named.split(","))))


def _is_among(name: str, wanted: tuple[str, ...]) -> bool:
    return any(
        name == one or (one.endswith("*") and name.startswith(one.removesuffix("*")))
        for one in wanted
    )
