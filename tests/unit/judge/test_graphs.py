"""CUDA graphs in place of launches: no loss of a count, and no loss of kernel time where they hold what was idle."""

from __future__ import annotations

import pytest
from support.judging import Columns, blessed, measured

from perfgate.judge.graphs import IN_GRAPHS, OUT_OF_SIGHT, HeldTogether
from perfgate.judge.judge import judge
from perfgate.judge.rows import Terms
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import WHOLE_GRAPHS, KernelSample, ProcessSample, Run
from perfgate.model.verdict import MetricVerdict, Verdict

M = Metric
EAGER: Columns = {
    M.STEP_MS: [10.0, 10.01, 9.99, 10.0, 10.0] * 2,
    M.KERNEL_MS: [8.0, 8.002, 7.998, 8.001, 7.999] * 2,
    M.GAP_MS: [2.0, 2.01, 1.99, 2.0, 2.0] * 2,
    M.LAUNCHES: [738.0] * 10,
    M.GRAPH_LAUNCHES: [0.0] * 10,
}


def graphed(
    *, kernel_ms: float = 8.0, gap_ms: float = 0.1, launches: float = 37.0, graphs: float = 2.0, runs: int = 3
) -> Columns:
    wobble = [1.0, 1.0003, 0.9997][:runs]
    return {
        M.STEP_MS: [(kernel_ms + gap_ms) * by for by in wobble],
        M.KERNEL_MS: [kernel_ms * by for by in wobble],
        M.GAP_MS: [gap_ms * by for by in wobble],
        M.LAUNCHES: [launches] * runs,
        M.GRAPH_LAUNCHES: [graphs] * runs,
    }


def traced_whole(runs: list[Run], *, span_ms: float = 7.9) -> list[Run]:
    span = KernelSample(name=WHOLE_GRAPHS, count=2.0, gpu_ms=span_ms)

    def of(process: ProcessSample) -> ProcessSample:
        return process.model_copy(update={"kernels": (span,)})

    return [run.model_copy(update={"processes": tuple(map(of, run.processes))}) for run in runs]


def without(columns: Columns, metric: Metric) -> Columns:
    return {name: values for name, values in columns.items() if name is not metric}


def row_of(verdict: Verdict, metric: Metric) -> MetricVerdict:
    row = verdict.of(metric)
    assert row is not None
    return row


TOOK_THE_PLACE = "rose from 0 to 2 per step in place of 701 launches"


@pytest.mark.parametrize("runs", [1, 3])
def test_graphs_in_place_of_more_launches_are_no_loss(runs: int) -> None:
    verdict = judge(blessed(EAGER), measured(graphed(runs=runs)), Terms()).verdict
    row = row_of(verdict, M.GRAPH_LAUNCHES)
    assert (row.outcome, row.reason) == (Outcome.PASSED, TOOK_THE_PLACE)
    assert verdict.remarks == (f"graph_launches {TOOK_THE_PLACE}",)
    assert verdict.outcome is Outcome.IMPROVED


@pytest.mark.parametrize(
    ("there", "here"),
    [
        pytest.param((3.0, 0.0), [(1.0, 2.0)] * 3, id="as many calls"),
        pytest.param((738.0, 0.0), [(37.0, 2.0), (37.0, 2.0), (738.0, 2.0)], id="not in every run"),
        pytest.param((738.0, 1.0), [(37.0, 2.0)] * 3, id="graphs were there before"),
    ],
)
def test_other_graphs_are_a_rise(there: tuple[float, float], here: list[tuple[float, float]]) -> None:
    then = {**EAGER, M.LAUNCHES: [there[0]] * 10, M.GRAPH_LAUNCHES: [there[1]] * 10}
    now = {**graphed(), M.LAUNCHES: [one[0] for one in here], M.GRAPH_LAUNCHES: [one[1] for one in here]}
    row = row_of(judge(blessed(then), measured(now), Terms()).verdict, M.GRAPH_LAUNCHES)
    assert (row.outcome, row.reason) == (Outcome.REGRESSED, f"rose from {there[1]:g} to 2 per step (exact)")


def test_graphs_that_are_none_but_for_the_last_bits_are_unchanged() -> None:
    row = row_of(judge(blessed(EAGER), measured(graphed(graphs=1e-12)), Terms()).verdict, M.GRAPH_LAUNCHES)
    assert (row.outcome, row.reason) == (Outcome.PASSED, "unchanged (exact)")


