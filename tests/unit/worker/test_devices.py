"""Devices of a host: where their names come from, and which worker gets which."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler_protocol.command import BadInput
from scaler_protocol.messages import Capability
from scaler_worker.devices import NamedDevices, assign_devices, find_devices

CUDA = {"CUDA_VISIBLE_DEVICES": "0,1"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (CUDA, NamedDevices(("SCALER_RESOURCE_GPU", "CUDA_VISIBLE_DEVICES"), ("0", "1"), "CUDA_VISIBLE_DEVICES=0,1")),
        (
            {"ROCR_VISIBLE_DEVICES": "GPU-a"},
            NamedDevices(("SCALER_RESOURCE_GPU", "ROCR_VISIBLE_DEVICES"), ("GPU-a",), "ROCR_VISIBLE_DEVICES=GPU-a"),
        ),
        (
            {"SCALER_RESOURCE_GPU": "3, 4", **CUDA},
            NamedDevices(("SCALER_RESOURCE_GPU", "CUDA_VISIBLE_DEVICES"), ("3", "4"), "SCALER_RESOURCE_GPU=3, 4"),
        ),
        ({}, None),
    ],
)
def test_variables_name_devices(environment: dict[str, str], expected: NamedDevices | None, tmp_path: Path) -> None:
    assert find_devices("gpu", environment, tmp_path / "none") == expected


def test_nvidia_devices_are_detected(tmp_path: Path) -> None:
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    found = find_devices("gpu", {}, tmp_path)
    assert found is not None
    assert (found.variables, found.names) == (("SCALER_RESOURCE_GPU", "CUDA_VISIBLE_DEVICES"), ("0", "1"))
    assert find_devices("fpga", {}, tmp_path) is None


def test_any_capability_may_name_devices() -> None:
    environment = {"SCALER_RESOURCE_TPU_V4": "a,b"}
    assert assign_devices((Capability("tpu-v4"),), 2, environment) == [
        {"SCALER_RESOURCE_TPU_V4": "a"},
        {"SCALER_RESOURCE_TPU_V4": "b"},
    ]


@pytest.mark.parametrize(
    ("capability", "workers", "devices", "expected"),
    [
        (Capability("gpu", 1), 2, "0,1", ["0", "1"]),
        (Capability("gpu", 2), 1, "0,1", ["0,1"]),
        (Capability("gpu", 2), 2, "0,1,2,3,4", ["0,1", "2,3"]),
        (Capability("gpu", 0, 500_000), 4, "0,1", ["0", "0", "1", "1"]),
        (Capability("gpu", 0, 300_000), 4, "0,1", ["0", "0", "0", "1"]),
    ],
)
def test_each_worker_has_its_own(capability: Capability, workers: int, devices: str, expected: list[str]) -> None:
    variables = assign_devices((capability,), workers, {"CUDA_VISIBLE_DEVICES": devices})
    assert [each["CUDA_VISIBLE_DEVICES"] for each in variables] == expected
    assert [each["SCALER_RESOURCE_GPU"] for each in variables] == expected


def test_a_count_without_named_devices_stays_a_count() -> None:
    assert assign_devices((Capability("license", 3), Capability("linux")), 2, CUDA) == [{}, {}]


@pytest.mark.parametrize(
    ("capability", "workers", "devices", "needed"),
    [
        (Capability("gpu", 1), 3, "0,1", 3),
        (Capability("gpu", 0, 500_000), 5, "0,1", 3),
        (Capability("gpu", 1), 1, "", 1),
    ],
)
def test_fewer_devices_than_the_count(capability: Capability, workers: int, devices: str, needed: int) -> None:
    with pytest.raises(
        BadInput, match=f"they need {needed} devices, and this host has {len(devices.split(',')) if devices else 0}"
    ):
        assign_devices((capability,), workers, {"CUDA_VISIBLE_DEVICES": devices})
