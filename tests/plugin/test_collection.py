"""What a gate collects, and what plain pytest leaves alone."""

from __future__ import annotations

import hashlib
import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pytest
from support import records
from support.project import LOOP, Project, loops

from perfgate.model.metric import Metric

PARAMETRISED = """\
import pytest
from perfgate import workload

@workload(steps=4, warmup=1)
@pytest.mark.parametrize("pinned", [False, True], ids=["pageable", "pinned"])
@pytest.mark.parametrize("batch", [4, 64])
def copies(steps, batch, pinned):
    for _ in steps:
        pass
"""

KINDS_OF_VALUES = """\
import pytest
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path

@dataclass
class Config:
    batch: int

class Size(Enum):
    SMALL = 1
    LARGE = 2

class dtype:
    def __init__(self, name): self.name = name
    def __repr__(self): return self.name

"""
"""What loops are parametrised with."""


@pytest.fixture
def measured(project: Project) -> list[str]:
    """A machine with a GPU, and the ids of the workloads that were measured on it."""
    project.gpus()
    return project.measures(records.run())


OTHERS = """
import unittest

def test_like_a_test(): ...
def helper(steps): ...
class TestClass:
    def test_method(self): ...
class Case(unittest.TestCase):
    def test_case(self): ...
class Loops:
    loop = loop
"""
QUIET = """\
import functools

def quiet(function):
    @functools.wraps(function)
    def inner(steps):
        return function(steps)
    return inner
"""
LOOP_WITHIN = textwrap.indent(LOOP.partition("\n\n")[2], "    ")
MAKING = f"from perfgate import workload\n\ndef make():\n{LOOP_WITHIN}    return loop\n"
SISTERS = {"pytest.ini": "[pytest]\npythonpath = workloads\n", "workloads/loops.py": LOOP}


@dataclass(frozen=True, kw_only=True)
class Found:
    """Files of a project, and the workloads that a gate of it measures."""

    files: Mapping[str, str]
    named: tuple[str, ...] = ()
    """What stands on the gate's command line."""
    measured: Collection[str] = ("loop",)


COLLECTED = {
    "each set of parameters": Found(
        files={"workloads/loops.py": PARAMETRISED},
        measured=[f"copies[{n}-{kind}]" for n in (4, 64) for kind in ("pageable", "pinned")],
    ),
    "what a node id names": Found(
        files={"workloads/loops.py": PARAMETRISED},
        named=("workloads/loops.py::copies[4-pinned]",),
        measured=["copies[4-pinned]"],
    ),
    "a named file outside the folder": Found(
        files={"elsewhere/mine.py": LOOP}, named=("elsewhere/mine.py",)
    ),
    "decorated functions alone": Found(files={"workloads/loops.py": LOOP + OTHERS}),
    "what a helper of another file wraps": Found(
        files={
            **SISTERS,
            "workloads/_helpers.py": QUIET,
            "workloads/loops.py": "from _helpers import quiet\n"
            + LOOP.replace("@workload", "@quiet\n@workload"),
        }
    ),
    "what a helper of another file makes": Found(
        files={
            **SISTERS,
            "workloads/_helpers.py": MAKING,
            "workloads/more.py": "from _helpers import make\nmade = make()\n",
        },
        measured=["loop", "made"],
    ),
    "a command's suffix in capitals": Found(
        files={"workloads/train.YAML": "command: [true]\nstep: x\nsteps: 5\n"},
        measured=["train"],
    ),
    "no file that begins with an underscore": Found(
        files={
            "workloads/_helpers.py": LOOP,
            "workloads/_base.yaml": "command: [true]\n",
            "workloads/other.py": loops("other"),
        },
        measured=["other"],
    ),
    "no tests, and no testpaths": Found(
        files={
            "pytest.ini": "[pytest]\ntestpaths = tests\n",
            "tests/test_it.py": "def test_it(): raise AssertionError\n",
            "workloads/loops.py": LOOP,
        }
    ),
    "another folder by a setting": Found(
        files={
            "pyproject.toml": '[tool.perfgate]\nworkloads = "bench/gpu"\n',
            "bench/gpu/loops.py": LOOP,
        }
    ),
}


