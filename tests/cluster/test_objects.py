"""Large arguments and results where client and workers share a host, and where they do not."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.client.actors import ActorHandle
from scaler.utility.exceptions import MissingObjects, ObjectStoreError
from tests.support import functions, leftovers
from tests.support.commands import child_environment, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

COUNT = 1_000_000


def make(count: int) -> numpy.ndarray:
    return numpy.arange(count, dtype=numpy.float64)


def total(array: numpy.ndarray) -> float:
    return float(array.sum())


def total_then(array: numpy.ndarray, _: object) -> float:
    return total(array)


def wait_for_file(begun: str, awaited: str) -> None:
    Path(begun).touch()
    wait_until(Path(awaited).exists, 40)


def first(array: numpy.ndarray) -> float:
    return float(array[0])


def together(*values: float) -> int:
    return len(values)


def change(array: numpy.ndarray) -> float:
    array += 1
    return float(array[0])


def changed(array: numpy.ndarray) -> numpy.ndarray:
    array += 1
    return array


class Keeper:
    def __init__(self, array: numpy.ndarray) -> None:
        self.array = array

    def total(self) -> float:
        return total(self.array)


class Noter:
    def __init__(self) -> None:
        self.seen: list[float] = []

    def note(self, value: float | numpy.ndarray) -> list[float]:
        self.seen.append(total(value) if isinstance(value, numpy.ndarray) else value)
        return self.seen

    def wait(self, begun: str, awaited: str) -> None:
        wait_for_file(begun, awaited)

    def agent(self) -> int:
        """Return the process id of the agent, which has adopted this process."""
        return os.getppid()


class Noted:
    """A large value that notes in a file that it was loaded."""

    def __init__(self, path: str) -> None:
        self.state = path, b"x" * 100_000

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        with open(self.state[0], "a") as file:
            file.write("loaded\n")


def noted_or_last(path: str, is_last: bool) -> Noted | None:
    """The last task waits until its caller has loaded the results of four others."""
    if not is_last:
        return Noted(path)
    wait_until(lambda: os.path.exists(path) and len(Path(path).read_text().splitlines()) == 4)
    return None


def stores() -> list[psutil.Process]:
    """The object stores that processes of this test run have started."""
    return [each for each in psutil.process_iter(["cmdline"]) if "scaler_protocol.objects.store" in str(each.info)]


def store_of(client: Client) -> psutil.Process:
    return next(each for each in stores() if is_store_of(client, each))


def is_store_of(client: Client, store: psutil.Process) -> bool:
    return client._client_io.session.cluster.hex() in " ".join(store.info["cmdline"] or ())


def test_an_array_there_and_back(client: Client) -> None:
    array = make(COUNT)
    assert client.submit(total, array).result() == total(array)
    assert (client.submit(functions.identity, array).result() == array).all()


def test_results_are_the_client_s_own(client: Client) -> None:
    future = client.submit(make, COUNT)
    result = future.result()
    result += 1
    assert future.result() is result and client.submit(total, result).result() == total(make(COUNT)) + COUNT


def test_a_map_loads_large_results_while_other_tasks_run(client: Client, tmp_path: Path) -> None:
    items = [(str(tmp_path / "loaded"), is_last) for is_last in (False, False, True, False, False)]
    results = client.starmap(noted_or_last, items)
    assert [type(result) for result in results] == [Noted, Noted, type(None), Noted, Noted]


def test_tasks_do_not_see_what_others_changed(client: Client) -> None:
    array = make(COUNT)
    reference = client.send_object(array, shared=False)
    assert client.map(change, [reference] * 20) == [1.0] * 20
    assert array[0] == 0


def test_the_client_may_change_what_it_has_sent(client: Client, gate) -> None:  # type: ignore[no-untyped-def]
    array = numpy.zeros(COUNT)
    future = client.submit(lambda array, paths: (functions.wait_at_gate(*paths), total(array))[1], array, gate.paths)
    array += 1
    gate.open()
    assert future.result() == 0


def test_structures_of_arrays(client: Client) -> None:
    value = {"arrays": [make(COUNT), make(10)], "text": "x" * 100_000, "fortran": numpy.asfortranarray(numpy.eye(300))}
    result = client.submit(functions.identity, value).result()
    assert (result["arrays"][0] == value["arrays"][0]).all() and (result["arrays"][1] == value["arrays"][1]).all()
    assert result["text"] == value["text"] and (result["fortran"] == value["fortran"]).all()


def test_arrays_of_objects_and_odd_arrays(client: Client) -> None:
    objects = numpy.array([{"key": number} for number in range(20_000)], dtype=object)
    strided = make(COUNT)[::3]
    empty = numpy.empty((0, 5))
    assert client.submit(len, objects).result() == 20_000
    assert client.submit(functions.identity, objects).result()[7] == {"key": 7}
    assert (client.submit(functions.identity, strided).result() == strided).all()
    assert client.submit(functions.identity, (empty, b"x" * 100_000)).result()[0].shape == (0, 5)


def test_an_array_that_repeats_itself_travels_once(small_store: Client) -> None:
    """A terabyte, where there is room for 64 MB."""
    array = numpy.broadcast_to(numpy.arange(1000.0), (125_000_000, 1000))
    result = small_store.submit(functions.identity, array).result(timeout=60)
    assert result.shape == array.shape and (result[-3:] == array[-3:]).all() and not result.flags.writeable


def test_the_same_argument_travels_once(single_client: Client, gate) -> None:  # type: ignore[no-untyped-def]
    """And one that differs in a single byte does not count as the same."""
    single_client.submit(functions.wait_at_gate, *gate.paths)
    array = make(COUNT)
    futures = [single_client.submit(total, array) for _ in range(10)]
    array[COUNT // 2 + 1] += 5
    changed = single_client.submit(total, array)
    assert len(single_client._client_io.session.objects.uploads) == 2
    gate.open()
    expected = total(make(COUNT))
    assert [future.result() for future in futures] == [expected] * 10 and changed.result() == expected + 5


def test_data_frames(client: Client) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"number": make(200_000), "text": [f"row {index % 100}" for index in range(200_000)]})
    result = client.submit(lambda table: table.assign(double=table.number * 2), frame).result()
    assert result.double.sum() == frame.number.sum() * 2 and (result.text == frame.text).all()


def test_graphs_keep_their_chunks_in_the_store(client: Client) -> None:
    graph = {"size": COUNT}
    for index in range(10):
        graph[f"made-{index}"] = (make, "size")  # type: ignore[assignment]
        graph[f"sum-{index}"] = (total, f"made-{index}")  # type: ignore[assignment]
        graph[f"again-{index}"] = (total, f"made-{index}")  # type: ignore[assignment]
    names = [f"{kind}-{index}" for kind in ("sum", "again") for index in range(10)]
    assert set(client.get(graph, names).values()) == {total(make(COUNT))}


def test_memory_is_given_back(client: Client) -> None:
    """What is released is used again: the store of a hundred arrays is not a hundred arrays large."""
    for _ in range(100):
        assert len(client.submit(functions.identity, make(COUNT)).result()) == COUNT
    gc.collect()
    assert store_of(client).memory_info().shared < 400_000_000


def test_a_graph_leaves_nothing_in_the_store(client: Client) -> None:
    chunks = {f"chunk-{index}": (make, "count") for index in range(20)}
    sums = {f"sum-{index}": (total, f"chunk-{index}") for index in range(20)}
    assert client.get({"count": 50_000, **chunks, **sums}, list(sums)) == dict.fromkeys(sums, total(make(50_000)))
    gc.collect()

    def is_empty() -> bool:
        snapshot = client.cluster_info().snapshot
        return snapshot is not None and [store.objects for store in snapshot.stores] == [0]

    wait_until(is_empty)


def test_results_end_with_their_last_reference(client: Client) -> None:
    """Not when the collector of cycles happens to run: their memory is the store's."""
    gc.collect()
    gc.disable()
    try:
        kept = client.map(make, [COUNT] * 2)
        kept += [
            client.submit(make, COUNT).result(),
            *client.get({"count": COUNT, "made": (make, "count")}, ["made"]).values(),
        ]
        kept += list(client.imap(make, [COUNT] * 2))
        references = [weakref.ref(each) for each in kept]
        kept.clear()
        assert [each() for each in references] == [None] * 6
    finally:
        gc.enable()


