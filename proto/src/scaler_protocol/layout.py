"""The positions of the fields of the schema's structs in their sections.

Cap'n Proto places fields in the order of their numbers: data into the first hole that fits, else into a new word;
pointers one after the other. So the schema's text is all that is needed, and no library has to be loaded for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^ +(\w+) @(\d+) :([\w()]+);", re.M)
_BITS = {"Bool": 1, "UInt8": 8, "UInt16": 16, "UInt32": 32, "UInt64": 64, "Int64": 64, "Float64": 64}
_WORD_BITS = 64


@dataclass(slots=True)
class StructField:
    """``bits`` and ``offset`` (in bits) of a field of the data section; a pointer has 0 bits, ``offset`` counts
    pointers."""

    type: str
    bits: int
    offset: int


class StructLayout:
    """One struct."""

    def __init__(self, text: str) -> None:
        self.data_words = 0
        self.pointer_words = 0
        self.fields: dict[str, StructField] = {}
        self._holes: dict[int, int] = {}
        for name, _, type_name in sorted(_FIELD.findall(text), key=lambda found: int(found[1])):
            bits = _BITS.get(type_name, 0)
            self.fields[name] = StructField(type_name, bits, self._place(bits) * bits if bits else self._pointer())

    def _pointer(self) -> int:
        self.pointer_words += 1
        return self.pointer_words - 1

    def _place(self, bits: int) -> int:
        """Counted in fields of this size."""
        place = self._take_hole(bits)
        if place is None:
            place = self.data_words * (_WORD_BITS // bits)
            self.data_words += 1
            self._leave_holes(bits, place + 1)
        return place

    def _take_hole(self, bits: int) -> int | None:
        """There is at most one hole of each size."""
        if bits >= _WORD_BITS:
            return None
        if bits in self._holes:
            return self._holes.pop(bits)
        larger = self._take_hole(2 * bits)
        if larger is None:
            return None
        self._holes[bits] = 2 * larger + 1
        return 2 * larger

    def _leave_holes(self, bits: int, place: int) -> None:
        """Note the bits that a field leaves unused in its new word."""
        while bits < _WORD_BITS:
            self._holes[bits] = place
            bits, place = 2 * bits, (place + 1) // 2


_TEXT = (Path(__file__).parent / "schemas" / "message.capnp").read_text(encoding="utf-8")
_texts: dict[str, str] = dict(_STRUCT.findall(_TEXT))


def layout(name: str) -> StructLayout:
    """Return the layout of the struct of this name (not Message, which has a union)."""
    return StructLayout(_texts[name])


def bodies() -> list[str]:
    """The names of Message's union in the order of their tags."""
    return [name for name, _ in _union()]


def body_classes() -> list[str]:
    """The names of the classes of these bodies: those of their structs. A body without fields has no struct, and its
    class has the name of the field in the union."""
    return [name[0].upper() + name[1:] if struct == "Void" else struct for name, struct in _union()]


def _union() -> list[tuple[str, str]]:
    fields = sorted((int(number), name, struct) for name, number, struct in _FIELD.findall(_texts["Message"]))
    return [(name, struct) for _, name, struct in fields if name not in ("sequence", "acknowledged")]
