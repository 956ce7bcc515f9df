"""What opens and closes the capture: torch, the driver library, or nothing."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import NoReturn

import pytest
from support.sides import END, START, STEP, FakeNvtx, FakeTorch, made

from perfgate.execute.worker import capturing


def test_only_devices_with_a_context_are_synchronised(calls: list[str]) -> None:
    list(
        made(calls, steps=3, warmup=0, torch=FakeTorch(calls, contexts=(False, True, False, True)))
    )
    assert [call for call in calls if call.startswith("sync")] == ["sync 1", "sync 3"] * 2


def test_the_driver_library_opens_the_capture_where_torch_does_not(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = SimpleNamespace(
        cuCtxSynchronize=lambda: calls.append("sync"),
        cuProfilerStart=lambda: calls.append("start"),
        cuProfilerStop=lambda: calls.append("stop"),
    )
    monkeypatch.setattr(capturing, "_driver_library", lambda: driver)
    steps = made(calls, warmup=0, nvtx=FakeNvtx(calls))
    list(steps)
    assert calls == ["sync", "start", START, "pop", *[STEP, "pop"] * 3, "sync", END, "pop", "stop"]
    assert steps.captured_by == "libcuda"


def test_a_missing_driver_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> NoReturn:
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert capturing._driver_library() is None
