"""The client session, attacked by its scheduler: results, objects, questions and credits that make no sense.

No exception escapes and every core's own check holds after each step. Once an honest scheduler has taken over, all
tasks of honest clients end.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.arena import be_lied_to, some_fights
from scaler_protocol.messages import Role

LONGEST_INPUT_BYTES = 2048
IS_SEQUENCE = True


def one_input(data: bytes) -> None:
    be_lied_to(data, Role.SUBMIT)


def seeds() -> Iterator[bytes]:
    yield from some_fights()
