"""An ephemeral key and certificate for TLS, made without any library: the standard library uses certificates but cannot
make one.

The certificate is not signed, and its contents are not read. The peer learns its fingerprint over an authenticated
connection, and accepts this certificate only. OpenSSL does all that is secret during a handshake; only the
multiplication that makes the public key, once per process, is done here.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import ssl
import textwrap

Point = tuple[int, int] | None
"""Affine coordinates on the curve; None: the point at infinity."""

_PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
"""NIST P-256."""

_EC_PUBLIC_KEY = bytes.fromhex("06072a8648ce3d0201")
_P256 = bytes.fromhex("06082a8648ce3d030107")
_ECDSA_WITH_SHA256 = bytes.fromhex("06082a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("0603550403")
_INTEGER, _BITS, _BYTES, _TEXT, _TIME, _SEQUENCE, _SET = 0x02, 0x03, 0x04, 0x0C, 0x18, 0x30, 0x31


class Certificate:
    """A new one. ``fingerprint``: the SHA-256 of its encoding."""

    def __init__(self) -> None:
        secret = secrets.randbelow(_ORDER - 1) + 1
        public = _encode_point(multiply(secret, _BASE))
        encoded = _certificate(public)
        self.fingerprint = hashlib.sha256(encoded).digest()
        self._pem = _pem("EC PRIVATE KEY", _private_key(secret, public)) + _pem("CERTIFICATE", encoded)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Through a memory file: the secret key is never on disk."""
        with os.fdopen(os.memfd_create("scaler-certificate", os.MFD_CLOEXEC), "wb") as file:
            file.write(self._pem)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")


# ---- the curve -------------------------------------------------------------------------------------------------------


def multiply(factor: int, point: Point) -> Point:
    product: Point = None
    while factor:
        if factor & 1:
            product = add(product, point)
        point = add(point, point)
        factor >>= 1
    return product


def add(one: Point, other: Point) -> Point:
    if one is None or other is None:
        return other if one is None else one
    (x, y), (u, v) = one, other
    if x == u and (y + v) % _PRIME == 0:
        return None
    rise, run = (3 * x * x - 3, 2 * y) if x == u else (v - y, u - x)
    slope = rise * pow(run, -1, _PRIME)
    third = (slope * slope - x - u) % _PRIME
    return third, (slope * (x - third) - y) % _PRIME


# ---- its encoding ----------------------------------------------------------------------------------------------------


def _encode_point(point: Point) -> bytes:
    assert point is not None
    return b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def _private_key(secret: int, public: bytes) -> bytes:
    """RFC 5915."""
    parts = _der(_INTEGER, b"\x01"), _der(_BYTES, secret.to_bytes(32, "big"))
    return _der(_SEQUENCE, *parts, _der(0xA0, _P256), _der(0xA1, _der(_BITS, b"\0" + public)))


def _certificate(public: bytes) -> bytes:
    """RFC 5280, version 1. Its signature is a placeholder, because it is not verified."""
    algorithm = _der(_SEQUENCE, _ECDSA_WITH_SHA256)
    name = _der(_SEQUENCE, _der(_SET, _der(_SEQUENCE, _COMMON_NAME, _der(_TEXT, b"scaler object store"))))
    validity = _der(_SEQUENCE, _der(_TIME, b"20000101000000Z"), _der(_TIME, b"99991231235959Z"))
    key = _der(_SEQUENCE, _der(_SEQUENCE, _EC_PUBLIC_KEY, _P256), _der(_BITS, b"\0" + public))
    serial = _der(_INTEGER, b"\x01" + secrets.token_bytes(8))
    content = _der(_SEQUENCE, serial, algorithm, name, validity, name, key)
    signature = _der(_SEQUENCE, _der(_INTEGER, b"\x01"), _der(_INTEGER, b"\x01"))
    return _der(_SEQUENCE, content, algorithm, _der(_BITS, b"\0" + signature))


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    sizes = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(sizes))) + sizes + content


def _pem(label: str, encoded: bytes) -> bytes:
    lines = "\n".join(textwrap.wrap(base64.b64encode(encoded).decode(), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode()
