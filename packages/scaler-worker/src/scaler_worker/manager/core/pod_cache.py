"""The pods of a manager as the watch of the API server tells them.

A list gives the pods and a version. A watch from that version tells each change, and passes on newer versions. If the
version is too old (410 Gone), all pods are listed again. A pod that was created is known at once, although a list that
began before may not have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

GONE = 410


class PodCache:
    """``version``: where to watch from; None: list the pods first."""

    def __init__(self) -> None:
        self.version: str | None = None
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._created_at: dict[str, float] = {}  # of pods that no list and no watch has told yet

    @property
    def pods(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self._pods.values())

    def on_created(self, pod: Mapping[str, Any], now: float) -> None:
        """The answer to the creation of a pod. A watch may have told it before."""
        name = _name(pod)
        if name not in self._pods:
            self._pods[name] = pod
            self._created_at[name] = now

    def on_listed(self, answer: Mapping[str, Any], begun_at: float) -> None:
        """All pods, by a list that began at ``begun_at``."""
        listed = {_name(pod): pod for pod in answer.get("items") or ()}
        created = {
            name: self._pods[name] for name, at in self._created_at.items() if at >= begun_at and name not in listed
        }
        self._pods = {**listed, **created}
        self._created_at = {name: self._created_at[name] for name in created}
        self.version = answer["metadata"]["resourceVersion"]

    def on_event(self, event: Mapping[str, Any]) -> None:
        """One line of a watch. After an error, the pods are listed again."""
        kind, pod = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            return self.on_watch_refused()
        self.version = pod["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return
        name = _name(pod)
        self._created_at.pop(name, None)
        if kind == "DELETED":
            self._pods.pop(name, None)
        else:
            self._pods[name] = pod

    def on_watch_refused(self) -> None:
        """The version is too old."""
        self.version = None


def _name(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["name"])
