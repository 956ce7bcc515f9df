"""What perfgate doctor finds, and the advice it gives on each failure."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pynvml
import pytest
from support.fake_nvml import FakeGpu, FakeNvml

from perfgate import doctor
from perfgate.doctor import Finding
from perfgate.model.errors import CaptureUnreadable, ConfigInvalid
from perfgate.model.machine import Gpu
from perfgate.model.names import RangeNames
from perfgate.model.note import Note, note
from perfgate.model.settings import Settings
from perfgate.model.timeline import Calls, Copies, Diagnostic, Kernels, Memsets, Ranges, Timeline
from perfgate.profilers.nsys import failures
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion
from perfgate.profilers.seam import Captured, ProfileOutcome, ProfileSpec

UUID = "GPU-11111111-aaaa-bbbb-cccc-000000000001"
TOOL = NsysTool(Path("/opt/nsys/target-linux-x64/nsys"), NsysVersion(2024, 2, 3))


def test_a_gpu_is_named_with_its_driver() -> None:
    assert doctor.check_gpu({}, library=FakeNvml([FakeGpu()])) == (
        Finding(check="GPU", ok=True, fact=f"NVIDIA H200 ({UUID}), driver 580.159.04, CUDA 13.2"),
        (Gpu(name="NVIDIA H200", uuid=UUID, memory_mib=144384),),
    )


def test_no_driver_is_told_with_what_to_do() -> None:
    library = FakeNvml(init_error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    assert doctor.check_gpu({}, library=library) == (
        Finding(
            check="GPU",
            ok=False,
            fact="no NVIDIA driver answers here (NVML Shared Library Not Found)",
            advice="Run on a machine with an NVIDIA GPU and its driver (nvidia-smi must list it); in Docker, start the "
            "container with --gpus all. Without a GPU, `perfgate demo` still shows a verdict.",
        ),
        (),
    )


def test_hidden_gpus_are_told_with_what_hides_them() -> None:
    assert doctor.check_gpu({"CUDA_VISIBLE_DEVICES": "7"}, library=FakeNvml([FakeGpu()])) == (
        Finding(
            check="GPU",
            ok=False,
            fact="driver 580.159.04 has 1 GPU(s), and CUDA will see none of them (CUDA_VISIBLE_DEVICES='7')",
            advice="Unset CUDA_VISIBLE_DEVICES, or set it to an index or UUID that nvidia-smi -L lists.",
        ),
        (),
    )


def test_a_failing_driver_is_told_in_its_words() -> None:
    found, gpus = doctor.check_gpu(
        {}, library=FakeNvml(init_error=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    )
    assert (found.ok, gpus) == (False, ())
    assert (
        found.fact
        == "NVIDIA driver: NVML cannot start: RM has detected an NVML/RM version mismatch"
    )


def test_a_busy_gpu_is_told() -> None:
    gpu = Gpu(name="NVIDIA H200", uuid=UUID)
    busy = doctor.check_idle([gpu], library=FakeNvml([FakeGpu(utilisation=93)]), patience_s=0)
    assert busy == Finding(
        check="GPU idle",
        ok=False,
        fact=f"GPU {UUID} is busy: 93 % utilised before the run",
        advice="End that process or choose another GPU by CUDA_VISIBLE_DEVICES: runs on a shared GPU are INVALID.",
    )
    idle = doctor.check_idle([gpu], library=FakeNvml([FakeGpu(utilisation=0)]), patience_s=0)
    assert idle == Finding(check="GPU idle", ok=True, fact="no other process computes on it")


def test_a_missing_nsys_is_told_with_what_to_do(tmp_path: Path) -> None:
    found, tool = doctor.check_nsys(str(tmp_path / "nsys"), {"PATH": ""})
    assert (found.check, found.ok, tool) == ("nsys", False, None)
    assert str(tmp_path / "nsys") in found.fact
    assert found.advice


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed trial leaves its folder behind, on purpose."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


# The trial: nsys is played, the capture drawn by hand.


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def small(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def timeline(*ranges: str, copies: int = 0, diagnostics: tuple[Diagnostic, ...] = ()) -> Timeline:
    none = Memsets(
        start=ints(),
        end=ints(),
        device=small(),
        process=small(),
        stream=small(),
        correlation=ints(),
        bytes=ints(),
    )
    many, flags = len(ranges), np.ones(len(ranges), dtype=np.bool_)
    kinds = np.ones(copies, dtype=np.int8)
    return Timeline(
        source="trial.sqlite",
        nsys_version="2024.2.3",
        schema_version="3.11.1",
        processes=(7,),
        kernels=Kernels(
            start=ints(),
            end=ints(),
            device=small(),
            process=small(),
            stream=small(),
            correlation=ints(),
            name=small(),
            graph_node=ints(),
        ),
        copies=Copies(
            start=ints(*[5] * copies),
            end=ints(*[6] * copies),
            device=small(*[0] * copies),
            process=small(*[0] * copies),
            stream=small(*[7] * copies),
            correlation=ints(*[1] * copies),
            bytes=ints(*[4096] * copies),
            kind=kinds,
            source=kinds,
            target=kinds,
            count=ints(*[1] * copies),
        ),
        memsets=none,
        graphs=none,
        calls=Calls(
            start=ints(),
            end=ints(),
            process=small(),
            thread=ints(),
            correlation=ints(),
            name=small(),
        ),
        ranges=Ranges(
            start=ints(*[1] * many),
            end=ints(*[2] * many),
            process=small(*[0] * many),
            thread=ints(*[7] * many),
            name=RangeNames.of(ranges),
            push_pop=flags,
            closed=flags,
        ),
        names={},
        diagnostics=diagnostics,
    )


GOOD = ProfileOutcome(
    captures=(Captured(rep=Path("trial.nsys-rep"), sqlite=Path("trial.sqlite")),),
    exit_status=0,
    signal=None,
    timed_out=False,
    wall_s=1.25,
    tail=("perfgate-nvtx: 0.2.13", "perfgate-gpu: copied"),
    log=Path("nsys.log"),
    problem=None,
)


def trial(
    outcome: ProfileOutcome, captured: Timeline, *, gpu_expected: bool = True
) -> tuple[Finding, ...]:
    return doctor.check_trial(
        TOOL,
        env={"PATH": "/usr/bin", "API_TOKEN": "hunter2hunter2"},
        pass_env=(),
        python=sys.executable,
        gpu_expected=gpu_expected,
        capture=lambda _, spec: played(spec, outcome),
        read=lambda _: captured,
    )


def test_an_interrupted_trial_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted(_: NsysTool, spec: ProfileSpec) -> ProfileOutcome:
        assert spec.cwd.parent == tmp_path
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        doctor.check_trial(
            TOOL, env={}, pass_env=(), python="python", gpu_expected=False, capture=interrupted
        )
    assert not any(tmp_path.iterdir())


def played(spec: ProfileSpec, outcome: ProfileOutcome) -> ProfileOutcome:
    assert "API_TOKEN" not in spec.env
    assert spec.argv[0] == sys.executable
    compile(Path(spec.argv[1]).read_text(), "trial.py", "exec")
    return outcome


def test_a_heard_range_and_a_recorded_copy_are_all_that_is_needed() -> None:
    assert trial(GOOD, timeline("perfgate doctor", copies=1)) == (
        Finding(check="trial capture", ok=True, fact="nsys wrote and exported one in 1.2 s"),
        Finding(check="nvtx", ok=True, fact="nsys 2024.2.3 hears nvtx 0.2.13"),
        Finding(check="GPU trace", ok=True, fact="nsys 2024.2.3 records the GPU's work"),
    )


def test_an_nsys_deaf_to_this_nvtx_is_told_with_three_ways_out() -> None:
    note = Diagnostic(
        severity=2,
        text="NVTX payload extension is incompatible. Provided compatibility ID 260 != 259.",
    )
    assert trial(GOOD, timeline(copies=1, diagnostics=(note,)))[1] == Finding(
        check="nvtx",
        ok=False,
        fact="nsys 2024.2.3 does not hear nvtx 0.2.13: its range is not in the capture "
        "(NVTX payload extension is incompatible. Provided compatibility ID 260 != 259)",
        advice='Install an older one (pip install "nvtx<0.2.12") or a newer nsys (2024.6 or later), or mark ranges by '
        "torch.cuda.nvtx, which is heard by every nsys.",
    )


def test_a_missing_nvtx_package_is_told() -> None:
    outcome = replace(
        GOOD, tail=("perfgate-nvtx: absent No module named 'nvtx'", "perfgate-gpu: copied")
    )
    assert trial(outcome, timeline(copies=1))[1] == Finding(
        check="nvtx",
        ok=False,
        fact="the nvtx package cannot be imported (No module named 'nvtx')",
        advice="Install it into the interpreter of your workloads: pip install nvtx",
    )


def test_gpu_work_that_nsys_does_not_record_is_told() -> None:
    note = Diagnostic(severity=3, text="CUDA profiling might have not been started correctly.")
    assert trial(GOOD, timeline("perfgate doctor", diagnostics=(note,)))[2] == Finding(
        check="GPU trace",
        ok=False,
        fact="a copy to the GPU worked, and nsys 2024.2.3 recorded none "
        "(CUDA profiling might have not been started correctly)",
        advice="Only one profiler at a time can trace CUDA: end ncu, DCGM profiling or another nsys. "
        "Otherwise install an nsys that is as new as the driver.",
    )


def test_gpu_work_that_fails_is_no_fault_of_nsys() -> None:
    outcome = replace(GOOD, tail=("perfgate-nvtx: 0.2.11", "perfgate-gpu: cuInit answered 802"))
    found = trial(outcome, timeline("perfgate doctor"))[2]
    assert (found.ok, found.fact) == (False, "a copy to the GPU failed: cuInit answered 802")


def test_without_a_gpu_its_trace_is_left_open() -> None:
    outcome = replace(GOOD, tail=("perfgate-nvtx: 0.2.11", "perfgate-gpu: no libcuda.so.1"))
    assert trial(outcome, timeline("perfgate doctor"), gpu_expected=False)[2] == Finding(
        check="GPU trace", ok=None, fact="there is no GPU whose work could be recorded"
    )


def test_a_capture_that_fails_is_told_in_the_words_of_the_nsys_room() -> None:
    outcome = replace(
        GOOD,
        captures=(),
        problem=note("nsys-disk-full"),
        tail=("oops",),
    )
    assert trial(outcome, timeline()) == (
        Finding(
            check="trial capture",
            ok=False,
            fact="the disk ran full while nsys wrote the capture",
            advice="See what nsys says by itself: /opt/nsys/target-linux-x64/nsys profile --trace=cuda,nvtx true. "
            "The last lines were: oops",
        ),
    )


@pytest.mark.behaviour
@pytest.mark.parametrize("problem", [note("nsys-disk-full"), None])
def test_of_a_trial_that_failed_only_logs_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Note | None
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def capture(_: NsysTool, spec: ProfileSpec) -> ProfileOutcome:
        (spec.folder / "tmp").mkdir(parents=True)
        for name in ("trial.nsys-rep", "trial.sqlite", "tmp/trial.qdstrm", "nsys.log"):
            (spec.folder / name).write_text("the environment")
        return replace(GOOD, captures=() if problem else GOOD.captures, problem=problem)

    def refuse(path: Path) -> Timeline:
        raise CaptureUnreadable(
            subject=path.name, fact="it is no SQLite file", next_step="Capture again."
        )

    found = doctor.check_trial(
        TOOL,
        env={},
        pass_env=(),
        python=sys.executable,
        gpu_expected=False,
        capture=capture,
        read=refuse,
    )
    assert not found[0].ok
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["nsys.log"]


def test_an_unreadable_capture_is_told() -> None:
    def refuse(path: Path) -> Timeline:
        raise CaptureUnreadable(
            subject="trial.sqlite", fact="it is no SQLite file", next_step="Capture again."
        )

    found = doctor.check_trial(
        TOOL,
        env={},
        pass_env=(),
        python=sys.executable,
        gpu_expected=False,
        capture=lambda _, spec: played(spec, GOOD),
        read=refuse,
    )
    assert found == (
        Finding(
            check="trial capture",
            ok=False,
            fact="trial.sqlite: it is no SQLite file",
            advice="Capture again.",
        ),
    )


@pytest.mark.skipif(
    shutil.which("ldd") is None or shutil.which("cc") is None, reason="needs ldd and a C compiler"
)
def test_an_importer_that_lacks_a_library_is_told_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "PACKAGES", {"libperfgate-absent.so.1": "libperfgate1"})
    program = tmp_path / "host-linux-x64" / "QdstrmImporter"
    library = tmp_path / "libperfgate-absent.so.1"
    for folder in (program.parent, tmp_path / "target-linux-x64"):
        folder.mkdir()
    (tmp_path / "empty.c").write_text("int f(void) { return 0; }\n")
    (tmp_path / "main.c").write_text("int f(void);\nint main(void) { return f(); }\n")
    shared = [
        "cc",
        "-shared",
        f"-Wl,-soname,{library.name}",
        "-o",
        str(library),
        str(tmp_path / "empty.c"),
    ]
    subprocess.run(shared, check=True)
    subprocess.run(["cc", "-o", str(program), str(tmp_path / "main.c"), str(library)], check=True)
    library.unlink()
    nsys = tmp_path / "target-linux-x64" / "nsys"
    assert failures.missing_libraries(nsys) == {"libperfgate-absent.so.1"}
    outcome = replace(
        GOOD,
        captures=(),
        problem=note("nsys-importer-lacks", libraries=("libperfgate-absent.so.1",)),
    )
    (found,) = doctor.check_trial(
        NsysTool(nsys, NsysVersion(2025, 3, 1)),
        env={},
        pass_env=(),
        python=sys.executable,
        gpu_expected=True,
        capture=lambda _, spec: played(spec, outcome),
        read=lambda _: timeline(),
    )
    assert "libperfgate-absent.so.1" in found.fact
    assert found.advice == "Install libperfgate1 (apt-get install), then run perfgate doctor again."


# torch: a stand-in module on PYTHONPATH says what the real one would.


def torch_says(
    tmp_path: Path, source: str, *, gpu_expected: bool, timeout_s: float = 60
) -> Finding:
    (tmp_path / "torch.py").write_text(source)
    env = {"PYTHONPATH": str(tmp_path)}
    return doctor.check_torch(
        sys.executable, env=env, gpu_expected=gpu_expected, cwd=tmp_path, timeout_s=timeout_s
    )


FAKE_TORCH = "__version__ = {version!r}\nclass version: cuda = {cuda!r}\nclass cuda:\n    device_count = lambda: {gpus}\n"


def test_torch_that_sees_the_gpu_is_fine(tmp_path: Path) -> None:
    source = FAKE_TORCH.format(version="2.11.0+cu130", cuda="13.0", gpus=1)
    assert torch_says(tmp_path, source, gpu_expected=True) == Finding(
        check="torch", ok=True, fact="torch 2.11.0+cu130, built for CUDA 13.0, sees 1 GPU(s)"
    )


def test_torch_for_the_cpu_beside_a_gpu_is_told(tmp_path: Path) -> None:
    source = FAKE_TORCH.format(version="2.11.0+cpu", cuda=None, gpus=0)
    assert torch_says(tmp_path, source, gpu_expected=True) == Finding(
        check="torch",
        ok=False,
        fact="torch 2.11.0+cpu, built for the CPU, sees no GPU although the driver has one",
        advice="Install a build with CUDA (pytorch.org names the command), then see: "
        f"{sys.executable} -c \"import torch; torch.zeros(1, device='cuda')\"",
    )
    assert torch_says(tmp_path, source, gpu_expected=False).ok is None


def test_a_torch_that_breaks_is_told_by_its_last_line(tmp_path: Path) -> None:
    found = torch_says(
        tmp_path, "raise ImportError('libcudart.so.13: cannot open')", gpu_expected=True
    )
    assert (found.ok, found.fact) == (
        False,
        "`import torch` failed: ImportError: libcudart.so.13: cannot open",
    )


def test_no_torch_is_no_failure(tmp_path: Path) -> None:
    found = torch_says(
        tmp_path, "raise ModuleNotFoundError(\"No module named 'torch'\")", gpu_expected=True
    )
    assert (found.ok, found.fact) == (None, f"not installed for {sys.executable}")


def test_a_torch_that_hangs_is_given_up(tmp_path: Path) -> None:
    found = torch_says(tmp_path, "import time; time.sleep(60)", gpu_expected=True, timeout_s=0.3)
    assert (found.ok, found.fact) == (False, "`import torch` took longer than 0.3 s")


def test_a_python_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = doctor.check_torch(str(tmp_path / "python"), env={}, gpu_expected=False, cwd=tmp_path)
    assert found.fact == f"{tmp_path / 'python'} could not be started: No such file or directory"


def test_disk_space_is_measured_where_results_will_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "not" / "yet" / ".perfgate"
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setattr(doctor, "FREE_BYTES", free - 10**9)
    assert doctor.check_disk(kept).ok is True
    monkeypatch.setattr(doctor, "FREE_BYTES", free + 10**12)
    found = doctor.check_disk(kept)
    assert found.ok is False
    assert found.fact.endswith(f" GB free for {kept}")
    assert found.advice.endswith(f"Kept results of earlier gates may go: rm -r {kept}")


def test_a_folder_in_which_nothing_can_be_kept_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("perfgate.doctor.tempfile.TemporaryFile", refused)
    found = doctor.check_disk(tmp_path / ".perfgate")
    assert found.ok is False
    assert found.fact == (
        f"nothing can be kept in {tmp_path / '.perfgate'}: {tmp_path} cannot be written (Permission denied)"
    )


def test_locks_need_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_locks(tmp_path / "locks").ok is True
    monkeypatch.setenv("PERFGATE_LOCKS", "locks")
    assert doctor.check_locks().fact == "PERFGATE_LOCKS=locks: is no absolute path"
    (tmp_path / "file").write_text("")
    found = doctor.check_locks(tmp_path / "file")
    assert (found.ok, found.fact) == (
        False,
        f"{tmp_path / 'file'}: cannot be used as a lock: File exists",
    )


def test_a_project_needs_workloads(tmp_path: Path) -> None:
    advice = (
        "Write one into workloads/ (perfgate init does), or set `workloads` in [tool.perfgate] to the folder that "
        "holds yours."
    )
    folder = tmp_path / "workloads"
    absent = Finding(
        check="workloads", ok=False, fact=f"there is no folder {folder}", advice=advice
    )
    assert doctor.check_workloads(tmp_path, "workloads") == absent
    folder.mkdir()
    (folder / "conftest.py").write_text("")
    assert doctor.check_workloads(tmp_path, "workloads").fact == f"{folder} holds no workload"
    (folder / "mlp.yaml").write_text("")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "cnn.py").write_text("")
    assert doctor.check_workloads(tmp_path, "workloads") == Finding(
        check="workloads", ok=True, fact="2 file(s) in workloads/"
    )


def test_baselines_without_a_workload_are_named() -> None:
    assert doctor.check_orphans([]) == Finding(
        check="baselines", ok=True, fact="each belongs to a workload"
    )
    assert doctor.check_orphans(["baselines/h200/b.json", "baselines/h200/a.json"]) == Finding(
        check="baselines",
        ok=False,
        fact="2 without a workload: baselines/h200/a.json baselines/h200/b.json",
        advice="Bring the workload back under its name or, if it is gone for good: "
        "git rm baselines/h200/a.json baselines/h200/b.json",
    )


def test_what_keeps_the_workloads_from_being_known_is_told_in_place_of_the_baselines() -> None:
    broken = ConfigInvalid(
        subject="workloads", fact="they cannot be collected", next_step="See what pytest says"
    )
    assert doctor.check_orphans(broken) == Finding(
        check="workloads", ok=False, fact="they cannot be collected", advice="See what pytest says"
    )


def test_an_examination_goes_on_after_a_failure(tmp_path: Path) -> None:
    found = doctor.examine(
        root=tmp_path,
        settings=Settings(nsys=str(tmp_path / "no-nsys")),
        env={"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
        kept=tmp_path / ".perfgate",
        orphans=["baselines/h200/gone.json"],
        locks=tmp_path / "locks",
        library=FakeNvml(init_error=pynvml.NVML_ERROR_DRIVER_NOT_LOADED),
        python=str(tmp_path / "no-python"),
    )
    assert [(finding.check, finding.ok) for finding in found if finding.check != "disk"] == [
        ("GPU", False),
        ("nsys", False),
        ("torch", False),
        ("locks", True),
        ("git", None),
        ("workloads", False),
        ("baselines", False),
    ]
    assert all(finding.advice for finding in found if finding.ok is False)
