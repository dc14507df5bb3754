"""Arrays that NumPy itself would pickle at length."""

from __future__ import annotations

import pickle
from typing import Any

import numpy
import pytest

from scaler.client.serializer import DefaultSerializer, serialize_apart
from scaler_protocol.objects.layout import load
from scaler_worker.worker_process.serialization import dumps

WAYS = {"argument": serialize_apart, "result": dumps, "serializer": DefaultSerializer.serialize}


@pytest.fixture(params=WAYS)
def serialized(request: pytest.FixtureRequest) -> Any:
    return WAYS[request.param]


def travelled(written: Any) -> Any:
    return load(written if isinstance(written, bytes) else memoryview(bytearray(written.to_bytes())))


REPEATED = [
    numpy.broadcast_to(1.5, (3000, 4000)),
    numpy.broadcast_to(numpy.arange(4000.0), (3000, 4000)),
    numpy.broadcast_to(numpy.arange(3000)[:, None], (3000, 4000)).T,
    numpy.broadcast_to(numpy.array([{"a": 1}], object), (1000, 1)),
    numpy.broadcast_to(numpy.datetime64("2020-01-01"), 100_000)[10:],
    numpy.broadcast_to(numpy.arange(6).reshape(2, 3), (10_000, 2, 3))[:, ::-1, :2],
]


@pytest.mark.parametrize("array", REPEATED, ids=range(len(REPEATED)))
def test_what_repeats_itself_travels_once(serialized: Any, array: Any) -> None:
    written = serialized(array)
    assert len(written) < 100_000
    result = travelled(written)
    assert result.dtype == array.dtype and result.shape == array.shape and not result.flags.writeable
    assert (result == array).all()


def test_what_can_be_written_to_can_still_be(serialized: Any) -> None:
    repeated = numpy.lib.stride_tricks.as_strided(numpy.ones(5), (1000, 5), (0, 8))
    for array in (repeated, numpy.ones((200, 300))[::2, ::3], numpy.zeros((0, 3)), numpy.float64(2.0)[None]):
        result = travelled(serialized(array))
        assert (result == array).all() and result.flags.writeable


def test_a_piece_of_an_array_lies_beside_the_pickle() -> None:
    piece = numpy.arange(4_000_000.0).reshape(2000, 2000)[100:900, 300:1700]
    for write in (serialize_apart, dumps):
        written = write(piece)
        assert not isinstance(written, bytes) and len(written.parts()) == 2 and len(written) < piece.nbytes + 1000
        assert (travelled(written) == piece).all()


def test_other_arrays_are_as_numpy_writes_them(serialized: Any) -> None:
    class Named(numpy.ndarray):
        pass

    for array in (
        numpy.arange(10),
        numpy.asfortranarray(numpy.ones((30, 40))),
        numpy.array([1, "a"], object)[::-1],
        numpy.ma.masked_array([1, 2], [0, 1]),
        numpy.broadcast_to(numpy.ones(3).view(numpy.recarray), (2, 3), subok=True),
        numpy.ones(3).view(Named),
    ):
        result = travelled(serialized(array))
        assert type(result) is type(array) or type(array) is Named
        assert pickle.dumps(result.tolist()) == pickle.dumps(array.tolist())
        assert result.flags.f_contiguous == array.flags.f_contiguous or array.dtype == object
