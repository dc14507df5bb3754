"""The usual call with futures as arguments: each is a node of the open graph, or has a small result that is here.

Such a call joins the open batch at once. The effect equals that of a ``HeldCall``, which can also wait, but costs more.
"""

from __future__ import annotations

import pickle
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from scaler.client.computation_futures import ComputationFuture
from scaler.client.fronts import FutureFront
from scaler.client.future import ScalerFuture
from scaler.client.serializer import PICKLE_PROTOCOL
from scaler.core.open_graph import NodePart
from scaler_protocol.messages import INLINE_LIMIT_BYTES, ObjectKey, Status

if TYPE_CHECKING:
    from scaler.client.future import InputFuture
    from scaler.core.open_graph import OpenGraph
    from scaler.core.runs import AnyRange, Shape, TaskSink
    from scaler.core.session import Session
    from scaler.core.submissions import Submissions
    from scaler.shell.client_io import ClientIO

_SMALL = int(Status.SUCCESS)
_dumps = pickle.dumps
_TASK_FUTURES = frozenset({ScalerFuture, ComputationFuture})
"""The futures that name a task that may be a node of the open graph."""


def join_at_once(
    client_io: ClientIO, plain_types: Container[object], shape: Shape, values: Sequence[Any], future: TaskSink
) -> bool:
    """Submit the call. Returns False, and does nothing, if it is not a usual one or must wait. ``plain_types``: the
    types of arguments that are serialized here."""
    slots = _slots_of(values, plain_types)
    if slots is None or shape.options.actor or shape.options.hosts_actor:
        return False
    with client_io.lock:
        if client_io.unusable:
            return False
        try:
            nodes = _name_inputs(client_io, slots)
            if nodes is None:
                return False
            must_turn = _submit(client_io.session, shape, slots, nodes, future)
        except BaseException as error:
            client_io.note_interruption(error)
            raise
        if must_turn:
            client_io.turn()
    if not must_turn and client_io.background.dozes:
        client_io.background.wake()
    if client_io.notices or client_io.leading:
        client_io.settle_after_call()
    return True


def _slots_of(values: Sequence[Any], plain_types: Container[object]) -> list[Any] | None:
    """Bytes, and the futures as they are. None: an argument needs more than plain pickle, or all together are large."""
    slots: list[Any] = []
    size = 0
    for value in values:
        kind = type(value)
        if kind in _TASK_FUTURES:
            slots.append(value)
        elif kind in plain_types:
            payload = _dumps(value, PICKLE_PROTOCOL)
            slots.append(payload)
            size += len(payload)
        elif isinstance(value, FutureFront):
            slots.append(value.as_input())
        else:
            return None
    return slots if size <= INLINE_LIMIT_BYTES else None


def _name_inputs(client_io: ClientIO, slots: list[Any]) -> list[InputFuture] | None:
    """Replace the futures in ``slots`` by their small results or by the names of their tasks, and return those that are
    named. None: one of them needs more."""
    session = client_io.session
    graph = session.submissions.current_graph
    nodes: list[InputFuture] = []
    for place, future in enumerate(slots):
        if type(future) is bytes:
            continue
        entry = future.task_range
        if entry is None or future._client_io is not client_io:
            return None
        outcome = future._outcome
        if outcome is not None:
            if outcome[0] != _SMALL or future._loaded:
                return None
            slots[place] = bytes(outcome[1])
        else:
            number = _number_of(session.submissions, graph, entry, future)
            if not number:
                return None
            slots[place] = ObjectKey(session.session, number)
            nodes.append(future)
        entry.shape.function.is_input = True
    return nodes


def _number_of(submissions: Submissions, graph: OpenGraph | None, entry: AnyRange, future: InputFuture) -> int:
    """The id of an unfinished node of the open graph; 0 if the future is not such a node, or has no id yet."""
    part = entry.part
    if future.is_settled() or type(part) is not NodePart or part.group is not graph or graph.is_closed:
        return 0
    return submissions.id_of(future)


def _submit(session: Session, shape: Shape, slots: list[Any], nodes: list[InputFuture], future: TaskSink) -> bool:
    size = sum([len(slot) if type(slot) is bytes else 24 for slot in slots])
    if nodes:
        return session.submissions.add_node(shape.variant(is_node=True), slots, size, future, nodes)
    return session.submissions.add(shape, slots, size, future)
