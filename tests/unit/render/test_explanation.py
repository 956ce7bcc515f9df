"""`perfgate explain` as text: every part, whole names on demand, nothing that hostile names could
do."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from perfgate.explain.sides import differences, made_up_of
from perfgate.model.findings import PlacedFinding, RuleChange, RuleChanges, RuleName
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note, quoted
from perfgate.model.sample import (
    NO_NCCL,
    Breakdown,
    KernelSample,
    RangeSample,
    SyncSample,
)
from perfgate.model.side import Side
from perfgate.render.explanation import MOST_PARTS, explanation_text

HOSTILE = "\x1b[2J[bold]\u202eevil<script>" + "x" * 9000


def side(label: str, values: Mapping[Metric, float], breakdown: Breakdown) -> Side:
    return Side(
        label=label,
        values={metric: (value,) for metric, value in values.items()},
        breakdown=breakdown,
    )


def text(a: Side, b: Side, *, width: int = 100, full: bool = False) -> str:
    rows = differences(a, b)
    return explanation_text(
        a, b, rows, made_up_of(a, b, rows, full=full), width=width, colour=False, full=full
    )


def ranges(**gaps: float) -> tuple[RangeSample, ...]:
    return tuple(
        RangeSample(name=name, count=1, cpu_ms=1.0, values={Metric.GAP_MS: gap})
        for name, gap in gaps.items()
    )


BEFORE = side(
    "before.sqlite",
    {Metric.STEP_MS: 10.0, Metric.GAP_MS: 1.5, Metric.SYNCS: 0},
    Breakdown(ranges=ranges(data_load=1.0, forward=0.5)),
)
AFTER = side(
    "after.sqlite",
    {Metric.STEP_MS: 14.2, Metric.GAP_MS: 5.6, Metric.SYNCS: 1},
    Breakdown(
        ranges=ranges(data_load=4.9, forward=0.7),
        syncs=(SyncSample(call="cudaStreamSynchronize", range="loss_log", count=1, cpu_ms=2.0),),
    ),
)


def test_what_moved_is_told_with_all_its_parts() -> None:
    assert (
        text(BEFORE, AFTER)
        == """\
a: before.sqlite
b: after.sqlite

  metric            a       b  change
  -----------  ------  ------  --------
  step_ms       10.00   14.20  +42.0 %
  gap_ms        1.500   5.600  +41.0 pp
    gap_share  15.0 %  39.4 %
  syncs             0       1  +1
  pp: percentage points of the step of a

syncs +1

  by synchronising call                 b  b - a
  ------------------------------------  -  -----  ---
  cudaStreamSynchronize under loss_log  1     +1  new

gap_ms +4.100 ms

  by NVTX range       a       b    b - a
  -------------  ------  ------  -------
  data_load       1.000   4.900   +3.900
  forward        0.5000  0.7000  +0.2000

step_ms +4.200 ms

  by NVTX range                a       b    b - a
  ----------------------  ------  ------  -------
  gap_ms under data_load   1.000   4.900   +3.900
  gap_ms under forward    0.5000  0.7000  +0.2000
  (not accounted for)                     +0.1000
"""
    )


def test_many_parts_are_told_as_one_unless_asked_for() -> None:
    many = {f"r{n}": 0.1 * n for n in range(1, MOST_PARTS + 6)}
    whole = sum(many.values())
    b = side("b", {Metric.STEP_MS: 10.0, Metric.GAP_MS: whole}, Breakdown(ranges=ranges(**many)))
    a = side("a", {Metric.STEP_MS: 10.0, Metric.GAP_MS: 0.1}, Breakdown(ranges=ranges(start=0.1)))
    assert "(6 smaller parts)" in text(a, b)
    assert "smaller parts" not in text(a, b, full=True)
    assert all(name in text(a, b, full=True) for name in many)


@pytest.mark.parametrize("width", [80, 200])
def test_hostile_names_are_inert_and_tables_fit(width: int) -> None:
    kernel = KernelSample(name=HOSTILE, count=1, gpu_ms=1.0)
    a = side(
        "a",
        {Metric.KERNEL_MS: 1.0},
        Breakdown(kernels=(KernelSample(name="k", count=1, gpu_ms=1.0),)),
    )
    b = side(HOSTILE, {Metric.KERNEL_MS: 2.0}, Breakdown(kernels=(kernel, *a.breakdown.kernels)))
    told = text(a, b, width=width)
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert max(len(line) for line in told.splitlines()[2:]) <= width


def test_what_a_side_lacks_is_told_beneath_it_and_no_metric_of_it_is_gone() -> None:
    a = AFTER.model_copy(
        update={
            "missing": {"calls": "they were not recorded", "ranges": "they were not recorded"},
            "absent": {Metric.NCCL_MS: NO_NCCL, Metric.SYNCS: quoted("they were not recorded")},
            "complaints": (quoted("of 20 kernel launches the capture lacks 2 kernels"),),
            "values": {Metric.STEP_MS: (14.2,), Metric.GAP_MS: (5.6,)},
        }
    )
    rows = differences(a, AFTER)
    told = explanation_text(
        a, AFTER, rows, (), width=80, colour=False, warnings=(quoted("they were traced unlike"),)
    )
    assert told == (
        """\
a: after.sqlite
  missing     calls, ranges: they were not recorded
  unmeasured  nccl_ms: no NCCL kernels
  unmeasured  syncs: they were not recorded
  INVALID     of 20 kernel launches the capture lacks 2 kernels. A gate does not
              count such a run.
b: after.sqlite
  not alike   they were traced unlike

  metric            a       b  change
  -----------  ------  ------  -----------------
  step_ms       14.20   14.20  0 %
  gap_ms        5.600   5.600  0 pp
    gap_share  39.4 %  39.4 %
  syncs                     1  not measured in a
  pp: percentage points of the step of a

  Nothing differs of which the captures tell where it lies.
"""
    )


def found_by_rules(**why: Note) -> str:
    """What is told of a finding of nsys's rules."""
    found = PlacedFinding(rule=RuleName.GPU_GAPS, range="load", count=1, ms=2.0, steps=20)
    changes = RuleChanges(rows=(RuleChange(rule=found.rule, range=found.range, now=found),), **why)
    return explanation_text(BEFORE, BEFORE, (), (), width=80, colour=False, rules=changes)


def test_why_findings_are_told_alone_is_said() -> None:
    told = found_by_rules(why_alone=note("rules-alone"))
    assert "  gpu_gaps     load   1  2.000\n" in told
    assert "  findings per step, and their time; a has no capture at hand\n" in told
    assert "  findings per step, and their time\n" in found_by_rules()
