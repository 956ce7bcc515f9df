"""The command lines of nsys and the environments of what runs, as pure functions of what is wanted.

Runs nothing and reads no file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, assert_never

from perfgate.model.reports import ReportName, RuleName
from perfgate.model.secrets import GIT_CONFIG, looks_secret
from perfgate.model.settings import GraphTrace
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys.layouts import OLD_NAMES
from perfgate.profilers.nsys.tool import NsysVersion

OUTPUT: Final = "capture"
"""Base name of everything that `nsys profile` writes into its folder.

No `%p` or `%q{...}` in it: one nsys writes one capture here, or `capture.1`, `capture.2`, ... of a
repeated range, and each run has a folder of its own; nsys also expands the name of the SQLite file
twice, so that a `%` goes astray.
"""

TARGET: Final = Path(__file__).with_name("target.py")
"""The program that nsys starts in the workload's place, and that becomes the workload."""

NOT_LITERAL: Final = frozenset("%?#,")
"""Characters in a path that nsys does not take literally: `%p` is expanded, `,` separates outputs,
and its report scripts open the export as an unescaped URI, where `?`, `#` and `%41` cut or change
the name (seen with 2024.2.3: every report SKIPPED, an empty file left next to it)."""

PROFILER_VARIABLES: Final = frozenset(
    {
        "CUDA_INJECTION32_PATH",
        "CUDA_INJECTION64_PATH",
        "CUPTI_PROFILE_MODE",
        "NSYS_AGENT_TMP_DIR",
        "NSYS_CONTROL_CUPTI_FEATURES",
        "NSYS_CUDA_GPU_TIME_CONVERSION",
        "NSYS_PROFILING_SESSION_ID",
        "NSYS_TARGET_STD_REDIRECT_ACTION",
        "NSYS_TSC_SUPPORT",
        "NVTX_INJECTION32_PATH",
        "NVTX_INJECTION64_PATH",
    }
)
"""What an nsys puts into its workload's environment: left there, the next nsys attaches to the
agent of the first."""

_INJECTIONS: Final = ("libToolsInjection", "libLinuxKeyboardInterceptor")


def trace_options(*, graph_trace: GraphTrace) -> tuple[str, ...]:
    """Return the options that change what tracing costs; they belong to a baseline's key."""
    return ("--trace=cuda,nvtx", f"--cuda-graph-trace={graph_trace.value}")


def profile_command(
    nsys: Path,
    argv: Sequence[str],
    *,
    output: Path,
    window: Sequence[str],
    graph_trace: GraphTrace,
) -> tuple[str, ...]:
    """Return the command that runs `argv` under nsys and writes `output` with its suffixes.

    Args:
        nsys: the program.
        argv: the workload, by `target_command`.
        output: base path of the capture; must hold none of `NOT_LITERAL`.
        window: by `window_options`.
        graph_trace: CUDA graphs as one span, or kernel by kernel.
    """
    return (
        str(nsys),
        "profile",
        "--stats=true",
        *trace_options(graph_trace=graph_trace),
        # CPU sampling and context switches need privileges that CI machines withhold.
        "--sample=none",
        "--cpuctxsw=none",
        *window,
        # The defaults end the workload with SIGTERM as soon as the window closes.
        "--kill=none",
        # A helper that the workload left behind must not hold the run open until its time limit.
        "--wait=primary",
        "--force-overwrite=true",
        f"--output={output}",
        *argv,
    )


def target_command(argv: Sequence[str], *, umask: int, tmpdir: str) -> tuple[str, ...]:
    """Return the command that undoes what nsys changes in what it starts, gives it its TMPDIR (""
    for none), and becomes `argv`.

    Nothing of the project or its environment may come before that, so neither folders of packages
    nor variables count.
    """
    return (sys.executable, "-I", "-S", str(TARGET), f"{umask:03o}", tmpdir, *argv)


def export_command(nsys: Path, *, source: str, target: str) -> tuple[str, ...]:
    """Return the command that turns a `.nsys-rep` into a SQLite file."""
    return (
        str(nsys),
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={target}",
        source,
    )


def answers_command(
    nsys: Path, asked: Sequence[str], *, rules: bool, source: str, output: str
) -> tuple[str, ...]:
    """Return the command that prints reports of a SQLite file, or applies rules to it.

    Arguments follow a name after colons. It writes one `{output}_{name}.csv`, or
    `{output}_{name}_{arguments}.csv`, each. Times are in ns, sizes in bytes: megabytes come with
    three decimals, in which 472 bytes are 0.000. A version that does not know `mem=B` ignores it;
    the unit is read from the header.
    """
    return (
        str(nsys),
        "analyze" if rules else "stats",
        *(f"--{'rule' if rules else 'report'}={one}" for one in asked),
        "--format=csv:mem=B",
        "--timeunit=nsec",
        "--force-overwrite=true",
        f"--output={output}",
        source,
    )


def called(name: ReportName | RuleName, version: NsysVersion) -> str:
    """Return what a version of nsys calls a report or rule."""
    return name.value if version >= NsysVersion(2023, 4) else OLD_NAMES[name]


def window_options(
    capture: CaptureMode | CaptureWindow, *, flushes_at_once: bool = True
) -> tuple[str, ...]:
    """Return the options by which a capture's window opens and closes.

    `flushes_at_once` lets cudaProfilerStop end the recording, for which the workload waits three
    seconds; else it goes on to the workload's end.
    """
    match capture:
        case CaptureMode.CUDA_PROFILER_API:
            end = "stop" if flushes_at_once else "none"
            return ("--capture-range=cudaProfilerApi", f"--capture-range-end={end}")
        case CaptureMode.ALL:
            return ()
        case CaptureWindow():
            return (f"--delay={capture.delay:g}", f"--duration={capture.duration:g}")
        case _:
            assert_never(capture)


def withhold_secrets(
    env: Mapping[str, str], pass_env: Collection[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Split an environment into what a workload may see and the names withheld from it, sorted.

    A capture holds every environment variable of its workload, and captures travel. So what looks
    like a secret, by name or by value, is handed over only where `pass_env` names it.
    """
    withheld = {
        name for name, value in env.items() if name not in pass_env and looks_secret(name, value)
    }
    if any(map(GIT_CONFIG.fullmatch, withheld)):  # git refuses to start with half of it
        withheld |= {name for name in env if name not in pass_env and GIT_CONFIG.fullmatch(name)}
    return {name: value for name, value in env.items() if name not in withheld}, tuple(
        sorted(withheld)
    )


def without_profiler(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the traces of an nsys around perfgate itself."""
    kept = {
        name: value
        for name, value in env.items()
        if name not in PROFILER_VARIABLES and not name.startswith(("QUADD_", "NSYS_STATS_"))
    }
    preloaded = re.split(r"[: ]+", kept.pop("LD_PRELOAD", ""))
    others = [one for one in preloaded if one and not one.split("/")[-1].startswith(_INJECTIONS)]
    if others:
        kept["LD_PRELOAD"] = ":".join(others)
    return kept