def test_monitors_are_told_of_the_store(client: Client) -> None:
    reference = client.send_object(make(COUNT))
    assert client.submit(total, reference).result() == total(make(COUNT))

    def is_shown() -> bool:
        snapshot = client.cluster_info().snapshot
        assert snapshot is not None
        return [store.used_bytes >= 8 * COUNT and store.objects > 0 for store in snapshot.stores] == [True]

    wait_until(is_shown)


def test_cleared_and_foreign_references(combo: SchedulerClusterCombo, client: Client) -> None:
    reference = client.send_object(make(COUNT))
    with Client(combo.get_address()) as other, pytest.raises(MissingObjects):
        other.submit(total, reference)
    client.clear()
    with pytest.raises(MissingObjects):
        client.submit(total, reference)


def test_a_store_that_dies(client: Client) -> None:
    """Results are made again, what was sent is missing, and all goes on with another store."""
    reference = client.send_object(make(COUNT))
    assert client.submit(total, reference).result() == total(make(COUNT))
    finished = client.submit(make, COUNT)
    wait_until(finished.done)
    mapped = client.submit(make, COUNT).result()
    store_of(client).kill()
    assert total(mapped) == total(make(COUNT))
    assert (finished.result(timeout=60) == make(COUNT)).all()
    with pytest.raises(MissingObjects):
        client.submit(total, reference).result(timeout=60)
    assert client.submit(total, make(COUNT)).result(timeout=60) == total(make(COUNT))


