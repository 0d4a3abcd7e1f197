"""The end of a warm driver: who waits for its JVM, and who for the archive of its classes."""

import socket
import threading

import pytest

import local_driver
from tideline.launch.local_driver import end_drivers

SECONDS = 20


class Jvm:
    """Ends at once; whoever tidies up after it sees whether the client still waits."""

    is_alive = True

    def __init__(self, client, patience):
        self._client = client
        self._patience = patience
        self.was_waited_for = None

    def end(self):
        return 0

    def tidy(self, *, has_worked):
        assert has_worked is False
        self._client.join(self._patience)
        self.was_waited_for = self._client.is_alive()


class Driver(local_driver.Driver):
    """Has no Spark."""

    def _start_session(self):
        """It would be started here."""

    def _listen_to_jvm(self):
        """It would be asked here."""


@pytest.mark.parametrize("archived", [True, False])
def test_an_archive_is_waited_for_where_that_is_asked_for(monkeypatch, tmp_path, archived):
    """A stack that stops does not: the archive takes half a minute, and lies elsewhere."""
    address = tmp_path / "one.socket"
    arguments = {"folder": tmp_path, "seconds": 1 if archived else SECONDS, "archived": archived}
    client = threading.Thread(target=end_drivers, kwargs=arguments)
    jvm = Jvm(client, patience=0.3 if archived else SECONDS)
    monkeypatch.setattr(local_driver, "Jvm", lambda *_, **__: jvm)
    monkeypatch.setattr(local_driver.signal, "signal", lambda *_: None)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        client.start()
        Driver(listener, address, "local[1]", None).serve()
    assert jvm.was_waited_for is archived
    client.join()
