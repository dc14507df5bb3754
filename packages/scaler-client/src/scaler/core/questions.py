"""Requests of a client to its scheduler, and the sinks of their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from scaler.core.outcome import Outcome, Sink
from scaler.core.outgoing import Outgoing
from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.messages import (
    CONTROL_SINCE_MINOR,
    PROTOCOL_MAJOR,
    Body,
    ClusterInfoReply,
    ClusterInfoRequest,
    ControlAction,
    ControlReply,
    ControlRequest,
    ExplainRequest,
    Explanation,
    OutputReply,
    OutputRequest,
    ProfileReply,
    ProfileRequest,
    ShutdownReply,
    ShutdownRequest,
    StackReply,
    StackRequest,
    Status,
)

_OLD_SCHEDULER_TEXT = (
    "Cannot control the cluster: the scheduler is too old, it needs version "
    f"{PROTOCOL_MAJOR}.{CONTROL_SINCE_MINOR} of the protocol. Update scaler-scheduler."
)
_RESTARTED_TEXT = (
    "Cannot tell whether the request was carried out: the scheduler has been restarted before it answered. Look at the "
    "cluster, and repeat the request if it is still needed."
)
_OWN_SESSION = bytes(ID_SIZE_BYTES)
_NUMBERED = (ControlRequest, StackRequest, ProfileRequest, OutputRequest)


class Questions:
    """Each request is answered once or ends with the session. True while a thread waits for an answer."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._explanations: dict[int, list[Sink]] = {}
        self._infos: list[Sink] = []
        self._shutdowns: list[Sink] = []
        self._controls: dict[int, Sink] = {}
        self._last_control = 0
        self._has_control = True
        self._profiles: dict[int, deque[tuple[Sink, list[bytes]]]] = {}
        self._welcome_sinks: list[Sink] = []

    def __bool__(self) -> bool:
        return bool(self._explanations or self._infos or self._shutdowns or self._controls or self._profiles)

    @property
    def is_blank(self) -> bool:
        """True if no thread waits, not even for the Welcome."""
        return not (self or self._welcome_sinks)

    def explain(self, task: int, sink: Sink) -> None:
        self._explanations.setdefault(task, []).append(sink)
        self._outgoing.urgent.append(ExplainRequest(task))

    def ask_cluster_info(self, sink: Sink) -> None:
        """``sink`` gets SUCCESS with the snapshot for monitors, as ``ClusterInfoReply`` carries it."""
        self._infos.append(sink)
        if len(self._infos) == 1:
            self._outgoing.urgent.append(ClusterInfoRequest())

    def shut_down(self, sink: Sink) -> None:
        """Ask scheduler and workers to stop. ``sink`` gets SUCCESS, or another status with the reason."""
        self._shutdowns.append(sink)
        self._outgoing.urgent.append(ShutdownRequest())

    def control(self, action: ControlAction, target: str, value: float, sink: Sink) -> None:
        """Ask for an action on the cluster. ``sink`` gets SUCCESS with the ControlReply as its payload, or another
        status with the reason."""
        if not self._has_control:
            self._outgoing.tell(sink, Outcome(Status.EXCEPTION, _OLD_SCHEDULER_TEXT.encode()))
            return
        self._last_control += 1
        self._controls[self._last_control] = sink
        self._outgoing.urgent.append(ControlRequest(self._last_control, action, target, value))

    def ask_stack(self, task: int, worker: str, sink: Sink) -> None:
        """``sink`` gets SUCCESS with the text, or another status with the reason. ``worker``: a name, in place of a
        task of this client."""
        if not self._has_control:
            self._outgoing.tell(sink, Outcome(Status.EXCEPTION, _OLD_SCHEDULER_TEXT.encode()))
            return
        self._last_control += 1
        self._controls[self._last_control] = sink
        self._outgoing.urgent.append(StackRequest(self._last_control, _OWN_SESSION, task, worker))

    def ask_output(self, task: int, worker: str, sink: Sink) -> None:
        """``sink`` gets SUCCESS with the tuple of OutputPiece, or another status with the reason. ``worker``: as for
        ``ask_stack``."""
        if not self._has_control:
            self._outgoing.tell(sink, Outcome(Status.EXCEPTION, _OLD_SCHEDULER_TEXT.encode()))
            return
        self._last_control += 1
        self._controls[self._last_control] = sink
        self._outgoing.urgent.append(OutputRequest(self._last_control, _OWN_SESSION, task, worker))

    def on_output_reply(self, reply: OutputReply, now: float) -> None:
        sink = self._controls.pop(reply.number, None)
        if sink is not None and reply.is_found:
            self._outgoing.tell_all([sink], Outcome(Status.SUCCESS, reply.pieces))
        elif sink is not None:
            self._outgoing.tell_all([sink], Outcome(Status.EXCEPTION, reply.text.encode()))

    def profile(self, number: int, interval_us: int, sink: Sink) -> None:
        """Begin the profile with this number, or end it (``interval_us`` 0). ``sink`` gets SUCCESS with the encoded
        profiles of agents, as a list, or another status with the reason."""
        if not self._has_control:
            self._outgoing.tell(sink, Outcome(Status.EXCEPTION, _OLD_SCHEDULER_TEXT.encode()))
            return
        self._profiles.setdefault(number, deque()).append((sink, []))
        self._outgoing.urgent.append(ProfileRequest(number, _OWN_SESSION, interval_us))

    def on_profile_reply(self, reply: ProfileReply, now: float) -> None:
        """The beginning and the end of a profile are answered in this order, so a reply belongs to the older one."""
        requests = self._profiles.get(reply.number)
        if not requests:
            return
        sink, profiles = requests[0]
        profiles.append(reply.profile)
        if reply.accepted and reply.remaining:
            return
        requests.popleft()
        if not requests:
            del self._profiles[reply.number]
        status, payload = (Status.SUCCESS, profiles) if reply.accepted else (Status.EXCEPTION, reply.text.encode())
        self._outgoing.tell_all([sink], Outcome(status, payload))

    def on_stack_reply(self, reply: StackReply, now: float) -> None:
        sink = self._controls.pop(reply.number, None)
        if sink is not None:
            status = Status.SUCCESS if reply.is_found else Status.EXCEPTION
            self._outgoing.tell_all([sink], Outcome(status, reply.text.encode()))

    def await_welcome(self, sink: Sink) -> None:
        """``sink`` gets the first Welcome or refusal."""
        self._welcome_sinks.append(sink)

    def on_explanation(self, explanation: Explanation, now: float) -> None:
        sinks = self._explanations.pop(explanation.task, [])
        self._outgoing.tell_all(sinks, Outcome(Status.SUCCESS, explanation.text.encode()))

    def on_cluster_info(self, info: ClusterInfoReply, now: float) -> None:
        self._outgoing.tell_all(self._infos, Outcome(Status.SUCCESS, info.snapshot))

    def on_shutdown_reply(self, reply: ShutdownReply, now: float) -> None:
        status = Status.SUCCESS if reply.accepted else Status.EXCEPTION
        self._outgoing.tell_all(self._shutdowns, Outcome(status, reply.text.encode()))

    def on_control_reply(self, reply: ControlReply, now: float) -> None:
        sink = self._controls.pop(reply.number, None)
        if sink is None:
            return
        if reply.accepted:
            self._outgoing.tell_all([sink], Outcome(Status.SUCCESS, (reply.names, reply.count)))
        else:
            self._outgoing.tell_all([sink], Outcome(Status.EXCEPTION, reply.text.encode()))

    def restart(self, unsent: Iterable[Body]) -> list[Body]:
        """The scheduler knows nothing of this session. Return the requests among ``unsent``. Those that an earlier
        scheduler has not answered end, because it may have carried them out, apart from ``repetitions``."""
        kept: list[Body] = [body for body in unsent if isinstance(body, _NUMBERED + (ShutdownRequest,))]
        numbers = {body.number for body in kept if isinstance(body, _NUMBERED)}
        outcome = Outcome(Status.EXCEPTION, _RESTARTED_TEXT.encode())
        for number in [number for number in self._controls if number not in numbers]:
            self._outgoing.tell(self._controls.pop(number), outcome)
        for number in [number for number in self._profiles if number not in numbers]:
            self._outgoing.tell_all([sink for sink, _ in self._profiles.pop(number)], outcome)
        if ShutdownRequest() not in kept:
            self._outgoing.tell_all(self._shutdowns, outcome)
        return kept

    def repetitions(self) -> list[Body]:
        """Return the questions that change nothing, for a scheduler that has been told of the tasks again."""
        infos: list[Body] = [ClusterInfoRequest()] if self._infos else []
        return [*map(ExplainRequest, self._explanations), *infos]

    def end_all(self, outcome: Outcome) -> None:
        for sinks in self._explanations.values():
            self._outgoing.tell_all(sinks, outcome)
        self._explanations.clear()
        self._outgoing.tell_all(self._infos, outcome)
        self._outgoing.tell_all(self._shutdowns, outcome)
        self._end_control(outcome)
        self._outgoing.tell_all(self._welcome_sinks, outcome)

    def on_welcome(self, minor: int) -> None:
        """Note the minor version of the scheduler."""
        self._has_control = minor >= CONTROL_SINCE_MINOR
        if not self._has_control:
            outgoing = self._outgoing
            outgoing.urgent = deque(body for body in outgoing.urgent if not isinstance(body, _NUMBERED))
            self._end_control(Outcome(Status.EXCEPTION, _OLD_SCHEDULER_TEXT.encode()))
        self._outgoing.tell_all(self._welcome_sinks, Outcome(Status.SUCCESS, b""))

    def _end_control(self, outcome: Outcome) -> None:
        sinks = list(self._controls.values())
        sinks += [sink for requests in self._profiles.values() for sink, _ in requests]
        self._controls.clear()
        self._profiles.clear()
        self._outgoing.tell_all(sinks, outcome)
