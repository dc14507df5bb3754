"""Answers scrapes over HTTP: a small server for the few requests that Prometheus makes.

Each connection carries one request, within some seconds and some kilobytes. When there are too many connections, the
oldest one is closed.
"""

from __future__ import annotations

import asyncio
import gzip
import hmac
from collections.abc import Callable, Mapping
from typing import NamedTuple

CONNECTIONS_LIMIT = 64
REQUEST_SECONDS = 5.0
"""Seconds for a request, and again for its answer."""

_PIECE_BYTES = 64 * 1024
"""An answer is written in pieces of this size: a client that reads slowly makes this process keep one of them, and no
copy of an answer, which may have some tens of megabytes."""

HEAD_LIMIT_BYTES = 8192
"""Maximum size of a request's line and headers."""

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_SCHEME = "bearer "
_TEXT = "text/plain; charset=utf-8"


class HttpRequest(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    """The headers by name in lower case."""


class HttpResponse(NamedTuple):
    status: int
    body: bytes = b""
    content_type: str = _TEXT
    headers: tuple[str, ...] = ()


Render = Callable[[str], tuple[bytes, str]]
"""A function from an Accept header to the metrics and their content type."""


class Figures:
    """The answers. ``read_token``: the token that a request for the figures must carry; None: it needs none; OSError or
    ValueError: no request gets any figures."""

    def __init__(self, render: Render, is_up: Callable[[], bool], read_token: Callable[[], bytes | None]) -> None:
        self._render = render
        self._is_up = is_up
        self._read_token = read_token

    def answer(self, request: HttpRequest) -> HttpResponse:
        if request.path not in ("/metrics", "/healthz"):
            return HttpResponse(404, b"There is /metrics and /healthz.\n")
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(405, b"Only GET is answered.\n", headers=("Allow: GET, HEAD",))
        if request.path == "/healthz":
            return HttpResponse(200, b"ok\n") if self._is_up() else HttpResponse(503, b"The scheduler is silent.\n")
        if not self._is_admitted(request.headers.get("authorization", "")):
            return HttpResponse(401, b"Show the bearer token.\n", headers=('WWW-Authenticate: Bearer realm="scaler"',))
        return self._figures(request)

    def _is_admitted(self, authorization: str) -> bool:
        try:
            token = self._read_token()
        except (OSError, ValueError):
            return False
        if token is None:
            return True
        shown = authorization[len(_SCHEME) :].strip() if authorization.lower().startswith(_SCHEME) else ""
        return bool(token) and hmac.compare_digest(shown.encode("latin-1", "replace"), token)

    def _figures(self, request: HttpRequest) -> HttpResponse:
        body, content_type = self._render(request.headers.get("accept", ""))
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return HttpResponse(200, body, content_type)
        return HttpResponse(200, gzip.compress(body, 1), content_type, ("Content-Encoding: gzip",))


def parse(head: bytes) -> HttpRequest | None:
    """Parse the bytes up to the empty line; None: it is not a request."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[1].startswith("/"):
        return None
    pairs = (line.partition(":") for line in lines)
    return HttpRequest(
        parts[0], parts[1].partition("?")[0], {name.strip().lower(): value.strip() for name, _, value in pairs}
    )


class HttpServer:
    def __init__(self, answer: Callable[[HttpRequest], HttpResponse]) -> None:
        self._answer = answer
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """The port, since 0 means any. OSError when that cannot be."""
        self._listener = await asyncio.start_server(self._serve, host, port, limit=HEAD_LIMIT_BYTES)
        return int(self._listener.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_LIMIT:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            async with asyncio.timeout(REQUEST_SECONDS) as limit:
                await self._converse(reader, writer, limit)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._open.pop(writer, None)
            writer.close()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: asyncio.Timeout
    ) -> None:
        try:
            request = parse(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            await _send(writer, HttpResponse(431), with_body=True)
            return
        answer = self._answer(request) if request is not None else HttpResponse(400)
        limit.reschedule(asyncio.get_running_loop().time() + REQUEST_SECONDS)
        await _send(writer, answer, with_body=request is None or request.method != "HEAD")


async def _send(writer: asyncio.StreamWriter, answer: HttpResponse, with_body: bool) -> None:
    lines = [
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *answer.headers,
    ]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
    body = memoryview(answer.body if with_body else b"")
    for start in range(0, len(body), _PIECE_BYTES):
        writer.write(body[start : start + _PIECE_BYTES])
        await writer.drain()
    writer.close()
    await writer.wait_closed()
