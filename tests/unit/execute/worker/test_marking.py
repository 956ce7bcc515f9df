"""What marks the steps, who is deaf to it, and whether nsys is there to hear."""

from __future__ import annotations

from types import ModuleType

import pytest
from support.sides import FakeNvtx, FakeTorch, made

from perfgate.execute.worker import marking, profiled
from perfgate.execute.worker.endings import Unmarked
from perfgate.execute.worker.marking import choose_marker


def test_a_deaf_nvtx_package_is_reported_before_the_first_turn(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marking, "nvtx_version", lambda: "0.2.13")
    steps = made(calls, nvtx=FakeNvtx(calls, deaf=True))
    with pytest.raises(Unmarked) as deaf:
        list(steps)
    assert deaf.value.why.fields == {"version": "0.2.13"}
    assert (calls, steps.turns) == ([], 0)


def test_a_deaf_nvtx_package_does_not_matter_outside_nsys(calls: list[str]) -> None:
    choose_marker(torch=None, nvtx=FakeNvtx(calls, deaf=True), profiled=False)


@pytest.mark.parametrize("torch", [None, FakeTorch([], available=False)])
def test_nothing_to_mark_with_is_an_error(torch: ModuleType | None) -> None:
    with pytest.raises(Unmarked) as deaf:
        choose_marker(torch=torch, nvtx=None, profiled=False)
    assert deaf.value.why.code == "no-nvtx"


@pytest.mark.parametrize(
    ("environment", "around"),
    [
        ({}, False),
        ({"PATH": "/bin"}, False),
        ({"NSYS_PROFILING_SESSION_ID": "1"}, True),
        ({"NVTX_INJECTION64_PATH": "/opt/libToolsInjection64.so"}, True),
    ],
)
def test_nsys_is_known_by_what_it_sets(environment: dict[str, str], around: bool) -> None:
    assert profiled(environment) is around
