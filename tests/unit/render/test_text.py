"""Verdicts as text: whole at 80 and 200 columns, inert whatever the names."""

from __future__ import annotations

import pytest
from support import records

from perfgate.model.metric import Metric
from perfgate.model.outcome import OnInconclusive, OnNew, Outcome
from perfgate.model.verdict import Dropped, MetricVerdict, Verdict
from perfgate.render.text import dropped_text, summary, verdict_table

FILES = ".perfgate/results/nvidia-h200/mlp/20260302T120000.000000Z-abcdef"


def slip() -> Verdict:
    """Build the verdict of a loop with a blocking copy and a `.item()` a step."""
    counts = [
        row
        for row in records.unchanged_counts()
        if row.metric not in (Metric.H2D_BYTES, Metric.SYNCS)
    ]
    rows = [
        records.clock(
            Metric.STEP_MS,
            Outcome.REGRESSED,
            was=12.34,
            now=12.72,
            change=0.0308,
            around=0.0061,
            p_value=1.2e-6,
            smallest=0.0213,
        ),
        records.clock(
            Metric.KERNEL_MS,
            Outcome.PASSED,
            was=9.1,
            now=9.104,
            change=0.00044,
            around=0.0012,
            p_value=0.31,
            smallest=0.005,
        ),
        records.clock(
            Metric.GAP_MS,
            Outcome.REGRESSED,
            was=1.851,
            now=2.221,
            change=0.03,
            around=0.0061,
            p_value=0.0002,
            smallest=0.0093,
        ),
        records.clock(
            Metric.H2D_MS,
            Outcome.PASSED,
            was=1.389,
            now=1.392,
            change=0.0002,
            around=0.005,
            p_value=0.47,
            smallest=0.0091,
        ),
        records.clock(
            Metric.NCCL_EXPOSED_MS,
            Outcome.INCONCLUSIVE,
            was=0.0421,
            now=0.16,
            change=0.0096,
            around=0.0052,
            p_value=0.0031,
            smallest=0.0091,
        ),
        records.clock(Metric.NCCL_MS, None, was=1.1, now=1.3, change=0.18),
        records.count(Metric.H2D_BYTES, Outcome.REGRESSED, was=38_535_168, now=38_535_172),
        records.count(Metric.SYNCS, Outcome.REGRESSED, was=1, now=2),
        *counts,
    ]
    verdict = records.verdict(
        Outcome.REGRESSED,
        name="mlp[64-True]",
        reason="syncs rose from 1 to 2 per step. step_ms rose 3.1 % (95 % interval 2.5 to 3.7 %), budget 2 %.",
        next_step="Find it in the captures, or bless the loss if it is meant: "
        "perfgate bless 'mlp[64-True]' --accept-regression --reason \"...\"",
        metrics=rows,
        blessed=10,
        where={
            Metric.SYNCS: 'cudaStreamSynchronize under "loss"',
            Metric.GAP_MS: 'the GPU sat idle under "loss": 0.01 -> 0.37 ms per step',
        },
        remarks=["GPU-0 met its power cap in 2 of 3 runs"],
    )
    dropped = (
        Dropped(side="candidate", index=2, metric=Metric.STEP_MS, distance=0.091),
        Dropped(side="baseline", index=0, metric=Metric.GAP_MS, distance=-0.031),
    )
    return verdict.model_copy(update={"dropped": dropped})


def first() -> Verdict:
    """Build the verdict of a workload that nothing is known of yet."""
    return records.verdict(
        Outcome.NO_BASELINE,
        reason="there is no baseline of it for NVIDIA H200.",
        next_step='If this speed is right, bless it: perfgate bless mlp --reason "first baseline"',
        blessed=0,
        metrics=[
            MetricVerdict(metric=metric, outcome=None, now=value)
            for metric, value in records.VALUES.items()
        ],
    )


def failed() -> Verdict:
    """Build the verdict of a workload that did not run."""
    return records.verdict(
        Outcome.NOT_MEASURED,
        name="train",
        reason="the workload exited with status 3. Its last lines:\nTraceback (most recent call last):\n"
        '  File "train.py", line 3\nValueError: no [bold]data[/bold]',
        next_step="Run it without the profiler: pytest --perfgate-worker",
        metrics=[],
        measured=0,
    )


def unclear() -> Verdict:
    """Build the verdict of a workload that is too noisy."""
    return records.verdict(
        Outcome.INCONCLUSIVE,
        name="resnet18_input[pinned]",
        reason="10 runs could have shown no loss below 2.4 %, and its budget is 2 %. 16 more runs would do.",
        measured=10,
    )


