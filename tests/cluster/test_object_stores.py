"""Object stores of a real cluster with little memory, a full disk, very many objects, and hands in their files."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from scaler import Client
from scaler.utility.exceptions import MissingObjects, ObjectStoreError
from tests.cluster.test_objects import COUNT, make, store_of, total
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

TOTAL = total(make(COUNT))


def objects_in_store(client: Client) -> int:
    """As monitors show it."""
    snapshot = client.cluster_info().snapshot
    assert snapshot is not None
    return sum(store.objects for store in snapshot.stores)


def limited(memory_bytes: int, spill_directory: Path) -> tuple[object, ...]:
    return "-n", 2, "-hi", 0.2, "--object-store-memory", memory_bytes, "--spill-directory", spill_directory


@pytest.fixture
def small_store(tmp_path: Path) -> Iterator[Client]:
    """A store of 64 MB."""
    address = free_address()
    flags = limited(64_000_000, tmp_path)
    with start_scheduler(address), start_cluster(address, *flags), Client(address) as client:
        client.submit(make, COUNT).result(timeout=60)  # the store is there, and has its settings
        yield client


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "scaler-test", str(tmp_path)]
    mounted = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True, timeout=30)


def block(size: int, number: int) -> bytes:
    return number.to_bytes(8, "little") * (size // 8)


def first(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def test_very_many_small_objects(small_store: Client) -> None:
    """Each is above the inline limit: thousands of results, and of arguments, take no more memory than a few."""
    for number, data in enumerate(small_store.imap(block, [40_000] * 2_000, range(2_000))):
        assert first(data) == number and len(data) == 40_000
    del data
    blocks = (block(40_000, number) for number in range(2_000))
    assert list(small_store.imap(first, blocks)) == list(range(2_000))
    gc.collect()
    small_store.submit(total, make(10)).result(timeout=60)  # tells of what was let go of
    wait_until(lambda: objects_in_store(small_store) == 0)
    assert store_of(small_store).memory_info().shared < 100_000_000


def test_what_was_kept_for_too_long_frees_its_memory(tmp_path: Path) -> None:
    address = free_address()
    flags = limited(64_000_000, tmp_path)
    with start_scheduler(address, "-ot", 1), start_cluster(address, *flags), Client(address) as client:
        futures = [client.submit(make, COUNT) for _ in range(12)]  # more than there is memory for
        wait_until(lambda: all(each.done() for each in futures))
        wait_until(lambda: objects_in_store(client) == 0)
        with pytest.raises(MissingObjects, match="--object-retention-seconds"):
            futures[0].result(timeout=60)
        with pytest.raises(MissingObjects, match="--object-retention-seconds"):
            client.submit(total, futures[1]).result(timeout=60)
        assert client.submit(total, make(COUNT)).result(timeout=60) == TOTAL


def test_a_full_disk(small_disk: Path) -> None:
    """The task or call for which there is no room fails with a sentence; what exists stays."""
    address = free_address()
    flags = limited(64_000_000, small_disk)
    with start_scheduler(address), start_cluster(address, *flags), Client(address) as client:
        client.submit(make, COUNT).result(timeout=60)
        references = []
        with pytest.raises(ObjectStoreError, match="--spill-directory"):
            for number in range(20):
                references.append(client.send_object(make(COUNT) + number))
        assert 6 <= len(references) <= 10
        with pytest.raises(ObjectStoreError, match="--spill-directory"):
            client.submit(make, 2 * COUNT).result(timeout=60)
        assert client.submit(total, references[-1]).result(timeout=60) == TOTAL + (len(references) - 1) * COUNT
        del references[2:]  # makes room for what is on disk to come back
        gc.collect()
        assert client.submit(total, references[0]).result(timeout=60) == TOTAL
        client.clear()
        assert client.submit(total, make(COUNT)).result(timeout=60) == TOTAL


def test_a_task_whose_arguments_do_not_fit_at_once(small_store: Client) -> None:
    """What cannot be mapped, since the memory is in use, is copied."""
    graph = {f"made-{index}": (make, "count") for index in range(20)}
    graph["all"] = (total_of_all, *graph)  # type: ignore[assignment]
    assert small_store.get({**graph, "count": COUNT}, ["all"])["all"] == 20 * TOTAL


def total_of_all(*arrays: numpy.ndarray) -> float:
    return sum(map(total, arrays))


def test_segments_cannot_be_cut_by_hand(small_store: Client) -> None:
    """Whoever maps them would be killed by SIGBUS."""
    result = small_store.submit(make, COUNT).result(timeout=60)
    for path in memory_files(store_of(small_store).pid):
        with pytest.raises(PermissionError):
            os.truncate(path, 0)
    assert total(result) == TOTAL


def memory_files(pid: int) -> list[Path]:
    return [path for path in Path(f"/proc/{pid}/fd").iterdir() if "memfd:scaler-objects" in os.readlink(path)]


def spill_file(client: Client, directory: Path) -> Path:
    """What the store has moved there is in one file without a name."""
    descriptors = Path(f"/proc/{store_of(client).pid}/fd")
    return next(path for path in descriptors.iterdir() if os.readlink(path).startswith(str(directory)))


def test_spilled_bytes_that_were_changed_never_reach_a_task(small_store: Client, tmp_path: Path) -> None:
    """Results are made again; an object that was sent is missing, and a plain sentence says why."""
    references = [small_store.send_object(make(COUNT) + number) for number in range(8)]
    results = [small_store.submit(make, COUNT) for _ in range(8)]
    wait_until(lambda: all(each.done() for each in results))
    with open(spill_file(small_store, tmp_path), "r+b") as file:
        for place in range(0, os.fstat(file.fileno()).st_size, 1 << 20):
            file.seek(place + 4096)
            file.write(b"\xff" * 16)
    assert [total(each.result(timeout=60)) for each in results] == [TOTAL] * 8
    missing = []
    for number, reference in enumerate(references):
        for _ in range(2):
            try:
                assert small_store.submit(total, reference).result(timeout=60) == TOTAL + number * COUNT
            except MissingObjects as error:
                missing.append(str(error))
    assert len(missing) >= 8
    for text in missing:
        assert re.fullmatch(r"An argument .* is missing: The object had been moved to disk and cannot be .*\.", text)
        assert text.isprintable() and "the file was changed" in text


def test_a_task_whose_argument_is_a_lost_result(small_store: Client, tmp_path: Path) -> None:
    results = [small_store.submit(make, COUNT) for _ in range(8)]
    wait_until(lambda: all(each.done() for each in results))
    references = [small_store.send_object(make(COUNT)) for _ in range(8)]
    os.truncate(spill_file(small_store, tmp_path), 0)
    failures = [small_store.submit(total, each).exception(timeout=30) for each in results]
    missing = [each for each in failures if each is not None]
    assert missing and {type(each) for each in missing} == {MissingObjects}
    for each in missing:
        assert re.fullmatch(
            r"An argument .* is missing: The object had been moved to disk and cannot be .*\.", str(each)
        )
    del references


def test_a_spill_file_cut_by_hand(small_store: Client, tmp_path: Path) -> None:
    """Objects are lost, and only those: results are made again, what was sent is missing."""
    results = [small_store.submit(make, COUNT) for _ in range(8)]
    wait_until(lambda: all(each.done() for each in results))
    references = [small_store.send_object(make(COUNT) + number) for number in range(8)]
    os.truncate(spill_file(small_store, tmp_path), 0)
    assert [total(each.result(timeout=60)) for each in results] == [TOTAL] * 8
    outcomes = []
    for number, reference in enumerate(references):
        try:
            outcomes.append(small_store.submit(total, reference).result(timeout=60) == TOTAL + number * COUNT)
        except MissingObjects:
            outcomes.append(None)
    assert False not in outcomes
    assert small_store.submit(total, numpy.ones(COUNT)).result(timeout=60) == COUNT


KEEPS_OBJECTS = """
import sys
import numpy
from scaler import Client
client = Client(sys.argv[1])
references = [client.send_object(numpy.full(100_000, float(number))) for number in range(3)]
print(flush=True)
sys.stdin.read()
"""


def test_objects_of_a_killed_client_that_no_task_has_read() -> None:
    """Another client's objects stay."""
    address = free_address()
    with (
        start_scheduler(address, "--client-timeout-seconds", 1),
        start_cluster(address, "-n", 1, "-hi", 0.2),
        Client(address) as client,
    ):
        client.submit(make, COUNT).result(timeout=30)  # the agent has connected to the store
        kept = client.send_object(make(COUNT))
        command = [sys.executable, "-c", KEEPS_OBJECTS, address]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None and program.stdout.readline()
            wait_until(lambda: objects_in_store(client) == 4)
            program.kill()
        wait_until(lambda: objects_in_store(client) == 1)
        assert client.submit(total, kept).result(timeout=30) == TOTAL