@pytest.mark.parametrize("found", COLLECTED.values(), ids=COLLECTED)
def test_a_gate_measures(project: Project, measured: list[str], found: Found) -> None:
    for name, text in found.files.items():
        project.write(name, text)
    seen = project.gate(*found.named)
    assert set(measured) == set(found.measured)
    assert "test_" not in seen.out
    assert seen.status == 1  # each lacks a baseline, and nothing else is wrong
    kept = {path.name for path in (project.root / ".perfgate/results/nvidia-h200").iterdir()}
    assert len(kept) == len(found.measured)


def test_parameters_are_part_of_what_a_baseline_is_for(
    project: Project, measured: list[str]
) -> None:
    project.workload(PARAMETRISED)
    project.gate("-k", "64-pinned")
    kept = project.kept("copies[64-pinned]")
    assert kept.workload.comparable_parameters() == {
        "capture": "cudaProfilerApi",
        "parameter batch": "64",
        "parameter pinned": "True",
        "step": "step",
        "steps": "4",
        "warmup": "1",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("dtype('torch.half')", "torch.half"),
        ("Size.SMALL", "Size.SMALL = 1"),
        ("Path(__file__)", "'workloads/loops.py'"),
        ("Path('/a/b.bin')", "'b.bin'"),
        ("__file__", "'workloads/loops.py'"),
        ("Fraction(1, 2)", "Fraction(1/2)"),
        ("type('Seven', (int,), {})(7)", "7"),
        ("max", "max"),
        ("Config", "Config"),
        ("None", "None"),
        ("'x' * 5000", f"sha256:{hashlib.sha256(repr('x' * 5000).encode()).hexdigest()[:12]}"),
        ("'hf_' + 'A1b2' * 9", None),
    ],
)
def test_a_scalar_is_compared_by_its_value(
    project: Project, measured: list[str], value: str, text: str | None
) -> None:
    made = f"{KINDS_OF_VALUES}{LOOP}".replace("loop(steps", "loop(steps, value")
    mark = f'@pytest.mark.parametrize("value", [{value}], ids=["one"])\n@workload'
    project.workload(made.replace("@workload", mark))
    project.gate()
    result = project.kept("loop[one]")
    workload = result.workload
    assert workload.by_id == ()
    if text is None:
        assert workload.parameters["value"].startswith("sha256:")
    else:
        assert workload.parameters == {"value": text}
    assert measured


def test_any_other_value_is_compared_by_its_id_and_the_verdict_says_so(
    project: Project, measured: list[str]
) -> None:
    made = f"{KINDS_OF_VALUES}{LOOP}".replace("loop(steps", "loop(steps, config")
    mark = '@pytest.mark.parametrize("config", [Config(64)], ids=["small"])\n@workload'
    project.workload(made.replace("@workload", mark))
    project.gate()
    result = project.kept("loop[small]")
    workload = result.workload
    assert (workload.by_id, workload.parameters) == (("config",), {"config": "Config in small"})
    blessed = project.baseline("loop[small]")
    project.bless(
        blessed.model_copy(
            update={"parameters": workload.comparable_parameters(), "digest": workload.digest()}
        )
    )
    assert project.gate("-rA").status == 0
    assert measured


