"""Another commit run next to the project under a real nsys: which code ran, and what is said where
it did not."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.repository import Repository
from support.runs import KEPT, context_in, function

from perfgate.execute.context import RunContext, at_commit
from perfgate.execute.provenance import prove_apart
from perfgate.execute.run import Measured, measure_run
from perfgate.model.baseline import code_digest
from perfgate.model.errors import CodeStale, CodeUnproven, PerfgateError, RevisionMissing
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload
from perfgate.model.workload_file import read_workload_file
from perfgate.profilers.nsys.tool import NsysTool

pytestmark = pytest.mark.nsys

LOOP = """\
import time
import pytest
from perfgate import workload
from proj import core

@workload(steps=4, warmup=1)
def loop(steps):
    print("proj says", core.WORD)
    for _ in steps:
        time.sleep(0.001)
"""
SCRIPT = """\
import time
import nvtx
from proj import core

print("proj says", core.WORD, flush=True)
for _ in range(4):
    with nvtx.annotate("step"):
        time.sleep(0.001)
"""
ALONE = SCRIPT.replace("from proj import core\n", "").replace("core.WORD", "1")
PROJECT = {
    ".gitignore": "__pycache__/\n",
    "pyproject.toml": (
        '[project]\nname = "proj"\nversion = "1"\n[tool.pytest.ini_options]\naddopts = "-ra"\n'
    ),
    "workloads/loops.py": LOOP,
    "train.py": SCRIPT,
}
OLD, NEW = 'WORD = "old"\n', 'WORD = "new"\n'


def command(*words: str, **more: object) -> Workload:
    """A command that no commit declares in another way: its file is not in the repository."""
    fields = {"id": "train", "source": "/nowhere/train.yaml", "command": words, "steps": 4}
    fields |= {"warmup": 0, "step": "step", "capture": CaptureMode.ALL}
    return Workload.model_validate(fields | more)


FUNCTION, COMMAND = function(), command("python", "train.py")
both_forms = pytest.mark.parametrize("workload", [FUNCTION, COMMAND], ids=["function", "command"])
flat = pytest.mark.parametrize("repository", ["flat"], indirect=True)
src = pytest.mark.parametrize("repository", ["src"], indirect=True)


def project(folder: Path, package: str) -> Repository:
    """A project whose package says `old` in its first commit and `new` in its second."""
    made = Repository(folder / "project")
    made.commit({**PROJECT, f"{package}/__init__.py": "", f"{package}/core.py": OLD})
    made.commit({f"{package}/core.py": NEW})
    return made


@pytest.fixture(params=["flat", "src"])
def repository(tmp_path: Path, request: pytest.FixtureRequest) -> Repository:
    return project(tmp_path, "proj" if request.param == "flat" else "src/proj")


@dataclass(frozen=True, kw_only=True)
class Runs:
    """A project, and runs of what is in it and of its commits."""

    repository: Repository
    context: RunContext
    folder: Path

    @property
    def root(self) -> Path:
        """Of the project."""
        return self.repository.root

    def commit(self, files: Mapping[str, str]) -> str:
        """Commit files in the project."""
        return self.repository.commit(files)

    def searching(self, folder: Path) -> Runs:
        """Runs that look for packages in this folder first."""
        paths = f"{folder}:{self.context.env['PYTHONPATH']}"
        env = {**self.context.env, "PYTHONPATH": paths}
        return replace(self, context=replace(self.context, env=env))

    def given(self, *options: str) -> Runs:
        """Runs whose pytest is given these options as well."""
        options = (*self.context.pytest_options, *options)
        return replace(self, context=replace(self.context, pytest_options=options))

    def folder_of(self, measured: Measured) -> Path:
        """What is left of a run."""
        assert measured.run.folder is not None
        return self.folder / measured.run.folder

    def under(self, context: RunContext, workload: Workload = FUNCTION) -> tuple[str, Measured]:
        """What the project says in a run, and the run."""
        self.folder.mkdir(exist_ok=True)
        folder = self.folder / str(len(list(self.folder.iterdir())))
        done = measure_run(context, workload, folder)
        log = (folder / "workload.log").read_text(encoding="utf-8")
        lines = (line for line in log.splitlines() if line.startswith("proj says "))
        return next(lines).removeprefix("proj says "), done

    def here(self, workload: Workload = FUNCTION) -> tuple[str, Measured]:
        """A run of what is in the project."""
        return self.under(self.context, workload)

    def at(self, revision: str, workload: Workload = FUNCTION) -> tuple[str, Measured]:
        """A run of a commit."""
        with at_commit(self.context, revision) as there:
            return self.under(there, workload)

    def both(self, workload: Workload = FUNCTION) -> tuple[str, str]:
        """What the project says, and what the commit before it says."""
        return self.here(workload)[0], self.at("HEAD~1", workload)[0]

    def refused(self, workload: Workload = FUNCTION, revision: str = "HEAD~1") -> PerfgateError:
        """Why a run of a commit is refused."""
        with pytest.raises((CodeUnproven, RevisionMissing)) as caught:
            self.at(revision, workload)
        return caught.value

    def stale(self, workload: Workload = FUNCTION) -> CodeStale:
        """Why a run of what is in the project is refused."""
        with pytest.raises(CodeStale) as caught:
            self.here(workload)
        return caught.value


def runs_in(repository: Repository, tool: NsysTool, *paths: Path, **env: str) -> Runs:
    """Runs that find packages in these folders, as under an editable installation."""
    context = context_in(repository, tool, *paths, **env)
    return Runs(repository=repository, context=context, folder=repository.top.parent / "runs")


@pytest.fixture
def runs(repository: Repository, nsys_tool: NsysTool) -> Runs:
    inner = repository.root / "src"
    return runs_in(repository, nsys_tool, inner if inner.is_dir() else repository.root)


@both_forms
def test_a_run_at_a_commit_is_of_its_code_and_reported_as_if_it_were_in_the_project(
    runs: Runs, workload: Workload
) -> None:
    now, of_now = runs.here(workload)
    with at_commit(runs.context, "HEAD~1") as there:
        then, of_then = runs.under(there, workload)
        assert there.tree is not None
        sides = {"reference": of_then.import_logs, "candidate": of_now.import_logs}
        prove_apart(workload, there.tree, **sides)
    assert (now, then) == ("new", "old")
    cores = [
        {f for log in side for f in log.files if f.endswith("proj/core.py")}
        for side in sides.values()
    ]
    assert [len(files) for files in cores] == [1, 1]
    assert [len(one.run.processes) for one in (of_now, of_then)] == [1, 1]
    assert of_then.code.keys() == of_now.code.keys()
    assert code_digest(of_now.code) != code_digest(of_then.code)
    assert runs.repository.left == []
    assert {path.name for path in runs.folder_of(of_then).iterdir()} <= KEPT


@flat
def test_next_to_another_commit_the_project_is_as_it_was_and_both_are_what_their_checkout_is(
    runs: Runs,
) -> None:
    _, of_now = runs.here()
    with at_commit(runs.context, "HEAD~1") as there:
        _, of_then = runs.under(there)
        said, of_again = runs.here()
    assert (said, of_again.code) == ("new", of_now.code)
    runs.repository.git("checkout", "--quiet", "HEAD~1")
    said, in_root = runs.here()
    assert (said, in_root.code) == ("old", of_then.code)


@flat
def test_a_command_is_run_with_the_words_and_variables_of_its_commits_own_file(runs: Runs) -> None:
    declared = (
        'command: [python, say.py, {word}]\nenv: {{LOUD: "{loud}"}}\nstep: step\nsteps: 4\n'
        "capture: all\n"
    )
    script = SCRIPT.replace("import time", "import os, sys, time").replace(
        "core.WORD", 'sys.argv[1], os.environ["LOUD"]'
    )
    runs.commit({"say.py": script, "workloads/say.yaml": declared.format(word="then", loud="no")})
    runs.commit({"workloads/say.yaml": declared.format(word="now", loud="yes")})
    workload = read_workload_file(
        runs.root / "workloads" / "say.yaml", root=runs.root, settings=runs.context.settings
    )
    assert runs.both(workload) == ("now yes", "then no")
    error = runs.refused(workload, "HEAD~2")
    assert isinstance(error, RevisionMissing)
    assert (error.code, error.fields["lacks"]) == ("workload-younger", "workloads/say.yaml")


@flat
def test_options_of_the_project_in_addopts_are_those_of_each_commit(runs: Runs) -> None:
    conftest = (
        "def pytest_addoption(parser):\n"
        '    parser.addoption("--{name}", action="append", default=["default"])\n'
    )
    loop = LOOP.replace("(steps)", "(steps, request)").replace(
        "core.WORD", 'request.config.getoption("{name}")'
    )
    for name, addopts in {
        "then": '"-ra --then a --then=b workloads"',
        "now": '["--now", "c", "-n", "2"]',
    }.items():
        said = f"[tool.pytest.ini_options]\naddopts = {addopts}\n"
        files = {
            "conftest.py": conftest.format(name=name),
            "workloads/loops.py": loop.replace("{name}", name),
        }
        runs.commit({**files, "pyproject.toml": said})
    assert runs.given("-W", "ignore").both() == (
        "['default', 'c']",
        "['default', 'a', 'b']",
    )


@flat
@pytest.mark.parametrize(
    ("files", "workload", "why"),
    [
        ({"workloads/young.py": LOOP}, function(file="workloads/young.py"), "workloads/young.py"),
        (
            {"workloads/loops.py": LOOP.replace("def loop", "def other")},
            function("other"),
            "workloads/loops.py::other",
        ),
        (
            {
                "workloads/loops.py": LOOP.replace(
                    "def loop(steps", '@pytest.mark.parametrize("n", [3])\ndef loop(steps, n'
                )
            },
            function("loop[3]"),
            "workloads/loops.py::loop[3]",
        ),
    ],
    ids=["file", "function", "parameters"],
)
def test_a_workload_younger_than_the_commit_is_distinguished_from_one_that_fails(
    runs: Runs,
    files: Mapping[str, str],
    workload: Workload,
    why: str,
) -> None:
    runs.commit(files)
    error = runs.refused(workload)
    assert isinstance(error, RevisionMissing)
    assert error.code == "workload-younger"
    assert error.fields == {
        "workload": workload.id,
        "commit": runs.repository.git("rev-parse", "HEAD~1")[:12],
        "lacks": why,
    }


@flat
def test_a_command_without_an_import_log_is_unproven(runs: Runs) -> None:
    runs.commit({"train.py": ALONE})
    error = runs.refused(command("python", "-I", "train.py"), "HEAD")
    assert (type(error), error.code) == (CodeUnproven, "no-import-log")


@flat
def test_a_script_that_is_ended_with_its_window_still_leaves_a_log(runs: Runs) -> None:
    runs.commit({"train.py": SCRIPT.replace("range(4)", "range(400)").replace("0.001", "0.05")})
    workload = command("python", "train.py", capture=CaptureWindow(delay=1, duration=4))
    assert runs.at("HEAD", workload)[0] == "new"


@src
@both_forms
def test_code_from_the_project_itself_is_found_out(
    runs: Runs, tmp_path: Path, workload: Workload
) -> None:
    """A path before all others, as some editable installations put it there."""
    hook = f"import sys\nsys.path.insert(0, {str(runs.root / 'src')!r})\n"
    (tmp_path / "sitecustomize.py").write_text(hook)
    error = runs.searching(tmp_path).refused(workload)
    assert (type(error), error.code) == (CodeUnproven, "code-from-elsewhere")
    files = ("__init__.py", "core.py")
    assert error.fields["paths"] == tuple(str(runs.root / f"src/proj/{f}") for f in files)


def install_copy(repository: Repository, site: Path, layout: str) -> None:
    """What `pip install .` in a checkout of a revision leaves; `layout` as git names the folder."""
    info, package = site / "proj-1.dist-info", site / "proj"
    for folder in (info, package):
        folder.mkdir(parents=True)
    for name in ("__init__.py", "core.py"):
        text = repository.git("show", f"{layout}/{name}")
        (package / name).write_text(f"{text}\n" if text else "")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: proj\nVersion: 1\n")
    origin = f'{{"url": "{repository.root.as_uri()}", "dir_info": {{}}}}'
    (info / "direct_url.json").write_text(origin)
    (info / "RECORD").write_text("proj/__init__.py,,\nproj/core.py,,\n")


FINDER = """\
import importlib.util, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        file = {{"proj": "__init__.py", "proj.core": "core.py"}}.get(name)
        return file and importlib.util.spec_from_file_location(name, {folder!r} + file)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("layout", ["proj", "src/proj", "python/proj"])