def test_a_call_waits_until_a_lost_result_is_made_again(tmp_path: Path) -> None:
    """The call was submitted when the result was there, waits behind another call, and reads it after its loss."""
    begin, has_begun = tmp_path / "begin", tmp_path / "has begun"
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address()) as client:
        made = client.submit(make, COUNT)
        wait_until(made.done, 20)
        blocking = client.submit(wait_for_file, str(has_begun), str(begin))
        wait_until(has_begun.exists, 20)
        read = client.submit(total, made)
        store_of(client).kill()
        begin.touch()
        blocking.result(timeout=30)
        assert read.result(timeout=30) == total(make(COUNT))
        assert (made.result(timeout=30) == make(COUNT)).all()


def test_an_actor_is_made_when_a_lost_result_is_made_again(tmp_path: Path) -> None:
    """Its constructor was to read the result, and waited behind a call while the result was lost."""
    begin, has_begun = tmp_path / "begin", tmp_path / "has begun"
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address()) as client:
        made = client.submit(make, COUNT)
        wait_until(made.done, 20)
        blocking = client.submit(wait_for_file, str(has_begun), str(begin))
        wait_until(has_begun.exists, 20)
        keeper = client.actor(Keeper, made)
        kept = keeper.total()
        store_of(client).kill()
        begin.touch()
        blocking.result(timeout=30)
        assert kept.result(timeout=30) == total(make(COUNT))


def test_calls_of_an_actor_wait_until_a_lost_result_is_made_again(tmp_path: Path) -> None:
    """The call has its place behind another one while the result is lost, and a later one behind it."""
    begin, has_begun = tmp_path / "begin", tmp_path / "has begun"
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        made = client.submit(make, COUNT)
        wait_until(made.done, 20)
        noter = client.actor(Noter)
        futures = [noter.wait(str(has_begun), str(begin))]
        wait_until(has_begun.exists, 20)
        futures += [noter.note(each) for each in (1, made, 2)]
        info = client.submit(together)  # the calls are at the agent before its answer
        assert info.result(timeout=30) == 0
        store_of(client).kill()
        assert client.submit(total, made).result(timeout=30) == total(make(COUNT))
        begin.touch()
        last = [noter.note(each) for each in (made, 3)][-1]
        value = total(make(COUNT))
        assert last.result(timeout=30) == [1, value, 2, value, 3]
        assert futures[-2].result(timeout=30) == [1, value]


def test_a_call_waits_whose_process_finds_its_input_lost_before_the_agent_does(tmp_path: Path) -> None:
    """The agent is stopped while the store dies and the process comes to the call."""
    begin, has_begun = tmp_path / "begin", tmp_path / "has begun"
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        noter = client.actor(Noter)
        agent = psutil.Process(noter.agent().result(timeout=30))
        made = client.submit(make, COUNT)  # in another process: that of the actor has nothing to do with the store yet
        wait_until(made.done, 20)
        waiting = noter.wait(str(has_begun), str(begin))
        wait_until(has_begun.exists, 20)
        futures = [noter.note(each) for each in (1, made, 2)]
        assert client.submit(together).result(timeout=30) == 0  # the calls are at the agent before its answer
        agent.suspend()
        store = store_of(client)
        store.kill()
        wait_until(lambda: not store.is_running() or store.status() == psutil.STATUS_ZOMBIE, 20)
        begin.touch()
        wait_until(lambda: any(is_store_of(client, each) for each in stores()), 20)  # the process has started it
        agent.resume()
        assert futures[-1].result(timeout=30) == [1, total(make(COUNT)), 2]
        assert waiting.result(timeout=30) is None


