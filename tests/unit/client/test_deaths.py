"""What users read about tasks that ended their worker processes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scaler.client.deaths import processor_died

WHERE = "The attribute 'certificates' of this exception has stacks and the last output."
EXITED = {
    "host": "vm", "pid": 812, "signal": None, "exit_code": 4, "out_of_memory": False, "peak_memory": 19501056,
    "stack": "File x, line 1", "stderr": ["a", "b"], "task": "simulate",
}  # fmt: skip


def test_one_death() -> None:
    error = processor_died(json.dumps(EXITED).encode())
    death = "exit code 4, task simulate, host vm, process 812, peak memory 18.6 MiB"
    assert str(error) == f"The worker process of the task died: {death}. {WHERE}"
    assert error.certificates == (EXITED,)


def test_two_deaths_are_numbered() -> None:
    killed = {"signal": "SIGKILL", "out_of_memory": True, "host": "vm", "reason": "The host's memory was exhausted."}
    error = processor_died(json.dumps([killed, {"signal": "SIGSEGV"}]).encode())
    first = "SIGKILL, out of memory, The host's memory was exhausted, host vm"
    assert str(error) == f"The worker process of the task died 2 times: (1) {first}; (2) SIGSEGV. {WHERE}"


@pytest.mark.parametrize("certificate", [{}, {"reason": "a\nb"}, {"reason": "x" * 1000}, {"peak_memory": "much"}])
def test_what_says_nothing_in_one_line_is_left_out(certificate: dict[str, Any]) -> None:
    error = processor_died(json.dumps([certificate]).encode())
    assert str(error) == f"The worker process of the task died: cause unknown. {WHERE}"


@pytest.mark.parametrize("payload", [b"no JSON", b"\xff"])
def test_what_is_no_certificate_is_the_message(payload: bytes) -> None:
    assert str(processor_died(payload)) == payload.decode(errors="replace")


@pytest.mark.parametrize("payload", [b"[]", b"[1, null]", b"5"])
def test_a_list_without_certificates_has_a_message(payload: bytes) -> None:
    error = processor_died(payload)
    assert str(error) == f"The worker process of the task died: cause unknown. {WHERE}" and error.certificates == ()
