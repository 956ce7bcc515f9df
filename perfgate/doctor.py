"""What a first run needs, checked one by one: each finding is measured here and now; it prints and repairs nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perfgate.machine.lock import machine_folder, prepare_folder
from perfgate.machine.nvml import NVML, NoDriver, NvmlLibrary, open_nvml
from perfgate.machine.sampler import wait_until_idle
from perfgate.machine.visible import VARIABLE, visible_devices
from perfgate.model.errors import PerfgateError
from perfgate.model.machine import Gpu
from perfgate.model.settings import GraphTrace, Settings
from perfgate.model.timeline import Timeline
from perfgate.model.workload import CaptureMode
from perfgate.profilers import seam
from perfgate.profilers.nsys.environment import withhold_secrets
from perfgate.profilers.nsys.failures import missing_libraries, packages_of
from perfgate.profilers.nsys.profile import profile
from perfgate.profilers.nsys.tool import NsysTool, find_nsys
from perfgate.profilers.seam import ProfileOutcome, ProfileSpec
from perfgate.system.git import require_commit
from perfgate.system.temporary import PREFIX, remove_left_folders, underway
from perfgate.words import say
from perfgate.workload import workload_files

FREE_BYTES: Final = 2 * 10**9
"""What a gate of several runs may need at once: captures and their exports are tens to hundreds of MB each."""
TRIAL_TIMEOUT_S: Final = 120.0
TORCH_TIMEOUT_S: Final = 120.0
IDLE_PATIENCE_S: Final = 3.0
TRIAL_RANGE: Final = "perfgate doctor"

TRIAL_PROGRAM: Final = f"""\
import ctypes
import importlib.metadata
import sys


def use_gpu():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no libcuda.so.1"
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    steps = (
        ("cuInit", lambda: cuda.cuInit(0)),
        ("cuDeviceGet", lambda: cuda.cuDeviceGet(ctypes.byref(device), 0)),
        ("cuDevicePrimaryCtxRetain", lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)),
        ("cuCtxSetCurrent", lambda: cuda.cuCtxSetCurrent(context)),
        ("cuMemAlloc", lambda: cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096))),
        ("cuMemcpyHtoD", lambda: cuda.cuMemcpyHtoD_v2(memory, bytes(4096), ctypes.c_size_t(4096))),
        ("cuCtxSynchronize", lambda: cuda.cuCtxSynchronize()),
        ("cuMemFree", lambda: cuda.cuMemFree_v2(memory)),
        ("cuDevicePrimaryCtxRelease", lambda: cuda.cuDevicePrimaryCtxRelease_v2(device)),
    )
    for name, step in steps:
        status = step()
        if status != 0:
            return f"{{name}} answered {{status}}"
    return ""


try:
    import nvtx
except ImportError as error:
    print("perfgate-nvtx: absent", error)
else:
    with nvtx.annotate({TRIAL_RANGE!r}):
        pass
    print("perfgate-nvtx:", importlib.metadata.version("nvtx"))
print("perfgate-gpu:", use_gpu() or "copied")
sys.stdout.flush()
"""
"""One NVTX range by the nvtx package and one copy to the GPU by the driver's own API: torch would take seconds."""

TORCH_PROGRAM: Final = """\
import json, torch
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "gpus": torch.cuda.device_count()}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One check. `ok` is None where it could not be made or decides nothing; `advice` is empty where nothing is to do.

    `fact` and `advice` are sentences; `fact` without full stop.
    """

    check: str
    ok: bool | None
    fact: str
    advice: str = ""


Profile = Callable[[NsysTool, ProfileSpec], ProfileOutcome]
Read = Callable[[Path], Timeline]


