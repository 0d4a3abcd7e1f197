"""Confluent's registry API over HTTP: what Confluent, Apicurio, Karapace and Redpanda serve.

Requests, all of them GET:

    /schemas/ids/{id}/versions              what it is registered as
    /schemas/ids/{id}                       the text of an id, its type and its references
    /subjects/{subject}/versions/latest
    /subjects/{subject}/versions/{version}  what a reference stands for

Both get `?subject=` where the subject is of one of Confluent's contexts, as `:.dev:orders-value`.

A 404 says that an id or a subject is unknown only if it carries the API's own error code: a wrong
path is answered 404, too, and would put every record into quarantine.
"""

from __future__ import annotations

import json
import ssl
from types import TracebackType
from typing import Any, Literal
from urllib.parse import quote

import httpx

from tideline.bounded_http import AnswerTooLarge, AnswerTooSlow, Http, origin
from tideline.errors import RegistryAway, RegistryMisused, RegistryRefused, TidelineError
from tideline.model.decoding import WriterSchema, context_of
from tideline.registry.references import Document, Unresolvable, resolved
from tideline.registry.registry_connection import RegistrySettings
from tideline.registry.registry_port import FORMATS, SchemaUnreadable, SubjectVersion
from tideline.texts import one_line

ANSWER_SECONDS = 10.0
LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
MOST_REFERENCES = 200
"""Schemas that one may refer to, all levels together."""
_UNKNOWN_SUBJECT, _UNKNOWN_VERSION, _UNKNOWN_SCHEMA = 40401, 40402, 40403
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
Cause = Literal["authentication", "authorization", "certificate", "protocol"]
_ADVICE: dict[Cause, str] = {
    "authentication": "correct login and password, or the token, in the connection",
    "authorization": "grant the connection's user the right to read subjects and schemas",
    "certificate": "correct ca, certificate or key in the connection's extra, and use the host name"
    " of the registry's certificate",
    "protocol": "correct schema (http or https) or port in the connection",
}
_PASSING = (408, 425, 429)
"""With every 5xx: the registry may answer otherwise later (RFC 9110, section 15.5)."""
_OTHER_PROTOCOL = (
    "HTTP_REQUEST",
    "RECORD_LAYER_FAILURE",
    "TLSV1_ALERT_PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "WRONG_VERSION_NUMBER",
)
"""OpenSSL's reasons for a peer without TLS, or with another version of it."""
_LONGEST_MESSAGE = 1_500
_LONGEST_SUBJECT = 2_000
_NO_SEGMENTS = (".", "..")
"""No address can name these: they stand for other places of a path (RFC 3986, section 3.3)."""


