"""Makes real gates of two loops on this machine's GPUs, unchanged and with planted slowdowns, and records them.

    python -m benchmarks.decision.collect all FOLDER --have benchmarks/decision/h200.json --seconds 540
    python -m benchmarks.decision.collect merge benchmarks/decision/h200.json FOLDER/*.json

In a scratch repository for each loop and GPU a baseline of 10 runs is measured and blessed; then one gate after another
is made as a user makes it (`pytest --perfgate`), each with its slowdown written into the working tree, until there are
enough of each slowdown or the time is up. `all` uses every GPU it sees at once, each with CPU cores of its own. What is
there is added to: run it again with the same FOLDER to go on. After each gate FOLDER holds all gates so far, a file for
each loop, GPU and baseline; FOLDER/work holds the scratch repositories, whose baselines stay good on the same machine.
Gates of another FOLDER or machine count where `--have` names the recording that holds them: only what it lacks is made.
`merge` adds to the recording it writes, and takes nothing out of it. Without a GPU the loops run on the CPU, to try
this out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from platform import node, python_version
from statistics import median
from typing import Final

from pydantic import ValidationError

import perfgate
from benchmarks.decision.measured import (
    Kind,
    RecordedGate,
    RecordedLoop,
    Recording,
    Spoilt,
    blessings_of,
    gate_of,
    load,
    save,
)
from perfgate.machine import read_machine
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.profilers.nsys.tool import find_nsys
from perfgate.pytest_door import ending_as_on_ctrl_c
from perfgate.store import KeptResult, Store

LOOPS: Final = Path(__file__).with_name("loops.py")
ROOT: Final = Path(__file__).resolve().parents[2]
KINDS: Final = {"gpu_bound": Kind.GPU_BOUND, "cpu_bound": Kind.CPU_BOUND}
WANTED: Final[Mapping[float, int]] = {0.0: 20, 0.01: 10, 0.02: 10, 0.03: 10}
"""Gates of each loop by slowdown, over all parts; also in which shares they are made on the way there."""
BLESSED_RUNS: Final = 10
CYCLES_PER_MS: Final = 1_980_000
"""Of an H200's SM clock, 1980 MHz; what a slowdown really was is in the recorded times."""
GRACE_S: Final = 30.0
"""How long a gate may go on when the time is up; one that is ended then is noted as spoilt."""
END_S: Final = 20.0
"""How long a gate that was interrupted may take to end what it has started."""
AGAINST: Final[Mapping[Kind, frozenset[float]]] = {
    Kind.GPU_BOUND: frozenset({0.02}),
    Kind.CPU_BOUND: frozenset({0.01, 0.02, 0.03}),
}
"""Slowdowns whose gates are a duet and nothing else (`--perfgate-against`).

2 % of a GPU-bound step are 2.5 % of its kernel time, which ends a gate at the screen: nobody would then know whether
step_ms would have shown them too. Where a run alone says nothing, because the CPU's mood spreads them by a tenth, a
screen does not either: its three runs are saved. Unchanged loops are gated as users gate them, screen and all.
"""
BUDGETS: Final[Mapping[Kind, Mapping[float, Mapping[Metric, float]]]] = {
    Kind.GPU_BOUND: {0.02: {Metric.KERNEL_MS: 0.1}},
    Kind.CPU_BOUND: {},
}
"""Budgets other than the default ones, by slowdown: with kernel_ms held to 1 %, it ended the gates at 2 % after three
pairs, and step_ms was still open in 2 of 9."""
RUNS_OF_A_GATE: Final[Mapping[Kind, tuple[int, int]]] = {
    Kind.GPU_BOUND: (4, 19),
    Kind.CPU_BOUND: (12, 16),
}
"""How many runs' time to keep for a gate while none of its slowdown was made: unchanged, and slowed."""
GUESSED_RUN_S: Final = 10.0
MOST_SPOILT: Final = 3
"""In a row, after which something must be wrong that more of them will not tell."""
GIVES_NO_VERDICT: Final = frozenset(
    {Outcome.NOT_MEASURED, Outcome.INVALID, Outcome.NO_BASELINE, Outcome.INCOMPARABLE}
)


