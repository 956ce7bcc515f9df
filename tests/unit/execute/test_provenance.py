"""Which code a run was of, by what its processes logged: prepared logs, real repositories."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.refused import refused
from support.repository import Repository
from support.runs import context_of

from perfgate.execute.context import RunContext
from perfgate.execute.folder import ImportLog
from perfgate.execute.provenance import (
    code_now,
    code_of_run,
    is_as_blessed,
    prove_apart,
)
from perfgate.execute.worktree import Worktree
from perfgate.model.baseline import ALL_TRACKED, code_files
from perfgate.model.errors import CodeStale, CodeUnproven
from perfgate.model.workload import Workload

NOW = 4e9
FUNCTION = Workload(id="loop", source="loops.py", nodeid="loops.py::loop", steps=4, warmup=1)
COMMAND = Workload.model_validate(
    {"id": "train", "source": "train.yaml", "command": ("python", "train.py", "--c=conf.yaml")}
    | {"steps": 4, "warmup": 0, "step": "step"}
)
FILES = {
    ".gitignore": "*.so\nmade.py\n",
    "pyproject.toml": '[project]\nname = "proj"\nversion = "1"\n',
    "loops.py": "import proj.core\n",
    "train.py": "import proj.core\n",
    "conf.yaml": "",
    "src/proj/core.py": "NEW = 1\n",
}


@dataclass
class Sides:
    """A project, and an older commit of it in a checkout below it."""

    repository: Repository
    tree: Worktree

    @property
    def root(self) -> Path:
        """Of the project."""
        return self.repository.root

    def context(self, tree: Worktree | None = None) -> RunContext:
        """Of the project, or of the checkout."""
        root = self.root if tree is None else tree.root
        made = context_of(root, self.repository.env)
        return replace(made, tree=tree, began_at=NOW)

    def here(self, *files: Path | str) -> set[str]:
        """What a run in the project was of."""
        logs = [log(*(self.root / file for file in files))]
        return set(code_of_run(self.context(), FUNCTION, logs, started_at=NOW))

    def there(self, *files: Path | str) -> Mapping[str, str]:
        """What a run in the checkout was of."""
        logs = [log(*(self.tree.root / file for file in files))]
        return code_of_run(self.context(self.tree), FUNCTION, logs, started_at=NOW)


def log(*files: Path, pid: int = 1) -> ImportLog:
    return ImportLog(pid=pid, files=tuple(map(str, files)))


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    repository = Repository(tmp_path / "proj")
    sha = repository.commit({**FILES, "src/proj/core.py": "OLD = 1\n"})
    repository.commit(FILES)
    top = repository.folder / "1" / "checkout"
    repository.git("worktree", "add", "--quiet", "--detach", str(top), sha)
    root = repository.root
    return Sides(repository, Worktree(top=top, root=top, commit=sha, origin=root, origin_top=root))


def written(file: Path, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def installed(site: Path, text: str, *, url: str | None, name: str = "proj") -> Path:
    """What installing the project leaves."""
    info = site / f"{name}-1.dist-info"
    written(info / "RECORD", "proj/core.py,,\nproj/_c.so,,\n")
    if url is not None:
        written(info / "direct_url.json", f'{{"url": "{url}", "dir_info": {{}}}}')
    return written(site / "proj" / "core.py", text)


def test_each_side_is_of_its_own_working_tree(sides: Sides) -> None:
    assert sides.here("loops.py", "src/proj/core.py") == {"loops.py", "src/proj/core.py"}
    there = sides.there("loops.py", "src/proj/core.py")
    now = code_now(there, sides.root, baselines="baselines")
    assert there.keys() == now.keys()
    assert [path for path in there if there[path] != now[path]] == ["src/proj/core.py"]
    assert is_as_blessed(sides.context(sides.tree), there, code_files(there))
    assert not is_as_blessed(sides.context(sides.tree), there, code_files(now))


def test_neither_an_environment_in_the_project_nor_what_others_installed_is_its_code(
    sides: Sides, tmp_path: Path
) -> None:
    written(sides.root / ".venv" / "pyvenv.cfg")
    inside = written(sides.root / ".venv" / "lib" / "site-packages" / "numpy" / "core.py")
    outside = installed(tmp_path / "site-packages", "other = 1\n", url=None, name="other")
    cached = written(tmp_path / ".cache" / "made.py")
    assert sides.here("loops.py", inside, outside, cached) == {"loops.py"}
    assert set(sides.there("loops.py", inside, outside, cached)) == {"loops.py"}


def test_vendored_code_in_a_folder_named_as_that_of_installed_packages_is_code(
    sides: Sides,
) -> None:
    vendored = "vendor/site-packages/proj/core.py"
    sides.repository.write({vendored: ""})
    assert sides.here(vendored) == {vendored}


def test_an_environment_in_the_projects_own_folder_is_none_of_its_code(sides: Sides) -> None:
    written(sides.root / "pyvenv.cfg")
    lib = written(sides.root / "lib" / "python3" / "site-packages" / "numpy.py")
    assert sides.here("loops.py", lib) == {"loops.py"}


@pytest.mark.parametrize("by", ["folder", "archive", "name"])
@pytest.mark.parametrize("text", ["NEW = 1\n", "OLD = 1\n"], ids=["new", "old"])
def test_an_installed_copy_is_as_good_as_the_sides_own_file_or_refused(
    sides: Sides, tmp_path: Path, by: str, text: str
) -> None:
    url = {"folder": sides.root.as_uri(), "archive": f"{sides.root.as_uri()}/dist/proj-1.whl"}
    copy = installed(tmp_path / "site-packages", text, url=url.get(by))
    if text.startswith("NEW"):
        assert sides.here("loops.py", copy) == {"loops.py", "src/proj/core.py"}
        with refused(CodeUnproven, "code-from-elsewhere"):
            sides.there("loops.py", copy)
    else:
        assert set(sides.there("loops.py", copy)) == {"loops.py", "src/proj/core.py"}
        with pytest.raises(CodeStale) as stale:
            sides.here("loops.py", copy)
        assert stale.value.fields["file"] == "src/proj/core.py"


def test_a_compiled_module_that_was_installed_from_the_project_proves_no_reference(
    sides: Sides, tmp_path: Path
) -> None:
    site = tmp_path / "site-packages"
    installed(site, "", url=sides.root.as_uri())
    built = written(site / "proj" / "_c.so")
    assert sides.here("loops.py", built) == {"loops.py"}
    with pytest.raises(CodeUnproven):
        sides.there("loops.py", built)


def test_a_clone_is_a_copy_and_a_repository_of_others_is_not(sides: Sides, tmp_path: Path) -> None:
    sides.repository.git("clone", "--quiet", str(sides.root), str(tmp_path / "clone"))
    other = Repository(tmp_path / "other")
    other.commit({"src/proj/core.py": "ELSE = 1\n"})
    clone = tmp_path / "clone" / "src" / "proj" / "core.py"
    assert "src/proj/core.py" in sides.here("loops.py", clone)
    assert sides.here("loops.py", other.root / "src/proj/core.py") == {"loops.py"}
    clone.write_text("CHANGED = 1\n")
    with pytest.raises(CodeStale):
        sides.here("loops.py", clone)
    unborn = tmp_path / "unborn"
    sides.repository.git("worktree", "add", "--quiet", "--detach", str(unborn))
    sides.repository.git("checkout", "--quiet", "--orphan", "anew", cwd=unborn)
    with pytest.raises(CodeStale):
        sides.here("loops.py", written(unborn / "src" / "proj" / "core.py", "CHANGED = 1\n"))


def test_a_file_of_the_other_side_is_refused_though_it_be_equal(sides: Sides) -> None:
    with pytest.raises(CodeUnproven) as unproven:
        sides.there("loops.py", sides.root / "train.py", sides.root / "loops.py")
    assert unproven.value.fields["files"] == 2
    with pytest.raises(CodeStale):
        sides.here("loops.py", sides.tree.top / "src" / "proj" / "core.py")


def test_a_file_that_is_executed_through_a_link_is_what_it_leads_to(sides: Sides) -> None:
    (sides.root / "linked").symlink_to(sides.root / "src")
    assert sides.here("linked/proj/core.py") == {"src/proj/core.py"}


def test_a_run_that_loaded_nothing_of_its_commit_is_unproven(sides: Sides) -> None:
    with refused(CodeUnproven, "nothing-of-commit-loaded"):
        sides.there()
    with refused(CodeUnproven, "no-import-log"):
        code_of_run(sides.context(sides.tree), FUNCTION, [], started_at=NOW)


def test_where_what_took_the_steps_left_no_log_all_that_is_tracked_is_the_code(
    sides: Sides,
) -> None:
    logs = [log(sides.root / "loops.py", pid=7)]

    def here(*measured: int) -> Mapping[str, str]:
        return code_of_run(sides.context(), COMMAND, logs, started_at=NOW, measured=measured)

    assert ALL_TRACKED not in here(7)
    before = {ALL_TRACKED: here(8)[ALL_TRACKED]}
    assert code_now(before, sides.root, baselines="baselines") == before
    sides.repository.write({"conf.yaml": "other"})
    assert here(7, 8)[ALL_TRACKED] != before[ALL_TRACKED]
    there, logs = sides.context(sides.tree), [log(sides.tree.root / "train.py", pid=8)]
    assert "train.py" in code_of_run(there, COMMAND, logs, started_at=NOW, measured=[8])
    with pytest.raises(CodeUnproven):
        code_of_run(there, COMMAND, logs, started_at=NOW, measured=[7])


def test_what_is_edited_while_it_runs_is_no_code_that_another_run_has(sides: Sides) -> None:
    logs = [log(sides.root / "loops.py")]
    later = sides.root.joinpath("loops.py").stat().st_mtime - 1
    edited, again = (
        code_of_run(sides.context(), FUNCTION, logs, started_at=later - nth)["loops.py"]
        for nth in range(2)
    )
    assert edited != again


def test_what_is_generated_is_no_code_and_what_is_new_is(sides: Sides) -> None:
    sides.repository.write({"made.py": "", "new.py": "", "young.py": ""})
    began_at = NOW - 10
    os.utime(sides.root / "young.py", (NOW, NOW - 1))
    context = replace(sides.context(), began_at=began_at)
    logs = [log(*(sides.root / name for name in ("made.py", "new.py", "young.py")))]
    assert set(code_of_run(context, FUNCTION, logs, started_at=NOW)) == {"new.py"}


def test_compiled_code_of_nobodys_that_both_sides_load_is_unproven(
    sides: Sides, tmp_path: Path
) -> None:
    digest = "c" * 32
    site = tmp_path / "site-packages"
    for path, is_shared in (
        (tmp_path / ".cache" / "torch_extensions" / "fast.so", True),
        (tmp_path / "build" / "fast.so", True),
        (tmp_path / ".triton" / digest / "launcher.so", False),
        (site / "numpy" / "core.so", False),
        (tmp_path / "lib" / "python3" / "lib-dynload" / "_json.so", False),
        (installed(tmp_path / "target", "", url=None, name="other").with_name("core.so"), False),
    ):
        logs = [log(written(path))]
        if not is_shared:
            prove_apart(FUNCTION, sides.tree, reference=logs, candidate=logs)
            continue
        with refused(CodeUnproven, "compiled-code-shared"):
            prove_apart(FUNCTION, sides.tree, reference=logs, candidate=logs)


def test_compiled_code_that_the_checkout_lacks_is_unproven(sides: Sides) -> None:
    candidate = [log(written(sides.root / "src" / "proj" / "_c.cpython-312.so"))]
    with pytest.raises(CodeUnproven) as unproven:
        prove_apart(FUNCTION, sides.tree, reference=[], candidate=candidate)
    assert unproven.value.fields["paths"] == ("src/proj/_c.cpython-312.so",)
    written(sides.tree.top / "src" / "proj" / "_c.cpython-311.so")
    prove_apart(FUNCTION, sides.tree, reference=[], candidate=candidate)
