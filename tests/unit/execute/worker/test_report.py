"""A worker's report at its end: how it ended, with what, and whatever the loop left open."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.sides import WARM, FakeTorch, made, worker_report_of

from perfgate.execute.worker import report
from perfgate.model.order import Ending, Order, WorkerReport


def test_the_worker_report_names_how_it_ended_and_with_what(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(calls))
    monkeypatch.setattr("perfgate.execute.worker.reporting.nvtx_version", lambda: "0.2.11")
    monkeypatch.setattr(os, "getpid", lambda: 77)
    steps = made(calls)
    list(steps)
    report(order, steps, Ending.FINISHED)
    said = worker_report_of(order)
    assert said.needs is not None
    assert said.needs.cores is not None
    assert said.model_copy(update={"needs": None}) == WorkerReport(
        ending=Ending.FINISHED,
        turns=5,
        pid=77,
        torch="2.6.0+cu124",
        cuda="12.4",
        nvtx="0.2.11",
    )


def test_a_process_that_the_workload_forked_has_no_say_in_it(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = made(calls)
    loop = iter(steps)
    next(loop)
    with monkeypatch.context() as in_the_child:
        in_the_child.setattr(os, "getpid", lambda: 4711)
        report(order, steps, Ending.RAISED)
    assert not Path(order.worker_report).exists()
    assert calls[-1] == WARM  # the range is open: the loop goes on
    list(loop)
    report(order, steps, Ending.FINISHED)
    assert (worker_report_of(order).ending, worker_report_of(order).turns) == (Ending.FINISHED, 5)