@pytest.mark.parametrize("value", ["Config(64)", "(4, 64)", "{'a': 1}", "object()", "lambda: 1"])
def test_a_value_that_is_no_scalar_and_has_no_id_is_refused(
    project: Project, measured: list[str], value: str
) -> None:
    made = f"{KINDS_OF_VALUES}{LOOP}".replace("loop(steps", "loop(steps, value, other")
    mark = f'@pytest.mark.parametrize("value", [{value}])\n@workload'
    mark = f'@pytest.mark.parametrize("other", [1, 2])\n{mark}'
    project.workload(made.replace("@workload", mark))
    seen = project.gate()
    assert (seen.status, measured) == (2, [])
    assert "parameter-without-id" in seen.codes


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("@workload(budgets={'speed': 0.1})\ndef other(steps): ...\n", "value-invalid"),
        ("@workload(budgets={'step_ms': '-1%'})\ndef other(steps): ...\n", "value-invalid"),
        ("import sys\n\nsys.exit(0)\n", "workload-left"),
        ("import sys\n\nsys.exit('no')\n", "workload-left"),
    ],
)
def test_what_could_not_be_measured_is_an_error_of_collection(
    project: Project, measured: list[str], text: str, code: str
) -> None:
    project.workload(LOOP)
    project.workload(f"from perfgate import workload\n{text}", file="more.py")
    seen = project.gate()
    assert (seen.status, measured) == (2, [])
    assert code in seen.codes


def test_a_subfolder_is_as_good_a_place_to_start_from(
    project: Project, measured: list[str]
) -> None:
    project.write("pytest.ini", "[pytest]\n")
    project.workload(LOOP)
    (project.root / "src").mkdir()
    project.patch.chdir(project.root / "src")
    project.gate()
    assert set(measured) == {"loop"}
    assert (project.root / ".perfgate" / "results" / "nvidia-h200" / "loop").is_dir()


@pytest.mark.parametrize(
    ("folder", "named", "configuring", "code"),
    [
        ("workloads", ("workloads/loops.py",), "pytest.ini", "root-misled"),
        ("workloads", ("workloads/loops.py::loop",), "pyproject.toml", "root-misled"),
        ("tests", (), "pytest.ini", "workloads-folder-missing"),
    ],
)
def test_a_folder_of_a_project_is_not_gated_as_one(
    project: Project,
    measured: list[str],
    folder: str,
    named: Sequence[str],
    configuring: str,
    code: str,
) -> None:
    project.write("pyproject.toml", "[tool.perfgate]\nruns = 2\n")
    project.workload(LOOP)
    project.bless(project.baseline())
    project.write(f"{folder}/{configuring}", "[pytest]\n" if configuring == "pytest.ini" else "")
    if not named:
        project.patch.chdir(project.root / folder)
    seen = project.gate(*named)
    assert (seen.status, measured) == (4, [])
    assert code in seen.codes
    project.patch.chdir(project.root)
    assert project.gate("--rootdir=.", *named).status == 0


def test_the_gate_sets_up_no_fixture_itself(project: Project, measured: list[str]) -> None:
    fixture = "import pytest\n\n@pytest.fixture{}\ndef model():\n    raise MemoryError\n"
    project.workload(LOOP.replace("loop(steps)", "loop(steps, model)") + fixture.format(""))
    project.write("workloads/conftest.py", fixture.format("(autouse=True)"))
    project.bless(project.baseline())
    assert project.gate().status == 0


def test_pytest_timeout_does_not_end_a_gate(project: Project, measured: list[str]) -> None:
    project.write("pytest.ini", "[pytest]\ntimeout = 0.001\n")
    project.workload(LOOP)
    project.bless(project.baseline())
    assert project.gate().status == 0


def test_doctests_and_python_files_patterns_change_nothing(
    project: Project, measured: list[str]
) -> None:
    project.write(
        "pytest.ini",
        "[pytest]\naddopts = --doctest-modules\npython_files = *.py\npython_functions = *\n",
    )
    project.workload(LOOP + '\ndef documented():\n    """\n    >>> 1 + 1\n    3\n    """\n')
    project.bless(project.baseline())
    assert project.gate().status == 0
    assert set(measured) == {"loop"}


