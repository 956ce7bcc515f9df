"""What is the code of a workload, from gate to baseline: unrelated commits leave its repeats
repeats, others do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from support.cases import named
from support.project import Project, Seen

from perfgate.model.baseline import Baseline
from perfgate.model.outcome import Outcome

pytestmark = [pytest.mark.nsys, pytest.mark.behaviour]

SCRIPT = """\
import time
import nvtx
from proj import core

for _ in range(6):
    with nvtx.annotate("step"):
        time.sleep(0.002)
"""
LOOP = """\
import time
from perfgate import workload
from proj import core

@workload(steps=4, warmup=1)
def loop(steps):
    for _ in steps:
        time.sleep(0.002)
"""
DECLARED = "command: {command}\nstep: step\nwarmup: 2\nsteps: 4\ncapture: all\n"
FILES = {
    ".gitignore": "__pycache__/\n.perfgate/\n",
    "proj/__init__.py": "",
    "proj/core.py": "WORD = 1\n",
    "train.py": SCRIPT,
    "launch.py": "import runpy\nrunpy.run_path('train.py', run_name='__main__')\n",
    "spawn.py": (
        "import subprocess, sys\nsubprocess.run([sys.executable, 'train.py'], check=True)\n"
    ),
    "run.sh": "exec python train.py\n",
    "deaf.sh": (
        "exec python -I -c \"import sys; sys.path.insert(0, '.'); exec(open('train.py').read())\"\n"
    ),
    "conf.yaml": "size: 1\n",
    "README.md": "words\n",
    "tests/test_core.py": "",
    "workloads/other.py": "",
    "pyproject.toml": '[project]\nname = "proj"\nversion = "1"\n[tool.perfgate]\nab_run = "off"\n',
}
UNRELATED = ("README.md", "tests/test_core.py", "workloads/other.py", "tools/new.py")


@pytest.fixture
def repository(project: Project, real_nsys: Sequence[str]) -> Project:
    """A project in a repository, with a package that scripts and loops import."""
    assert real_nsys
    for name, text in FILES.items():
        project.write(name, text)
    project.patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    project.patch.setenv("PYTHONPATH", ".")
    return project


def commit(project: Project, files: Mapping[str, str] | None = None) -> None:
    for name, text in (files or {}).items():
        project.write(name, text)
    project.commit()


def script(project: Project, *words: str) -> str:
    commit(project, {"workloads/train.yaml": DECLARED.format(command=list(words))})
    return "train"


def loop(project: Project) -> str:
    commit(project, {"workloads/loops.py": LOOP})
    return "loop"


def bless(project: Project, name: str) -> Baseline:
    """Bless the workload as of long ago, and commit that."""
    assert project.run("--perfgate", "-k", name, "--perfgate-runs=1").status == 1
    project.repeat(name)
    seen = project.perfgate("bless", name, "--reason", "first", "--hold", "auto")
    assert seen.status == 0, seen.err
    made = project.store.baselines.load("no-gpu", name)
    assert made is not None
    earlier = tuple(
        one.model_copy(update={"measured_at": one.measured_at - timedelta(days=1)})
        for one in made.occasions
    )
    blessing = made.blessing.model_copy(update={"at": made.blessing.at - timedelta(days=1)})
    old = made.model_copy(update={"occasions": earlier, "blessing": blessing})
    project.store.baselines.save(old, replacing=made)
    commit(project)
    return old


def gated(project: Project, name: str, *, runs: int = 1) -> Mapping[str, str]:
    """Gate the workload, and return what it says that it ran."""
    project.run("--perfgate", "-k", name, f"--perfgate-runs={runs}", f"--perfgate-max-runs={runs}")
    result = project.store.results.kept(name, "no-gpu")[0][0].result
    assert result.runs
    return result.code


def add(project: Project, name: str) -> tuple[Seen, int]:
    """Gate the workload, and add what that measured; return what was seen, and the occasions that
    there are then.

    The times of a busy CPU do not matter here: the result is taken as one that passed.
    """
    gated(project, name)
    kept = project.store.results.kept(name, "no-gpu")[0][0]
    passed = kept.result.verdict.model_copy(update={"outcome": Outcome.PASSED})
    project.store.results.save(kept.result.model_copy(update={"verdict": passed}), kept.folder)
    seen = project.perfgate("bless", name, "--occasion", "--reason", "another day")
    now = project.store.baselines.load("no-gpu", name)
    assert now is not None
    return seen, len(now.occasions)


def refuses_to_calibrate(project: Project, name: str) -> bool:
    """Whether it refuses, before it measures."""
    project.patch.setattr("perfgate.cli.promoting.run_to_end", pytest.fail)
    return project.perfgate("calibrate", name).status == 31


COMMANDS = {
    "a script": ("python", "train.py", "--config=conf.yaml"),
    "a module": ("python", "-m", "train", "--config", "conf.yaml"),
    "its code": ("python", "-c", "import train", "conf.yaml"),
    "a launcher": ("python", "launch.py", "conf.yaml"),
    "a child": ("python", "spawn.py", "conf.yaml"),
    "a shell": ("bash", "-c", "python train.py conf.yaml"),
    "a shell's script": ("bash", "run.sh", "conf.yaml"),
    "torchrun": (
        "python",
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "train.py",
        "conf.yaml",
    ),
}


@pytest.mark.parametrize("how", COMMANDS)
def test_the_code_of_a_command_is_what_it_names_and_loads(repository: Project, how: str) -> None:
    code = gated(repository, script(repository, *COMMANDS[how]))
    named = {
        file for word in COMMANDS[how] if (repository.root / word).is_file() for file in (word,)
    }
    assert set(code) == {"train.py", "proj/__init__.py", "proj/core.py", "conf.yaml", *named}


@pytest.mark.parametrize(
    ("words", "unrelated", "changed"),
    named(
        {
            "a module of a script": (COMMANDS["a script"], UNRELATED, "proj/core.py"),
            "a file that it names": (COMMANDS["a script"], UNRELATED, "conf.yaml"),
            "a module of a loop": ((), UNRELATED, "proj/core.py"),
            "no process said what it loaded": (("bash", "deaf.sh"), (), "proj/core.py"),
        }
    ),
)
def test_an_unrelated_commit_leaves_a_repeat_and_a_related_one_does_not(
    repository: Project, words: Sequence[str], unrelated: Sequence[str], changed: str
) -> None:
    name = script(repository, *words) if words else loop(repository)
    bless(repository, name)
    commit(repository, dict.fromkeys(unrelated, "other = 1\n"))
    seen, occasions = add(repository, name)
    assert (seen.status, occasions) == (0, 2), seen.err
    commit(repository, {changed: f"{FILES[changed]}\n"})
    seen, occasions = add(repository, name)
    assert (seen.status, occasions) == (22, 2)
    assert refuses_to_calibrate(repository, name)


def test_the_conftests_above_a_loop_are_its_code(repository: Project) -> None:
    files = ("conftest.py", "workloads/conftest.py")
    repository.write("workloads/deep/loops.py", LOOP)
    commit(repository, dict.fromkeys((*files, "workloads/deep/conftest.py"), "import proj\n"))
    code = gated(repository, "loop")
    assert {file for file in code if file.endswith("conftest.py")} == {
        *files,
        "workloads/deep/conftest.py",
    }


@pytest.mark.parametrize("words", [("python", "-I", "isolated.py"), ("python", "-S", "bare.py")])
def test_of_an_interpreter_that_says_nothing_all_files_are_the_code(
    repository: Project, words: Sequence[str]
) -> None:
    here = "import sys\nsys.path[:0] = ['.', *{}]\nimport train\n"
    packages = [path for path in __import__("sys").path if path.endswith("site-packages")]
    repository.write("isolated.py", here.format([]))
    repository.write("bare.py", here.format(packages))
    code = gated(repository, script(repository, *words))
    assert set(code) == {words[-1], "."}
