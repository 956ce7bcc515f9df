"""`perfgate explain --ncu`, with a stand-in for ncu that notes its words, runs the workload, and
prints a table.

The workload's own processes are real, and so is the checkout of the compared commit. That a real
ncu does as the stand-in does is for tests/gpu to show.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import records
from support.project import Project, Seen
from syrupy.assertion import SnapshotAssertion

from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.model.baseline import Commit
from perfgate.model.metric import Metric
from perfgate.model.sample import KernelSample, Run
from perfgate.model.workload import CaptureMode, Workload

GEMM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)"
GEMM_SYMBOL = "_ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE"
"""A kernel of the recorded capture."""
SGEMM = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel"
    "__5x_cublas"
)

FAKE_NCU = """\
#!{python} -B
import json, os, subprocess, sys
from pathlib import Path

words = sys.argv[1:]
if words == ["--version"]:
    print("Version 2025.3.1.0 (build 1) (public-release)")
    sys.exit(0)
options, sections = {{}}, []
while words and words[0].startswith("--"):
    word = words.pop(0)
    if word == "--section":
        sections.append(words.pop(0))
    else:
        name, _, value = word.partition("=")
        options[name] = value
if "--import" in options:
    kernel, speed = Path(options["--import"]).read_text().split()
    head = ("ID", "Kernel Name", "Block Size", "Grid Size", "Device", "gpu__time_duration.sum")
    rows = (head, ("",) * 5 + ("ns",), ("0", kernel, "(256, 1, 1)", "(64, 1, 1)", "0", speed))
    print("\\n".join(",".join('"' + cell + '"' for cell in row) for row in rows))
    sys.exit(0)
with open({asked!r}, "a") as asked:
    token = os.environ.get("HF_TOKEN")
    asked.write(json.dumps([options, sections, words, os.getcwd(), token]) + "\\n")
log, report = Path(options["--log-file"]), Path(options["--export"])
log.write_text("==PROF== Connected to process 42\\n")
kernel = options["--kernel-name"]
{body}
status = subprocess.run(words).returncode
report.write_text(kernel + " " + Path("speed").read_text())
sys.exit(status)
"""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One run under the stand-in."""

    options: dict[str, str]
    sections: list[str]
    argv: list[str]
    cwd: str
    token: str | None


@dataclass(frozen=True, kw_only=True)
class Bed:
    """A project with a kept result whose GEMM takes longer than in its baseline, and a stand-in for
    ncu."""

    here: Project
    sha: str
    """The commit of the baseline."""
    elsewhere: Path
    """Outside the project, as programs are."""

    def ncu(self, body: str = "") -> None:
        """Put the stand-in there, which does as a test needs before it runs the workload."""
        program = self.elsewhere / "ncu"
        asked = str(self.elsewhere / "asked.jsonl")
        text = FAKE_NCU.format(python=sys.executable, asked=asked, body=textwrap.dedent(body))
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        self.here.patch.setenv("PERFGATE_NCU", str(program))

    def explain(self, workload: str = "loop") -> Seen:
        """Ask what its kernels do."""
        return self.here.perfgate("explain", workload, "--ncu", "--no-rules")

    @property
    def asked(self) -> list[Asked]:
        """What it was asked, run by run."""
        lines = (self.elsewhere / "asked.jsonl").read_text(encoding="utf-8").splitlines()
        names = ("options", "sections", "argv", "cwd", "token")
        return [Asked(**dict(zip(names, json.loads(line), strict=True))) for line in lines]

    @property
    def left(self) -> list[str]:
        """Reports that were left behind."""
        return [path.name for path in (self.here.root / ".perfgate").rglob("*.ncu-rep")]


def run(gemm_ms: float, *, sgemm_ms: float = 1.0, gemm: str = GEMM) -> Run:
    kernels = [
        KernelSample(name=gemm, count=12, gpu_ms=gemm_ms),
        KernelSample(name=SGEMM, count=1, gpu_ms=sgemm_ms),
    ]
    values = {**records.VALUES, Metric.KERNEL_MS: gemm_ms + sgemm_ms}
    made = records.run(processes=[records.process(values, steps=4, kernels=kernels)])
    return made.model_copy(update={"folder": "run-1"})


@pytest.fixture
def bed(here: Project, capture: Path, tmp_path: Path) -> Bed:
    return laid_out(here, capture, tmp_path)


