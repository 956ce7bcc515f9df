"""The tutorial workloads at their CPU sizes under a real nsys: steps and ranges of every loop,
variant and script.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.loops import VARIANTS, WORKLOADS

from perfgate.metrics.measure import measure
from perfgate.model.metric import Metric
from perfgate.model.sample import ProcessSample
from perfgate.model.timeline import Timeline
from perfgate.model.workload import CaptureMode
from perfgate.profilers.nsys.command import withhold_secrets
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.profilers.nsys.profile import profile
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import ProfileSpec
from perfgate.store import KeptResult, Store

pytestmark = [
    pytest.mark.nsys,
    pytest.mark.usefixtures("real_nsys"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="no torch here: it is in the extra torch"
    ),
]

LOOPS = [f"{loop}.py" for loop in VARIANTS]
IN_STEP = {
    "resnet18_input": {"get batch", "copy batch", "compute"},
    "resnet50_cifar": {"get batch", "copy batch", "forward", "backward", "optimizer", "loss stats"},
    "data_load_lab": {"data_load", "forward", "backward", "optimizer"},
}
DDP_IN_STEP = {"get batch", "copy batch", "zero grad", "forward", "loss", "backward", "optimizer"}
STEP = r"step|(Batch|step) #"
"""A step's own range, with a # for its index."""
STALL_MS = 30.0
STEPS = 4
"""Of each variant in `every_variant`."""

EVERY_VARIANT = """
import importlib.util, sys
from pathlib import Path
import nvtx, torch

class Steps:
    def __init__(self, name):
        self.name = name
    def __len__(self):
        return 4
    def __iter__(self):
        for turn in range(4):
            with nvtx.annotate(self.name):
                yield turn

for file in map(Path, sys.argv[1:]):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for variant in module.VARIANTS:
        torch._dynamo.reset()
        getattr(module, file.stem)(Steps(f"{file.stem}[{variant}]"), variant)
"""
"""All variants in one process, each with steps under its own name: a process of its own for each
takes minutes.
"""


@dataclass(frozen=True, kw_only=True)
class Gated:
    """One gate over all tutorial workloads."""

    status: int
    outcomes: Mapping[str, str]
    """By workload, in the order of the gate."""
    kept: Mapping[str, KeptResult]

    def processes(self, name: str) -> tuple[ProcessSample, ...]:
        """The processes of a workload's one run, about which there must be no complaint."""
        [run] = self.kept[name].result.runs
        assert run.invalid == ()
        return run.processes

    def log(self, name: str) -> str:
        """What a workload's one run printed."""
        return (self.run_of(name) / "workload.log").read_text(encoding="utf-8")

    def run_of(self, name: str) -> Path:
        """The folder of a workload's one run; another than the first where nsys broke down in
        that.
        """
        [run] = self.kept[name].result.runs
        assert run.folder is not None
        return self.kept[name].folder / run.folder


def environment() -> dict[str, str]:
    """Without a GPU, with the interpreter that runs the tests as `python`, and with no threads
    but the loaders'."""
    kept, _ = withhold_secrets(os.environ, ())
    for name in ("VARIANTS", "PERFGATE_SMALL"):
        kept.pop(name, None)
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    return {
        **kept,
        "CUDA_VISIBLE_DEVICES": "",
        "PATH": path,
        "COLUMNS": "100",
        "OMP_NUM_THREADS": "1",
    }


def changed(file: str, words: Mapping[str, str]) -> str:
    """A shipped YAML workload with some of its text, which must be there once, replaced."""
    text = (WORKLOADS / file).read_text(encoding="utf-8")
    for old, new in words.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def gated(real_nsys: object, tmp_path_factory: pytest.TempPathFactory) -> Gated:
    """A gate over copies of all tutorial workloads; of the job of ranks one with a straggler, and
    one without peers."""
    root = tmp_path_factory.mktemp("project")
    (root / "pyproject.toml").write_text('[project]\nname = "scratch"\nversion = "1"\n')
    workloads = root / "workloads"
    shutil.copytree(
        WORKLOADS / "scripts", workloads / "scripts", ignore=shutil.ignore_patterns("__pycache__")
    )
    for file in (*LOOPS, "data_load_script.yaml"):
        shutil.copy(WORKLOADS / file, workloads)
    fewer = {"--warmup=20": "--warmup=2", "steps: 40": "steps: 8"}
    stalled = f"--steps=8\n  - --stall-rank=1\n  - --stall-ms={STALL_MS:g}"
    two = {**fewer, "--steps=40": stalled, "--nproc-per-node=auto": "--nproc-per-node=2"}
    torchrun = "  - -m\n  - torch.distributed.run\n  - --standalone\n  - --nproc-per-node=auto\n"
    one = {**fewer, "--steps=40": "--steps=8", torchrun: ""}
    (workloads / "resnet50_ddp.yaml").write_text(
        changed("resnet50_ddp.yaml", two), encoding="utf-8"
    )
    (workloads / "resnet50_alone.yaml").write_text(
        changed("resnet50_ddp.yaml", one), encoding="utf-8"
    )
    options = [
        "--perfgate",
        "--perfgate-runs=1",
        "--perfgate-json=out.json",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=root,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    print(done.stdout, done.stderr)  # noqa: T201  (pytest shows it where a test fails)
    verdicts = [
        found["verdict"] for found in json.loads((root / "out.json").read_text())["workloads"]
    ]
    store = Store(root, "baselines")
    latest = {
        verdict["workload"]: store.results.latest(verdict["workload"]) for verdict in verdicts
    }
    return Gated(
        status=done.returncode,
        outcomes={verdict["workload"]: verdict["outcome"] for verdict in verdicts},
        kept={name: kept for name, kept in latest.items() if kept is not None},
    )


def in_step(process: ProcessSample) -> dict[str, float]:
    """How often per step each range was there inside a step, without the step's own."""
    return {
        found.name: found.count
        for found in process.ranges
        if found.count and not re.fullmatch(STEP, found.name)
    }


def test_a_plain_gate_takes_one_variant_of_each_series_and_the_scripts_by_their_yaml(
    gated: Gated,
) -> None:
    assert gated.status == 1
    assert gated.outcomes == dict.fromkeys(
        [
            "data_load_lab[workers]",
            "data_load_script",
            "resnet18_input[steady]",
            "resnet50_alone",
            "resnet50_cifar[steady]",
            "resnet50_ddp",
        ],
        "NO_BASELINE",
    )
    assert gated.kept.keys() == gated.outcomes.keys()


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("data_load_lab[workers]", 70),
        ("resnet18_input[steady]", 20),
        ("resnet50_cifar[steady]", 30),
    ],
)
def test_a_loop_has_its_steps_and_in_each_of_them_its_ranges_once(
    gated: Gated, name: str, steps: int
) -> None:
    [process] = gated.processes(name)
    assert process.steps == steps
    assert in_step(process) == dict.fromkeys(IN_STEP[name.partition("[")[0]], 1)


