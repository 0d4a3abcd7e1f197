"""The application that Airflow's server mounts: routes, the page's own files, and headers.

It is closed: each route asks Airflow who is calling. FastAPI's own pages for the API are off, since
they are open to anybody and load their scripts from elsewhere.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tideline import __version__
from tideline.errors import BadInput, TidelineError, Transient
from tideline.page import docs
from tideline.page.routes import LOGGED_IN, everybody, readers
from tideline.page.sources import Sources

PREFIX = "/tideline"
"""Where Airflow mounts it."""
_ASSETS = Path(__file__).parent / "assets"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOG_IN = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Tideline</title></head><body>
<p>You are not logged in. <a href="{link}" target="_top">Log in to Airflow</a></p>
</body></html>
"""
files = APIRouter(dependencies=[LOGGED_IN])


@files.get("/", include_in_schema=False)
def index() -> Response:
    """The page."""
    return _file("index.html")


@files.get("/assets/{name}", include_in_schema=False)
def asset(name: str) -> Response:
    """One of the page's scripts and styles."""
    return _file(name)


@files.get("/docs/{page}", include_in_schema=False)
def page_of_docs(page: str) -> Response:
    """A page of the checkout's docs."""
    return _of_docs(page)


@files.get("/docs/{folder}/{part}", include_in_schema=False)
def part_of_docs(folder: str, part: str) -> Response:
    """A page or a picture in a folder of the docs."""
    return _of_docs(f"{folder}/{part}")


@files.get("/api/v1/openapi.json", include_in_schema=False)
def description(request: Request) -> JSONResponse:
    """The API, as OpenAPI describes it."""
    return JSONResponse(openapi(request.app))


def _file(name: str) -> Response:
    # Found among those that are there: no name of a caller's reaches the file system.
    for path in _ASSETS.iterdir():
        if path.name == name and path.suffix in _TYPES:
            return FileResponse(path, media_type=_TYPES[path.suffix])
    raise HTTPException(404, "no such file")


def _of_docs(name: str) -> Response:
    if name not in docs.names():
        raise HTTPException(404, "no such page")
    if name.endswith(".md"):
        return HTMLResponse(docs.render(name))
    return FileResponse(docs.FOLDER / name)


def openapi(app: FastAPI) -> dict[str, object]:
    """The API's description; paths begin with the prefix."""
    from tideline.contract.output_schema import published  # few ask for it

    described = get_openapi(
        title="Tideline",
        version="1",
        description="What the page shows. Every route is a GET and asks for the right to read.",
        routes=app.routes,
        servers=[{"url": PREFIX}],
    )
    return dict(published(described))


class Headers:
    """Adds the headers that keep the page in Airflow's own frame, and others out of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.lower().encode(), value.encode())
                        for name, value in _HEADERS.items()
                        if name.lower().encode() not in known
                    ),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)


def _login(request: Request) -> str:
    """Airflow's login, from where it comes back; relative, since only Airflow knows its address."""
    above = "../" * request.url.path.removeprefix(request.scope.get("root_path", "")).count("/")
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return escape(f"{above}api/v2/auth/login?next={quote(here, safe='')}")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(_LOG_IN.format(link=_login(request)), 401)
    body = {"error": "Refused", "message": str(error.detail)}
    return JSONResponse(body, error.status_code, dict(error.headers or {}))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
    return JSONResponse({"error": "BadInput", "message": problems}, 422)


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, TidelineError)
    status = 503 if isinstance(error, Transient) else 404 if isinstance(error, BadInput) else 500
    return JSONResponse({"error": type(error).__name__, "message": error.message}, status)


async def _broken(request: Request, error: Exception) -> Response:
    """What nobody has thought of; it is answered outside of `Headers`, and raised again."""
    body = {"error": "InternalError", "message": "see the log of Airflow's server"}
    return JSONResponse(body, 500, _HEADERS)


def build_app(folder: Path | None = None) -> FastAPI:
    """The application, with the stream files of a folder; None: `streams_folder` says which."""
    app = FastAPI(
        title="Tideline", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.sources = Sources(folder)
    for router in (files, everybody, readers):
        app.include_router(router)
    app.add_middleware(Headers)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(TidelineError, _failed)
    app.add_exception_handler(Exception, _broken)
    return app
