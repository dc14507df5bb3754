"""Custom serializers: how often they are called, with what, and where."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import pytest

from scaler import Client, SchedulerClusterCombo, Serializer
from scaler.utility.exceptions import DeserializeObjectError, ScalerError
from tests.support import functions

MARK = b"marked:"


class CountingSerializer(Serializer):
    serialized: list[object] = []

    @staticmethod
    def serialize(obj: Any) -> bytes:
        CountingSerializer.serialized.append(obj)
        return MARK + cloudpickle.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        assert type(payload) is bytes, type(payload)
        assert payload.startswith(MARK)
        return pickle.loads(payload[len(MARK) :])


@pytest.fixture
def counted(combo: SchedulerClusterCombo):  # type: ignore[no-untyped-def]
    CountingSerializer.serialized = []
    with Client(combo.get_address(), serializer=CountingSerializer()) as client:
        yield client


def test_serialize_is_called_once_for_function_and_each_argument(counted: Client) -> None:
    assert counted.submit(functions.add, 1, right=2).result() == 3
    assert sorted(CountingSerializer.serialized, key=str) == [1, 2, functions.add]


def test_map_serializes_the_function_once(counted: Client) -> None:
    assert counted.map(functions.square, range(10)) == [n * n for n in range(10)]
    assert CountingSerializer.serialized.count(functions.square) == 1
    assert len(CountingSerializer.serialized) == 11


def test_the_result_is_serialized_once_by_the_worker(counted: Client) -> None:
    class Result:
        copies = 0

        def __getstate__(self) -> dict[str, int]:
            return {"copies": self.copies + 1}

        def __setstate__(self, state: dict[str, int]) -> None:
            self.copies = state["copies"]

    assert counted.submit(lambda: Result()).result().copies == 1


def test_class_of_static_methods_instead_of_an_instance(combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address(), serializer=CountingSerializer) as client:  # type: ignore[arg-type]
        assert client.submit(functions.add, 1, 2).result() == 3


def test_serializer_defined_in_the_main_program(combo: SchedulerClusterCombo) -> None:
    class Local(Serializer):
        @staticmethod
        def serialize(obj: Any) -> bytes:
            return b"L" + cloudpickle.dumps(obj)

        @staticmethod
        def deserialize(payload: bytes) -> Any:
            return pickle.loads(payload[1:])

    with Client(combo.get_address(), serializer=Local()) as client:
        assert client.map(functions.square, range(10)) == [n * n for n in range(10)]


def test_two_clients_with_different_serializers(counted: Client, client: Client) -> None:
    futures = [(one.submit(functions.square, n), n * n) for n in range(50) for one in (counted, client)]
    assert all(future.result() == expected for future, expected in futures)


def test_large_values(counted: Client) -> None:
    value = bytes(range(256)) * 4096
    assert counted.submit(functions.identity, value).result() == value


def test_exceptions_arrive(counted: Client) -> None:
    with pytest.raises(ValueError, match="bad"):
        counted.submit(functions.raise_value_error, "bad").result()


def test_deserialize_that_fails_on_the_worker(combo: SchedulerClusterCombo) -> None:
    class Refusing(Serializer):
        @staticmethod
        def serialize(obj: Any) -> bytes:
            return cloudpickle.dumps(obj)

        @staticmethod
        def deserialize(payload: bytes) -> Any:
            raise RuntimeError("will not load")

    with Client(combo.get_address(), serializer=Refusing()) as client:
        error = client.submit(functions.square, 3).exception(timeout=60)
        assert isinstance(error, (ScalerError, RuntimeError))
        assert "will not load" in str(error)


def test_serialize_that_fails_raises_at_submit(combo: SchedulerClusterCombo) -> None:
    class Refusing(CountingSerializer):
        @staticmethod
        def serialize(obj: Any) -> bytes:
            if obj == "poison":
                raise RuntimeError("will not serialize")
            return CountingSerializer.serialize(obj)

    with Client(combo.get_address(), serializer=Refusing()) as client:
        with pytest.raises(RuntimeError, match="will not serialize"):
            client.submit(functions.identity, "poison")
        assert client.submit(functions.square, 3).result() == 9


def test_a_function_of_another_version_of_python_says_what_to_do(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler_protocol.objects.sent_code.VERSION", (3, 99))
    with pytest.raises(DeserializeObjectError, match=r"of Python 3\.99, .*modules="):
        client.submit(lambda: 1).result()
    assert client.submit(functions.add, 1, right=2).result() == 3
