"""Calls of a process that has no memory for the modules that they load."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scaler.utility.late_imports import late_import
from tests.unit.client.fake_scheduler import FakeScheduler

HAS_NO_MEMORY = """
import sys
import scaler
from scaler import Client

class Starved:
    wanted = ""

    def find_spec(self, name, path=None, target=None):
        if name == self.wanted:
            raise MemoryError

starved = Starved()
sys.meta_path.insert(0, starved)

def refused(module, call):
    starved.wanted = module
    try:
        call()
    except MemoryError as error:
        return str(error)
    finally:
        starved.wanted = ""
    raise AssertionError(module)

with Client(sys.argv[1]) as client:
    for purpose, module, call in [
        ("describe the cluster", "scaler.client.cluster_info", client.cluster_info),
        ("make a profile", "scaler.client.profile", client.profile),
        ("make a panel", "scaler.client.live_panel", client.monitor),
        ("load AsyncClient", "scaler.asynchronous.client", lambda: scaler.AsyncClient),
        ("load SchedulerClusterCombo", "scaler.cluster.combo", lambda: scaler.SchedulerClusterCombo),
    ]:
        text = refused(module, call)
        assert text.startswith(f"Cannot {purpose}: this process has no memory left. "), text
        assert "ulimit -v" in text
    client.profile()
    assert scaler.AsyncClient
"""


def test_a_call_that_finds_no_memory_for_its_module_says_so_and_works_later() -> None:
    with FakeScheduler() as scheduler:
        subprocess.run([sys.executable, "-c", HAS_NO_MEMORY, scheduler.address], check=True, timeout=60)


def test_a_library_that_cannot_be_mapped_is_a_lack_of_memory() -> None:
    with pytest.raises(MemoryError, match=r"^Cannot count: .*ulimit -v") as caught, late_import("count"):
        raise ImportError("libx.so: failed to map segment from shared object")
    assert isinstance(caught.value.__cause__, ImportError)


def test_a_module_that_finds_no_descriptor_has_a_remedy() -> None:
    with pytest.raises(OSError, match=r"^Cannot count: .*ulimit -n"), late_import("count"):
        raise OSError(24, "Too many open files")


@pytest.mark.parametrize("error", [ImportError("No module named 'x'"), OSError(5, "Input/output error")])
def test_other_errors_are_left_alone(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, late_import("count"):
        raise error
    assert caught.value is error
