"""Each private part of Python and of libraries that the client uses is what the client takes it for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import cloudpickle
import pytest

from scaler.utility import private_apis
from tests.unit.architecture.sources import REPOSITORY, sources

OWN = [each for each in sources(".py") if each.distribution == "scaler"]


def test_the_states_of_a_future() -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    assert future._state is private_apis.RUNNING
    future.set_result(1)
    assert future._state is private_apis.FINISHED
    cancelled: concurrent.futures.Future[int] = concurrent.futures.Future()
    cancelled.cancel()
    cancelled.set_running_or_notify_cancel()
    assert cancelled._state is private_apis.CANCELLED_AND_NOTIFIED


def test_the_attributes_of_a_future_which_our_own_makes_later_or_not_at_all() -> None:
    names = {"_condition", "_state", "_result", "_exception", "_waiters", "_done_callbacks"}
    assert set(vars(concurrent.futures.Future())) == names


def test_the_callbacks_of_a_future() -> None:
    called: list[object] = []
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.add_done_callback(called.append)
    private_apis.invoke_callbacks(future)
    assert called == [future]


def test_the_callbacks_of_a_future_of_asyncio() -> None:
    async def main() -> None:
        for of_future in (asyncio.Future[int](), asyncio.futures._PyFuture()):  # type: ignore[attr-defined]
            assert not private_apis.has_callbacks(of_future)
            of_future.add_done_callback(print)
            assert private_apis.has_callbacks(of_future)
            of_future.remove_done_callback(print)
            assert not private_apis.has_callbacks(of_future)

    asyncio.run(main())


def test_the_owner_of_a_lock() -> None:
    lock = threading.RLock()
    is_mine = private_apis.ownership_of(lock)
    assert not is_mine()
    with lock:
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(is_mine()))
        thread.start()
        thread.join()
        assert is_mine() and seen == [False]
    assert not is_mine()


def test_what_is_called_before_exit() -> None:
    program = (
        "import atexit; from scaler.utility import private_apis\n"
        "private_apis.call_before_exit(lambda: print('first')); atexit.register(print, 'second')"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert finished.stdout.split() == ["first", "second"], finished.stderr


def test_a_running_event_loop() -> None:
    async def ask() -> bool:
        return private_apis.runs_event_loop()

    assert asyncio.run(ask()) and not private_apis.runs_event_loop()


def test_the_globals_that_a_pickler_keeps() -> None:
    scope: dict[str, object] = {"__name__": "__main__"}
    exec("value = 1\ndef function(): return value", scope)
    pickler = cloudpickle.Pickler(io.BytesIO(), 5)
    pickler.dump(scope["function"])
    assert pickler.globals_ref
    private_apis.clear_globals(pickler)
    assert not pickler.globals_ref


def test_the_task_objects_of_dask() -> None:
    pytest.importorskip("dask._task_spec")
    module = private_apis.dask_task_spec()
    assert private_apis.loaded_dask_task_spec() is module
    task = module.Task("key", max, 1, module.TaskRef("other"), default=2)
    assert (task.func, task.kwargs, task.dependencies) == (max, {"default": 2}, frozenset({"other"}))
    assert task.args == (1, module.TaskRef("other")) and isinstance(task, module.GraphNode)
    assert module.Alias("a", "b").target == "b" and module.DataNode("a", 3).value == 3
    converted = module.convert_legacy_task("a", (max, "b", 1), {"b": 2})
    assert type(converted) is module.Task and converted.dependencies == frozenset({"b"})


def test_private_modules_are_imported_in_one_place() -> None:
    found = {source.name for source in OWN for each in source.imports() if re.search(r"(^|\.)_(?!_)", each.module)}
    assert found == {"scaler/utility/private_apis.py"}


@pytest.mark.parametrize(
    ("folder", "library"),
    [
        ("packages/scaler-client", "cloudpickle"),
        ("packages/scaler-worker", "cloudpickle"),
        ("proto", "pyzmq"),
        ("proto", "pycapnp"),
    ],
)
def test_a_library_that_is_used_beyond_its_stable_interface_has_an_upper_limit(folder: str, library: str) -> None:
    project = tomllib.loads((REPOSITORY / folder / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = {re.split(r"[<>=]", each)[0]: each for each in project["project"]["dependencies"]}
    assert "<" in requirements[library]


def test_each_private_part_has_a_test() -> None:
    own = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in private_apis.__all__ if f"private_apis.{name}" not in own] == []


def test_code_is_reduced_as_cloudpickle_does_but_with_its_file() -> None:
    code = compile("1 / 0", "/home/me/analysis.py", "exec")
    make, arguments = private_apis.reduce_code(code)
    assert make(*arguments) == code
    assert make(*arguments).co_filename == "/home/me/analysis.py"