# What to make next


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How many gates of one loop there are, over all of its parts, and how long they took at most, by slowdown."""

    made: Mapping[float, int]
    longest_s: Mapping[float, float]
    most_runs: Mapping[float, int] = field(default_factory=dict)
    """Of any gate, also of one made elsewhere, where a run takes another time."""

    @classmethod
    def of(cls, parts: Iterable[RecordedLoop], *, had: Iterable[RecordedLoop] = ()) -> Progress:
        """Count what is recorded with the budgets of now; spoilt gates are not made, though they took their time.

        `had` are parts made elsewhere: of how long a gate takes here their runs tell, and not their seconds.
        """
        here = tuple(parts)
        made: Counter[float] = Counter()
        most_runs: dict[float, int] = {}
        longest: dict[float, float] = {}
        for gate in (gate for part in distinct([*here, *had]) for gate in _as_wanted(part)):
            made[gate.slowdown] += 1
            most_runs[gate.slowdown] = max(most_runs.get(gate.slowdown, 0), gate.runs)
        for gate in (gate for part in here for gate in _as_wanted(part)):
            longest[gate.slowdown] = max(longest.get(gate.slowdown, 0.0), gate.took_s)
        return cls(made=made, longest_s=longest, most_runs=most_runs)

    def is_enough(self) -> bool:
        """Whether all that is wanted is made."""
        return not self._missing()

    def lacks(self) -> str:
        """What is missing, as `3 unchanged, 1 at +1%`."""
        kinds = {
            slowdown: f"at +{slowdown:.0%}" if slowdown else "unchanged" for slowdown in WANTED
        }
        return ", ".join(f"{number} {kinds[slowdown]}" for slowdown, number in self._missing())

    def _missing(self) -> list[tuple[float, int]]:
        short = (
            (slowdown, number - self.made.get(slowdown, 0)) for slowdown, number in WANTED.items()
        )
        return [(slowdown, number) for slowdown, number in short if number > 0]


def _as_wanted(part: RecordedLoop) -> Iterator[RecordedGate]:
    """A part's gates that were made with the budgets of now."""
    return (
        gate for gate in part.gates if gate.budgets == BUDGETS[part.kind].get(gate.slowdown, {})
    )


def choose(
    progress: Progress, *, left_s: float, expected_s: Callable[[float], float], first: int = 0
) -> float | None:
    """The slowdown of the next gate: of those that fit into the time left, the one that most is missing of.

    `first` turns the order in which equally missing ones come, so that gates made side by side differ. None where
    nothing is missing, or nothing fits.
    """
    order = list(WANTED)
    turned = order[first % len(order) :] + order[: first % len(order)]
    missing = [slowdown for slowdown in turned if progress.made.get(slowdown, 0) < WANTED[slowdown]]
    fitting = [slowdown for slowdown in missing if expected_s(slowdown) <= left_s]
    return min(
        fitting,
        key=lambda slowdown: progress.made.get(slowdown, 0) / WANTED[slowdown],
        default=None,
    )


