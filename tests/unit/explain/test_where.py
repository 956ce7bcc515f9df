"""Under which ranges a metric moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from support.judging import MOMENT

from perfgate.explain.attribution import attributions
from perfgate.explain.breakdown import breakdown_of
from perfgate.explain.where import where
from perfgate.model.metric import Metric
from perfgate.model.note import quoted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import OUTSIDE_RANGES, Breakdown, ProcessSample, RangeSample, Run
from perfgate.model.verdict import MetricVerdict, Verdict

M = Metric


def ranges(values: Mapping[str, Mapping[Metric, float]]) -> tuple[RangeSample, ...]:
    return tuple(
        RangeSample(name=name, count=1.0, cpu_ms=1.0, values=of) for name, of in values.items()
    )


def told(
    before: Sequence[RangeSample], now: Sequence[RangeSample], of: Verdict
) -> Mapping[Metric, str]:
    return where(
        attributions(Breakdown(ranges=tuple(before)), Breakdown(ranges=tuple(now)), of.metrics)
    )


def moved(
    metric: Metric,
    before: float | None,
    now: float | None,
    outcome: Outcome | None = Outcome.REGRESSED,
) -> MetricVerdict:
    return MetricVerdict(metric=metric, outcome=outcome, baseline=before, now=now)


def verdict(*rows: MetricVerdict) -> Verdict:
    return Verdict(workload="matmul", outcome=Outcome.REGRESSED, why=quoted(""), metrics=rows)


@pytest.mark.parametrize(
    ("before", "now", "row", "text"),
    [
        pytest.param(
            {"forward": {M.SYNCS: 1.0}, "loss_log": {M.SYNCS: 0.0}},
            {"forward": {M.SYNCS: 1.0}, "loss_log": {M.SYNCS: 1.0}},
            moved(M.SYNCS, 1.0, 2.0),
            "+1: +1 under loss_log",
            id="all of it under one range",
        ),
        pytest.param(
            {"data_load": {M.GAP_MS: 0.5}, "forward": {M.GAP_MS: 0.1}},
            {"data_load": {M.GAP_MS: 4.4}, "forward": {M.GAP_MS: 0.2}},
            moved(M.GAP_MS, 0.6, 4.7),
            "+4.1 ms, of which +3.9 under data_load",
            id="most of it under one range, the rest too small to name",
        ),
        pytest.param(
            {"forward": {M.SYNCS: 1.0}, "backward": {M.SYNCS: 4.0}},
            {"forward": {M.SYNCS: 2.0}, "backward": {M.SYNCS: 1.0}},
            moved(M.SYNCS, 5.0, 6.0),
            "+1: +1 under forward, and +3 is not accounted for",
            id="more than the whole is under no range",
        ),
        pytest.param(
            {
                "a": {M.KERNEL_MS: 1.0},
                "b": {M.KERNEL_MS: 1.0},
                "c": {M.KERNEL_MS: 1.0},
                "d": {M.KERNEL_MS: 1.0},
            },
            {
                "a": {M.KERNEL_MS: 1.1},
                "b": {M.KERNEL_MS: 1.4},
                "c": {M.KERNEL_MS: 1.2},
                "d": {M.KERNEL_MS: 1.3},
            },
            moved(M.KERNEL_MS, 4.0, 5.0),
            "+1 ms, of which +0.4 under b, +0.3 under d, +0.2 under c",
            id="three at most",
        ),
        pytest.param(
            {"a": {M.KERNEL_MS: 1.0}, "b": {M.KERNEL_MS: 2.0}},
            {"a": {M.KERNEL_MS: 2.5}, "b": {M.KERNEL_MS: 1.5}},
            moved(M.KERNEL_MS, 3.0, 4.0),
            "+1 ms: +1.5 under a, -0.5 under b",
            id="what went the other way, where the others are more than the whole",
        ),
        pytest.param(
            {"a": {M.KERNEL_MS: 1.0}, "b": {M.KERNEL_MS: 2.0}},
            {"a": {M.KERNEL_MS: 2.05}, "b": {M.KERNEL_MS: 1.95}},
            moved(M.KERNEL_MS, 3.0, 4.0),
            "+1 ms: +1.05 under a",
            id="only what went the way of the whole, where that is about the whole",
        ),
        pytest.param(
            {"a": {M.H2D_MS: 2.0}, "b": {M.H2D_MS: 1.0}},
            {"b": {M.H2D_MS: 1.0}},
            moved(M.H2D_MS, 3.0, 1.0, Outcome.IMPROVED),
            "-2 ms: -2 under a (gone)",
            id="a range that is gone, for the better",
        ),
        pytest.param(
            {"a": {M.LAUNCHES: 10.0}},
            {"a": {M.LAUNCHES: 10.0}, "b": {M.LAUNCHES: 2.0}},
            moved(M.LAUNCHES, 10.0, 12.0),
            "+2: +2 under b (new)",
            id="a new range, of a baseline whose ranges account for all of it",
        ),
        pytest.param(
            {"a": {M.LAUNCHES: 10.0}},
            {"a": {M.LAUNCHES: 10.0}, "b": {M.LAUNCHES: 2.0}},
            moved(M.LAUNCHES, 11.0, 12.0),
            "+1: +2 under b (not among the baseline's largest)",
            id="a range that the baseline may have had and not kept",
        ),
        pytest.param(
            {OUTSIDE_RANGES: {M.H2D_BYTES: 0.0}},
            {OUTSIDE_RANGES: {M.H2D_BYTES: 1572864.0}},
            moved(M.H2D_BYTES, 0.0, 1572864.0),
            "+1572864 B: +1572864 outside any range",
            id="outside any range",
        ),
        pytest.param(
            {"": {M.SYNCS: 0.0}, "log\n::error::": {M.SYNCS: 0.0}},
            {"": {M.SYNCS: 1.0}, "log\n::error::": {M.SYNCS: 2.0}},
            moved(M.SYNCS, 0.0, 3.0),
            "+3: +2 under log\\n::error::, +1 under (a range without a name)",
            id="names that are none, or of several lines",
        ),
        pytest.param(
            {"a": {M.SYNCS: 0.0}},
            {"a": {M.SYNCS: 0.0005}},
            moved(M.SYNCS, 0.0, 0.0005),
            "+0.0005: +0.0005 under a",
            id="a small number",
        ),
    ],
)
def test_a_metric_that_moved_is_told_by_range(
    before: Mapping[str, Mapping[Metric, float]],
    now: Mapping[str, Mapping[Metric, float]],
    row: MetricVerdict,
    text: str,
) -> None:
    assert told(ranges(before), ranges(now), verdict(row)) == {row.metric: text}


@pytest.mark.parametrize("step", [M.STEP_MS, M.STEP_MEAN_MS])
@pytest.mark.parametrize("gap_ms", [0.3, 0.5])
def test_a_step_that_takes_longer_while_no_part_of_it_does_is_told_so(
    step: Metric, gap_ms: float
) -> None:
    before = ranges({"train": {M.GAP_MS: 0.5, M.KERNEL_MS: 2.0}})
    now = ranges({"train": {M.GAP_MS: gap_ms, M.KERNEL_MS: 2.0}})
    parts = (
        moved(M.KERNEL_MS, 2.0, 2.0, Outcome.PASSED),
        moved(M.GAP_MS, 0.5, gap_ms, Outcome.PASSED),
    )
    text = "+0.3 ms, for which no kernel, copy or idle time tells: what ran side by side may run in turn"
    assert told(before, now, verdict(moved(step, 1.5, 1.8), *parts)) == {step: text}
    # What takes less needs no such word.
    assert told(before, now, verdict(moved(step, 1.8, 1.8, Outcome.IMPROVED), *parts)) == {}


def test_a_step_that_takes_longer_evenly_under_many_ranges_runs_nothing_in_turn() -> None:
    before, now = (ranges({f"part {n}": {M.STEP_MS: ms} for n in range(30)}) for ms in (0.3, 0.4))
    assert told(before, now, verdict(moved(M.STEP_MS, 9.0, 12.0))) == {}


def test_step_time_is_told_by_the_kernel_and_idle_time_of_ranges() -> None:
    before = ranges(
        {
            "data_load": {M.GAP_MS: 0.5, M.KERNEL_MS: 0.0},
            "forward": {M.GAP_MS: 0.0, M.KERNEL_MS: 9.0},
        }
    )
    now = ranges(
        {
            "data_load": {M.GAP_MS: 2.3, M.KERNEL_MS: 0.0},
            "forward": {M.GAP_MS: 0.0, M.KERNEL_MS: 9.2},
        }
    )
    rows = (
        moved(M.STEP_MS, 10.0, 12.0),
        moved(M.KERNEL_MS, 9.0, 9.2, Outcome.PASSED),
        moved(M.GAP_MS, 0.5, 2.3, Outcome.PASSED),
    )
    assert told(before, now, verdict(*rows)) == {
        M.STEP_MS: "+2 ms: gap_ms +1.8 under data_load, kernel_ms +0.2 under forward"
    }


@pytest.mark.parametrize(
    ("change", "budget", "named"),
    [(0.006, 0.01, True), (0.004, 0.01, False), (None, 0.01, False), (0.006, None, False)],
)
def test_an_inconclusive_metric_is_told_from_half_its_budget_on(
    change: float | None, budget: float | None, named: bool
) -> None:
    row = MetricVerdict(
        metric=M.KERNEL_MS,
        outcome=Outcome.INCONCLUSIVE,
        baseline=1.0,
        now=1.5,
        change=change,
        budget=budget,
    )
    found = told(ranges({"a": {M.KERNEL_MS: 1.0}}), ranges({"a": {M.KERNEL_MS: 1.5}}), verdict(row))
    assert found == ({M.KERNEL_MS: "+0.5 ms: +0.5 under a"} if named else {})


@pytest.mark.parametrize(
    "row",
    [
        moved(M.KERNEL_MS, 1.0, 1.5, Outcome.PASSED),
        moved(M.KERNEL_MS, 1.0, 1.5, Outcome.NOT_MEASURED),
        moved(M.KERNEL_MS, 1.0, 1.5, None),
        moved(M.KERNEL_MS, None, 1.5),
        moved(M.KERNEL_MS, 1.0, None),
        moved(M.H2D_EXPOSED_MS, 1.0, 1.5),
        moved(M.KERNEL_MS, 1.5, 1.0),
        moved(M.STEP_MS, 1.0, 1.5),
    ],
    ids=str,
)
def test_what_did_not_move_or_cannot_be_said_has_no_entry(row: MetricVerdict) -> None:
    assert (
        told(ranges({"a": {M.KERNEL_MS: 1.0}}), ranges({"a": {M.KERNEL_MS: 1.5}}), verdict(row))
        == {}
    )


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {"a": {M.KERNEL_MS: 1.5}}),
        ({"a": {M.KERNEL_MS: 1.0}}, {}),
        ({"a": {}}, {"a": {M.KERNEL_MS: 1.5}}),
        ({"a": {M.KERNEL_MS: 1.0}}, {"a": {}}),
        ({"a": {}}, {"a": {}}),
    ],
)
def test_where_one_side_says_nothing_of_ranges_nothing_is_invented(
    before: Mapping[str, Mapping[Metric, float]], now: Mapping[str, Mapping[Metric, float]]
) -> None:
    assert told(ranges(before), ranges(now), verdict(moved(M.KERNEL_MS, 1.0, 1.5))) == {}


def test_step_time_leaves_out_a_part_that_the_baseline_never_measured() -> None:
    rows = (moved(M.STEP_MS, 10.0, 12.0), moved(M.KERNEL_MS, None, 2.0, None))
    assert (
        told(ranges({"a": {M.GAP_MS: 0.0}}), ranges({"a": {M.KERNEL_MS: 2.0}}), verdict(*rows))
        == {}
    )


def test_ranges_of_one_name_are_added_up() -> None:
    twice = (*ranges({"a": {M.SYNCS: 1.0}}), *ranges({"a": {M.SYNCS: 2.0}}))
    found = told(ranges({"a": {M.SYNCS: 1.0}}), twice, verdict(moved(M.SYNCS, 1.0, 3.0)))
    assert found == {M.SYNCS: "+2: +2 under a"}


def test_of_a_run_with_several_processes_the_slowest_is_asked() -> None:
    def process(rank: int, step_ms: float, name: str) -> ProcessSample:
        return ProcessSample(
            pid=rank,
            rank=rank,
            steps=30,
            values={M.STEP_MS: step_ms},
            window_ms=1.0,
            ranges=ranges({name: {M.SYNCS: 1.0}}),
        )

    run = Run(
        started_at=MOMENT,
        wall_s=1.0,
        processes=(process(0, 10.0, "fast"), process(1, 12.0, "slow")),
    )
    now = breakdown_of([run])
    assert [sample.name for sample in now.ranges] == ["slow"]
    found = told(ranges({"slow": {M.SYNCS: 0.0}}), now.ranges, verdict(moved(M.SYNCS, 0.0, 1.0)))
    assert found == {M.SYNCS: "+1: +1 under slow"}
    assert breakdown_of([Run(started_at=MOMENT, wall_s=1.0, processes=())]) == Breakdown()


@pytest.mark.parametrize(
    ("now", "text"), [(1e20, "+1e+20: +1e+20 under a"), (1e-6, "+1e-06: +1e-06 under a")]
)
def test_numbers_of_any_size_stay_short(now: float, text: str) -> None:
    found = told(
        ranges({"a": {M.SYNCS: 0.0}}),
        ranges({"a": {M.SYNCS: now}}),
        verdict(moved(M.SYNCS, 0.0, now)),
    )
    assert found == {M.SYNCS: text}