def make_at_gate(begun: str, gate: str) -> numpy.ndarray:
    wait_for_file(begun, gate)
    return make(COUNT)


def test_a_call_of_an_actor_waits_for_a_result_that_was_lost_before(tmp_path: Path) -> None:
    """It comes to the host of its actor while the result is being made again. Calls of other callers do not wait."""
    gate, has_begun = tmp_path / "gate", tmp_path / "has begun"
    gate.touch()
    with SchedulerClusterCombo(n_workers=3) as cluster, Client(cluster.get_address()) as client:
        made = client.submit(make_at_gate, str(has_begun), str(gate))
        noter = client.actor(Noter)
        assert noter.note(0).result(timeout=30) == [0]
        wait_until(made.done, 20)
        gate.unlink()
        has_begun.unlink()
        store_of(client).kill()
        wait_until(has_begun.exists, 20)
        futures = [noter.note(made), noter.note(1)]
        assert client.submit(note_in_task, noter, 2).result(timeout=30) == [0, 2]
        assert not futures[1].done()
        gate.touch()
        assert futures[1].result(timeout=30) == [0, 2, total(make(COUNT)), 1]


def note_in_task(noter: ActorHandle[Noter], value: float) -> list[float]:
    return noter.note(value).result(timeout=60)


def total_by_actor(keeper: ActorHandle[Keeper]) -> float:
    return keeper.total().result(timeout=60)


def test_the_lost_result_that_an_actor_needs_is_made_before_tasks_that_wait_for_the_actor(tmp_path: Path) -> None:
    """They keep the only worker until then."""
    begin, has_begun = tmp_path / "begin", tmp_path / "has begun"
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address()) as client:
        made = client.submit(make, COUNT)
        wait_until(made.done, 20)
        blocking = client.submit(wait_for_file, str(has_begun), str(begin))
        wait_until(has_begun.exists, 20)
        keeper = client.actor(Keeper, made)
        waiting = client.submit_verbose(total_by_actor, (keeper,), {}, priority=1)
        store_of(client).kill()
        begin.touch()
        blocking.result(timeout=30)
        assert waiting.result(timeout=60) == total(make(COUNT))


def test_a_store_that_is_stopped(client: Client) -> None:
    """It counts as one that has died, once it has been silent for long: nothing waits for it for ever."""
    reference = client.send_object(make(COUNT))
    assert client.submit(total, reference).result() == total(make(COUNT))
    finished = client.submit(make, COUNT)
    wait_until(finished.done)
    stopped = store_of(client)
    stopped.suspend()
    try:
        futures = [client.submit(make, COUNT) for _ in range(4)]
        assert client.submit(total, make(COUNT)).result(timeout=60) == total(make(COUNT))
        assert [total(each.result(timeout=60)) for each in (*futures, finished)] == [total(make(COUNT))] * 5
        with pytest.raises(MissingObjects):
            client.submit(total, reference).result(timeout=60)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            stopped.resume()
    assert store_of(client).pid != stopped.pid


def test_a_reader_that_is_killed_while_it_maps(client: Client) -> None:
    def die_once(array: numpy.ndarray, marker: str) -> float:
        if not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), 9)
        return total(array)

    marker = f"/tmp/scaler-test-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        assert client.submit(die_once, make(COUNT), marker).result(timeout=60) == total(make(COUNT))
    finally:
        os.unlink(marker)


@pytest.fixture
def small_store(tmp_path: Path) -> Iterator[Client]:
    """A store of 64 MB, which spills into a directory of the test."""
    address = free_address()
    spill = tmp_path / "spill"
    spill.mkdir()
    flags = ("-n", "2", "--object-store-memory", "64000000", "--spill-directory", str(spill))
    with start_scheduler(address), start_cluster(address, *flags), Client(address) as client:
        client.submit(make, COUNT).result()  # the store is there, and has its settings
        yield client


def test_what_does_not_fit_goes_to_the_disk(small_store: Client) -> None:
    references = [small_store.send_object(make(COUNT) + number) for number in range(20)]
    sums = small_store.map(total, references)
    assert sums == [total(make(COUNT)) + number * COUNT for number in range(20)]


