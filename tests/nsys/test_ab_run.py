"""Another commit run next to the project under a real nsys: which code ran, and what is said where
it did not."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.repository import Repository
from support.runs import KEPT, context_in, function, outlasting_crashes

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


COMMAND = command("python", "train.py")
both_forms = pytest.mark.parametrize("workload", [function(), COMMAND], ids=["function", "command"])
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


@pytest.fixture
def context(repository: Repository, nsys_tool: NsysTool) -> RunContext:
    """The context as a gate has it; the package is found as under an editable installation."""
    inner = repository.root / "src"
    return context_in(repository, nsys_tool, inner if inner.is_dir() else repository.root)


def measured(context: RunContext, workload: Workload, folder: Path) -> tuple[str, Measured]:
    """What the project says in a run, and the run."""
    made: list[Path] = []

    def make(fresh: Callable[[Path], Path]) -> Measured:
        made.append(fresh(folder))
        return measure_run(context, workload, made[-1])

    done = outlasting_crashes(make)
    log = (made[-1] / "workload.log").read_text(encoding="utf-8")
    lines = (line for line in log.splitlines() if line.startswith("proj says "))
    return next(lines).removeprefix("proj says "), done


def measured_at(
    context: RunContext, revision: str, workload: Workload, folder: Path
) -> tuple[str, Measured]:
    with at_commit(context, revision) as there:
        return measured(there, workload, folder)


def said_by_both(context: RunContext, workload: Workload, folder: Path) -> tuple[str, str]:
    """What the project says, and what the commit before it says."""
    now, _ = measured(context, workload, folder / "now")
    then, _ = measured_at(context, "HEAD~1", workload, folder / "then")
    return now, then


def refused(
    context: RunContext, workload: Workload, folder: Path, revision: str = "HEAD~1"
) -> PerfgateError:
    """Why a run at a commit is refused."""
    with (
        at_commit(context, revision) as there,
        pytest.raises((CodeUnproven, RevisionMissing)) as caught,
    ):
        outlasting_crashes(lambda fresh: measure_run(there, workload, fresh(folder / "refused")))
    return caught.value


@both_forms
def test_a_run_at_a_commit_is_of_its_code_and_reported_as_if_it_were_in_the_project(
    context: RunContext, repository: Repository, tmp_path: Path, workload: Workload
) -> None:
    now, of_now = measured(context, workload, tmp_path / "now")
    with at_commit(context, "HEAD~1") as there:
        then, of_then = measured(there, workload, tmp_path / "then")
        assert there.tree is not None
        sides = {"reference": of_then.import_logs, "candidate": of_now.import_logs}
        prove_apart(workload, there.tree, **sides, env=context.env)
    assert (now, then) == ("new", "old")
    cores = [
        {f for log in side for f in log.files if f.endswith("proj/core.py")}
        for side in sides.values()
    ]
    assert [len(files) for files in cores] == [1, 1]
    assert [len(one.run.processes) for one in (of_now, of_then)] == [1, 1]
    assert of_then.code.keys() == of_now.code.keys()
    assert code_digest(of_now.code) != code_digest(of_then.code)
    assert repository.left == []
    assert {path.name for path in (tmp_path / "then").iterdir()} <= KEPT


@flat
def test_next_to_another_commit_the_project_is_as_it_was_and_both_are_what_their_checkout_is(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    _, of_now = measured(context, function(), tmp_path / "now")
    with at_commit(context, "HEAD~1") as there:
        _, of_then = measured(there, function(), tmp_path / "then")
        said, of_again = measured(context, function(), tmp_path / "again")
    assert (said, of_again.code) == ("new", of_now.code)
    repository.git("checkout", "--quiet", "HEAD~1")
    said, in_root = measured(context, function(), tmp_path / "root")
    assert (said, in_root.code) == ("old", of_then.code)


@flat
def test_a_command_is_run_with_the_words_and_variables_of_its_commits_own_file(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    declared = (
        'command: [python, say.py, {word}]\nenv: {{LOUD: "{loud}"}}\nstep: step\nsteps: 4\n'
        "capture: all\n"
    )
    script = SCRIPT.replace("import time", "import os, sys, time").replace(
        "core.WORD", 'sys.argv[1], os.environ["LOUD"]'
    )
    repository.commit(
        {"say.py": script, "workloads/say.yaml": declared.format(word="then", loud="no")}
    )
    repository.commit({"workloads/say.yaml": declared.format(word="now", loud="yes")})
    workload = read_workload_file(
        repository.root / "workloads" / "say.yaml", root=repository.root, settings=context.settings
    )
    assert said_by_both(context, workload, tmp_path) == ("now yes", "then no")
    error = refused(context, workload, tmp_path / "younger", "HEAD~2")
    assert isinstance(error, RevisionMissing)
    assert (error.code, error.fields["lacks"]) == ("workload-younger", "workloads/say.yaml")


@flat
def test_options_of_the_project_in_addopts_are_those_of_each_commit(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
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
        repository.commit({**files, "pyproject.toml": said})
    context = replace(context, pytest_options=(*context.pytest_options, "-W", "ignore"))
    assert said_by_both(context, function(), tmp_path) == (
        "['default', 'c']",
        "['default', 'a', 'b']",
    )


@flat
def test_plugins_and_ini_values_in_addopts_are_those_of_each_commit(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    files = {f"{name}/word.py": f'HAS = "{name}"\n' for name in ("then", "now")}
    files["more.py"] = 'import word\nword.HAS += "!"\n'
    loop = LOOP.replace("from proj import core", "import word").replace("core.WORD", "word.HAS")
    for addopts in ("-o pythonpath=then -p more", "-qo pythonpath=now"):
        said = f'[tool.pytest.ini_options]\naddopts = "{addopts}"\n'
        repository.commit({**files, "workloads/loops.py": loop, "pyproject.toml": said})
    env = {**context.env, "PYTHONPATH": f"{repository.root}:{context.env['PYTHONPATH']}"}
    context = replace(context, env=env)
    assert said_by_both(context, function(), tmp_path) == ("now", "then!")


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
        ({"young.py": SCRIPT}, command("python", "young.py"), "young.py"),
        ({"young/train.py": SCRIPT}, command("python", "train.py", cwd="young"), "young"),
        ({"young.yaml": ""}, command("python", "train.py", "young.yaml"), "young.yaml"),
    ],
    ids=["file", "function", "parameters", "script", "folder", "named file"],
)
def test_a_workload_younger_than_the_commit_is_distinguished_from_one_that_fails(
    context: RunContext,
    repository: Repository,
    tmp_path: Path,
    files: Mapping[str, str],
    workload: Workload,
    why: str,
) -> None:
    repository.commit(files)
    error = refused(context, workload, tmp_path)
    assert isinstance(error, RevisionMissing)
    assert error.code == "workload-younger"
    assert error.fields == {
        "workload": workload.id,
        "commit": repository.git("rev-parse", "HEAD~1")[:12],
        "lacks": why,
    }


@flat
@pytest.mark.parametrize(
    "words",
    [("python", "-I", "train.py"), ("python", "-E", "train.py"), ("sh", "-c", "exit 0")],
    ids=["isolated", "without environment", "no Python"],
)
def test_a_command_without_an_import_log_is_unproven(
    context: RunContext, repository: Repository, tmp_path: Path, words: tuple[str, ...]
) -> None:
    repository.commit({"train.py": ALONE})
    error = refused(context, command(*words), tmp_path, "HEAD")
    assert (type(error), error.code) == (CodeUnproven, "no-import-log")


@flat
def test_another_process_than_the_measured_one_proves_nothing(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    here = f'python prepare.py\nexec python {{}} "{repository.root}/train.py"\n'
    files = {"train.py": ALONE, "prepare.py": "import proj.core\n", "run.sh": here.format("-E")}
    repository.commit(files)
    error = refused(context, command("sh", "run.sh"), tmp_path, "HEAD")
    assert error.code == "no-import-log-of-steps"


SPAWNS = """\
import multiprocessing
def main():
    import body
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=main)
    process.start()
    process.join()
