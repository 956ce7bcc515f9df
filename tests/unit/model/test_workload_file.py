"""YAML workloads: what is read from them, and the whole message for each way in which they are
wrong."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import Metric
from perfgate.model.settings import Settings
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload
from perfgate.model.workload_file import is_script, read_workload_file, scripts_of
from perfgate.model.yaml_file import LARGEST_BYTES

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


@pytest.mark.parametrize(("delay", "duration"), [(0, 0.1), (0.3, 86400), (86400, 1234.7)])
def test_windows_that_nsys_takes_as_they_are_written_are_read(
    tmp_path: Path, delay: float, duration: float
) -> None:
    read_one = read(tmp_path, f"{LEAST}capture: {{delay: {delay}, duration: {duration}}}\n")
    assert read_one.capture == CaptureWindow(delay=delay, duration=duration)


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


def test_a_number_in_quotes_is_that_number(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST.replace("30", '"30"')).steps == 30


def test_an_anchor_stands_for_what_it_names(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST + "env: {A: &name x, B: *name}\n").env == {"A": "x", "B": "x"}


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
        ("# later\n", "workload-file-empty"),
        ("- command\n", "workload-file-empty"),
        ("python train.py\n", "workload-file-empty"),
        (f"{LEAST}env:\n\tA: 1\n", "workload-file-at"),
        ('command: [python]\nstep: "Batch \\d+"\nsteps: 30\n', "workload-file-at"),
        (f"{LEAST}steps: 40\n", "workload-file-at"),
        (f"{LEAST}env:\n  A: 1\n  A: 2\n", "workload-file-at"),
        (f"{LEAST}? [a]\n: b\n", "workload-file-at"),
        (f"{LEAST}env: *common\n", "workload-file-at"),
        ("command: &a [*a]\nstep: s\nsteps: 30\n", "workload-file-at"),
        (f"{LEAST}---\n{LEAST}", "workload-file-at"),
        ("command: [python\nstep: s\n", "workload-file-at"),
        (LEAST.encode() + b"cwd: caf\xe9\n", "workload-file-unreadable"),
        ("[" * 3000, "workload-file-unreadable"),
        ("a" * (LARGEST_BYTES + 1), "workload-file-large"),
    ],
)
def test_what_is_no_workload_file_is_refused(tmp_path: Path, text: str | bytes, code: str) -> None:
    assert refusal(tmp_path, text).code == code


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as invalid:
        read_workload_file(tmp_path / "gone.yaml", root=tmp_path, settings=Settings())
    assert invalid.value.code == "workload-file-unreadable"


def test_anchors_that_multiply_are_refused_in_few_words(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(12)
    )
    text = f"env:\n  {bomb.replace(chr(10), chr(10) + '  ')}\n{LEAST}"
    assert len(str(refusal(tmp_path, text))) < 500


WRONG: dict[str, list[str]] = {
    "": ["warmupp: 3", "zzz: 3", "<<: {warmup: 3}"],
    "warmup": ["warmup: -1"],
    "timeout_s": ["timeout_s:", "timeout_s: 0", "timeout_s: .inf", "timeout_s: inf"],
    "capture": ["capture: foo", "capture: [10, 10]", "capture: {dely: 1, duration: 2}"],
    "capture.duration": [
        "capture: {delay: 1}",
        "capture: {delay: 1, duration: 0.04}",
        "capture: {delay: 1, duration: 1e300}",
        "capture: {delay: 1, duration: 0}",
    ],
    "capture.delay": ["capture: {delay: 86400.1, duration: 1}"],
    "ahead": [
        "ahead: 0",
        "ahead: 17",
        "ahead: 2\ncapture: {delay: 1, duration: 1}",
    ],
    "budgets": ["budgets: {stepms: 0.1}", "budgets: 0.02"],
    "budgets nccl_ms": ["budgets: {nccl_ms: 0.1}"],
    "budgets step_ms": ["budgets: {step_ms: 2}"],
    "env": ["env: [A=1]", 'env: {"A=B": 1}', 'env: {"": 1}', 'env: {A: "x\\0"}'],
    "env.A": ["env: {A: [1]}"],
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
    assert f"{error.fields['place']} {error.fields.get('metric', '')}".rstrip() == place


REPLACED = (
    *("steps: true", "steps: 30.5", "steps: [30]", "steps: 2"),
    *('step: ""', "step: [a]", 'step: "a("', 'step: "a{99999999999}"'),
    *(
        "command: []",
        "command: {a: b}",
        "command: [[a]]",
        'command: [""]',
        'command: [python, "a\\0b"]',
    ),
    *("command:", "command: ' '", """command: "''\""""),
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


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("command: python train.py 'a b'", '["python", "train.py", "a b"]'),
        ("command: python 'train.py", """["python", "'train.py"]"""),
    ],
)
def test_a_command_as_text_is_refused_with_its_words(tmp_path: Path, line: str, words: str) -> None:
    assert words in str(refusal(tmp_path, replaced(line)))


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
        (
            'command: [python, ./loops/train.py, "--data=a/b.py"]',
            {"loops/train.py", "a/b.py", "--data=a/b.py"},
        ),
        ("command: [python, ../my loops/a+b.py]", {"my loops/a+b.py", "loops/a+b.py"}),
        ("command: [python, -m, loops.train]", {"loops/train.py", "loops/train/__main__.py"}),
        ("command: [python, main.py, train]", {"main.py"}),
        (
            "command: [bash, -c, 'cd loops; python -m a.b; exec python train.py&']",
            {"a/b.py", "a/b/__main__.py", "train.py"},
        ),
        ("command: [python, there.py]", {"ROOT/there.py"}),
        ("command: [python, there.py]\ncwd: inner", {"ROOT/there.py", "ROOT/inner/there.py"}),
        ("command: [python, ../there.py]\ncwd: inner", {"ROOT/there.py"}),
        ("command: [python, -m, there]", {"ROOT/there.py", "there/__main__.py"}),
        ("command: [python, ROOT/inner/there.py]\ncwd: [a]", {"ROOT/inner/there.py"}),
        ('command: [python, main.py]\ncwd: "a\\0b"', {"main.py"}),
        (f"command: [python, {'long' * 100}.py]", {f"{'long' * 100}.py"}),
        ("command: python train.py", set()),
        ("command: [python", set()),
        ("[1, 2]", set()),
    ],
)
def test_the_scripts_that_a_command_runs_are_known_by_path_and_by_module(
    tmp_path: Path, text: str, scripts: set[str]
) -> None:
    root = tmp_path.resolve()
    (root / "inner").mkdir()
    for there in ("there.py", "inner/there.py"):
        (root / there).write_text("")
    (root / "train.yaml").write_text(text.replace("ROOT", str(root)))
    found = scripts_of([root / "train.yaml", root / "gone.yaml"], root=root)
    assert found == {script.replace("ROOT", str(root)) for script in scripts}


@pytest.mark.parametrize(
    ("script", "is_one"),
    [
        ("/project/workloads/scripts/train.py", True),
        ("workloads/scripts/train.py", True),
        ("train.py", True),
        ("PWD/workloads/scripts/train.py", True),
        ("project/workloads/scripts/train.py", True),
        ("venv/scripts/train.py", False),
        ("rain.py", False),
        ("other/train.py", False),
        ("/project/train.py", False),
    ],
)
def test_a_script_is_known_from_wherever_its_command_stands(script: str, *, is_one: bool) -> None:
    named = {script, "main.py"}
    assert (
        is_script(Path("/project/workloads/scripts/train.py"), named, root=Path("/project"))
        is is_one
    )
    assert is_script(Path("/scripts/train.py"), {"scripts/train.py"}, root=Path("/project"))
