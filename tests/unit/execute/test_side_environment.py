"""Words, options and variables of a run in the project, as those of the same run in a checkout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.refused import refused
from support.repository import Repository

from perfgate.execute.places import PACKAGE
from perfgate.execute.side_environment import (
    declared_there,
    environment_there,
    interpreter,
    options_there,
    pin,
    workload_there,
)
from perfgate.execute.worktree import Worktree, worktree
from perfgate.model.errors import WorktreeFailed
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.model.workload_file import read_workload_file

FUNCTION = Workload(
    id="mlp", source="workloads/mlp.py", nodeid="workloads/mlp.py::mlp", steps=4, warmup=1
)


def command(*words: str, cwd: str | None = None) -> Workload:
    return Workload(id="train", source="w/train.yaml", command=words, steps=4, warmup=0, cwd=cwd)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A project whose second commit has more than its first."""
    made = Repository(tmp_path / "project")
    made.commit(
        {
            "train.py": "1\n",
            "conf/a.yaml": "",
            "workloads/mlp.py": "",
            "pyproject.toml": "",
            "src/p/a.py": "",
        }
    )
    made.commit({"young.py": "", "young.yaml": "", "younger/x.py": ""})
    return made


@pytest.fixture
def tree(repository: Repository) -> Iterator[Worktree]:
    """The first commit."""
    with worktree(repository.root, "HEAD~1", folder=repository.folder, env=repository.env) as made:
        yield made


# What comes first on the path


def test_the_pin_holds_the_running_perfgate_as_if_it_were_installed(
    tree: Worktree, tmp_path: Path
) -> None:
    pin(tree)
    old = tree.root / "perfgate"
    old.mkdir()
    (old / "__init__.py").write_text("raise SystemExit('another')")
    code = (
        "import perfgate.execute, importlib.metadata as m; print(perfgate.__path__[0]);"
        "print([e.value for e in m.distribution('perfgate').entry_points])"
    )
    env = environment_there({}, tree)
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", code],
        cwd=tree.root,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        str(tree.home / "worker" / "perfgate"),
        "['perfgate.plugin']",
    ]
    assert (tree.home / "worker" / "perfgate").resolve() == PACKAGE


def test_the_path_is_that_of_the_project_in_the_checkout(
    tree: Worktree, repository: Repository, tmp_path: Path
) -> None:
    root = repository.root
    site = f"{root}/.venv/lib/python3/site-packages"
    inherited = f"{root}/conf:{root}/lib:/opt/lib:relative:{site}"
    given = {"PYTHONPATH": inherited, "PATH": "/bin", "KEPT": f"{repository.root}/data"}
    found = environment_there(given, tree)
    assert found["PYTHONPATH"].split(":") == [
        str(tree.home / "worker"),
        str(tree.root),
        str(tree.root / "src"),
        str(tree.root / "conf"),
        f"{repository.root}/lib",
        "/opt/lib",
        "relative",
        f"{repository.root}/.venv/lib/python3/site-packages",
    ]
    assert (found["PATH"], found["KEPT"]) == ("/bin", given["KEPT"])


