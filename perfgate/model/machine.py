"""What a machine is: the facts that decide whether two measurements may be compared, and how it
felt meanwhile."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import Field, NonNegativeInt, PositiveInt

from perfgate.model.note import Note, NoteOrText, Notes, Severity, note
from perfgate.model.record import Record
from perfgate.model.secrets import looks_secret


class Gpu(Record):
    """One GPU, or one MIG slice of one, that the workload can see."""

    name: str
    uuid: str
    mig: bool = False
    memory_mib: int | None = None


class Machine(Record):
    """Where and with what a measurement was made; a fact that could not be read is None."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    torch: str | None = None
    nsys: str | None = None
    nsys_options: tuple[str, ...] = ()
    """The options that change what tracing costs: trace domains and graph mode."""
    nvtx: str | None = None
    python: str | None = None
    cpu: str | None = None
    cpu_count: PositiveInt | None = None

    @property
    def gpu_name(self) -> str:
        """The GPUs in one phrase: `NVIDIA H200`, `2 x NVIDIA H200`, `2 x NVIDIA H200 + NVIDIA T4`,
        `no GPU`."""
        named = Counter(
            f"{gpu.name} (MIG slice)" if gpu.mig and "MIG" not in gpu.name else gpu.name
            for gpu in self.gpus
        )
        each = (f"{count} x {name}" if count > 1 else name for name, count in sorted(named.items()))
        return " + ".join(each) or "no GPU"

    @property
    def slug(self) -> str:
        """The folder of this machine's baselines: `nvidia-h200`, `nvidia-h200-x2`, `no-gpu`.

        GPUs of several models, as many of each, are `nvidia-h200-nvidia-t4-x2`; else
        `nvidia-h200-x2-nvidia-t4-x1`.
        """
        counted = Counter(gpu.name for gpu in self.gpus)
        if not counted:
            return "no-gpu"
        alike = len(set(counted.values())) == 1
        names = [name if alike else f"{name} x{count}" for name, count in sorted(counted.items())]
        words = re.sub(r"[^a-z0-9]+", "-", "-".join(names).lower()).strip("-") or "unnamed-gpu"
        mig = "-mig" if any(gpu.mig for gpu in self.gpus) and "mig" not in words else ""
        return f"{words}{mig}" + (f"-x{len(self.gpus)}" if len(self.gpus) > 1 and alike else "")

    def differences_that_forbid_comparison(self, other: Machine) -> Notes:
        """Name what makes times of `self` (the baseline's machine) and `other` incomparable; empty
        if nothing does.

        GPU models and how many of each, MIG, the nsys version and its trace options: what tracing
        adds to a step is another share for each, so only like is compared with like. Without a GPU,
        what a step takes is the CPU's time: then its model and how many there are as well, and one
        that is unknown is no known one.
        """
        both = (self, other)
        if self.gpus or other.gpus:
            hardware = ("other-gpus", *(one.gpu_name for one in both))
        else:
            cpus = (f"{one.cpu or '?'} ({one.cpu_count or '?'})" for one in both)
            hardware = ("other-processor", *cpus)
        facts = (
            hardware,
            ("other-nsys", *(str(one.nsys) for one in both)),
            ("other-trace-options", *(" ".join(one.nsys_options) or "-" for one in both)),
        )
        return tuple(note(code, then=then, now=now) for code, then, now in facts if then != now)


POWER_CAP: Final = "SW power cap"
"""The clock event that a heavy load always meets, as NVML and older files name it."""


class GpuCondition(Record):
    """How one GPU felt during one run, sampled through NVML."""

    uuid: str
    ordinal: int | None = None
    """CUDA's number of it in the workload, as in `cuda:0`, where that is known."""
    samples: NonNegativeInt
    sm_clock_mhz: float | None = None
    """Median SM clock over the samples in which the GPU worked."""
    temperature_c: float | None = None
    power_w: float | None = None
    throttled: tuple[NoteOrText, ...] = ()
    """Reasons that make a run INVALID: hardware or thermal slowdown, power brake."""
    information: tuple[NoteOrText, ...] = Field(default=(), validation_alias="remarks")
    """What invalidates nothing, such as the power cap, and what could not be seen."""
    neighbours: tuple[str, ...] = ()
    """Other processes on the GPU, as `name (pid)`."""