def laid_out(
    here: Project, capture: Path, tmp_path: Path, *, before: str = GEMM, now: str = GEMM
) -> Bed:
    """The bed, its GEMM under a name of either side."""
    here.write("speed", "1000")
    here.write(".gitignore", "bin/\n*.sqlite\n.perfgate/\n__pycache__/\n")
    sha = here.commit()
    here.write("speed", "3000")
    baseline = here.baseline()
    occasion = baseline.occasions[0].model_copy(update={"commit": Commit(sha=sha)})
    breakdown = kept(breakdown_of([run(8.0, gemm=before)] * 5))
    here.bless(baseline.model_copy(update={"breakdown": breakdown, "occasions": (occasion,)}))
    result = records.result(
        of=here.declared(),
        on=here.machine,
        measured=[run(9.0, gemm=now)] * 3,
        code=here.code(),
        at=records.NOON.replace(hour=15),
    )
    folder = here.keep(result)
    (folder / "run-1").mkdir()
    shutil.copy(capture, folder / "run-1" / "capture-0.sqlite")
    made = Bed(here=here, sha=sha, elsewhere=tmp_path)
    made.ncu()
    return made


def table(out: str) -> list[str]:
    """What is shown of kernels under ncu, behind all else."""
    lines = out.splitlines()
    start = next(
        number for number, line in enumerate(lines) if line.startswith("kernels under ncu")
    )
    return lines[start:]


def test_a_kernel_that_moved_is_looked_at_in_the_project_and_in_the_baselines_commit(
    bed: Bed,
    snapshot: SnapshotAssertion,
) -> None:
    results = sorted((bed.here.root / ".perfgate" / "results").rglob("*"))
    seen = bed.explain()
    shown = "\n".join(table(seen.out)).replace(bed.sha[:12], "0123456789ab")
    assert seen.status == 0
    assert shown == snapshot
    assert seen.err == snapshot
    assert "kernel_ms +0.9000 ms" in seen.out
    assert bed.left == []
    assert bed.here.git("worktree", "list").count("\n") == 0
    assert sorted((bed.here.root / ".perfgate" / "results").rglob("*")) == results


def test_each_run_is_the_workloads_own_with_two_steps_and_its_whole_warm_up(bed: Bed) -> None:
    bed.here.patch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuv")
    bed.explain()
    now, before = bed.asked
    for one in (now, before):
        assert one.options["--kernel-name"] == GEMM_SYMBOL
        assert one.options["--kernel-name-base"] == "mangled"
        assert (one.options["--launch-skip"], one.options["--launch-count"]) == ("0", "1")
        assert (one.options["--profile-from-start"], one.options["--clock-control"]) == (
            "off",
            "none",
        )
        assert one.sections == ["SpeedOfLight", "LaunchStats", "Occupancy"]
        assert "workloads/loops.py::loop" in one.argv
        assert one.token is None
    assert now.cwd == str(bed.here.root)
    assert before.cwd.startswith(str(bed.here.root / ".perfgate" / "worktrees"))
    order = json.loads(
        (bed.here.root / ".perfgate" / "ncu" / "1-now" / "order.json").read_text(encoding="utf-8")
    )
    assert (order["steps"], order["warmup"]) == (2, 1)


def test_without_a_commit_to_run_there_is_only_now_and_it_says_why(bed: Bed) -> None:
    (listed,) = bed.here.store.baselines.listed()
    baseline = listed.found
    assert not isinstance(baseline, Exception)
    dirty = baseline.occasions[0].model_copy(update={"commit": Commit(sha=bed.sha, dirty=True)})
    listed.path.unlink()
    bed.here.bless(baseline.model_copy(update={"occasions": (dirty,)}))
    seen = bed.explain()
    assert seen.status == 0
    lines = table(seen.out)
    assert "commit-dirty" in seen.codes
    assert ["duration,", "us", "-", "3.000"] in [line.split() for line in lines]
    assert len(bed.asked) == 1


def test_a_commit_on_which_it_does_not_run_leaves_now_and_the_reason(bed: Bed) -> None:
    bed.ncu('if "worktrees" in os.getcwd():\n    sys.exit(7)')
    seen = bed.explain()
    assert seen.status == 0
    written = " ".join(" ".join(table(seen.out)).split())
    assert "a no figures: loop: " in written, written


def test_without_permission_for_the_counters_it_fails_with_nvidias_page(bed: Bed) -> None:
    bed.ncu(
        """\
        log.write_text("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access "
                       "NVIDIA GPU Performance Counters on the target device 0.\\n")
        subprocess.run(words)
        sys.exit(0)
        """
    )
    seen = bed.explain()
    assert seen.status == 42
    assert "https://developer.nvidia.com/ERR_NVGPUCTRPERM" in seen.err
    assert "kernel_ms +0.9000 ms" in seen.out


def test_a_workload_that_fails_under_ncu_says_how(bed: Bed, snapshot: SnapshotAssertion) -> None:
    bed.here.workload(
        "from perfgate import workload\n\n@workload(steps=4, warmup=1)\ndef loop(steps):\n"
        "    1 / 0\n"
    )
    seen = bed.explain()
    assert seen.status == 16
    assert seen.err == snapshot
    assert bed.left == []


def test_a_launch_that_does_not_come_is_no_figure(bed: Bed) -> None:
    bed.ncu("sys.exit(subprocess.run(words).returncode)")
    lines = table(bed.explain().out)
    assert [line.split()[:3] for line in lines[-2:]] == [
        ["a", "no", "figures:"],
        ["b", "no", "figures:"],
    ]


