"""What a first run needs, checked one by one: each finding is measured here and now; it prints and
repairs nothing."""

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

from perfgate.machine.identity import VARIABLE, visible_devices
from perfgate.machine.lock import prepare_folder
from perfgate.machine.nvml import NVML, NoDriver, NvmlLibrary, open_nvml
from perfgate.machine.sampler import wait_until_idle
from perfgate.model.errors import PerfgateError
from perfgate.model.machine import Gpu
from perfgate.model.note import Note, Severity, note, noted
from perfgate.model.settings import GraphTrace, Settings
from perfgate.model.timeline import Timeline
from perfgate.model.workload import CaptureMode
from perfgate.profilers import seam
from perfgate.profilers.nsys.command import withhold_secrets
from perfgate.profilers.nsys.profile import profile
from perfgate.profilers.nsys.tool import NsysTool, find_nsys
from perfgate.profilers.seam import ProfileOutcome, ProfileSpec
from perfgate.system.files import temporary_folder
from perfgate.system.git import require_commit
from perfgate.words.say import Coded
from perfgate.workload import workload_files

FREE_BYTES: Final = 2 * 10**9
"""What a gate of several runs may need at once: captures and their exports are tens to hundreds of
MB each."""
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
    device_of_context = (ctypes.byref(context), device)
    steps = (
        ("cuInit", lambda: cuda.cuInit(0)),
        ("cuDeviceGet", lambda: cuda.cuDeviceGet(ctypes.byref(device), 0)),
        ("cuDevicePrimaryCtxRetain", lambda: cuda.cuDevicePrimaryCtxRetain(*device_of_context)),
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
"""One NVTX range by the nvtx package and one copy to the GPU by the driver's own API: torch would
take seconds."""

TORCH_PROGRAM: Final = """\
import json, torch
found = {"torch": torch.__version__, "cuda": torch.version.cuda}
print(json.dumps({**found, "gpus": torch.cuda.device_count()}))
"""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check."""

    check: str
    said: Coded
    """A note, or the error by which it failed."""

    @property
    def ok(self) -> bool | None:
        """Whether it holds; None where it could not be made or decides nothing."""
        severity = self.said.severity if isinstance(self.said, Note) else BAD
        return {BAD: False, OPEN: None}.get(severity, True)


BAD: Final = Severity.INVALID
OPEN: Final = Severity.WARN
"""Of a check that could not be made, or decides nothing."""


Profile = Callable[[NsysTool, ProfileSpec], ProfileOutcome]
Read = Callable[[Path], Timeline]


@dataclass(frozen=True, kw_only=True, slots=True)
class Examined:
    """What is examined."""

    root: Path
    """The project's."""
    settings: Settings
    env: Mapping[str, str]
    """The environment that workloads will get."""
    library: NvmlLibrary = NVML
    python: str = sys.executable
    """The interpreter that workloads run in."""


def examine(place: Examined) -> tuple[CheckResult, ...]:
    """Check all that a first run needs, in the order in which a run needs it. Takes some 10 s: it
    makes a capture."""
    gpu, gpus = check_gpu(place.env, library=place.library)
    found: list[CheckResult] = [gpu]
    if gpus:
        found.append(check_idle(gpus, library=place.library))
    try:
        tool = find_nsys(None, place.env, setting=place.settings.nsys)
        there = note("nsys-there", version=str(tool.version), path=str(tool.path))
        found.append(CheckResult("nsys", there))
        found += check_trial(tool, place, gpu_expected=bool(gpus))
    except PerfgateError as error:
        found.append(CheckResult("nsys", error))
    return (
        *found,
        check_torch(place, gpu_expected=bool(gpus)),
        check_disk(place.root / ".perfgate"),
        check_locks(),
        check_repository(place.root, env=place.env, baselines=place.settings.baselines),
        check_workloads(place.root, place.settings.workloads),
    )


def check_gpu(
    env: Mapping[str, str], *, library: NvmlLibrary = NVML
) -> tuple[CheckResult, tuple[Gpu, ...]]:
    """Say which GPUs a workload will see."""
    try:
        with open_nvml(library) as nvml:
            driver, cuda, boards = nvml.driver(), nvml.cuda(), len(nvml.gpus())
            gpus = tuple(device.gpu for device in visible_devices(nvml, env))
    except NoDriver as none:
        return CheckResult("GPU", note("gpu-no-driver", BAD, reason=none.fact)), ()
    except PerfgateError as error:
        return CheckResult("GPU", error), ()
    if not gpus:
        why = f"{VARIABLE}={env.get(VARIABLE, '')!r}"
        hidden = note("gpu-hidden", BAD, driver=driver, boards=boards, why=why, variable=VARIABLE)
        return CheckResult("GPU", hidden), ()
    names = tuple(f"{gpu.name} ({gpu.uuid})" for gpu in gpus)
    return CheckResult("GPU", note("gpu-there", gpus=names, driver=driver, cuda=str(cuda))), gpus


def check_idle(
    gpus: Sequence[Gpu], *, library: NvmlLibrary = NVML, patience_s: float = IDLE_PATIENCE_S
) -> CheckResult:
    """Say whether somebody else uses the GPUs."""
    try:
        busy = wait_until_idle(gpus, patience_s, library=library)
    except PerfgateError as error:
        return CheckResult("GPU idle", error)
    said = note("gpu-idle") if busy is None else note("gpu-busy", BAD, reason=busy)
    return CheckResult("GPU idle", said)


def check_trial(
    tool: NsysTool,
    place: Examined,
    *,
    gpu_expected: bool,
    capture: Profile = profile,
    read: Read = seam.read,
) -> tuple[CheckResult, ...]:
    """Profile a program of one NVTX range and one copy to the GPU, and look for both in the
    capture.

    Raises:
        PerfgateError: nsys cannot be run, or its capture not read.
    """
    kept, _ = withhold_secrets(place.env, place.settings.pass_env)
    with temporary_folder("doctor") as folder:
        program = folder / "trial.py"
        program.write_text(TRIAL_PROGRAM, encoding="utf-8")
        spec = ProfileSpec(
            argv=(place.python, str(program)),
            folder=folder / "capture",
            cwd=folder,
            env=kept,
            timeout_s=TRIAL_TIMEOUT_S,
            capture=CaptureMode.ALL,
            graph_trace=GraphTrace.GRAPH,
        )
        outcome = capture(tool, spec)
        timelines = [read(found.sqlite) for found in outcome.captures]
    if outcome.problem is not None or not timelines:
        reason = outcome.problem or note("trial-left-nothing", wall_s=outcome.wall_s)
        failed = note("trial-failed", BAD, reason=noted(reason), nsys=str(tool.path))
        return (CheckResult("trial capture", failed),)
    lines = (line.partition(": ") for line in outcome.tail)
    printed = {key: rest for key, _, rest in lines if key.startswith("perfgate-")}
    heard = any(TRIAL_RANGE in timeline.ranges.name.texts for timeline in timelines)
    traced = any(timeline.gpu_operations for timeline in timelines)
    copied = printed.get("perfgate-gpu", "")
    return (
        CheckResult("trial capture", note("trial-done", wall_s=outcome.wall_s)),
        CheckResult("nvtx", _of_range(tool, printed.get("perfgate-nvtx", "absent"), heard=heard)),
        CheckResult("GPU trace", _of_copy(tool, copied, gpu_expected=gpu_expected, traced=traced)),
    )


def _of_range(tool: NsysTool, version: str, *, heard: bool) -> Note:
    if version.startswith("absent"):
        return note("nvtx-absent", BAD, reason=version)
    code, severity = ("nvtx-heard", Severity.INFO) if heard else ("nvtx-not-heard", BAD)
    return note(code, severity, nsys=str(tool.version), nvtx=version)


def _of_copy(tool: NsysTool, copied: str, *, gpu_expected: bool, traced: bool) -> Note:
    if traced:
        return note("gpu-traced", nsys=str(tool.version))
    if not gpu_expected:
        return note("gpu-none-to-trace", OPEN)
    if copied != "copied":
        return note("gpu-copy-failed", BAD, reason=copied)
    return note("gpu-not-traced", BAD, nsys=str(tool.version))


def check_torch(
    place: Examined, *, gpu_expected: bool, timeout_s: float = TORCH_TIMEOUT_S
) -> CheckResult:
    """Import torch in a process of its own and ask it for CUDA."""
    python = place.python
    try:
        done = subprocess.run(
            (python, "-c", TORCH_PROGRAM),
            cwd=place.root,
            env=dict(place.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        printed = getattr(error, "stderr", None) or ""
        reason = (str(printed).strip().splitlines() or [str(error)])[-1]
        if "No module named 'torch'" in reason:
            return CheckResult("torch", note("torch-absent", OPEN, python=python))
        return CheckResult("torch", note("torch-fails", BAD, reason=reason, python=python))
    found = json.loads(done.stdout.strip().splitlines()[-1])
    torch, gpus = found["torch"], found["gpus"]
    built = f"CUDA {found['cuda']}" if found["cuda"] else "the CPU"
    if gpus:
        said = note("torch-sees", torch=torch, built=built, gpus=gpus)
    elif gpu_expected:
        said = note("torch-sees-none", BAD, torch=torch, built=built, python=python)
    else:
        said = note("torch-without-gpu", OPEN, torch=torch, built=built)
    return CheckResult("torch", said)


def check_disk(kept: Path) -> CheckResult:
    """Say whether captures can be written where results are kept, and will fit."""
    there = next(folder for folder in (kept, *kept.absolute().parents) if folder.is_dir())
    folder, free = str(kept), shutil.disk_usage(there).free
    said = note("disk-free", free_bytes=free, folder=folder)
    if free < FREE_BYTES:
        said = note("disk-low", BAD, free_bytes=free, folder=folder, wanted_bytes=FREE_BYTES)
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        reason = error.strerror or str(error)
        said = note("folder-not-written", BAD, folder=str(there), reason=reason)
    return CheckResult("disk", said)


def check_locks() -> CheckResult:
    """Say whether gates can take turns on this machine."""
    try:
        return CheckResult("locks", note("locks-there", folder=str(prepare_folder())))
    except PerfgateError as error:
        return CheckResult("locks", error)


def check_repository(root: Path, *, env: Mapping[str, str], baselines: str) -> CheckResult:
    """Say whether measurements can name their commit."""
    try:
        commit = require_commit(root, env=env, baselines=baselines)
    except PerfgateError as error:
        return CheckResult("git", noted(error, OPEN))
    code = "commit-changed" if commit.dirty else "commit-there"
    return CheckResult("git", note(code, commit=commit.sha[:12]))


def check_workloads(root: Path, workloads: str) -> CheckResult:
    """Say whether there is anything to measure."""
    count = sum(1 for _ in workload_files(root / workloads))
    if not count:
        return CheckResult("workloads", note("workloads-none", BAD, folder=str(root / workloads)))
    return CheckResult("workloads", note("workloads-there", count=count, folder=workloads))


def check_orphans(orphans: Sequence[str] | PerfgateError) -> CheckResult:
    """Name the baselines that guard nothing any more; without knowing all workloads nobody knows
    which these are."""
    if isinstance(orphans, PerfgateError):
        return CheckResult("baselines", orphans)
    if not orphans:
        return CheckResult("baselines", note("baselines-owned"))
    paths = tuple(sorted(orphans))
    return CheckResult("baselines", note("baselines-orphaned", BAD, count=len(paths), paths=paths))
