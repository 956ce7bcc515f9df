"""What explain says: where a metric moved, what a loop is bound by and what usually helps."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_WHERE: Final[Rows] = {
    "where": "{change}: {axes:list;}",
    "with-unit": "{change:signed} {unit}",
    "without-unit": "{change:signed}",
    "where-ranges": "{parts:list,}",
    "where-ranges-partly": "of which {parts:list,}",
    "where-ranges-and-rest": "{parts:list,}, and {rest:signed} is not accounted for",
    "where-by": "by {axis}: {parts:list,}",
    "where-in-turn": (
        "no kernel, copy or idle time accounts for it: what ran side by side may run in turn"
    ),
    "part": "{of:raw}{change:signed} {name}",
    "part-noted": "{of:raw}{change:signed} {name} ({notes:list,})",
    "part-outside": "{of:raw}{change:signed} outside any range",
    "part-new": "new",
    "part-gone": "gone",
    "part-not-in-baseline": "not among the baseline's largest",
    "part-not-in-now": "not among the largest now",
    "launches-a-step": "{now:count} a step",
    "launches-changed": "{before:count} -> {now:count} a step",
    "each-changed": "each {change:+%}",
    "each-times-as-long": "each {times} times as long",
}

_UNLIKE: Final[Rows] = {
    "traced-unlike": (
        "the two were not traced alike: {sides:list}",
        "What one lacks is not compared",
        "Capture both again with --trace=cuda,nvtx --cuda-graph-trace=node.",
    ),
    "side-lacks": "{side} lacks {kinds:list}",
}

_RANKS: Final[Rows] = {
    "ranks": (
        "{processes} processes took the steps, and each value is the worst of theirs, of NCCL the "
        "least: {values:list,}"
    ),
    "ranks-apart": "{metric} {least:ms} ms ({low}) to {most:ms} ({high})",
    "ranks-together": "{metric} {least:ms} to {most:ms} ms",
    "rank-late": (
        "{rank} is late: the others wait {waited_ms:ms} ms a step for it in NCCL kernels that "
        "nothing hides"
    ),
    "rank-late-by": (
        "{rank} is late: the others wait {waited_ms:ms} ms a step for it in NCCL kernels that "
        "nothing hides; its {metric} is {more_ms:ms} ms a step more than theirs{where}"
    ),
    "late-on-host": ", and its host takes {ranges:list} longer",
    "late-under": ", of that {ranges:list}",
    "longer-under": "{ms:ms} ms under {range}",
}

_START: Final[Rows] = {
    "slow-start": (
        "The first measured steps take longer than all others, in {found} of {runs:run|runs}: up "
        "to "
        "{longest_ms:ms} ms, the others {usual_ms:ms} ms, until step {last}. If that is work which "
        "is done once, raise warmup by at least {warmup}"
    ),
}

_BOUND: Final[Rows] = {
    "of-the-step": ", {share:%} of the step",
    "in-range": " under {range}",
    "the-gpu": "the GPU",
    "the-gpu-of": "the GPU of {process}",
    "each-gpu": "each of the {gpus} GPUs, on average,",
    "bound-by-compute": (
        "{gpu} computes for {computes:short%} of the step and idles for {idles:short%}"
    ),
    "bound-by-nccl": (
        "{gpu} runs NCCL's kernels and nothing else for {ms:ms} ms of a step of {step_ms:ms} ms"
    ),
    "bound-by-copies": (
        "{gpu} waits for copies to it for {ms:ms} ms of a step of {step_ms:ms} ms, with no kernel "
        "running"
    ),
    "bound-by-other-copies": (
        "{gpu} runs memsets and copies not to it, and no kernel, for {ms:ms} ms of a step of "
        "{step_ms:ms} ms"
    ),
    "bound-by-input": (
        "{gpu} idles for {idles:short%} of the step, {under:short%} of that under {ranges:list}, "
        "with next to nothing launched there"
    ),
    "bound-by-launches": (
        "{gpu} idles for {idles:short%} of the step while the CPU launches: "
        "{kernels:count} kernels, a launch every {every_ms:ms} ms"
    ),
    "limited-by-compute": (
        "limited by compute: {compute:short%} of its peak, memory {memory:short%}"
    ),
    "limited-by-memory": "limited by memory: {memory:short%} of its peak, compute {compute:short%}",
    "limited-by-both": (
        "limited by compute and memory alike: {compute:short%} and {memory:short%} of their peaks"
    ),
    "limited-by-size": (
        "too small to fill the GPU: compute at {compute:short%}, memory at {memory:short%} of "
        "their "
        "peaks"
    ),
    "limited-by-latency": (
        "mostly limited by latency: compute at {compute:short%}, memory at {memory:short%} of "
        "their "
        "peaks"
    ),
}

_READ: Final = (
    "What is only logged can stay on the GPU and be fetched every so many steps: .item(), .cpu(), "
    "print() and a condition on a tensor each wait for all that was launched."
)
_WAITS: Final = "the CPU waits {ms:ms} ms a step in {call}{under}, {calls:count} of them"

_ADVICE: Final[Rows] = {
    "advice-pageable": (
        (
            "copies to the GPU from pageable memory{under}, {copies:count} a step ({bytes:size}): "
            "{ms:ms} ms{share}"
        ),
        "",
        (
            "Batches in pinned memory (DataLoader(pin_memory=True)) and .to(device, "
            "non_blocking=True) are copied faster, and the CPU does not wait for them."
        ),
    ),
    "advice-unhidden": (
        (
            "copies to the GPU{under} take {ms:ms} ms a step, and no kernel runs for "
            "{exposed_ms:ms} ms "
            "of it"
        ),
        "",
        "In a stream of its own, the next batch is copied while this one is computed.",
    ),
    "advice-wait-for-read": (_WAITS, "", _READ),
    "advice-wait-for-sent": (
        f"{_WAITS}, for copies to the GPU",
        "",
        (
            "A copy to the GPU is not waited for if it is made from pinned memory "
            "(DataLoader(pin_memory=True)) with .to(device, non_blocking=True); zeros, masks and "
            "indices can be made on the GPU at once (device=...)."
        ),
    ),
    "advice-wait-for-work": (
        _WAITS,
        "",
        (
            "Only what the CPU reads has to be waited for: a synchronize() that was left from "
            "taking a time can go."
        ),
    ),
    "advice-loader": (
        "{range} takes {cpu_ms:ms} ms a step on the CPU, and {gpu} idles for {idle_ms:ms} ms of it",
        "",
        (
            "The GPU waits for work of the CPU there: worker processes "
            "(DataLoader(num_workers=...)) can load the next batches meanwhile; what saves or logs "
            "can be done more rarely, or in another thread."
        ),
    ),
    "advice-graphs": (
        "{because}",
        "",
        (
            "CUDA graphs or torch.compile(mode='reduce-overhead') launch a step's kernels at "
            "once; fused optimizers and larger batches launch fewer."
        ),
    ),
    "advice-more-graphs": (
        "{because}",
        "",
        (
            "What is launched outside the CUDA graphs can be captured in one as well; several "
            "steps in a graph, fused optimizers and larger batches launch fewer."
        ),
    ),
}

TEXT: Final[Rows] = {
    **_WHERE,
    **_UNLIKE,
    **_RANKS,
    **_START,
    **_BOUND,
    **_ADVICE,
}
"""By code."""
