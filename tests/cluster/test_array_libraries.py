"""Arrays, frames and tensors travel through their buffers, as arguments and results: the pickle has no bytes of them,
and tasks use the memory of the store."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from scaler import Client
from scaler.client.serializer import ReusedPickler
from scaler_protocol.objects.layout import ObjectLayout, load

numpy = pytest.importorskip("numpy")

COUNT = 500_000


def make_array() -> Any:
    return numpy.arange(COUNT, dtype="f8")


def make_pandas_frame() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": make_array(), "b": make_array() * 2})


def make_arrow_table() -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table({"a": make_array(), "s": [f"text {place}" for place in range(1000)] * (COUNT // 1000)})


def make_polars_frame() -> Any:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    return polars.DataFrame({"a": make_array(), "s": [f"text {place}" for place in range(1000)] * (COUNT // 1000)})


def make_polars_series() -> Any:
    return make_polars_frame()["a"]


def make_tensor() -> Any:
    return pytest.importorskip("torch").arange(COUNT, dtype=pytest.importorskip("torch").float64)


def make_module() -> Any:
    return pytest.importorskip("torch").nn.Linear(1000, 500)


MAKERS = [
    make_array,
    make_pandas_frame,
    make_arrow_table,
    make_polars_frame,
    make_polars_series,
    make_tensor,
    make_module,
]


def are_equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if hasattr(one, "state_dict"):
        return all(value.equal(other.state_dict()[name]) for name, value in one.state_dict().items())
    if hasattr(one, "equals"):
        return bool(one.equals(other))
    return bool((one == other).all())


@pytest.mark.parametrize("make", MAKERS)
def test_the_pickle_has_no_bytes_of_it(make: Callable[[], Any]) -> None:
    value = make()
    layout = ReusedPickler().dumps_apart(value)
    assert isinstance(layout, ObjectLayout) and len(layout) > COUNT
    _, pickle_and_its_header = layout.parts()[0]
    assert len(pickle_and_its_header) < 4096
    assert are_equal(load(layout.to_bytes()), value)


@pytest.mark.parametrize("make", MAKERS)
def test_there_and_back(client: Client, make: Callable[[], Any]) -> None:
    value = make()
    assert are_equal(client.submit(lambda each: each, value).result(timeout=60), value)
    reference = client.send_object(value)
    assert all(are_equal(each, value) for each in client.map(lambda each, _: each, [(reference, 1), (reference, 2)]))


def test_a_tensor_can_be_written_to_without_effect_on_others(client: Client) -> None:
    def clear(tensor: Any) -> float:
        before = float(tensor.sum())
        tensor.zero_()
        return before

    tensor = make_tensor()
    reference = client.send_object(tensor, shared=False)
    expected = float(tensor.sum())
    assert client.map(clear, [tensor, tensor]) == [expected] * 2
    assert client.map(clear, [(reference,), (reference,)]) == [expected] * 2


def test_tensors_that_are_more_than_their_values(client: Client) -> None:
    torch = pytest.importorskip("torch")
    for tensor in (
        torch.rand(30, 40).T,
        torch.rand(50_000).bfloat16(),
        torch.rand(50_000, requires_grad=True),
        torch.rand(300, 300).to_sparse(),
        torch.tensor(5),
        torch.zeros(0),
        torch.nn.Parameter(torch.rand(50_000)),
    ):
        again = client.submit(lambda each: each, tensor).result(timeout=60)
        assert type(again) is type(tensor) and again.dtype == tensor.dtype and again.shape == tensor.shape
        assert again.requires_grad == tensor.requires_grad and again.layout == tensor.layout
        assert bool((again.to_dense() == tensor.to_dense()).all())


def test_frames_of_any_types(client: Client) -> None:
    polars = pytest.importorskip("polars")
    types = {
        "text": ["a", None] * 5000,
        "list": [[1, 2], []] * 5000,
        "struct": [{"x": 1, "y": "z"}] * 10_000,
        "category": polars.Series(["u", "v"] * 5000, dtype=polars.Categorical),
        "enum": polars.Series(["u", "v"] * 5000, dtype=polars.Enum(["u", "v"])),
        "time": polars.Series(range(10_000)).cast(polars.Datetime("us", "UTC")),
        "decimal": polars.Series(range(10_000)).cast(polars.Decimal(20, 3)),
        "object": polars.Series([object] * 10_000, dtype=polars.Object),
    }
    for name, values in types.items():
        frame = polars.DataFrame({name: values, "number": range(10_000)})
        try:
            pickle.dumps(frame)
        except Exception:
            continue  # Polars itself cannot
        again = client.submit(lambda each: each, frame).result(timeout=60)
        assert again.equals(frame) and again.schema == frame.schema
    assert client.submit(lambda each: each, polars.DataFrame()).result(timeout=60).equals(polars.DataFrame())
