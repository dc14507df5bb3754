"""The profiles that this agent takes for the scheduler.

| Event | Consequence |
|---|---|
| a request that begins a profile | the worker processes are sampled |
| the same again | it is renewed |
| a request that ends it | its samples are sent, without those of other clients if it is about one client |
| it has not been renewed for a minute | it ends, and its samples are dropped |
"""

from __future__ import annotations

from scaler_protocol.messages import ProfileReply, ProfileRequest
from scaler_protocol.profile import ProfileTree
from scaler_worker.core.effects import BeginProfile, EndProfile

RENEWAL_SECONDS = 60.0
PROFILES_LIMIT = 100
ALL_CLIENTS = bytes(16)

_UNKNOWN_TEXT = "Cannot end the profile: it has not begun on this host."


class Profiles:
    def __init__(self) -> None:
        self._begun: dict[int, tuple[bytes, float]] = {}
        """The client of each profile, and when it ends if it is not renewed."""

        self._ending: dict[int, bytes | None] = {}
        """The client of each profile whose samples are being collected; None: no one waits for them."""

    def on_request(self, request: ProfileRequest, now: float) -> BeginProfile | EndProfile | ProfileReply | None:
        number = request.number
        if not request.interval_us:
            if number not in self._begun:
                return ProfileReply(number, False, _UNKNOWN_TEXT)
            self._ending[number] = self._begun.pop(number)[0]
            return EndProfile(number)
        is_new = number not in self._begun
        if is_new and len(self._begun) >= PROFILES_LIMIT:
            return None
        self._begun[number] = request.session, now + RENEWAL_SECONDS
        return BeginProfile(number, request.interval_us) if is_new else None

    def on_profile(self, number: int, tree: ProfileTree) -> ProfileReply | None:
        """The samples of a profile have been collected."""
        session = self._ending.pop(number, None)
        if session is None:
            return None
        if session != ALL_CLIENTS:
            tree = _of_client(tree, session.hex())
        return ProfileReply(number, True, "", 0, tree.to_bytes())

    def take_overdue(self, now: float) -> list[EndProfile]:
        """End the profiles that have not been renewed."""
        overdue = [number for number, (_, ends_at) in self._begun.items() if now >= ends_at]
        for number in overdue:
            del self._begun[number]
            self._ending[number] = None
        return [EndProfile(number) for number in overdue]


def _of_client(tree: ProfileTree, session: str) -> ProfileTree:
    found = ProfileTree()
    for path, microseconds in tree.rows():
        if len(path) > 1 and path[1] == session:
            found.add(path, microseconds)
    return found