"""


@flat
def test_a_child_that_takes_the_steps_leaves_a_log_of_its_own(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    repository.commit({"train.py": SPAWNS, "body.py": SCRIPT})
    said, of_then = measured_at(context, "HEAD", COMMAND, tmp_path / "run")
    assert (said, len(of_then.run.processes)) == ("new", 1)


@flat
def test_every_process_of_a_run_leaves_a_log(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    stray = tmp_path / "project" / "proj"
    launcher = f"""\
import os, subprocess, sys
code = "import sys; sys.path.insert(0, {str(repository.root)!r}); " \\
    "sys.modules.pop('proj', None); import proj"
subprocess.run([sys.executable, sys.argv[1]], check=True)
subprocess.run([sys.executable, "-c", code], cwd="/", check=True)
"""
    assert stray.is_dir()
    repository.commit({"launch.py": launcher})
    error = refused(context, command("python", "launch.py", "train.py"), tmp_path, "HEAD")
    assert error.fields["paths"] == (str(stray / "__init__.py"),)


@flat
def test_a_script_that_is_ended_with_its_window_still_leaves_a_log(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    repository.commit(
        {"train.py": SCRIPT.replace("range(4)", "range(400)").replace("0.001", "0.05")}
    )
    workload = command("python", "train.py", capture=CaptureWindow(delay=1, duration=4))
    assert measured_at(context, "HEAD", workload, tmp_path / "run")[0] == "new"


@src
@both_forms
def test_code_from_the_project_itself_is_found_out(
    context: RunContext, repository: Repository, tmp_path: Path, workload: Workload
) -> None:
    """A path before all others, as some editable installations put it there."""
    (tmp_path / "hooks").mkdir()
    hook = f"import sys\nsys.path.insert(0, {str(repository.root / 'src')!r})\n"
    (tmp_path / "hooks" / "sitecustomize.py").write_text(hook)
    env = {**context.env, "PYTHONPATH": f"{tmp_path / 'hooks'}:{context.env['PYTHONPATH']}"}
    error = refused(replace(context, env=env), workload, tmp_path / "run")
    assert (type(error), error.code) == (CodeUnproven, "code-from-elsewhere")
    files = ("__init__.py", "core.py")
    assert error.fields["paths"] == tuple(str(repository.root / f"src/proj/{f}") for f in files)


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
    context = context_in(repository, nsys_tool, site)
    if installed == "copy" and layout != "python/proj":
        assert measured_at(context, "HEAD~1", function(), tmp_path / "run")[0] == "old"
        return
    error = refused(context, function(), tmp_path / "run")
    came_from = repository.root / layout if installed == "finder" else site / "proj"
    assert isinstance(error, CodeUnproven)
    assert f"{came_from}/core.py" in str(error.fields["paths"])


def stale(context: RunContext, workload: Workload, folder: Path) -> CodeStale:
    """Why a run in the project is refused."""
    with pytest.raises(CodeStale) as caught:
        outlasting_crashes(lambda fresh: measure_run(context, workload, fresh(folder / "stale")))
    return caught.value


@src
@both_forms
def test_the_candidate_is_what_is_in_the_project_or_is_not_measured(
    nsys_tool: NsysTool, repository: Repository, tmp_path: Path, workload: Workload
) -> None:
    site = tmp_path / "site-packages"
    install_copy(repository, site, "HEAD~1:src/proj")
    error = stale(context_in(repository, nsys_tool, site), workload, tmp_path)
    assert error.code == "copy-differs"
    assert str(error.fields["copy"]) == f"{site}/proj/core.py"
    assert error.fields["file"] == "src/proj/core.py"


@src
def test_a_process_that_a_decorated_workload_starts_is_held_to_the_project_too(
    nsys_tool: NsysTool, repository: Repository, tmp_path: Path
) -> None:
    site = tmp_path / "site-packages"
    loop = LOOP.replace(
        "from proj import core\n",
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import proj.core'], check=True)\n",
    )
    repository.write({"workloads/loops.py": loop.replace("core.WORD", "1")})
    install_copy(repository, site, "HEAD:src/proj")
    context = context_in(repository, nsys_tool, site)
    measured(context, function(), tmp_path / "fresh")
    repository.write({"src/proj/core.py": OLD})
    stale(context, function(), tmp_path)


@src
@both_forms
def test_a_fresh_copy_of_the_project_is_measured_as_what_its_commits_checkout_is(
    nsys_tool: NsysTool, repository: Repository, tmp_path: Path, workload: Workload
) -> None:
    site = tmp_path / "site-packages"
    install_copy(repository, site, "HEAD:src/proj")
    context = context_in(repository, nsys_tool, site)
    said, now = measured(context, workload, tmp_path / "now")
    assert (said, now.run.invalid) == ("new", ())
    assert not (tmp_path / "now" / "imports").exists()
    assert measured_at(context, "HEAD", workload, tmp_path / "then")[1].code == now.code
    assert "src/proj/core.py" in now.code


@flat
def test_a_script_that_a_decorated_workload_executes_is_its_code(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    loop = LOOP.replace(
        "from proj import core\n", "import runpy\nWORD = runpy.run_path('say.py')['WORD']\n"
    )
    repository.commit({"workloads/loops.py": loop.replace("core.WORD", "WORD"), "say.py": OLD})
    repository.commit({"say.py": NEW})
    said, of_now = measured(context, function(), tmp_path / "now")
    assert (said, list(of_now.code)) == ("new", ["say.py", "workloads/loops.py"])
    assert measured_at(context, "HEAD", function(), tmp_path / "there")[1].code == of_now.code
    _, of_then = measured_at(context, "HEAD~1", function(), tmp_path / "then")
    assert of_then.code["say.py"] != of_now.code["say.py"]


def test_an_editable_installation_of_another_clone_is_not_the_commits_code(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    """Both sides load the clone's, and the candidate's is equal to it."""
    repository, core = project(tmp_path, "python/proj"), "python/proj/core.py"
    repository.git("clone", "--quiet", str(repository.top), str(tmp_path / "clone"))
    context = context_in(repository, nsys_tool, tmp_path / "clone" / "python")
    assert measured(context, function(), tmp_path / "now")[1].code[core]
    assert measured_at(context, "HEAD", function(), tmp_path / "there")[0] == "new"
    error = refused(context, function(), tmp_path / "then")
    assert error.fields["paths"] == (str(tmp_path / "clone" / core),)


BY_PATH = """\
import importlib.util
spec = importlib.util.spec_from_file_location("core", {path!r})
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
"""


@flat
@both_forms
def test_code_that_is_executed_by_its_path_in_the_project_is_found_out(
    context: RunContext, repository: Repository, tmp_path: Path, workload: Workload
) -> None:
    by_path = BY_PATH.format(path=str(repository.root / "proj" / "core.py"))
    repository.commit(
        {
            name: text.replace("from proj import core\n", by_path)
            for name, text in (("train.py", SCRIPT), ("workloads/loops.py", LOOP))
        }
    )
    error = refused(context, workload, tmp_path, "HEAD")
    assert error.fields["paths"] == (str(repository.root / "proj" / "core.py"),)


@flat
def test_a_variable_that_a_command_declares_leads_into_the_checkout(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    script = "import os\n" + SCRIPT.replace(
        "from proj import core\n", BY_PATH.replace("{path!r}", 'os.environ["CORE"]')
    )
    repository.commit({"train.py": script, "proj/core.py": OLD})
    repository.commit({"proj/core.py": NEW})
    workload = command(
        "python", "train.py", env={"CORE": str(repository.root / "proj" / "core.py")}
    )
    assert said_by_both(context, workload, tmp_path) == ("new", "old")


@flat
@pytest.mark.parametrize("form", ["--word={}", "--word {}"])
def test_a_path_in_an_option_of_the_projects_own_leads_into_the_checkout(
    context: RunContext, repository: Repository, tmp_path: Path, form: str
) -> None:
    conftest = 'def pytest_addoption(parser):\n    parser.addoption("--word")\n'
    loop = LOOP.replace("(steps)", "(steps, request)").replace(
        "core.WORD", 'open(request.config.getoption("word")).read()'
    )
    repository.commit({"conftest.py": conftest, "workloads/loops.py": loop, "word.txt": "old"})
    repository.commit({"word.txt": "new"})
    words = form.format(repository.root / "word.txt").split()
    context = replace(context, pytest_options=(*context.pytest_options, *words))
    assert said_by_both(context, function(), tmp_path) == ("new", "old")


@both_forms
def test_vendored_code_in_a_folder_named_as_that_of_installed_packages_is_of_its_commit(
    nsys_tool: NsysTool, tmp_path: Path, workload: Workload
) -> None:
    vendored = "vendor/site-packages"
    repository = project(tmp_path, f"{vendored}/proj")
    context = context_in(repository, nsys_tool, repository.root / vendored)
    said, of_now = measured(context, workload, tmp_path / "now")
    assert (said, f"{vendored}/proj/core.py" in of_now.code) == ("new", True)
    assert measured_at(context, "HEAD~1", workload, tmp_path / "then")[0] == "old"


def test_without_git_the_code_of_a_command_is_what_its_processes_loaded(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "project")
    repository.write(
        {**PROJECT, "run.sh": "exec python train.py\n", "proj/__init__.py": "", "proj/core.py": NEW}
    )
    shutil.rmtree(repository.top / ".git")
    context = context_in(repository, nsys_tool, GIT_CEILING_DIRECTORIES=str(tmp_path))
    _, of_now = measured(context, command("sh", "run.sh"), tmp_path / "now")
    assert list(of_now.code) == ["proj/__init__.py", "proj/core.py", "run.sh", "train.py"]


def test_a_repository_with_a_perfgate_of_its_own_runs_under_the_one_of_the_gate(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "project")
    package = {
        "perfgate/__init__.py": "raise SystemExit('another perfgate')\n",
        "perfgate/plugin.py": "",
    }
    repository.commit({**PROJECT, **package, "proj/__init__.py": "", "proj/core.py": OLD})
    context = context_in(repository, nsys_tool)
    said, of_then = measured_at(context, "HEAD", function(), tmp_path / "run")
    assert said == "old"
    assert sorted(of_then.code) == ["proj/__init__.py", "proj/core.py", "workloads/loops.py"]


def test_a_monorepo_is_run_in_its_own_folder_with_its_neighbours_of_that_commit(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "mono", within="services/train")
    library = "../../libs/proj/core.py"
    repository.commit({**PROJECT, "../../libs/proj/__init__.py": "", library: OLD})
    repository.commit({library: NEW})
    context = context_in(repository, nsys_tool, repository.top / "libs")
    with at_commit(context, "HEAD~1") as there:
        assert there.root.parts[-3:] == ("checkout", "services", "train")
        assert measured(there, COMMAND, tmp_path / "command")[0] == "old"
        then = measured(there, function(), tmp_path / "then")
    for (said, run), word, text in (
        (then, "old", OLD),
        (measured(context, function(), tmp_path / "now"), "new", NEW),
    ):
        assert (said, run.code[library]) == (word, hashlib.sha256(text.encode()).hexdigest())


@flat
def test_absolute_paths_of_a_command_lead_into_the_checkout(
    context: RunContext, repository: Repository, tmp_path: Path
) -> None:
    script = repository.root / "train.py"
    workload = command("python", str(script), f"--config={script}")
    said, of_then = measured_at(context, "HEAD~1", workload, tmp_path / "run")
    assert said == "old"
    assert of_then.code["train.py"]
