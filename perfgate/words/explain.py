"""What explain says: where a metric moved, what a loop is bound by and what usually helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words.text import Text

_WHERE: Final[Mapping[str, Text]] = {
    "where": Text("{change}: {axes:list;}"),
    "with-unit": Text("{change:signed} {unit}"),
    "without-unit": Text("{change:signed}"),
    "where-ranges": Text("{parts:list,}"),
    "where-ranges-partly": Text("of which {parts:list,}"),
    "where-ranges-and-rest": Text("{parts:list,}, and {rest:signed} is not accounted for"),
    "where-by": Text("by {axis}: {parts:list,}"),
    "where-in-turn": Text(
        "no kernel, copy or idle time accounts for it: what ran side by side may run in turn"
    ),
    "part": Text("{of:raw}{change:signed} {name}"),
    "part-noted": Text("{of:raw}{change:signed} {name} ({notes:list,})"),
    "part-outside": Text("{of:raw}{change:signed} outside any range"),
    "part-new": Text("new"),
    "part-gone": Text("gone"),
    "part-not-in-baseline": Text("not among the baseline's largest"),
    "part-not-in-now": Text("not among the largest now"),
    "launches-a-step": Text("{now:count} a step"),
    "launches-changed": Text("{before:count} -> {now:count} a step"),
    "each-changed": Text("each {change:+%}"),
    "each-times-as-long": Text("each {times} times as long"),
}

_UNLIKE: Final[Mapping[str, Text]] = {
    "whole-graphs-unlike": Text(
        "the CUDA graphs of {side} were traced whole, those of {other} were not, if it ran any",
        "Kernels and copies are not compared by name: what a whole graph copies is not counted, "
        "and "
        "it counts as one kernel from end to end",
        "Capture both again with --cuda-graph-trace=node.",
    ),
    "kernels-not-timed": Text(
        "no time of a kernel is known of {side}: its steps end when the CPU has left them, those "
        "of "
        "{other} when the GPU has done their work",
        next_step="Capture {side} again with --trace=cuda,nvtx.",
    ),
    "calls-not-recorded": Text(
        "which calls launched what is not known of {side}: its kernels and copies count under the "
        "ranges in which they ran, those of {other} under the ranges that launched them",
        "By range they are not compared",
    ),
}

_RANKS: Final[Mapping[str, Text]] = {
    "ranks": Text(
        "{processes} processes took the steps, and each value is the worst of theirs, of NCCL the "
        "least: {values:list,}"
    ),
    "ranks-apart": Text("{metric} {least:ms} ms ({low}) to {most:ms} ({high})"),
    "ranks-together": Text("{metric} {least:ms} to {most:ms} ms"),
    "rank-late": Text(
        "{rank} is late: the others wait {waited_ms:ms} ms a step for it in NCCL kernels that "
        "nothing hides"
    ),
    "rank-late-by": Text(
        "{rank} is late: the others wait {waited_ms:ms} ms a step for it in NCCL kernels that "
        "nothing hides; its {metric} is {more_ms:ms} ms a step more than theirs{where}"
    ),
    "late-on-host": Text(", and its host takes {ranges:list} longer"),
    "late-under": Text(", of that {ranges:list}"),
    "longer-under": Text("{ms:ms} ms under {range}"),
}

_PACE: Final[Mapping[str, Text]] = {
    "slow-start": Text(
        "The first measured steps take longer than all others, in {found} of {runs:run|runs}: up "
        "to "
        "{longest_ms:ms} ms, the others {usual_ms:ms} ms, until step {last}. If that is work which "
        "is done once, raise warmup by at least {warmup}"
    ),
    "pace-changes": Text(
        "The pace changes within the measured steps, in {found} of {runs:run|runs}: "
        "{before_ms:ms} ms a step, and {after_ms:ms} ms from step {step} of {steps} on. Let the "
        "steps end before that, or the warm-up outlast it"
    ),
    "pace-changes-at-power-cap": Text(
        "The pace changes within the measured steps, in {found} of {runs:run|runs}: "
        "{before_ms:ms} ms a step, and {after_ms:ms} ms from step {step} of {steps} on, and the "
        "GPU "
        "met its power cap. Let the steps end before that, or the warm-up outlast it"
    ),
}

_BOUND: Final[Mapping[str, Text]] = {
    "of-the-step": Text(", {share:%} of the step"),
    "in-range": Text(" under {range}"),
    "the-gpu": Text("the GPU"),
    "the-gpu-of": Text("the GPU of {process}"),
    "each-gpu": Text("each of the {gpus} GPUs, on average,"),
    "bound-by-compute": Text(
        "{gpu} computes for {computes:short%} of the step and idles for {idles:short%}"
    ),
    "bound-by-nccl": Text(
        "{gpu} runs NCCL's kernels and nothing else for {ms:ms} ms of a step of {step_ms:ms} ms"
    ),
    "bound-by-copies": Text(
        "{gpu} waits for copies to it for {ms:ms} ms of a step of {step_ms:ms} ms, with no kernel "
        "running"
    ),
    "bound-by-other-copies": Text(
        "{gpu} runs memsets and copies not to it, and no kernel, for {ms:ms} ms of a step of "
        "{step_ms:ms} ms"
    ),
    "bound-by-input": Text(
        "{gpu} idles for {idles:short%} of the step, {under:short%} of that under {ranges:list}, "
        "with next to nothing launched there"
    ),
    "bound-by-launches": Text(
        "{gpu} idles for {idles:short%} of the step while the CPU launches: "
        "{kernels:count} kernels, a launch every {every_ms:ms} ms"
    ),
    "limited-by-compute": Text(
        "limited by compute: {compute:short%} of its peak, memory {memory:short%}"
    ),
    "limited-by-memory": Text(
        "limited by memory: {memory:short%} of its peak, compute {compute:short%}"
    ),
    "limited-by-both": Text(
        "limited by compute and memory alike: {compute:short%} and {memory:short%} of their peaks"
    ),
    "limited-by-size": Text(
        "too small to fill the GPU: compute at {compute:short%}, memory at {memory:short%} of "
        "their "
        "peaks"
    ),
    "limited-by-latency": Text(
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

_ADVICE: Final[Mapping[str, Text]] = {
    "quoted-advice": Text("{evidence:raw}", next_step="{usually:raw}"),
    "advice-pageable": Text(
        "copies to the GPU from pageable memory{under}, {copies:count} a step ({bytes:size}): "
        "{ms:ms} ms{share}",
        next_step="Batches in pinned memory (DataLoader(pin_memory=True)) and .to(device, "
        "non_blocking=True) are copied faster, and the CPU does not wait for them.",
    ),
    "advice-unhidden": Text(
        "copies to the GPU{under} take {ms:ms} ms a step, and no kernel runs for {exposed_ms:ms} "
        "ms "
        "of it",
        next_step="In a stream of its own, the next batch is copied while this one is computed.",
    ),
    "advice-wait-for-read": Text(_WAITS, next_step=_READ),
    "advice-wait-for-sent": Text(
        f"{_WAITS}, for copies to the GPU",
        next_step="A copy to the GPU is not waited for if it is made from pinned memory "
        "(DataLoader(pin_memory=True)) with .to(device, non_blocking=True); zeros, masks and "
        "indices can be made on the GPU at once (device=...).",
    ),
    "advice-wait-for-work": Text(
        _WAITS,
        next_step=(
            "Only what the CPU reads has to be waited for: a synchronize() that was left from "
            "taking a time can go."
        ),
    ),
    "advice-loader": Text(
        "{range} takes {cpu_ms:ms} ms a step on the CPU, and {gpu} idles for {idle_ms:ms} ms of it",
        next_step="The GPU waits for work of the CPU there: worker processes "
        "(DataLoader(num_workers=...)) can load the next batches meanwhile; what saves or logs can "
        "be done more rarely, or in another thread.",
    ),
    "advice-graphs": Text(
        "{because}",
        next_step="CUDA graphs or torch.compile(mode='reduce-overhead') launch a step's kernels at "
        "once; fused optimizers and larger batches launch fewer.",
    ),
    "advice-more-graphs": Text(
        "{because}",
        next_step=(
            "What is launched outside the CUDA graphs can be captured in one as well; several "
            "steps in a graph, fused optimizers and larger batches launch fewer."
        ),
    ),
}

TEXT: Final[Mapping[str, Text]] = {
    **_WHERE,
    **_UNLIKE,
    **_RANKS,
    **_PACE,
    **_BOUND,
    **_ADVICE,
}
"""By code."""