def test_where_nobody_counted_launches_graphs_are_a_rise() -> None:
    row = row_of(judge(blessed(without(EAGER, M.LAUNCHES)), measured(graphed()), Terms()).verdict, M.GRAPH_LAUNCHES)
    assert row.outcome is Outcome.REGRESSED


def test_a_run_that_lacks_its_launches_excuses_no_graphs() -> None:
    row = row_of(judge(blessed(EAGER), measured(without(graphed(), M.LAUNCHES)), Terms()).verdict, M.GRAPH_LAUNCHES)
    assert row.outcome is Outcome.REGRESSED


@pytest.mark.parametrize("runs", [1, 3])
def test_idle_time_that_graphs_hold_makes_no_kernel_slower(runs: int) -> None:
    now = graphed(kernel_ms=8.9, gap_ms=0.1, runs=runs)
    whole = judge(blessed(EAGER), traced_whole(measured(now)), Terms()).verdict
    row = row_of(whole, M.KERNEL_MS)
    assert row.outcome is Outcome.PASSED
    assert row.reason.endswith(f"; within it together with gap_ms: {IN_GRAPHS}")
    assert f"kernel_ms {row.reason}" in whole.remarks
    assert row.baseline == pytest.approx(8.0)
    assert row.now == pytest.approx(8.9)
    assert whole.outcome is Outcome.IMPROVED
    by_node = judge(blessed(EAGER), measured(now), Terms()).verdict
    assert row_of(by_node, M.KERNEL_MS).outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE)


def test_kernels_that_are_slower_than_all_idle_time_would_make_them_regress() -> None:
    verdict = judge(blessed(EAGER), traced_whole(measured(graphed(kernel_ms=10.4, gap_ms=0.1))), Terms()).verdict
    row = row_of(verdict, M.KERNEL_MS)
    assert row.outcome is Outcome.REGRESSED
    assert IN_GRAPHS not in row.reason


@pytest.mark.parametrize(("span_ms", "outcome"), [(0.5, Outcome.PASSED), (0.3, Outcome.REGRESSED)])
def test_graphs_hold_no_more_idle_time_than_they_take(span_ms: float, outcome: Outcome) -> None:
    # 0.4 ms more of kernels and less of idle time: the other kernels are slower in the shadow of their launches
    now = graphed(kernel_ms=8.4, gap_ms=1.6, launches=730.0)
    verdict = judge(blessed(EAGER), traced_whole(measured(now), span_ms=span_ms), Terms()).verdict
    assert row_of(verdict, M.KERNEL_MS).outcome is outcome


@pytest.mark.parametrize(("gap_ms", "outcome"), [(2.0, Outcome.REGRESSED), (1.8, Outcome.PASSED)])
def test_together_they_may_lose_no_more_than_kernels_may(gap_ms: float, outcome: Outcome) -> None:
    # Of 2 ms of kernels and 8 of idle time 1 % is 5 % of the kernels
    then = {**EAGER, M.KERNEL_MS: [2.0] * 10, M.GAP_MS: [8.0, 8.001, 7.999, 8.0, 8.0] * 2}
    now = {**graphed(), M.KERNEL_MS: [2.06] * 3, M.GAP_MS: [6.0 + gap_ms] * 3, M.STEP_MS: [8.06 + gap_ms] * 3}
    verdict = judge(blessed(then), traced_whole(measured(now), span_ms=2.0), Terms()).verdict
    assert row_of(verdict, M.KERNEL_MS).outcome is outcome


NOISY_IDLE: Columns = {**EAGER, M.GAP_MS: [2.0, 2.1, 1.9, 2.0, 2.0] * 2}