def test_a_kernel_of_torch_compile_is_found_whatever_its_number(
    here: Project, capture: Path, tmp_path: Path
) -> None:
    bed = laid_out(
        here, capture, tmp_path, before="triton_poi_fused_add_1", now="triton_poi_fused_add_4"
    )
    (export,) = (here.root / ".perfgate" / "results").rglob("capture-0.sqlite")
    with closing(sqlite3.connect(export)) as opened, opened:
        opened.execute(
            "UPDATE StringIds SET value = 'triton_poi_fused_add_4' WHERE value IN (?, ?)",
            (GEMM, GEMM_SYMBOL),
        )
    bed.ncu('kernel = "triton_poi_fused_add_" + Path("speed").read_text()')
    seen = bed.explain()
    assert seen.status == 0, seen.err
    assert [one.options["--kernel-name"] for one in bed.asked] == [
        "regex:^triton_poi_fused_add(_[0-9]+)+$"
    ] * 2
    lines = table(seen.out)
    assert "triton_poi_fused_add  +1.000 ms a step, each +12.5 %" in lines
    assert "  duration, us        1.000        3.000" in lines


def test_without_a_capture_no_kernel_can_be_named_to_ncu(bed: Bed) -> None:
    (capture,) = (bed.here.root / ".perfgate" / "results").rglob("capture-0.sqlite")
    capture.unlink()
    seen = bed.explain()
    assert seen.status == 0
    assert not (bed.elsewhere / "asked.jsonl").exists()


def test_changed_code_is_remarked_upon(bed: Bed) -> None:
    bed.here.workload(
        (bed.here.root / "workloads" / "loops.py").read_text(encoding="utf-8") + "\n# changed\n"
    )
    lines = table(bed.explain().out)
    assert any(line.split()[:1] == ["note"] for line in lines)


def gone(bed: Bed) -> None:
    bed.here.workload("")


def without_ncu(bed: Bed) -> None:
    bed.here.patch.setenv("PERFGATE_NCU", "/nowhere/ncu")


def without_gpu(bed: Bed) -> None:
    bed.here.patch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize(
    ("arrange", "status", "says"),
    [
        (gone, 10, "workload-unknown"),
        (without_ncu, 40, "perfgate: ncu /nowhere/ncu (from PERFGATE_NCU): "),
        (without_gpu, 42, "gpu-missing"),
    ],
)
def test_where_it_cannot_be_run_again_the_explanation_stands_and_it_says_why(
    bed: Bed, arrange: Callable[[Bed], None], status: int, says: str
) -> None:
    arrange(bed)
    seen = bed.explain()
    assert (seen.status, says in seen.codes or seen.err.startswith(says)) == (status, True)
    assert "kernel_ms +0.9000 ms" in seen.out


@pytest.mark.parametrize("words", [["a.json", "b.json"], ["a.sqlite"]])
def test_only_a_workload_can_be_run_again(
    here: Project, words: list[str], snapshot: SnapshotAssertion
) -> None:
    seen = here.perfgate("explain", *words, "--ncu")
    assert seen.status == 2
    assert seen.err == snapshot


def test_a_command_is_run_as_it_is_and_its_warm_up_is_passed_over(bed: Bed) -> None:
    bed.here.write("train.py", "")
    bed.here.write(
        "workloads/train.yaml",
        "command: [python, train.py]\nstep: batch\nwarmup: 3\nsteps: 4\ncapture: all\n",
    )
    train = Workload(
        id="train",
        source="workloads/train.yaml",
        command=("python", "train.py"),
        step="batch",
        steps=4,
        warmup=3,
        capture=CaptureMode.ALL,
    )
    folder = bed.here.keep(records.result(of=train, on=bed.here.machine, measured=[run(9.0)] * 3))
    (folder / "run-1").mkdir()
    (capture,) = (bed.here.root / ".perfgate" / "results").rglob("capture-0.sqlite")
    shutil.copy(capture, folder / "run-1" / "capture-0.sqlite")
    baseline = records.baseline(of=train, on=bed.here.machine)
    bed.here.bless(baseline.model_copy(update={"breakdown": kept(breakdown_of([run(8.0)] * 5))}))
    seen = bed.explain("train")
    assert seen.status == 0, seen.err
    (now,) = bed.asked
    # 12 launches in each of 3 steps of warm-up, counted from the start: nothing starts a capture.
    assert (now.options["--launch-skip"], now.options["--profile-from-start"]) == ("36", "on")
    assert now.argv[1:] == ["train.py"]
    assert Path(now.argv[0]).is_absolute()
    written = " ".join(" ".join(table(seen.out)).split())
    assert f"a no figures: commit {records.COMMIT.sha}: " in written
    assert "duration, us - 3.000" in written
