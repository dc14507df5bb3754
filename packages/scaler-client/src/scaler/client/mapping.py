"""One ``map`` call: its tasks leave in runs, and its results are collected in one list without a future per item."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any

from scaler.client.fetching import Fetching, take_next
from scaler.client.future import FutureInArgument, ScalerFuture
from scaler.client.map_items import ItemFailure
from scaler.client.outcomes import failure_of, loads_result
from scaler.core.large_results import LargeResult
from scaler.core.outcome import Outcome
from scaler.core.outgoing import BATCH_LIMIT_BYTES, SLOT_OVERHEAD_BYTES
from scaler.core.uploads import Upload
from scaler.shell.client_store import COMPARED_FROM_BYTES
from scaler.shell.interruptions import is_interruption
from scaler.utility.exceptions import ClientQuitException, DeserializeObjectError
from scaler_protocol.messages import INLINE_LIMIT_BYTES, Status

if TYPE_CHECKING:
    from scaler.client.arguments import Arguments
    from scaler.core.runs import MapPart, Range, Shape
    from scaler.core.session import Session
    from scaler.shell.client_io import ClientIO
    from scaler_protocol.codec import ResultRun

_FIRST_CHUNK = 256
_CHUNK_LIMIT = 4096

_STORED_BYTES = 4 * 1024 * 1024
"""Arguments that are put into the store before the calls that need them leave: meanwhile no task may have work."""


class MapCall:
    """Sends items and collects results. User data is loaded only in the thread that called ``map``; other threads only
    put what has arrived into ``_pending``."""

    def __init__(
        self,
        callable_: Callable[..., Any],
        arguments: Arguments,
        client_io: ClientIO,
        count: int,
        send_with_inputs: Callable[[Shape, Sequence[Any], ScalerFuture[Any]], object],
        report: Callable[[int], object] | None = None,
    ) -> None:
        """``send_with_inputs`` submits a call that has futures as arguments. ``report`` is called, in the thread that
        called ``map``, with the number of further tasks that have ended."""
        self._callable = callable_
        self._arguments = arguments
        self._client_io = client_io
        self._count = count
        self._number = client_io.session.submissions.number_map() if count > 1 else 0
        self._send_with_inputs = send_with_inputs
        self._with_inputs: list[tuple[int, ScalerFuture[Any]]] = []
        self._report = report
        self._reported = 0
        self._loads: Callable[[bytes], Any] = client_io.loads
        self._results: list[Any] = [None] * count
        self._ended = 0
        self._sent = 0
        self._entries: list[Range[MapPart]] = []
        self._failures: list[tuple[int, Outcome | BaseException]] = []
        self._large: list[tuple[int, LargeResult]] = []  # that may be on this host
        self._far: list[tuple[int, LargeResult]] = []
        self._pending: deque[tuple[int, ResultRun | Outcome]] = deque()
        self._uploads: dict[int, Upload] = {}
        self._held: list[Upload] = []
        self._lazy_condition: threading.Condition | None = None

    def run(self, groups: Sequence[tuple[Shape, Sequence[Any]]]) -> list[Any]:
        """Run the map. ``groups`` has shapes, each with its items: the argument itself for a shape of one slot, else an
        argument tuple. Raises ItemFailure for the first item that fails."""
        try:
            for shape, items in groups:
                self._send_items(shape, items)
            self._take_all()
            self._take_with_inputs()
            self._fetch_large()
            return self._results
        except BaseException:
            self._cancel_rest()
            raise
        finally:
            self._let_go()
            self._with_inputs = []
            self._results = []
            self._entries = []  # they refer to this: a cycle would keep the client

    # ---- sending -------------------------------------------------------------------------------------------------

    def _send_items(self, shape: Shape, items: Sequence[Any]) -> None:
        size = _FIRST_CHUNK
        start = 0
        while start < len(items):
            chunk = items[start : start + size]
            if shape.arity != 1:
                self._send_any(shape, chunk)
            else:
                self._send_of_one(shape, chunk)
            start += len(chunk)
            size = min(size * 2, _CHUNK_LIMIT)

    def _send_of_one(self, shape: Shape, chunk: Sequence[Any]) -> None:
        """Send items of one argument each. The first one tells how: large arguments are not encoded twice, and not all
        of them before one is sent."""
        try:
            (first,) = self._arguments.encode(chunk[:1])
        except FutureInArgument:
            self._send_any(shape, chunk)
            return
        except Exception as error:
            raise self._unsendable(error, shape, chunk) from None
        if len(first) * len(chunk) > 2 * BATCH_LIMIT_BYTES or not self._send_plain(shape, chunk, first):
            sent = self._send_large(shape, chunk) if _is_placed_with_others(first) else 0
            self._send_any(shape, chunk[sent:])

    def _send_plain(self, shape: Shape, chunk: Sequence[Any], first: Any) -> bool:
        """Send items in the common case of one small argument each. Returns False if nothing was sent. ``first``: the
        first one, encoded."""
        try:
            slots = [first, *self._arguments.encode(chunk[1:])]
        except FutureInArgument:
            return False
        except Exception as error:
            raise self._unsendable(error, shape, chunk) from None
        total = sum(map(len, slots)) + len(slots) * SLOT_OVERHEAD_BYTES
        if (
            total > 2 * BATCH_LIMIT_BYTES
            or max(map(len, slots)) > INLINE_LIMIT_BYTES
            or not all(type(slot) is bytes for slot in slots)
        ):
            return False
        entry = self._open(shape)
        assert entry.builder is not None
        entry.builder.append_all(slots)
        self._close(entry)
        return True

    def _send_large(self, shape: Shape, chunk: Sequence[Any]) -> int:
        """Send items of one large argument each, many at once. Returns how many were sent: those before the first one
        that is sent in another way."""
        sent = 0
        while payloads := self._large_payloads(chunk[sent:]):
            items = chunk[sent : sent + len(payloads)]
            try:
                uploads = self._arguments.upload_all(payloads, self._held)
            except Exception as error:
                raise ItemFailure(self._sent, self._explained(error, shape, (items[0],))) from None
            self._uploads.update(zip(map(id, items), uploads, strict=True))
            entry = self._open(shape)
            assert entry.builder is not None
            for upload in uploads:
                entry.builder.append([upload.key])
            with self._client_io.lock:
                for index, upload in enumerate(uploads):
                    self._client_io.session.objects.refer(entry, index, [upload])
            self._let_go()
            self._close(entry)
            sent += len(payloads)
        return sent

    def _large_payloads(self, items: Sequence[Any]) -> list[Any]:
        """The payloads of the first items, as many as are put into the store at once."""
        payloads: list[Any] = []
        size = 0
        seen: set[int] = set()
        for item in items:
            if size >= _STORED_BYTES or id(item) in self._uploads or id(item) in seen:
                break
            try:
                (payload,) = self._arguments.encode((item,))
            except Exception:
                break  # a future; or it fails again when it is sent by itself
            if not _is_placed_with_others(payload):
                break
            seen.add(id(item))
            payloads.append(payload)
            size += len(payload)
        return payloads

    def _send_any(self, shape: Shape, chunk: Sequence[Any]) -> None:
        """Send items with large arguments, references or several arguments."""
        entry: Range[MapPart] | None = None
        used = stored = 0
        for item in chunk:
            values = item if shape.arity != 1 else (item,)
            try:
                slots, uploads, size = self._arguments.slots_of(values, self._uploads, self._held)
            except FutureInArgument:
                if entry is not None:
                    self._close(entry)
                    entry = None
                self._send_item_with_inputs(shape, values)
                continue
            except Exception as error:
                place = self._sent + (entry.builder.count if entry is not None and entry.builder is not None else 0)
                raise ItemFailure(place, self._explained(error, shape, values)) from None
            if entry is not None and (used + size > BATCH_LIMIT_BYTES or stored >= _STORED_BYTES):
                self._close(entry)
                entry = None
            if entry is None:
                entry, used, stored = self._open(shape), 0, 0
            assert entry.builder is not None
            if uploads:
                self._refer(entry, uploads)
                stored += sum(upload.size for upload in uploads)
            entry.builder.append(slots)
            used += size + SLOT_OVERHEAD_BYTES
        if entry is not None:
            self._close(entry)

    def _send_item_with_inputs(self, shape: Shape, values: Sequence[Any]) -> None:
        """Such an item has a future of its own, because it may have to wait in the client."""
        self._let_go()
        future: ScalerFuture[Any] = ScalerFuture(self._client_io)
        self._with_inputs.append((self._sent, future))
        try:
            self._send_with_inputs(shape, values, future)
        except Exception as error:
            raise ItemFailure(self._sent, error) from None
        self._sent += 1

    def _unsendable(self, error: Exception, shape: Shape, chunk: Sequence[Any]) -> ItemFailure:
        """The failure of the first item of ``chunk``, the next to be sent, that cannot be encoded."""
        for index, value in enumerate(chunk):
            failure = self._arguments.error_of(value)
            if failure is not None:
                return ItemFailure(self._sent + index, self._explained(failure, shape, (value,)))
        return ItemFailure(-1, error)

    def _explained(self, error: Exception, shape: Shape, values: Sequence[Any]) -> Exception:
        return self._arguments.explain(error, self._callable, values, shape.keywords)

    def _open(self, shape: Shape) -> Range[MapPart]:
        entry = self._client_io.session.submissions.open_map(shape, self, self._sent, self._number)
        self._entries.append(entry)
        return entry

    def _close(self, entry: Range[MapPart]) -> None:
        assert entry.builder is not None
        self._sent += entry.builder.count
        self._client_io.objects.flush()
        self._client_io.take_turn(lambda session: session.submissions.close_map(entry))
        self._absorb()

    def _refer(self, entry: Range[MapPart], uploads: list[Upload]) -> None:
        """Let the next task of ``entry`` use these uploads until it ends, and end this call's own uses."""
        assert entry.builder is not None
        with self._client_io.lock:
            self._client_io.session.objects.refer(entry, entry.builder.count, uploads)
        self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, []
        if held:
            self._arguments.let_go(held)

    # ---- receiving -----------------------------------------------------------------------------------------------

    def _take_all(self) -> None:
        """Wait for all tasks but those with futures as arguments."""
        while self._ended < self._count - len(self._with_inputs):
            self._take_large_here()
            if not self._pending:
                self._client_io.wait(self)
            self._absorb()

    def _absorb(self) -> None:
        pending = self._pending
        while pending:
            number, what = pending.popleft()
            if isinstance(what, Outcome):
                self._take_one(number, what)
            else:
                self._take_values(number, what)
        if self._report is not None and self._ended > self._reported:
            self._report(self._ended - self._reported)
            self._reported = self._ended
        if self._failures:
            self._raise_first()

    def _take_values(self, first: int, run: ResultRun) -> None:
        self._ended += run.count
        try:
            run.load_into(self._results, first, self._loads)
        except BaseException as error:
            if is_interruption(error, partial(_load_all, run, self._loads)):
                raise
            self._load_one_by_one(first, run)

    def _load_one_by_one(self, first: int, run: ResultRun) -> None:
        for task, _, payload, *_ in run.copied_rows():
            try:
                self._results[task - first] = loads_result(self._loads, payload)
            except Exception as error:
                self._failures.append((task - first, error))

    def _take_one(self, place: int, outcome: Outcome) -> None:
        self._ended += 1
        if outcome.status == Status.SUCCESS:
            try:
                self._results[place] = loads_result(self._loads, outcome.payload)
            except Exception as error:
                self._failures.append((place, error))
        elif outcome.status == Status.SUCCESS_LARGE:
            self._large.append((place, outcome.payload))
        else:
            self._failures.append((place, outcome))
            if outcome.status == Status.CANCELLED:
                self._reported += 1  # a bar does not count it

    def _raise_first(self) -> None:
        place, failure = min(self._failures, key=lambda entry: entry[0])
        raise ItemFailure(place, failure if isinstance(failure, BaseException) else failure_of(failure))

    def _take_large_here(self) -> None:
        """Take large results from the store of this host while other tasks run, until something else arrives."""
        if not self._large:
            return
        waiting = deque(self._large)
        while waiting and not self._pending:
            taken = take_next(waiting, 1)
            try:
                views = self._client_io.take_here([large for _, large in taken])
            except ClientQuitException:
                if self._pending:
                    return  # another thread has disconnected: the tasks were cancelled, which has arrived
                raise
            for index, (place, large) in enumerate(taken):
                if views[index] is None:
                    self._far.append((place, large))
                else:
                    self._load_large(place, views[index])
                    views[index] = None
        self._large = list(waiting)

    def _fetch_large(self) -> None:
        larges = sorted(self._far + self._large, key=lambda entry: entry[0])
        self._far.clear()
        self._large.clear()
        for place, outcome in Fetching(self._client_io, larges):
            if outcome.status != Status.SUCCESS:
                raise ItemFailure(place, failure_of(outcome))
            self._load_large(place, outcome.payload)
            del outcome

    def _load_large(self, place: int, payload: Any) -> None:
        try:
            self._results[place] = loads_result(self._client_io.loads_object, payload)
        except DeserializeObjectError as error:
            raise ItemFailure(place, error) from None

    def _take_with_inputs(self) -> None:
        for place, future in self._with_inputs:
            try:
                self._results[place] = future.result()
            except (Exception, CancelledError) as error:
                raise ItemFailure(place, error) from None
            if self._report is not None:
                self._report(1)

    def _cancel_rest(self) -> None:
        """Cancel all other items in one turn, so that a second interruption, raised between turns, leaves none."""
        entries, futures = list(self._entries), [future for _, future in self._with_inputs]

        def cancel(session: Session) -> None:
            for future in futures:
                future.withdraw()
            session.endings.cancel_map(entries)

        self._client_io.take_turn_shielded(cancel)

    # ---- a sink of the session, a target of the client's I/O -------------------------------------------------------

    def take_run(self, first: int, run: ResultRun) -> bool:
        self._pending.append((first, run))
        return self._lazy_condition is None

    def take_outcome(self, place: int, outcome: Outcome) -> bool:
        self._pending.append((place, outcome))
        return self._lazy_condition is None

    def settle(self, outcome: Outcome) -> bool:
        """All unfinished tasks end with ``outcome``."""
        self._pending.append((-1, outcome))
        return self._lazy_condition is None

    def finish(self, outcome: Outcome) -> None:
        with self._condition:
            self._condition.notify_all()

    def is_settled(self) -> bool:
        return bool(self._pending)

    def prepare_condition(self) -> None:
        pass

    @property
    def _condition(self) -> threading.Condition:
        return self._lazy_condition or self._client_io.make_condition(self)[0]


def _is_placed_with_others(payload: Any) -> bool:
    """True for an argument that is put into the store together with others."""
    return type(payload) is not Upload and INLINE_LIMIT_BYTES < len(payload) < COMPARED_FROM_BYTES


def _load_all(run: ResultRun, loads: Callable[[bytes], Any]) -> None:
    for _, _, payload, *_ in run.copied_rows():
        loads(payload)
