"""map and starmap."""

from __future__ import annotations

import collections
import math
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from tests.support import functions
from tests.support.waiting import wait_until


def fail_at(value: int, bad: int) -> int:
    if value == bad:
        raise KeyError(f"bad {value}")
    return value


def test_readme_line(client: Client) -> None:
    assert client.map(math.sqrt, [(i,) for i in range(100)]) == [math.sqrt(i) for i in range(100)]


def test_one_iterable(client: Client) -> None:
    assert client.map(functions.square, range(10)) == [n * n for n in range(10)]


def test_several_iterables_stop_at_the_shortest(client: Client) -> None:
    assert client.map(functions.add, [1, 2, 3], [10, 20]) == [11, 22]


def test_several_iterables_of_tuples_are_not_unpacked(client: Client) -> None:
    assert client.map(functions.add, [(1,), (2,)], [(3,), (4,)]) == [(1, 3), (2, 4)]


def test_tuples_are_argument_lists(client: Client) -> None:
    assert client.map(functions.add, [(1, 2), (3, 4)]) == [3, 7]


def test_tuples_of_different_lengths(client: Client) -> None:
    with pytest.warns(UserWarning, match="starmap.*imap"):  # max also takes one argument
        assert client.map(max, [(1, 2), (3, 4, 5), (9, 8)]) == [2, 5, 9]


def test_the_signature_says_whether_tuples_are_argument_lists(client: Client) -> None:
    prices = {"apple": 2, "pear": 3}
    assert client.map(lambda name, price: f"{name} {price}", prices.items()) == ["apple 2", "pear 3"]
    assert client.map(lambda item: item[1], prices.items()) == [2, 3]


def test_namedtuples_are_values(client: Client) -> None:
    point = collections.namedtuple("point", "x y")
    assert client.map(functions.identity, [point(1, 2), point(3, 4)]) == [(1, 2), (3, 4)]


def test_a_single_item_that_is_no_tuple_keeps_the_builtin_meaning(client: Client) -> None:
    assert client.map(functions.identity, [(1, 2), 3]) == [(1, 2), 3]


def test_large_arguments_among_others(client: Client) -> None:
    """Many large arguments are stored at once; what stands among them is sent in its own way."""
    large = [bytes([n]) * 40_000 for n in range(200)]
    reference, future = client.send_object(b"r" * 3), client.submit(bytes, 5)
    items = [*large, b"small", large[0], large[0], reference, b"l" * 2_000_000, *large[:5], future, b"x" * 50_000]
    lengths = [*[40_000] * 200, 5, 40_000, 40_000, 3, 2_000_000, *[40_000] * 5, 5, 50_000]
    assert client.map(len, items) == lengths
    assert client.map(bytes.upper, large) == [item.upper() for item in large]


def test_the_item_that_cannot_be_sent_is_named_among_large_ones(client: Client) -> None:
    items: list[Any] = [bytes([n]) * 40_000 for n in range(10)]
    items[7] = threading.Lock()
    with pytest.raises(TypeError, match="cannot pickle") as caught:
        client.map(len, items)
    assert any("item 7" in note for note in caught.value.__notes__)
    assert client.map(len, items[:7]) == [40_000] * 7


def test_large_and_small_arguments_of_one_task_in_more_than_one_batch(client: Client) -> None:
    large, small = [[bytes([n]) * size for n in range(30)] for size in (60_000, 30_000)]
    assert client.map(functions.add, large, small) == [one + other for one, other in zip(large, small, strict=True)]


def test_generators_are_consumed(client: Client) -> None:
    assert client.map(functions.square, (n for n in range(50))) == [n * n for n in range(50)]


@pytest.mark.parametrize("empty", [[], (), iter(()), range(0)], ids=["list", "tuple", "iterator", "range"])
def test_empty_input(client: Client, empty: list[int]) -> None:
    assert client.map(functions.square, empty) == []


def test_results_keep_their_order(client: Client) -> None:
    delays = [0.02, 0.0, 0.01, 0.0] * 5
    values = list(range(20))
    assert client.map(functions.sleep_and_return, delays, values) == values


def test_none_results(client: Client) -> None:
    assert client.map(functions.identity, [None, None]) == [None, None]


def test_a_hundred_thousand(client: Client) -> None:
    assert client.map(functions.square, range(100_000)) == [n * n for n in range(100_000)]


