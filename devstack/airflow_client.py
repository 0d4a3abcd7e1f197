"""The calls of Airflow's REST API that the demo and the tests make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from airflow_client.client import ApiClient
from airflow_client.client.api.asset_api import AssetApi
from airflow_client.client.api.backfill_api import BackfillApi
from airflow_client.client.api.dag_api import DAGApi
from airflow_client.client.api.dag_parsing_api import DAGParsingApi
from airflow_client.client.api.dag_run_api import DagRunApi
from airflow_client.client.api.monitor_api import MonitorApi
from airflow_client.client.api.task_instance_api import TaskInstanceApi
from airflow_client.client.models.backfill_post_body import BackfillPostBody
from airflow_client.client.models.clear_task_instances_body import ClearTaskInstancesBody
from airflow_client.client.models.clear_task_instances_body_task_ids_inner import (
    ClearTaskInstancesBodyTaskIdsInner,
)
from airflow_client.client.models.dag_patch_body import DAGPatchBody
from airflow_client.client.models.reprocess_behavior import ReprocessBehavior
from airflow_client.client.models.trigger_dag_run_post_body import TriggerDAGRunPostBody
from airflow_client.client.models.update_hitl_detail_payload import UpdateHITLDetailPayload
from pydantic import BaseModel

from devstack.airflow_api import AirflowApi
from devstack.process import wait_until
from tideline.errors import ServiceAway

Api = TypeVar("Api")
Data = dict[str, Any]

_SERVICES = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_ENDED = ("success", "failed")
_NOT_MAPPED = -1
"""Map index of a task that is not mapped."""


class AirflowClient:
    """A user of one Airflow; logs in with the first call that needs it.

    Answers are dictionaries with the keys of the REST API; times are ISO 8601 texts.

    Args:
        url: Address of the API server.
        username: A user of the simple auth manager.
        password: The user's password.
        scheduler_logs: Output files of the schedulers. Nothing else tells which ends of tasks a
            scheduler has processed.

    Every method raises `ServiceAway` when Airflow does not answer or refuses; the message holds the
    HTTP status and the answer's body.
    """

    def __init__(
        self, url: str, username: str, password: str, scheduler_logs: Sequence[Path] = ()
    ) -> None:
        self._login = (username, password)
        self._scheduler_logs = scheduler_logs
        self._client = AirflowApi(url)

    def api(self, kind: Callable[[ApiClient], Api]) -> Api:
        """One of the client's own APIs, logged in: for calls that a single test needs.

        Args:
            kind: Its class, for example `airflow_client.client.api.job_api.JobApi`.
        """
        if not self._client.is_logged_in:
            self._client.log_in(*self._login)
        return kind(self._client)

    def is_answering(self) -> bool:
        """Whether the API server answers; needs no login."""
        try:
            MonitorApi(self._client).get_health()
        except ServiceAway:
            return False
        return True

    def is_healthy(self) -> bool:
        """Whether every service has sent a heartbeat lately; needs no login."""
        try:
            health = MonitorApi(self._client).get_health()
        except ServiceAway:
            return False
        services = (getattr(health, name) for name in _SERVICES)
        return all(service is not None and service.status == "healthy" for service in services)

    def wait_for_dag(self, dag_id: str, timeout_seconds: float = 90) -> None:
        """Wait until the Dag has been parsed; files that are known already are parsed at once."""

        def is_parsed() -> bool:
            answer = self.api(DAGApi).get_dags(dag_id_pattern=dag_id)
            return any(dag.dag_id == dag_id for dag in answer.dags)

        if not is_parsed():
            self._parse_soon()
        wait_until(is_parsed, f"Dag {dag_id} is not parsed", timeout_seconds, every_seconds=0.5)

    def dags(self) -> list[str]:
        """Ids of the Dags, a hundred at most."""
        return [dag.dag_id for dag in self.api(DAGApi).get_dags(limit=100).dags]

    def _parse_soon(self) -> None:
        """Ask for every Dag file that Airflow knows to be parsed without waiting for its turn."""
        dags = self.api(DAGApi).get_dags(limit=100).dags
        for token in sorted({dag.file_token for dag in dags}):
            self.api(DAGParsingApi).reparse_dag_file(token)

    def pause(self, dag_id: str, paused: bool) -> None:
        """Stop or start scheduling of a Dag."""
        self.api(DAGApi).patch_dag(dag_id, DAGPatchBody(is_paused=paused))

    def trigger(self, dag_id: str, run_id: str, conf: Data | None = None) -> None:
        """Create a manual run without a logical date."""
        body = TriggerDAGRunPostBody(dag_run_id=run_id, logical_date=None, conf=conf or {})
        self.api(DagRunApi).trigger_dag_run(dag_id, body)

    def run(self, dag_id: str, run_id: str) -> Data:
        """One run."""
        return _data(self.api(DagRunApi).get_dag_run(dag_id, run_id))

    def runs(self, dag_id: str) -> list[Data]:
        """Runs in the order in which they were queued, a thousand at most."""
        answer = self.api(DagRunApi).get_dag_runs(dag_id, limit=1000)
        return sorted(map(_data, answer.dag_runs), key=lambda run: str(run["queued_at"]))

    def tasks(self, dag_id: str, run_id: str) -> dict[str, Data]:
        """Task instances of a run by task id."""
        answer = self.api(TaskInstanceApi).get_task_instances(dag_id, run_id)
        return {task.task_id: _data(task) for task in answer.task_instances}

    def clear(self, dag_id: str, run_id: str, task_ids: list[str]) -> None:
        """Clear tasks of a run and everything downstream of them, so that they run again."""
        body = ClearTaskInstancesBody(
            dry_run=False,
            only_failed=False,
            include_downstream=True,
            dag_run_id=run_id,
            task_ids=[ClearTaskInstancesBodyTaskIdsInner(task_id) for task_id in task_ids],
        )
        self.api(TaskInstanceApi).post_clear_task_instances(dag_id, body)

    def backfill(
        self,
        dag_id: str,
        start: datetime,
        end: datetime,
        *,
        at_once: int = 1,
        reprocess: str = "none",
        conf: Data | None = None,
    ) -> int:
        """Create a backfill of the schedule's intervals in `[start, end]`; its id.

        Args:
            dag_id: A Dag with a schedule.
            start: First logical date that counts.
            end: Last logical date that counts, included.
            at_once: How many runs may be active.
            reprocess: What happens to runs that exist: `none`, `failed` or `completed`.
            conf: Of the runs; it takes the place of what those had that exist.
        """
        body = BackfillPostBody(
            dag_id=dag_id,
            from_date=start,
            to_date=end,
            max_active_runs=at_once,
            reprocess_behavior=ReprocessBehavior(reprocess),
            run_backwards=False,
            dag_run_conf=conf or {},
        )
        return self.api(BackfillApi).create_backfill(body).id

    def wait_for_backfill(self, backfill_id: int, timeout_seconds: float = 600) -> None:
        """Wait until a backfill is complete, however its runs ended."""

        def is_complete() -> bool:
            return self.api(BackfillApi).get_backfill(backfill_id).completed_at is not None

        wait_until(is_complete, f"backfill {backfill_id} is not complete", timeout_seconds, 1.0)

    def wait_for_run(self, dag_id: str, run_id: str, timeout_seconds: float = 300) -> str:
        """Wait until a run has ended; its state, `success` or `failed`."""

        def state() -> str:
            return str(self.run(dag_id, run_id)["state"])

        wait_until(
            lambda: state() in _ENDED, f"{dag_id} {run_id} has not ended", timeout_seconds, 0.5
        )
        return state()

    def wait_for_question(
        self,
        dag_id: str,
        run_id: str,
        task_id: str = "resolve_reset",
        timeout_seconds: float = 120,
        *,
        times: int = 1,
    ) -> Data:
        """Wait until a task waits for a person's answer; its form.

        Args:
            dag_id: Which Dag.
            run_id: Which run of it.
            task_id: Which task of the run.
            timeout_seconds: How long.
            times: How often this try has asked then, if an answer did not count.

        Airflow 3.3 fails the task's try if the answer comes before the scheduler has processed the
        end of the process that asked. So this waits for the scheduler, too.
        """

        def is_waiting() -> bool:
            task = self.tasks(dag_id, run_id)[task_id]
            return task["state"] == "awaiting_input" and self._scheduler_processed_ends(task, times)

        wait_until(is_waiting, f"{dag_id} {run_id} {task_id} does not ask", timeout_seconds, 0.5)
        api = self.api(TaskInstanceApi)
        return _data(api.get_hitl_detail(dag_id, run_id, task_id, _NOT_MAPPED))

    def _scheduler_processed_ends(self, task: Data, times: int) -> bool:
        """Whether schedulers have logged that processes of a task's try have ended well."""
        key = (
            f"dag_id='{task['dag_id']}', task_id='{task['task_id']}',"
            f" run_id='{task['dag_run_id']}', try_number={task['try_number']}"
        )
        event = f"event with state success for task instance TaskInstanceKey({key},"
        logged = (log.read_text(errors="replace") for log in self._scheduler_logs)
        return sum(text.count(event) for text in logged) >= times

    def answer(
        self,
        dag_id: str,
        run_id: str,
        options: list[str],
        comment: str,
        task_id: str = "resolve_reset",
    ) -> None:
        """Answer a task's form."""
        body = UpdateHITLDetailPayload(chosen_options=options, params_input={"comment": comment})
        api = self.api(TaskInstanceApi)
        api.update_hitl_detail(dag_id, run_id, task_id, _NOT_MAPPED, body)

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """The log of one try of a task as text, with the tracebacks; tries count from 1.

        Reads the JSON itself: the client's model of a log line drops all fields but two.
        """
        answer = self.api(TaskInstanceApi).get_log_without_preload_content(
            dag_id, run_id, task_id, try_number, full_content=True
        )
        return "\n".join(
            str(line.get("event", line)) + str(line.get("error_detail", ""))
            if isinstance(line, dict)
            else str(line)
            for line in answer.json()["content"]
        )

    def upstream_events(self, dag_id: str, run_id: str) -> list[Data]:
        """Asset events that have started a run, with what was told with them."""
        answer = self.api(DagRunApi).get_upstream_asset_events(dag_id, run_id)
        return [_data(event) for event in answer.asset_events]

    def events_of(self, asset: str) -> list[Data]:
        """All events of the assets whose names begin so."""
        answer = self.api(AssetApi).get_asset_events(name_prefix_pattern=asset)
        return [_data(event) for event in answer.asset_events]

    def asset_events(self, dag_id: str) -> list[Data]:
        """Asset events that a Dag's runs have published."""
        answer = self.api(AssetApi).get_asset_events(source_dag_id=dag_id)
        return [_data(event) for event in answer.asset_events]


def _data(model: BaseModel) -> Data:
    return model.model_dump(mode="json", by_alias=True)
