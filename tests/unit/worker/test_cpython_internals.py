"""The private parts of CPython that worker processes use are there and do what is expected of them."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator

import pytest

from scaler_worker.worker_process import cpython_internals
from tests.unit.architecture.sources import sources

PRIVATE = re.compile(r"\benviron\._|\bsys\._(?!_)|\basyncio\.\w+\._|\bthreading\._|\bgc\._|\bpickle\._")


@pytest.fixture
def environ() -> Iterator[os._Environ[str]]:
    data = cpython_internals.environment_data(os.environ)
    yield os.environ
    cpython_internals.replace_environment_data(os.environ, data)


def test_environment_data_are_the_variables(environ: os._Environ[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_TEST_VARIABLE", "value")
    assert cpython_internals.environment_data(environ)[b"SCALER_TEST_VARIABLE"] == b"value"


def test_replaced_environment_data_are_read_and_written(environ: os._Environ[str]) -> None:
    data = {b"SCALER_TEST_VARIABLE": b"other"}
    cpython_internals.replace_environment_data(environ, data)
    assert os.environ["SCALER_TEST_VARIABLE"] == "other"
    del os.environ["SCALER_TEST_VARIABLE"]
    assert not data


def test_calling_frames_begin_with_the_caller() -> None:
    def inner() -> list[str]:
        return [frame.f_code.co_name for frame in cpython_internals.calling_frames()]

    names = inner()
    assert "inner" in names[:2] and "test_calling_frames_begin_with_the_caller" in names[:3]


def test_the_frame_of_a_thread_is_what_it_executes() -> None:
    frame = cpython_internals.frame_of(threading.get_ident())
    assert frame is not None and frame.f_code.co_name in ("frame_of", "test_the_frame_of_a_thread_is_what_it_executes")
    assert cpython_internals.frame_of(0) is None


def test_no_other_module_uses_private_parts() -> None:
    found = [
        source.name for source in sources() if source.distribution == "scaler_worker" and PRIVATE.search(source.text)
    ]
    assert found == ["scaler_worker/worker_process/cpython_internals.py"]