@pytest.mark.parametrize(
    ("gap_ms", "outcome"),
    [
        pytest.param([1.1, 1.22, 0.98], Outcome.INCONCLUSIVE, id="as much as before, as far as is known"),
        pytest.param([1.2, 1.32, 1.08], Outcome.REGRESSED, id="more by the size of a loss"),
    ],
)
def test_where_both_together_are_not_settled_more_runs_are_wanted(gap_ms: list[float], outcome: Outcome) -> None:
    now = {**graphed(kernel_ms=8.9), M.GAP_MS: gap_ms, M.STEP_MS: [10.0] * 3}
    judgement = judge(blessed(NOISY_IDLE), traced_whole(measured(now), span_ms=8.8), Terms())
    row = row_of(judgement.verdict, M.KERNEL_MS)
    assert row.outcome is outcome
    assert (judgement.wanted_runs == 5) is (outcome is Outcome.INCONCLUSIVE)
    assert ("; together with gap_ms unchanged (" in row.reason) is (outcome is Outcome.INCONCLUSIVE)


def test_idle_time_that_went_into_graphs_is_no_gain() -> None:
    runs = traced_whole(measured(graphed(kernel_ms=9.0, gap_ms=1.0)), span_ms=8.9)
    verdict = judge(blessed(EAGER), runs, Terms()).verdict
    row = row_of(verdict, M.GAP_MS)
    assert row.outcome is Outcome.PASSED
    assert row.reason.endswith(f"; not shown to be less together with kernel_ms: {IN_GRAPHS}")
    assert f"gap_ms {row.reason}" in verdict.remarks
    assert verdict.reason == "launches fell from 738 to 37 per step (exact)."
    gained = judge(blessed(EAGER), traced_whole(measured(graphed(kernel_ms=8.9, gap_ms=0.1))), Terms()).verdict
    assert row_of(gained, M.GAP_MS).outcome is Outcome.IMPROVED
    by_node = judge(blessed(EAGER), measured(graphed(kernel_ms=9.0, gap_ms=1.0)), Terms()).verdict
    assert row_of(by_node, M.GAP_MS).outcome is Outcome.IMPROVED


def test_idle_time_that_is_no_less_is_judged_alone() -> None:
    row = row_of(judge(blessed(EAGER), traced_whole(measured(graphed(gap_ms=2.0))), Terms()).verdict, M.GAP_MS)
    assert row.outcome is Outcome.PASSED
    assert IN_GRAPHS not in row.reason


@pytest.mark.parametrize(
    ("at", "metrics"),
    [
        pytest.param({M.KERNEL_MS: 9.9, M.GAP_MS: 0.0}, [M.KERNEL_MS, M.GAP_MS], id="of kernel time alone"),
        pytest.param({M.GAP_MS: 2.9}, [M.KERNEL_MS, M.GAP_MS], id="of both together"),
    ],
)
def test_runs_that_either_judgement_sets_aside_are_shown(at: dict[Metric, float], metrics: list[Metric]) -> None:
    columns = {metric: [*values, *values[1:]] for metric, values in graphed(kernel_ms=9.0, gap_ms=0.9).items()}
    for metric, value in at.items():
        columns[metric][3] = value
    verdict = judge(blessed(EAGER), traced_whole(measured(columns), span_ms=8.9), Terms()).verdict
    assert row_of(verdict, M.KERNEL_MS).outcome is Outcome.PASSED
    assert [(drop.index, drop.metric) for drop in verdict.dropped] == [(3, metric) for metric in metrics]


def test_kernels_that_took_no_time_excuse_none() -> None:
    then = {**EAGER, M.KERNEL_MS: [0.0] * 10}
    row = row_of(judge(blessed(then), traced_whole(measured(graphed())), Terms()).verdict, M.KERNEL_MS)
    assert row.outcome is Outcome.REGRESSED


def test_kernels_that_are_faster_are_so_by_themselves() -> None:
    row = row_of(judge(blessed(EAGER), traced_whole(measured(graphed(kernel_ms=7.5))), Terms()).verdict, M.KERNEL_MS)
    assert row.outcome is Outcome.IMPROVED
    assert IN_GRAPHS not in row.reason


@pytest.mark.parametrize("lacking", ["baseline", "a run"])
def test_where_idle_time_is_not_known_of_every_run_kernels_are_judged_alone(lacking: str) -> None:
    now = graphed(kernel_ms=8.9)
    then = without(EAGER, M.GAP_MS) if lacking == "baseline" else EAGER
    runs = traced_whole(measured(without(now, M.GAP_MS) if lacking == "a run" else now))
    assert row_of(judge(blessed(then), runs, Terms()).verdict, M.KERNEL_MS).outcome is Outcome.REGRESSED


