"""What perfgate doctor finds, and the advice it gives on each failure."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest
from support.fake_nvml import FakeGpu, FakeNvml
from support.timelines import Op, Range, build

from perfgate import doctor
from perfgate.doctor import CheckResult, Examined
from perfgate.model.errors import ConfigInvalid
from perfgate.model.machine import Gpu
from perfgate.model.note import note
from perfgate.model.settings import Settings
from perfgate.model.timeline import Timeline
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion
from perfgate.profilers.seam import Captured, ProfileOutcome, ProfileSpec

UUID = "GPU-11111111-aaaa-bbbb-cccc-000000000001"
TOOL = NsysTool(Path("/opt/nsys/target-linux-x64/nsys"), NsysVersion(2024, 2, 3))
GPU = Gpu(name="NVIDIA H200", uuid=UUID)


def place(root: Path, **env: str) -> Examined:
    return Examined(root=root, settings=Settings(), env=env)


def shown(found: CheckResult) -> tuple[bool | None, str]:
    return found.ok, found.said.code


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed trial leaves its folder behind, on purpose."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize(
    ("library", "env", "code"),
    [
        (FakeNvml([FakeGpu()]), {}, "gpu-there"),
        (FakeNvml(init_error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND), {}, "gpu-no-driver"),
        (FakeNvml([FakeGpu()]), {"CUDA_VISIBLE_DEVICES": "7"}, "gpu-hidden"),
        (FakeNvml(init_error=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH), {}, None),
    ],
)
def test_the_gpus_that_a_workload_sees_are_named(
    library: FakeNvml, env: Mapping[str, str], code: str | None
) -> None:
    found, gpus = doctor.check_gpu(env, library=library)
    assert code in (None, found.said.code)
    assert (found.ok, len(gpus)) == ((True, 1) if code == "gpu-there" else (False, 0))


@pytest.mark.parametrize(("utilisation", "idle"), [(93, False), (0, True)])
def test_a_busy_gpu_is_found(utilisation: int, idle: bool) -> None:
    library = FakeNvml([FakeGpu(utilisation=utilisation)])
    assert doctor.check_idle([GPU], library=library, patience_s=0).ok is idle


# The trial: nsys is played, the capture drawn by hand.


def timeline(*ranges: str, copies: int = 0) -> Timeline:
    return build(
        ranges=[Range(start=1, end=2, name=name) for name in ranges],
        copies=[Op(start=5, end=6, bytes=4096)] * copies,
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
) -> dict[str, tuple[bool | None, str]]:
    found = doctor.check_trial(
        TOOL,
        place(Path("/"), PATH="/usr/bin", API_TOKEN="hunter2hunter2"),
        gpu_expected=gpu_expected,
        capture=lambda _, spec: played(spec, outcome),
        read=lambda _: captured,
    )
    return {one.check: shown(one) for one in found}


def played(spec: ProfileSpec, outcome: ProfileOutcome) -> ProfileOutcome:
    assert "API_TOKEN" not in spec.env
    assert "nvtx" in Path(spec.argv[-1]).read_text(encoding="utf-8")
    return outcome


def printing(*tail: str) -> ProfileOutcome:
    return replace(GOOD, tail=tail)


HEARD, TRACED = (True, "nvtx-heard"), (True, "gpu-traced")


@pytest.mark.parametrize(
    ("outcome", "captured", "gpu_expected", "nvtx", "gpu"),
    [
        (GOOD, timeline(doctor.TRIAL_RANGE, copies=1), True, HEARD, TRACED),
        (GOOD, timeline(copies=1), True, (False, "nvtx-not-heard"), TRACED),
        (
            printing("perfgate-nvtx: absent No module", "perfgate-gpu: copied"),
            timeline(copies=1),
            True,
            (False, "nvtx-absent"),
            TRACED,
        ),
        (GOOD, timeline(doctor.TRIAL_RANGE), True, HEARD, (False, "gpu-not-traced")),
        (
            printing("perfgate-nvtx: 0.2", "perfgate-gpu: cuInit answered 3"),
            timeline(doctor.TRIAL_RANGE),
            True,
            HEARD,
            (False, "gpu-copy-failed"),
        ),
        (GOOD, timeline(doctor.TRIAL_RANGE), False, HEARD, (None, "gpu-none-to-trace")),
    ],
)
def test_a_range_that_is_heard_and_a_copy_that_is_recorded_are_all_that_is_needed(
    outcome: ProfileOutcome,
    captured: Timeline,
    gpu_expected: bool,
    nvtx: tuple[bool | None, str],
    gpu: tuple[bool | None, str],
) -> None:
    found = trial(outcome, captured, gpu_expected=gpu_expected)
    assert found == {"trial capture": (True, "trial-done"), "nvtx": nvtx, "GPU trace": gpu}


def test_a_capture_that_fails_says_why() -> None:
    failed = replace(GOOD, captures=(), problem=note("nsys-disk-full"))
    assert trial(failed, timeline()) == {"trial capture": (False, "trial-failed")}


def test_an_interrupted_trial_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted(_: NsysTool, spec: ProfileSpec) -> ProfileOutcome:
        assert spec.cwd.parent == tmp_path
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        doctor.check_trial(TOOL, place(tmp_path), gpu_expected=False, capture=interrupted)
    assert not any(tmp_path.iterdir())


# torch: a stand-in module on PYTHONPATH says what the real one would.

FAKE_TORCH = """\
__version__ = '2.11'
class version: cuda = {cuda!r}
class cuda: device_count = lambda: {gpus}
"""


@pytest.mark.parametrize(
    ("source", "gpu_expected", "found"),
    [
        (FAKE_TORCH.format(cuda="13.0", gpus=1), True, (True, "torch-sees")),
        (FAKE_TORCH.format(cuda=None, gpus=0), True, (False, "torch-sees-none")),
        (FAKE_TORCH.format(cuda=None, gpus=0), False, (None, "torch-without-gpu")),
        ("raise ImportError('libcudart.so.13: cannot open')", True, (False, "torch-fails")),
        ("import time; time.sleep(60)", True, (False, "torch-fails")),
        (
            "raise ModuleNotFoundError(\"No module named 'torch'\")",
            True,
            (None, "torch-absent"),
        ),
    ],
)
def test_torch_is_asked_for_its_gpus(
    tmp_path: Path, source: str, gpu_expected: bool, found: tuple[bool | None, str]
) -> None:
    (tmp_path / "torch.py").write_text(source)
    asked = place(tmp_path, PYTHONPATH=str(tmp_path))
    patience_s = 1.0 if "sleep" in source else 60.0
    checked = doctor.check_torch(asked, gpu_expected=gpu_expected, timeout_s=patience_s)
    assert shown(checked) == found


# The project


def test_disk_space_is_measured_where_results_will_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "not" / "yet" / ".perfgate"
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setattr(doctor, "FREE_BYTES", free - 10**9)
    assert shown(doctor.check_disk(kept)) == (True, "disk-free")
    monkeypatch.setattr(doctor, "FREE_BYTES", free + 10**12)
    assert shown(doctor.check_disk(kept)) == (False, "disk-low")

    def refused(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("perfgate.doctor.tempfile.TemporaryFile", refused)
    assert shown(doctor.check_disk(kept)) == (False, "folder-not-written")


def test_locks_need_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for folder, ok in ((tmp_path, True), ("locks", False), (tmp_path / "file", False)):
        monkeypatch.setenv("PERFGATE_LOCKS", str(folder))
        assert doctor.check_locks().ok is ok


def test_a_project_needs_workloads(tmp_path: Path) -> None:
    folder = tmp_path / "workloads"
    assert shown(doctor.check_workloads(tmp_path, "workloads")) == (False, "workloads-none")
    folder.mkdir()
    (folder / "conftest.py").write_text("")
    assert shown(doctor.check_workloads(tmp_path, "workloads")) == (False, "workloads-none")
    (folder / "mlp.yaml").write_text("")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "cnn.py").write_text("")
    found = doctor.check_workloads(tmp_path, "workloads")
    assert (found.ok, found.said.fields["count"]) == (True, 2)


def test_baselines_without_a_workload_are_named_or_why_they_are_not_known() -> None:
    assert shown(doctor.check_orphans([])) == (True, "baselines-owned")
    found = doctor.check_orphans(["baselines/h200/b.json", "baselines/h200/a.json"])
    assert found.said.fields["paths"] == ("baselines/h200/a.json", "baselines/h200/b.json")
    broken = ConfigInvalid("quoted", text="x")
    assert doctor.check_orphans(broken).said is broken


def test_an_examination_goes_on_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFGATE_LOCKS", str(tmp_path))
    found = doctor.examine(
        Examined(
            root=tmp_path,
            settings=Settings(nsys=str(tmp_path / "no-nsys")),
            env={"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
            library=FakeNvml(init_error=pynvml.NVML_ERROR_DRIVER_NOT_LOADED),
            python=str(tmp_path / "no-python"),
        )
    )
    assert [(one.check, one.ok) for one in found if one.check != "disk"] == [
        ("GPU", False),
        ("nsys", False),
        ("torch", False),
        ("locks", True),
        ("git", None),
        ("workloads", False),
    ]