# The scratch repository


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a gate printed, and whether it was ended because the time was up."""

    text: str
    was_ended: bool
    took_s: float


class Project:
    """A scratch repository with one loop in it."""

    def __init__(self, root: Path, loop: str) -> None:
        self.root = root
        self.loop = loop
        self._file = root / "workloads" / "loops.py"

    @classmethod
    def made(cls, root: Path, loop: str) -> Project:
        """Make one with the loop committed."""
        project = cls(root, loop)
        project._file.parent.mkdir(parents=True)
        (root / "pyproject.toml").write_text("[tool.perfgate]\n", encoding="utf-8")
        (root / ".gitignore").write_text(".perfgate/\n__pycache__/\n", encoding="utf-8")
        project.plant()
        project._git("init", "-q")
        project.commit("loops")
        return project

    def commit(self, message: str) -> None:
        """Commit all that is there."""
        self._git("add", "-A")
        self._git(
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@localhost",
            "commit",
            "-q",
            "-m",
            message,
        )

    def plant(self, *, cycles: int = 100, spins: int = 0) -> None:
        """Write the constants of a slowdown into the working tree."""
        text = LOOPS.read_text(encoding="utf-8")
        text = re.sub(r"^SLEEP_CYCLES = .*$", f"SLEEP_CYCLES = {cycles}", text, flags=re.MULTILINE)
        text = re.sub(r"^SPINS = .*$", f"SPINS = {spins}", text, flags=re.MULTILINE)
        self._file.write_text(text, encoding="utf-8")

    def gate(self, *options: str, until: float) -> Said:
        """Run one gate, and end it at `until` (monotonic, s)."""
        began = time.monotonic()
        command = [sys.executable, "-m", "pytest", "--perfgate", "-k", self.loop, *options]
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            was_ended = False
            try:
                text, _ = process.communicate(timeout=max(0.0, until - began))
            except subprocess.TimeoutExpired:
                was_ended = True
                text = _end(process)
            except BaseException:
                _end(process)
                raise
        return Said(text=text, was_ended=was_ended, took_s=time.monotonic() - began)

    def bless(self) -> None:
        """Bless what was kept, and commit it.

        Raises:
            CalledProcessError: it was refused; its stderr says why.
        """
        command = [
            sys.executable,
            "-c",
            "from perfgate.cli import main; main()",
            "bless",
            "--reason",
            "unchanged",
        ]
        subprocess.run(
            command, cwd=self.root, env=environment(), check=True, capture_output=True, text=True
        )
        self.commit("bless")

    def baseline(self) -> Baseline | None:
        """The blessed baseline, None where there is none yet."""
        listed = Store(self.root, "baselines").baselines.listed()
        return next((one.found for one in listed if isinstance(one.found, Baseline)), None)

    def latest(self) -> KeptResult | None:
        """What the gate that was made last has kept."""
        return Store(self.root, "baselines").results.latest(self.loop)

    def run_s(self) -> float:
        """What a run takes, s, by what was kept last; a guess where nothing was."""
        kept = self.latest()
        runs = () if kept is None else (*kept.result.runs, *kept.result.interleaved_runs)
        return median(run.wall_s for run in runs) if runs else GUESSED_RUN_S

    def _git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.root, check=True)


def environment() -> dict[str, str]:
    """Of what runs in another folder: with paths that hold there, and with this perfgate where none is installed."""
    paths = [
        str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(":") if path
    ]
    return {**os.environ, "PYTHONPATH": ":".join(dict.fromkeys([*paths, str(ROOT)]))}


def _end(process: subprocess.Popen[str]) -> str:
    """Interrupt a gate as Ctrl-C does, so that it ends what it has started."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=END_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


# One loop on one GPU


def facts() -> dict[str, str]:
    """What a part tells of where it was measured; two parts with the same facts may share a baseline."""
    machine = read_machine(os.environ, nsys=None, nsys_options=())
    code = hashlib.sha256()
    for path in sorted(Path(perfgate.__file__).parent.rglob("*.py")):
        code.update(path.read_bytes())
    return {
        "GPU": machine.gpu_name,
        "driver": str(machine.driver),
        "CPU": str(machine.cpu),
        "cores": _listed(os.sched_getaffinity(0)),
        "torch": str(machine.torch),
        "nsys": str(find_nsys(None, os.environ).version),
        "python": python_version(),
        "perfgate": f"{perfgate.__version__}, code {code.hexdigest()[:8]}",
        "loops": hashlib.sha256(LOOPS.read_bytes()).hexdigest()[:8],
        "GPU id": _short(" ".join(gpu.uuid for gpu in machine.gpus)),
        "boot": _short(_boot()),
    }


def _boot() -> str:
    """What tells this start of this machine from any other; its name where the kernel has nothing better."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
    except OSError:
        return node()


def _short(text: str) -> str:
    """Enough to tell one from another, and nothing to know it by."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _listed(cores: Iterable[int]) -> str:
    """CPUs as the kernel lists them: `0-3,8`."""
    spans: list[list[int]] = []
    for core in sorted(cores):
        if spans and core == spans[-1][1] + 1:
            spans[-1][1] = core
        else:
            spans.append([core, core])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)


def _cores(listed: str) -> set[int]:
    spans = [span.partition("-") for span in listed.split(",")]
    return {core for first, _, last in spans for core in range(int(first), int(last or first) + 1)}


def parts_of(folder: Path, loop: str) -> dict[Path, RecordedLoop]:
    """What is recorded of a loop in a folder, by file."""
    return {path: load(path).loops[0] for path in sorted(folder.glob(f"{loop}-*.json"))}


