"""Issues the warnings of tasks in the process of their client."""

from __future__ import annotations

import pickle
import sys
import warnings
from typing import Any

_FILES_LIMIT = 1000


class WarningIssuer:
    """Issues the warnings of one client's tasks. Python's filters decide which are shown, and each is shown once, as if
    the task had run here. A warning is never raised as an exception, whatever the filters say."""

    def __init__(self) -> None:
        self._registries: dict[str, dict[Any, Any]] = {}  # by file: what Python has shown

    def issue(self, data: bytes) -> None:
        """Issue the pickled warnings of a task. Unreadable data is ignored."""
        try:
            for pickled, text, filename, line, module in pickle.loads(data):
                self._issue(_category(pickled), str(text), str(filename), int(line), str(module))
        except Exception:
            return

    def _issue(self, category: type[Warning], text: str, filename: str, line: int, module: str) -> None:
        if len(self._registries) >= _FILES_LIMIT:
            self._registries.clear()
        registry = self._registries.setdefault(filename, {})
        try:
            warnings.warn_explicit(
                text, category, filename or "<task>", line, module or filename.removesuffix(".py"), registry
            )
        except Warning:  # a filter says that it is an error
            if sys.stderr is not None:
                sys.stderr.write(warnings.formatwarning(text, category, filename, line))


def _category(pickled: bytes) -> type[Warning]:
    """UserWarning for one that is not known here, or takes more than a text."""
    try:
        category = pickle.loads(pickled)
        category("text")
    except Exception:
        return UserWarning
    return category if isinstance(category, type) and issubclass(category, Warning) else UserWarning
