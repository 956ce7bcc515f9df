"""YAML workloads: what is read from them, and the whole message for each way in which they are
wrong."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from support.refused import refused

from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import Metric
from perfgate.model.settings import Settings
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload
from perfgate.model.workload_file import read_workload_file, scripts_of

LEAST = 'command: [python, train.py, "4", "64"]\nstep: "Batch \\\\d+"\nsteps: 30\n'


def read(root: Path, text: str | bytes, *, name: str = "train.yaml") -> Workload:
    file = root / "workloads" / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_workload_file(file, root=root, settings=Settings(timeout_s=77))


def test_the_least_file_is_read_with_every_default(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST) == Workload(
        id="train",
        source="workloads/train.yaml",
        command=("python", "train.py", "4", "64"),
        step="Batch \\d+",
        steps=30,
        warmup=0,
        capture=CaptureMode.CUDA_PROFILER_API,
        timeout_s=77,
    )


def test_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    text = """\
# a comment
command:
  - torchrun
  - --nproc-per-node=2
step: 'Step \\d+ Start'
steps: 30
warmup: 10
capture: {delay: 10, duration: 2.5}
timeout_s: 1.5e3
ahead: 1
budgets: {step_ms: 0.05}
pass_env: [HF_TOKEN]
env: {OMP_NUM_THREADS: 4}
cwd: examples
"""
    assert read(tmp_path, text, name="ddp.yml") == Workload(
        id="ddp",
        source="workloads/ddp.yml",
        command=("torchrun", "--nproc-per-node=2"),
        step="Step \\d+ Start",
        steps=30,
        warmup=10,
        capture=CaptureWindow(delay=10, duration=2.5),
        timeout_s=1500,
        ahead=1,
        budgets={Metric.STEP_MS: 0.05},
        pass_env=("HF_TOKEN",),
        env={"OMP_NUM_THREADS": "4"},
        cwd="examples",
    )


@pytest.mark.parametrize("capture", CaptureMode)
def test_both_modes_of_capture_are_read(tmp_path: Path, capture: CaptureMode) -> None:
    assert read(tmp_path, f"{LEAST}capture: {capture}\n").capture is capture


def test_words_and_variables_are_the_text_that_is_written(tmp_path: Path) -> None:
    """YAML's own reading would hand over 8, 1.1, True, 2026-03-02 00:00:00 and 90."""
    written = ("010", "1.10", "yes", "2026-03-02T00:00", "1:30", "null", "~", "1e3", "0x1F")
    listed = ", ".join(written)
    workload = read(
        tmp_path,
        f"command: [python, {listed}]\nstep: 5\nsteps: 30\n"
        "env: {A: 010, B: yes, C: null, D: , 1: 1.10}\n",
    )
    assert workload.command == ("python", *written)
    assert workload.env == {"A": "010", "B": "yes", "C": "null", "D": "", "1": "1.10"}
    assert workload.step == "5"


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbf" + LEAST.encode()).steps == 30


def test_a_file_outside_the_root_is_named_by_its_whole_path(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(LEAST)
    workload = read_workload_file(file, root=tmp_path / "root", settings=Settings())
    assert (workload.id, workload.source) == ("other", str(file))


def refusal(folder: Path, text: str | bytes) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as invalid:
        read(folder, text)
    return invalid.value


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "workload-file-empty"),
        ("- command\n", "workload-file-empty"),
        (f"{LEAST}env:\n\tA: 1\n", "workload-file-unreadable"),
        ('command: [python]\nstep: "Batch \\d+"\nsteps: 30\n', "workload-file-unreadable"),
        (f"{LEAST}steps: 40\n", "workload-file-unreadable"),
        (f"{LEAST}? [a, b]\n: 1\n", "workload-file-unreadable"),
        (f"{LEAST}env: *common\n", "workload-file-unreadable"),
        (f"{LEAST}---\n{LEAST}", "workload-file-unreadable"),
        (f"{LEAST}env: {{{{ common }}}}\n", "workload-file-unreadable"),
        (LEAST.encode() + b"cwd: caf\xe9\n", "workload-file-unreadable"),
        ("[" * 3000, "workload-file-unreadable"),
    ],
)
def test_what_is_no_workload_file_is_refused(tmp_path: Path, text: str | bytes, code: str) -> None:
    assert refusal(tmp_path, text).code == code


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    with refused(ConfigInvalid, "workload-file-unreadable"):
        read_workload_file(tmp_path / "gone.yaml", root=tmp_path, settings=Settings())


