"""What CUDA_VISIBLE_DEVICES leaves of a machine's GPUs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.fake_nvml import FakeGpu, FakeNvml
from support.refused import refused

from perfgate.machine.identity import visible_devices
from perfgate.machine.nvml import Nvml
from perfgate.model.errors import MachineUnreadable

A = "GPU-aa110000-0000-0000-0000-000000000000"
B = "GPU-aa220000-0000-0000-0000-000000000000"
C = "GPU-cc000000-0000-0000-0000-000000000000"
S1 = "MIG-11111111-0000-0000-0000-000000000000"
S2 = "MIG-22222222-0000-0000-0000-000000000000"

EQUAL = (FakeGpu(uuid=A), FakeGpu(uuid=B), FakeGpu(uuid=C))
MIXED = (FakeGpu(uuid=A, name="NVIDIA T4"), FakeGpu(uuid=B, name="NVIDIA H200"))
SLICED = FakeGpu(
    uuid=C,
    slices=(
        FakeGpu(uuid=S1, name="NVIDIA H200 MIG 1g.18gb"),
        FakeGpu(uuid=S2, name="NVIDIA H200 MIG 2g.35gb"),
    ),
)


def visible(gpus: tuple[FakeGpu, ...], env: Mapping[str, str]) -> list[str]:
    return [device.gpu.uuid for device in visible_devices(Nvml(FakeNvml(gpus)), env)]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, [A, B, C]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0", [A]),
        ("2,0", [C, A]),
        (" 1 , 2 ", [B, C]),
        ("0,2,-1,1", [A, C]),
        ("0,9,1", [A]),
        (A, [A]),
        (f"{C},{A}", [C, A]),
        ("GPU-cc", [C]),
        ("GPU-aa", []),
        ("GPU-aa1,GPU-zz,GPU-cc", [A]),
        ("GPU-cc,0", [C]),
    ],
)
def test_cuda_visible_devices_chooses_as_cuda_does(chosen: str | None, expected: list[str]) -> None:
    assert visible(EQUAL, {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}) == expected


def test_of_a_gpu_in_mig_mode_the_slice_has_to_be_named() -> None:
    gpus = (FakeGpu(uuid=A), SLICED)
    assert visible(gpus, {"CUDA_VISIBLE_DEVICES": A}) == [A]
    assert visible(gpus, {"CUDA_VISIBLE_DEVICES": f"{S2},{S1}"}) == [S2]
    for env in ({}, {"CUDA_VISIBLE_DEVICES": C}, {"CUDA_VISIBLE_DEVICES": "1"}):
        with refused(MachineUnreadable, "gpu-in-mig-mode"):
            visible(gpus, env)
    with pytest.raises(MachineUnreadable):
        visible(gpus, {"CUDA_VISIBLE_DEVICES": "MIG-3"})


def test_an_index_among_different_models_is_refused_unless_the_order_is_known() -> None:
    with pytest.raises(MachineUnreadable) as caught:
        visible(MIXED, {"CUDA_VISIBLE_DEVICES": "0"})
    assert caught.value.fields["models"] == ("NVIDIA H200", "NVIDIA T4")
    assert visible(MIXED, {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == [A]
    assert visible(MIXED, {"CUDA_VISIBLE_DEVICES": B}) == [B]
    assert visible(MIXED, {"CUDA_VISIBLE_DEVICES": "1,0"}) == [B, A]
    assert visible(MIXED, {"CUDA_VISIBLE_DEVICES": ""}) == []
