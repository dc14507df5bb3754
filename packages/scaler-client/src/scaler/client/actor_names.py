"""Names of actors. A name is a lock, which says that the actor exists, and a variable, which has its handle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scaler.client.actors import Actor, ActorClient, ActorHandle, BorrowedActor, take_pickled_actors
from scaler.client.lock import Lock
from scaler.client.named import NamingClient, check_name
from scaler.client.variable import Variable
from scaler_protocol.messages import ACTOR_NAME_PREFIX

if TYPE_CHECKING:
    from scaler.client.future import ScalerFuture

T = TypeVar("T")
_TAKING_SECONDS = 2.0
"""Time for an actor of the same name to end, and for a scheduler that has just started, which grants no lock yet."""


class FindingClient(NamingClient, ActorClient, Protocol):
    """A client that finds actors by name and calls them."""


class ActorName:
    """The name of one actor, from before the actor is made until it has ended."""

    def __init__(self, client: NamingClient, name: str) -> None:
        """Raises ValueError if another actor has the name."""
        check_name(name, "actor")
        self._lock = Lock(ACTOR_NAME_PREFIX + name, client)
        self._handle = Variable(ACTOR_NAME_PREFIX + name, client)
        if not self._lock.acquire(timeout=_TAKING_SECONDS):
            raise ValueError(f"Cannot name an actor {name!r}: another actor has this name. Use get_actor({name!r}).")

    def set(self, handle: ActorHandle[Any], anchor: ScalerFuture[Any]) -> None:
        """Let others find the actor, until its anchor has ended."""
        self._handle.set(handle)
        take_pickled_actors()  # the name does not keep the actor alive
        anchor.add_done_callback(lambda _: self.give_back_later())

    def give_back(self) -> None:
        """The name is free again. The scheduler clears the handle with the lock. If this client has lost the lock, the
        handle may be that of another actor."""
        self._lock.release()

    def give_back_later(self) -> None:
        """The same, in another thread: callbacks must not wait for the scheduler."""
        try:
            threading.Thread(target=self._try_to_give_back, name="scaler-actor-name", daemon=True).start()
        except RuntimeError:
            pass  # the interpreter exits, and the scheduler frees the name

    def _try_to_give_back(self) -> None:
        try:
            self.give_back()
        except Exception:
            pass  # the client has left, and the scheduler frees the name


def named_actor(client: NamingClient, name: str, make: Callable[[], ActorHandle[T]]) -> ActorHandle[T]:
    """Make an actor that has a name. Raises ValueError if another actor has it."""
    taken = ActorName(client, name)
    try:
        handle = make()
        assert isinstance(handle._actor, Actor) and handle._actor.anchor is not None
        taken.set(handle, handle._actor.anchor)
    except BaseException:
        taken.give_back_later()
        raise
    return handle


def named_handle(client: FindingClient, name: str) -> ActorHandle[Any]:
    """The handle of the actor with this name, whose calls go through ``client`` if it is not an actor of this process.
    Raises ValueError if there is none."""
    check_name(name, "actor")
    try:
        handle: ActorHandle[Any] = Variable(ACTOR_NAME_PREFIX + name, client).get(timeout=0)
    except TimeoutError:
        handle_of_owner = None
    else:
        handle_of_owner = handle if Lock(ACTOR_NAME_PREFIX + name, client).locked() else None
    if handle_of_owner is None:
        raise ValueError(f"Cannot find an actor named {name!r}: there is none, or it has ended.")
    if isinstance(handle_of_owner._actor, BorrowedActor):
        handle_of_owner._actor.use(client)
    return handle_of_owner
