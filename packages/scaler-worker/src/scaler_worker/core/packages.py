"""The packages that tasks of environments need: installed once per host, by the shell, while the tasks wait for them.

To the tasks they are an object that is awaited (``ObjectExchange``): its owner is the digest of the requirements.
"""

from __future__ import annotations

from scaler_protocol.codec import TaskRun
from scaler_protocol.ids import digest
from scaler_protocol.messages import ObjectKey
from scaler_protocol.shipping.environments import Environment
from scaler_worker.core.effects import InstallPackages, ReleasePackages
from scaler_worker.core.objects import PACKAGES_NUMBER, ObjectExchange
from scaler_worker.core.outbox import Outbox
from scaler_worker.core.queue import TaskQueue


class NeededPackages:
    def __init__(self, queue: TaskQueue, objects: ObjectExchange, outbox: Outbox) -> None:
        self._queue, self._objects, self._outbox = queue, objects, outbox
        self._requirements: dict[ObjectKey, tuple[str, ...]] = {}
        self._keys: dict[str, ObjectKey | None] = {}

    def key_of(self, run: TaskRun) -> ObjectKey | None:
        """Return the key of the packages that this run needs; None: it needs none. Raises ValueError if its environment
        cannot be read."""
        text = self._queue.environment_of(run)
        if not text or run.options.actor:  # a call runs in the process of its actor
            return None
        if text not in self._keys:
            self._keys[text] = self._key_of_text(text)
        return self._keys[text]

    def _key_of_text(self, text: str) -> ObjectKey | None:
        requirements = Environment.from_text(text).requirements
        if not requirements:
            return None
        key = key_of(requirements)
        self._requirements[key] = requirements
        return key

    def ask(self, keys: list[ObjectKey]) -> list[ObjectKey]:
        """Have the packages among ``keys`` installed. Returns the other keys, which are objects."""
        if not self._requirements:
            return keys
        for key in keys:
            if key in self._requirements:
                self._outbox.add(InstallPackages(self._requirements[key]))
        return [key for key in keys if key not in self._requirements]

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for packages. They use no slot."""
        return self._objects.awaiting_packages if self._requirements else 0

    def forget(self, text: str) -> None:
        """A client with this environment has left: packages that no other client needs are not in use here any more."""
        if text in self._queue.environments.values():
            return
        key = self._keys.pop(text, None)
        if key is not None and key not in self._keys.values():
            self._objects.give_up(key)
            self._objects.release(key)
            self._outbox.add(ReleasePackages(self._requirements.pop(key)))


def key_of(requirements: tuple[str, ...]) -> ObjectKey:
    return ObjectKey(digest("\n".join(requirements).encode()), PACKAGES_NUMBER)
