"""A stand-in for Symphony itself: sessions, their tasks, and the instances of the service that run them.

``python broker.py SOCKET SERVICE_PROGRAM`` serves until it is told to end. What it does wrong on demand, a control
connection tells it: see ``Faults``.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import struct
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Any

_SIZE = struct.Struct("<Q")
_SERVICE = "ScalerService"
_LOGIN = (os.environ.get("SOAMAPI_USER", "Guest"), "Guest")
_RUNS_LIMIT = 3
"""A task whose instance died is run again; the third death fails it."""


@dataclass
class Faults:
    """What goes wrong from now on. Counts are of the next ones."""

    instances: int = 4  # at most so many run
    shuffled: bool = False  # answers come in chance order
    twice: bool = False  # each answer comes two times
    early_seconds: float = 0.0  # send_task_input returns when its answer has come, or so much later
    refused_sessions: int = 0
    refused_inputs: int = 0
    failed_tasks: int = 0
    embedded: bytes = b""  # the pickled exception that they fail with; otherwise it is one of soamapi's
    unknown_answers: int = 0  # an answer to a task that nobody sent goes before them
    garbage: tuple[bytes, ...] = ()  # outputs of the next tasks
    held: bool = False  # tasks are taken and not started
    silent_end: bool = False  # a session that ends does not say so: its inputs are refused


@dataclass
class Task:
    identity: str
    session: Session
    data: bytes
    runs: int = 0


@dataclass
class Session:
    identity: str
    owner: Peer
    is_heard: bool = False
    has_ended: bool = False
    tasks: int = 0
    open: dict[str, Task] = field(default_factory=dict)
    unsent: list[dict[str, Any]] = field(default_factory=list)


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> dict[str, Any] | None:
        try:
            size = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))[0]
            return pickle.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def send(self, message: dict[str, Any]) -> None:
        data = pickle.dumps(message)
        if not self._writer.is_closing():
            self._writer.write(_SIZE.pack(len(data)) + data)

    def close(self) -> None:
        self._writer.close()


@dataclass
class Instance:
    peer: Peer
    pid: int
    task: Task | None = None


class Broker:
    def __init__(self, path: str, program: str) -> None:
        self._path = path
        self._program = program
        self._faults = Faults()
        self._sessions: dict[str, Session] = {}
        self._queue: deque[Task] = deque()
        self._idle: list[Instance] = []
        self._instances: dict[int, Instance] = {}
        self._starting: set[int] = set()
        self._answers: list[tuple[Session, dict[str, Any]]] = []
        self._counts = {"sessions": 0, "tasks": 0, "most_open": 0, "most_running": 0, "answered": 0}
        self._asks = {
            "connect": self._on_connect,
            "session": self._on_session,
            "task": self._on_task,
            "control": self._on_control,
        }

    async def serve(self) -> None:
        server = await asyncio.start_unix_server(self._on_peer, self._path, limit=1 << 26)
        print("broker serves", flush=True)
        async with server:
            await server.serve_forever()

    async def _on_peer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        first = await peer.receive()
        if first is not None and "instance" in first:
            await self._serve_instance(peer, first["instance"])
        elif first is not None:
            await self._serve_client(peer, first)
        peer.close()

    # ---- clients ---------------------------------------------------------------------------------------------

    async def _serve_client(self, peer: Peer, first: dict[str, Any]) -> None:
        message: dict[str, Any] | None = first
        while message is not None:
            if message["ask"] == "listen":
                self._listen(self._sessions[message["session"]])
            else:
                answer = self._asks[message["ask"]](peer, message)
                peer.send({**answer, "request": message["request"]})
            message = await peer.receive()
        for session in [each for each in self._sessions.values() if each.owner is peer]:
            self._end(session, "its client is gone")

    def _on_connect(self, peer: Peer, message: dict[str, Any]) -> dict[str, Any]:
        if message["service"] != _SERVICE:
            return {"error": f"application {message['service']} is not registered"}
        if tuple(message["login"]) != _LOGIN:
            return {"error": f"user {message['login'][0]} cannot log in"}
        return {}

    def _on_session(self, peer: Peer, message: dict[str, Any]) -> dict[str, Any]:
        if self._faults.refused_sessions:
            self._faults.refused_sessions -= 1
            return {"error": "no session: the session manager is busy"}
        self._counts["sessions"] += 1
        session = Session(str(self._counts["sessions"]), peer)
        self._sessions[session.identity] = session
        return {"session": session.identity}

    def _listen(self, session: Session) -> None:
        session.is_heard = True
        for message in session.unsent:
            session.owner.send(message)

    def _on_task(self, peer: Peer, message: dict[str, Any]) -> dict[str, Any]:
        session = self._sessions.get(message["session"])
        if session is None or session.has_ended:
            return {"error": f"session {message['session']} has ended"}
        if self._faults.refused_inputs:
            self._faults.refused_inputs -= 1
            return {"error": "the input is not taken"}
        session.tasks += 1
        task = Task(str(session.tasks), session, message["input"])
        session.open[task.identity] = task
        self._counts["tasks"] += 1
        self._counts["most_open"] = max(self._counts["most_open"], len(session.open))
        self._queue.append(task)
        asyncio.get_running_loop().call_soon(self._dispatch)
        return {"task": task.identity, "return_after_seconds": self._faults.early_seconds}

    # ---- instances -------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        while self._queue and not self._faults.held:
            if self._spoil(self._queue[0]):
                self._queue.popleft()
            elif self._idle:
                self._run(self._idle.pop(), self._queue.popleft())
            else:
                break
        here = len(self._instances) + len(self._starting)
        for _ in range(min(len(self._queue) - len(self._starting), self._faults.instances - here)):
            asyncio.ensure_future(self._start_instance())

    def _spoil(self, task: Task) -> bool:
        """Whether it ends without being run."""
        faults = self._faults
        if faults.failed_tasks:
            faults.failed_tasks -= 1
            self._answer(
                task, {"error": "the host of the task caught fire", "embedded": faults.embedded, "output": b""}
            )
        elif faults.garbage:
            output, faults.garbage = faults.garbage[0], faults.garbage[1:]
            self._answer(task, {"error": None, "output": output})
        else:
            return False
        return True

    def _run(self, instance: Instance, task: Task) -> None:
        instance.task = task
        task.runs += 1
        instance.peer.send({"session": task.session.identity, "input": task.data})
        running = sum(1 for each in self._instances.values() if each.task is not None)
        self._counts["most_running"] = max(self._counts["most_running"], running)

    async def _start_instance(self) -> None:
        number = random.getrandbits(60)
        self._starting.add(number)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            self._program,
            env={**os.environ, "SOAMAPI_BROKER": self._path, "SOAMAPI_NUMBER": str(number)},
        )
        self._starting.discard(number)
        if process.pid not in self._instances:  # on a busy host it may be here before this goes on
            self._starting.add(process.pid)
        await process.wait()
        self._starting.discard(process.pid)

    async def _serve_instance(self, peer: Peer, pid: int) -> None:
        instance = Instance(peer, pid)
        self._starting.discard(pid)
        self._instances[pid] = instance
        self._idle.append(instance)
        self._dispatch()
        while (message := await peer.receive()) is not None:
            task, instance.task = instance.task, None
            self._idle.append(instance)
            if task is not None:
                self._answer(task, message)
            self._dispatch()
        self._lose_instance(instance)

    def _lose_instance(self, instance: Instance) -> None:
        del self._instances[instance.pid]
        if instance in self._idle:
            self._idle.remove(instance)
        task = instance.task
        if task is not None and task.runs >= _RUNS_LIMIT:
            self._answer(task, {"error": f"its instance died {_RUNS_LIMIT} times", "output": b""})
        elif task is not None and not task.session.has_ended:
            self._queue.appendleft(task)
        self._dispatch()

    # ---- answers ---------------------------------------------------------------------------------------------

    def _answer(self, task: Task, message: dict[str, Any]) -> None:
        session = task.session
        if session.open.pop(task.identity, None) is None or session.has_ended:
            return
        self._counts["answered"] += 1
        answers = [{**message, "session": session.identity, "task": task.identity}] * (2 if self._faults.twice else 1)
        if self._faults.unknown_answers:
            self._faults.unknown_answers -= 1
            answers.insert(0, {**answers[0], "task": "none of yours"})
        self._answers.extend((session, each) for each in answers)
        if self._faults.shuffled:
            if len(self._answers) == len(answers):
                asyncio.get_running_loop().call_later(0.01, self._flush)
        else:
            self._flush()

    def _flush(self) -> None:
        answers, self._answers = self._answers, []
        if self._faults.shuffled:
            random.shuffle(answers)
        for session, message in answers:
            self._tell(session, message)

    def _tell(self, session: Session, message: dict[str, Any]) -> None:
        if session.is_heard:
            session.owner.send(message)
        else:
            session.unsent.append(message)

    # ---- control ---------------------------------------------------------------------------------------------

    def _on_control(self, peer: Peer, message: dict[str, Any]) -> dict[str, Any]:
        for name, value in message.get("faults", {}).items():
            assert hasattr(self._faults, name), name
            setattr(self._faults, name, value)
        if message.get("end_sessions"):
            for session in list(self._sessions.values()):
                self._end(session, message["end_sessions"])
        self._dispatch()
        running = {str(each.pid): each.task.identity for each in self._instances.values() if each.task is not None}
        return {**self._counts, "open": sum(len(each.open) for each in self._sessions.values()), "running": running}

    def _end(self, session: Session, text: str) -> None:
        """Its tasks end, too, wherever they run."""
        session.has_ended = True
        del self._sessions[session.identity]
        self._queue = deque(task for task in self._queue if task.session is not session)
        for instance in self._instances.values():
            if instance.task is not None and instance.task.session is session:
                os.kill(instance.pid, 9)
        if not self._faults.silent_end:
            self._tell(session, {"session": session.identity, "ended": text})


if __name__ == "__main__":
    asyncio.run(Broker(sys.argv[1], sys.argv[2]).serve())
