"""What providers of machines answer when they take a machine back, by servers that answer as theirs do."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import StreamRequestHandler, TCPServer
from types import SimpleNamespace

import pytest

from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.turn_guard import TurnGuard
from scaler_protocol.messages import Withdrawn
from scaler_worker.core.draining import FAREWELL_SECONDS
from scaler_worker.core.effects import Exit
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.manager.core.jobs import Job, JobState
from scaler_worker.manager.core.manager import ManagerCore
from scaler_worker.manager.shell.local import LocalBackend
from scaler_worker.shell import termination_watch
from scaler_worker.termination_notice import STOPPED_CODE, amazon, azure, google
from tests.unit.worker.playbook import Stage, run_of

Answer = Callable[[BaseHTTPRequestHandler], str | None]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """``answer`` returns the body of an answer, or None for 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answer(self)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode())

        do_PUT = do_GET

        def log_message(self, *arguments: object) -> None:
            """Not in the output of tests."""

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            thread.join()


@pytest.mark.parametrize("is_announced", [False, True])
def test_amazon(is_announced: bool) -> None:
    def answer(request: BaseHTTPRequestHandler) -> str | None:
        if request.path == "/latest/api/token":
            return "secret" if request.command == "PUT" else None
        assert request.headers["X-aws-ec2-metadata-token"] == "secret"
        assert request.path == "/latest/meta-data/spot/instance-action"
        return json.dumps({"action": "terminate", "time": "2026-05-01T12:00:00Z"}) if is_announced else None

    with server(answer) as address:
        assert amazon(address) is is_announced


@pytest.mark.parametrize("is_announced", [False, True])
def test_google(is_announced: bool) -> None:
    def answer(request: BaseHTTPRequestHandler) -> str | None:
        assert request.headers["Metadata-Flavor"] == "Google"
        return str(is_announced).upper() if request.path == "/computeMetadata/v1/instance/preempted" else None

    with server(answer) as address:
        assert google(address) is is_announced


@pytest.mark.parametrize(("kind", "is_announced"), [("Preempt", True), ("Terminate", True), ("Reboot", False)])
def test_azure(kind: str, is_announced: bool) -> None:
    def answer(request: BaseHTTPRequestHandler) -> str | None:
        assert request.headers["Metadata"] == "true" and request.path.startswith("/metadata/scheduledevents?")
        return json.dumps({"DocumentIncarnation": 1, "Events": [{"EventType": kind, "EventStatus": "Scheduled"}]})

    with server(answer) as address:
        assert azure(address) is is_announced
    with server(lambda request: '{"DocumentIncarnation": 1, "Events": []}') as address:
        assert not azure(address)


@pytest.mark.parametrize("answer", ["null", "[]", '{"Events": null}', '{"Events": {}}', '{"Events": [null, 1]}'])
def test_azure_answers_something_else(answer: str) -> None:
    with server(lambda request: answer) as address:
        assert not azure(address)


def test_a_watch_goes_on_after_answers_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination_watch, "POLL_SECONDS", 0.0)
    answers = iter([b"garbage\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[", b"", _with_body(b"[" * 60_000)])
    last = _with_body(b'{"Events": [{"EventType": "Preempt"}]}')

    async def run() -> None:
        announced = asyncio.Event()
        loop = GuardedLoop(asyncio.get_running_loop(), TurnGuard("Test"))
        watch = termination_watch.TerminationWatch(loop, lambda: azure(address), announced.set)
        watch.begin()
        await asyncio.wait_for(announced.wait(), 30)
        watch.end()

    with raw_server(lambda: next(answers, last)) as address:
        asyncio.run(run())


def _with_body(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@contextmanager
def raw_server(answer: Callable[[], bytes]) -> Iterator[str]:
    """Sends these bytes to whoever connects, after the request, and closes the connection."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer())

    with TCPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_address[1]}"
        finally:
            listening.shutdown()
            thread.join()


def test_an_agent_returns_what_waits_and_leaves_when_its_tasks_have_ended() -> None:
    stage = Stage(1)
    stage.give(run_of(3, first=1))
    stage.core.on_termination_notice(stage.now)
    stage.turn()
    assert any(each.leaving for each in stage.bodies(Withdrawn))


def test_the_exit_code_after_a_notice_tells_a_manager_to_replace_the_workers() -> None:
    for is_noticed, code in ((True, STOPPED_CODE), (False, 0)):
        stage = Stage(1)
        leave = stage.core.on_termination_notice if is_noticed else stage.core.on_stop
        leave(stage.now)
        stage.turn()
        stage.pass_time(FAREWELL_SECONDS + 1)
        assert [each.code for each in stage.effects if isinstance(each, Exit)] == [code]


def test_a_manager_on_the_machine_that_is_taken_back_starts_nothing_more() -> None:
    backend = LocalBackend(ManagerSettings(kind="local", address="tcp://127.0.0.1:1"))
    ended = SimpleNamespace(exit_code=STOPPED_CODE, wait_ready=lambda seconds: {}, join=lambda: None)
    backend._children["7"] = ended, 2  # type: ignore[assignment]
    assert backend.list() == [Job("7", 2, JobState.EVICTED)]


@pytest.mark.parametrize("maximum", [None, 4])
def test_that_manager_ends_also_if_it_follows_the_load(maximum: int | None) -> None:
    core = ManagerCore(2, maximum)
    core.take_effects(0)
    core.on_started([Job("7", 2, JobState.RUNNING)], 0)
    core.on_observed([Job("7", 2, JobState.EVICTED)], 1)
    assert core.take_effects(1) == []
    assert core.finished and core.exit_code == STOPPED_CODE
