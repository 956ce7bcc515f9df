"""Verdicts as text: whole at 80 and 200 columns, text whatever the names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import pages, records
from support.gates import placed
from syrupy.assertion import SnapshotAssertion

from perfgate.model.metric import Metric
from perfgate.model.outcome import PASSING, Outcome
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.render.gate import state_of
from perfgate.render.page import Page
from perfgate.render.text import gate_text, verdict_table

FILES = ".perfgate/results/nvidia-h200/mlp/20260302T120000.000000Z-abcdef"


def regressed() -> Verdict:
    """Build the verdict of a loop with a copy of four bytes more and a `.item()` a step."""
    verdict = pages.whole("mlp[64-True]").verdict
    rose = (
        records.count(Metric.H2D_BYTES, Outcome.REGRESSED, was=38_535_168, now=38_535_172),
        records.count(Metric.SYNCS, Outcome.REGRESSED, was=1, now=2),
    )
    shown = records.clock(Metric.NCCL_MS, None, was=1.1, now=1.3, change=0.18)
    others = [row for row in verdict.metrics if row.metric not in (Metric.H2D_BYTES, Metric.SYNCS)]
    return verdict.model_copy(update={"metrics": (*others, *rose, shown)})


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
        reason="the workload exited with status 3. Its last lines:\n"
        "Traceback (most recent call last):\n"
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
        reason=(
            "10 runs could have shown no loss below 2.4 %, and its budget is 2 %. "
            "16 more runs would do."
        ),
        measured=10,
    )


SHOWN = [regressed(), first(), failed(), unclear()]


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("verdict", SHOWN, ids=lambda verdict: verdict.outcome)
def test_a_verdict_is_shown_whole(
    width: int, verdict: Verdict, snapshot: SnapshotAssertion
) -> None:
    text = verdict_table(Page(width=width, colour=False), verdict, files=FILES)
    assert max(len(line) for line in text.splitlines()) <= width
    assert text == snapshot


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
def test_hostile_names_stay_text(name: str) -> None:
    verdict = records.verdict(
        name=name,
        reason=name,
        next_step=name,
        information=[name],
        where={Metric.STEP_MS: name},
        metrics=[],
    )
    for text in (
        verdict_table(Page(width=80, colour=False), verdict, files=name),
        summary([verdict], opens=True),
    ):
        assert all(character.isprintable() or character == "\n" for character in text)


def test_colour_is_by_escapes() -> None:
    coloured = verdict_table(Page(width=80, colour=True), regressed(), files=FILES)
    assert "\x1b[1;31mREGRESSED\x1b[0m" in coloured


# The summary


def summary(verdicts: Sequence[Verdict], *, opens: bool, width: int = 80, ended: str = "") -> str:
    workloads = (placed(one, opens=opens or one.outcome in PASSING) for one in verdicts)
    state = state_of(records.document(*workloads, opens=opens), ended=ended)
    return gate_text(Page(width=width, colour=False), state)


@pytest.mark.parametrize("width", [80, 200])
def test_a_gate_is_shown_worst_first(width: int, snapshot: SnapshotAssertion) -> None:
    row = records.clock(
        Metric.STEP_MS, Outcome.PASSED, was=12.34, now=12.46, change=0.01, around=0.006
    )
    verdicts = [records.verdict(name="transformer", metrics=[row]), *SHOWN]
    text = summary(verdicts, opens=False, width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert text == snapshot


def last_line(*outcomes: Outcome, opens: bool, ended: str = "") -> str:
    verdicts = [records.verdict(outcome, name=f"w{n}") for n, outcome in enumerate(outcomes)]
    text = summary(verdicts, opens=opens, width=200, ended=ended)
    return text.splitlines()[-1]


def test_the_last_line_says_whether_the_gate_is_open_and_why(snapshot: SnapshotAssertion) -> None:
    passed, unsure, new = Outcome.PASSED, Outcome.INCONCLUSIVE, Outcome.NO_BASELINE
    assert [
        last_line(passed, Outcome.IMPROVED, passed, opens=True),
        last_line(passed, unsure, opens=True),
        last_line(new, unsure, opens=True),
        last_line(opens=True),
        last_line(opens=False),
        last_line(passed, opens=False),
        last_line(passed, opens=False, ended="interrupted by Ctrl-C"),
    ] == snapshot
