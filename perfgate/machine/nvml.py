"""The one home of NVML: handles, versions and sensors as plain values; it knows nothing of runs or
verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

import pynvml

from perfgate.model.errors import MachineUnreadable
from perfgate.model.machine import POWER_CAP, Gpu

Value = TypeVar("Value")
Handle = object

NvmlLibrary = Any
"""pynvml, which has no types, or what stands in for it. Every function raises
`pynvml.NVMLError`."""
NVML: Final[NvmlLibrary] = pynvml
"""The real library."""


IDLE: Final = 0x001
"""The bit of NVML's clock event (throttle) reasons of a GPU that does nothing."""
THROTTLING: Final = {
    0x008: "HW slowdown",
    0x020: "SW thermal slowdown",
    0x040: "HW thermal slowdown",
    0x080: "HW power brake",
}
"""Those that invalidate a measurement, by bit."""
LIMITS: Final = {
    0x002: "application clocks setting",
    0x004: POWER_CAP,
    0x010: "sync boost",
    0x100: "display clock setting",
    0x200: "board limit",
    0x400: "reliability limit",
}
"""Those that are noted. The SW power cap is no fault: a heavy load always meets it."""

ABSENT: Final = frozenset(
    {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
    }
)
"""Answers of nvmlInit that mean: no GPU for us here. Any other one means a driver that is there and
fails."""


WITHOUT_MIG: Final = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
"""Answers of GPUs and drivers that know no slices."""


