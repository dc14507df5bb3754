"""The server of metrics, and clients that read slowly."""

from __future__ import annotations

import asyncio

import pytest

from scaler_scheduler.metrics import http
from scaler_scheduler.metrics.http import HttpRequest, HttpResponse, HttpServer

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"


async def open_to(server: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST)
    return reader, writer


def kept_bytes(server: HttpServer) -> int:
    """Return how much the connections keep that their clients have not taken yet."""
    return sum(each.transport.get_write_buffer_size() for each in server._open)


def test_a_client_that_reads_slowly_costs_little_memory_and_gets_everything() -> None:
    body = bytes(range(256)) * 100_000

    async def read_slowly() -> None:
        server = HttpServer(lambda request: HttpResponse(200, body))
        reader, writer = await open_to(server)
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        assert 0 < kept_bytes(server) < 256 * 1024
        assert (await reader.read()).endswith(b"\r\n\r\n" + body)
        writer.close()
        server.close()

    asyncio.run(read_slowly())


def test_the_time_to_make_an_answer_does_not_count_as_time_to_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines = []
    real = asyncio.Timeout.reschedule

    def note(limit: asyncio.Timeout, when: float | None) -> None:
        deadlines.append(when)
        real(limit, when)

    async def ask() -> None:
        made_at = []

        def answer(request: HttpRequest) -> HttpResponse:
            made_at.append(asyncio.get_running_loop().time())
            return HttpResponse(200, b"figures")

        server = HttpServer(answer)
        reader, writer = await open_to(server)
        assert (await reader.read()).endswith(b"figures")
        assert deadlines[-1] >= made_at[0] + http.REQUEST_SECONDS
        writer.close()
        server.close()

    monkeypatch.setattr(asyncio.Timeout, "reschedule", note)
    asyncio.run(ask())
