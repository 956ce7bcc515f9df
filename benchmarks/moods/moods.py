"""Two processes of one CPU-bound training loop take turns on one GPU: how well can their step times be compared?

Starts pairs of fresh processes with identical code, lets them take turns of k steps (the other waits, blocked on a
pipe, device idle), free and with both pinned to the same cores, with and without planted host work, and writes every
step's wall and CPU time to one compressed file, which `analyse.py` reads. Processes that run alone, one after another,
are the yardstick. Needs one GPU and a quiet machine; without a GPU it runs on the CPU, to try the script.

    python benchmarks/moods/moods.py --seconds 285 --out h200.npz
    PYTHONHASHSEED=0 setarch -R python benchmarks/moods/moods.py --alone 0 --seconds 185 --out h200-same-layout.npz

The second command asks for the same addresses and hashes in every process.

    block  |------------ k = 3, free ------------|
    A      |sss|canary|      |sss|canary|              s: one step; canary: fixed work that tells the core's mood
    B                  |sss|canary|      |sss|canary|
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from time import perf_counter_ns, process_time_ns, thread_time_ns
from types import ModuleType
from typing import Any

import numpy as np

TARGET_MS = 3.4
GPU_TARGET_MS = 3.0
WIDTH, BATCH = 64, 32
WARMUP_STEPS = 120
SETTLING_STEPS = 5
"""Unrecorded steps of each process at the start of a block, after a change of cores or loop."""
CANARY_ITERATIONS, CANARY_CALLS, CANARY_LAUNCHES = 4000, 300, 20

JsonDict = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Turns of one kind, so many of each process; `cores` 0 is free; `order` is "turns", or "A" or "B" alone."""

    order: str
    k: int
    turns: int
    cores: int = 0
    plant_percent: int = 0
    loop: str = "launch"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the calibrating process found, the same for all processes after it."""

    layers: int
    matmuls: int
    spin_per_percent: int
    launches: int
    """Kernels a step of the CPU-bound loop, as the profiler saw them; -1 where it saw none."""


FIRST = [Block(order="A", k=10, turns=15), Block(order="B", k=10, turns=15)]
FREE = [
    Block(order="turns", k=1, turns=100),
    Block(order="turns", k=3, turns=50),
    Block(order="turns", k=10, turns=24),
    Block(order="turns", k=30, turns=8),
    Block(order="turns", k=10, turns=15, plant_percent=2),
    Block(order="turns", k=10, turns=15, plant_percent=5),
]
LAST = [Block(order="B", k=10, turns=15), Block(order="A", k=10, turns=15)]
PINNED = [
    Block(order="turns", k=3, turns=40, cores=4),
    Block(order="turns", k=10, turns=15, cores=4),
    Block(order="turns", k=3, turns=40, cores=1),
    Block(order="turns", k=10, turns=15, cores=1),
    Block(order="turns", k=3, turns=40, cores=1, plant_percent=2),
]
GPU_BOUND = [
    Block(order="A", k=40, turns=1, loop="gpu"),
    Block(order="turns", k=10, turns=10, loop="gpu"),
    Block(order="B", k=40, turns=1, loop="gpu"),
]
ALONE = [Block(order="A", k=10, turns=30)]


# The process that steps ----------------------------------------------------------------------------------------------


def load_torch() -> ModuleType:
    """Only in the processes that step; the coordinator stays small."""
    return importlib.import_module("torch")


class LaunchLoop:
    """A residual MLP in eager mode: small kernels, unfused SGD, one loss.item() a step, so the CPU sets the pace."""

    def __init__(self, layers: int) -> None:
        torch = load_torch()

        device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(0)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH)
            )
            for _ in range(layers)
        ).to(device)
        self.optimizer = torch.optim.SGD(
            self.blocks.parameters(), lr=1e-4, momentum=0.9, foreach=False
        )
        self.inputs = torch.randn(BATCH, WIDTH, device=device)

    def step(self) -> None:
        """Ends with the device idle: loss.item() waits for the optimizer's kernels too."""
        hidden = self.inputs
        for block in self.blocks:
            hidden = hidden + block(hidden)
        loss = hidden.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        loss.item()


