"""A filter of the kernel on a listening TCP socket: connections from some addresses do not open. Linux only.

The kernel runs the program (classic BPF, socket(7) SO_ATTACH_FILTER) for each packet of the socket, and for each packet
of the connections that it accepts. So the program drops only the first packet of a connection (SYN). The peer sends it
again after 1, 3, 7 ... seconds, and connects when the filter is gone.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Collection

ADDRESS_LIMIT = 32
"""Beyond it, no address can open a connection: jumps of a program are short."""

_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_NETWORK_HEADER = -0x100000 & 0xFFFFFFFF  # SKF_NET_OFF; offsets of other loads begin with the TCP header
_LOAD_WORD, _LOAD_BYTE, _AND, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x30, 0x54, 0x15, 0x06
_FLAGS_OFFSET, _SYN_ACK, _SYN = 13, 0x12, 0x02
_SOURCE_4, _SOURCE_6 = 12, 8  # within the network header
_DROP, _ACCEPT = 0, 0xFFFFFFFF

Instruction = tuple[int, int, int, int]
"""Code, jumps if true and if false, operand (struct sock_filter)."""


def program(addresses: Collection[str]) -> list[Instruction]:
    """Return the instructions that drop new connections from these addresses (IPv4 or IPv6), at most ``ADDRESS_LIMIT``;
    from all addresses if there are more."""
    begin: list[Instruction] = [
        (_LOAD_BYTE, 0, 0, _FLAGS_OFFSET),
        (_AND, 0, 0, _SYN_ACK),
        (_JUMP_IF_EQUAL, 1, 0, _SYN),
        (_RETURN, 0, 0, _ACCEPT),
    ]
    if len(addresses) > ADDRESS_LIMIT:
        return [*begin, (_RETURN, 0, 0, _DROP)]
    parsed = [ipaddress.ip_address(each) for each in sorted(addresses)]
    four = [_words(each.packed) for each in parsed if each.version == 4]
    six = [_words(each.packed) for each in parsed if each.version == 6]
    drop_four = [each for words in four for each in _drop_if_from(words, _SOURCE_4)]
    drop_six = [each for words in six for each in _drop_if_from(words, _SOURCE_6)]
    is_version_4: list[Instruction] = [
        (_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
        (_AND, 0, 0, 0xF0),
        (_JUMP_IF_EQUAL, 0, len(drop_four) + 1, 0x40),
    ]
    accept: Instruction = (_RETURN, 0, 0, _ACCEPT)
    return [*begin, *is_version_4, *drop_four, accept, *drop_six, accept]


def attach(fd: int, addresses: Collection[str]) -> None:
    """Drop new connections from these addresses, and no others, on the listening socket ``fd``. Raises OSError."""
    listening = socket.socket(fileno=fd)
    try:
        if not addresses:
            listening.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            return
        code = b"".join(struct.pack("=HBBI", *each) for each in program(addresses))
        buffer = ctypes.create_string_buffer(code, len(code))
        listening.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
        )
    finally:
        listening.detach()


def _words(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(packed) // 4}I", packed)


def _drop_if_from(words: tuple[int, ...], offset: int) -> list[Instruction]:
    """A comparison that fails jumps behind the last instruction."""
    instructions: list[Instruction] = []
    for index, word in enumerate(words):
        behind = 2 * (len(words) - index) - 1
        instructions.append((_LOAD_WORD, 0, 0, _NETWORK_HEADER + offset + 4 * index))
        instructions.append((_JUMP_IF_EQUAL, 0, behind, word))
    return [*instructions, (_RETURN, 0, 0, _DROP)]
