"""The beginnings, in lower case, of those reasons for waiting that monitors must recognize."""

from __future__ import annotations

NO_WORKERS = "no worker is connected"
MISSING_CAPABILITIES = "no connected worker has the capabilities it needs"
NO_AVAILABLE_WORKER = "every worker that could run it is"
RESULTS_MISSING = "waits for results of other tasks"
