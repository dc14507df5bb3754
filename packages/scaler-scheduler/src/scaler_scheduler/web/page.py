"""A page: what one open browser page shows, and what is new to it. Pure."""

from __future__ import annotations

import json
from typing import Any

from scaler_protocol.monitor.model import Model
from scaler_scheduler.web.answers import Query, answer, stream
from scaler_scheduler.web.samples import Samples

WATCH_LIMIT = 20
_QUICK = ("stream", "task", "output")
"""The part answered at every turn; the rest follows the scheduler's snapshots."""


class Page:
    """Decides what to send; nothing goes out before the page has said that it has shown what came before."""

    def __init__(self) -> None:
        self._watched: dict[str, Query] = {}
        self._sent: dict[str, Any] = {}
        self._samples = Samples()
        self._number = 0
        self._seen = 0

    def watch(self, watched: dict[str, Query]) -> None:
        """The page shows something else now; what it goes on showing is not sent again."""
        if len(watched) > WATCH_LIMIT:
            raise ValueError("a page that shows too much")
        self._sent = {key: text for key, text in self._sent.items() if watched.get(key) == self._watched.get(key)}
        self._watched = watched

    def saw(self, number: int) -> None:
        self._seen = max(self._seen, number)

    @property
    def is_seen(self) -> bool:
        """Whether it shows anything: a page that is hidden does not."""
        return bool(self._watched)

    @property
    def is_behind(self) -> bool:
        return self._seen < self._number

    def push(self, model: Model, status: dict[str, Any], quick: bool) -> list[str | bytes]:
        """Messages for the page; none when nothing has changed. ``quick``: only what changes often, and what is new."""
        messages: list[str | bytes] = []
        results: dict[str, Any] = {}
        slow = (key for key, query in self._watched.items() if query["what"] not in _QUICK)
        is_whole = not quick or any(key not in self._sent for key in slow)
        for key, query in self._watched.items():
            if quick and key in self._sent and query["what"] not in _QUICK:
                continue
            if query["what"] == "stream":
                messages += self._news(key, stream(model, query, key))
            else:
                for result in self._news(key, self._answer(model, query)):
                    results[key] = result
        status = status if is_whole else self._with_shown_badges(status)
        news = {"status": status} if self._news(" status", status) else {}
        if results or news or messages:
            self._number += 1
            messages.append(json.dumps({"number": self._number, "results": results} | news))
        return messages

    def _with_shown_badges(self, status: dict[str, Any]) -> dict[str, Any]:
        """The numbers next to the names of views change together with those in the views."""
        shown = self._sent.get(" status", {}).get("badges")
        return status if shown is None else {**status, "badges": shown}

    def _answer(self, model: Model, query: Query) -> Any:
        return self._samples.new(model) if query["what"] == "samples" else answer(model, query)

    def _news(self, key: str, result: Any) -> list[Any]:
        """The result, unless the page has it."""
        if self._sent.get(key) == result and (key in self._sent or result is None):
            return []
        self._sent[key] = result
        return [] if result is None else [result]
