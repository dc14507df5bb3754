"""The token, which every request must contain.

It is part of the address that ``scaler_ui`` prints. A browser that has shown it once gets a cookie, and then needs
the token no more. Programs may send it as ``Authorization: Bearer``.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import urlencode

TOKEN_BYTES = 24
"""Size of a new token."""

SHORTEST = 8
"""Minimum number of characters of a token that a user chooses."""

_SCHEME = "bearer "
REFUSAL = (
    "403: This page of scaler_ui requires a token.\n\n"
    "Open the address that scaler_ui printed when it started; it ends in ?token=...\n"
    "The token changes at each start, unless you set one with --token or SCALER_UI_TOKEN.\n"
)


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


class TokenCheck:
    """Decides whether a request may be answered. If ``token`` is None, every request may."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        # Browsers send a cookie to every port of a host: its name tells servers apart, and its value is not the token.
        self.cookie_name = f"scaler_ui_{self._derived('name')[:8]}"
        self.cookie_value = self._derived("value")

    @property
    def has_token(self) -> bool:
        return self._token is not None

    def address(self, base: str) -> str:
        """The address to open in a browser."""
        return base if self._token is None else f"{base}?{urlencode({'token': self._token})}"

    def shows_token(self, query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        """Return whether a request has the token itself."""
        given = headers.get("Authorization", "")
        bearer = given[len(_SCHEME) :].strip() if given.lower().startswith(_SCHEME) else ""
        return self._token is not None and (
            _are_equal(query.get("token", ""), self._token) or _are_equal(bearer, self._token)
        )

    def grants(self, query: Mapping[str, str], headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        """Return whether a request may be answered."""
        return (
            self._token is None
            or self.shows_token(query, headers)
            or _are_equal(cookies.get(self.cookie_name, ""), self.cookie_value)
        )

    def _derived(self, purpose: str) -> str:
        key = (self._token or "").encode()
        return hmac.new(key, f"scaler_ui cookie {purpose}".encode(), hashlib.sha256).hexdigest()


def _are_equal(given: str, wanted: str) -> bool:
    """Compare two texts in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