def with_copies(columns: Columns, **values: float) -> Columns:
    runs = len(columns[M.STEP_MS])
    return {**columns, **{Metric(name): [value] * runs for name, value in values.items()}}


def test_copies_and_memsets_that_went_into_graphs_make_no_kernel_slower() -> None:
    then = with_copies(EAGER, mem_exposed_ms=0.8)
    now = with_copies(graphed(kernel_ms=8.9, gap_ms=1.9), mem_exposed_ms=0.0)
    verdict = judge(blessed(then), traced_whole(measured(now)), Terms()).verdict
    row = row_of(verdict, M.KERNEL_MS)
    assert row.outcome is Outcome.PASSED
    assert row.reason.endswith(f"; within it together with gap_ms and mem_exposed_ms: {IN_GRAPHS}")
    row = row_of(verdict, M.MEM_EXPOSED_MS)
    assert (row.outcome, row.reason.endswith(OUT_OF_SIGHT)) == (Outcome.PASSED, True)
    assert f"mem_exposed_ms {row.reason}" in verdict.remarks
    by_node = judge(blessed(then), measured(now), Terms()).verdict
    assert row_of(by_node, M.KERNEL_MS).outcome is Outcome.REGRESSED
    assert row_of(by_node, M.MEM_EXPOSED_MS).outcome is Outcome.IMPROVED


def test_less_idle_time_is_a_gain_where_all_together_is_less() -> None:
    # What kernels took more went there from memsets; what was idle is gone.
    then = with_copies(EAGER, mem_exposed_ms=0.8)
    now = with_copies(graphed(kernel_ms=8.8, gap_ms=1.2), mem_exposed_ms=0.0)
    verdict = judge(blessed(then), traced_whole(measured(now)), Terms()).verdict
    assert row_of(verdict, M.GAP_MS).outcome is Outcome.IMPROVED
    told = judge(
        blessed(then),
        traced_whole(measured(with_copies(graphed(kernel_ms=9.6, gap_ms=1.2), mem_exposed_ms=0.0))),
        Terms(),
    ).verdict
    row = row_of(told, M.GAP_MS)
    assert row.outcome is Outcome.PASSED
    assert row.reason.endswith(f"; not shown to be less together with kernel_ms and mem_exposed_ms: {IN_GRAPHS}")


TO_DEVICE = {M.H2D_MS: 0.5, M.H2D_EXPOSED_MS: 0.5, M.H2D_COPIES: 2.0, M.H2D_BYTES: 4096.0, M.PAGEABLE_COPIES: 2.0}


def test_copies_to_the_device_that_went_into_graphs_are_no_gain_and_make_no_kernel_slower() -> None:
    then = with_copies(EAGER, **TO_DEVICE, d2h_copies=1.0)
    gone = dict.fromkeys(TO_DEVICE, 0.0)
    now = with_copies(graphed(kernel_ms=8.5, gap_ms=2.0), **gone, d2h_copies=0.0)
    verdict = judge(blessed(then), traced_whole(measured(now)), Terms()).verdict
    row = row_of(verdict, M.KERNEL_MS)
    assert row.outcome is Outcome.PASSED
    assert "within it together with gap_ms and h2d_exposed_ms: " in row.reason
    for metric in (*TO_DEVICE, M.D2H_COPIES):
        row = row_of(verdict, metric)
        assert (row.outcome, row.reason.endswith(OUT_OF_SIGHT)) == (Outcome.PASSED, True), metric
        assert f"{metric} {row.reason}" in verdict.remarks
    by_node = judge(blessed(then), measured(now), Terms()).verdict
    assert {row_of(by_node, metric).outcome for metric in (*TO_DEVICE, M.D2H_COPIES)} == {Outcome.IMPROVED}


@pytest.mark.parametrize("copies", [2.0, 2.0 - 1e-12])
def test_copies_that_are_as_many_as_before_are_in_no_graph(copies: float) -> None:
    then = with_copies(EAGER, **TO_DEVICE)
    now = with_copies(graphed(kernel_ms=8.5, gap_ms=2.0), **{**dict.fromkeys(TO_DEVICE, 0.0), M.H2D_COPIES: copies})
    verdict = judge(blessed(then), traced_whole(measured(now)), Terms()).verdict
    assert row_of(verdict, M.KERNEL_MS).outcome is Outcome.REGRESSED
    gains = (M.H2D_MS, M.H2D_EXPOSED_MS, M.PAGEABLE_COPIES)
    assert {row_of(verdict, metric).outcome for metric in gains} == {Outcome.IMPROVED}


