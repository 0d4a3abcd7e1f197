"""What a failed task says: the message, and the runbook's entry."""

import pytest

from tideline.errors import AccessRefused, ServiceAway


@pytest.mark.parametrize(
    ("error", "raised"),
    [(AccessRefused, "AirflowFailException"), (ServiceAway, "AirflowException")],
)
def test_a_failed_task_names_the_runbook_s_entry(error, raised):
    """Whoever reads the task's log knows the page."""
    from airflow.sdk import exceptions

    from tideline.airflow.step_operators import translated_errors

    with pytest.raises(getattr(exceptions, raised)) as failed, translated_errors():
        raise error("broker:9092: no answer")
    runbook = f"tideline help {error.__name__.lower()}"
    assert str(failed.value) == f"broker:9092: no answer\nrunbook: {runbook}"