@pytest.mark.parametrize("installed", ["finder", "copy"])
def test_a_project_that_is_installed_is_measured_at_its_commit_or_not_at_all(
    nsys_tool: NsysTool, tmp_path: Path, layout: str, installed: str
) -> None:
    """A finder's hook wins over every path; a copy loses, but where the package lies in a folder
    nobody knows of."""
    repository, site = project(tmp_path, layout), tmp_path / "site-packages"
    if installed == "finder":
        site.mkdir()
        (site / "sitecustomize.py").write_text(FINDER.format(folder=f"{repository.root / layout}/"))
    else:
        install_copy(repository, site, f"HEAD:{layout}")
    runs = runs_in(repository, nsys_tool, site)
    if installed == "copy" and layout != "python/proj":
        assert runs.at("HEAD~1")[0] == "old"
        return
    error = runs.refused()
    came_from = runs.root / layout if installed == "finder" else site / "proj"
    assert isinstance(error, CodeUnproven)
    assert f"{came_from}/core.py" in str(error.fields["paths"])


BY_PATH = """\
import importlib.util
spec = importlib.util.spec_from_file_location("core", {path!r})
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
"""


@flat
def test_a_variable_that_a_command_declares_leads_into_the_checkout(runs: Runs) -> None:
    script = "import os\n" + SCRIPT.replace(
        "from proj import core\n", BY_PATH.replace("{path!r}", 'os.environ["CORE"]')
    )
    runs.commit({"train.py": script, "proj/core.py": OLD})
    runs.commit({"proj/core.py": NEW})
    workload = command("python", "train.py", env={"CORE": str(runs.root / "proj" / "core.py")})
    assert runs.both(workload) == ("new", "old")