def test_function_is_serialized_once_per_call(client: Client) -> None:
    count = 0

    class Counted:
        def __getstate__(self) -> dict[str, int]:
            nonlocal count
            count += 1
            return {}

        def __call__(self, value: int) -> int:
            return value

    assert client.map(Counted(), range(100)) == list(range(100))
    assert count <= 2


def test_first_failure_is_raised_and_the_client_stays_usable(client: Client) -> None:
    with pytest.raises(KeyError, match="bad 5"):
        client.map(fail_at, range(100), [5] * 100)
    assert client.map(functions.square, [2]) == [4]


def test_failure_cancels_the_rest_of_the_call(single_client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "ran")

    def run(value: int) -> None:
        if value == 0:
            raise ValueError("first")
        functions.note(path)
        functions.sleep_and_return(0.05)

    with pytest.raises(ValueError, match="first"):
        single_client.map(run, range(400))
    assert single_client.submit(functions.square, 3).result() == 9
    assert len(functions.notes(path)) < 200


def test_an_iterable_that_fails_raises_its_own_error(client: Client) -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise LookupError("no more input")

    with pytest.raises(LookupError, match="no more input"):
        client.map(functions.square, numbers())
    assert client.map(functions.square, [2]) == [4]


def test_what_is_not_iterable_is_a_type_error(client: Client) -> None:
    with pytest.raises(TypeError):
        client.map(functions.square, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        client.map(functions.square)


def test_wrong_number_of_arguments_is_a_type_error(client: Client) -> None:
    with pytest.raises(TypeError):
        client.map(functions.add, [1, 2, 3])


def test_starmap(client: Client) -> None:
    assert client.starmap(functions.add, [(1, 2), (3, 4)]) == [3, 7]
    assert client.starmap(functions.add, [[1, 2], iter((3, 4))]) == [3, 7]
    assert client.starmap(functions.add, iter(())) == []


def test_starmap_of_what_is_not_iterable_is_a_type_error(client: Client) -> None:
    with pytest.raises(TypeError):
        client.starmap(functions.square, [1, 2])


def test_map_of_items_of_all_sizes(client: Client) -> None:
    items = [b"x" * size for size in (0, 1, 1000, 32_000, 33_000, 200_000, 0, 1_000_000, 5)]
    assert client.map(len, items) == [len(item) for item in items]
    assert client.map(functions.identity, items) == items


def test_map_between_submits(client: Client) -> None:
    before = client.submit(functions.square, 3)
    assert client.map(functions.square, range(1000)) == [n * n for n in range(1000)]
    after = client.submit(functions.square, 4)
    assert (before.result(), after.result()) == (9, 16)


def test_progress_shows_a_bar_that_ends_full(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    assert client.map(functions.square, range(1000), progress=True) == [n * n for n in range(1000)]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "square: 100%" in shown.err
    assert "1000/1000" in shown.err


def test_progress_of_a_map_that_fails_is_closed(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    with pytest.raises(KeyError, match="bad 3"):
        client.map(fail_at, [(value, 3) for value in range(4)], progress=True)
    assert capsys.readouterr().err.endswith("\n")
    assert client.starmap(functions.add, [(1, 2)], progress=True) == [3]


def test_progress_without_bars_says_what_to_install(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ImportError, match=r"pip install 'scaler-client\[progress\]'"):
        client.map(functions.square, range(10), progress=True)


def test_a_map_has_a_progress_of_its_own(client: Client, tmp_path: Path) -> None:
    go = tmp_path / "go"

    def wait_for_it(number: int) -> int:
        while not go.exists():
            time.sleep(0.01)
        return number

    with ThreadPoolExecutor(1) as threads:
        mapping = threads.submit(client.map, wait_for_it, range(600))
        found = wait_until(lambda: [each for each in client.cluster_info().maps if each.total == 600])
        assert found[0].unfinished == 600 and found[0].function.endswith("wait_for_it") and found[0].running
        go.touch()
        assert mapping.result(60) == list(range(600))
    client.map(wait_for_it, [1])
    wait_until(lambda: not any(each.unfinished for each in client.cluster_info().maps))
    (ended,) = [each for each in client.cluster_info().maps if each.function.endswith("wait_for_it")]
    assert (ended.total, ended.failed) == (600, 0), "a map of one task is not counted"
