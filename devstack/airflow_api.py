"""Airflow's own REST client with a login, a time limit and Tideline's errors.

`apache-airflow-client` is generated from the API of the Airflow release with the same number. It
brings paths, request bodies and answers. It has no login: the address for a token belongs to the
auth manager and is not part of the described API.
"""

from __future__ import annotations

from typing import Any

from airflow_client.client import ApiClient, Configuration
from airflow_client.client.exceptions import OpenApiException
from airflow_client.client.rest import RESTResponse
from urllib3.exceptions import HTTPError

from tideline.errors import ServiceAway

_TIMEOUT_SECONDS = 180.0
"""The API server answers nobody while it serves its first task: a minute on a busy machine."""


class AirflowApi(ApiClient):
    """Airflow's client for one API server.

    Args:
        url: Address of the API server.
    """

    def __init__(self, url: str) -> None:
        # urllib3 would repeat a refused connection three times; callers wait on conditions instead.
        super().__init__(Configuration(host=url, retries=False))

    def call_api(
        self,
        method: str,
        url: str,
        header_params: Any = None,
        body: Any = None,
        post_params: Any = None,
        _request_timeout: Any = None,
    ) -> RESTResponse:
        """Send one request; every method of the generated APIs ends up here.

        Raises:
            ServiceAway: No answer, or one with a status from 400 on.
        """
        try:
            answer = super().call_api(
                method, url, header_params, body, post_params, _request_timeout or _TIMEOUT_SECONDS
            )
            text = answer.response.data.decode(errors="replace")
        except (OpenApiException, HTTPError) as error:
            raise ServiceAway(f"{method} {url}: no answer from Airflow: {error}") from error
        if answer.status >= 400:
            raise ServiceAway(f"{method} {url}: Airflow answers {answer.status}: {text[:500]}")
        return answer

    @property
    def is_logged_in(self) -> bool:
        """Whether requests carry a token."""
        return self.configuration.access_token is not None

    def log_in(self, username: str, password: str) -> None:
        """Get a token for later requests.

        Raises:
            ServiceAway: Airflow does not answer, or refuses the login.
        """
        login = {"username": username, "password": password}
        headers = {"Content-Type": "application/json"}
        answer = self.call_api("POST", f"{self.configuration.host}/auth/token", headers, login)
        self.configuration.access_token = answer.response.json()["access_token"]