@pytest.mark.parametrize("dialect", ["plain", "dask"])
def test_values_of_graphs_that_do_not_fit_go_to_the_disk(small_store: Client, dialect: str) -> None:
    """160 MB that are all needed after the last of them was made."""
    graph: dict[Any, Any] = {"count": COUNT, "made": (together, *(f"first-{index}" for index in range(20)))}
    for index in range(20):
        graph[f"chunk-{index}"] = (make, "count")
        graph[f"first-{index}"] = (first, f"chunk-{index}")
        graph[f"sum-{index}"] = (total_then, f"chunk-{index}", "made")
    sums = [f"sum-{index}" for index in range(20)]
    if dialect == "plain":
        assert list(small_store.get(graph, sums).values()) == [total(make(COUNT))] * 20
    else:
        pytest.importorskip("dask")
        assert small_store.get(graph, [sums]) == [[total(make(COUNT))] * 20]


def test_a_client_may_keep_more_than_fits(small_store: Client) -> None:
    kept = small_store.map(make, [COUNT] * 25)
    kept += [small_store.submit(make, COUNT).result(timeout=60) for _ in range(5)]
    kept[0] += 1
    assert [total(each) for each in kept[1:]] == [total(make(COUNT))] * 29
    assert total(kept[0]) == total(make(COUNT)) + COUNT
    assert small_store.submit(total, kept[0]).result(timeout=60) == total(kept[0])
    assert store_of(small_store).memory_info().shared < 100_000_000


def test_an_object_larger_than_the_store(small_store: Client) -> None:
    with pytest.raises(ObjectStoreError, match="--object-store-memory"):
        small_store.submit(make, 20_000_000).result(timeout=60)
    with pytest.raises(ObjectStoreError, match="--object-store-memory"):
        small_store.send_object(make(20_000_000))
    assert small_store.submit(total, make(COUNT)).result(timeout=60) == total(make(COUNT))


def test_a_client_without_a_store(combo: SchedulerClusterCombo) -> None:
    """As on another machine: everything passes through the scheduler."""
    with Client(combo.get_address()) as client:
        client._client_io.objects._cluster = lambda: b""
        array = make(COUNT)
        assert client.submit(total, array).result() == total(array)
        assert (client.submit(functions.identity, array).result() == array).all()
        assert client.map(total, [client.send_object(array)] * 3) == [total(array)] * 3


@pytest.fixture
def no_store(tmp_path: Path) -> Iterator[Client]:
    """A host that cannot have one."""
    (tmp_path / "sitecustomize.py").write_text(
        "from scaler_protocol.objects import starting\nstarting.AVAILABLE = False\n"
    )
    environment = child_environment()
    path = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", "2", PYTHONPATH=path), Client(address) as client:
        client._client_io.objects._cluster = lambda: b""
        yield client


def test_a_host_without_shared_memory(no_store: Client) -> None:
    """Every array can be written to, and nobody sees what others have written."""
    array = make(COUNT)
    assert no_store.map(change, [array] * 4) == [1.0] * 4
    assert no_store.map(change, [no_store.send_object(array, shared=False)] * 4) == [1.0] * 4
    with pytest.raises(ValueError, match="read-only"):
        no_store.submit(change, no_store.send_object(array)).result(timeout=60)
    result = no_store.submit(make, COUNT).result(timeout=60)
    assert change(result) == 1.0
    graph = {"count": 6000, "made-0": (make, "count")}  # so small that one worker process is handed all of it
    for index in range(10):
        graph[f"made-{index + 1}"] = (changed, f"made-{index}")  # type: ignore[assignment]
    for value in no_store.get(graph, ["made-3", "made-5", "made-10"]).values():
        assert value[0] in (3, 5, 10) and total(value) == total(make(6000)) + value[0] * 6000
    assert not [
        each for each in stores() if no_store._client_io.session.cluster.hex() in " ".join(each.info["cmdline"])
    ]


def test_nothing_is_left_behind() -> None:
    """Not even by a script that still holds what it got, and forgets to disconnect."""
    source = """
import numpy
from scaler import Client, SchedulerClusterCombo
combo = SchedulerClusterCombo(2)
client = Client(combo.get_address())
kept = client.submit(numpy.ones, 1_000_000).result()
reference = client.send_object(kept)
assert client.submit(lambda array: array.sum(), reference).result() == 1_000_000
print(client._client_io.session.cluster.hex())
"""
    before = leftovers.present()
    done = subprocess.run(
        [sys.executable, "-c", source], env=child_environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    cluster = done.stdout.split()[-1]
    wait_until(lambda: not any(cluster in " ".join(each.info["cmdline"] or ()) for each in stores()))
    assert not leftovers.shared_memory_since(before)
