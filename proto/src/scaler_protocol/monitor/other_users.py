"""Publishers that run as another user of this machine, and whose streams are not shown."""

from __future__ import annotations

ROOT = 0


def served_by_another(address: str, user: int) -> str:
    """The sentence for the user who wanted to watch."""
    return (
        f"{address} is served by {_name_of(user)}, not by you, so nothing was read. "
        "Use the address that your own scheduler logs."
    )


def _name_of(user: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"
