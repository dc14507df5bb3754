"""Simulated hosts: what their object stores hold, what travels between them, and stores that die."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from scaler.core.effects import PushObject
from scaler_protocol.limits import OWNERS_LIMIT
from scaler_protocol.messages import OWNER_SOURCE, UPLOAD_NUMBER, ObjectKey, ObjectRequest, StoreStatus
from tests.simulation.node import Node
from tests.simulation.world import World

FIND_SECONDS = (0.00005, 0.002)
FETCH_SECONDS = (0.001, 0.05)
PUSH_SECONDS = (0.001, 0.05)
RESTART_SECONDS = (0.001, 0.1)


class SimulatedStore:
    def __init__(self, world: World, capacity_bytes: float = math.inf) -> None:
        self.id = world.chance.randbytes(16)
        self.endpoint = f"tcp://{self.id.hex()}"
        self.objects: dict[ObjectKey, bytes] = {}
        self._authors: dict[ObjectKey, Node] = {}
        self._spared: set[ObjectKey] = set()
        self._capacity_bytes = capacity_bytes

    def has_room(self, size: int) -> bool:
        return sum(map(len, self.objects.values())) + size <= self._capacity_bytes

    def put(self, key: ObjectKey, data: bytes, author: Node) -> None:
        """A client sends an object."""
        self.objects[key] = data
        self._authors[key] = author

    def forget(self, owner: bytes) -> None:
        """Drop the objects of an owner, but not what a process that is there has put here: it may come back."""
        for key in [key for key in self.objects if key.owner == owner]:
            author = self._authors.get(key)
            if key.number >= UPLOAD_NUMBER and author is not None and author.alive:
                self._spared.add(key)
            else:
                del self.objects[key]

    def on_process_died(self, author: Node) -> None:
        for key in [key for key in self._spared if self._authors[key] is author]:
            self._spared.discard(key)
            self.objects.pop(key, None)

    def status(self) -> StoreStatus:
        used = sum(map(len, self.objects.values()))
        owners = b"".join(list(dict.fromkeys(key.owner for key in self.objects))[:OWNERS_LIMIT])
        count = len(self.objects)
        return StoreStatus(self.id, 1, self.endpoint, count, used, used, 1 << 30, 0, 0, 0, 0, owners=owners)


class Hosts:
    """All hosts of a world. ``crossings``: how often each object has come to a host from another one."""

    def __init__(self, world: World, capacity_bytes: float = math.inf) -> None:
        """``capacity_bytes``: of each store."""
        self.world = world
        self._capacity_bytes = capacity_bytes
        self.by_endpoint: dict[str, SimulatedStore] = {}
        self.crossings: Counter[ObjectKey] = Counter()
        self._pushed: dict[tuple[str, ObjectKey], bytes] = {}  # what clients offer to stores, by endpoint

    def start_store(self) -> SimulatedStore:
        store = SimulatedStore(self.world, self._capacity_bytes)
        self.by_endpoint[store.endpoint] = store
        return store

    def push(self, client: Any, push: PushObject) -> None:
        """It may come too late, or a firewall may stop it: then the object goes through the scheduler."""

        def arrive() -> None:
            if push.endpoint in self.by_endpoint and self.world.chance.random() < 0.7:
                self._pushed[push.endpoint, push.key] = bytes(push.data)
            else:
                client.post(lambda now: client.core.objects.on_request(ObjectRequest(push.key), now))

        self.world.after(self.world.between(*PUSH_SECONDS), arrive)

    def object_at(self, source: str, store: SimulatedStore, key: ObjectKey) -> bytes | None:
        """What ``store`` gets from a source."""
        if source == OWNER_SOURCE:
            return self._pushed.pop((store.endpoint, key), None)
        found = self.by_endpoint.get(source)
        return found.objects.get(key) if found is not None else None

    def end_store(self, store: SimulatedStore) -> None:
        del self.by_endpoint[store.endpoint]
        store.objects.clear()


class Host:
    """A host with a store, and perhaps an agent: ``tell`` feeds that agent's core."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.agent: Any = None
        self.has_clients = False
        self.store = hosts.start_store()
        self._asked: dict[ObjectKey, bool] = {}

    def tell(self, action: Callable[[Any, float], None]) -> None:
        if self.agent is not None:
            core = self.agent.core
            self.agent.post(lambda now: action(core, now))

    def introduce(self) -> None:
        """The agent connects to the store."""
        store = self.store

        def tell() -> None:
            if store is self.store:
                self.tell(lambda core, now: core.on_store_status(store.status(), now))

        self.hosts.world.after(self.hosts.world.between(*FIND_SECONDS), tell)

    def lose_agent(self) -> None:
        """Its store ends with its last peer."""
        self.agent = None
        if not self.has_clients:
            self.hosts.end_store(self.store)

    def kill_store(self) -> None:
        """What was asked of it is not there; another one is started."""
        self.hosts.end_store(self.store)
        self.store = self.hosts.start_store()
        self.tell(lambda core, now: core.on_store_lost(now))
        asked, self._asked = self._asked, {}
        for key, fetched in asked.items():
            self._not_stored(key, fetched)
        self.hosts.world.after(self.hosts.world.between(*RESTART_SECONDS), self.introduce)

    def find(self, key: ObjectKey) -> None:
        self._ask(key, False, FIND_SECONDS, lambda: key in self.store.objects)

    def fetch(self, key: ObjectKey, sources: tuple[str, ...]) -> None:
        self._ask(key, True, FETCH_SECONDS, lambda: self._copy(key, sources))

    def read(self, key: ObjectKey) -> None:
        world = self.hosts.world

        def answer() -> None:
            data = self.store.objects.get(key)
            view = None if data is None else memoryview(data)
            self.tell(lambda core, now: core.on_stored_view(key, view, now))

        world.after(world.between(*FIND_SECONDS), answer)

    def drop(self, keys: list[ObjectKey]) -> None:
        for key in keys:
            self.store.objects.pop(key, None)

    def forget(self, owner: bytes) -> None:
        self.store.forget(owner)

    def _ask(self, key: ObjectKey, fetched: bool, seconds: tuple[float, float], is_there: Callable[[], bool]) -> None:
        store, world = self.store, self.hosts.world
        self._asked[key] = fetched

        def answer() -> None:
            if store is not self.store or self._asked.pop(key, None) is None:
                return
            if is_there():
                self.tell(lambda core, now: core.on_stored(key, now))
            else:
                self._not_stored(key, fetched)

        world.after(world.between(*seconds), answer)

    def _copy(self, key: ObjectKey, sources: tuple[str, ...]) -> bool:
        if key in self.store.objects:
            return True
        for endpoint in sources:
            data = self.hosts.object_at(endpoint, self.store, key)
            if data is not None and self.store.has_room(len(data)):
                self.store.objects[key] = data
                self.hosts.crossings[key] += 1
                return True
        return False

    def _not_stored(self, key: ObjectKey, relayed: bool) -> None:
        self.tell(lambda core, now: core.on_not_stored(key, relayed, now))