def test_of_what_some_run_lacks_nothing_is_added() -> None:
    then = with_copies(EAGER, mem_exposed_ms=0.8)
    now = graphed(kernel_ms=8.9, gap_ms=1.9)
    verdict = judge(blessed(then), traced_whole(measured(now)), Terms()).verdict
    assert row_of(verdict, M.KERNEL_MS).outcome is Outcome.REGRESSED


SMALL_KERNELS: Columns = {
    M.STEP_MS: [13.01, 12.86, 12.94, 13.13, 12.67],
    M.KERNEL_MS: [0.7490, 0.7490, 0.7490, 0.7481, 0.7482],
    M.GAP_MS: [12.25, 12.11, 12.20, 12.39, 11.92],
    M.MEM_EXPOSED_MS: [0.0008] * 5,
    M.LAUNCHES: [405.0] * 5,
    M.GRAPH_LAUNCHES: [0.0] * 5,
}
SMALL_IN_A_GRAPH: Columns = {
    M.STEP_MS: [0.8120, 0.8118, 0.8116],
    M.KERNEL_MS: [0.7959, 0.7959, 0.7952],
    M.GAP_MS: [0.0133, 0.0112, 0.0114],
    M.MEM_EXPOSED_MS: [0.0] * 3,
    M.LAUNCHES: [0.0] * 3,
    M.GRAPH_LAUNCHES: [1.0] * 3,
}
LARGE_KERNELS: Columns = {
    M.STEP_MS: [2.995, 2.943, 2.941, 2.933, 2.942],
    M.KERNEL_MS: [2.350, 2.356, 2.352, 2.348, 2.347],
    M.GAP_MS: [0.0992, 0.0996, 0.0987, 0.0982, 0.0999],
    M.MEM_EXPOSED_MS: [0.0337] * 5,
    M.LAUNCHES: [38.0] * 5,
    M.GRAPH_LAUNCHES: [0.0] * 5,
}
LARGE_IN_A_GRAPH: Columns = {
    M.STEP_MS: [2.957, 2.965, 2.872, 2.886, 2.936],
    M.KERNEL_MS: [2.396, 2.398, 2.403, 2.404, 2.407],
    M.GAP_MS: [0.0122, 0.0119, 0.0114, 0.0100, 0.0109],
    M.MEM_EXPOSED_MS: [0.0] * 5,
    M.LAUNCHES: [0.0] * 5,
    M.GRAPH_LAUNCHES: [1.0] * 5,
}
"""Of the loops of tests/gpu/test_graphs_gpu.py as an H200 ran them, one by one and as a graph traced whole; values of
`mem_exposed_ms` are the medians."""


@pytest.mark.parametrize(
    ("before", "now", "span_ms", "faster"),
    [(SMALL_KERNELS, SMALL_IN_A_GRAPH, 0.795, True), (LARGE_KERNELS, LARGE_IN_A_GRAPH, 2.39, False)],
)
def test_what_an_h200_ran_as_a_graph_is_no_loss(before: Columns, now: Columns, span_ms: float, *, faster: bool) -> None:
    runs = traced_whole(measured(now), span_ms=span_ms)
    verdict = judge(blessed(before), runs, Terms()).verdict
    assert verdict.outcome is Outcome.IMPROVED
    assert (row_of(verdict, M.STEP_MS).outcome is Outcome.IMPROVED) is faster
    row = row_of(verdict, M.KERNEL_MS)
    assert row.outcome is Outcome.PASSED
    assert row.change is not None
    assert row.change > 0.02
    assert row_of(verdict, M.GAP_MS).outcome is Outcome.IMPROVED
    assert row_of(verdict, M.MEM_EXPOSED_MS).outcome is Outcome.PASSED


def test_what_both_together_changed_by_is_told_of_kernel_time() -> None:
    assert HeldTogether(blessed=[10.0] * 3, now=[10.2] * 3, share=0.8, beside=(M.GAP_MS,)).change == pytest.approx(
        0.025
    )
