"""What ncu says when it has no figures: its words are those in the program of ncu 2024.2, or were
seen in public."""

from __future__ import annotations

import pytest

from perfgate.views.ncu.command import application_status, trouble

PERMISSION = (
    "ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
    "Counters on the target "
    "device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
LOG = f"""\
==PROF== Connected to process 42 (/usr/bin/python3.11)
==ERROR== {PERMISSION}
==PROF== Disconnected from process 42
==ERROR== The application returned an error code (9).
==WARNING== No kernels were profiled.
"""


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("Driver resource was unavailable. Ensure that no other tool", "ncu-counters-taken"),
        ("Nsight Compute failed to connect to the CUDA driver (stub?).", "ncu-no-driver"),
        ("Not supported on device 0. To find out supported GPUs refer", "ncu-gpu-unknown"),
        ("Something that nobody has seen yet", "ncu-trouble"),
    ],
)
def test_each_known_trouble_says_what_to_do(said: str, code: str) -> None:
    failed = trouble(f"==ERROR== {said}\n", subject="fill", where="/run/ncu.log")
    assert failed is not None
    assert (failed.code, failed.fields["line"]) == (code, said.rstrip("."))


def test_a_known_trouble_comes_before_one_that_only_follows_from_it() -> None:
    failed = trouble(
        f"==ERROR== Failed to profile\n==ERROR== {PERMISSION}\n", subject="fill", where="l"
    )
    assert failed is not None
    assert "ERR_NVGPUCTRPERM" in failed.fact


@pytest.mark.parametrize(
    "log",
    [
        "",
        "==PROF== Profiling\n",
        "==ERROR== The application returned an error code (9).\n",
        "an ==ERROR== of mine",
    ],
)
def test_what_the_workload_did_is_no_trouble_of_ncus(log: str) -> None:
    assert trouble(log, subject="fill", where="l") is None


def test_the_workloads_status_is_the_one_that_ncu_shows() -> None:
    assert application_status(LOG) == 9
    assert application_status("==ERROR== The application returned an error code (-11).\n") == -11
    assert application_status("==PROF== Disconnected\n") is None
