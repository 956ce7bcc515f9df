"""The one home of NVML: handles, versions and sensors as plain values; it knows nothing of runs or
verdicts."""

# ruff: noqa: N802 (the names are NVML's)

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeVar

import pynvml

from perfgate.model.errors import MachineUnreadable
from perfgate.model.machine import Gpu

Value = TypeVar("Value")
Handle = object


class _Rates(Protocol):
    @property
    def gpu(self) -> int: ...


class _Memory(Protocol):
    @property
    def total(self) -> int: ...


class _Process(Protocol):
    @property
    def pid(self) -> int: ...


class NvmlLibrary(Protocol):
    """What perfgate calls of pynvml. Every function raises `pynvml.NVMLError`.

    Two more are called where they exist, since their names differ between versions of the package:
    see `CLOCK_EVENT_FUNCTIONS` and `_temperature`.
    """

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str: ...
    def nvmlSystemGetCudaDriverVersion_v2(self) -> int: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle: ...
    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Handle: ...
    def nvmlDeviceGetName(self, handle: Handle) -> str: ...
    def nvmlDeviceGetUUID(self, handle: Handle) -> str: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Handle) -> _Memory: ...
    def nvmlDeviceGetMigMode(self, handle: Handle) -> Sequence[int]: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Handle) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Handle, index: int) -> Handle: ...
    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Handle) -> Handle: ...
    def nvmlDeviceGetClockInfo(self, handle: Handle, clock: int) -> int: ...
    def nvmlDeviceGetMaxClockInfo(self, handle: Handle, clock: int) -> int: ...
    def nvmlDeviceGetPowerUsage(self, handle: Handle) -> int: ...
    def nvmlDeviceGetUtilizationRates(self, handle: Handle) -> _Rates: ...
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Handle) -> Sequence[_Process]: ...


NVML: Final[NvmlLibrary] = pynvml
"""The real library."""

CLOCK_EVENT_FUNCTIONS: Final = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)
"""One question under two names: drivers before 535 know only the second, packages after CUDA 13
only the first."""


class Gravity(StrEnum):
    """What a clock event reason means for a measurement."""

    IDLE = "idle"
    REMARK = "remark"
    INVALIDATES = "invalidates"


@dataclass(frozen=True, slots=True)
class ClockEvent:
    """One bit of NVML's clock event (throttle) reasons."""

    bit: int
    name: str
    gravity: Gravity


CLOCK_EVENTS: Final = (
    ClockEvent(0x001, "GPU idle", Gravity.IDLE),
    ClockEvent(0x002, "application clocks setting", Gravity.REMARK),
    ClockEvent(0x004, "SW power cap", Gravity.REMARK),
    ClockEvent(0x008, "HW slowdown", Gravity.INVALIDATES),
    ClockEvent(0x010, "sync boost", Gravity.REMARK),
    ClockEvent(0x020, "SW thermal slowdown", Gravity.INVALIDATES),
    ClockEvent(0x040, "HW thermal slowdown", Gravity.INVALIDATES),
    ClockEvent(0x080, "HW power brake", Gravity.INVALIDATES),
    ClockEvent(0x100, "display clock setting", Gravity.REMARK),
    ClockEvent(0x200, "board limit", Gravity.REMARK),
    ClockEvent(0x400, "reliability limit", Gravity.REMARK),
)
"""nvml.h's nvmlClocksEventReasons. The SW power cap is no fault: a heavy load always meets it."""

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


class Sensor(StrEnum):
    """What is sampled, as it is named in remarks."""

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
    """Bits of `CLOCK_EVENTS`."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """One physical GPU, in NVML's order: by PCI bus."""

    whole: Device
    mig_enabled: bool
    slices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class NoDriver:
    """There is no NVIDIA driver that we could talk to; `reason` in NVML's words."""

    reason: str