def test_editable_installations_by_path_lead_into_the_checkout(
    tree: Worktree, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `.pth` of a neighbour in a monorepo, say; a finder's hook is none, and what the commit
    lacks is left out."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), str(tmp_path / "no" / "site-packages")])
    lines = [
        f"{repository.root}/workloads",
        "import hook",
        "# note",
        "",
        "/opt/x",
        f"{repository.root}/younger",
    ]
    (site / "project.pth").write_text("\n".join(lines))
    (site / "broken.pth").write_bytes(b"\xff\n")
    found = environment_there({}, tree)
    assert found["PYTHONPATH"].split(":")[3:] == [str(tree.root / "workloads")]


def test_what_torch_compiles_as_it_runs_lies_next_to_the_checkout(
    tree: Worktree, repository: Repository
) -> None:
    """Both sides are alive at once, and torch calls what it builds as the caller does."""
    project = {"TORCH_EXTENSIONS_DIR": str(repository.root / "ext")}
    for declared, env in (({}, {}), ({}, {"TORCH_EXTENSIONS_DIR": "/cache"}), (project, {})):
        workload = FUNCTION.model_copy(update={"env": declared})
        found = environment_there(env, tree, workload)
        assert found["TORCH_EXTENSIONS_DIR"] == str(tree.home / "torch_extensions")


def test_an_interpreter_of_the_checkouts_own_is_found_or_reported(tree: Worktree) -> None:
    with refused(WorktreeFailed, "interpreter-missing-there"):
        interpreter(tree, ".venv/bin/python")
    (tree.root / ".venv" / "bin").mkdir(parents=True)
    (tree.root / ".venv" / "bin" / "python").symlink_to(sys.executable)
    assert interpreter(tree, ".venv/bin/python") == tree.root / ".venv" / "bin" / "python"


# The options of a worker's pytest


@pytest.mark.parametrize(
    ("given", "ini", "confined"),
    [
        (("-c", "{origin}/pyproject.toml"), "{top}/pyproject.toml", "{top}"),
        (("-c", "{origin}/young.yaml"), "{home}/worker/pytest.ini", "{top}"),
        (("-c", "/elsewhere/pytest.ini"), "{home}/worker/pytest.ini", "{top}"),
        ((), "{home}/worker/pytest.ini", "{top}"),
        (
            ("--confcutdir={origin}/workloads", "-c", "{origin}/pyproject.toml"),
            "{top}/pyproject.toml",
            "{top}/workloads",
        ),
    ],
    ids=["there", "younger", "elsewhere", "none", "confined"],
)
def test_pytest_is_configured_by_the_checkout_and_by_nothing_above_it(
    tree: Worktree, given: tuple[str, ...], ini: str, confined: str
) -> None:
    places = {"origin": tree.origin, "top": tree.top, "home": tree.home}
    options = (
        f"--rootdir={tree.origin}",
        "--import-mode=importlib",
        *(one.format(**places) for one in given),
    )
    assert options_there((*options, "-p", "plugin"), tree) == (
        f"--rootdir={tree.root}",
        f"--confcutdir={confined.format(**places)}",
        "-c",
        ini.format(**places),
        "--import-mode=importlib",
        "-p",
        "plugin",
    )


def test_paths_in_the_projects_own_options_lead_into_the_checkout(tree: Worktree) -> None:
    given = (
        "--cfg={o}/conf/a.yaml",
        "--other",
        "{o}/train.py",
        "--young={o}/young.py",
        "--out=/tmp/x",
        "--n=3",
    )
    ini = ("--override-ini=pythonpath={o}/src", "--override-ini=log_level=INFO", "-p", "plugin")
    options = options_there(tuple(word.format(o=tree.origin) for word in (*given, *ini)), tree)
    assert options[4:] == (
        f"--cfg={tree.top}/conf/a.yaml",
        "--other",
        f"{tree.top}/train.py",
        f"--young={tree.origin}/young.py",
        "--out=/tmp/x",
        "--n=3",
        f"--override-ini=pythonpath={tree.top}/src",
        *ini[1:],
    )


# The words of a command


@pytest.mark.parametrize(
    ("words", "there"),
    [
        (("python", "train.py", "4"), ("python", "train.py", "4")),
        (
            ("python", "{o}/train.py", "--c={o}/conf/a.yaml"),
            ("python", "{t}/train.py", "--c={t}/conf/a.yaml"),
        ),
        (
            ("python", "model.conf={o}/conf/a.yaml", "a=b"),
            ("python", "model.conf={t}/conf/a.yaml", "a=b"),
        ),
        (
            ("python", "--data={o}/data", "{o}/out/x.json"),
            ("python", "--data={o}/data", "{o}/out/x.json"),
        ),
        (("{o}/.venv/bin/python", "train.py"), ("{o}/.venv/bin/python", "train.py")),
        ((".venv/bin/python", "train.py"), ("{o}/.venv/bin/python", "train.py")),
        (
            ("sh", "-c", "cd {o} && python train.py", "/" + "x" * 5000),
            ("sh", "-c", "cd {o} && python train.py", None),
        ),
    ],
)
def test_words_that_lead_into_the_project_lead_into_the_checkout(
    tree: Worktree, repository: Repository, words: tuple[str, ...], there: tuple[str | None, ...]
) -> None:
    repository.write(
        {".venv/pyvenv.cfg": "", ".venv/bin/python": "", "data/x": "", "out/x.json": ""}
    )
    given = tuple(word.format(o=tree.origin) for word in words)
    expected = tuple(
        given[index] if word is None else word.format(o=tree.origin, t=tree.top)
        for index, word in enumerate(there)
    )
    made = workload_there(command(*given), tree)
    assert made.command == expected
    assert workload_there(made, tree) == made


@pytest.mark.parametrize(
    ("cwd", "there"),
    [(None, None), ("conf", "{t}/conf"), ("{o}/conf", "{t}/conf"), ("/tmp", "/tmp")],
)
def test_a_command_runs_in_the_same_folder_of_the_checkout(
    tree: Worktree, cwd: str | None, there: str | None
) -> None:
    named = None if cwd is None else cwd.format(o=tree.origin)
    made = workload_there(command("python", cwd=named), tree)
    assert made.cwd == (None if there is None else there.format(t=tree.top))


def declared(then: str | None, now: str, repository: Repository) -> tuple[Workload, Workload]:
    """A command as the project declares it, and as it is run at the commit before."""
    repository.commit({} if then is None else {"workloads/slow.yaml": then})
    repository.commit({"workloads/slow.yaml": now})
    settings = Settings()
    workload = read_workload_file(
        repository.root / "workloads" / "slow.yaml", root=repository.root, settings=settings
    )
    with worktree(repository.root, "HEAD~1", folder=repository.folder, env=repository.env) as tree:
        return workload, declared_there(workload, tree, settings)


YAML = 'command: [python, s.py, "0.004"]\nstep: step\nsteps: 12\nwarmup: 2\n'


def test_a_command_is_what_the_commits_own_file_says(repository: Repository) -> None:
    now = (
        YAML.replace("0.004", "0.008")
        + "env: {SL: '2'}\ncwd: conf\npass_env: [KEY]\ntimeout_s: 7\n"
    )
    workload, there = declared(YAML + "env: {SL: '1'}\n", now, repository)
    assert there.command == ("python", "s.py", "0.004")
    assert (there.env, there.cwd, there.pass_env) == ({"SL": "1"}, None, ())
    assert there.timeout_s == workload.timeout_s == 7


@pytest.mark.parametrize(
    ("before", "after", "setting"),
    [
        ("steps: 12", "steps: 14", "steps"),
        ("warmup: 2", "warmup: 3", "warmup"),
        ("step: step", "step: batch", "step"),
        ("warmup: 2", "warmup: 2\ncapture: all", "capture"),
    ],
)
def test_a_command_that_is_measured_otherwise_at_the_commit_is_not_compared(
    repository: Repository, before: str, after: str, setting: str
) -> None:
    with pytest.raises(WorktreeFailed) as caught:
        declared(YAML, YAML.replace(before, after), repository)
    assert caught.value.code == "measured-otherwise-there"
    assert caught.value.fields["setting"] == setting


def test_a_file_of_the_commit_that_cannot_be_read_is_reported(repository: Repository) -> None:
    with refused(WorktreeFailed, "workload-file-unreadable-there"):
        declared(YAML + "stpes: 3\n", YAML, repository)
