"""Builders of records for tests: whole and valid by default, any field replaced by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from perfgate.model.baseline import Anchor, Baseline, BlessedRun, Blessing, Commit, Occasion, Result
from perfgate.model.document import DocumentWorkload, GateDocument
from perfgate.model.machine import Conditions, Gpu, GpuCondition, Machine
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.note import Note, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import (
    Breakdown,
    DeviceSample,
    KernelSample,
    ProcessSample,
    RangeSample,
    Run,
)
from perfgate.model.settings import Settings
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.model.workload import Workload

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
COMMIT = Commit(sha="0123456789abcdef0123456789abcdef01234567", branch="main")
CODE = {"workloads/mlp.py": "a" * 64, "model.py": "b" * 64}

VALUES: Mapping[Metric, float] = {
    Metric.STEP_MS: 12.34,
    Metric.KERNEL_MS: 9.1,
    Metric.GAP_MS: 1.851,
    Metric.H2D_MS: 1.389,
    Metric.H2D_EXPOSED_MS: 0.0421,
    Metric.LAUNCHES: 46,
    Metric.GRAPH_LAUNCHES: 0,
    Metric.H2D_COPIES: 2,
    Metric.H2D_BYTES: 38_535_168,
    Metric.D2H_COPIES: 1,
    Metric.PAGEABLE_COPIES: 0,
    Metric.SYNCS: 1,
}
"""One run of a small loop on one GPU; it uses no NCCL."""


def machine(*gpus: str, nsys: str | None = "2024.2.3", driver: str | None = "550.54.15") -> Machine:
    """Build a machine with GPUs of these names, one H200 by default."""
    names = gpus or ("NVIDIA H200",)
    return Machine(
        gpus=tuple(Gpu(name=name, uuid=f"GPU-{n}") for n, name in enumerate(names)),
        driver=driver,
        cuda="12.4",
        torch="2.6.0",
        nsys=nsys,
        nsys_options=("--trace=cuda,nvtx", "--cuda-graph-trace=graph"),
        nvtx="0.2.11",
        python="3.11.7",
        cpu="AMD EPYC 9654",
        cpu_count=16,
    )


def workload(
    name: str = "mlp",
    *,
    steps: int = 30,
    nodeid: str | None = "workloads/mlp.py::mlp",
    budgets: Mapping[Metric, float] | None = None,
) -> Workload:
    """Build a decorated workload; with `nodeid=None` a command of the same name."""
    command = None if nodeid is not None else ("python", "train.py")
    return Workload(
        id=name,
        source="workloads/mlp.py",
        nodeid=nodeid,
        command=command,
        steps=steps,
        warmup=10,
        budgets=budgets or {},
    )


RANGES = (
    RangeSample(
        name="forward", count=1, cpu_ms=1.204, values={Metric.KERNEL_MS: 3.02, Metric.LAUNCHES: 15}
    ),
    RangeSample(
        name="backward",
        count=1,
        cpu_ms=2.11,
        values={Metric.KERNEL_MS: 6.08, Metric.GAP_MS: 0.31, Metric.LAUNCHES: 31},
    ),
    RangeSample(
        name="data_load",
        count=1,
        cpu_ms=0.61,
        values={Metric.GAP_MS: 1.541, Metric.H2D_MS: 1.389, Metric.SYNCS: 1},
    ),
)
KERNELS = (
    KernelSample(
        name="sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1",
        count=12,
        gpu_ms=7.4,
    ),
    KernelSample(
        name="void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
        count=34,
        gpu_ms=1.7,
    ),
    KernelSample(name="[CUDA memcpy Host-to-Device]", count=2, gpu_ms=1.389),
)


def process(
    values: Mapping[Metric, float] | None = None,
    *,
    pid: int = 4242,
    rank: int | None = None,
    steps: int = 30,
    absent: Mapping[Metric, Any] | None = None,
    ranges: Sequence[RangeSample] = RANGES,
    kernels: Sequence[KernelSample] = KERNELS,
    devices: Sequence[DeviceSample] = (),
    information: Sequence[str | Note] = (),
) -> ProcessSample:
    """Build one process's sample; `values` replaces `VALUES` whole."""
    held = VALUES if values is None else values
    return ProcessSample(
        pid=pid,
        rank=rank,
        steps=steps,
        values=held,
        absent=absent or {},
        window_ms=held.get(Metric.STEP_MS, 12.34) * max(steps, 1),
        nvtx_step_ms=1.02,
        memory_share_h2d=0.931,
        ranges=tuple(ranges),
        kernels=tuple(kernels),
        devices=tuple(devices),
        notes=tuple(map(quoted, information)),
    )