def examine(
    *,
    root: Path,
    settings: Settings,
    env: Mapping[str, str],
    kept: Path,
    orphans: Sequence[str] | PerfgateError = (),
    others: Sequence[Finding] = (),
    locks: Path | None = None,
    library: NvmlLibrary = NVML,
    python: str = sys.executable,
) -> tuple[Finding, ...]:
    """Check all that a first run needs, in the order in which a run needs it. Takes some 10 s: it makes a capture.

    Args:
        root: the project's root.
        settings: the project's settings; `nsys`, `workloads` and `baselines` are looked at.
        env: the environment that workloads will get.
        kept: the folder of kept results; need not exist.
        orphans: baselines whose workload is no longer there, as paths relative to the root; what keeps that from being
            known, where something does.
        others: what was found beside that, told last.
        locks: the lock folder; by default this machine's.
        library: NVML.
        python: the interpreter that workloads run in.
    """
    gpu, gpus = check_gpu(env, library=library)
    found: list[Finding] = [gpu]
    if gpus:
        found.append(check_idle(gpus, library=library))
    nsys, tool = check_nsys(settings.nsys, env)
    found.append(nsys)
    if tool is not None:
        found += check_trial(
            tool, env=env, pass_env=settings.pass_env, python=python, gpu_expected=bool(gpus)
        )
    found.append(check_torch(python, env=env, gpu_expected=bool(gpus), cwd=root))
    found.append(check_disk(kept))
    found.append(check_locks(locks))
    found.append(check_repository(root, env=env, baselines=settings.baselines))
    found.append(check_workloads(root, settings.workloads))
    found.append(check_orphans(orphans))
    return (*found, *others)


def check_gpu(
    env: Mapping[str, str], *, library: NvmlLibrary = NVML
) -> tuple[Finding, tuple[Gpu, ...]]:
    """Say which GPUs a workload will see."""
    try:
        with open_nvml(library) as nvml:
            if isinstance(nvml, NoDriver):
                absent = Finding(
                    check="GPU",
                    ok=False,
                    fact=f"no NVIDIA driver answers here ({nvml.reason})",
                    advice="Run on a machine with an NVIDIA GPU and its driver (nvidia-smi must list it); in Docker, "
                    "start the container with --gpus all. Without a GPU, `perfgate demo` still shows a verdict.",
                )
                return absent, ()
            driver, cuda, boards = nvml.driver(), nvml.cuda(), nvml.boards()
            gpus = tuple(device.gpu for device in visible_devices(boards, env))
    except PerfgateError as error:
        return _failed("GPU", error), ()
    if not gpus:
        said = f"{VARIABLE}={env[VARIABLE]!r}" if VARIABLE in env else "MIG mode without a slice"
        hidden = Finding(
            check="GPU",
            ok=False,
            fact=f"driver {driver} has {len(boards)} GPU(s), and CUDA will see none of them ({said})",
            advice=f"Unset {VARIABLE}, or set it to an index or UUID that nvidia-smi -L lists.",
        )
        return hidden, ()
    names = ", ".join(f"{gpu.name} ({gpu.uuid})" for gpu in gpus)
    return Finding(check="GPU", ok=True, fact=f"{names}, driver {driver}, CUDA {cuda}"), gpus


def check_idle(
    gpus: Sequence[Gpu], *, library: NvmlLibrary = NVML, patience_s: float = IDLE_PATIENCE_S
) -> Finding:
    """Say whether somebody else uses the GPUs."""
    try:
        complaint = wait_until_idle(gpus, patience_s, library=library)
    except PerfgateError as error:
        return _failed("GPU idle", error)
    if complaint is None:
        return Finding(check="GPU idle", ok=True, fact="no other process computes on it")
    return Finding(
        check="GPU idle",
        ok=False,
        fact=complaint,
        advice="End that process or choose another GPU by CUDA_VISIBLE_DEVICES: runs on a shared GPU are INVALID.",
    )


def check_nsys(setting: str | None, env: Mapping[str, str]) -> tuple[Finding, NsysTool | None]:
    """Find nsys as a run would."""
    try:
        tool = find_nsys(None, env, setting=setting)
    except PerfgateError as error:
        return _failed("nsys", error), None
    return Finding(check="nsys", ok=True, fact=f"{tool.version} at {tool.path}"), tool


