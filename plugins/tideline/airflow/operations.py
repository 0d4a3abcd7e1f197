"""Maintenance tasks: audit a stream, rewind a stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import Asset, AssetAlias, BaseOperator

from tideline.airflow.translate import translated_errors
from tideline.contract.events import build_audited_event, build_rewind_report
from tideline.errors import BadInput
from tideline.model.request import RunRequest
from tideline.operations.audit import require_clean
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.stream_files import find_stream
from tideline.wiring import open_run

REWIND_FORM: Mapping[str, type] = {
    "stream": str,
    "to_run": str,
    "reason": str,
    "accept_loss": bool,
    "confirm": str,
}
AUDIT_FORM: Mapping[str, type] = {"stream": str}


class AuditStream(BaseOperator):
    """Fails where table, ledger and broker do not agree, so that no later task runs.

    A clean audit publishes an event of the asset `tideline/<stream>/audited` with rows and table
    version, so that Dags can be scheduled on it. An alias is the outlet, since the stream may be a
    parameter of the run.

    Args:
        stream: Name of a stream in the streams folder.
        form: The keys that a run's conf may have, and their types; None: the conf is not checked.
    """

    template_fields = ("stream",)

    def __init__(
        self, *, stream: str, form: Mapping[str, type] | None = None, **arguments: Any
    ) -> None:
        self.alias = AssetAlias("tideline/audited")
        super().__init__(outlets=[self.alias], **arguments)
        self.stream = stream
        self.form = form

    def execute(self, context: Any) -> dict[str, Any]:
        """Audit; publish the event, or fail with every flaw named."""
        with translated_errors():
            if self.form is not None:
                check_form(context["dag_run"].conf or {}, self.form, needed=self.form)
            stream = find_stream(self.stream)
            with open_run(stream, "audit", RunRequest()) as run:
                audit = require_clean(run)
        event = build_audited_event(audit).data()
        audited = Asset(name=f"tideline/{stream.stream}/audited")
        context["outlet_events"][self.alias].add(audited, extra=event)
        self.log.info("clean: %s rows, table version %s", audit.rows, audit.table_version)
        return event


class RewindStream(BaseOperator):
    """Puts table and ledger of a stream back to the state after a run.

    The form's `confirm` must repeat the stream's name. Clearing the task finishes an interrupted
    rewind.
    """

    def execute(self, context: Any) -> dict[str, Any]:
        """Check the form, and rewind."""
        dag_run = context["dag_run"]
        with translated_errors():
            form = dag_run.conf or {}
            check_form(form, REWIND_FORM, needed=("stream", "to_run", "reason", "confirm"))
            if form["confirm"] != form["stream"]:
                raise BadInput(
                    f"confirm: got {form['confirm']!r}; allowed: {form['stream']!r}, the stream's"
                    " name once more. Nothing has moved"
                )
            asked = RewindRequest(
                to_run=form["to_run"],
                reason=form["reason"],
                by=str(getattr(dag_run, "triggering_user_name", None) or "airflow"),
                accept_loss=form.get("accept_loss", False),
            )
            with open_run(find_stream(form["stream"]), "rewind", RunRequest()) as run:
                rewind = rewind_stream(run, asked)
        if rewind is None:
            self.log.info("nothing to do: this is the state after run %s", asked.to_run)
        else:
            self.log.info("%s", rewind)
        return build_rewind_report(asked.to_run, rewind).data()


def check_form(
    conf: Mapping[str, Any], allowed: Mapping[str, type], needed: Collection[str]
) -> None:
    """Check a run's conf: Airflow accepts unknown keys, and checks types only in its own form.

    Raises:
        BadInput: An unknown key, a wrong type, or a required key without a value.
    """
    for key in sorted(set(conf) - set(allowed)):
        raise BadInput(f"the run's conf: {key}: unknown key; allowed: {', '.join(allowed)}")
    for key, kind in allowed.items():
        given = conf.get(key)
        if key in needed and not given:
            raise BadInput(f"the run's conf: {key}: got nothing; it is needed")
        if key in conf and not isinstance(given, kind):
            words = {str: "text", bool: "true, false"}[kind]
            raise BadInput(f"the run's conf: {key}: got {given!r}; allowed: {words}")