def test_without_git_the_code_of_a_command_is_what_its_processes_loaded(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "project")
    repository.write(
        {**PROJECT, "run.sh": "exec python train.py\n", "proj/__init__.py": "", "proj/core.py": NEW}
    )
    shutil.rmtree(repository.top / ".git")
    runs = runs_in(repository, nsys_tool, GIT_CEILING_DIRECTORIES=str(tmp_path))
    _, of_now = runs.here(command("sh", "run.sh"))
    assert list(of_now.code) == ["proj/__init__.py", "proj/core.py", "run.sh", "train.py"]


def test_a_monorepo_is_run_in_its_own_folder_with_its_neighbours_of_that_commit(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "mono", within="services/train")
    library = "../../libs/proj/core.py"
    repository.commit({**PROJECT, "../../libs/proj/__init__.py": "", library: OLD})
    repository.commit({library: NEW})
    runs = runs_in(repository, nsys_tool, repository.top / "libs")
    with at_commit(runs.context, "HEAD~1") as there:
        assert there.root.parts[-3:] == ("checkout", "services", "train")
        assert runs.under(there, COMMAND)[0] == "old"
        then = runs.under(there)
    for (said, run), word, text in (
        (then, "old", OLD),
        (runs.here(), "new", NEW),
    ):
        assert (said, run.code[library]) == (word, hashlib.sha256(text.encode()).hexdigest())
