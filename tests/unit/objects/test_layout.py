from __future__ import annotations

import pickle
import random
from typing import Any

import numpy
import pytest

from scaler_protocol.objects.layout import MAGIC, ObjectLayout, load, plan


def planned(value: Any) -> ObjectLayout:
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, 5, buffer_callback=buffers.append)
    return plan(pickled, buffers)


def stored(layout: ObjectLayout) -> memoryview:
    """As the store keeps it: writable memory, with anything between the parts."""
    view = memoryview(bytearray(b"\xaa" * layout.size))
    layout.write_into(view)
    return view


VALUES = [
    None,
    {"a": [1, 2, 3]},
    numpy.arange(1000.0),
    [numpy.arange(7, dtype="u1"), numpy.zeros(0), numpy.ones((3, 5))],
    {"fortran": numpy.asfortranarray(numpy.arange(12).reshape(3, 4)), "bytes": bytearray(b"abc")},
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_what_is_written_is_read(value: Any) -> None:
    loaded = load(stored(planned(value)))
    assert pickle.dumps(loaded) == pickle.dumps(value)


def test_arrays_lie_in_the_object_aligned_and_writable() -> None:
    view = stored(planned([numpy.arange(3, dtype="u1"), numpy.arange(100.0)]))
    small, large = load(view)
    start = numpy.frombuffer(view, "u1").ctypes.data
    for array in (small, large):
        assert (array.ctypes.data - start) % 64 == 0
        assert 0 < array.ctypes.data - start < len(view)
        array[0] = 9
    again = load(view)
    assert again[0][0] == 9 and again[1][0] == 9


def test_without_buffers_an_object_is_a_plain_pickle() -> None:
    assert planned([1, 2]).to_bytes() == pickle.dumps([1, 2], 5)
    assert not pickle.dumps([1, 2], 5).startswith(MAGIC)


def test_in_one_piece_it_is_the_same() -> None:
    layout = planned(VALUES[3])
    assert load(layout.to_bytes())[2].sum() == 15


def test_strided_arrays_travel_in_the_pickle() -> None:
    value = numpy.arange(100)[::3]
    assert (load(stored(planned(value))) == value).all()


def test_a_strided_buffer_is_refused() -> None:
    with pytest.raises(BufferError):
        plan(b"", [memoryview(bytes(10))[::2]])


@pytest.mark.parametrize("seed", range(20))
def test_cut_or_forged_objects_are_errors(seed: int) -> None:
    chance = random.Random(seed)
    view = bytes(stored(planned(VALUES[3])))
    cut = view[: chance.randrange(len(MAGIC), len(view))]
    with pytest.raises((ValueError, pickle.UnpicklingError, EOFError)):
        load(cut)
    forged = bytearray(view)
    forged[chance.randrange(8, 60)] ^= 1 << chance.randrange(8)
    try:
        load(forged)
    except Exception:
        pass


def test_arrays_can_be_written_to_whatever_they_come_from() -> None:
    array = numpy.arange(100_000)
    whole = planned(array).to_bytes()
    for given in (whole, memoryview(whole), bytearray(whole)):
        loaded = load(given)
        loaded += 1
        assert (loaded == array + 1).all()
    assert (load(whole) == array).all()


def test_an_object_in_memory_of_its_own_has_the_same_bytes() -> None:
    planned_array = planned(numpy.arange(300_000))
    assert planned_array.to_memory() == planned_array.to_bytes()
