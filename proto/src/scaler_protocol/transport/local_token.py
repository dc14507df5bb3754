"""The token of this user, as a peer needs it for all its connections."""

from __future__ import annotations

from scaler_protocol.security import ensure_token, read_token


class LocalToken:
    """Made when there is none yet: whichever of a scheduler and its peers starts first makes it. Raises ValueError and
    PermissionError as ``ensure_token``."""

    def __init__(self) -> None:
        self._token = ensure_token()

    def read(self) -> bytes:
        """Return the token that is in the file now: it may have been replaced. While it cannot be read, the last
        one."""
        try:
            self._token = read_token() or self._token
        except (OSError, ValueError):
            pass
        return self._token
