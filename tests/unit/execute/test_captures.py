"""What the captures of a run show: whose steps they are, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support import records

from perfgate.execute.captures import notes_of, with_ranks
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note
from perfgate.model.sample import DeviceSample, ProcessSample
from perfgate.model.workload import Workload

# What makes a run INVALID


COMMAND = records.workload(nodeid=None)


@pytest.mark.parametrize(
    ("workload", "steps", "code"),
    [
        (records.workload(), 28, "steps-lost"),
        (COMMAND, 10, "steps-lost-of-command"),
        (COMMAND, 31, "steps-lost-of-command"),
    ],
)
def test_lost_steps_are_noted(workload: Workload, steps: int, code: str) -> None:
    processes = (records.process(pid=1, steps=30), records.process(pid=2, steps=steps))
    (lost,) = notes_of(workload, Machine(), processes)
    assert (lost.code, lost.severity) == (code, Severity.INVALID)
    assert (lost.fields["pid"], lost.fields["found"], lost.fields["steps"]) == (2, steps, 30)


def test_of_a_window_too_short_to_show_it_it_is_noted_that_the_warmup_may_not_suffice() -> None:
    found = [
        [one.code for one in notes_of(records.workload(steps=steps), Machine(), ())]
        for steps in (8, 7)
    ]
    assert found == [[], ["warmup-unshown"]]


def test_a_gpu_that_did_nothing_is_noted_with_the_reason_of_the_capture() -> None:
    seen = records.process()
    absent = note("quoted", text="the capture has no table of kernels")
    unseen = records.process({Metric.STEP_MS: 1.0}, absent={Metric.KERNEL_MS: absent}, ranges=())
    plain = records.process({Metric.STEP_MS: 1.0}, ranges=())

    def why(machine: Machine, *processes: ProcessSample) -> list[object]:
        notes = notes_of(records.workload(), machine, processes)
        return [one.fields["why"] for one in notes if one.code == "gpu-unseen"]

    gpu = records.machine()
    assert why(gpu, seen, unseen) == why(Machine(), unseen) == []
    assert why(gpu, unseen) == [absent]
    assert why(gpu, plain) == [note("launched-nothing")]


# Whose steps they are


def test_processes_are_in_the_order_of_their_ranks() -> None:
    made = [records.process(pid=pid) for pid in (7, 8, 9)]
    ranked = with_ranks(made, {7: 2, 8: 0, 9: 1, 10: 1})
    assert [(process.pid, process.rank) for process in ranked] == [(8, 0), (9, 1), (7, 2)]


@pytest.mark.parametrize("ranks", [{}, {7: 0}, {7: 0, 8: 0}, {9: 0, 10: 1}])
def test_ranks_that_do_not_distinguish_the_processes_are_left_out(ranks: Mapping[int, int]) -> None:
    made = (records.process(pid=7), records.process(pid=8))
    assert with_ranks(made, ranks) == made


def test_processes_whose_ranks_are_not_known_are_in_the_order_of_their_gpus() -> None:
    first, second = (
        records.process(pid=pid).model_copy(update={"devices": (DeviceSample(device=gpu),)})
        for pid, gpu in ((7, 1), (8, 0))
    )
    assert with_ranks([first, second], {}) == with_ranks([second, first], {}) == (second, first)
    assert with_ranks([first, second], {7: 0, 8: 1})[0].pid == 7
    assert with_ranks([first, first, second], {}) == (first, first, second)