class Nvml:
    """A started NVML: get one from `open_nvml`."""

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    def driver(self) -> str:
        """Return the driver's version. Raises MachineUnreadable."""
        return _demand("the driver version", self._library.nvmlSystemGetDriverVersion)

    def cuda(self) -> str:
        """Return the newest CUDA that the driver offers, as `13.0`. Raises MachineUnreadable."""
        number = _demand("the CUDA version", self._library.nvmlSystemGetCudaDriverVersion_v2)
        return f"{number // 1000}.{number % 1000 // 10}"

    def boards(self) -> tuple[Board, ...]:
        """Return all physical GPUs with their MIG slices. Raises MachineUnreadable."""
        count = _demand("the number of GPUs", self._library.nvmlDeviceGetCount)
        return tuple(self._board(index) for index in range(count))

    def device(self, gpu: Gpu) -> Device:
        """Find a GPU or MIG slice again by its UUID. Raises MachineUnreadable."""
        handle = _demand(
            f"which is GPU {gpu.uuid}", lambda: self._library.nvmlDeviceGetHandleByUUID(gpu.uuid)
        )
        board = handle
        if gpu.mig:
            board = _demand(
                f"the GPU of {gpu.uuid}",
                lambda: self._library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle),
            )
        return Device(gpu=gpu, handle=handle, board=board)

    def max_sm_clock_mhz(self, device: Device) -> int | None:
        """Return the highest SM clock the GPU can run at, MHz; None where the driver does not say."""
        try:
            return self._library.nvmlDeviceGetMaxClockInfo(device.board, pynvml.NVML_CLOCK_SM)
        except pynvml.NVMLError:
            return None

    def read(self, device: Device) -> Reading:
        """Read every sensor once. Never raises: what the driver refuses is None, with its words in
        `refused`."""
        library, board = self._library, device.board
        refused: dict[Sensor, str] = {}

        def ask(sensor: Sensor, question: Callable[[], Value]) -> Value | None:
            try:
                return question()
            except pynvml.NVMLError as error:
                refused[sensor] = str(error)
                return None

        milliwatts = ask(Sensor.POWER, lambda: library.nvmlDeviceGetPowerUsage(board))
        return Reading(
            sm_clock_mhz=ask(
                Sensor.SM_CLOCK, lambda: library.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_SM)
            ),
            clock_events=ask(Sensor.CLOCK_EVENTS, lambda: self._clock_events(board)),
            temperature_c=ask(Sensor.TEMPERATURE, lambda: self._temperature(board)),
            power_w=None if milliwatts is None else milliwatts / 1000,
            # Asked of the slice, not of its GPU: a neighbour slice's load is none of ours. MIG
            # refuses it.
            utilisation_percent=ask(
                Sensor.UTILISATION, lambda: library.nvmlDeviceGetUtilizationRates(device.handle).gpu
            ),
            processes=ask(
                Sensor.PROCESSES,
                lambda: tuple(
                    found.pid
                    for found in library.nvmlDeviceGetComputeRunningProcesses(device.handle)
                ),
            ),
            refused=refused,
        )

    def _clock_events(self, board: Handle) -> int:
        return self._first_known(CLOCK_EVENT_FUNCTIONS, board)

    def _temperature(self, board: Handle) -> int:
        # The first is deprecated and will go with CUDA 14; the second is unknown to drivers before
        # 565.
        names = ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV")
        return self._first_known(names, board, pynvml.NVML_TEMPERATURE_GPU)

    def _first_known(self, names: Sequence[str], *arguments: object) -> int:
        known = [
            function
            for name in names
            if (function := getattr(self._library, name, None)) is not None
        ]
        for function in known[:-1]:
            try:
                return int(function(*arguments))
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                    raise
        if not known:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return int(known[-1](*arguments))

    def _board(self, index: int) -> Board:
        handle = _demand(
            f"which is GPU {index}", lambda: self._library.nvmlDeviceGetHandleByIndex(index)
        )
        whole = self._describe(handle, board=handle, mig=False)
        enabled = self._mig_enabled(handle)
        return Board(
            whole=whole, mig_enabled=enabled, slices=self._slices(handle) if enabled else ()
        )

    def _mig_enabled(self, handle: Handle) -> bool:
        try:
            return self._library.nvmlDeviceGetMigMode(handle)[0] == 1
        except pynvml.NVMLError as error:
            if error.value in {
                pynvml.NVML_ERROR_NOT_SUPPORTED,
                pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            }:
                return False
            raise _unreadable("the MIG mode", error) from error

    def _slices(self, board: Handle) -> tuple[Device, ...]:
        found: list[Device] = []
        for index in range(
            _demand("the MIG slices", lambda: self._library.nvmlDeviceGetMaxMigDeviceCount(board))
        ):
            try:
                handle = self._library.nvmlDeviceGetMigDeviceHandleByIndex(board, index)
            except pynvml.NVMLError as error:
                if error.value in {pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT}:
                    continue  # a place for a slice that nobody has made
                raise _unreadable(f"MIG slice {index}", error) from error
            found.append(self._describe(handle, board=board, mig=True))
        return tuple(found)

    def _describe(self, handle: Handle, *, board: Handle, mig: bool) -> Device:
        name = _demand("a GPU's name", lambda: self._library.nvmlDeviceGetName(handle))
        uuid = _demand("a GPU's UUID", lambda: self._library.nvmlDeviceGetUUID(handle))
        try:
            memory_mib = int(self._library.nvmlDeviceGetMemoryInfo(handle).total) // 2**20
        except pynvml.NVMLError:
            memory_mib = None
        return Device(
            gpu=Gpu(name=name, uuid=uuid, mig=mig, memory_mib=memory_mib),
            handle=handle,
            board=board,
        )


@contextmanager
def open_nvml(library: NvmlLibrary = NVML) -> Iterator[Nvml | NoDriver]:
    """Start NVML and stop it again; yields `NoDriver` where there is nothing to talk to.

    Raises:
        MachineUnreadable: the driver is there and fails.
    """
    absence: NoDriver | None = None
    try:
        library.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value not in ABSENT:
            raise _unreadable("its version", error) from error
        absence = NoDriver(str(error))
    if absence is not None:
        yield absence
        return
    try:
        yield Nvml(library)
    finally:
        with suppress(pynvml.NVMLError):  # nothing more is asked of it
            library.nvmlShutdown()


def _demand(what: str, question: Callable[[], Value]) -> Value:
    try:
        return question()
    except pynvml.NVMLError as error:
        raise _unreadable(what, error) from error


def _unreadable(what: str, error: Exception) -> MachineUnreadable:
    return MachineUnreadable("nvml-failed", what=what, why=str(error).rstrip("."))
