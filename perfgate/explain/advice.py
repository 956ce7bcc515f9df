"""What a loop is bound by and what usually helps: only what its figures show, and nothing where they show nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from perfgate.model.advice import Advice, Bound, Classified, Topic
from perfgate.model.metric import Metric
from perfgate.model.sample import OTHER_RANGES, OTHER_SYNCS, OUTSIDE_RANGES, Breakdown, RangeSample

WORTH: Final = 0.02
"""Share of the step from which a cause is worth an advice: step_ms's default budget."""
BOUND: Final = 0.2
"""Share of the step from which it is bound by what is not compute; below, its GPU computes for four fifths of it."""
MOSTLY: Final = 0.5
"""Share of the idle time from which the ranges that it lies under are its cause."""
NOTHING_HIDES: Final = 0.95
"""Share of the copies' time without a kernel beside it from which nothing hides them."""
FEW_LAUNCHES: Final = 0.01
"""Share of all launches up to which a range launches next to nothing."""

Values = Mapping[Metric, float]


def classify(values: Values, breakdown: Breakdown) -> Classified | None:
    """Say what a step's time mostly goes to; None where the figures do not say.

    A step is idle GPU (`gap_ms`), copies to the GPU that nothing hides, NCCL's kernels that nothing hides, and the
    rest, which is compute. The largest of the first three names it from `BOUND` on; idle time only if it lies mostly
    under ranges that launch next to nothing (input), or under those that launch (launch). What is summed up over
    several GPUs and longer than a step is no share of it, and nothing is said.
    """
    step, gap = values.get(Metric.STEP_MS, 0.0), values.get(Metric.GAP_MS)
    copied, nccl = values.get(Metric.H2D_EXPOSED_MS, 0.0), values.get(Metric.NCCL_EXPOSED_MS, 0.0)
    if step <= 0 or gap is None or Metric.KERNEL_MS not in values or max(gap, copied, nccl) > step:
        return None
    computed = max(step - gap - copied - nccl, 0.0)
    largest = max(gap, copied, nccl)
    if largest < BOUND * step:
        told = f"the GPU computes for {_percent(computed, step)} of the step and idles for {_percent(gap, step)}"
        return Classified(bound=Bound.COMPUTE, share=computed / step, evidence=told) if computed > 0 else None
    if largest == nccl:
        told = f"NCCL's kernels run for {_ms(nccl)} of a step of {_ms(step)} while nothing else does"
        return Classified(bound=Bound.COMMUNICATION, share=nccl / step, evidence=told)
    if largest == copied:
        told = f"copies to the GPU take {_ms(copied)} of a step of {_ms(step)} while no kernel runs"
        return Classified(bound=Bound.COPY, share=copied / step, evidence=told)
    return _idle(values, breakdown, step, gap)


def _idle(values: Values, breakdown: Breakdown, step: float, gap: float) -> Classified | None:
    loading = _loading(values, breakdown)
    under_loading = sum(_gap(row) for row in loading)
    idles = f"the GPU idles for {_percent(gap, step)} of the step"
    if under_loading >= MOSTLY * gap:
        named = max(loading, key=_gap).name
        told = f"{idles}, {_percent(under_loading, gap)} of that under {named}, which launches next to nothing"
        return Classified(bound=Bound.INPUT, share=gap / step, evidence=told)
    launches, kernels = values.get(Metric.LAUNCHES, 0.0), values[Metric.KERNEL_MS]
    working = [row for row in breakdown.ranges if row not in loading and row.name not in (OUTSIDE_RANGES, OTHER_RANGES)]
    if not launches or sum(_gap(row) for row in working) < MOSTLY * gap:
        return None
    told = (
        f"{idles} while the CPU launches: {launches:.4g} kernels of {1000 * kernels / launches:.3g} us each, one every "
        f"{1000 * step / launches:.3g} us"
    )
    return Classified(bound=Bound.LAUNCH, share=gap / step, evidence=told)


def advise(values: Values, breakdown: Breakdown) -> tuple[Advice, ...]:
    """What usually helps against what a step is seen to lose time with, the evidence beside it."""
    step = values.get(Metric.STEP_MS, 0.0)
    if step <= 0:
        return ()
    return (*_on_copies(values, breakdown, step), *_on_syncs(breakdown, step), *_on_idle_time(values, breakdown))


def new_advice(before: Sequence[Advice], now: Sequence[Advice]) -> tuple[Advice, ...]:
    """Those that had no reason before: of another topic, or about another range."""
    known = {(one.topic, one.range) for one in before}
    return tuple(one for one in now if (one.topic, one.range) not in known)


