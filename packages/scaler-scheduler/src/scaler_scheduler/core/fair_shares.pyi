"""Sharing of the workers among clients, by running time (contract of fair_shares.pyx).

Sharing is stride scheduling on two levels. A group and a share each have a virtual time: the running time that they
were charged, divided by their weight. The group with the least virtual time is served, and in it the share with the
least. Clients are charged an estimate when a task is assigned (``charge``) and corrected when its result says how long
it took (``settle``).

A share that becomes active is lifted to those that are active, so that it earns nothing while it is away. With no other
share active, it is lifted to the highest virtual time at which a share was served (the floor).
"""

from collections.abc import Iterable

class ShareGroup:
    """Clients that share as one. ``worker_limit``: how many workers it may use at a time, 0 for any number.
    ``running``: its tasks that agents have, counted when they are needed. ``members``: the
    clients in it, those inside tasks included."""

    name: str
    weight: float
    worker_limit: int
    running: int
    virtual_us: float
    members: int
    def __init__(self, shares: Shares, name: str, weight: float, worker_limit: int) -> None: ...
    def add_member(self) -> None:
        """One more client uses a share of this group."""

class Share:
    """The share of a root client and the clients inside its tasks. ``used_us``: the running time of its tasks."""

    group: ShareGroup
    weight: float
    virtual_us: float
    used_us: float
    def __init__(self, group: ShareGroup, weight: float) -> None: ...
    def begin_turn(self) -> None:
        """Note that the share is served: shares that become active later begin at its virtual time."""

    def charge(self, us: float) -> None:
        """Charge the estimated running time of tasks that were assigned. Negative: they were returned."""

    def settle(self, charged_us: float, measured_us: float) -> None:
        """Tasks that were charged have run for ``measured_us``."""

    def lift(self, group_us: float, us: float) -> None:
        """The share becomes active. The arguments are the least virtual times of the active groups, and of the active
        shares of its group; infinite: there are none."""

    def precedes(self, other: Share) -> bool:
        """Return whether it is this share's turn rather than the other's."""

class Shares:
    """All groups that have members. ``weights`` and ``worker_limits``: by the names of groups."""

    groups: dict[str, ShareGroup]
    weights: dict[str, float]
    worker_limits: dict[str, int]
    def __init__(
        self, weights: dict[str, float] | None = None, worker_limits: dict[str, int] | None = None
    ) -> None: ...
    def join(self, name: str, weight: float = 1.0) -> Share:
        """A client joins a group, which is made when first needed."""

    def check(self, shares: Iterable[Share]) -> None:
        """Assert that the groups have as members exactly the clients whose shares these are."""

    def leave(self, share: Share) -> None:
        """A client has left. The last one takes the group with it."""