class GpuLoop:
    """Large matrix products, nothing waited for: the CPU runs ahead."""

    def __init__(self, matmuls: int) -> None:
        torch = load_torch()

        self.torch = torch
        self.cuda = torch.cuda.is_available()
        size, dtype = (8192, torch.bfloat16) if self.cuda else (256, torch.float32)
        device = "cuda" if self.cuda else "cpu"
        torch.manual_seed(0)
        self.weight = torch.randn(size, size, device=device, dtype=dtype) * size**-0.5
        self.values = [torch.randn(size, size, device=device, dtype=dtype) for _ in range(2)]
        self.matmuls = matmuls

    def step(self) -> None:
        for _ in range(self.matmuls):
            self.torch.mm(self.values[0], self.weight, out=self.values[1])
            self.values.reverse()


def synchronize() -> None:
    """Wait for the device, where there is one."""
    torch = load_torch()

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def spin(iterations: int) -> None:
    """Host work of a fixed amount, not of a fixed time."""
    for _ in range(iterations):
        pass


@dataclass
class Recorder:
    """The steps and turns of one process; a row of `turns` per turn, of `steps` per step."""

    steps: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Turn, then nanoseconds: wall, CPU of the main thread, CPU of the process, wall of the planted work."""
    turns: list[tuple[int, ...]] = field(default_factory=list)


TURN_COLUMNS = (
    "turn",
    "start_us",
    "minor_faults",
    "voluntary_switches",
    "involuntary_switches",
    "canary_python_ns",
    "canary_syscall_ns",
    "canary_launch_ns",
    "core_main",
    "core_backward",
)
STEP_COLUMNS = ("turn", "wall_ns", "main_ns", "process_ns", "spin_ns")


def run_turn(
    step: Callable[[], None], turn: int, k: int, spin_iterations: int, recorder: Recorder
) -> None:
    """k steps whose wall times are the periods between their ends, the first from the turn's start."""
    rows = []
    wall, main, process = perf_counter_ns(), thread_time_ns(), process_time_ns()
    for _ in range(k):
        spin_start = perf_counter_ns()
        spin(spin_iterations)
        spin_end = perf_counter_ns()
        step()
        now = perf_counter_ns(), thread_time_ns(), process_time_ns()
        rows.append((turn, now[0] - wall, now[1] - main, now[2] - process, spin_end - spin_start))
        wall, main, process = now
    recorder.steps += rows


def run_gpu_turn(step: Callable[[], None], turn: int, k: int, recorder: Recorder) -> None:
    """Like `run_turn`, wall times from device events: the CPU is far ahead of the steps."""
    torch = load_torch()

    if not torch.cuda.is_available():
        run_turn(step, turn, k, 0, recorder)
        return
    events = [torch.cuda.Event(enable_timing=True) for _ in range(k + 1)]
    cpu = [(thread_time_ns(), process_time_ns())]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
        cpu.append((thread_time_ns(), process_time_ns()))
    torch.cuda.synchronize()
    for i in range(k):
        wall_ns = round(events[i].elapsed_time(events[i + 1]) * 1e6)
        recorder.steps.append(
            (turn, wall_ns, cpu[i + 1][0] - cpu[i][0], cpu[i + 1][1] - cpu[i][1], 0)
        )


def core_of(thread: int) -> int:
    """The core a thread last ran on: field 39 of its stat."""
    return int(Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[36])


def busiest_other_thread() -> int:
    """The thread beside the main one with most CPU time after a warm-up: mostly autograd's, but not surely."""

    def cpu_ticks(thread: int) -> int:
        fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    main = os.getpid()
    others = [
        int(task.name) for task in Path("/proc/self/task").iterdir() if int(task.name) != main
    ]
    return max(others, key=cpu_ticks, default=main)


def pin(cores: list[int]) -> None:
    """Bind every thread of this process, not only the main one."""
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cores)


def canaries(launch: Callable[[], object]) -> tuple[int, int, int]:
    """Nanoseconds of three fixed amounts of work: interpreter, system calls, kernel launches."""
    start = perf_counter_ns()
    spin(CANARY_ITERATIONS)
    python = perf_counter_ns()
    for _ in range(CANARY_CALLS):
        os.getppid()
    syscall = perf_counter_ns()
    for _ in range(CANARY_LAUNCHES):
        launch()
    launched = perf_counter_ns()
    synchronize()
    return python - start, syscall - python, launched - syscall