class SchemaRegistry:
    """`RegistryPort` on a real registry; a context manager that closes its connections.

    Args:
        settings: Where it is, and how to log in.
        answer_seconds: How long an answer may take, from the request to its last byte.

    Raises:
        RegistryRefused: A certificate or a key cannot be used.
    """

    def __init__(self, settings: RegistrySettings, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._settings = settings
        self._http = http_of(settings, answer_seconds, _ACCEPT)

    def __enter__(self) -> SchemaRegistry:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def schema(self, schema_id: int, version: SubjectVersion) -> WriterSchema | None:
        """The schema of an id; None if the registry does not know it."""
        asked = "&".join(_context(version.subject))
        path = f"/schemas/ids/{schema_id}{'?' if asked else ''}{asked}"
        answer = self._ask(path, _UNKNOWN_SCHEMA)
        return None if answer is None else self._whole(answer, schema_id, version)

    def subjects_of(self, schema_id: int, subject: str) -> tuple[SubjectVersion, ...]:
        """Everything that an id is registered as, deleted versions included, by name."""
        path = f"/schemas/ids/{schema_id}/versions"
        asked = "&".join(("deleted=true", *_context(subject)))
        answer = self._ask(f"{path}?{asked}", _UNKNOWN_SCHEMA)
        if answer is None:
            return ()
        if not isinstance(answer, list):
            raise _misused(self._settings, f"{path}: no list of versions")
        return tuple(sorted(self._version(item, path) for item in answer))

    def latest(self, subject: str) -> tuple[SubjectVersion, WriterSchema]:
        """The newest version of a subject that is not deleted."""
        path = f"{self._versions_of(subject)}/latest"
        answer = self._ask(path, _UNKNOWN_SUBJECT, _UNKNOWN_VERSION)
        if answer is None:
            raise _misused(
                self._settings, f"it does not know the subject {subject}", subject=subject
            )
        version = self._version(answer, path)
        schema_id = answer.get("id")
        if not isinstance(schema_id, int):
            raise _misused(self._settings, f"{path}: no id")
        return version, self._whole(answer, schema_id, version)

    def _whole(self, answer: Any, schema_id: int, version: SubjectVersion) -> WriterSchema:
        try:
            return resolved(self._document(answer, {}), schema_id, str(version))
        except Unresolvable as error:
            raise _unreadable(str(error)) from error

    def _document(self, answer: Any, known: dict[SubjectVersion, Document | None]) -> Document:
        """A schema and what it refers to, all levels.

        Args:
            known: Those that were asked for already; None while one is not complete.
        """
        answer = answer if isinstance(answer, dict) else {}
        text, references = answer.get("schema"), answer.get("references") or []
        kind = answer.get("schemaType") or "AVRO"
        if not isinstance(text, str) or not isinstance(references, list):
            raise _unreadable("the registry's answer holds no schema")
        if kind not in FORMATS:
            raise _unreadable(f"it has type {kind!r}; allowed: {', '.join(FORMATS)}")
        others = []
        for reference in references:
            target = _version(reference)
            if target is None:
                raise _unreadable("a reference names no subject with a version")
            if target not in known:
                known[target] = None
                if len(known) > MOST_REFERENCES:
                    raise _unreadable(f"it has more than {MOST_REFERENCES} references")
                known[target] = self._document(self._referred(target), known)
            document = known[target]
            if document is None:
                raise _unreadable(f"it refers to {target} in a circle")
            others.append((str(reference.get("name")), document))
        return Document(FORMATS[kind], text, tuple(others))

    def _referred(self, target: SubjectVersion) -> Any:
        if target.subject in _NO_SEGMENTS or len(target.subject) > _LONGEST_SUBJECT:
            raise _unreadable(f"it refers to {target}, which no address can name")
        path = f"{self._versions_of(target.subject)}/{target.version}?deleted=true"
        answer = self._ask(path, _UNKNOWN_SUBJECT, _UNKNOWN_VERSION)
        if answer is None:
            raise _unreadable(f"it refers to {target}, which is not there")
        return answer

    def _versions_of(self, subject: str) -> str:
        if subject in _NO_SEGMENTS:
            allowed = "any other name"
            raise _misused(self._settings, f"a subject is named {subject!r}; allowed: {allowed}")
        return f"/subjects/{quote(subject, safe='')}/versions"

    def _version(self, item: Any, where: str) -> SubjectVersion:
        if (found := _version(item)) is None:
            raise _misused(self._settings, f"{where}: no subject with a version")
        return found

    def _ask(self, path: str, *unknown: int) -> Any:
        """The answer's JSON; None for a 404 with one of these error codes."""
        settings = self._settings
        try:
            found = self._http.ask(path, LARGEST_ANSWER_BYTES)
        except AnswerTooLarge as error:
            raise _unreadable(f"{path}: {error}") from None
        except AnswerTooSlow as error:
            raise _away(settings, f"{path}: {error}") from None
        except httpx.HTTPError as error:
            raise _by_error(settings, path, error) from None
        except httpx.InvalidURL as error:
            raise _misused(
                settings, f"{settings.without_secrets(path)}: no address: {error}"
            ) from None
        if found.target is not None:
            told_target = settings.without_secrets(found.target)
            target = f"{path} is redirected to {told_target}, which is not followed"
            raise _misused(settings, target)
        status = found.status
        try:
            answer = json.loads(found.body)
        except (ValueError, RecursionError):
            if status != 200:
                raise _by_status(settings, path, status, found.body) from None
            raise _misused(settings, f"{path}: the answer is no JSON") from None
        if status == 200:
            return answer
        code = answer.get("error_code") if isinstance(answer, dict) else None
        if status == 404 and code in unknown:
            return None
        raise _by_status(settings, path, status, found.body)


def _version(item: Any) -> SubjectVersion | None:
    if isinstance(item, dict):
        subject, version = item.get("subject"), item.get("version")
        if isinstance(subject, str) and isinstance(version, int):
            return SubjectVersion(subject, version)
    return None


def _context(subject: str) -> tuple[str, ...]:
    """The question that leads to another context than the default one; nothing for that."""
    return (f"subject={quote(subject, safe='')}",) if context_of(subject) else ()


def http_of(settings: RegistrySettings, seconds: float, accept: str) -> Http:
    """A client of what a connection names.

    Args:
        seconds: How long an answer may take.
        accept: Which kinds of answers.
    """
    headers = {"Accept": accept}
    if settings.token is not None:
        headers["Authorization"] = f"Bearer {settings.token}"
    login = (settings.login, settings.password or "") if settings.login else None
    by_proxy = not settings.tells_in_clear
    return Http(settings.url, seconds, headers, _trust(settings), login, by_proxy=by_proxy)


def _trust(settings: RegistrySettings) -> ssl.SSLContext:
    """What to trust, and the client's own certificate."""
    try:
        context = ssl.create_default_context(cafile=settings.ca)
        if not settings.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if settings.certificate is not None:
            # Without a password: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(settings.certificate, settings.key, password="")
    except (OSError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise _refused(settings, "certificate", what) from None
    return context


def _by_status(settings: RegistrySettings, asked: str, status: int, body: bytes) -> TidelineError:
    """The error that an answer other than 200 stands for."""
    text = settings.without_secrets(body.decode(errors="replace"))
    what = f"{asked} was answered {status}: {text}"
    if status in _PASSING or status >= 500:
        return _away(settings, what)
    if status == 401:
        return _refused(settings, "authentication", what)
    if status == 403:
        return _refused(settings, "authorization", what)
    return _misused(settings, what)


def _by_error(settings: RegistrySettings, asked: str, error: httpx.HTTPError) -> TidelineError:
    """The error that a failed exchange stands for.

    A certificate that does not verify, a TLS alert, and an answer that is not HTTP are final.
    Everything else may pass: a connection that is cut says nothing, since the registry may be
    restarting.
    """
    what = f"{asked}: {type(error).__name__}: {settings.without_secrets(str(error))}"
    if isinstance(error, httpx.RemoteProtocolError) and "illegal status line" in str(error):
        return _refused(settings, "protocol", what)
    beneath = origin(error)
    reason = (beneath.reason or "") if isinstance(beneath, ssl.SSLError) else ""
    if reason in _OTHER_PROTOCOL:
        return _refused(settings, "protocol", what)
    is_alert = "_ALERT_" in reason and "INTERNAL_ERROR" not in reason  # about this connection only
    if is_alert or isinstance(beneath, ssl.SSLCertVerificationError):
        return _refused(settings, "certificate", what)
    return _away(settings, what)


def _away(settings: RegistrySettings, what: str) -> RegistryAway:
    return RegistryAway(
        f"{_where(settings)}: {_cut(what)}; what has landed stays, try again when it is back",
        connection=settings.connection,
        url=settings.url,
    )


def _refused(settings: RegistrySettings, cause: Cause, what: str) -> RegistryRefused:
    return RegistryRefused(
        f"{_where(settings)} refuses it: {cause}: {_cut(what)}; {_ADVICE[cause]}, then run again."
        " What has landed stays",
        connection=settings.connection,
        url=settings.url,
        cause=cause,
    )


def _misused(settings: RegistrySettings, what: str, **facts: object) -> RegistryMisused:
    return RegistryMisused(
        f"{_where(settings)}: {_cut(what)}. Correct the connection's host, port and path, or the"
        " stream file; what has landed stays",
        connection=settings.connection,
        url=settings.url,
        **facts,
    )


def _unreadable(what: str) -> SchemaUnreadable:
    return SchemaUnreadable(_cut(what))


def _where(settings: RegistrySettings) -> str:
    return f"connection {settings.connection}: the schema registry at {settings.url}"


def _cut(what: str) -> str:
    """A text with names of the registry's in it, which may be of any length."""
    end = " ..." if len(what) > _LONGEST_MESSAGE else ""
    return one_line(what, _LONGEST_MESSAGE) + end
