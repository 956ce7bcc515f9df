"""`perfgate explain`: what moved and where, of a kept result or of any two captures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from support import records
from support.project import Project, Seen
from syrupy.assertion import SnapshotAssertion

from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import KernelSample, ProcessSample, RangeSample, Run
from perfgate.model.verdict import ABRun

SPIN = "void at::cuda::(anonymous namespace)::spin_kernel(long)"


def process(
    values: Mapping[Metric, float] | None = None,
    *,
    gap_ms: float = 1.541,
    extra: KernelSample | None = None,
) -> ProcessSample:
    """Like those of the baseline, but for what is given; the ranges account for the gap that they
    have."""
    ranges = [
        RangeSample(
            name="data_load",
            count=1,
            cpu_ms=0.61,
            values={Metric.GAP_MS: gap_ms, Metric.KERNEL_MS: 0.0},
        ),
        RangeSample(
            name="forward", count=1, cpu_ms=1.2, values={Metric.GAP_MS: 0.31, Metric.KERNEL_MS: 9.1}
        ),
    ]
    given = {**records.VALUES, Metric.GAP_MS: gap_ms + 0.31, **(values or {})}
    kernels = [KernelSample(name="gemm", count=12, gpu_ms=9.1), *([] if extra is None else [extra])]
    return records.process(given, ranges=ranges, kernels=kernels)


def runs(*processes: ProcessSample) -> list[Run]:
    return [records.run(processes=[one]) for one in processes]


def blessed(here: Project) -> None:
    """A baseline of five such runs."""
    breakdown = kept(breakdown_of(runs(*[process()] * 5)))
    here.bless(here.baseline().model_copy(update={"breakdown": breakdown}))


def test_a_kept_result_is_explained_against_its_baseline(here: Project) -> None:
    blessed(here)
    slow = process(
        {Metric.STEP_MS: 16.44, Metric.KERNEL_MS: 9.2},
        gap_ms=5.541,
        extra=KernelSample(name=SPIN, count=1, gpu_ms=0.1),
    )
    here.keep(
        records.result(
            of=here.declared(), measured=runs(*[slow] * 3), at=records.NOON.replace(hour=15)
        )
    )
    seen = here.perfgate("explain", "loop")
    assert seen.status == 0
    lines = seen.out.splitlines()
    assert lines[0] == "a: baselines/nvidia-h200/loop.json"
    assert lines[1].startswith("b: .perfgate/results/nvidia-h200/loop/")
    assert "  step_ms             12.34     16.44  +33.2 %" in lines
    assert "gap_ms +4.000 ms" in lines
    words = [line.split() for line in lines]
    assert ["data_load", "1.541", "5.541", "+4.000"] in words
    assert ["spin_kernel", "0.1000", "+0.1000", "new,", "1", "a", "step"] in words
    assert SPIN not in seen.out
    assert SPIN in here.perfgate("explain", "loop", "--full").out


def test_a_result_of_an_ab_run_is_explained_against_the_other_commits_runs(here: Project) -> None:
    # Of the baseline the gap would be 4 ms larger: what ran next to it shows that it is not.
    blessed(here)
    base = records.result(
        of=here.declared(),
        measured=runs(*[process(gap_ms=5.6)] * 3),
        at=records.NOON.replace(hour=15),
    )
    ab_run = ABRun(revision="v1", commit="0123456789abcdef" * 2, pairs=3, screen_runs=0)
    here.keep(
        base.model_copy(
            update={
                "reference_runs": tuple(runs(*[process(gap_ms=5.5)] * 3)),
                "verdict": base.verdict.model_copy(update={"ab_run": ab_run}),
            }
        )
    )
    lines = here.perfgate("explain", "loop").out.splitlines()
    assert lines[0] == "a: 0123456789ab, run next to it"
    assert "gap_ms +0.1000 ms" in lines


def test_ranks_are_reported_and_which_is_late(here: Project) -> None:
    blessed(here)
    values = {Metric.STEP_MS: 30.0, Metric.KERNEL_MS: 9.1}
    late = [
        process(
            {**values, Metric.NCCL_MS: 5.6, Metric.NCCL_EXPOSED_MS: 4.6}, gap_ms=5.2
        ).model_copy(update={"rank": 1, "pid": 2}),
        process({**values, Metric.NCCL_MS: 17.6, Metric.NCCL_EXPOSED_MS: 16.6}).model_copy(
            update={"rank": 0, "pid": 1}
        ),
    ]
    here.keep(
        records.result(
            of=here.declared(),
            measured=[records.run(processes=late)] * 3,
            at=records.NOON.replace(hour=15),
        )
    )
    (found,) = [
        line
        for line in here.perfgate("explain", "loop", columns=300).out.splitlines()
        if "rank 1 is late" in line
    ]
    assert "12.00 ms" in found
    assert "3.659 ms" in found


def test_any_two_captures_can_be_explained(
    project: Project, capture: Path, snapshot: SnapshotAssertion
) -> None:
    seen = project.perfgate("explain", "mlp.sqlite", "mlp.sqlite", "--step", "step", "--no-rules")
    assert seen.status == 0
    assert seen.out == snapshot


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [(["loop"], "results-none", 20), (["loop", "nothing"], "subject-missing", 18)],
)
def test_what_is_not_there_is_said(here: Project, words: list[str], code: str, status: int) -> None:
    seen = here.perfgate("explain", *words)
    assert (seen.out, seen.codes, seen.status) == ("", {code}, status)


@pytest.mark.parametrize("words", [["a.sqlite"], ["a", "b", "c"], []])
def test_a_wrong_number_of_things_is_a_usage_error(here: Project, words: list[str]) -> None:
    seen = here.perfgate("explain", *words)
    assert (seen.out, seen.status) == ("", 2)


def test_a_result_without_a_baseline_says_what_to_do(
    here: Project, snapshot: SnapshotAssertion
) -> None:
    here.keep(records.result(of=here.declared()))
    seen = here.perfgate("explain", "loop")
    assert seen.err == snapshot
    assert seen.status == 18
    fresh = records.verdict(Outcome.NO_BASELINE).model_copy(update={"baseline_runs": 0})
    here.keep(
        records.result(of=here.declared(), judged=fresh, at=records.NOON + timedelta(hours=1))
    )
    seen = here.perfgate("explain", "loop")
    assert seen.err == snapshot


def test_a_baseline_that_was_blessed_since_is_reported_as_that(here: Project) -> None:
    here.keep(records.result(of=here.declared()))
    baseline = here.baseline()
    before = baseline.blessing.model_copy(update={"at": records.NOON - timedelta(days=1)})
    here.bless(baseline.model_copy(update={"blessing": before}))
    assert ", blessed " not in here.perfgate("explain", "loop").out
    at = records.NOON + timedelta(hours=1)
    blessing = baseline.blessing.model_copy(update={"at": at})
    (here.root / "baselines/nvidia-h200/loop.json").unlink()
    here.bless(baseline.model_copy(update={"blessing": blessing}))
    found = " ".join(here.perfgate("explain", "loop").out.split())
    assert f"loop.json, blessed {at:%Y-%m-%d %H:%M} UTC, " in found


@pytest.mark.parametrize("words", [["loop"], ["loop:kept", "loop"], ["loop", "loop:kept"]])
def test_a_result_that_was_not_measured_is_not_compared(
    here: Project, words: list[str], snapshot: SnapshotAssertion
) -> None:
    blessed(here)
    verdict = records.verdict(
        Outcome.NOT_MEASURED, reason="it did not end within 0.5 s and was stopped."
    )
    here.keep(
        records.result(of=here.declared()).model_copy(update={"runs": (), "verdict": verdict})
    )
    seen = here.perfgate("explain", *words)
    assert seen.err == snapshot
    assert (seen.out, seen.status) == ("", 20)


# nsys's expert rules


def rules(seen: Seen) -> list[str]:
    """What is said of nsys's expert rules."""
    return [line for line in seen.out.splitlines() if line.startswith("  rules ")]


