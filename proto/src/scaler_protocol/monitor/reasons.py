"""The beginnings, in lower case, of those reasons for waiting that monitors must recognize."""

from __future__ import annotations

NO_WORKERS = "no worker is connected"
MISSING_CAPABILITIES = "no connected worker has the capabilities it needs"
NO_AVAILABLE_WORKER = "every worker that could run it is"
LIMIT_TAKEN_BY_ACTORS = "actors hold the workers that its group may use"
RESULTS_MISSING = "waits for results of other tasks"

_KINDS = (NO_WORKERS, MISSING_CAPABILITIES, NO_AVAILABLE_WORKER, LIMIT_TAKEN_BY_ACTORS, RESULTS_MISSING)


def kind_of(reason: str) -> str:
    """Return the beginning that a reason has of these, in whatever case; empty: none."""
    text = reason.casefold()
    return next((kind for kind in _KINDS if text.startswith(kind)), "")