class Sensor(StrEnum):
    """What is sampled, as it is named in messages."""

    SM_CLOCK = "SM clock"
    CLOCK_EVENTS = "clock event reasons"
    TEMPERATURE = "temperature"
    POWER = "power"
    UTILISATION = "utilisation"
    PROCESSES = "compute processes"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """All sensors of one GPU at one moment; what the driver refused is None, and `refused` says
    why."""

    sm_clock_mhz: int | None = None
    clock_events: int | None = None
    """Bits of `IDLE`, `THROTTLING` and `LIMITS`."""
    temperature_c: int | None = None
    power_w: float | None = None
    utilisation_percent: int | None = None
    processes: tuple[int, ...] | None = None
    """Process ids with a compute context, in the driver's numbering."""
    refused: dict[Sensor, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A whole GPU, or one MIG slice of one."""

    gpu: Gpu
    handle: Handle
    """Answers for processes."""
    board: Handle
    """The whole GPU, which alone answers for clocks, temperature and power."""


class NoDriver(MachineUnreadable):
    """There is no NVIDIA driver that we could talk to."""


class Nvml:
    """A started NVML: get one from `open_nvml`."""

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    def driver(self) -> str:
        """Return the driver's version. Raises MachineUnreadable."""
        return str(_demand("the driver version", self._library.nvmlSystemGetDriverVersion))

    def cuda(self) -> str:
        """Return the newest CUDA that the driver offers, as `13.0`. Raises MachineUnreadable."""
        number = _demand("the CUDA version", self._library.nvmlSystemGetCudaDriverVersion_v2)
        return f"{number // 1000}.{number % 1000 // 10}"

    def gpus(self) -> tuple[Device, ...]:
        """Return all physical GPUs in NVML's order: by PCI bus. Raises MachineUnreadable."""
        library = self._library
        handles = (
            _demand(f"which is GPU {index}", library.nvmlDeviceGetHandleByIndex, index)
            for index in range(_demand("the number of GPUs", library.nvmlDeviceGetCount))
        )
        return tuple(map(self._described, handles))

    def in_mig_mode(self, device: Device) -> bool:
        """Say whether a GPU is split into slices. Raises MachineUnreadable."""
        try:
            return bool(self._library.nvmlDeviceGetMigMode(device.board)[0])
        except pynvml.NVMLError as error:
            if error.value in WITHOUT_MIG:
                return False
            raise _unreadable("the MIG mode", error) from error

    def device(self, uuid: str) -> Device:
        """Find a GPU or MIG slice by its UUID. Raises MachineUnreadable."""
        library = self._library
        handle = _demand(f"which is GPU {uuid}", library.nvmlDeviceGetHandleByUUID, uuid)
        if not uuid.startswith("MIG-"):
            return self._described(handle)
        board = _demand(
            f"the GPU of {uuid}", library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle
        )
        return self._described(handle, board=board)

    def max_sm_clock_mhz(self, device: Device) -> int | None:
        """Return the highest SM clock the GPU can run at, MHz; None where the driver does not
        say.
        """
        try:
            clock = self._library.nvmlDeviceGetMaxClockInfo(device.board, pynvml.NVML_CLOCK_SM)
        except pynvml.NVMLError:
            return None
        return int(clock)

    def read(self, device: Device) -> Reading:
        """Read every sensor once. Never raises: what the driver refuses is None, with its words in
        `refused`."""
        library, board, handle = self._library, device.board, device.handle
        refused: dict[Sensor, str] = {}

        def ask(sensor: Sensor, question: Callable[[], Value]) -> Value | None:
            try:
                return question()
            except pynvml.NVMLError as error:
                refused[sensor] = str(error)
                return None

        return Reading(
            power_w=ask(Sensor.POWER, lambda: library.nvmlDeviceGetPowerUsage(board) / 1000),
            sm_clock_mhz=ask(
                Sensor.SM_CLOCK, lambda: library.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_SM)
            ),
            clock_events=ask(Sensor.CLOCK_EVENTS, lambda: self._clock_events(board)),
            temperature_c=ask(
                Sensor.TEMPERATURE,
                lambda: library.nvmlDeviceGetTemperature(board, pynvml.NVML_TEMPERATURE_GPU),
            ),
            # Asked of the slice, not of its GPU: a neighbour slice's load is none of ours. MIG
            # refuses it.
            utilisation_percent=ask(
                Sensor.UTILISATION, lambda: library.nvmlDeviceGetUtilizationRates(handle).gpu
            ),
            processes=ask(
                Sensor.PROCESSES,
                lambda: tuple(
                    one.pid for one in library.nvmlDeviceGetComputeRunningProcesses(handle)
                ),
            ),
            refused=refused,
        )

    def _clock_events(self, board: Handle) -> int:
        try:
            return int(self._library.nvmlDeviceGetCurrentClocksEventReasons(board))
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                raise
        # Drivers before 535 know it by this name.
        return int(self._library.nvmlDeviceGetCurrentClocksThrottleReasons(board))

    def _described(self, handle: Handle, *, board: Handle | None = None) -> Device:
        library = self._library
        memory_mib: int | None = None
        with suppress(pynvml.NVMLError):
            memory_mib = int(library.nvmlDeviceGetMemoryInfo(handle).total) // 2**20
        gpu = Gpu(
            name=_demand("a GPU's name", library.nvmlDeviceGetName, handle),
            uuid=_demand("a GPU's UUID", library.nvmlDeviceGetUUID, handle),
            mig=board is not None,
            memory_mib=memory_mib,
        )
        return Device(gpu=gpu, handle=handle, board=handle if board is None else board)


@contextmanager
def open_nvml(library: NvmlLibrary = NVML) -> Iterator[Nvml]:
    """Start NVML and stop it again.

    Raises:
        NoDriver: there is nothing to talk to.
        MachineUnreadable: the driver is there and fails.
    """
    try:
        library.nvmlInit()
    except pynvml.NVMLError as error:
        kind = NoDriver if error.value in ABSENT else MachineUnreadable
        raise _unreadable("its version", error, kind) from error
    try:
        yield Nvml(library)
    finally:
        with suppress(pynvml.NVMLError):  # nothing more is asked of it
            library.nvmlShutdown()


def _demand(what: str, question: Callable[..., Value], *about: object) -> Value:
    try:
        return question(*about)
    except pynvml.NVMLError as error:
        raise _unreadable(what, error) from error


def _unreadable(
    what: str, error: pynvml.NVMLError, kind: type[MachineUnreadable] = MachineUnreadable
) -> MachineUnreadable:
    return kind("nvml-failed", what=what, why=str(error).rstrip("."))
