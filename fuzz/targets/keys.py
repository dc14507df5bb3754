"""Files of keys: whatever they hold, they are used or refused with a sentence, and no key gets a role by accident."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from fuzz.choices import Choices
from fuzz.scratch import scratch
from scaler_protocol.address import parse_address
from scaler_protocol.keys import (
    VARIABLE,
    holder_of_user,
    key_of_user,
    parse_public_key,
    peer_keys,
    role_of_user,
    scheduler_keys,
)
from scaler_protocol.messages import Role

NAMES = (
    "scheduler.key",
    "scheduler.pub",
    "submit.pub",
    "submit-two.pub",
    "submit-a:b.pub",
    "submit.before-20260101T000000Z.pub",
    "work.pub",
    "observe.pub",
    "admin.pub",
    "x.pub",
)
ADDRESS = parse_address("tcp://10.0.0.1:5")
GOOD = tuple(bytes([65 + number]) * 40 for number in range(6))
SECOND_LINES = (
    b"",
    b"\n",
    b"\r\n",
    b" ",
    b"\nexpires 2020-01-31\n",
    b"\nexpires 2999-01-31\n",
    b"\nexpires 2999-02-30T25:00:00Z",
    b"\nexpires 9999-12-31",
    b"\nexpires 2999-01-31\nexpires 2020-01-31",
)
LONGEST_INPUT_BYTES = 512
PRESENT: set[str] = set()
"""The files that the last input has left: to remove all of them and write them again costs more than to read them."""


def one_input(data: bytes) -> None:
    choices = Choices(data)
    folder = scratch()
    written = write(choices, folder)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(folder)
    try:
        check_scheduler(choices, written)
        check_peers()
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def write(choices: Choices, folder: Path) -> dict[str, bytes]:
    written = {name: content(choices) for name in NAMES if choices.flag()}
    for name in NAMES:
        path = folder / name
        if name in written:
            path.write_bytes(written[name])
            path.chmod(0o644 if choices.flag(16) else 0o600)
        elif name in PRESENT:
            path.unlink()
    PRESENT.clear()
    PRESENT.update(written)
    return written


def check_scheduler(choices: Choices, written: dict[str, bytes]) -> None:
    try:
        found = scheduler_keys(ADDRESS)
    except (ValueError, PermissionError) as error:
        assert str(error)
        return
    assert found is not None
    users = found.known.users()
    for key in (*GOOD, b"", choices.take(40)):
        user = found.user_of(key)
        assert user is None or user in users
        check_user(user, key, written)


def check_peers() -> None:
    for role in Role:
        try:
            peer_keys(ADDRESS, role)
        except (ValueError, PermissionError) as error:
            assert str(error)


def content(choices: Choices) -> bytes:
    if choices.flag(4):
        return choices.take(choices.below(64))
    second = SECOND_LINES[choices.below(len(SECOND_LINES))] if not choices.flag(8) else b"\nexpires " + choices.take(20)
    return choices.pick(GOOD) + second


def check_user(user: bytes | None, key: bytes, written: dict[str, bytes]) -> None:
    """A role only for whom a file of that role names, and which has not expired."""
    if user is None:
        return
    assert key_of_user(user) == key
    role = role_of_user(user)
    assert role is not None
    names = [name for name, data in written.items() if name.endswith(".pub") and is_key_of(key, Path(name), data)]
    assert any(name.split(".")[0].split("-")[0] == role.name.lower() for name in names), (role, names)
    assert any(name.split(".")[0] == holder_of_user(user) for name in names), (user, names)


def is_key_of(key: bytes, name: Path, data: bytes) -> bool:
    try:
        found, expires = parse_public_key(name, data)
    except ValueError as error:
        assert str(error)
        return False
    return found == key and expires > time.time()


def seeds() -> Iterator[bytes]:
    yield bytes([1, 0, 0, 0] * 8)
    yield bytes([1, 0, 1, 0, 1, 0, 2, 0, 1, 0, 3, 1] * 4)
    yield bytes([1, 3, 20, *range(20), 1, 0, 1, 0] * 3)
