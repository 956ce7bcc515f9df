"""What the sampler makes of a GPU's sensors: clocks, throttling, neighbours, and what could not be
read."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

import pynvml
import pytest
from support.fake_nvml import Fails, FakeGpu, FakeNvml

from perfgate.machine import sampled, wait_until_idle
from perfgate.machine.processes import Owner, ProcessTable
from perfgate.machine.sampler import Samples
from perfgate.model.errors import MachineUnreadable
from perfgate.model.machine import Conditions, Gpu, GpuCondition
from perfgate.model.note import Note, note
from perfgate.words import say

UUID = "GPU-11111111-aaaa-bbbb-cccc-000000000001"
H200 = Gpu(name="NVIDIA H200", uuid=UUID)
OURS, STRANGER = 40, 51
GPU_IS_LOST = pynvml.NVML_ERROR_GPU_IS_LOST
IDLE, POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, BRAKE = 0x1, 0x4, 0x8, 0x20, 0x40, 0x80


class Table(ProcessTable):
    """One process of ours, one stranger; all others unknown."""

    def __init__(self) -> None:
        super().__init__("r")

    def owner(self, pid: int) -> Owner:
        return {OURS: Owner.OURS, STRANGER: Owner.FOREIGN}.get(pid, Owner.UNKNOWN)

    def describe(self, pid: int) -> str:
        return f"{'ollama' if pid == STRANGER else 'python'} ({pid})"

    def count_ours_on_gpu(self) -> int:
        return 1


class Script(FakeNvml):
    """A library whose GPU is set anew for each sample: the first state is seen before the run, the
    last one stays."""

    def __init__(self, *states: FakeGpu) -> None:
        super().__init__([FakeGpu()])
        self.states = list(states)
        self.read = 0
        self.over = threading.Event()

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:  # noqa: N802  (the first sensor that is read)
        now = self.states[min(self.read, len(self.states) - 1)]
        for name in ("clock", "events", "temperature", "power_mw", "utilisation", "pids"):
            setattr(handle, name, getattr(now, name))
        self.read += 1
        if self.read > len(self.states):
            self.over.set()
        return super().nvmlDeviceGetPowerUsage(handle)


def state(**sensors: object) -> FakeGpu:
    found = FakeGpu(pids=(OURS,))
    for name, value in sensors.items():
        setattr(found, name, value)
    return found


EMPTY = state(pids=(), clock=345, utilisation=0, events=IDLE)
CONTEXT = state(utilisation=0)
ASLEEP = state(clock=345, utilisation=0, events=IDLE)


def sampler_of(library: FakeNvml) -> AbstractContextManager[Samples]:
    return sampled([H200], run_id="r", interval_s=0.001, library=library, processes=Table())


def sample(*during: FakeGpu, **more: object) -> GpuCondition:
    """Sample through an idle moment, the given states, and an idle moment after the run."""
    library = Script(EMPTY, *during, EMPTY)
    for name, value in more.items():
        setattr(library, name, value)
    with sampler_of(library) as samples:
        assert library.over.wait(10)
    assert library.started == 0
    (found,) = samples.conditions().gpus
    return found


def test_a_span_has_the_throttling_of_its_own_samples_and_all_neighbours() -> None:
    gpu = state(events=HW_THERMAL, pids=(OURS, STRANGER))
    with sampler_of(FakeNvml([gpu])) as samples:
        time.sleep(0.05)
        gpu.events, gpu.pids, gpu.clock = 0, (OURS,), 1500
        began = time.monotonic() + 0.02
        time.sleep(0.07)
        span = began, time.monotonic()
    (whole,), (own,) = samples.conditions().gpus, samples.conditions(span).gpus
    (unmet,) = samples.conditions((0.0, 0.1)).gpus
    assert (bool(whole.throttled), bool(own.throttled)) == (True, False)
    assert own.sm_clock_mhz == 1500
    assert 0 < own.samples < whole.samples
    assert own.neighbours == whole.neighbours != ()
    assert unmet == whole


def test_an_undisturbed_run_has_a_clock_and_nothing_else_to_say() -> None:
    found = sample(state(temperature=40), state(temperature=52), state(temperature=51))
    assert found == GpuCondition(
        uuid=UUID, ordinal=0, samples=3, sm_clock_mhz=1980, temperature_c=52, power_w=350.0
    )
    assert Conditions(gpus=(found,)).invalid == ()


@pytest.mark.parametrize(
    ("during", "samples", "clock_mhz"),
    [
        ([EMPTY, EMPTY, state(clock=1755), EMPTY], 1, 1755),  # those with a process of ours
        # those with load, if there are any
        ([*[CONTEXT] * 3, *(state(clock=mhz) for mhz in (1755, 1740, 1725))], 6, 1740),
        ([ASLEEP, state(clock=1965, utilisation=0), CONTEXT], 3, 1972.5),  # a burst without load
        ([ASLEEP], 1, None),
    ],
)
def test_the_clock_is_that_of_samples_that_show_the_work(
    during: Sequence[FakeGpu], samples: int, clock_mhz: float | None
) -> None:
    found = sample(*during)
    assert (found.samples, found.sm_clock_mhz) == (samples, clock_mhz)
    assert (found.power_w is None) is (clock_mhz is None)


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (HW_SLOWDOWN, "HW slowdown"),
        (SW_THERMAL, "SW thermal slowdown"),
        (HW_THERMAL, "HW thermal slowdown"),
        (BRAKE, "HW power brake"),
    ],
)
def test_throttling_invalidates(bit: int, name: str) -> None:
    found = sample(state(), state(events=bit | POWER_CAP), state())
    assert found.throttled == (note("gpu-clock-event", event=name, met=1, samples=3),)
    (invalid,) = Conditions(gpus=(found,)).invalid
    assert say.fact(invalid) == f"GPU {UUID} was throttled ({name} in 1 of 3 samples)"
    assert sample(state(), state(events=IDLE | bit)).throttled == ()


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (POWER_CAP, "SW power cap"),
        (0x2, "application clocks setting"),
        (0x10, "sync boost"),
        (0x100, "display clock setting"),
    ],
)
def test_limits_that_somebody_set_are_information(bit: int, name: str) -> None:
    found = sample(state(events=bit), state(events=bit), state())
    assert (found.throttled, *map(say.fact, found.information)) == ((), f"{name} in 2 of 3 samples")


def test_a_neighbour_during_the_run_is_named() -> None:
    found = sample(state(), state(pids=(OURS, STRANGER)), state())
    assert found.neighbours == ("ollama (51)",)
    (invalid,) = Conditions(gpus=(found,)).invalid
    assert say.fact(invalid) == f"GPU {UUID} was shared with ollama (51)"


def test_in_a_container_that_lists_nothing_every_sample_counts_and_says_so() -> None:
    found = sample(state(pids=()), state(pids=()))
    assert (found.sm_clock_mhz, found.throttled, found.neighbours) == (1980, (), ())
    assert found.information == (note("gpu-no-process-listed"),)


def test_what_is_not_supported_is_absent_and_said() -> None:
    names = ("clock", "events", "temperature", "power_mw", "utilisation")
    deaf = state(**{name: Fails() for name in names}, pids=Fails(pynvml.NVML_ERROR_NO_PERMISSION))
    with sampler_of(FakeNvml([deaf])) as samples:
        time.sleep(0.1)
    (found,) = samples.conditions().gpus
    kept = found.model_dump(exclude={"samples", "information", "uuid", "ordinal"})
    assert set(kept.values()) == {None, ()}
    assert tuple(map(say.fact, found.information)) == (
        "power could not be read (Not Supported)",
        "SM clock could not be read (Not Supported)",
        "clock event reasons could not be read (Not Supported): throttling would go unseen",
        "temperature could not be read (Not Supported)",
        "utilisation could not be read (Not Supported)",
        (
            "compute processes could not be read (Insufficient Permissions): neighbours would go "
            "unseen"
        ),
    )


def test_a_sensor_that_fails_now_and_then_is_reported() -> None:
    (said,) = sample(state(), state(events=Fails(GPU_IS_LOST)), state()).information
    assert say.fact(said) == (
        "clock event reasons could not be read (GPU is lost): throttling would go unseen"
    )


def test_an_older_driver_is_asked_by_the_older_name() -> None:
    unknown = {"nvmlDeviceGetCurrentClocksEventReasons": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    found = sample(state(events=HW_THERMAL), refuses=unknown)
    assert [one.fields["event"] for one in found.throttled] == ["HW thermal slowdown"]


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (FakeNvml(init_error=pynvml.NVML_ERROR_DRIVER_NOT_LOADED), "Driver Not Loaded"),
        (FakeNvml(init_error=pynvml.NVML_ERROR_UNKNOWN), "Unknown Error"),
        (FakeNvml([]), "Not Found"),
    ],
)
def test_a_driver_that_goes_away_does_not_kill_the_run(library: FakeNvml, reason: str) -> None:
    with sampler_of(library) as samples:
        pass
    why = note("gpu-not-sampled", why=reason)
    assert samples.conditions().gpus == (
        GpuCondition(uuid=UUID, ordinal=0, samples=0, information=(why,)),
    )
    assert library.started == 0


def test_where_one_of_several_gpus_cannot_be_sampled_none_is() -> None:
    gone = Gpu(name="NVIDIA H200", uuid="GPU-gone")
    library = FakeNvml([state()])
    with sampled([H200, gone], run_id="r", library=library, processes=Table()) as samples:
        pass
    found = samples.conditions().gpus
    assert [(one.uuid, one.ordinal, one.samples) for one in found] == [
        (UUID, 0, 0),
        ("GPU-gone", 1, 0),
    ]


def test_the_thread_ends_with_the_block_whatever_ends_it() -> None:
    with pytest.raises(KeyboardInterrupt), sampler_of(FakeNvml([state(pids=())])):
        raise KeyboardInterrupt
    assert not [one for one in threading.enumerate() if one.name.startswith("perfgate-sampler")]


def test_the_last_runs_load_may_fade() -> None:
    library = Script(state(utilisation=97), state(pids=(), utilisation=97), EMPTY)
    assert wait_until_idle([H200], 20.0, library=library, processes=Table()) is None
    assert library.read == 3


@pytest.mark.parametrize(
    ("gpu", "busy"),
    [
        (state(pids=(), utilisation=87), note("gpu-utilised", gpu=UUID, percent=87)),
        (state(pids=(STRANGER,), utilisation=0), note("gpu-in-use", gpu=UUID, by=("ollama (51)",))),
        (state(pids=(90210,), utilisation=0), note("gpu-in-use", gpu=UUID, by=("python (90210)",))),
    ],
)
def test_a_gpu_that_stays_busy_is_named(gpu: FakeGpu, busy: Note) -> None:
    assert wait_until_idle([H200], 0.1, library=FakeNvml([gpu]), processes=Table()) == busy


def test_without_a_driver_a_gpu_that_was_there_is_gone() -> None:
    library = FakeNvml(init_error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    with pytest.raises(MachineUnreadable, match="NVML Shared Library Not Found"):
        wait_until_idle([H200], 1.0, library=library)
    assert wait_until_idle([], 1.0, library=library) is None