class Conditions(Record):
    """How the machine felt during one run."""

    gpus: tuple[GpuCondition, ...] = ()

    @property
    def sm_clock_mhz(self) -> float | None:
        """The lowest median SM clock of the GPUs, MHz."""
        clocks = [gpu.sm_clock_mhz for gpu in self.gpus if gpu.sm_clock_mhz is not None]
        return min(clocks, default=None)

    @property
    def invalid(self) -> Notes:
        """What makes the run INVALID; empty if nothing does."""
        found: list[Note] = []
        for gpu in self.gpus:
            title = gpu_title(0, None, gpu.uuid, None)
            if gpu.throttled:
                found.append(note("gpu-throttled", gpu=title, by=gpu.throttled))
            if gpu.neighbours:
                found.append(note("gpu-shared", gpu=title, by=gpu.neighbours))
        return tuple(found)


def gpu_title(device: int, ordinal: int | None, uuid: str | None, bus: str | None) -> str:
    """A GPU by CUDA's number in its process; where that is not known by what tells it apart, last
    by nsys's number."""
    if ordinal is not None:
        return f"GPU {ordinal}"
    if uuid or bus:
        return f"GPU {uuid or bus}"
    return f"GPU {device} of the capture"


_TUNES: Final = re.compile(
    r"(?:NCCL|CUDA|CUBLAS|CUBLASLT|CUDNN|PYTORCH|OMP|GOMP|KMP|MKL|OPENBLAS|TRITON)_\w+|TORCH\w*_\w+|NVIDIA_TF32_OVERRIDE"
)
_OF_PLACE: Final = re.compile(
    r"CUDA_VISIBLE_DEVICES|CUDA_MPS_\w*|\w*_INJECTION\d*_PATH|TORCHELASTIC_\w+|NCCL_(?:COMM_ID|HOSTID)|CUDA_PKG\w*"
    r"|\w+_(?:HOME|PATH|ROOT|DIR|DIRECTORY|FOLDER|CACHE)"
)
"""Of them those that say which machine, folder or run it is."""


def tuning(env: Mapping[str, str], *, places: Iterable[str] = ()) -> dict[str, str]:
    """The variables of an environment that may change how fast what it is given to is.

    Left out is what differs from run to run or from machine to machine without that: GPUs chosen,
    folders, ids, paths under temporary folders and under `places`. Never a secret.
    """
    temporary = [tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"]
    temporary += [env[name] for name in ("TMPDIR", "TEMP", "RUNNER_TEMP") if env.get(name)]
    below = tuple(f"{one.rstrip('/')}/" for one in (*temporary, *places) if one.strip("/"))
    return {
        name: value
        for name, value in sorted(env.items())
        if _TUNES.fullmatch(name)
        and not _OF_PLACE.fullmatch(name)
        and not looks_secret(name, value)
        and not any(one in value for one in below)
    }


def differing(
    then: Iterable[Mapping[str, str] | None], now: Mapping[str, str] | None
) -> Note | None:
    """Name the variables that were set in another way each time before; None where none was, or
    that is not known.

    The newest of `then` comes last.
    """
    known = [one for one in then if one is not None]
    if now is None or not known:
        return None
    changes = tuple(
        note("variable-changed", name=name, then=_set(known[-1].get(name)), now=_set(now.get(name)))
        for name in sorted({*now, *known[-1]})
        if all(one.get(name) != now.get(name) for one in known)
    )
    return note("environment-changed", Severity.WARN, changes=changes) if changes else None


def _set(value: str | None) -> str | Note:
    return note("variable-not-set") if value is None else repr(value)