def _on_copies(values: Values, breakdown: Breakdown, step: float) -> Iterator[Advice]:
    inbound = [row for row in breakdown.copies if row.direction == "Host-to-Device"]
    pageable = [row for row in inbound if row.host == "pageable"]
    spent = sum(row.gpu_ms for row in pageable)
    under = _most_of(breakdown, Metric.H2D_MS)
    if spent >= WORTH * step:
        count, moved = sum(row.count for row in pageable), sum(row.bytes for row in pageable)
        yield Advice(
            topic=Topic.PAGEABLE,
            range=under,
            evidence=f"{_counted(count, 'copy', 'copies')} a step ({moved / 1e6:.4g} MB) from pageable memory"
            f"{_under(under)}: {_ms(spent)}, {_percent(spent, step)} of the step",
            usually="Batches in pinned memory (DataLoader(pin_memory=True)) and .to(device, non_blocking=True) are "
            "copied faster, and the CPU does not wait for them.",
        )
        return
    h2d, exposed = values.get(Metric.H2D_MS, 0.0), values.get(Metric.H2D_EXPOSED_MS, 0.0)
    if exposed >= WORTH * step and exposed >= NOTHING_HIDES * h2d > 0:
        yield Advice(
            topic=Topic.UNHIDDEN_COPIES,
            range=under,
            evidence=f"copies to the GPU{_under(under)} take {_ms(h2d)} a step; no kernel runs for "
            f"{_ms(exposed)} of it",
            usually="In a stream of its own, the next batch is copied while this one is computed.",
        )


def _on_syncs(breakdown: Breakdown, step: float) -> Iterator[Advice]:
    for row in breakdown.syncs:
        if row.call == OTHER_SYNCS or row.cpu_ms < WORTH * step:
            continue
        under = "" if row.range in (OUTSIDE_RANGES, OTHER_RANGES) else row.range
        yield Advice(
            topic=Topic.SYNCHRONISATION,
            range=under,
            evidence=f"the CPU waits {_ms(row.cpu_ms)} a step in {row.call}{_under(under)}, "
            f"{_counted(row.count, 'call', 'calls')}",
            usually="What is only logged can stay on the GPU and be fetched every so many steps: .item(), .cpu(), "
            "print() and a condition on a tensor each wait for all that was launched.",
        )


def _on_idle_time(values: Values, breakdown: Breakdown) -> Iterator[Advice]:
    found = classify(values, breakdown)
    if found is None:
        return
    match found.bound:
        case Bound.INPUT:
            loading = max(_loading(values, breakdown), key=_gap)
            # Only where the GPU waits for as long as the loading takes is it the loading that it waits for.
            if _gap(loading) >= MOSTLY * loading.cpu_ms:
                yield Advice(
                    topic=Topic.LOADER,
                    range=loading.name,
                    evidence=f"{loading.name} takes {_ms(loading.cpu_ms)} a step on the CPU, and the GPU idles for "
                    f"{_ms(_gap(loading))} of it",
                    usually="Worker processes (DataLoader(num_workers=...)) make the next batches meanwhile; more of "
                    "them, or less work for each batch, where there are some already.",
                )
        case Bound.LAUNCH:
            yield Advice(
                topic=Topic.LAUNCHES,
                evidence=found.evidence,
                usually="CUDA graphs or torch.compile(mode='reduce-overhead') launch a step's kernels at once; fused "
                "optimizers and larger batches launch fewer.",
            )
        case Bound.COMPUTE | Bound.COPY | Bound.COMMUNICATION:
            return


def _loading(values: Values, breakdown: Breakdown) -> list[RangeSample]:
    """The ranges that launch next to nothing."""
    launches = values.get(Metric.LAUNCHES, 0.0) + values.get(Metric.GRAPH_LAUNCHES, 0.0)

    def launched(row: RangeSample) -> float:
        return row.values.get(Metric.LAUNCHES, 0.0) + row.values.get(Metric.GRAPH_LAUNCHES, 0.0)

    named = [row for row in breakdown.ranges if row.name not in (OUTSIDE_RANGES, OTHER_RANGES)]
    return [row for row in named if launched(row) <= FEW_LAUNCHES * launches]


def _gap(row: RangeSample) -> float:
    return row.values.get(Metric.GAP_MS, 0.0)


def _most_of(breakdown: Breakdown, metric: Metric) -> str:
    """The range that holds most of a metric; empty where none holds half of it."""
    parts = {row.name: row.values.get(metric, 0.0) for row in breakdown.ranges}
    name = max(parts, key=lambda one: parts[one], default="")
    whole = sum(parts.values())
    told = name not in ("", OUTSIDE_RANGES, OTHER_RANGES) and whole > 0 and parts[name] >= MOSTLY * whole
    return name if told else ""


def _counted(number: float, one: str, many: str) -> str:
    return f"{number:.4g} {one if number == 1 else many}"


def _under(name: str) -> str:
    return f" under {name}" if name else ""


def _ms(value: float) -> str:
    return f"{value:.4g} ms"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3g} %"
