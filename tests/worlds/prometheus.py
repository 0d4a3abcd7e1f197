"""Alert rules and dashboard, judged by Prometheus' own engine: `promtool test rules`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from devstack.go_programs import GoProgram
from tideline.model.metrics import Metric
from tideline.versions import PROMTOOL

OBSERVABILITY = Path(__file__).parents[2] / "docs/observability"
RULES = OBSERVABILITY / "alerts.yaml"
DASHBOARD = OBSERVABILITY / "dashboard.json"
_PROGRAM = GoProgram(*PROMTOOL)


def name_of(metric: Metric) -> str:
    """The name that Prometheus knows, by way of StatsD or of OpenTelemetry.

    Airflow puts its prefix before it, unless `[metrics] statsd_prefix` or `otel_prefix` differ.
    """
    return f"airflow.{metric.name}".replace(".", "_")


def rules() -> list[dict[str, str]]:
    """The alert rules."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def panels() -> dict[str, str]:
    """The dashboard's queries by title, for all streams."""
    found = json.loads(DASHBOARD.read_text())["panels"]
    return {p["title"]: t["expr"].replace("$stream", ".+") for p in found for t in p["targets"]}


@dataclass
class Evaluation:
    """Series, and what to expect of them.

    Args:
        series: Values by name and labels as Prometheus writes them, in promtool's notation: one a
            minute, `3x10` ten more of the same, `_` none.
    """

    series: Mapping[str, str]
    _alerts: list[dict[str, object]] = field(default_factory=list)
    _queries: list[dict[str, object]] = field(default_factory=list)

    def fires(self, minute: int, expected: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
        """Expect exactly these alerts, by name and labels, and none of the others."""
        for rule in rules():
            alerts = [
                {"exp_labels": {**rule["labels"], **labels}}  # type: ignore[dict-item]
                for labels in expected.get(rule["alert"], ())
            ]
            self._alerts.append(
                {"eval_time": f"{minute}m", "alertname": rule["alert"], "exp_alerts": alerts}
            )

    def finds(self, minute: int, query: str, count: int) -> None:
        """Expect that a query has this many results."""
        samples = [{"labels": "{}", "value": count}]
        self._queries.append(
            {"eval_time": f"{minute}m", "expr": f"count({query})", "exp_samples": samples}
        )

    def judge(self, folder: Path) -> str:
        """What promtool says against it; empty if nothing."""
        if not _PROGRAM.can_be_had:
            pytest.skip("promtool is built with Go, and there is no Go")
        (folder / "rules.yaml").write_text(_without_texts())
        test = {
            "interval": "1m",
            "input_series": [{"series": k, "values": v} for k, v in self.series.items()],
            "alert_rule_test": self._alerts,
            "promql_expr_test": self._queries,
        }
        asked = folder / "asked.yaml"
        asked.write_text(json.dumps({"rule_files": ["rules.yaml"], "tests": [test]}))
        done = subprocess.run(
            [_PROGRAM.built(), "test", "rules", str(asked)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said = done.stdout + done.stderr
        assert (done.returncode == 0) == ("SUCCESS" in said), said
        return "" if done.returncode == 0 else said


def check_rules() -> str:
    """What `promtool check rules` says."""
    if not _PROGRAM.can_be_had:
        pytest.skip("promtool is built with Go, and there is no Go")
    done = subprocess.run(
        [_PROGRAM.built(), "check", "rules", "--lint=all", "--lint-fatal", str(RULES)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def series_name(name: str, tags: Mapping[str, str]) -> str:
    """A gauge of Airflow's as Prometheus writes it."""
    labels = ",".join(f'{key}="{value}"' for key, value in sorted(tags.items()))
    return f"{re.sub('[^a-zA-Z0-9]', '_', name)}{{{labels}}}"


def _without_texts() -> str:
    """The rules without annotations: a test would have to repeat each sentence."""
    content = yaml.safe_load(RULES.read_text())
    for group in content["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    return json.dumps(content)