def test_without_nsys_or_a_capture_it_is_said_why_no_rule_was_applied(
    here: Project, capture: Path, snapshot: SnapshotAssertion
) -> None:
    blessed(here)
    here.keep(records.result(of=here.declared(), at=records.NOON.replace(hour=15)))
    assert rules(here.perfgate("explain", "loop", columns=200)) == snapshot
    here.nsys(version="2020.1.1")
    both = ("mlp.sqlite", "mlp.sqlite", "--step", "step")
    assert rules(here.perfgate("explain", *both, columns=300)) == snapshot
    assert rules(here.perfgate("explain", *both, "--no-rules")) == []


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_what_nsys_itself_finds_is_reported_with_its_range(project: Project, capture: Path) -> None:
    seen = project.perfgate("explain", "mlp.sqlite", "mlp.sqlite", "--step", "step")
    words = [line.split() for line in seen.out.splitlines()]
    # One pageable copy a step under h2d, which is a call that waits as well, as the capture's own
    # rows say.
    assert ["cuda_memcpy_async", "h2d", "1", "1", "0.4203", "0.4203"] in words
    assert [row[:4] for row in words if row[:2] == ["cuda_api_sync", "h2d"]] == [
        ["cuda_api_sync", "h2d", "1", "1"]
    ]