def run(
    values: Mapping[Metric, float] | None = None,
    *,
    at: datetime = NOON,
    throttled: Sequence[str] = (),
    neighbours: Sequence[str] = (),
    absent: Mapping[Metric, Any] | None = None,
    processes: Sequence[ProcessSample] | None = None,
) -> Run:
    """Build one run of one process; `values` are laid over `VALUES`, metrics of `absent` are taken
    out."""
    held = {m: v for m, v in {**VALUES, **(values or {})}.items() if m not in (absent or {})}
    gpu = GpuCondition(
        uuid="GPU-0",
        samples=20,
        sm_clock_mhz=1980,
        throttled=tuple(throttled),
        neighbours=tuple(neighbours),
    )
    return Run(
        started_at=at,
        wall_s=7.5,
        processes=tuple(processes) if processes is not None else (process(held, absent=absent),),
        conditions=Conditions(gpus=(gpu,)),
    )


def runs(*step_ms: float, at: datetime = NOON) -> tuple[Run, ...]:
    """Build one run for each step time, ten seconds apart; five around 12.34 ms by default."""
    times = step_ms or (12.34, 12.31, 12.36, 12.33, 12.35)
    return tuple(
        run({Metric.STEP_MS: ms}, at=at + timedelta(seconds=10 * n)) for n, ms in enumerate(times)
    )


def baseline(
    *occasions: Sequence[Mapping[Metric, float]],
    name: str = "mlp",
    on: Machine | None = None,
    of: Workload | None = None,
    at: datetime = NOON,
    reason: str = "first baseline",
    anchor: Anchor | None = None,
) -> Baseline:
    """Build a baseline of these occasions, each a list of values laid over `VALUES`; one of five
    runs by default."""
    measured = occasions or ([{Metric.STEP_MS: ms} for ms in (12.34, 12.31, 12.36, 12.33, 12.35)],)
    what = of or workload(name)
    return Baseline(
        workload=what.id,
        digest=what.digest(),
        parameters=what.comparable_parameters(),
        machine=on or machine(),
        occasions=tuple(
            Occasion(
                measured_at=at + timedelta(hours=n),
                commit=COMMIT,
                runs=tuple(
                    BlessedRun(values={**VALUES, **values}, sm_clock_mhz=1980)
                    for values in of_occasion
                ),
            )
            for n, of_occasion in enumerate(measured)
        ),
        blessing=Blessing(
            by="Ada <ada@example.org>", at=at + timedelta(minutes=5), reason=reason, commit=COMMIT
        ),
        anchor=anchor,
        breakdown=Breakdown(ranges=RANGES),
    )


def in_one_occasion(made: Baseline, **fields: object) -> Baseline:
    """Build the baseline anew with its first occasion alone, and that with these fields."""
    return made.model_copy(update={"occasions": (made.occasions[0].model_copy(update=fields),)})