def test_a_file_that_cannot_be_collected_hides_its_workloads(
    project: Project, measured: list[str]
) -> None:
    project.workload("import nothing_of_this_name\n")
    project.bless(project.baseline().model_copy(update={"source": "workloads/loops.py"}))
    seen = project.gate("workloads/loops.py")
    assert (seen.status, "orphan" in seen.codes) == (2, False)


def test_a_named_file_whose_baseline_cannot_be_read_keeps_the_gate_shut_only_for_its_own(
    project: Project, measured: list[str]
) -> None:
    project.workload()
    project.bless(project.baseline())
    project.bless(project.baseline("other")).write_text("{}")
    assert project.gate("workloads/loops.py").status == 0


def test_collect_only_lists_workloads_and_measures_nothing(
    project: Project, measured: list[str]
) -> None:
    project.workload(PARAMETRISED)
    project.workload(
        'command: [python, train.py]\nstep: "Batch \\\\d+"\nsteps: 5\n', file="train.yaml"
    )
    seen = project.gate("--collect-only", "-q")
    assert seen.out.splitlines()[:5] == [
        "workloads/loops.py::copies[4-pageable]",
        "workloads/loops.py::copies[4-pinned]",
        "workloads/loops.py::copies[64-pageable]",
        "workloads/loops.py::copies[64-pinned]",
        "workloads/train.yaml::train",
    ]
    assert (seen.status, seen.summary, measured) == (0, "", [])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("command: python train.py\nstep: x\nsteps: 5\n", "expects-words"),
        ('command: [python]\nstep: "("\nsteps: 5\n', "expects-pattern"),
    ],
)
def test_a_broken_yaml_workload_is_an_error_of_collection(
    project: Project, text: str, code: str
) -> None:
    project.workload(text, file="train.yaml")
    seen = project.gate()
    assert seen.status == 2
    assert {code, "files-uncollected"} <= seen.codes


# Without --perfgate


@pytest.mark.parametrize(
    "arguments", [(), ("workloads",), ("workloads/test_loops.py",)], ids=" ".join
)
def test_plain_pytest_ignores_workloads_whatever_their_names(
    project: Project, arguments: tuple[str, ...]
) -> None:
    project.workload(loops("test_loop"), file="test_loops.py")
    project.workload("not: a workload", file="broken.yaml")
    project.write("test_it.py", "def test_it(): pass\n")
    assert project.pytest("-q", *arguments).status == (5 if arguments else 0)


@pytest.mark.parametrize(
    "option",
    [
        "--perfgate-runs=3",
        "--perfgate-max-runs=3",
        "--perfgate-timeout=3",
        "--perfgate-new=allow",
        "--perfgate-json=x",
    ],
)
def test_an_option_without_perfgate_is_a_usage_error(project: Project, option: str) -> None:
    seen = project.pytest(option)
    assert (seen.codes, seen.status) == ({"option-without-gate"}, 4)