def test_a_script_without_perfgate_is_measured_by_its_indexed_ranges(gated: Gated) -> None:
    [process] = gated.processes("data_load_script")
    assert process.steps == 70
    assert in_step(process) == dict.fromkeys(IN_STEP["data_load_lab"], 1)
    assert re.search(
        r"^mean loss of 110 batches: \d\.\d{4}$", gated.log("data_load_script"), re.MULTILINE
    )


def ranks(gated: Gated, name: str) -> dict[int, ProcessSample]:
    """The processes of a job by rank, as the script prints them."""
    found = re.findall(
        r"^rank (\d) of (\d), process (\d+): loss \d\.\d{4}$", gated.log(name), re.MULTILINE
    )
    by_pid = {process.pid: process for process in gated.processes(name)}
    assert {int(world) for _, world, _ in found} == {len(by_pid)}
    assert {int(pid) for _, _, pid in found} == by_pid.keys()
    return {int(rank): by_pid[int(pid)] for rank, _, pid in found}


@pytest.mark.parametrize(("name", "world"), [("resnet50_ddp", 2), ("resnet50_alone", 1)])
def test_each_rank_of_a_job_has_its_steps_and_ranges(gated: Gated, name: str, world: int) -> None:
    processes = ranks(gated, name)
    assert sorted(processes) == list(range(world))
    for process in processes.values():
        assert process.steps == 8
        assert in_step(process) == dict.fromkeys(DDP_IN_STEP, 1)


def test_the_ranges_of_a_training_are_nested_around_its_steps_but_not_around_the_warm_up(
    gated: Gated,
) -> None:
    ranges = read_timeline(gated.run_of("resnet50_alone") / "capture-0.sqlite").ranges
    span = {
        name: (start, end)
        for name, start, end in zip(ranges.name, ranges.start, ranges.end, strict=True)
    }
    outer = ["entire training", "training epoch 0", "epoch 0"]
    for around, inside in itertools.pairwise([*outer, "step 0"]):
        assert span[around][0] <= span[inside][0] < span[inside][1] <= span[around][1]
    assert span["step 7"][1] <= span["epoch 0"][1]
    assert (
        span["warm-up"][0]
        <= span["warm-up step 1"][0]
        < span["warm-up step 1"][1]
        <= span["entire training"][0]
    )


def test_the_straggler_is_the_rank_whose_batches_are_late(gated: Gated) -> None:
    processes = ranks(gated, "resnet50_ddp")
    get_batch = {
        rank: next(found.cpu_ms for found in process.ranges if found.name == "get batch")
        for rank, process in processes.items()
    }
    assert get_batch[1] >= STALL_MS
    assert get_batch[0] < get_batch[1] - STALL_MS / 2
    # The other one waits for it.
    assert all(process.values[Metric.STEP_MS] >= STALL_MS for process in processes.values())


@pytest.fixture(scope="module")
def every_variant(nsys_tool: NsysTool, tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    """A capture of all variants of all loops."""
    root = tmp_path_factory.mktemp("variants")
    (root / "every_variant.py").write_text(EVERY_VARIANT, encoding="utf-8")
    spec = ProfileSpec(
        argv=(sys.executable, "every_variant.py", *(str(WORKLOADS / file) for file in LOOPS)),
        folder=root / "run",
        cwd=root,
        env=environment(),
        timeout_s=240,
        capture=CaptureMode.ALL,
    )
    outcome = profile(nsys_tool, spec)
    assert not outcome.crashed, "NsysCrashed"
    assert (outcome.exit_status, outcome.problem) == (0, None), outcome.tail
    [captured] = outcome.captures
    return read_timeline(captured.sqlite)


@pytest.mark.parametrize(
    "name", [f"{loop}[{variant}]" for loop, names in VARIANTS.items() for variant in names]
)
def test_every_variant_goes_through_its_steps_and_the_same_ranges(
    every_variant: Timeline, name: str
) -> None:
    [process] = measure(every_variant, step=name, steps=STEPS)
    assert process.steps == STEPS
    counts = {
        found.name: found.count for found in process.ranges if found.count and found.name != name
    }
    assert counts == dict.fromkeys(IN_STEP[name.partition("[")[0]], 1)
