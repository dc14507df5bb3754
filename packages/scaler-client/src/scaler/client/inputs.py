"""Calls with futures as arguments: the results take the places of the futures where the task runs.

Small results that are here travel with the call. Results that stay in the cluster, or are still to be made there, are
named by their tasks. A call that names a task that cannot be named yet waits here: it is *held*."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import cloudpickle

from scaler.client.arguments import Arguments
from scaler.client.calls import FunctionBook, shape_of
from scaler.client.fronts import argument_of, task_future
from scaler.client.future import (
    CallFollower,
    CallSink,
    FutureInArgument,
    ScalerFuture,
    UnsentCall,
    described_call,
    first_unsent,
)
from scaler.client.gathering import ScatteredFuture
from scaler.client.node_calls import join_at_once
from scaler.client.serializer import PICKLE_PROTOCOL
from scaler.client.shims import call_with_inputs, pack_inputs
from scaler.client.signatures import function_name
from scaler.core.effects import Finish
from scaler.core.large_results import LargeResult
from scaler.core.open_graph import NodePart, OpenGraph
from scaler.core.outcome import CANCELLED, Outcome
from scaler.core.runs import Function, Shape
from scaler.core.uploads import Upload
from scaler.shell.waiting import PendingAnswer
from scaler.utility.exceptions import ClientQuitException
from scaler_protocol.messages import ObjectKey, Status

if TYPE_CHECKING:
    from scaler.core.session import Session
    from scaler.shell.client_io import ClientIO

Future = ScalerFuture[Any]
Part = bytes | ObjectKey | Future

_INPUTS_LIMIT = 2048
_FUNCTIONS_LIMIT = 1024
_OVER = Outcome(Status.SUCCESS, b"")
_NAMED_LIMIT = 5


class ForeignInput(ValueError):
    """An argument of a function is a future of another client, which uses this ``client_io``."""

    def __init__(self, function: str, client_io: ClientIO) -> None:
        whose = "a client that is closed" if client_io.unusable else "another client"
        super().__init__(
            f"Cannot send a call of {function}(): an argument is a future of {whose}. Pass its result(), or submit "
            "both calls with one client."
        )
        self.client_io = client_io
        self._function = function

    def of_call_behind_others(self) -> ValueError:
        """The other client could send the call of an actor, but not yet."""
        return ValueError(
            f"Cannot send a call of {self._function}(): an argument is a future of another client, by which the call "
            "might overtake earlier ones of this actor. Wait for these, or pass the result() of the future."
        )


class InputCalls:
    """Sends the calls of one client that have futures as arguments."""

    def __init__(self, arguments: Arguments, functions: FunctionBook, client_io: ClientIO) -> None:
        self._arguments = arguments
        self._functions = functions
        self._client_io = client_io
        self._wrapped: dict[Function, Function] = {}

    def send(
        self,
        fn: Callable[..., Any],
        shape: Shape,
        values: Sequence[Any],
        sink: CallSink,
        predecessor: UnsentCall | None = None,
    ) -> None:
        """Submit a call as soon as its inputs allow it, and not before its predecessor."""
        self._client_io.check_usable()
        plain_types = self._arguments.plain_types
        if predecessor is None and join_at_once(self._client_io, plain_types, shape, values, sink):
            return
        future = task_future(sink)
        held: list[Upload] = []
        try:
            shape, parts = self._parts(fn, shape, values)
            parts, uploads = self._placed(fn, parts, held)
        except BaseException:
            self._arguments.let_go(held)
            raise
        attempt_all([HeldCall(self._arguments, self._client_io, shape, parts, uploads, held, future, predecessor)])

    def _placed(self, fn: Callable[..., Any], parts: list[Any], held: list[Upload]) -> tuple[list[Any], list[Upload]]:
        """The parts with slots in the places of payloads, and the uploads that these need, which are added to
        ``held``."""
        payloads = [part for part in parts if not isinstance(part, ScalerFuture)]
        if len(payloads) < len(parts):
            self._check_inputs(fn, parts)
        for part in payloads:
            if isinstance(part, Upload):  # its reference may be dropped while the call is held
                self._arguments.hold(part, held)
        if not payloads:
            return parts, []
        slots, uploads, _ = self._arguments.place(payloads, held)
        placed = iter(slots)
        return [part if isinstance(part, ScalerFuture) else next(placed) for part in parts], uploads

    def _parts(self, fn: Callable[..., Any], shape: Shape, values: Sequence[Any]) -> tuple[Shape, list[Any]]:
        """The shape of the task, and a payload or a future for each of its slots."""
        inner: dict[int, Future] = {}
        places: list[int] = []
        parts: list[Any] = []
        for place, value in enumerate(values):
            value = argument_of(value)
            if isinstance(value, ScalerFuture):
                parts.append(value)
                continue
            try:
                parts.append(self._arguments.encode((value,))[0])
            except FutureInArgument:
                parts.append(self._arguments.encode((pickled_around(value, inner),))[0])
                places.append(place)
            except Exception as error:
                raise self._arguments.explain(error, fn, values, shape.keywords) from None
        if places:
            shape, parts = self._with_inner(fn, shape, parts, places, list(inner.values()))
        return shape, [self._sent_before(part) if isinstance(part, ScatteredFuture) else part for part in parts]

    def _sent_before(self, part: ScatteredFuture) -> Any:
        """The upload of a scattered value, if there is one here."""
        if part.reference is not None and part._client_io is self._client_io:
            return self._arguments.upload_of(part.reference)
        return part

    def _with_inner(
        self, fn: Callable[..., Any], shape: Shape, parts: list[Any], places: list[int], inner: list[Future]
    ) -> tuple[Shape, list[Any]]:
        """A call of a function that fills in the results. The results come first, in packs if there are very many."""
        self._check_inputs(fn, inner)
        is_packed = len(inner) > _INPUTS_LIMIT
        if is_packed:
            inner = [
                self._packed(inner[start : start + _INPUTS_LIMIT], shape)
                for start in range(0, len(inner), _INPUTS_LIMIT)
            ]
        header = self._arguments.encode(((len(inner), is_packed, places),))
        function = self._wrapper_of(fn, shape.function)
        count = 1 + len(inner) + len(parts)
        return shape_of(function, count, shape.keywords, shape.options), [*header, *inner, *parts]

    def _packed(self, futures: list[Future], shape: Shape) -> Future:
        packed: Future = ScalerFuture(self._client_io)
        function = self._functions.find(pack_inputs)
        self.send(pack_inputs, shape_of(function, len(futures), (), shape.options), futures, packed)
        return packed

    def _wrapper_of(self, fn: Callable[..., Any], function: Function) -> Function:
        known = self._wrapped.get(function)
        if known is None:
            wrapper = self._functions.find(partial(call_with_inputs, fn))
            known = Function(function.name, wrapper.payload, module=function.definition.module)
            if len(self._wrapped) >= _FUNCTIONS_LIMIT:
                self._wrapped.clear()
            if not function.is_large:
                self._wrapped[function] = known
        return known

    def _check_inputs(self, fn: Callable[..., Any], parts: Iterable[Any]) -> None:
        for part in parts:
            if isinstance(part, ScalerFuture) and part._client_io is not self._client_io:
                raise ForeignInput(function_name(fn), part._client_io)


class HeldCall:
    """A call until it has been sent. ``_waits_for`` counts the futures that must end, or be sent, before."""

    __slots__ = (
        "_arguments",
        "_client_io",
        "_shape",
        "_parts",
        "_uploads",
        "_held",
        "_future",
        "_waits_for",
        "_followers",
        "_must_turn",
        "_used",
        "predecessor",
    )

    def __init__(
        self,
        arguments: Arguments,
        client_io: ClientIO,
        shape: Shape,
        parts: list[Part],
        uploads: list[Upload],
        held: list[Upload],
        future: Future,
        predecessor: UnsentCall | None = None,
    ) -> None:
        self._arguments = arguments
        self._client_io = client_io
        self._shape = shape
        self._parts = parts
        self._uploads = uploads
        self._held = held
        self._future: Future | None = future
        self._waits_for = 0
        self._followers: list[CallFollower] = []
        self._used: list[Future] = []
        self.predecessor = predecessor
        future.held_call = self

    @property
    def is_over(self) -> bool:
        return self._future is None

    @property
    def function_name(self) -> str:
        return self._shape.function.name

    def explain(self) -> str:
        start = f"The call of {self.function_name}()"
        names = [described_call(each) for each in self._inputs() if each.is_unsettled]
        if names:
            others = f" and {len(names) - _NAMED_LIMIT} others" if len(names) > _NAMED_LIMIT else ""
            return f"{start} waits in the client for the result of {'; '.join(names[:_NAMED_LIMIT])}{others}."
        if first_unsent(self.predecessor) is not None:
            return f"{start} waits in the client for the call before it of the same actor."
        return f"{start} is about to leave the client: the results that it waited for are there."

    def _detach(self) -> Future | None:
        """Release the inputs of a call that is over, with the lock held: their callbacks hold the call. Returns its
        future, unless the call was over before."""
        future, self._future = self._future, None
        self._parts = []
        used, self._used = self._used, []
        for each in used:
            each.drop_unsent_use()
        if future is not None:
            future.held_call = None
            self._client_io.session.unsent_calls.discard(id(self))
        return future

    def attempt(self) -> list[HeldCall]:
        """Send the call, or fail, if all its inputs allow it. Returns the calls that need wait for it no more."""
        try:
            waited = self._place_finally()
        except _InputFailed as failed:
            return self._fail(failed.future)
        except ClientQuitException:  # closed, as if the call had been sent before
            self._end(CANCELLED)
            return self._take_followers()
        except Exception as error:
            return self._break_off(error)
        for future in waited:
            future.add_done_callback(self._on_input_ended)
        return self._take_followers() if self._future is None else []

    def _place_finally(self) -> list[Future]:
        """Repeat ``_place`` while inputs change. An input that changes again is loaded here, so that the number of
        repetitions is limited."""
        changed: list[Future] = []
        while True:
            inputs = self._inputs()
            small = {id(part): self._small(part) for part in inputs if not part.is_unsettled}
            placement = self._place_now(inputs, small)
            if isinstance(placement, list):
                return placement
            if placement in changed and not placement.is_unsettled:
                self._bring_here(placement)
            changed.append(placement)

    def _place_now(self, inputs: list[Future], small: dict[int, Any]) -> list[Future] | Future:
        """``_place`` with the lock held. As in ``submit``, most calls only join the open batch."""
        client_io = self._client_io
        client_io.check_usable()
        with client_io.lock:
            client_io.check_usable()
            self._must_turn = False
            try:
                placement = self._place(inputs, small, client_io.session)
            except BaseException as error:
                client_io.note_interruption(error)
                raise
            if self._must_turn:
                client_io.turn()
        if client_io.background.dozes and not self._must_turn:
            client_io.background.wake()
        if client_io.notices or client_io.leading:
            client_io.settle_after_call()
        return placement

    def _inputs(self) -> list[Future]:
        """Each once."""
        return list({id(part): part for part in self._parts if isinstance(part, ScalerFuture)}.values())

    # ---- inputs that have ended --------------------------------------------------------------------------------

    def _small(self, future: Future) -> bytes | LargeResult | None:
        """The bytes of an input that has ended, or the result that stays in the cluster. A result that was loaded here
        is serialized again, and takes the place of the future at once if it is large."""
        outcome = future._outcome
        if outcome is not None and outcome.status == Status.SUCCESS_LARGE and future._answer is None:
            large: LargeResult = outcome.payload
            if large.is_kept:
                return large
        if outcome is not None and outcome.status == Status.SUCCESS and not future._loaded:
            payload = outcome.payload
            if not future._loaded:  # still: it was not loaded between
                return bytes(payload)
        slot = self._load(future)
        return slot if type(slot) is bytes else None

    def _load(self, future: Future) -> bytes | ObjectKey:
        """Serialize the result of a future again. If it is large, it takes the place of the future at once."""
        if future.cancelled():
            raise _InputFailed(future)
        future.load()
        if future.exception() is not None:
            raise _InputFailed(future)
        slots, uploads, _ = self._arguments.place(self._arguments.encode((future.result(),)), self._held)
        if type(slots[0]) is not bytes:
            self._uploads = [*self._uploads, *uploads]
            self._replace(future, slots[0])
        return slots[0]

    def _bring_here(self, future: Future) -> None:
        self._replace(future, self._load(future))

    def _replace(self, future: Future, slot: bytes | ObjectKey) -> None:
        self._parts = [slot if part is future else part for part in self._parts]

    # ---- within a turn -----------------------------------------------------------------------------------------

    def _place(self, inputs: list[Future], small: dict[int, Any], session: Session) -> list[Future] | Future:
        """Send the call, and return nothing to wait for. Otherwise return the inputs whose ends it must wait for;
        those that are held themselves will say when they have been sent. A single future: this input is not as it was
        before the turn."""
        if self._future is None:
            return []
        submissions = session.submissions
        # Actors and their calls wait here for inputs that are not made yet.
        graph = submissions.current_graph if self._shape.may_be_node else None
        found = self._sort(inputs, small, graph)
        if isinstance(found, ScalerFuture):
            return found
        nodes, elsewhere, others = found
        if elsewhere:
            others += [future for future in nodes if future.is_unsettled]
        if others or self.predecessor is not None:
            waited = self._wait_for(others)
            if self._waits_for:
                session.unsent_calls.add(id(self), self._shape.function)
                self._use(inputs)
                return waited
        if not all(map(submissions.id_of, nodes)):
            submissions.close_batch()
            if submissions.current_graph is not graph:
                return nodes[0]  # the graph is full now
        self._submit(session, small, nodes, elsewhere)
        return []

    def _use(self, inputs: list[Future]) -> None:
        """Their results stay here until this call has been sent, even if the caller releases them before."""
        if not self._used:
            self._used = inputs
            for future in inputs:
                future.unsent_uses += 1

    @staticmethod
    def _sort(
        inputs: list[Future], small: dict[int, Any], graph: OpenGraph | None
    ) -> tuple[list[Future], list[Future], list[Future]] | Future:
        """Return the inputs that are nodes of the open graph, those whose results stay elsewhere in the cluster, and
        others that have not ended. A single future: it has just ended, or its result does not stay there any more."""
        nodes: list[Future] = []
        elsewhere: list[Future] = []
        others: list[Future] = []
        for future in inputs:
            entry = future.task_range
            part = None
            if entry is not None:
                part = entry.part
                entry.shape.function.is_input = True
            known = small.get(id(future))
            if type(known) is bytes:
                continue
            if not future.is_unsettled if known is None else not known.is_kept:
                return future
            if type(part) is NodePart and part.group is graph and graph is not None and not graph.is_closed:
                nodes.append(future)
            elif known is not None:
                elsewhere.append(future)
            else:
                others.append(future)
        return nodes, elsewhere, others

    def _wait_for(self, futures: list[Future]) -> list[Future]:
        """Follow the calls of those futures, and of the predecessor, that have not been sent. Returns the others."""
        waited = [future for future in futures if future.held_call is None]
        held = [future.held_call for future in futures if future.held_call is not None]
        self.predecessor = first_unsent(self.predecessor)
        if self.predecessor is not None:
            held.append(self.predecessor)
        self._waits_for = len(waited) + len(held)
        for call in held:
            call.follow(self)
        return waited

    def _submit(self, session: Session, small: dict[int, Any], nodes: list[Future], elsewhere: list[Future]) -> None:
        submissions, future = session.submissions, self._future
        assert future is not None
        slots = [self._slot(session, part, small) for part in self._parts]
        size = sum([len(slot) if type(slot) is bytes else 24 for slot in slots])
        if elsewhere:
            self._must_turn = submissions.add(self._shape.variant(is_node=False), slots, size, future)
        elif nodes:
            self._must_turn = submissions.add_node(self._shape.variant(is_node=True), slots, size, future, nodes)
        else:
            self._must_turn = submissions.add(self._shape, slots, size, future)
        entry = future.task_range
        assert entry is not None
        keepers = [_Keeper(small[id(each)]) for each in (*elsewhere, *nodes)] if elsewhere else []
        if keepers or self._uploads:
            session.objects.refer(entry, future.task_index, [*self._uploads, *keepers])  # type: ignore[list-item]
        self.predecessor = None  # all before it were sent, too
        self._detach()
        self._drop_uses(session)

    def _drop_uses(self, session: Session) -> None:
        held, self._held = self._held, []
        for upload in held:
            session.objects.let_go(upload)

    def _slot(self, session: Session, part: Part, small: dict[int, Any]) -> bytes | ObjectKey:
        if not isinstance(part, ScalerFuture):
            return part
        known = small.get(id(part))
        if type(known) is bytes:
            return known
        return ObjectKey(session.session, session.submissions.id_of(part))

    # ---- waiting and ending --------------------------------------------------------------------------------------

    def _on_input_ended(self, future: object) -> None:
        attempt_all(self.advance())

    def follow(self, follower: CallFollower) -> None:
        self._followers.append(follower)

    def advance(self) -> list[HeldCall]:
        """One of the futures that this call waits for has ended or was sent. Returns the calls to attempt."""
        with self._client_io.lock:
            self._waits_for -= 1
            return [self] if self._waits_for == 0 else []

    def _take_followers(self) -> list[HeldCall]:
        followers, self._followers = self._followers, []
        return [call for follower in followers for call in follower.advance()]

    def _fail(self, culprit: Future) -> list[HeldCall]:
        """An input did not succeed."""
        future = self._future
        if future is None:
            return self._take_followers()
        future.blame(culprit)
        outcome = culprit._outcome
        if outcome is None or outcome.status == Status.SUCCESS:  # other code has set its exception, or cannot load it
            if not culprit.cancelled():
                return self._break_off(culprit.exception() or RuntimeError("The input has no result."))
            outcome = CANCELLED
        self._end(outcome)
        return self._take_followers()

    def _break_off(self, error: BaseException) -> list[HeldCall]:
        future = self._let_go()
        if future is not None:
            future.set_exception(error)
        return self._take_followers()

    def withdraw(self, session: Session) -> None:
        """Within a turn: the future is not needed."""
        future = self._detach()
        self._drop_uses(session)
        if future is not None and not future.settle(CANCELLED):
            self._client_io.notices.append(Finish(future, CANCELLED))
        self._client_io.defers(lambda: attempt_all(self._take_followers()))

    def end(self, outcome: Outcome) -> bool:
        """End the future of this call, and of those that wait for it. False: it was sent or has ended before."""
        has_ended = self._end(outcome)
        attempt_all(self._take_followers())
        return has_ended

    def _end(self, outcome: Outcome) -> bool:
        future = self._let_go()
        if future is not None and not future.settle(outcome):
            future.finish(outcome)
        return future is not None

    def _let_go(self) -> Future | None:
        with self._client_io.lock:
            future = self._detach()
            self._drop_uses(self._client_io.session)
        return future


def wait_until_sent(future: Future) -> None:
    """Wait until the call of this future has been sent, or has ended before."""
    client_io = future._client_io
    while future.held_call is not None:
        waiter = _Waiter(client_io)
        with client_io.lock:
            if future.held_call is None:
                return
            future.held_call.follow(waiter)
        waiter.answer.wait()


class _Waiter:
    """A thread that waits until a call is over, in the place of a call that does."""

    def __init__(self, client_io: ClientIO) -> None:
        self._client_io = client_io
        self.answer = PendingAnswer(client_io)

    def advance(self) -> list[HeldCall]:
        self.answer.finish(_OVER)
        self._client_io.settle_after_call()  # which wakes the thread if it reads the connection
        return []


class _InputFailed(Exception):
    """An input of a call did not succeed."""

    def __init__(self, future: Future) -> None:
        super().__init__()
        self.future = future


class _Keeper:
    """Keeps a large result in the cluster while a task uses it, in the place of an upload."""

    __slots__ = ("result", "uses", "key")

    def __init__(self, result: LargeResult) -> None:
        self.result = result
        self.uses = 1  # one more than tasks, so that it is never released as an upload
        self.key = None


def attempt_all(calls: Iterable[HeldCall]) -> None:
    """Attempt calls, and those that waited for them, one after another: a chain of held calls may be long."""
    waiting = deque(calls)
    while waiting:
        waiting.extend(waiting.popleft().attempt())


class _AroundFutures(cloudpickle.Pickler):
    """Pickles an argument that contains futures: a persistent id takes the place of each."""

    inner: dict[int, Future]
    order: dict[int, int]

    def persistent_id(self, obj: Any) -> int | None:
        obj = argument_of(obj)
        if not isinstance(obj, ScalerFuture):
            return None
        self.inner.setdefault(id(obj), obj)
        return self.order.setdefault(id(obj), len(self.order))


def pickled_around(value: Any, inner: dict[int, Future]) -> bytes:
    """The pickle of a value that contains futures. They are added to ``inner``, by ``id``."""
    file = io.BytesIO()
    pickler = _AroundFutures(file, PICKLE_PROTOCOL)
    pickler.inner = inner
    pickler.order = {identity: place for place, identity in enumerate(inner)}
    pickler.dump(value)
    return file.getvalue()