# Under a real nsys


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_fixtures_and_parameters_reach_the_workload_in_its_own_process(project: Project) -> None:
    project.write("tests/test_it.py", "")
    project.write(
        "pytest.ini",
        "[pytest]\ntestpaths = tests\naddopts = -p no:cacheprovider -ra --strict-markers -x\n"
        "timeout = 1\n"
        "filterwarnings = error\n",
    )
    project.write(
        "workloads/conftest.py",
        "import os, pytest\n\n@pytest.fixture\ndef model(seeded):\n    return 0.002\n\n"
        "@pytest.fixture(autouse=True)\ndef seeded():\n    os.environ['SEEDED'] = 'yes'\n"
        "    yield\n",
    )
    project.workload(
        "import os, time\nimport pytest\nfrom perfgate import workload\n\n"
        "@workload(steps=4, warmup=1)\n@pytest.mark.parametrize('factor', "
        "[2], ids=['twice as long'])\n"
        "def loop(steps, model, factor):\n    assert os.environ['SEEDED'] == 'yes'\n"
        "    time.sleep(1.2)\n"
        "    for _ in steps:\n        time.sleep(model * factor)\n"
    )
    seen = project.gate("--perfgate-runs=1", "--perfgate-new=allow")
    assert seen.status == 0
    kept = project.kept("loop[twice as long]")
    step_ms = kept.runs[0].value(Metric.STEP_MS)
    assert step_ms is not None
    assert 4.0 < step_ms < 1000
    assert set(kept.code) == {"workloads/conftest.py", "workloads/loops.py"}


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_a_script_is_measured_untouched(project: Project) -> None:
    project.write(
        "train.py",
        "import sys, time, nvtx\nfor n in range(int(sys.argv[1])):\n"
        "    with nvtx.annotate(f'Batch {n}'):\n        time.sleep(0.003)\n",
    )
    project.workload(
        f'command: [{sys.executable}, train.py, "9"]\nstep: "Batch \\\\d+"\nwarmup: 4\nsteps: 5\n'
        "capture: all\n",
        file="train.yaml",
    )
    assert project.gate("--perfgate-runs=1", "--perfgate-new=allow").status == 0
    kept = project.kept("train")
    assert kept.runs[0].processes[0].steps == 5
    assert set(kept.code) == {"train.py"}


RUN_BY_YAML = "step: s\nsteps: 5\ncapture: all\n"


@pytest.mark.parametrize(
    "command",
    [
        "[python, workloads/scripts/train.py, --steps=9]",
        "[python, -m, workloads.scripts.train]",
        "[bash, -c, 'cd . && exec python workloads/scripts/train.py;']",
        "[python, scripts/train.py]\ncwd: workloads",
        "[bash, -c, 'cd workloads/scripts && python train.py']",
        "[bash, -c, 'exec python $PWD/workloads/scripts/train.py']",
        "[python, -m, train]\nenv: {PYTHONPATH: workloads/scripts}",
    ],
)
@pytest.mark.parametrize(
    "given", [(), ("workloads/loops.py", "workloads/train.yaml", "workloads/scripts/train.py")]
)
def test_a_script_that_a_yaml_workload_runs_is_not_imported_by_the_gate(
    project: Project, command: str, given: tuple[str, ...]
) -> None:
    project.write(
        "workloads/scripts/train.py",
        "# No perfgate in here.\ndef evaluate(model):\n    pass\n\nopen('trained', 'w').close()\n",
    )
    project.workload(f"command: {command}\n{RUN_BY_YAML}", file="train.yaml")
    project.workload(LOOP)
    seen = project.gate("--collect-only", "-q", *given)
    assert not (project.root / "trained").exists()
    assert seen.status == 0, seen.out
    assert "loops.py::loop" in seen.out
    assert "train.yaml" in seen.out


@pytest.mark.parametrize("command", ["[python, workloads/loops.py]", "[python, train.py, loops]"])
def test_a_script_that_also_declares_workloads_is_collected(project: Project, command: str) -> None:
    project.workload(f"command: {command}\n{RUN_BY_YAML}", file="train.yaml")
    project.workload(LOOP)
    assert "workloads/loops.py::loop" in project.gate("--collect-only", "-q").out


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_steps_of_the_projects_own_are_distinguished_from_a_loop_that_took_none(
    project: Project,
) -> None:
    project.write(
        "conftest.py", "import pytest\n\n@pytest.fixture\ndef steps():\n    return [1, 2]\n"
    )
    project.workload()
    seen = project.gate("--perfgate-runs=1")
    assert (seen.status, "steps-not-perfgates" in seen.codes) == (1, True)


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_steps_that_wrap_perfgates_are_as_good(project: Project) -> None:
    project.write(
        "conftest.py",
        "import pytest\n\n@pytest.fixture\ndef steps(steps):\n    return iter(steps)\n",
    )
    project.workload()
    assert project.gate("--perfgate-runs=1", "--perfgate-new=allow").status == 0
