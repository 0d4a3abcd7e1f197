"""What kafka-python needs for AWS_MSK_IAM, looked for before it connects.

The client would meet what is missing while it connects, try until its time is up, and not say it.
"""

from __future__ import annotations

from tideline.errors import ConnectionMissing


def check_msk_iam(connection: str) -> None:
    """Make sure that there are AWS' library, credentials and a region.

    Args:
        connection: Id of the Airflow connection, for messages.

    Raises:
        ConnectionMissing: One of them is missing.
    """
    try:
        from botocore.session import Session
    except ImportError:
        raise _refused(
            connection, "the Python package botocore; install it beside Tideline"
        ) from None
    session = Session()
    if not session.get_config_variable("region"):
        raise _refused(connection, "a region; set AWS_DEFAULT_REGION")
    if session.get_credentials() is None:
        raise _refused(
            connection,
            "credentials; give the process a role, or set AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY",
        )


def _refused(connection: str, lacking: str) -> ConnectionMissing:
    return ConnectionMissing(
        f"connection {connection}: extra sasl.mechanism: AWS_MSK_IAM lacks {lacking}",
        connection=connection,
        property="sasl.mechanism",
    )