def check_trial(
    tool: NsysTool,
    *,
    env: Mapping[str, str],
    pass_env: Sequence[str],
    python: str,
    gpu_expected: bool,
    capture: Profile = profile,
    read: Read = seam.read,
) -> tuple[Finding, ...]:
    """Profile a program of one NVTX range and one copy to the GPU, and look for both in the capture."""
    remove_left_folders()
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}doctor-"))
    program = folder / "trial.py"
    program.write_text(TRIAL_PROGRAM, encoding="utf-8")
    kept, _ = withhold_secrets(env, tuple(pass_env))
    spec = ProfileSpec(
        argv=(python, str(program)),
        folder=folder / "capture",
        cwd=folder,
        env=kept,
        timeout_s=TRIAL_TIMEOUT_S,
        capture=CaptureMode.ALL,
        graph_trace=GraphTrace.GRAPH,
    )
    try:
        with underway(folder):
            outcome = capture(tool, spec)
            if outcome.problem is not None or not outcome.captures:
                _keep_logs(folder)  # the problem may point into one
                return (_no_capture(tool, outcome),)
            timelines = [read(found.sqlite) for found in outcome.captures]
    except PerfgateError as error:
        _keep_logs(folder)
        return (_failed("trial capture", error),)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    said = {
        key: rest
        for key, _, rest in (line.partition(": ") for line in outcome.tail)
        if key.startswith("perfgate-")
    }
    captured = Finding(
        check="trial capture",
        ok=True,
        fact=f"nsys wrote and exported one in {outcome.wall_s:.1f} s",
    )
    return (
        captured,
        _hear(tool, said, timelines),
        _see_gpu(tool, said, timelines, gpu_expected=gpu_expected),
    )


def _keep_logs(folder: Path) -> None:
    """Remove what holds the environment, or may: all but logs."""
    for file in folder.rglob("*"):
        if file.suffix != ".log" and not file.is_dir():
            file.unlink(missing_ok=True)


