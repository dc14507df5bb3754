"""Remedies for what the system refuses to a process."""

from __future__ import annotations

import errno


def with_remedy(error: OSError, process: str) -> str:
    """Return why this has failed and, where that is known, what helps: without a period. ``process`` names the process
    in that text, as in "this agent"."""
    remedy = _REMEDIES.get(error.errno or 0, "")
    why = error.strerror or str(error)
    return f"{why}: {remedy.format(process=process)}" if remedy else why


_REMEDIES = {
    errno.EMFILE: "close files or connections of {process}, or raise its limit (ulimit -n)",
    errno.EAGAIN: "end processes or threads of this user, or raise the limit (ulimit -u)",
    errno.ENOMEM: "free memory, or raise what limits that of {process} (ulimit -v, a service or container)",
    errno.EFBIG: "raise the limit of {process} for the size of files (ulimit -f)",
}
