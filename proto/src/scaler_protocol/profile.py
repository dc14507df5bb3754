"""A profile: where tasks spent their time, as a tree of calls with microseconds.

The tree is bounded, wherever it is made or merged: time of paths that have no room counts for the part that has. The
first three frames of a path are the worker, the client (its session in hexadecimal) and the function of the task; the
others are calls, the outermost first.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

NODES_LIMIT = 20_000
"""Maximum number of nodes of the profile of one agent."""

PROCESS_NODES_LIMIT = 2_000
"""Maximum number of nodes of the profile of one worker process."""

FRAME_LIMIT = 200
"""Characters."""

DEPTH_LIMIT = 200
DATA_LIMIT_BYTES = 4 * 1024 * 1024
"""Maximum size of an encoded profile, before and after compression."""

_TIME_LIMIT_US = 2**53

INTERVAL_SECONDS = 0.02
"""Time between two samples, by default."""

LEAST_INTERVAL_SECONDS = 0.001


class BadProfile(ValueError):
    """The bytes are not an encoded profile."""


class ProfileTree:
    """``limit``: how many nodes it has at most."""

    def __init__(self, limit: int = NODES_LIMIT) -> None:
        self._limit = limit
        self._children: dict[tuple[int, str], int] = {}
        self._frames: list[str] = []
        self._parents: list[int] = []
        self._microseconds: list[int] = []

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def total_us(self) -> int:
        return sum(self._microseconds)

    def add(self, path: Iterable[str], microseconds: int) -> None:
        """Count time for the innermost call of a path."""
        node = -1
        for frame in path:
            child = self._children.get((node, frame))
            if child is None:
                if len(self._frames) >= self._limit:
                    break
                child = self._children[node, frame] = len(self._frames)
                self._frames.append(frame)
                self._parents.append(node)
                self._microseconds.append(0)
            node = child
        if node >= 0:
            self._microseconds[node] = min(_TIME_LIMIT_US, self._microseconds[node] + microseconds)

    def merge(self, other: ProfileTree, prefix: Sequence[str] = ()) -> None:
        """Add all of another profile below these frames."""
        for path, microseconds in other.rows():
            self.add((*prefix, *path), microseconds)

    def minus(self, earlier: ProfileTree) -> ProfileTree:
        """Return the time since an earlier state of this profile."""
        before = dict(earlier.rows())
        found = ProfileTree(self._limit)
        for path, microseconds in self.rows():
            rest = microseconds - before.get(path, 0)
            if rest > 0:
                found.add(path, rest)
        return found

    def rows(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield each path that has time of its own, with its microseconds, most first, so that these find room."""
        nodes = [node for node, microseconds in enumerate(self._microseconds) if microseconds]
        for node in sorted(nodes, key=self._microseconds.__getitem__, reverse=True):
            yield self._path(node), self._microseconds[node]

    def _path(self, node: int) -> tuple[str, ...]:
        frames = []
        while node >= 0:
            frames.append(self._frames[node])
            node = self._parents[node]
        return tuple(reversed(frames))

    # ---- bytes ---------------------------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        names: dict[str, int] = {}
        nodes = [
            (parent, names.setdefault(frame, len(names)), microseconds)
            for parent, frame, microseconds in zip(self._parents, self._frames, self._microseconds, strict=True)
        ]
        return json.dumps({"frames": list(names), "nodes": nodes}, separators=(",", ":")).encode()

    def to_bytes(self) -> bytes:
        """Return the compressed profile, as messages carry it."""
        return zlib.compress(self.to_json(), 1)

    @classmethod
    def from_json(cls, data: bytes, limit: int = NODES_LIMIT) -> ProfileTree:
        """Raises BadProfile. Frames are cut to ``FRAME_LIMIT`` printable characters."""
        try:
            said = json.loads(data)
            tree = cls(limit)
            tree._take(said["frames"], said["nodes"])
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
            raise BadProfile("The bytes are not a profile.") from error
        return tree

    @classmethod
    def from_bytes(cls, data: bytes, limit: int = NODES_LIMIT) -> ProfileTree:
        """Read what ``to_bytes`` made. Raises BadProfile."""
        try:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(data, DATA_LIMIT_BYTES)
        except zlib.error as error:
            raise BadProfile("The bytes are not a profile.") from error
        if not unpacker.eof:
            raise BadProfile("The profile is too large, or incomplete.")
        return cls.from_json(text, limit)

    def _take(self, frames: list[Any], nodes: list[Any]) -> None:
        names = [_shown(frame) for frame in frames]
        depths: list[int] = []
        for number, (parent, frame, microseconds) in enumerate(nodes[: self._limit]):
            if not -1 <= int(parent) < number or not 0 <= int(microseconds) <= _TIME_LIMIT_US or int(frame) < 0:
                raise BadProfile("The profile contains an impossible node.")
            depths.append(depths[parent] + 1 if parent >= 0 else 1)
            if depths[number] > DEPTH_LIMIT + 3:
                raise BadProfile("The profile is too deep.")
            self._frames.append(names[frame])
            self._parents.append(parent)
            self._microseconds.append(int(microseconds))
            self._children[parent, names[frame]] = number


def regrouped(tree: ProfileTree, by: str) -> ProfileTree:
    """Return the profile with paths that begin with the function, and, for ``by`` "worker" or "client", with that
    before it."""
    found = ProfileTree(max(NODES_LIMIT, 2 * len(tree)))
    place = {"worker": 0, "client": 1}.get(by)
    for path, microseconds in tree.rows():
        front = () if place is None or len(path) <= place else (_group(by, path[place]),)
        found.add((*front, *path[2:]), microseconds)
    return found


def _group(by: str, name: str) -> str:
    return f"client {name[:8]}" if by == "client" else name


def _shown(frame: Any) -> str:
    if not isinstance(frame, str):
        raise BadProfile("The profile contains a frame that is not a text.")
    text = frame[:FRAME_LIMIT]
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