class Site:
    """One loop on one GPU: its repository, its baseline and the file of its gates."""

    def __init__(
        self, folder: Path, loop: str, slot: int, had: Sequence[RecordedLoop] = ()
    ) -> None:
        self.loop = loop
        self._folder = folder
        self._had = tuple(part for part in had if part.name == loop)
        self._slot = slot
        self._facts = facts()
        self._work = folder / "work" / f"{loop}-{slot}"
        self._project = Project(self._work / "project", loop)
        self._part: RecordedLoop | None = None
        self._file = folder / f"{loop}.json"
        self._per_ms = spins_per_ms()

    @property
    def progress(self) -> Progress:
        """Of all parts of the loop that are in the folder now, those of other GPUs too, and of those made elsewhere."""
        return Progress.of(parts_of(self._folder, self.loop).values(), had=self._had)

    def prepare(self, until: float) -> bool:
        """Have a baseline: the one that was blessed here before, or a new one; False where the time does not do.

        Raises:
            SystemExit: it cannot be blessed.
        """
        baseline = self._project.baseline() if self._is_as_before() else None
        if baseline is None:
            shutil.rmtree(self._work, ignore_errors=True)
            self._project = Project.made(self._work / "project", self.loop)
            said = self._project.gate(f"--perfgate-runs={BLESSED_RUNS}", until=until)
            self._log("baseline", said.text)
            if said.was_ended:
                print(f"{self.loop}: the time was up before there was a baseline", flush=True)
                return False
            try:
                self._project.bless()
            except subprocess.CalledProcessError as refused:
                raise SystemExit(
                    f"{self.loop}: no baseline\n{said.text}\n{refused.stderr}"
                ) from refused
            (self._work / "facts.json").write_text(json.dumps(self._facts), encoding="utf-8")
            baseline = self._project.baseline()
            assert baseline is not None  # it was blessed
            print(
                f"{self.loop}: a baseline of {BLESSED_RUNS} runs in {said.took_s:.0f} s", flush=True
            )
        self._run_s = self._project.run_s()
        self._continue(
            RecordedLoop(
                name=self.loop,
                kind=KINDS[self.loop],
                machine=self._facts,
                baseline=blessings_of(baseline),
            )
        )
        return True

    def expected_s(self, slowdown: float) -> float:
        """How long a gate may take: the longest so far of its slowdown, or what its runs may come to, s."""
        progress = self.progress
        longest = progress.longest_s.get(slowdown)
        runs = progress.most_runs.get(slowdown, RUNS_OF_A_GATE[KINDS[self.loop]][slowdown > 0])
        return runs * self._run_s if longest is None else longest

    def gate(self, slowdown: float, until: float) -> bool:
        """Make one gate and record it; whether it gave a verdict."""
        assert self._part is not None
        more_ms = slowdown * self._step_ms()
        if KINDS[self.loop] is Kind.GPU_BOUND and self._facts["GPU"] != "no GPU":
            self._project.plant(cycles=100 + round(more_ms * CYCLES_PER_MS))
        else:
            self._project.plant(spins=round(more_ms * self._per_ms))
        before = self._project.latest()
        budgets = BUDGETS[KINDS[self.loop]].get(slowdown, {})
        killed = Spoilt(
            slowdown=slowdown, budgets=budgets, why="it was killed, and what made it too"
        )
        # As the file will have it if neither this process nor the gate comes to an end.
        self._save(_with(self._part, killed))
        against = slowdown in AGAINST[KINDS[self.loop]]
        options = [f"--perfgate-budget={metric}={budget:g}" for metric, budget in budgets.items()]
        said = self._project.gate(
            *(["--perfgate-against=HEAD"] if against else []), *options, until=until
        )
        self._log(f"+{slowdown:.0%}", said.text)
        kept = self._project.latest()
        is_new = kept is not None and (before is None or kept.folder != before.folder)
        made = self._made(kept, slowdown, more_ms, said) if is_new and kept is not None else None
        if isinstance(made, RecordedGate):
            self._part = self._part.model_copy(update={"gates": (*self._part.gates, made)})
            told = f"{made.outcome}, {made.runs} runs, {said.took_s:.0f} s"
        else:
            why = "the time was up" if said.was_ended else made or "it kept no result"
            spoilt = Spoilt(
                slowdown=slowdown, budgets=budgets, why=f"{why}, after {said.took_s:.0f} s"
            )
            self._part = _with(self._part, spoilt)
            told = f"no verdict: {spoilt.why}"
        self._save(self._part)
        print(f"{self._file.stem}, +{slowdown:.0%}: {told}", flush=True)
        return isinstance(made, RecordedGate)

    def may_plant(self) -> bool:
        """Whether it is known how long a step takes where the gate will judge it."""
        return KINDS[self.loop] is Kind.GPU_BOUND or bool(
            self._part is not None and self._part.gates
        )

    def _made(
        self, kept: KeptResult, slowdown: float, more_ms: float, said: Said
    ) -> RecordedGate | str:
        verdict, kind = kept.result.verdict, KINDS[self.loop]
        if verdict.outcome in GIVES_NO_VERDICT:
            return f"{verdict.outcome}: {verdict.reason}"
        try:
            return gate_of(
                kept.result,
                slowdown=slowdown,
                planted_ms=more_ms,
                took_s=said.took_s,
                against=slowdown in AGAINST[kind],
                budgets=BUDGETS[kind].get(slowdown, {}),
            )
        except ValidationError as refused:
            return str(refused.errors()[0]["msg"])

    def _step_ms(self) -> float:
        """A step as the gate will judge it: interleaved, on one core, it takes another time than alone."""
        assert self._part is not None
        runs = [run for gate in self._part.gates if gate.interleaved for run in gate.reference]
        values = [run.values for run in (runs or self._part.baseline)]
        return median(one[Metric.STEP_MS] for one in values)

    def _is_as_before(self) -> bool:
        try:
            return bool(
                json.loads((self._work / "facts.json").read_text(encoding="utf-8")) == self._facts
            )
        except (OSError, ValueError):
            return False

    def _continue(self, fresh: RecordedLoop) -> None:
        """Go on with the part of the same baseline on the same GPU, or begin a file of its own."""
        parts = parts_of(self._folder, self.loop)
        for path, part in parts.items():
            if (part.machine, part.baseline) == (fresh.machine, fresh.baseline):
                self._file, self._part = path, part
                return
        stem = f"{self.loop}-{self._facts['boot']}-{self._slot}"
        number = 1 + sum(path.stem.startswith(f"{stem}-") for path in parts)
        self._file, self._part = self._folder / f"{stem}-{number}.json", fresh
        self._save(fresh)

    def _save(self, part: RecordedLoop) -> None:
        save(Recording(machine=_shared([part]), loops=(part,)), self._file)

    def _log(self, title: str, text: str) -> None:
        with (self._folder / f"{self.loop}-{self._slot}.log").open("a", encoding="utf-8") as file:
            file.write(f"== {title}\n{text}\n")