def check_torch(
    python: str,
    *,
    env: Mapping[str, str],
    gpu_expected: bool,
    cwd: Path,
    timeout_s: float = TORCH_TIMEOUT_S,
) -> Finding:
    """Import torch in a process of its own and ask it for CUDA."""
    check = "torch"
    try:
        done = subprocess.run(
            (python, "-c", TORCH_PROGRAM),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding(
            check=check,
            ok=False,
            fact=f"`import torch` took longer than {timeout_s:g} s",
            advice=f'See where it hangs: {python} -X importtime -c "import torch"',
        )
    except OSError as error:
        return Finding(
            check=check,
            ok=False,
            fact=f"{python} could not be started: {error.strerror}",
            advice="Install perfgate into the interpreter that your workloads use.",
        )
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        complaint = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        if "No module named 'torch'" in complaint:
            return Finding(
                check=check,
                ok=None,
                fact=f"not installed for {python}",
                advice="Workloads of Python functions need it: install the PyTorch build for your CUDA (pytorch.org). "
                "Workloads that run a command do not.",
            )
        return Finding(
            check=check,
            ok=False,
            fact=f"`import torch` failed: {complaint}",
            advice=f'Make this work first: {python} -c "import torch"',
        )
    told = json.loads(lines[-1])
    fact = (
        f"torch {told['torch']}, built for {'CUDA ' + told['cuda'] if told['cuda'] else 'the CPU'}"
    )
    if told["gpus"]:
        return Finding(check=check, ok=True, fact=f"{fact}, sees {told['gpus']} GPU(s)")
    if not gpu_expected:
        return Finding(check=check, ok=None, fact=f"{fact}, sees no GPU, as there is none")
    needed = (
        "a driver that is new enough for it"
        if told["cuda"]
        else "a build with CUDA (pytorch.org names the command)"
    )
    return Finding(
        check=check,
        ok=False,
        fact=f"{fact}, sees no GPU although the driver has one",
        advice=f"Install {needed}, then see: {python} -c \"import torch; torch.zeros(1, device='cuda')\"",
    )


def check_disk(kept: Path) -> Finding:
    """Say whether captures can be written where results are kept, and will fit."""
    there = next(folder for folder in (kept, *kept.absolute().parents) if folder.is_dir())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        return Finding(
            check="disk",
            ok=False,
            fact=f"nothing can be kept in {kept}: {there} cannot be written ({error.strerror})",
            advice="Make it writable for this user: a gate keeps its results and captures there.",
        )
    free = shutil.disk_usage(there).free
    fact = f"{free / 1e9:.1f} GB free for {kept}"
    if free >= FREE_BYTES:
        return Finding(check="disk", ok=True, fact=fact)
    return Finding(
        check="disk",
        ok=False,
        fact=fact,
        advice=f"Free some: a gate may need {FREE_BYTES / 1e9:.0f} GB for its captures. Kept results of earlier gates "
        f"may go: rm -r {kept}",
    )


def check_locks(folder: Path | None = None) -> Finding:
    """Say whether gates can take turns in a folder, by default this machine's."""
    try:
        folder = prepare_folder(machine_folder() if folder is None else folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except PerfgateError as error:
        return _failed("locks", error)
    except OSError as error:
        return Finding(
            check="locks",
            ok=False,
            fact=f"{folder} cannot be written: {error.strerror}",
            advice=f"As its owner or as root: chmod 1777 {folder}",
        )
    return Finding(check="locks", ok=True, fact=f"gates take turns through {folder}")


def check_repository(root: Path, *, env: Mapping[str, str], baselines: str) -> Finding:
    """Say whether measurements can name their commit."""
    try:
        commit = require_commit(root, env=env, baselines=baselines)
    except PerfgateError as error:
        return Finding(check="git", ok=None, fact=error.fact, advice=error.next_step)
    return Finding(
        check="git",
        ok=True,
        fact=f"commit {commit.sha[:12]}" + (", with changes" if commit.dirty else ""),
    )


def check_workloads(root: Path, workloads: str) -> Finding:
    """Say whether there is anything to measure."""
    folder = root / workloads
    if count := sum(1 for _ in workload_files(folder)):
        return Finding(check="workloads", ok=True, fact=f"{count} file(s) in {workloads}/")
    return Finding(
        check="workloads",
        ok=False,
        fact=f"{folder} holds no workload" if folder.is_dir() else f"there is no folder {folder}",
        advice=f"Write one into {workloads}/ (perfgate init does), or set `workloads` in [tool.perfgate] to the folder "
        "that holds yours.",
    )


def check_orphans(orphans: Sequence[str] | PerfgateError) -> Finding:
    """Name the baselines that guard nothing any more; without knowing all workloads nobody knows which these are."""
    if isinstance(orphans, PerfgateError):
        return Finding(check=orphans.subject, ok=False, fact=orphans.fact, advice=orphans.next_step)
    if not orphans:
        return Finding(check="baselines", ok=True, fact="each belongs to a workload")
    named = " ".join(sorted(orphans))
    return Finding(
        check="baselines",
        ok=False,
        fact=f"{len(orphans)} without a workload: {named}",
        advice=f"Bring the workload back under its name or, if it is gone for good: git rm {named}",
    )


def check_distribution(told: str | None) -> tuple[Finding, ...]:
    """Say that a standing option of pytest-xdist is none of a gate's."""
    if told is None:
        return ()
    fact = f"pytest is told to distribute its tests ({told}). A gate does not: it measures one workload after another"
    return (Finding(check="pytest-xdist", ok=None, fact=fact),)


def check_workflows(
    faults: Sequence[str], *, written: bool, asked_for: str | None
) -> tuple[Finding, ...]:
    """Say whether runners can install perfgate.

    Args:
        faults: what is wrong with the install steps of the workflows, a clause each.
        written: whether there are workflows.
        asked_for: where no runner reaches what is installed here, how to name what it reaches.
    """
    check = "workflows"
    if faults:
        more = f" (and {len(faults) - 1} more)" if faults[1:] else ""
        advice = asked_for or "Write them anew: perfgate init --force"
        return (Finding(check=check, ok=False, fact=f"{faults[0]}{more}", advice=advice),)
    if written:
        return (Finding(check=check, ok=True, fact="runners can install perfgate"),)
    return (
        ()
        if asked_for is None
        else (Finding(check=check, ok=None, fact="none yet", advice=asked_for),)
    )


def _no_capture(tool: NsysTool, outcome: ProfileOutcome) -> Finding:
    fact = (
        say.fact(outcome.problem)
        if outcome.problem
        else f"nsys {tool.version} left no capture of a program that ran {outcome.wall_s:.1f} s"
    )
    fact = fact.rstrip(".")
    packages = packages_of(missing_libraries(tool.path))
    advice = (
        f"Install {' '.join(packages)} (apt-get install), then run perfgate doctor again."
        if packages
        else ""
    )
    tail = f" The last lines were: {' | '.join(outcome.tail[-3:])}" if outcome.tail else ""
    return Finding(
        check="trial capture",
        ok=False,
        fact=fact,
        advice=advice
        or f"See what nsys says by itself: {tool.path} profile --trace=cuda,nvtx true.{tail}",
    )


def _hear(tool: NsysTool, said: Mapping[str, str], timelines: Sequence[Timeline]) -> Finding:
    check = "nvtx"
    version = said.get("perfgate-nvtx", "absent, and the trial program said nothing")
    if version.startswith("absent"):
        return Finding(
            check=check,
            ok=False,
            fact=f"the nvtx package cannot be imported ({version.removeprefix('absent').strip(', ')})",
            advice="Install it into the interpreter of your workloads: pip install nvtx",
        )
    if any(TRIAL_RANGE in timeline.ranges.name.texts for timeline in timelines):
        return Finding(check=check, ok=True, fact=f"nsys {tool.version} hears nvtx {version}")
    incompatible = next(
        (
            note.text
            for timeline in timelines
            for note in timeline.diagnostics
            if "payload extension" in note.text
        ),
        "",
    )
    why = f" ({incompatible.rstrip('.')})" if incompatible else ""
    return Finding(
        check=check,
        ok=False,
        fact=f"nsys {tool.version} does not hear nvtx {version}: its range is not in the capture{why}",
        advice='Install an older one (pip install "nvtx<0.2.12") or a newer nsys (2024.6 or later), or mark ranges by '
        "torch.cuda.nvtx, which is heard by every nsys.",
    )


def _see_gpu(
    tool: NsysTool, said: Mapping[str, str], timelines: Sequence[Timeline], *, gpu_expected: bool
) -> Finding:
    check = "GPU trace"
    done = said.get("perfgate-gpu", "nothing")
    operations = sum(timeline.gpu_operations for timeline in timelines)
    if operations:
        return Finding(check=check, ok=True, fact=f"nsys {tool.version} records the GPU's work")
    if not gpu_expected:
        return Finding(check=check, ok=None, fact="there is no GPU whose work could be recorded")
    if done != "copied":
        return Finding(
            check=check,
            ok=False,
            fact=f"a copy to the GPU failed: {done}",
            advice="Run nvidia-smi and look for an error; in Docker, start the container with --gpus all and with the "
            "driver capability `compute` (NVIDIA_DRIVER_CAPABILITIES).",
        )
    notes = [
        note.text
        for timeline in timelines
        for note in timeline.diagnostics
        if note.severity in {2, 3}
    ]
    return Finding(
        check=check,
        ok=False,
        fact=f"a copy to the GPU worked, and nsys {tool.version} recorded none"
        + (f" ({notes[0].rstrip('.')})" if notes else ""),
        advice="Only one profiler at a time can trace CUDA: end ncu, DCGM profiling or another nsys. Otherwise install "
        "an nsys that is as new as the driver.",
    )


def _failed(check: str, error: PerfgateError) -> Finding:
    return Finding(check=check, ok=False, fact=say.fact(error), advice=error.next_step)
