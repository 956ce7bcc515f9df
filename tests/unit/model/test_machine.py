"""Machines: their names, their folders, and what forbids comparing two of them."""

from __future__ import annotations

import pytest
from support import records

from perfgate.model.machine import Conditions, Gpu, GpuCondition, Machine
from perfgate.model.note import quoted
from perfgate.words import say


def with_gpus(*names: str, mig: bool = False) -> Machine:
    return Machine(
        gpus=tuple(Gpu(name=name, uuid=f"GPU-{n}", mig=mig) for n, name in enumerate(names))
    )


def whole(name: str) -> Gpu:
    return Gpu(name=name, uuid=f"GPU-{name}")


def sliced(name: str) -> Gpu:
    return Gpu(name=name, uuid=f"MIG-{name}", mig=True)


@pytest.mark.parametrize(
    ("machine", "name", "slug"),
    [
        (Machine(), "no GPU", "no-gpu"),
        (with_gpus("NVIDIA H200"), "NVIDIA H200", "nvidia-h200"),
        (with_gpus("NVIDIA H200", "NVIDIA H200"), "2 x NVIDIA H200", "nvidia-h200-x2"),
        (
            with_gpus("NVIDIA H200", "NVIDIA A100"),
            "NVIDIA A100 + NVIDIA H200",
            "nvidia-a100-nvidia-h200-x2",
        ),
        (
            with_gpus("NVIDIA H200", "NVIDIA T4", "NVIDIA H200"),
            "2 x NVIDIA H200 + NVIDIA T4",
            "nvidia-h200-x2-nvidia-t4-x1",
        ),
        (
            with_gpus("NVIDIA H200", "NVIDIA H200", mig=True),
            "2 x NVIDIA H200 (MIG slice)",
            "nvidia-h200-mig-x2",
        ),
        (
            with_gpus("NVIDIA H200 MIG 1g.18gb", mig=True),
            "NVIDIA H200 MIG 1g.18gb",
            "nvidia-h200-mig-1g-18gb",
        ),
        (with_gpus("Tesla/../V100"), "Tesla/../V100", "tesla-v100"),
        (with_gpus("..."), "...", "unnamed-gpu"),
    ],
)
def test_a_machine_is_named_by_its_gpus(machine: Machine, name: str, slug: str) -> None:
    assert (machine.gpu_name, machine.slug) == (name, slug)


def test_driver_versions_and_cards_do_not_forbid_a_comparison() -> None:
    other = records.machine(driver="570.1").model_copy(
        update={
            "gpus": (Gpu(name="NVIDIA H200", uuid="GPU-9", memory_mib=1),),
            "torch": "2.7.0",
            "cuda": "12.8",
            "python": "3.12.1",
            "cpu": "another",
            "cpu_count": 2,
            "nvtx": None,
        }
    )
    assert records.machine().differences_that_forbid_comparison(other) == ()


@pytest.mark.parametrize(
    ("then", "now", "found"),
    [
        (
            with_gpus("NVIDIA H100"),
            with_gpus("NVIDIA H200"),
            "baseline is for NVIDIA H100, this machine is NVIDIA H200",
        ),
        (
            with_gpus("NVIDIA H200", mig=True),
            with_gpus("NVIDIA H200"),
            "baseline is for NVIDIA H200 (MIG slice), this machine is NVIDIA H200",
        ),
        (
            with_gpus("NVIDIA H200", "NVIDIA H200", "NVIDIA T4"),
            with_gpus("NVIDIA H200", "NVIDIA T4", "NVIDIA T4"),
            (
                "baseline is for 2 x NVIDIA H200 + NVIDIA T4, this machine is NVIDIA H200 + 2 x "
                "NVIDIA T4"
            ),
        ),
        (
            Machine(gpus=(sliced("NVIDIA A100"), whole("NVIDIA H200"))),
            Machine(gpus=(whole("NVIDIA A100"), sliced("NVIDIA H200"))),
            (
                "baseline is for NVIDIA A100 (MIG slice) + NVIDIA H200, "
                "this machine is NVIDIA A100 + NVIDIA H200 (MIG slice)"
            ),
        ),
        (
            Machine(cpu="AMD EPYC 9654"),
            Machine(cpu="AMD EPYC 9654", cpu_count=2),
            (
                "baseline is for CPUs (AMD EPYC 9654 (?)) without a GPU, this machine AMD EPYC "
                "9654 (2)"
            ),
        ),
        (
            Machine(nsys="2024.2.3"),
            Machine(nsys="2024.6.1"),
            "baseline was captured by nsys 2024.2.3, this is nsys 2024.6.1",
        ),
        (
            Machine(nsys_options=("--trace=cuda,nvtx",)),
            Machine(),
            "baseline was captured with --trace=cuda,nvtx, this run with -",
        ),
    ],
)
def test_what_forbids_a_comparison_is_named(then: Machine, now: Machine, found: str) -> None:
    assert [*map(say.fact, then.differences_that_forbid_comparison(now))] == [found]


def test_the_order_of_the_gpus_does_not_matter() -> None:
    one, other = with_gpus("NVIDIA A100", "NVIDIA H200"), with_gpus("NVIDIA H200", "NVIDIA A100")
    assert one.differences_that_forbid_comparison(other) == ()


def test_conditions_complain_of_throttling_and_of_neighbours_gpu_by_gpu() -> None:
    conditions = Conditions(
        gpus=(
            GpuCondition(
                uuid="GPU-0",
                samples=3,
                sm_clock_mhz=1980,
                throttled=(quoted("thermal slowdown"), quoted("power brake")),
            ),
            GpuCondition(
                uuid="GPU-1",
                samples=3,
                sm_clock_mhz=1755,
                neighbours=("python (77)",),
                information=(quoted("capped"),),
            ),
            GpuCondition(uuid="GPU-2", samples=0),
        )
    )
    assert [*map(say.fact, conditions.invalid)] == [
        "GPU GPU-0 was throttled (thermal slowdown, power brake)",
        "GPU GPU-1 was shared with python (77)",
    ]
    assert conditions.sm_clock_mhz == 1755
    assert (Conditions().sm_clock_mhz, Conditions().invalid) == (None, ())