def _with(part: RecordedLoop, spoilt: Spoilt) -> RecordedLoop:
    return part.model_copy(update={"spoilt": (*part.spoilt, spoilt)})


def spins_per_ms() -> float:
    """How many turns of an empty loop this CPU takes in a ms, under the best of several tries on each of its cores.

    A core may have two speeds, each for a second or more, and which one it has when a gate is made nobody knows before.
    """
    turns, tries = 200_000, 5
    allowed = os.sched_getaffinity(0)
    best = float("inf")
    try:
        for core in sorted(allowed):
            os.sched_setaffinity(0, {core})
            for _ in range(tries):
                began = time.perf_counter()
                for _ in range(turns):
                    pass
                best = min(best, time.perf_counter() - began)
    finally:
        os.sched_setaffinity(0, allowed)
    return turns / best / 1000


def collect(
    folder: Path,
    loops: Sequence[str],
    *,
    seconds: float,
    slot: int,
    had: Sequence[RecordedLoop] = (),
) -> None:
    """Make gates of the loops, whichever is furthest behind, until there are enough or `seconds` are over.

    Those of the parts in `had` need not be made again.
    """
    ends = time.monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    sites = [Site(folder, loop, slot, had) for loop in loops]
    sites = [site for site in sites if not site.progress.is_enough() and site.prepare(ends)]
    spoilt = 0
    while spoilt < MOST_SPOILT:
        left_s = ends - time.monotonic()
        found: list[tuple[float, Site, float]] = []
        for site in sites:
            progress = site.progress
            slowdown = choose(progress, left_s=left_s, expected_s=site.expected_s, first=slot)
            if slowdown is not None and not site.may_plant():
                slowdown = 0.0 if site.expected_s(0.0) <= left_s else None
            if slowdown is not None:
                found.append((sum(progress.made.values()), site, slowdown))
        if not found:
            break
        _, site, slowdown = min(found, key=lambda one: one[0])
        spoilt = 0 if site.gate(slowdown, ends + GRACE_S) else spoilt + 1
    else:
        raise SystemExit(f"{MOST_SPOILT} gates in a row gave no verdict; see the logs in {folder}")
    print(
        f"{', '.join(loops)} on slot {slot}: done with {ends - time.monotonic():.0f} s left",
        flush=True,
    )