WRONG: dict[str, list[str]] = {
    "": ["warmupp: 3", "zzz: 3", "<<: {warmup: 3}"],
    "warmup": ["warmup: -1"],
    "timeout_s": ["timeout_s:", "timeout_s: 0", "timeout_s: .inf", "timeout_s: inf"],
    "capture": [
        "capture: foo",
        "capture: {dely: 1, duration: 2}",
        "capture: {delay: 1}",
        "capture: {delay: 1, duration: 0.04}",
        "capture: {delay: 1, duration: 0}",
        "capture: {delay: 86400.1, duration: 1}",
    ],
    "ahead": [
        "ahead: 0",
        "ahead: 17",
        "ahead: 2\ncapture: {delay: 1, duration: 1}",
    ],
    "budgets.step_ms": ["budgets: {step_ms: 2}"],
    "env": ["env: [A=1]"],
    "env.A=B.[key]": ['env: {"A=B": 1}'],
    "env.A": ["env: {A: [1]}", 'env: {A: "x\\0"}'],
    "pass_env": ["pass_env: TOKEN"],
    "cwd": ["cwd: examples"],
}
"""Lines, by the key that is named as wrong; of unknown keys none."""


@pytest.mark.parametrize(
    ("key", "line"), [(key, line) for key, lines in WRONG.items() for line in lines]
)
def test_a_wrong_line_is_refused(tmp_path: Path, key: str, line: str) -> None:
    place = f"workloads/train.yaml {key}".rstrip()
    error = refusal(tmp_path, f"{LEAST}{line}\n")
    assert error.fields["place"] == place


REPLACED = (
    *("steps: true", "steps: 30.5", "steps: [30]", "steps: 2"),
    *('step: ""', "step: [a]", 'step: "a("', 'step: "a{99999999999}"'),
    *(
        "command: []",
        "command: {a: b}",
        "command: [[a]]",
        'command: [python, "a\\0b"]',
    ),
    "command: python train.py",
)


def replaced(line: str) -> str:
    key = line.partition(":")[0]
    return "\n".join(
        [*(kept for kept in LEAST.splitlines() if not kept.startswith(f"{key}:")), line]
    )


@pytest.mark.parametrize("line", REPLACED)
def test_a_wrong_value_of_what_must_be_there_is_refused(tmp_path: Path, line: str) -> None:
    place = str(refusal(tmp_path, replaced(line)).fields["place"])
    assert place.startswith(f"workloads/train.yaml {line.partition(':')[0]}")


@pytest.mark.parametrize("absent", ["command", "step", "steps"])
def test_what_must_be_there_is_asked_for(tmp_path: Path, absent: str) -> None:
    others = itertools.filterfalse(lambda line: line.startswith(f"{absent}:"), LEAST.splitlines())
    error = refusal(tmp_path, "\n".join(others))
    assert (error.code, error.fields["place"]) == (
        "value-missing",
        f"workloads/train.yaml {absent}",
    )


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ('command: [python, ./loops/train.py, "--data=a/b.py"]', {"train.py", "b.py"}),
        ("command: [python, -m, loops.train]", {"train.py"}),
        ("command: [python, main.py, train]", {"main.py"}),
        (
            "command: [bash, -c, 'cd loops; python -m a.b; exec python train.py&']",
            {"b.py", "train.py"},
        ),
        ("command: [python", set()),
        ("[1, 2]", set()),
    ],
)
def test_the_scripts_that_a_command_runs_are_known_by_name(
    tmp_path: Path, text: str, scripts: set[str]
) -> None:
    (tmp_path / "train.yaml").write_text(text)
    assert scripts_of([tmp_path / "train.yaml", tmp_path / "gone.yaml"]) == scripts


def test_a_key_that_is_there_twice_is_shown_where_it_is_the_second_time(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"the key 'steps' is there twice.* line 4, column 1"):
        read(tmp_path, f"{LEAST}steps: 30\n")
