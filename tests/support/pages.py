"""Builders of pages for tests: a gate with every outcome, and one as large as a page is meant to
bear."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from functools import cache

from support import records

from perfgate.model.comparison import Side
from perfgate.model.diagnosis import Advice, Attribution, Axis, Bound, Classified, Part, Topic
from perfgate.model.document import DocumentRun
from perfgate.model.history import Point
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import note, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import Bar, Lane, PageData, PageWorkload, SideDifference, StepView
from perfgate.model.sample import Breakdown, CopySample, SyncSample
from perfgate.model.settings import Settings
from perfgate.model.verdict import ABRun, Blessed, Drift, Dropped, MetricVerdict, Stage, Verdict

KERNELS = (
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>",
    (
        "void at::native::(anonymous "
        "namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>>"
    ),
)
"""Names of the length that real ones have."""
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"


def side(label: str, step_ms: Sequence[float]) -> Side:
    """Build a side of so many runs; clocks keep their part of the step."""
    whole = records.VALUES[Metric.STEP_MS]
    values = {
        metric: tuple(
            value * ms / whole if METRICS[metric].unit == "ms" else value for ms in step_ms
        )
        for metric, value in records.VALUES.items()
    }
    held = Breakdown(
        ranges=records.RANGES,
        kernels=records.KERNELS,
        copies=(
            CopySample(
                direction="Host-to-Device", host="pageable", count=2, bytes=38_535_168, gpu_ms=1.389
            ),
        ),
        syncs=(SyncSample(call="cudaStreamSynchronize", range="data_load", count=1, cpu_ms=0.4),),
    )
    return Side(label=quoted(label), values=values, machine=records.machine(), breakdown=held)


@cache
def step(label: str, *, bars: int = 40, seed: int = 1, length_us: float = 12_000.0) -> StepView:
    """Build one step of about so many bars on six lanes; what is busy and idle fills the whole
    length."""
    dice = random.Random(seed)
    each = max((bars - 4) // 4, 1)

    def lane(title: str, kind: str, names: Sequence[str], fill: float) -> Lane:
        pitch = length_us / each
        made = [
            Bar(
                start_us=round(n * pitch + dice.random() * pitch * 0.2, 3),
                length_us=round(pitch * fill * (0.5 + 0.5 * dice.random()), 3),
                name=names[n % len(names)],
                count=3 if n % 9 == 5 else 1,
                busy_us=pitch * fill * 0.4 if n % 9 == 5 else None,
            )
            for n in range(each)
        ]
        return Lane.model_validate({"title": title, "kind": kind, "bars": made})

    parts = ("data_load", "forward", "backward")
    ranges = tuple(
        Bar(start_us=n * length_us / 3, length_us=length_us / 3.05, name=p)
        for n, p in enumerate(parts)
    )
    lanes = (
        Lane(title="CPU", kind="range", bars=(Bar(start_us=0, length_us=length_us, name="step"),)),
        Lane(title="CPU 2", kind="range", bars=ranges),
        lane("GPU 0 stream 7", "kernel", KERNELS, 0.7),
        lane("GPU 0 stream 7 copies", "copy", ("[CUDA memcpy Host-to-Device]",), 0.3),
        lane("GPU 0 stream 13 NCCL", "nccl", (NCCL,), 0.5),
        lane("GPU 0 idle", "idle", ("idle",), 0.1),
    )
    drawn = sum(len(one.bars) for one in lanes)
    counted = sum(bar.count for one in lanes for bar in one.bars)
    source = "workloads/mlp/run-2/capture.nsys-rep"
    return StepView(
        label=quoted(label),
        length_us=length_us,
        lanes=lanes,
        operations=counted,
        drawn=drawn,
        source=source,
    )


def rows(outcome: Outcome) -> tuple[MetricVerdict, ...]:
    """Build rows of three clocks and all counts, the step being of this outcome."""
    grown = (
        0.034 if outcome is Outcome.REGRESSED else -0.03 if outcome is Outcome.IMPROVED else 0.002
    )
    return (
        records.clock(
            Metric.STEP_MS,
            outcome,
            was=12.34,
            now=12.34 * (1 + grown),
            change=grown,
            around=0.011,
            p_value=0.0001,
            smallest=0.012,
        ),
        records.clock(
            Metric.KERNEL_MS,
            Outcome.PASSED,
            was=9.1,
            now=9.11,
            change=0.001,
            around=0.002,
            p_value=0.4,
        ),
        records.clock(
            Metric.GAP_MS, outcome, was=1.851, now=1.851 + 12.34 * grown, change=grown, around=0.004
        ),
        records.clock(
            Metric.H2D_MS, Outcome.PASSED, was=1.389, now=1.39, change=0.0001, around=0.003
        ),
        *records.unchanged_counts(),
    )


def attributions(parts: int = 6) -> tuple[Attribution, ...]:
    """Build what two metrics are made of; with `rest` the parts add up."""
    found: list[Attribution] = []
    for metric, axis in (
        (Metric.STEP_MS, Axis.RANGE),
        (Metric.KERNEL_MS, Axis.RANGE),
        (Metric.KERNEL_MS, Axis.KERNEL),
        (Metric.H2D_MS, Axis.COPY),
        (Metric.SYNCS, Axis.CALL),
    ):
        own = Metric.GAP_MS if metric is Metric.STEP_MS else metric
        made = tuple(
            Part(
                name=f"{KERNELS[n % 4]} {n}" if axis is Axis.KERNEL else f"{axis} {n}",
                before=None if n == 1 else 1.0 + n,
                now=1.0 + n + (-1) ** n * 0.3 / (n + 1),
                change=(-1) ** n * 0.3 / (n + 1),
                metric=own,
                notes=(note("part-new"),) if n == 1 else (),
            )
            for n in range(parts)
        )
        found.append(
            Attribution(
                metric=metric,
                axis=axis,
                change=0.42,
                parts=made,
                rest=0.42 - sum(p.change for p in made),
            )
        )
    return tuple(found)


def history(points: int = 6) -> tuple[Point, ...]:
    """Build a series of blessings, one of which does not follow from the one before."""
    return tuple(
        Point(
            at=records.NOON + timedelta(days=7 * n),
            value=12.0 + 0.1 * n,
            by="Ada <ada@example.org>",
            reason=f"the {n + 1}. blessing",
            commit=f"{n:040x}",
            joined=n not in (0, 3),
        )
        for n in range(points)
    )


def made_runs() -> tuple[DocumentRun, ...]:
    """Build what is known of three runs besides their values."""
    return tuple(
        DocumentRun(
            started_at=records.NOON + timedelta(seconds=10 * n),
            wall_s=7.5,
            sm_clock_mhz=1980,
            absent={Metric.NCCL_MS: "no NCCL kernels"},
        )
        for n in range(3)
    )


def whole(
    name: str = "transformer", outcome: Outcome = Outcome.REGRESSED, *, bars: int = 40
) -> PageWorkload:
    """Build a workload of which everything is known."""
    verdict = Verdict(
        workload=name,
        outcome=outcome,
        why=quoted("gap_ms rose 3.4 pp (95 % interval 3.0 to 3.8 pp), budget 1 pp."),
        next=quoted(f'If it is meant, bless it: perfgate bless {name} --reason "..."'),
        metrics=rows(outcome),
        runs=3,
        baseline_runs=5,
        stage=Stage.AB_RUN,
        ab_run=ABRun(revision="main", commit=records.COMMIT.sha, pairs=3, screen_runs=3),
        drift=Drift(
            change=0.031,
            low=0.02,
            high=0.042,
            budget=0.05,
            shown=False,
            now=12.4,
            path=(Blessed(step_ms=12.0, at=records.NOON),),
        ),
        dropped=(Dropped(side="candidate", index=2, metric=Metric.STEP_MS, distance=0.31),),
        where_notes={Metric.GAP_MS: quoted("+0.42 ms: of which +0.38 under data_load")},
        attributions=attributions(),
        classified=Classified(
            bound=Bound.INPUT,
            share=0.4,
            what=quoted("the GPU is idle 40 % of a step under data_load"),
        ),
        advice=(
            Advice(
                topic=Topic.PAGEABLE,
                what=quoted("2 pageable copies a step"),
            ),
        ),
        rank_notes=(quoted("rank 1 is the slowest, 3.1 % over the others"),),
        notes=(quoted("the CPU runs ahead of the GPU"),),
    )
    return PageWorkload(
        verdict=verdict,
        opens_gate=outcome in (Outcome.PASSED, Outcome.IMPROVED),
        baseline=side("blessed 2026-03-02", (12.34, 12.31, 12.36, 12.33, 12.35)),
        other=side("main", (12.32, 12.33, 12.37)),
        candidate=side("this gate", (12.75, 12.78, 16.1)),
        baseline_step=step("run 1, step 14 of 30", bars=bars),
        candidate_step=step("run 2, step 9 of 30", bars=bars, seed=2, length_us=12_400.0),
        runs=made_runs(),
        other_runs=made_runs(),
        environment=(SideDifference(name="torch", before="2.5.1", now="2.6.0"),),
        history=history(),
        commands=(
            f"pytest --perfgate workloads/{name}.py",
            "pytest --perfgate --perfgate-against main",
        ),
        baseline_file=f"baselines/nvidia-h200/{name}.json",
        files=f".perfgate/results/{name}",
    )


def named(text: str) -> PageWorkload:
    """Build a workload in which all that comes from elsewhere is this text."""
    plain, said = whole(), quoted(text)
    bars = (
        Bar(start_us=0, length_us=900, name=text),
        Bar(start_us=900, length_us=50, name=text, count=4, busy_us=40),
    )
    lanes = (Lane(title=text, kind="range", bars=bars), Lane(title=text, kind="idle", bars=bars))
    view = StepView(label=said, length_us=1000, lanes=lanes, operations=8, drawn=4, source=text)
    parts = [
        one.model_copy(
            update={
                "parts": tuple(
                    part.model_copy(update={"name": text, "notes": (said,)}) for part in one.parts
                )
            }
        )
        for one in plain.verdict.attributions
    ]
    verdict = plain.verdict.model_copy(
        update={
            "workload": text,
            "why": said,
            "next": said,
            "where_notes": {Metric.GAP_MS: said},
            "rank_notes": (said,),
            "notes": (said,),
            "ab_run": ABRun(revision=text, commit=text, pairs=3, screen_runs=0),
            "attributions": tuple(parts),
        }
    )
    assert plain.candidate is not None
    return plain.model_copy(
        update={
            "verdict": verdict,
            "candidate": plain.candidate.model_copy(update={"label": said}),
            "baseline_step": view,
            "candidate_step": view,
            "history": tuple(
                point.model_copy(update={"reason": text, "by": text}) for point in plain.history
            ),
            "commands": (),
            "baseline_file": text,
            "files": text,
        }
    )


def unmeasured(name: str = "hung") -> PageWorkload:
    """Build a workload without a number."""
    reason = "It did not end in 600 s. Its output ended:\nstep 3\n\tloss <nan> & more"
    verdict = records.verdict(
        Outcome.NOT_MEASURED, name=name, reason=reason, metrics=(), measured=0, blessed=0
    )
    return PageWorkload(verdict=verdict, opens_gate=False)


def page(*workloads: PageWorkload, shut_by: Sequence[str] = ()) -> PageData:
    """Build a shut gate of these workloads."""
    return PageData(
        perfgate="0.1.0",
        started_at=records.NOON,
        ended_at=records.NOON + timedelta(minutes=3),
        opens_gate=False,
        exit_status=1,
        shut_by=tuple(shut_by),
        machine=records.machine(),
        settings=Settings(runs=5),
        workloads=workloads,
    )


def every_outcome() -> PageData:
    """Build a gate with each outcome once, the best first."""
    written = [
        whole("resnet18_input[pinned]", Outcome.PASSED),
        whole("mlp", Outcome.IMPROVED),
        whole(),
    ]
    for outcome in (
        Outcome.INCONCLUSIVE,
        Outcome.NO_BASELINE,
        Outcome.INCOMPARABLE,
        Outcome.INVALID,
    ):
        verdict = records.verdict(
            outcome, name=f"{outcome.lower()}_one", reason=f"why it is {outcome}"
        )
        written.append(PageWorkload(verdict=verdict, opens_gate=outcome is Outcome.INCONCLUSIVE))
    return page(*written, unmeasured(), shut_by=("transformer: REGRESSED", "hung: NOT_MEASURED"))


def hundred(*, bars: int = 2000) -> PageData:
    """Build a gate of 100 workloads, ten of them REGRESSED, each with two steps of so many bars."""
    outcomes = [Outcome.REGRESSED if n % 10 == 3 else Outcome.PASSED for n in range(100)]
    return page(*(whole(f"loop[{n}]", outcome, bars=bars) for n, outcome in enumerate(outcomes)))