# All GPUs at once


@dataclass(frozen=True, kw_only=True)
class Slot:
    """What one of several processes side by side has for itself."""

    number: int
    loops: tuple[str, ...]
    gpu: str | None
    """For CUDA_VISIBLE_DEVICES."""
    cores: str


def slots(gpus: Sequence[str], cores: Sequence[Sequence[int]], loops: Sequence[str]) -> list[Slot]:
    """Give each GPU one of the loops in turn, or all of them where it is the only one, and its share of the cores.

    `cores` are the CPUs by physical core, so that no two slots share one.
    """
    number = max(len(gpus), 1)
    each = len(cores) // number
    if not each:
        raise SystemExit(f"{number} GPUs share {len(cores)} CPU cores: each needs one for itself")
    return [
        Slot(
            number=index,
            loops=tuple(loops) if number == 1 else (loops[index % len(loops)],),
            gpu=gpus[index] if gpus else None,
            cores=_listed(cpu for core in cores[index * each : (index + 1) * each] for cpu in core),
        )
        for index in range(number)
    ]


def physical_cores(topology: Path = Path("/sys/devices/system/cpu")) -> list[list[int]]:
    """The CPUs that this process may run on, those of one core together."""
    allowed = os.sched_getaffinity(0)
    cores: dict[frozenset[int], list[int]] = {}
    for cpu in sorted(allowed):
        try:
            listed = (topology / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text(
                encoding="utf-8"
            )
            siblings = frozenset(_cores(listed.strip()))
        except (OSError, ValueError):
            siblings = frozenset({cpu})
        cores.setdefault(siblings, []).append(cpu)
    return list(cores.values())


def visible_gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES may say, one entry a GPU."""
    number = len(read_machine(os.environ, nsys=None, nsys_options=()).gpus)
    given = [
        word.strip()
        for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        if word.strip()
    ]
    return given[:number] if given else [str(index) for index in range(number)]


def collect_on_all(
    folder: Path, *, seconds: float, loops: Sequence[str], have: Sequence[Path] = ()
) -> int:
    """Collect in one process a GPU what neither the folder nor the recordings in `have` hold.

    Returns the worst of their exit statuses.
    """
    ends = time.monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    had = parts_in(have)
    lacking: list[str] = []
    for loop in loops:
        elsewhere = [part for part in had if part.name == loop]
        progress = Progress.of(parts_of(folder, loop).values(), had=elsewhere)
        if not progress.is_enough():
            lacking.append(loop)
            print(f"{loop}: to be made are {progress.lacks()}", flush=True)
    if not lacking:
        print(f"there are enough gates in {' and '.join(map(str, [folder, *have]))}")
        return 0
    running: list[subprocess.Popen[bytes]] = []
    try:
        for slot in slots(visible_gpus(), physical_cores(), lacking):
            words = [
                "--seconds",
                f"{ends - time.monotonic():.0f}",
                "--slot",
                str(slot.number),
                "--cores",
                slot.cores,
            ]
            words += [word for path in have for word in ("--have", str(path.resolve()))]
            command = [
                sys.executable,
                "-m",
                "benchmarks.decision.collect",
                *slot.loops,
                str(folder.resolve()),
                *words,
            ]
            gpu = {} if slot.gpu is None else {"CUDA_VISIBLE_DEVICES": slot.gpu}
            print(
                f"slot {slot.number}: {', '.join(slot.loops)} on GPU {slot.gpu}, CPUs {slot.cores}",
                flush=True,
            )
            running.append(subprocess.Popen(command, cwd=ROOT, env={**os.environ, **gpu}))
        return max(abs(process.wait()) for process in running)
    finally:
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait()


# Many files, one recording


def merge(recordings: Sequence[Recording]) -> Recording:
    """One recording of several; each part keeps its own baseline and machine.

    Of two copies of one part, the one with more gates is taken.
    """
    parts = distinct(part for recording in recordings for part in recording.loops)
    kept = [part for part in parts if any(_size(part))]
    if not kept:
        raise SystemExit("there is no gate in any of them")
    kept.sort(key=lambda part: list(KINDS).index(part.name) if part.name in KINDS else len(KINDS))
    return Recording(machine=_shared(kept), remarks=tuple(_differing(kept)), loops=tuple(kept))


def distinct(parts: Iterable[RecordedLoop]) -> list[RecordedLoop]:
    """The parts, each once: of two copies of one, that with more gates."""
    found: dict[str, RecordedLoop] = {}
    for part in parts:
        key = part.model_copy(update={"gates": (), "spoilt": ()}).model_dump_json()
        if key not in found or _size(part) > _size(found[key]):
            found[key] = part
    return list(found.values())


def _size(part: RecordedLoop) -> tuple[int, int]:
    return len(part.gates), len(part.spoilt)


_OF_A_PART: Final = frozenset({"GPU id", "boot", "cores"})
"""Facts by which parts differ without being of other machines."""


def _shared(parts: Sequence[RecordedLoop]) -> dict[str, str]:
    names = dict.fromkeys(name for part in parts for name in part.machine)
    told = {
        name: {part.machine.get(name) for part in parts} for name in names if name not in _OF_A_PART
    }
    return {
        name: value
        for name, values in told.items()
        if len(values) == 1 and (value := min(values, key=str))
    }


def _differing(parts: Sequence[RecordedLoop]) -> list[str]:
    boots, gpus = (
        {part.machine.get(name) for part in parts} - {None} for name in ("boot", "GPU id")
    )
    remarks = [
        f"Measured on {_times(len(gpus), 'GPU')} of {_times(len(boots), 'machine')}, {len(parts)} baselines."
    ]
    names = dict.fromkeys(name for part in parts for name in part.machine if name not in _OF_A_PART)
    for name in names:
        values = Counter(part.machine.get(name, "not told") for part in parts)
        if len(values) > 1:
            told = ", ".join(
                f"{value} ({_times(number, 'part')})" for value, number in values.items()
            )
            remarks.append(f"Parts differ by {name}: {told}.")
    return remarks


def _times(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# The door


def read(path: Path) -> Recording:
    """Read a recording.

    Raises:
        SystemExit: it is not there, or is none.
    """
    try:
        return load(path)
    except OSError as refused:
        raise SystemExit(f"{path}: it cannot be read ({refused.strerror or refused}).") from refused
    except ValidationError as invalid:
        raise SystemExit(
            f"{path}: it is no recording of gates ({invalid.errors()[0]['msg']})."
        ) from invalid


def parts_in(paths: Sequence[Path]) -> list[RecordedLoop]:
    """All parts of these recordings."""
    return [part for path in paths for part in read(path).loops]


def main(argv: Sequence[str] | None = None) -> int:
    """Collect or merge, as the arguments say, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", nargs="+", metavar="WHAT", help="all, gpu_bound, cpu_bound (or both), or merge"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=540,
        help="begin no gate that would end later (default 540)",
    )
    parser.add_argument(
        "--only", choices=tuple(KINDS), action="append", help="of all: this loop alone"
    )
    parser.add_argument(
        "--slot", type=int, default=0, help="number of this process among several side by side"
    )
    parser.add_argument("--cores", help="CPUs to run on, as in 0-15,64")
    parser.add_argument(
        "--have",
        type=Path,
        action="append",
        default=[],
        metavar="RECORDING.json",
        help="gates that need not be made again; may be given several times",
    )
    words = parser.parse_args(argv)
    what, *paths = words.what
    if what == "merge":
        if len(paths) < 2:
            parser.error("merge wants the file to write, and those to merge")
        out, *parts = map(Path, paths)
        # What it held stays: its parts may be nowhere else.
        save(merge([read(part) for part in (*([out] if out.exists() else []), *parts)]), out)
        return 0
    *loops, folder = words.what
    unknown = [loop for loop in loops if loop not in KINDS]
    if not loops or (unknown and loops != ["all"]):
        parser.error(f"give all, merge, or of {', '.join(KINDS)} what to measure, and a folder")
    # A shell that puts this into the background has it ignore Ctrl-C, and every gate with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ending_as_on_ctrl_c():
            if loops == ["all"]:
                loops_of_all = words.only or tuple(KINDS)
                return collect_on_all(
                    Path(folder), seconds=words.seconds, loops=loops_of_all, have=words.have
                )
            if words.cores:
                os.sched_setaffinity(0, _cores(words.cores))
            collect(
                Path(folder),
                loops,
                seconds=words.seconds,
                slot=words.slot,
                had=parts_in(words.have),
            )
    except KeyboardInterrupt:
        print("interrupted; what was made is kept")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
