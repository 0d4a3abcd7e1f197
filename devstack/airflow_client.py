"""The few calls of Airflow's REST API that the demo and the tests make."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from devstack.process import wait_until
from tideline.errors import ServiceAway

_SERVICES = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_ENDED = ("success", "failed")


class AirflowClient:
    """A user of one Airflow.

    Args:
        url: Address of the API server.
        username, password: A user of the simple auth manager.
        scheduler_logs: What the schedulers write: the one place that tells what they have heard.
    """

    def __init__(
        self, url: str, username: str, password: str, scheduler_logs: Sequence[Path] = ()
    ) -> None:
        self._scheduler_logs = scheduler_logs
        self._login = {"username": username, "password": password}
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def is_healthy(self) -> bool:
        """Whether every service has reported lately."""
        try:
            answer = self._http.get("/api/v2/monitor/health")
        except httpx.HTTPError:
            return False
        if answer.status_code != 200:
            return False
        health = answer.json()
        return all((health.get(name) or {}).get("status") == "healthy" for name in _SERVICES)

    def call(self, method: str, path: str, json: Any = None, **params: Any) -> Any:
        """One call, logged in.

        Raises:
            ServiceAway: Another answer than success.
        """
        if "Authorization" not in self._http.headers:
            token = self._http.post("/auth/token", json=self._login).raise_for_status().json()
            self._http.headers["Authorization"] = f"Bearer {token['access_token']}"
        answer = self._http.request(method, f"/api/v2{path}", json=json, params=params)
        if answer.is_error:
            raise ServiceAway(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.content else None

    def wait_for_dag(self, dag_id: str, timeout_seconds: float = 90) -> None:
        """Wait until the Dag has been parsed."""

        def known() -> bool:
            found = self.call("GET", "/dags", dag_id_pattern=dag_id)["dags"]
            return any(dag["dag_id"] == dag_id for dag in found)

        wait_until(known, f"Dag {dag_id} is not there", timeout_seconds, every_seconds=0.5)

    def pause(self, dag_id: str, paused: bool) -> None:
        """Stop or start scheduling."""
        self.call("PATCH", f"/dags/{dag_id}", json={"is_paused": paused})

    def trigger(self, dag_id: str, run_id: str, conf: dict[str, Any] | None = None) -> None:
        """A manual run."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf or {}}
        self.call("POST", f"/dags/{dag_id}/dagRuns", json=body)

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Runs in the order of their start."""
        answer = self.call("GET", f"/dags/{dag_id}/dagRuns", limit=1000)
        return sorted(answer["dag_runs"], key=lambda r: str(r["queued_at"]))

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """Task instances of a run by task id."""
        found = self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        return {task["task_id"]: task for task in found["task_instances"]}

    def clear(self, dag_id: str, run_id: str, task_ids: list[str]) -> None:
        """Clear tasks of a run and what comes after them, so that they run again."""
        body = {
            "dry_run": False,
            "only_failed": False,
            "include_downstream": True,
            "dag_run_id": run_id,
            "task_ids": task_ids,
        }
        self.call("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)

    def backfill(
        self,
        dag_id: str,
        start: datetime,
        end: datetime,
        *,
        at_once: int = 1,
        reprocess: str = "none",
    ) -> int:
        """Create a backfill of the schedule's intervals in `[start, end]`; its id.

        Args:
            dag_id: A Dag with a schedule.
            start: First logical date that counts.
            end: Last logical date that counts, included.
            at_once: How many runs may be active.
            reprocess: What happens to runs that exist: `none`, `failed` or `completed`.
        """
        body = {
            "dag_id": dag_id,
            "from_date": start.isoformat(),
            "to_date": end.isoformat(),
            "max_active_runs": at_once,
            "reprocess_behavior": reprocess,
            "run_backwards": False,
            "dag_run_conf": {},
        }
        return int(self.call("POST", "/backfills", json=body)["id"])

    def wait_for_backfill(self, backfill_id: int, timeout_seconds: float = 600) -> None:
        """Wait until a backfill is complete, however its runs ended."""
        wait_until(
            lambda: self.call("GET", f"/backfills/{backfill_id}")["completed_at"] is not None,
            f"backfill {backfill_id} is not complete",
            timeout_seconds,
            1.0,
        )

    def wait_for_run(self, dag_id: str, run_id: str, timeout_seconds: float = 300) -> str:
        """Wait until a run has ended; its state."""

        def state() -> str:
            return str(self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

        wait_until(
            lambda: state() in _ENDED, f"{dag_id} {run_id} has not ended", timeout_seconds, 0.5
        )
        return state()

    def wait_for_question(
        self, dag_id: str, run_id: str, task_id: str = "resolve_reset", timeout_seconds: float = 120
    ) -> dict[str, Any]:
        """Wait until a task is parked with a form; the form.

        Airflow 3.3 fails a try that is answered before its scheduler has heard that the parked
        task's process has ended, so that is waited for too.
        """

        def is_parked() -> bool:
            task = self.tasks(dag_id, run_id)[task_id]
            return task["state"] == "awaiting_input" and self._is_heard(task)

        wait_until(is_parked, f"{dag_id} {run_id} {task_id} does not ask", timeout_seconds, 0.5)
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"
        form: dict[str, Any] = self.call("GET", path)
        return form

    def _is_heard(self, task: dict[str, Any]) -> bool:
        """Whether a scheduler knows that the process of a task's try has ended well."""
        key = (
            f"dag_id='{task['dag_id']}', task_id='{task['task_id']}',"
            f" run_id='{task['dag_run_id']}', try_number={task['try_number']}"
        )
        event = f"event with state success for task instance TaskInstanceKey({key},"
        return any(event in log.read_text(errors="replace") for log in self._scheduler_logs)

    def answer(
        self,
        dag_id: str,
        run_id: str,
        options: list[str],
        comment: str,
        task_id: str = "resolve_reset",
    ) -> None:
        """Answer a task's form."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"
        body = {"chosen_options": options, "params_input": {"comment": comment}}
        self.call("PATCH", path, json=body)

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """A task's log as text."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        answer = self.call("GET", path, full_content=True)
        return "\n".join(
            str(line.get("event", line)) + str(line.get("error_detail", ""))
            if isinstance(line, dict)
            else str(line)
            for line in answer["content"]
        )
