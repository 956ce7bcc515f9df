"""What is said of a capture and of what was measured in it."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

ABSENT: Final[Rows] = {
    "window-as-one": "the captured window was measured as one, without steps",
    "no-period": (
        "needs two steps after the first, within one block: "
        "the capture holds {steps:step|steps} in {blocks:block|blocks}"
    ),
    "period-is-zero": "the median period is 0 ms, of which no share is idle",
    "launches-unknown": (
        "{count} GPU operations ran outside the steps, and the capture does not say which step "
        "launched them: it holds no API call with their correlation id"
    ),
    "host-memory-unknown": (
        "of {copies:copy|copies} the capture does not say which memory they used"
    ),
    "no-gpu-work": "process {pid} launched no GPU operation in what was measured",
    "nothing-on-a-gpu": "the capture holds no GPU operations",
    "work-not-recorded": (
        "process {pid} made {launched} launches, the capture holds no kernel or graph of theirs"
    ),
    "no-nccl": "no NCCL kernels",
    "no-nccl-outside-graphs": "no NCCL kernels outside the CUDA graphs, which were traced whole",
    "copies-not-recorded": "the steps make {calls} calls that copy, the capture holds no copy",
    "no-calls": "the capture holds no CUDA API calls of process {pid}",
    "calls-lost": (
        "GPU operations of {lacking} of {held} {what} have no API call in the capture: it "
        "lacks calls"
    ),
}
"""Why a metric could not be measured."""

INVALID: Final[Rows] = {
    "processes-consecutive": (
        "the steps of processes {first} and {second} are one after the other: they are no ranks of "
        "one job; let `step` match those of one of them, or, if a launcher started the job anew "
        "(torchrun --max-restarts), see why the first attempt failed"
    ),
    "ranks-without-steps": (
        "processes {pids:list} of the same workload run NCCL's kernels meanwhile, and no step is "
        "marked there: of a job's ranks the slowest is judged, so mark the steps on each of them"
    ),
    "work-without-steps": (
        "processes {pids:list} of the same workload, in which no step is marked, kept {gpu} busy "
        "for {busy:%} of the steps: it is in no metric; mark the steps there too, or let the "
        "process with the steps do that work"
    ),
    "clocks-disagree": (
        "of {operations} GPU operations in the steps {early} began before the call that launched "
        "them: the GPU's clock and the CPU's disagree in this capture; run it again, or with "
        "another nsys or driver"
    ),
    "work-lost": (
        "of {launched} launches in the steps the capture lacks the work of {lost}: the profiler "
        "was stopped before the GPU had ended it, or lost it; synchronise before it stops"
    ),
    "graph-kernels-lost": (
        "of {kernels} kernels in CUDA graphs in the steps the capture lacks {lost}: none of a "
        "graph's kernels is there each time that the graph was launched; run it again"
    ),
    "copies-lost": (
        "of {calls} calls that copy in the steps the capture lacks the copies of {lost}: the "
        "profiler was stopped before they had ended, or lost them; synchronise before it stops"
    ),
    "steps-without-records": (
        "in steps {first} to {last} of the measured {steps} the capture holds no CUDA call and no "
        "GPU work of process {pid}, and in the others it does: the profiler lost them, or another "
        "one (torch.profiler) took over; run it without that, or mark as steps only what uses the "
        "GPU"
    ),
    "operations-of-no-step": (
        "of {held} GPU operations since the first step {outside} have no API call in the capture "
        "and ran outside all steps, where nothing says whose they are: run it again"
    ),
    "durations-lost": (
        "of {held} GPU operations {lacking} have no times in the capture, and would count as 0 ms: "
        "run it again"
    ),
    "steps-in-clumps": (
        "GPU work of earlier steps goes on until the end of {overtaken} of the {steps} steps, or "
        "beyond: they are complete in clumps, whose periods are no step's; wait in a step for what "
        "it starts, or mark the whole cycle as one step"
    ),
    "steps-empty": (
        "a step takes {step_ms:ms} ms, about what marking it takes, and launches nothing on a GPU: "
        "do the work in the body of the loop over the steps"
    ),
    "first-time-work": (
        "{slow:step|steps} of the measured {steps}, the last of them number {last}, took up to "
        "{longest_ms:ms} ms where {usual_ms:ms} ms are usual: first-time work that belongs in the "
        "warm-up; raise warmup by at least {last}"
    ),
    "first-steps-slow": (
        "{slow:step|steps} of the measured {steps}, the last of them number {last}, took up to "
        "{longest_ms:ms} ms where {usual_ms:ms} ms are usual: first-time work that belongs in the "
        "warm-up, if more runs show it; then raise warmup by at least {last}"
    ),
    "first-time-calls": (
        "{slow:step|steps} of the measured {steps}, the last of them number {last}, took up to "
        "{longest_ms:ms} ms where {usual_ms:ms} ms are usual, and called {calls:list}: first-time "
        "work that belongs in the warm-up; raise warmup by at least {last}"
    ),
    "loops-at-once": (
        "{threads} threads hold steps, each of a loop of its own: let `step` match the name of one "
        "thread's alone"
    ),
    "steps-ambiguous": (
        "{ranges} ranges are named {name} where {steps} were declared, and which are the loop's "
        "own cannot be known; rename those that the project draws itself"
    ),
    "reports-contradict": "nsys's {report} says {theirs} {what}, its export {ours}",
}
"""What makes a run no measurement of its steps."""

OTHER_NOTES: Final[Rows] = {
    "cpu-runs-ahead": (
        "the CPU runs ahead of the GPU: the step range lasts {range_ms:ms} ms, "
        "a step takes {step_ms:ms} ms"
    ),
    "cpu-only": "no GPU operation was launched in the steps: step_ms is the host's time alone",
    "counted-where-run": (
        "GPU operations have no API call in the capture and count where they ran ({operations})"
    ),
    "launched-before-capture": (
        "GPU operations were launched before the capture and are of no step ({operations})"
    ),
    "graphs-traced-whole": (
        "CUDA graphs were traced whole: what they copy or send with NCCL is part of their kernel "
        "time, and of no other metric ({per_step:count} per step)"
    ),
    "gpus-hardly-used": (
        "{gpus:list} ran something in next to none of the steps: no idle time is counted there"
    ),
    "gpu-used-by-others": (
        "processes {pids:list} of the same workload, in which no step is marked, kept {gpu} busy "
        "for {busy:%} of the steps, which use it not: that is in no metric"
    ),
    "ranges-unclosed": "step ranges were never closed and are not counted ({ranges})",
    "ranges-nested": (
        "ranges that match lie inside another one that does, and are not counted ({ranges})"
    ),
    "one-thread-measured": ("{threads} threads hold steps: those of thread {thread} are measured"),
    "last-step-cut": (
        "the last step ends with the capture, may have been cut off by it and is not counted"
    ),
    "all-warmup": (
        "process {pid} holds step ranges, all of them warm-up ({ranges} of {matching} that match; "
        "others lie inside these, were not closed, or are another thread's)"
    ),
    "steps-of-others": "process {pid} holds step ranges, none of them perfgate's ({ranges})",
}
"""What is worth knowing of the steps, and makes no number wrong."""

NOT_FOUND: Final[Rows] = {
    "step-not-a-pattern": (
        "step '{step:quote}': not a regular expression: {problem}",
        "",
        "Correct the pattern, or escape what is meant literally with a backslash.",
    ),
    "steps-all-of-others": (
        "{source}: no step of the loop itself is in the capture",
        "What bears that name is another's: {processes:list;}",
        "Run it again; if that does not help: perfgate doctor",
    ),
    "steps-all-warmup": (
        "{source}: no step is left after warm-up: {processes:list;}",
        "Measured steps come after the warm-up",
        (
            "Run more steps, or lower `warmup`, and see that each push has its pop. If a launcher "
            "starts the process of the steps, it must wait for it: the capture ends with the "
            "launcher."
        ),
    ),
    "no-ranges": (
        "{source}: the capture holds no NVTX range but perfgate's own, so no step '{step:quote}'",
        "Each step is one NVTX range",
        (
            "A process that is forked and does not exec is not recorded: take the steps in the "
            "first one, or spawn it. One that ends by os._exit is gone before nsys has its last "
            "ranges: let it end by itself. See that the loop draws a range around each step, that "
            "what starts its process hands its own environment on (`env=` and `env -i` do not), "
            "and that nsys hears its NVTX: perfgate doctor"
        ),
    ),
    "steps-left-open": (
        (
            "{source}: no closed NVTX range matches '{step:quote}': {ranges} were opened and not "
            "closed"
        ),
        "Each push needs its pop: a range pushed in a step and not popped takes the step's own",
        "Use `with nvtx.annotate(...)` (of torch: torch.cuda.nvtx.range), which pops by itself.",
    ),
    "steps-misnamed": (
        "{source}: no NVTX range matches '{step:quote}'",
        "Perhaps you meant {likely:list}",
        "Give the name of the step's range, or a regular expression that matches all of it.",
    ),
    "nothing-captured": (
        "{source}: the capture holds no GPU operation, CUDA call or NVTX range",
        "",
        (
            "Capture with nsys profile --trace=cuda,nvtx, and see that the program runs "
            "inside the window."
        ),
    ),
    "process-without-steps": (
        "{source}: process {pid} has no steps",
        "There are steps of {pids:list}",
        "Ask for a process that has steps.",
    ),
}
"""Why there is nothing to measure."""

TEXT: Final[Rows] = {
    **ABSENT,
    **INVALID,
    **OTHER_NOTES,
    **NOT_FOUND,
}