def clock(
    metric: Metric,
    outcome: Outcome | None,
    *,
    was: float | None,
    now: float | None,
    change: float | None = None,
    around: float | None = None,
    p_value: float | None = None,
    smallest: float | None = None,
) -> MetricVerdict:
    """Build a clock's row with the default budget; its interval reaches `around` to both sides of
    the change."""
    spec = METRICS[metric].time
    known = change is not None and around is not None
    return MetricVerdict(
        metric=metric,
        outcome=outcome,
        baseline=was,
        now=now,
        basis=spec.basis if spec else Basis.LOG,
        change=change,
        low=(change or 0.0) - (around or 0.0) if known else None,
        high=(change or 0.0) + (around or 0.0) if known else None,
        budget=spec.budget if spec else None,
        p_value=p_value,
        smallest=smallest,
    )


def count(
    metric: Metric,
    outcome: Outcome | None = Outcome.PASSED,
    *,
    was: float | None,
    now: float | None,
) -> MetricVerdict:
    """Build a count's row."""
    change = None if was is None or now is None or not was else (now - was) / was
    return MetricVerdict(
        metric=metric, outcome=outcome, baseline=was, now=now, change=change, exact=True
    )


def unchanged_counts() -> tuple[MetricVerdict, ...]:
    """Build the rows of all counts of `VALUES`, each as in the baseline."""
    return tuple(
        count(metric, was=value, now=value)
        for metric, value in VALUES.items()
        if METRICS[metric].kind is Kind.COUNT
    )


def verdict(
    outcome: Outcome = Outcome.PASSED,
    *,
    name: str = "mlp",
    reason: str = "within budget",
    next_step: str = "",
    metrics: Sequence[MetricVerdict] | None = None,
    measured: int = 3,
    blessed: int = 5,
    where: Mapping[Metric, str] | None = None,
    information: Sequence[str] = (),
) -> Verdict:
    """Build a verdict of three runs against five; its rows are the unchanged counts by default."""
    return Verdict(
        workload=name,
        outcome=outcome,
        why=quoted(reason),
        next=quoted(next_step) if next_step else None,
        metrics=unchanged_counts() if metrics is None else tuple(metrics),
        runs=measured,
        baseline_runs=blessed,
        where_notes={metric: quoted(text) for metric, text in (where or {}).items()},
        notes=tuple(map(quoted, information)),
    )


SLOWER = (
    clock(
        Metric.STEP_MS,
        Outcome.REGRESSED,
        was=12.34,
        now=14.2,
        change=0.151,
        around=0.004,
        p_value=0.00001,
    ),
    clock(
        Metric.KERNEL_MS, Outcome.PASSED, was=9.1, now=9.1, change=0.0, around=0.001, p_value=0.5
    ),
)
"""Rows of a step that got slower, by more than its kernels did."""


def document(
    *judged: Verdict | DocumentWorkload, opens: bool | None = None, **more: object
) -> GateDocument:
    """Build the document of a gate of three minutes; it is open where each workload opens it, or as
    it is said."""
    workloads = tuple(
        one
        if isinstance(one, DocumentWorkload)
        else DocumentWorkload(
            verdict=one, opens_gate=one.outcome is Outcome.PASSED if opens is None else opens
        )
        for one in judged
    )
    state = all(one.opens_gate for one in workloads) if opens is None else opens
    made = GateDocument(
        perfgate="0.1.0",
        started_at=NOON,
        ended_at=NOON + timedelta(minutes=3),
        opens_gate=state,
        exit_status=int(not state),
        settings=Settings(),
        workloads=workloads,
    )
    return made.model_copy(update=more)


def result(
    outcome: Outcome = Outcome.PASSED,
    *,
    of: Workload | None = None,
    on: Machine | None = None,
    at: datetime = NOON,
    measured: Sequence[Run] | None = None,
    code: Mapping[str, str] | None = None,
    judged: Verdict | None = None,
) -> Result:
    """Build a kept result of five runs around 12.34 ms."""
    what = of or workload()
    taken = runs(at=at) if measured is None else tuple(measured)
    return Result(
        workload=what,
        machine=on or machine(),
        commit=COMMIT,
        measured_at=at,
        code=CODE if code is None else code,
        runs=taken,
        verdict=judged or verdict(outcome, name=what.id, measured=len(taken)),
    )
