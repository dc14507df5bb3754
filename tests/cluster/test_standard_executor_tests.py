"""The standard library's own tests of executors, on this one."""

from __future__ import annotations

import os
import unittest
from typing import Any, ClassVar
from unittest import mock

import pytest

import scaler
from scaler import SchedulerClusterCombo
from tests.support.standard_tests import find_standard_tests, standard_module

found = find_standard_tests()
if found is None:
    pytest.skip("this Python comes without its tests", allow_module_level=True)
ENVIRONMENT: dict[str, str] = found

PROGRAM = """
import concurrent.futures, scaler

class StandardExecutor(scaler.Executor):
    def __init__(self, max_workers=2):
        super().__init__(n_workers=max_workers)

concurrent.futures.StandardExecutor = StandardExecutor
"""
"""Comes before the programs of the tests, which import the executor from concurrent.futures."""

_PROCESSES = "it looks at the process objects of ProcessPoolExecutor"
_TASKS_PER_CHILD = "it tests a parameter of ProcessPoolExecutor; here it is --max-tasks-per-worker"
NOT_RUN = {
    "test_cancel_futures": "it expects that some calls have started at once; here all may be cancelled in time",
    "test_idle_process_reuse_multiple": _PROCESSES,
    "test_idle_process_reuse_one": _PROCESSES,
    "test_killed_child": "it kills a process to break the pool; here the call runs again in another process",
    "test_max_tasks_early_shutdown": _TASKS_PER_CHILD,
    "test_max_tasks_per_child": _TASKS_PER_CHILD,
    "test_max_tasks_per_child_defaults_to_spawn_context": _TASKS_PER_CHILD,
    "test_max_workers_too_large": "it tests a limit of Windows",
    "test_python_finalization_error": "it makes the threads of ProcessPoolExecutor fail",
    "test_saturation": _PROCESSES,
    "test_traceback": "it expects the private exception class of ProcessPoolExecutor as the cause",
}
"""The tests that this executor does not pass, and why."""


class StandardExecutor(scaler.Executor):
    """Takes the number of workers as the standard library's executors do."""

    def __init__(self, max_workers: int) -> None:
        if max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        super().__init__(n_workers=max_workers)


class OnScaler(unittest.TestCase):
    """What the tests expect of a class that they are mixed into."""

    executor_type = StandardExecutor
    worker_count = 2
    combo: ClassVar[SchedulerClusterCombo]
    executor: Any

    @classmethod
    def setUpClass(cls) -> None:
        with mock.patch.dict(os.environ, ENVIRONMENT):
            cls.combo = SchedulerClusterCombo(n_workers=cls.worker_count)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.combo.shutdown()

    def setUp(self) -> None:
        if self._testMethodName in NOT_RUN:
            self.skipTest(NOT_RUN[self._testMethodName])
        self.executor = scaler.Executor(self.combo.get_address())
        self.executor.submit(int).result()
        self.addCleanup(self.executor.shutdown)

    def get_context(self) -> Any:
        import multiprocessing

        return multiprocessing.get_context("fork")


class TestExecutor(OnScaler, standard_module("test_process_pool").ProcessPoolExecutorTest): ...  # type: ignore[misc]


class TestWait(OnScaler, standard_module("test_wait").WaitTests): ...  # type: ignore[misc]


class TestAsCompleted(OnScaler, standard_module("test_as_completed").AsCompletedTests): ...  # type: ignore[misc]


class TestShutdown(OnScaler, standard_module("test_shutdown").ExecutorShutdownTest): ...  # type: ignore[misc]


@pytest.fixture(autouse=True)
def programs_find_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    test_shutdown: Any = standard_module("test_shutdown")
    run = test_shutdown.assert_python_ok
    monkeypatch.setattr(
        test_shutdown,
        "assert_python_ok",
        lambda flag, program: run(flag, PROGRAM + program, __isolated=not ENVIRONMENT, **ENVIRONMENT),
    )
