"""How the GPUs felt during one run, sampled in a thread; it judges nothing, and a failing sensor
becomes information."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any

from perfgate.machine.nvml import (
    IDLE,
    LIMITS,
    NVML,
    THROTTLING,
    Device,
    Nvml,
    NvmlLibrary,
    Reading,
    Sensor,
    open_nvml,
)
from perfgate.machine.processes import NeighbourWatch, ProcessTable
from perfgate.model.errors import MachineUnreadable
from perfgate.model.machine import POWER_CAP, Conditions, Gpu, GpuCondition
from perfgate.model.note import Note, note

INTERVAL_S = 0.1
IDLE_PERCENT = 5
"""Utilisation up to which a GPU counts as idle: a desktop on it draws now and then."""

Span = tuple[float, float]
"""From when to when, by `time.monotonic`, s."""

BLIND_TO = {
    Sensor.CLOCK_EVENTS: note("blind-to-throttling"),
    Sensor.PROCESSES: note("blind-to-neighbours"),
}


class _Watched:
    """One GPU under observation."""

    def __init__(self, nvml: Nvml, gpu: Gpu, processes: ProcessTable, *, joins: bool) -> None:
        self.gpu = gpu
        self.neighbours = NeighbourWatch(processes)
        self.taken: list[tuple[float, Reading]] = []
        """Each reading with its time."""
        self._ours: list[tuple[float, Reading]] = []
        """Those with one of our processes on the GPU."""
        self._nvml, self._device = nvml, nvml.device(gpu.uuid)
        self.max_clock_mhz = nvml.max_sm_clock_mhz(self._device)
        see = self.neighbours.see if joins else self.neighbours.see_before
        see(nvml.read(self._device).processes or ())

    def sample(self) -> None:
        reading = self._nvml.read(self._device)
        taken = time.monotonic(), reading
        self.taken.append(taken)
        if reading.processes is not None and self.neighbours.see(reading.processes):
            self._ours.append(taken)

    @property
    def has_ours(self) -> bool:
        """Whether one of our processes was ever listed on the GPU."""
        return bool(self._ours)

    def counted(self, during: Span | None, interval_s: float) -> list[Reading]:
        """What counts of a span, or of all of it: also where the span is too short to be met."""
        counted = self._ours or self.taken
        if during is not None:
            began, ended = during
            near = (began - interval_s, ended + interval_s)
            counted = [one for one in counted if near[0] <= one[0] <= near[1]] or counted
        return [reading for _, reading in counted]


@dataclass(kw_only=True, eq=False)
class Samples:
    """What was sampled of some GPUs; complete once their `sampled` block is left."""

    gpus: Sequence[Gpu]
    interval_s: float
    watched: Sequence[_Watched] = ()
    why_blind: str = ""
    """Why the GPUs could not be sampled."""
    loop: Future[None] | None = None

    def conditions(self, during: Span | None = None) -> Conditions:
        """Say how each GPU felt, in the whole block or within a span of it.

        Samples count while one of our processes is on the GPU; where the driver never lists one
        (containers), all do. `sm_clock_mhz` and `power_w` are medians over the samples in which the
        GPU worked, `temperature_c` is the highest. `throttled` and `information` take every counted
        sample in which the GPU was not idle. Neighbours are those of the whole block.
        """
        if self.loop is not None:
            self.loop.result()  # raises what the thread met
        blind = (note("gpu-not-sampled", why=self.why_blind),)
        found = [
            _summarise(watched, watched.counted(during, self.interval_s))
            for watched in self.watched
        ] or [GpuCondition(uuid=gpu.uuid, samples=0, information=blind) for gpu in self.gpus]
        if len({gpu.name for gpu in self.gpus}) == 1:  # among unlike models only CUDA knows
            found = [one.model_copy(update={"ordinal": at}) for at, one in enumerate(found)]
        return Conditions(gpus=tuple(found))


@contextmanager
def sampled(
    gpus: Sequence[Gpu],
    *,
    run_id: str,
    joins: bool = False,
    interval_s: float = INTERVAL_S,
    library: NvmlLibrary = NVML,
    processes: ProcessTable | None = None,
) -> Iterator[Samples]:
    """Sample GPUs while the `with` block runs; enter it before the first process of the run
    starts, or once all `joins` them.

    What is listed on a GPU before a run starts is a neighbour, so let `wait_until_idle` see the
    last run's processes gone first. One thread asks every `interval_s` seconds. Sampling never
    fails a run: what could not be read is information.
    """
    samples = Samples(gpus=tuple(gpus), interval_s=interval_s)
    with ExitStack() as held:
        if gpus:
            table = processes or ProcessTable(run_id)
            try:
                nvml = held.enter_context(open_nvml(library))
                samples.watched = [_Watched(nvml, gpu, table, joins=joins) for gpu in gpus]
            except MachineUnreadable as error:
                samples.why_blind = error.fact
            else:
                stop = threading.Event()
                pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="perfgate-sampler")
                held.enter_context(pool)
                held.callback(stop.set)  # the first to be called
                samples.loop = pool.submit(_sample_until, stop, samples.watched, interval_s)
        yield samples


def _sample_until(stop: threading.Event, watched: Sequence[_Watched], interval_s: float) -> None:
    while True:
        for one in watched:
            one.sample()
        if stop.wait(interval_s):
            return


def wait_until_idle(
    gpus: Sequence[Gpu],
    patience_s: float,
    *,
    run_id: str = "",
    library: NvmlLibrary = NVML,
    processes: ProcessTable | None = None,
) -> Note | None:
    """Wait for the GPUs to have no compute process but this one and those of a run, if there are
    any yet, and next to no load.

    Utilisation is the driver's average over up to a second, so the last run's load fades only after
    it has ended.

    Returns:
        None once all are idle; else what keeps one busy after `patience_s` seconds.

    Raises:
        MachineUnreadable: the driver fails or is gone, or no longer knows one of the GPUs.
    """
    if not gpus:
        return None
    table = processes or ProcessTable(run_id)
    with open_nvml(library) as nvml:
        devices = [nvml.device(gpu.uuid) for gpu in gpus]
        deadline = time.monotonic() + patience_s
        while True:
            found = (
                _what_keeps_busy(nvml, device, table, joins=bool(run_id)) for device in devices
            )
            busy = next(filter(None, found), None)
            left_s = deadline - time.monotonic()
            if busy is None or left_s <= 0:
                return busy
            time.sleep(min(INTERVAL_S, left_s))


def _what_keeps_busy(
    nvml: Nvml, device: Device, table: ProcessTable, *, joins: bool
) -> Note | None:
    watch, reading = NeighbourWatch(table), nvml.read(device)
    see = watch.see if joins else watch.see_before
    for _ in range(2):  # a number that means nothing here counts when it stays
        see(reading.processes or ())
    if others := watch.neighbours():
        return note("gpu-in-use", gpu=device.gpu.uuid, by=others)
    if (reading.utilisation_percent or 0) > IDLE_PERCENT:
        return note("gpu-utilised", gpu=device.gpu.uuid, percent=reading.utilisation_percent)
    return None


def _summarise(watched: _Watched, counted: Sequence[Reading]) -> GpuCondition:
    awake = [reading for reading in counted if not (reading.clock_events or 0) & IDLE]
    working = _working(counted, awake, watched.max_clock_mhz)
    clocks, powers = _known(working, "sm_clock_mhz"), _known(working, "power_w")
    return GpuCondition(
        uuid=watched.gpu.uuid,
        samples=len(counted),
        sm_clock_mhz=median(clocks) if clocks else None,
        temperature_c=max(_known(counted, "temperature_c"), default=None),
        power_w=round(median(powers), 1) if powers else None,
        throttled=tuple(_met(THROTTLING, awake)),
        information=(*_met(LIMITS, awake), *_information(watched)),
        neighbours=watched.neighbours.neighbours(),
    )


def _known(readings: Sequence[Reading], sensor: str) -> list[float]:
    every: list[Any] = [getattr(reading, sensor) for reading in readings]
    return [float(value) for value in every if value is not None]


def _working(
    counted: Sequence[Reading], awake: Sequence[Reading], max_clock_mhz: int | None
) -> Sequence[Reading]:
    """Return the samples that show the clock of the work, the best kind there is.

    Utilisation lags by up to a second and misses a short burst, so without any the clock itself
    must show it: an open context raises it far above idle (345 against 1980 MHz on an H200), and
    half the highest clock lies in between.
    """
    raised_mhz = inf if max_clock_mhz is None else max_clock_mhz / 2
    return (
        [one for one in awake if (one.utilisation_percent or 0) > 0]
        or [one for one in awake if (one.sm_clock_mhz or 0) >= raised_mhz]
        or [one for one in counted if (one.sm_clock_mhz or 0) >= raised_mhz]
    )


def _met(reasons: Mapping[int, str], awake: Sequence[Reading]) -> Iterator[Note]:
    """Each of some clock event reasons that was met, with the number of samples it was met in."""
    asked = [reading.clock_events for reading in awake if reading.clock_events is not None]
    for bit, name in reasons.items():
        if met := sum(1 for bits in asked if bits & bit):
            if name == POWER_CAP:
                yield note("gpu-power-cap", met=met, samples=len(asked))
            else:
                yield note("gpu-clock-event", event=name, met=met, samples=len(asked))


def _information(watched: _Watched) -> list[Note]:
    refused = dict.fromkeys(
        refusal for _, reading in watched.taken for refusal in reading.refused.items()
    )
    found = [
        note("sensor-unread", sensor=sensor.value, why=why, blind=BLIND_TO.get(sensor))
        for sensor, why in refused
    ]
    if not watched.has_ours and Sensor.PROCESSES not in dict(refused.keys()):
        found.append(note("gpu-no-process-listed"))
    return found
