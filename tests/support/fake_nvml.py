"""A pynvml made of plain data: GPUs whose sensors are set by a test, errors as the real package
raises them."""

# ruff: noqa: N802 (the names are NVML's)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pynvml

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED


@dataclass
class FakeGpu:
    """One GPU or MIG slice; a sensor that is a `Fails` raises its NVML error."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-11111111-aaaa-bbbb-cccc-000000000001"
    memory: int = 141 * 2**30
    slices: Sequence[FakeGpu] | None = None
    """None: no MIG mode. A list, if only an empty one: MIG mode."""
    clock: int | Fails = 1980
    max_clock: int | Fails = 1980
    events: int | Fails = 0
    temperature: int | Fails = 45
    power_mw: int | Fails = 350_000
    utilisation: int | Fails = 100
    pids: Sequence[int] | Fails = ()


@dataclass(frozen=True)
class Fails:
    """A sensor that answers with an NVML error code."""

    code: int = NOT_SUPPORTED


@dataclass(frozen=True)
class Field:
    """One of NVML's structs, of which one member matters."""

    gpu: int = 0
    total: int = 0
    pid: int = 0


@dataclass
class FakeNvml:
    """Stands in for the pynvml module."""

    gpus: Sequence[FakeGpu] = ()
    init_error: int | None = None
    started: int = 0
    refuses: dict[str, int] = field(default_factory=dict)
    """Error codes by name of the function that fails."""

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)
        self.started += 1

    def nvmlShutdown(self) -> None:
        self.started -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._check("nvmlSystemGetDriverVersion")
        return "580.159.04"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13020

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> object:
        self._check("nvmlDeviceGetHandleByIndex")
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> object:
        for gpu in self.gpus:
            for found in (gpu, *(gpu.slices or ())):
                if found.uuid == uuid:
                    return found
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetName(self, handle: object) -> str:
        return _gpu(handle).name

    def nvmlDeviceGetUUID(self, handle: object) -> str:
        return _gpu(handle).uuid

    def nvmlDeviceGetMemoryInfo(self, handle: object) -> Field:
        self._check("nvmlDeviceGetMemoryInfo")
        return Field(total=_gpu(handle).memory)

    def nvmlDeviceGetMigMode(self, handle: object) -> Sequence[int]:
        self._check("nvmlDeviceGetMigMode")
        mode = 0 if _gpu(handle).slices is None else 1
        return [mode, mode]

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: object) -> object:
        return next(gpu for gpu in self.gpus if any(part is handle for part in gpu.slices or ()))

    def nvmlDeviceGetClockInfo(self, handle: object, clock: int) -> int:
        return _value(_gpu(handle).clock)

    def nvmlDeviceGetMaxClockInfo(self, handle: object, clock: int) -> int:
        return _value(_gpu(handle).max_clock)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: object) -> int:
        self._check("nvmlDeviceGetCurrentClocksEventReasons")
        return _value(_gpu(handle).events)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: object) -> int:
        self._check("nvmlDeviceGetCurrentClocksThrottleReasons")
        return _value(_gpu(handle).events)

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int:
        return _value(_gpu(handle).temperature)

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:
        return _value(_gpu(handle).power_mw)

    def nvmlDeviceGetUtilizationRates(self, handle: object) -> Field:
        return Field(gpu=_value(_gpu(handle).utilisation))

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> Sequence[Field]:
        pids = _gpu(handle).pids
        if isinstance(pids, Fails):
            raise pynvml.NVMLError(pids.code)
        return [Field(pid=pid) for pid in pids]

    def _check(self, name: str) -> None:
        if name in self.refuses:
            raise pynvml.NVMLError(self.refuses[name])


def _gpu(handle: object) -> FakeGpu:
    assert isinstance(handle, FakeGpu)
    return handle


def _value(sensor: int | Fails) -> int:
    if isinstance(sensor, Fails):
        raise pynvml.NVMLError(sensor.code)
    return sensor
