"""Offers of a bulk connection: features of the Welcome of a store, one for each way to encrypt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

NAME_BYTES = 16
TOKEN_BYTES = 32
FINGERPRINT_BYTES = 32
SEALING_KEY_BYTES = 32
FEATURE = "bulk"
SEALED_FEATURE = "sealed"


@dataclass(frozen=True, slots=True)
class Offer:
    """A peer may open one bulk connection to ``port``: there it shows ``name``, which is not secret, and then
    ``token``. With a ``fingerprint``, TLS begins in between, with the certificate that has it; with a ``key``, what
    follows the name is sealed with it (see ``sealed_connection``)."""

    port: int
    name: bytes
    token: bytes
    fingerprint: bytes = b""
    key: bytes = b""

    def to_feature(self) -> str:
        """Return the value as a feature of Welcome."""
        label, last = (SEALED_FEATURE, self.key) if self.key else (FEATURE, self.fingerprint)
        return ":".join((label, str(self.port), self.name.hex(), self.token.hex(), last.hex()))


@lru_cache(1)
def can_seal() -> bool:
    """Return whether the library that seals is installed. Loading it takes a moment, so only peers with keys ask."""
    try:
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
    except ImportError:
        return False
    return True


def offer_in(features: tuple[str, ...]) -> Offer | None:
    """Return the offer in the Welcome of a store, a sealed one if this process can seal; None: none is readable."""
    offers = {feature.partition(":")[0]: feature for feature in reversed(features)}
    if SEALED_FEATURE in offers and can_seal():
        return _parse_offer(SEALED_FEATURE, offers[SEALED_FEATURE])
    return _parse_offer(FEATURE, offers[FEATURE]) if FEATURE in offers else None


def _parse_offer(label: str, feature: str) -> Offer | None:
    try:
        _, number, *fields = feature.split(":")
        port, (name, token, last) = int(number), map(bytes.fromhex, fields)
    except ValueError:
        return None
    is_valid = 0 < port < 2**16 and len(name) == NAME_BYTES and len(token) == TOKEN_BYTES
    if label == SEALED_FEATURE:
        return Offer(port, name, token, key=last) if is_valid and len(last) == SEALING_KEY_BYTES else None
    return Offer(port, name, token, last) if is_valid and len(last) in (0, FINGERPRINT_BYTES) else None
