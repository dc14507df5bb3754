from __future__ import annotations

from pathlib import Path

import pytest

from scaler_protocol.control_groups import memory_limits_bytes, memory_rooms, processor_limits


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


@pytest.mark.parametrize(
    ("text", "limits"), [("150000 100000", [2]), ("400000 100000", [4]), ("max 100000", []), ("", []), ("0 0", [])]
)
def test_processors_of_the_second_version(tmp_path: Path, text: str, limits: list[int]) -> None:
    write(tmp_path, cpu_DOT_max=text)
    assert processor_limits(tmp_path) == limits


@pytest.mark.parametrize(("quota", "limits"), [("300000", [3]), ("-1", [])])
def test_processors_of_the_first_version(tmp_path: Path, quota: str, limits: list[int]) -> None:
    write(tmp_path, cpu__cpu_DOT_cfs_quota_us=quota, cpu__cpu_DOT_cfs_period_us="100000")
    assert processor_limits(tmp_path) == limits


def test_memory_of_both_versions(tmp_path: Path) -> None:
    write(tmp_path, memory_DOT_max="max", memory__memory_DOT_limit_in_bytes="1073741824")
    assert memory_limits_bytes(tmp_path) == [2**30]
    write(tmp_path, memory_DOT_max="4096")
    assert memory_limits_bytes(tmp_path) == [4096, 2**30]


def test_a_system_without_control_groups(tmp_path: Path) -> None:
    assert processor_limits(tmp_path / "nothing") == memory_limits_bytes(tmp_path / "nothing") == []


def test_the_group_of_this_process_in_the_tree_of_a_controller(tmp_path: Path) -> None:
    """As a service manager's, in the first version."""
    groups = Path("/proc/self/cgroup")
    if not groups.exists() or not groups.read_text():
        pytest.skip("there are no control groups here")
    for line in groups.read_text().splitlines():
        write(tmp_path / "memory" / line.split(":", 2)[2].strip("/"), memory_DOT_limit_in_bytes="8192")
    assert set(memory_limits_bytes(tmp_path)) == {8192}


def test_the_room_of_a_group_is_without_files_that_may_be_forgotten(tmp_path: Path) -> None:
    write(tmp_path, memory_DOT_max="1000", memory_DOT_current="900", memory_DOT_stat="anon 500\ninactive_file 300")
    assert memory_rooms(tmp_path) == [(1000, 400)]
    write(tmp_path, memory_DOT_current="5000", memory_DOT_stat="")
    assert memory_rooms(tmp_path) == [(1000, 0)]
    write(tmp_path, memory__memory_DOT_limit_in_bytes="2000", memory__memory_DOT_usage_in_bytes="500")
    assert memory_rooms(tmp_path) == [(1000, 0), (2000, 1500)]
