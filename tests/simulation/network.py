"""A network of virtual connections: they delay, keep the order, and when they are cut lose a suffix without a word."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from tests.simulation.world import World

Frames = list[bytes]

LEAST_DELAY_SECONDS = 0.00005
RECONNECT_SECONDS = (0.015, 0.1)
NOTICE_SECONDS = (0.002, 0.02)


class Dealer(Protocol):
    """A peer that connects: an agent or a client."""

    session: bytes

    def on_frames(self, frames: Frames) -> None: ...

    def on_connected(self) -> None: ...

    def on_disconnected(self) -> None: ...


class Router(Protocol):
    """The side that is connected to: the scheduler."""

    def on_frames(self, peer: bytes, frames: Frames) -> None: ...

    def on_disconnected(self, peer: bytes) -> None: ...


class Packet:
    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.lost = False


class Pipe:
    """One direction between two peers; what was sent later never arrives earlier."""

    def __init__(
        self, world: World, deliver: Callable[[Frames], None], most_delay_seconds: float, distance_seconds: float
    ) -> None:
        self._world = world
        self._deliver = deliver
        self._most_delay_seconds = most_delay_seconds
        self._distance_seconds = distance_seconds
        self._under_way: deque[Packet] = deque()
        self._last_arrival = 0.0

    def send(self, frames: Frames) -> None:
        delay = self._distance_seconds + self._world.between(LEAST_DELAY_SECONDS, self._most_delay_seconds)
        self._last_arrival = max(self._last_arrival, self._world.now + delay)
        packet = Packet(frames)
        self._under_way.append(packet)
        self._world.at(self._last_arrival, lambda: self._arrive(packet))

    def cut(self, lose_everything: bool) -> None:
        """What is under way arrives up to some point; the rest is lost."""
        kept = 0 if lose_everything else self._world.chance.randint(0, len(self._under_way))
        for packet in list(self._under_way)[kept:]:
            packet.lost = True

    def _arrive(self, packet: Packet) -> None:
        self._under_way.remove(packet)
        if not packet.lost:
            self._deliver(packet.frames)


class Connection:
    """One dealer's connection to the router, over all its reconnections."""

    def __init__(
        self, world: World, network: Network, dealer: Dealer, most_delay_seconds: float, distance_seconds: float
    ) -> None:
        self._world, self._network, self._dealer = world, network, dealer
        self._generation = 0
        self._is_loss_untold = False
        self._to_router = Pipe(world, self._deliver_to_router, most_delay_seconds, distance_seconds)
        self._to_dealer = Pipe(world, self._deliver_to_dealer, most_delay_seconds, distance_seconds)
        self.up = False
        self.closed = False

    def open(self) -> None:
        """Connect when there is somebody to connect to."""
        if self.closed or self.up or self._network.router is None:
            return
        if self._is_loss_untold:  # a dealer hears of the end of a connection before the next one
            self._is_loss_untold = False
            self._dealer.on_disconnected()
        self.up = True
        self._generation += 1
        self._dealer.on_connected()

    def cut(self, dealer_died: bool = False, router_died: bool = False) -> None:
        """Lose the connection. Both ends that live learn of it a little later, and the dealer connects again."""
        if not self.up:
            return
        self.up = False
        self._to_router.cut(lose_everything=router_died)
        self._to_dealer.cut(lose_everything=dealer_died)
        if not router_died:
            self._tell_router(self._generation)
        if not dealer_died:
            self._is_loss_untold = True
            self._world.after(self._world.between(*NOTICE_SECONDS), self._tell_dealer)

    def close(self) -> None:
        """The dealer's process ends, or it leaves."""
        self.cut(dealer_died=True)
        self.closed = True

    def send_up(self, frames: Frames) -> bool:
        if self.up:
            self._to_router.send(frames)
        return self.up

    def send_down(self, frames: Frames) -> bool:
        if self.up:
            self._to_dealer.send(frames)
        return self.up

    def _tell_router(self, generation: int) -> None:
        router = self._network.router

        def tell() -> None:
            """A peer that is back already took its identity over: the router hears of no loss."""
            if self._network.router is router is not None and not (self.up and self._generation > generation):
                router.on_disconnected(self._dealer.session)

        self._world.after(self._world.between(*NOTICE_SECONDS), tell)

    def _tell_dealer(self) -> None:
        if not self.closed and self._is_loss_untold:
            self._is_loss_untold = False
            self._dealer.on_disconnected()
            self._world.after(self._world.between(*RECONNECT_SECONDS), self.open)

    def _deliver_to_router(self, frames: Frames) -> None:
        if self._network.router is not None:
            self._network.router.on_frames(self._dealer.session, frames)

    def _deliver_to_dealer(self, frames: Frames) -> None:
        if not self.closed:
            self._dealer.on_frames(frames)


class Network:
    """All connections to one router."""

    def __init__(self, world: World, most_delay_seconds: float = 0.002) -> None:
        self._world = world
        self._most_delay_seconds = most_delay_seconds
        self.connections: dict[bytes, Connection] = {}
        self.router: Router | None = None
        self.liars: set[bytes] = set()
        """Sessions of peers that may be refused."""

    def join(self, dealer: Dealer, distance_seconds: float = 0.0) -> Connection:
        """``distance_seconds``: what every message takes in each direction, besides the random delay."""
        connection = Connection(self._world, self, dealer, self._most_delay_seconds, distance_seconds)
        self.connections[dealer.session] = connection
        self._world.after(self._world.between(*RECONNECT_SECONDS), connection.open)
        return connection

    def start_router(self, router: Router) -> None:
        self.router = router
        for connection in self.connections.values():
            self._world.after(self._world.between(*RECONNECT_SECONDS), connection.open)

    def stop_router(self) -> None:
        """The router's process was killed."""
        for connection in self.connections.values():
            connection.cut(router_died=True)
        self.router = None

    def send_down(self, peer: bytes, frames: Frames) -> bool:
        connection = self.connections.get(peer)
        return connection is not None and connection.send_down(frames)
