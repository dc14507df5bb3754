"""The executions in Symphony, by number, and the slots that they take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import heappop, heappush

from scaler_protocol.codec import TaskRun
from scaler_worker.core.nodes import Named


@dataclass(slots=True)
class Sent:
    """One execution of a task. One that passed the bound has no slot. ``is_over``: its task has ended for its client,
    only the slot is still taken. ``failure``: why it failed, as far as is known; ``report``: the exception that is the
    reason, if there is one."""

    number: int
    run: TaskRun
    slot: int | None
    ends_at: float | None
    is_over: bool = False
    failure: str = ""
    report: bytes = b""

    @property
    def name(self) -> Named:
        return self.run.session, self.run.first_task, self.run.attempt

    @property
    def depth(self) -> int:
        return self.run.options.depth


class SentTasks:
    def __init__(self, slots: int) -> None:
        self.by_number: dict[int, Sent] = {}
        self._slots = slots
        self._free_slots = list(range(slots))
        self._limited: dict[int, Sent] = {}
        self._live_by_depth: dict[int, int] = {}

    @property
    def is_full(self) -> bool:
        return len(self.by_number) >= self._slots

    @property
    def deepest(self) -> int:
        """The depth of the deepest task whose client waits. A task that is over holds up no deeper one."""
        return max(self._live_by_depth, default=0)

    def live(self) -> list[Sent]:
        return [sent for sent in self.by_number.values() if not sent.is_over]

    def busy_slots(self) -> list[bool]:
        """Return, for each slot, whether something of it is in Symphony."""
        free = frozenset(self._free_slots)
        return [slot not in free for slot in range(self._slots)]

    # ---- in and out ------------------------------------------------------------------------------------------

    def add(self, number: int, run: TaskRun, ends_at: float | None) -> None:
        slot = None if self.is_full or not self._free_slots else heappop(self._free_slots)
        sent = self.by_number[number] = Sent(number, run, slot, None)
        self._live_by_depth[sent.depth] = self._live_by_depth.get(sent.depth, 0) + 1
        if ends_at is not None:
            self.limit(sent, ends_at)

    def remove(self, number: int) -> Sent | None:
        """It is not there any more. None: that is known already."""
        sent = self.by_number.pop(number, None)
        if sent is None:
            return None
        self._limited.pop(number, None)
        if sent.slot is not None:
            heappush(self._free_slots, sent.slot)
        if not sent.is_over:
            self._count_out(sent)
        return sent

    def remove_all(self) -> list[Sent]:
        """Remove and return all in the order in which they were sent."""
        numbers = list(self.by_number)
        return [sent for number in numbers if (sent := self.remove(number)) is not None]

    def end(self, sent: Sent) -> None:
        """Its task has ended for its client."""
        sent.is_over = True
        self._count_out(sent)

    def _count_out(self, sent: Sent) -> None:
        self._live_by_depth[sent.depth] -= 1
        if not self._live_by_depth[sent.depth]:
            del self._live_by_depth[sent.depth]

    # ---- time ------------------------------------------------------------------------------------------------

    def limit(self, sent: Sent, ends_at: float) -> None:
        sent.ends_at = ends_at
        self._limited[sent.number] = sent

    def next_deadline(self) -> float | None:
        return min([sent.ends_at for sent in self._limited.values() if sent.ends_at is not None], default=None)

    def take_due(self, now: float) -> list[Sent]:
        """Take those whose time is over, once."""
        due = [sent for sent in self._limited.values() if sent.ends_at is not None and now >= sent.ends_at]
        for sent in due:
            del self._limited[sent.number]
        return due

    def wrong_counts(self) -> list[str]:
        """Return a sentence if the numbers of tasks of each depth are wrong."""
        noted, counted = self._live_by_depth, self._counted_by_depth()
        return [] if noted == counted else [f"tasks in Symphony by depth: {noted}, {counted} counted"]

    def correct_counts(self) -> list[str]:
        """Correct the numbers. Returns what ``wrong_counts`` would."""
        wrong = self.wrong_counts()
        if wrong:
            self._live_by_depth = self._counted_by_depth()
        return wrong

    def _counted_by_depth(self) -> dict[int, int]:
        return dict(Counter(sent.depth for sent in self.live()))

    def check(self) -> None:
        wrong = self.wrong_counts()
        assert not wrong, wrong
        live = self.live()
        names = [sent.name for sent in live]
        assert len(frozenset(names)) == len(names)
        assert all(sent.run.count == 1 for sent in self.by_number.values())
        assert [sent.depth for sent in live].count(0) <= self._slots
        slots = [sent.slot for sent in self.by_number.values() if sent.slot is not None]
        assert sorted([*slots, *self._free_slots]) == list(range(self._slots))
        assert all(self.by_number[number] is sent for number, sent in self._limited.items())