def test_regressed_verdict_at_80_columns() -> None:
    assert (
        verdict_table(slip(), width=80, colour=False, files=FILES)
        == """\
mlp[64-True]: REGRESSED (3 runs against 10 blessed)
  syncs rose from 1 to 2 per step. step_ms rose 3.1 % (95 % interval 2.5 to
  3.7 %), budget 2 %.

  metric          baseline      now change                  budget outcome
  --------------- -------- -------- ----------------------- ------ ------------
  step_ms            12.34    12.72 +3.1 % [+2.5, +3.7]        2 % REGRESSED
  gap_ms             1.851    2.221 +3.0 pp [+2.4, +3.6]      2 pp REGRESSED
    gap_share       15.0 %   17.5 %
  h2d_bytes       38.54 MB 38.54 MB +4 B                     exact REGRESSED
  syncs                  1        2 +1 (+100 %)              exact REGRESSED
  nccl_exposed_ms   0.0421   0.1600 +1.0 pp [+0.4, +1.5]      1 pp INCONCLUSIVE
  kernel_ms          9.100    9.104 +0.04 % [-0.08, +0.16]     1 % PASSED
  h2d_ms             1.389    1.392 +0.02 pp [-0.48, +0.52]   1 pp PASSED
    h2d_share       11.3 %   10.9 %
  nccl_ms            1.100    1.300 +18.0 %                        not gated
  [ ]: interval; pp: percentage points of the baseline's step
  p-value     step_ms <0.0001, gap_ms 0.0002, nccl_exposed_ms 0.0031,
              kernel_ms 0.31, h2d_ms 0.47
  could show  step_ms +2.1 %, gap_ms +0.93 pp, nccl_exposed_ms +0.91 pp,
              kernel_ms +0.50 %, h2d_ms +0.91 pp (the smallest loss these runs
              could have shown)
  unchanged   launches 46, graph_launches 0, h2d_copies 2, d2h_copies 1,
              pageable_copies 0

  where       syncs: cudaStreamSynchronize under "loss"
  where       gap_ms: the GPU sat idle under "loss": 0.01 -> 0.37 ms per step
  dropped     candidate run 3: step_ms +9.1 % off its group's median
  dropped     baseline run 1: gap_ms -3.1 pp of a step off its group's median
  note        GPU-0 met its power cap in 2 of 3 runs
  next        Find it in the captures, or bless the loss if it is meant:
                perfgate bless 'mlp[64-True]' --accept-regression --reason "..."
  files       .perfgate/results/nvidia-h200/mlp/20260302T120000.000000Z-abcdef
"""
    )


def test_verdict_without_a_measurement_shows_the_tail_line_by_line() -> None:
    assert (
        verdict_table(failed(), width=80, colour=False, files=FILES)
        == """\
train: NOT_MEASURED
  the workload exited with status 3. Its last lines:
  Traceback (most recent call last):
    File "train.py", line 3
  ValueError: no [bold]data[/bold]

  next        Run it without the profiler: pytest --perfgate-worker
  files       .perfgate/results/nvidia-h200/mlp/20260302T120000.000000Z-abcdef
"""
    )


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize(
    "verdict", [slip(), first(), failed(), unclear()], ids=lambda verdict: verdict.outcome
)
def test_no_line_is_wider_than_the_terminal(width: int, verdict: Verdict) -> None:
    told = verdict_table(verdict, width=width, colour=False, files=FILES)
    assert max(len(line) for line in told.splitlines()) <= width


def test_colour_adds_escapes_and_nothing_else() -> None:
    plain, coloured = (
        verdict_table(slip(), width=80, colour=colour, files=FILES) for colour in (False, True)
    )
    assert "\x1b" not in plain
    assert "\x1b[1;31mREGRESSED\x1b[0m" in coloured
    assert "\x1b[33mINCONCLUSIVE\x1b[0m" in coloured
    assert without_escapes(coloured) == plain


def without_escapes(text: str) -> str:
    for code in ("1;31", "1;32", "1;33", "31", "32", "33", "1", "2", "0"):
        text = text.replace(f"\x1b[{code}m", "")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