def work(settings: Settings, out: Path) -> None:
    """Answer the coordinator's commands, a JSON line each, until it says quit; then write what was recorded."""
    torch = load_torch()

    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    loop = LaunchLoop(settings.layers)
    gpu_loop: GpuLoop | None = None
    scalar = torch.zeros(1, device=loop.inputs.device)
    synchronize()
    recorder = Recorder()
    backward_thread = os.getpid()
    replies.write("ready\n")
    for line in sys.stdin:
        command = json.loads(line)
        match command:
            case {"op": "pin", "cores": cores}:
                pin(cores)
            case {
                "op": "turn",
                "turn": turn,
                "k": k,
                "spin": iterations,
                "loop": "launch",
                "record": record,
            }:
                before = resource.getrusage(resource.RUSAGE_SELF)
                start = perf_counter_ns()
                run_turn(loop.step, turn, k, iterations, recorder if record else Recorder())
                if record:
                    after = resource.getrusage(resource.RUSAGE_SELF)
                    used = [
                        getattr(after, name) - getattr(before, name)
                        for name in ("ru_minflt", "ru_nvcsw", "ru_nivcsw")
                    ]
                    cores = core_of(os.getpid()), core_of(backward_thread)
                    sung = canaries(lambda: scalar.add_(1))
                    recorder.turns.append((turn, start // 1000, *used, *sung, *cores))
                elif k >= WARMUP_STEPS:
                    backward_thread = busiest_other_thread()
            case {"op": "turn", "turn": turn, "k": k, "loop": "gpu", "record": record}:
                if gpu_loop is None:
                    gpu_loop = GpuLoop(settings.matmuls)
                    synchronize()
                start = perf_counter_ns()
                run_gpu_turn(gpu_loop.step, turn, k, recorder if record else Recorder())
                if record:
                    cores = core_of(os.getpid()), core_of(backward_thread)
                    recorder.turns.append((turn, start // 1000, 0, 0, 0, 0, 0, 0, *cores))
            case {"op": "quit"}:
                break
            case _:
                raise ValueError(f"no such command: {command}")
        replies.write("done\n")
    np.savez(
        out, steps=np.array(recorder.steps, np.int64), turns=np.array(recorder.turns, np.int64)
    )


def calibrate(out: Path) -> None:
    """Find the depth, the matrix products and the iterations that make the steps and the planted work."""
    torch = load_torch()

    def median_ms(step: Callable[[], None], steps: int) -> float:
        times = []
        for _ in range(steps):
            start = perf_counter_ns()
            step()
            times.append((perf_counter_ns() - start) / 1e6)
        return statistics.median(times[steps // 2 :])

    shallow, deep = 4, 12
    shallow_ms, deep_ms = (median_ms(LaunchLoop(layers).step, 240) for layers in (shallow, deep))
    layers = max(
        1,
        min(
            60,
            round(shallow + (TARGET_MS - shallow_ms) * (deep - shallow) / (deep_ms - shallow_ms)),
        ),
    )
    gpu_step = GpuLoop(1).step

    def synchronized_gpu_step() -> None:
        gpu_step()
        synchronize()

    matmul_ms = median_ms(synchronized_gpu_step, 30)
    spin_ns = statistics.median(time_ns(lambda: spin(10_000)) for _ in range(50)) / 10_000
    launches, profiled = -1, LaunchLoop(layers)
    median_ms(profiled.step, 10)
    if torch.cuda.is_available():
        with suppress(RuntimeError):  # a machine may forbid profiling; the count is only told
            with torch.profiler.profile() as profile:
                profiled.step()
            on_device = [e.name for e in profile.events() if str(e.device_type).endswith("CUDA")]
            launches = sum(not name.startswith("Mem") for name in on_device) or -1
    settings = Settings(
        layers=layers,
        matmuls=max(1, round(GPU_TARGET_MS / matmul_ms)),
        spin_per_percent=round(TARGET_MS * 1e6 / 100 / spin_ns),
        launches=launches,
    )
    machine = {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
    }
    out.write_text(json.dumps({"settings": asdict(settings), "machine": machine}))


def time_ns(act: Callable[[], object]) -> int:
    """Wall time of one call."""
    start = perf_counter_ns()
    act()
    return perf_counter_ns() - start


# The coordinator -----------------------------------------------------------------------------------------------------


class Worker:
    """One fresh process, seen from the coordinator."""

    def __init__(self, settings: Settings, out: Path) -> None:
        self.out = out
        argv = [
            sys.executable,
            __file__,
            "--worker",
            json.dumps(asdict(settings)),
            "--out",
            str(out),
        ]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def await_reply(self) -> None:
        """Block until the process has answered; an answer that does not come is an error."""
        if self.process.stdout is None or not self.process.stdout.readline():
            raise RuntimeError(f"a process ended early, exit code {self.process.wait()}")

    def ask(self, **command: object) -> None:
        """Send a command and wait until it is done."""
        if self.process.stdin is None:
            raise RuntimeError("no pipe")
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        self.await_reply()

    def finish(self) -> None:
        """Let it write its record; it answers by ending."""
        self.process.communicate(json.dumps({"op": "quit"}) + "\n", timeout=60)


@contextmanager
def workers(settings: Settings, outs: list[Path]) -> Iterator[list[Worker]]:
    """Fresh processes, started together and warmed up one after another; none outlives the block."""
    started = [Worker(settings, out) for out in outs]
    try:
        for worker in started:
            worker.await_reply()
        for worker in started:
            worker.ask(op="turn", turn=-1, k=WARMUP_STEPS, spin=0, loop="launch", record=False)
        yield started
        for worker in started:
            worker.finish()
    finally:
        for worker in started:
            worker.process.kill()
            worker.process.wait()


def steal_jiffies() -> int:
    """Time the host took from this machine's cores, all of them together."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])


@dataclass
class Experiment:
    """Runs blocks and keeps what each turn was; the workers keep the times."""

    settings: Settings
    folder: Path
    blocks: list[JsonDict] = field(default_factory=list)
    turns: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Turn, block, process, index of the turn within its block and process."""
    files: list[Path] = field(default_factory=list)
    turn_ids: Iterator[int] = field(default_factory=count)
    processes: Iterator[int] = field(default_factory=count)
    free_cores: list[int] = field(default_factory=lambda: sorted(os.sched_getaffinity(0)))

    def run_pair(self, pair: int, seed: str) -> None:
        """All blocks on one pair of fresh processes; their order is drawn per pair, pinned ones after free ones."""
        shuffled = random.Random(seed)
        free, pinned = shuffled.sample(FREE, len(FREE)), shuffled.sample(PINNED, len(PINNED))
        self.run(pair, [*FIRST, *free, *LAST, *pinned, *GPU_BOUND], 2)

    def run_alone(self, group: int) -> None:
        """One fresh process with the machine to itself; pair numbers below zero say so."""
        self.run(group, ALONE, 1)

    def run(self, pair: int, blocks: list[Block], sides: int) -> None:
        ids = [next(self.processes) for _ in range(sides)]
        outs = [self.folder / f"{process}.npz" for process in ids]
        with workers(self.settings, outs) as pair_workers:
            for block in blocks:
                self.run_block(pair, block, pair_workers, ids)
        self.files += outs

    def run_block(self, pair: int, block: Block, sides: list[Worker], ids: list[int]) -> None:
        number = len(self.blocks)
        planted = pair % 2 if block.plant_percent else -1
        spins = [
            block.plant_percent * self.settings.spin_per_percent if i == planted else 0
            for i in (0, 1)
        ]
        cores = self.free_cores
        if block.cores:
            offset = 5 * pair % len(cores)
            cores = (cores + cores)[offset : offset + block.cores]
        alone = {"A": [0], "B": [1]}.get(block.order)
        order = alone or ([0, 1] if (pair + number) % 2 else [1, 0])
        for side in order:
            sides[side].ask(op="pin", cores=cores)
            sides[side].ask(
                op="turn",
                turn=-1,
                k=SETTLING_STEPS,
                spin=spins[side],
                loop=block.loop,
                record=False,
            )
        stolen, start = steal_jiffies(), time.monotonic()
        for index in range(block.turns):
            for side in order:
                turn = next(self.turn_ids)
                sides[side].ask(
                    op="turn", turn=turn, k=block.k, spin=spins[side], loop=block.loop, record=True
                )
                self.turns.append((turn, number, ids[side], index))
        self.blocks.append(
            {
                "block": number,
                "pair": pair,
                **asdict(block),
                "planted_side": planted,
                "first_side": order[0],
                "a_process": ids[0],
                "start_s": round(start, 3),
                "seconds": round(time.monotonic() - start, 3),
                "steal_jiffies": steal_jiffies() - stolen,
            }
        )

    def save(self, out: Path, machine: JsonDict) -> None:
        """Tables as columns of one compressed file; the names are table.column."""
        recorded = [np.load(file) for file in self.files]
        kept = np.concatenate([r["turns"] for r in recorded])
        steps = np.concatenate([r["steps"] for r in recorded])
        kept, steps = kept[np.argsort(kept[:, 0])], steps[np.argsort(steps[:, 0], kind="stable")]
        told = np.array(self.turns, np.int64)
        told = told[np.isin(told[:, 0], kept[:, 0])]
        columns: dict[str, np.ndarray[Any, Any]] = {
            f"turns.{name}": told[:, i].astype(np.int32)
            for i, name in enumerate(("turn", "block", "process", "index"))
        }
        kept[:, 1] -= kept[:, 1].min()
        columns |= {
            f"turns.{name}": kept[:, i].astype(np.int32) for i, name in enumerate(TURN_COLUMNS) if i
        }
        columns["steps.turn"] = steps[:, 0].astype(np.int32)
        for i, name in enumerate(STEP_COLUMNS[1:], start=1):
            columns[f"steps.{name.replace('_ns', '_us')}"] = np.round(steps[:, i] / 1000).astype(
                np.int32
            )
        info = {"machine": machine, "settings": asdict(self.settings), "blocks": self.blocks}
        np.savez_compressed(out, info=np.array(json.dumps(info)), **columns)  # type: ignore[arg-type]


def cpu_name() -> str:
    """As the kernel names it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def driver_version() -> str:
    """Of the NVIDIA driver, or none."""
    path = Path("/proc/driver/nvidia/version")
    words = path.read_text().split() if path.exists() else []
    return next((word for word in words if word.count(".") == 2 and word[0].isdigit()), "none")


def measure(seconds: float, out: Path, alone: int, most_pairs: int) -> None:
    """Processes alone, pairs until the time is nearly spent, processes alone again; what was measured is written."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = folder / "settings.json"
        subprocess.run([sys.executable, __file__, "--calibrate", "--out", str(found)], check=True)
        answer = json.loads(found.read_text())
        machine = {
            **answer["machine"],
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "driver": driver_version(),
            "python": platform.python_version(),
        }
        experiment = Experiment(Settings(**answer["settings"]), folder)
        print(f"{time.monotonic() - start:.0f} s: {machine} {experiment.settings}", flush=True)
        try:
            for group in range(alone):
                experiment.run_alone(-1 - group)
            alone_s = (time.monotonic() - start) / max(alone, 1)
            pair_s = 0.0
            for pair in range(most_pairs):
                pair_start = time.monotonic()
                if pair_start - start + pair_s + alone * alone_s > seconds:
                    break
                experiment.run_pair(pair, f"pair {pair}")
                pair_s = time.monotonic() - pair_start
                print(
                    f"{time.monotonic() - start:.0f} s: pair {pair} took {pair_s:.1f} s", flush=True
                )
            for group in range(alone):
                experiment.run_alone(-1 - alone - group)
        finally:
            experiment.save(out, machine)
        print(f"{time.monotonic() - start:.0f} s: {out.stat().st_size} bytes written", flush=True)


def main() -> None:
    """Either door: the experiment, or one of the processes it starts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="time for everything (default 300)"
    )
    parser.add_argument(
        "--alone",
        type=int,
        default=4,
        help="processes alone, before and after the pairs (default 4)",
    )
    parser.add_argument("--pairs", type=int, default=1000, help="at most so many pairs")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--calibrate", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.calibrate:
        calibrate(options.out)
    elif options.worker:
        work(Settings(**json.loads(options.worker)), options.out)
    else:
        measure(options.seconds, options.out, options.alone, options.pairs)


if __name__ == "__main__":
    main()
