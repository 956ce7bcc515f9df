"""What is said of runs: which code they were of, how they ended, and checkouts of other commits."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_UNLOGGED: Final = (
    "A program that is not Python leaves none, nor does python -I, -S or -E, nor one that is "
    "killed, nor one whose command sets PYTHONPATH itself"
)
_LEAVE_OUT: Final = (
    "Leave such options out of the command, name folders in PYTHONPATH under `env` of the YAML "
    'file, or judge by stored values: without --perfgate-against, with ab_run = "off".'
)
_ENVIRONMENT: Final = (
    "Let ab_setup make an environment of the checkout's own, and name its interpreter in ab_python."
)

_CODE: Final[Rows] = {
    "no-import-log": (
        (
            "{workload} at commit {commit}: no Python process of it left a log of the code that it "
            "loaded"
        ),
        _UNLOGGED,
        _LEAVE_OUT,
    ),
    "no-import-log-of-steps": (
        (
            "{workload} at commit {commit}: process {pid}, which took the steps, left no log of "
            "the code that it loaded"
        ),
        _UNLOGGED,
        _LEAVE_OUT,
    ),
    "nothing-of-commit-loaded": (
        "{workload} at commit {commit}: no file of that commit was loaded",
        "The baseline's code was to be measured",
        _ENVIRONMENT,
    ),
    "code-from-elsewhere": (
        (
            "{workload} at commit {commit}: code of the project was loaded from elsewhere "
            "({files:file|files}: {paths:list})"
        ),
        "The baseline's code was to be measured",
        _ENVIRONMENT,
    ),
    "compiled-code-shared": (
        (
            "{workload} at commit {commit}: both sides loaded the same compiled code "
            "({files:file|files}: {paths:list})"
        ),
        "It is of no installed package, so either side's code may be in it",
        (
            "Let each side build its own, in ab_setup or in a folder next to its files "
            "(build_directory); if it is another project's, install that (pip install)."
        ),
    ),
    "compiled-code-lacking": (
        (
            "{workload} at commit {commit}: the project loaded compiled code that the checkout "
            "does not have ({files:file|files}: {paths:list})"
        ),
        "Without it that commit's code may have taken another way",
        (
            "Let ab_setup make it there as it was made here, for example: "
            'ab_setup = ["python", "setup.py", "build_ext", "--inplace"].'
        ),
    ),
    "copy-differs": (
        "{workload}: {copy:quote} was loaded, which differs from the project's {file:quote}",
        "A gate measures what is in the project",
        (
            "Install the project so that its own files are loaded (pip install -e .), install it "
            "again (pip install .), or let PYTHONPATH lead to this working tree."
        ),
    ),
}

_FAILURES: Final[Rows] = {
    "workload-failed": ("{workload}: {why}", "", "{see:sentences}"),
    "ahead-failed": (
        "runs that were alive at once failed, and one alone did not: {failure}",
        "",
        (
            "They were made one by one, which takes longer. Where they want the same port, "
            "file or cache, or where a script cannot be held, say ahead=1 (@workload, or the YAML "
            "file), or let each have its own."
        ),
    ),
    "script-not-held": (
        "the one process that takes its steps was not held at its first use of CUDA by torch, so "
        "it may have measured next to other runs"
    ),
    "held-busy": (
        "runs that wait for their turn keep {cores:count} CPU cores busy, next to the one that "
        "measures: {processes:list}"
    ),
    "workload-timed-out": (
        "{workload}: it did not end within {limit_s:s} and was stopped",
        "",
        "Raise timeout_s if it needs longer. {see:sentences}",
    ),
    "process-outlived-loop": (
        (
            "{workload}: its loop came to its end, and its process did not within {limit_s:s}, and "
            "was stopped"
        ),
        "",
        (
            "A thread, a child process or what atexit holds may still run: make it a daemon, or "
            "end it behind the loop. {see:sentences}"
        ),
    ),
    "nsys-hung": (
        (
            "{workload}: nsys did not end within {limit_s:s}, though the workload had ended, and "
            "was stopped"
        ),
        "",
        (
            "Run it again, for nsys hangs now and then on a busy machine. For a capture that "
            "takes it so long, measure fewer steps or raise timeout_s. {see:sentences}"
        ),
    ),
    "window-without-steps": (
        (
            "{workload}: its capture window, {from_s:s} to {until_s:s} after its start, holds no "
            "step"
        ),
        "The window must hold the warm-up and all measured steps",
        (
            "Set a longer delay or duration, if the first step began after it, or a shorter delay, "
            "if the steps were over. In the window: {missing}. {missing:rest}\n{see:sentences}"
        ),
    ),
    "command-without-steps": (
        "{workload}: {missing}",
        "",
        "{missing:rest}\nIt may also have ended before its first step. {see:sentences}",
    ),
    "see-log": "See {log:quote}",
    "output-tail": "Last lines of its output:\n{lines:lines}",
    "output-none": "It printed nothing",
    "variables-withheld": (
        "Not passed to the workload, for their names or values look like secrets: {names:list}; "
        "name those it needs in pass_env"
    ),
    "run-folder-not-written": (
        "the run's folder {folder:quote} cannot be written ({why})",
        "",
        "Make room or correct the permissions, and run again.",
    ),
    "export-not-kept": (
        "the scrubbed export cannot be written to {folder:quote} ({why})",
        "",
        "Make room, and run again.",
    ),
    "killed-gate-lives": (
        "a gate that was killed left processes that cannot be ended: {processes:list}",
        "What runs next to a measurement is measured too",
        "End them, or wait until they have ended; then run again.",
    ),
    "killed-gate-ended": "Ended what a killed gate had left running: {processes:list}",
    "killed-gate-removed": "Removed the unfinished captures of {runs:run|runs} of a killed gate",
}
"""How a run ended, and what is left of it."""

_WHY: Final[Rows] = {
    "process-killed": "its process was killed by {signal}",
    "process-exited": "its process ended with exit status {status}",
    "process-left": (
        "its process ended with exit status 0 before the workload had returned (by os._exit, or "
        "os.exec)"
    ),
    "failed-after-loop": "its loop came to its end, and then: {what}",
    "raised": "it raised {what:quote}",
    "data-ended": "it raised StopIteration in turn {turn} of its loop",
    "called-exit": "it called sys.exit({argument:quote})",
    "skipped": "it skipped itself ({what:quote}), so nothing was measured",
    "advice-more-data": (
        "If its data ended, begin them anew (itertools.cycle), or lower steps or warmup"
    ),
    "advice-return": "Let the workload return when its loop is done",
    "advice-skip-by-mark": (
        "Run it where there is what it needs, or mark it (pytest.mark.skipif), which the gate sees "
        "before it runs"
    ),
}
"""Why a workload failed."""

_LOOP: Final[Rows] = {
    "steps-twice": (
        "the steps were iterated a second time, after {turns} of {declared} turns. Iterate over "
        "them once, and do one step of work a turn"
    ),
    "steps-last-not-ended": (
        "the loop began all {declared} turns, and did not come back for the end of the last one. "
        "Put the steps first, with data for every turn, zip(steps, data), or call next() once more "
        "than there are turns"
    ),
    "steps-none": (
        "the loop took 0 of {declared} turns. Write for _ in steps: around a step, and look for a "
        "return before it, or data that are empty, or that a process of a loader took the steps"
    ),
    "steps-left": (
        "the loop took {turns} of {declared} turns ({warmup} warm-up, {steps} measured). It "
        "must go "
        "on until the steps are used up: look for a break, a return, or data that ends first"
    ),
    "steps-not-perfgates": (
        "its steps are not perfgate's: a fixture or parameter of the project's own is called "
        "steps. Give that another name"
    ),
    "no-nvtx": (
        "neither a CUDA build of torch nor the nvtx package can be imported, so no step can be "
        "marked"
    ),
    "nvtx-unheard": (
        "nvtx {version} does not speak to this nsys: its ranges are silently dropped. Install an "
        'older one (pip install "nvtx<0.2.12") or a newer nsys (2024.6 or later)'
    ),
    "not-pinned": "its process cannot be kept on core {core} ({why})",
    "other-side-silent": "the other side of the pair did not hand over within {limit_s:s}",
    "other-side-ended": "the other side of the pair ended before its last step",
}
"""How the loop of a decorated workload ended before its last step."""

_RUNS: Final[Rows] = {
    "steps-lost": (
        "process {pid} shows {found} of {steps} measured steps: if a step pushes a range and does "
        "not pop it, that takes the pop of the step's own, so each push needs its pop"
    ),
    "steps-lost-of-command": (
        "process {pid} shows {found} of {steps} measured steps after {warmup} of warm-up, as "
        "{file:quote} asks: the script takes others, leaves by os._exit before nsys has written "
        "its last, or has a launcher that does not wait for it. If others that match lie inside "
        "these, match the outermost alone; if tasks take turns on a thread (asyncio), draw the "
        "ranges with nvtx.start_range and nvtx.end_range"
    ),
    "gpu-unseen": "no GPU operation was recorded in any step ({why})",
    "launched-nothing": "the workload launched none",
    "warmup-unshown": (
        "whether the warm-up was long enough is not shown: that takes {fewest} measured steps or "
        "more, and {steps} were asked for"
    ),
    "code-changed": "the workload's code changed meanwhile, in {paths:list}",
    "busy-before": "before it started, {why}",
}
"""What a run that was measured shows of itself."""

_CHECKOUTS: Final[Rows] = {
    "setup-not-started": (
        "ab_setup cannot be started at commit {commit}: {why}",
        "It makes a fresh checkout of that commit ready to run",
        "Try it in one: git worktree add --detach ../baseline {commit}",
    ),
    "setup-timed-out": (
        "ab_setup did not end within {limit_s:s} at commit {commit}, and was stopped",
        "It makes a fresh checkout of that commit ready to run",
        "Try it in one: git worktree add --detach ../baseline {commit}\n{output:sentences}",
    ),
    "setup-failed": (
        "ab_setup ended with exit status {status} at commit {commit}",
        "It makes a fresh checkout of that commit ready to run",
        "Try it in one: git worktree add --detach ../baseline {commit}\n{output:sentences}",
    ),
    "checkout-not-written": (
        "commit {commit} cannot be checked out below {folder:quote}: {why}",
        "",
        "Make room or correct the permissions, then run again.",
    ),
    "interpreter-missing-there": (
        "there is no program {program:quote} in the checkout of commit {commit}",
        "ab_python names the interpreter of its runs",
        (
            'Let ab_setup make it, for example: ab_setup = ["uv", "sync"], '
            'ab_python = ".venv/bin/python".'
        ),
    ),
    "workload-file-unreadable-there": (
        "{workload} at commit {commit}: its file cannot be used: {failure}",
        "What is run there is what that commit declares",
        "Compare with a commit whose file this perfgate reads.",
    ),
    "measured-otherwise-there": (
        "{workload} at commit {commit}: {setting} was {then} there, and is {now}",
        "A script is compared by the same steps of the same capture",
        "Change how it is measured in a commit of its own, and compare with that.",
    ),
    "workload-younger": (
        "{workload}: the workload did not exist at commit {commit}: there is no {lacks:quote}",
        "An A/B run runs it at both commits",
        (
            "Name a younger commit in --perfgate-against, or bless one that has it. Submodules are "
            "not checked out; ab_setup can do it: git submodule update --init --recursive"
        ),
    ),
}
"""Another commit, checked out to be run."""

TEXT: Final[Rows] = {**_CODE, **_FAILURES, **_WHY, **_LOOP, **_RUNS, **_CHECKOUTS}
"""By code."""