HOSTILE = [
    "[red]x[/red]",
    "a\x1b[2Jb",
    "line\nbreak\r\x07",
    "\u202egnp.exe",
    "y" * 10_000,
    ":skull:",
    "100 %s {}",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_inert(name: str) -> None:
    verdict = records.verdict(
        name=name,
        reason=name,
        next_step=name,
        remarks=[name],
        where={Metric.STEP_MS: name},
        metrics=[],
    )
    for told in (
        verdict_table(verdict, width=80, colour=False, files=name),
        summary([verdict], opens=True, width=80, colour=False),
    ):
        assert all(character.isprintable() or character == "\n" for character in told)


def test_command_is_never_wrapped() -> None:
    command = f"perfgate bless {'x' * 100} --reason '...'"
    told = verdict_table(
        records.verdict(next_step=f"If it is right, bless it: {command}"), width=80, colour=False
    )
    assert told.splitlines()[-2:] == [
        "  next        If it is right, bless it:",
        f"                {command}",
    ]


def test_dropped_runs_are_counted_from_1_in_the_unit_of_their_metric() -> None:
    assert dropped_text(
        Dropped(side="candidate", index=2, metric=Metric.STEP_MS, distance=0.091)
    ) == ("candidate run 3: step_ms +9.1 % off its group's median")
    assert dropped_text(
        Dropped(side="baseline", index=0, metric=Metric.GAP_MS, distance=-0.031)
    ) == ("baseline run 1: gap_ms -3.1 pp of a step off its group's median")
    assert dropped_text(
        Dropped(side="candidate", index=4, metric=Metric.STEP_MS, distance=79.7)
    ) == ("candidate run 5: step_ms x80.7 its group's median")


# The summary


SUMMARY = [records.verdict(name="transformer"), unclear(), slip(), first(), failed()]


def test_summary_at_80_columns_puts_the_worst_first() -> None:
    assert (
        summary(SUMMARY, opens=False, width=80, colour=False)
        == """\
REGRESSED     mlp[64-True]
    step_ms 12.72  +3.1 % [+2.5, +3.7]  budget 2 %  3 runs
    syncs rose from 1 to 2 per step. step_ms rose 3.1 % (95 % interval 2.5 to
    3.7 %), budget 2 %.
NOT_MEASURED  train
    the workload exited with status 3. Its last lines:
NO_BASELINE   mlp
    step_ms 12.34  3 runs
    there is no baseline of it for NVIDIA H200.
INCONCLUSIVE  resnet18_input[pinned]
    10 runs
    10 runs could have shown no loss below 2.4 %, and its budget is 2 %. 16 more
    runs would do.
PASSED        transformer
    3 runs
GATE SHUT: 1 REGRESSED, 1 NOT_MEASURED, 1 NO_BASELINE, 1 INCONCLUSIVE of 5
workloads
"""
    )


@pytest.mark.behaviour
@pytest.mark.parametrize("width", [80, 200])
def test_what_passed_shows_its_step_change_interval_budget_and_runs(width: int) -> None:
    row = records.clock(
        Metric.STEP_MS, Outcome.PASSED, was=12.34, now=12.46, change=0.01, around=0.006
    )
    told = summary(
        [records.verdict(name="mlp", metrics=[row])], opens=True, width=width, colour=False
    )
    line = told.splitlines()[0]
    assert all(
        part in line for part in ("PASSED", "mlp", "12.46", "+1.0 % [+0.4, +1.6]", "2 %", "3 runs")
    )


def last_line(
    *outcomes: Outcome, opens: bool, why: str = "", strict: bool = False, new: bool = False
) -> str:
    told = summary(
        [records.verdict(outcome, name=f"w{n}", measured=5) for n, outcome in enumerate(outcomes)],
        opens=opens,
        width=80,
        colour=False,
        on_inconclusive=OnInconclusive.FAIL if strict else OnInconclusive.WARN,
        on_new=OnNew.ALLOW if new else OnNew.FAIL,
        why=why,
    )
    assert max(map(len, told.splitlines())) <= 80
    return " ".join(told[told.rindex("GATE ") :].split())


def test_open_gate_says_what_was_let_through() -> None:
    passed, unsure, new = Outcome.PASSED, Outcome.INCONCLUSIVE, Outcome.NO_BASELINE
    assert (
        last_line(passed, Outcome.IMPROVED, passed, opens=True) == "GATE OPEN: 1 IMPROVED, 2 PASSED"
    )
    assert last_line(passed, unsure, opens=True) == (
        "GATE OPEN: 1 PASSED; 1 INCONCLUSIVE (not shown to be within budget) let through by the settings"
    )
    assert last_line(unsure, opens=True) == (
        "GATE OPEN: 1 INCONCLUSIVE (not shown to be within budget) let through by the settings"
    )
    assert last_line(new, unsure, opens=True, new=True) == (
        "GATE OPEN: 1 NO_BASELINE (compared with nothing), 1 INCONCLUSIVE (not shown to be within budget) let through "
        "by the settings"
    )
    assert last_line(opens=True) == "GATE OPEN: nothing was measured"


def test_shut_gate_without_a_bad_verdict_says_why() -> None:
    assert last_line(opens=False) == "GATE SHUT: no workload was measured"
    assert last_line(Outcome.PASSED, opens=False) == (
        "GATE SHUT: not every workload that was expected has a verdict"
    )
    assert (
        last_line(Outcome.PASSED, opens=False, why="interrupted by Ctrl-C")
        == "GATE SHUT: interrupted by Ctrl-C"
    )
