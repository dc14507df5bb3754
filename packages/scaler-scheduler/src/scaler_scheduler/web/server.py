"""The server: files of the page, and a websocket for each page that is open."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError

from scaler_protocol import profile_report
from scaler_protocol.monitor.tables import TABLES
from scaler_protocol.monitor.trace import TraceBuilder, pieces_of
from scaler_scheduler.web.answers import specification
from scaler_scheduler.web.connection_limits import ConnectionLimits
from scaler_scheduler.web.operations import PageOperations
from scaler_scheduler.web.origin_check import OriginCheck
from scaler_scheduler.web.page import Page
from scaler_scheduler.web.sources import PageSource
from scaler_scheduler.web.token import REFUSAL, TokenCheck

TURN_SECONDS = 0.25
QUICK_TURNS = 4
"""Number of turns per second after which everything that is visible is looked at again."""

MESSAGE_LIMIT_BYTES = 64 * 1024
"""Limit of one message from a page."""

HEARTBEAT_SECONDS = 20.0
"""A page that does not answer for so long is gone."""

PAGES_LIMIT = 64
"""Pages that are open at a time."""

CLOSING_SECONDS = 1.0
"""Seconds that a page may take to close its connection."""

TRACE_TURN = 500
"""After so many tasks of a trace, other pages have their turn."""

_ALIVE = json.dumps({"alive": True})
"""Said when there is no news, so that a page knows old from unchanged."""

FILES = Path(__file__).parent / "static"
FLAME_FILE = Path(profile_report.__file__).with_name("flame.js")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_WRONG_HOST = (
    "This name is not one of this monitor's: use its address in numbers, or start scaler_ui with --allowed-hosts.\n"
)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class UiServer:
    """Serves one source to any number of pages."""

    def __init__(
        self, source: PageSource, origin_check: OriginCheck, token_check: TokenCheck, operations: PageOperations
    ) -> None:
        self._source = source
        self._operations = operations
        self._origin_check = origin_check
        self._token_check = token_check
        self._limits: ConnectionLimits | None = None
        self._listener: asyncio.Server | None = None
        self._open: set[_OpenPage] = set()
        hello = {"version": _fingerprint(), "tables": _tables(), "actions": operations.offer()}
        self._hello = json.dumps({"hello": hello})
        self._runner = web.AppRunner(self._application(), access_log=None, logger=_logger(), shutdown_timeout=1.0)

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, since 0 means any. OSError when that cannot be."""
        await self._runner.setup()
        assert self._runner.server is not None
        loop = asyncio.get_running_loop()
        self._limits = ConnectionLimits(loop, self._runner.server)
        self._listener = await loop.create_server(self._limits.protocol, host, port)
        return int(self._listener.sockets[0].getsockname()[1])

    async def run(self, stopped: asyncio.Event) -> None:
        """Go on until stopped. Raises what went wrong with the source: better no monitor than one that stands still."""
        turning, stopping = asyncio.create_task(self._turn()), asyncio.create_task(stopped.wait())
        await asyncio.wait((turning, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if turning.done():
            turning.result()
        turning.cancel()

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await asyncio.gather(*(page.close() for page in self._open))
        await self._runner.cleanup()

    async def _turn(self) -> None:
        number = 0
        while True:
            is_current = self._source.advance()
            number += 1
            for page in self._open:
                page.wake(quick=number % QUICK_TURNS != 0)
            await asyncio.sleep(TURN_SECONDS if is_current else 0)

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._check])
        application.on_response_prepare.append(_add_headers)
        application.router.add_get("/", _index)
        application.router.add_get("/socket", self._socket)
        application.router.add_get("/trace", self._trace)
        application.router.add_get("/flame.js", _send_flame_graph)
        application.router.add_static("/", FILES)
        return application

    @web.middleware
    async def _check(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if not self._origin_check.allows_host(request.headers.get("Host", "")):
            return _refused(421, _WRONG_HOST)
        if not self._token_check.grants(request.query, request.headers, request.cookies):
            return _refused(403, REFUSAL)
        assert self._limits is not None
        self._limits.admit(request.transport)
        response = await handler(request)
        if not response.prepared and self._token_check.shows_token(request.query, request.headers):
            response.set_cookie(
                self._token_check.cookie_name,
                self._token_check.cookie_value,
                httponly=True,
                samesite="Strict",
                path="/",
            )
        return response

    async def _trace(self, request: web.Request) -> web.StreamResponse:
        """The tasks that are kept and ran between ``start`` and ``stop``, for Perfetto."""
        try:
            start, stop = float(request.query["start"]), float(request.query["stop"])
            builder = TraceBuilder(start, stop)
        except (KeyError, ValueError, OverflowError):
            return _refused(400, "Cannot make a trace: start and stop must be seconds since 1970.\n")
        response = web.StreamResponse(headers={"Content-Disposition": 'attachment; filename="scaler-trace.json"'})
        response.content_type = "application/json"
        await response.prepare(request)
        for number, piece in enumerate(pieces_of(builder, self._source.model)):
            await response.write(piece.encode())
            if number % TRACE_TURN == 0:
                await asyncio.sleep(0)
        await response.write_eof()
        return response

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if not self._origin_check.allows_origin(request.headers.get("Origin"), request.headers.get("Host", "")):
            return _refused(403, "Only the monitor's own page may connect here.\n")
        if len(self._open) >= PAGES_LIMIT:
            return _refused(503, "Too many pages are open.\n")
        socket = web.WebSocketResponse(
            timeout=CLOSING_SECONDS, heartbeat=HEARTBEAT_SECONDS, compress=False, max_msg_size=MESSAGE_LIMIT_BYTES
        )
        await socket.prepare(request)
        await socket.send_str(self._hello)
        page = _OpenPage(socket, self._source, self._operations)
        self._open.add(page)
        try:
            await page.serve()
        finally:
            self._open.discard(page)
        return socket


class _OpenPage:
    """One websocket: what it says goes to its :class:`Page`, what that has for it goes out when it is ready for it."""

    def __init__(self, socket: web.WebSocketResponse, source: PageSource, operations: PageOperations) -> None:
        self._socket = socket
        self._source = source
        self._operations = operations
        self._operation: asyncio.Task[None] | None = None
        self._page = Page()
        self._wake = asyncio.Event()
        self._quick = True

    async def serve(self) -> None:
        sending = asyncio.create_task(self._send_until_closed())
        try:
            await self._receive()
        finally:
            ending = [sending] if self._operation is None else [sending, self._operation]
            for each in ending:
                each.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    def wake(self, quick: bool) -> None:
        self._quick &= quick
        self._wake.set()

    async def close(self) -> None:
        await self._socket.close(code=1001, message=b"scaler_ui ends")

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._page.is_behind:
                continue
            quick, self._quick = self._quick, True
            messages = self._page.push(self._source.model, self._source.status(), quick)
            if not messages and not quick and self._page.is_seen:
                messages = [_ALIVE]
            for message in messages:
                await (self._socket.send_str(message) if isinstance(message, str) else self._socket.send_bytes(message))

    async def _send_until_closed(self) -> None:
        try:
            await self._send()
        except (KeyError, ValueError, TypeError, OverflowError):
            await self._refuse()
        except ConnectionError:
            pass

    async def _receive(self) -> None:
        async for message in self._socket:
            try:
                self._take(dict(json.loads(message.data)) if message.type is WSMsgType.TEXT else {})
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                await self._refuse()

    async def _refuse(self) -> None:
        await self._socket.close(code=1008, message=b"not what a page of this monitor says")

    def _take(self, said: dict[str, Any]) -> None:
        if "seen" in said:
            self._page.saw(int(said["seen"]))
        if "watch" in said:
            self._page.watch(dict(said["watch"]))
        if "replay" in said:
            self._source.control(dict(said["replay"]))
        if "operate" in said:
            self._begin_operation(dict(said["operate"]))
        if "seen" not in said:
            self._wake.set()

    def _begin_operation(self, said: dict[str, Any]) -> None:
        """A page asks for one action at a time."""
        if self._operation is not None and not self._operation.done():
            raise ValueError("an action before the answer to the last one")
        self._operation = asyncio.create_task(self._operate(said))

    async def _operate(self, said: dict[str, Any]) -> None:
        try:
            answer = await self._operations.answer(said)
            await self._socket.send_str(json.dumps({"operated": answer}))
        except (KeyError, ValueError, TypeError, OverflowError):
            await self._refuse()
        except ConnectionError:
            pass


def _refused(status: int, text: str) -> web.Response:
    """And the connection ends: only a permitted client may keep one."""
    response = web.Response(status=status, text=text)
    response.force_close()
    return response


async def _index(request: web.Request) -> web.FileResponse:
    return web.FileResponse(FILES / "index.html")


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    response.headers.pop("Server", None)


def _logger() -> logging.Logger:
    """A client that sends an invalid request gets an error; this program's user is not notified."""
    logger = logging.getLogger(__name__)
    logger.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError)))
    return logger


def _tables() -> dict[str, Any]:
    return {name: specification(table) for name, table in TABLES.items()}


def _fingerprint() -> str:
    """Return a fingerprint of the page's files: an open page of another version loads itself again."""
    content = b"".join(path.read_bytes() for path in sorted(FILES.rglob("*")) if path.is_file())
    return f"{zlib.crc32(content):08x}"


async def _send_flame_graph(request: web.Request) -> web.StreamResponse:
    """Send the script that pages of profiles also contain."""
    return web.FileResponse(FLAME_FILE)
