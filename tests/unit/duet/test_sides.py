"""What betrays that the two sides of a duet were not apart."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.repository import Repository

from perfgate.duet.proof import Witness
from perfgate.duet.sides import prove_apart
from perfgate.duet.worktree import Worktree
from perfgate.model.errors import CodeUnproven
from perfgate.model.workload import Workload

FUNCTION = Workload(id="mlp", source="workloads/mlp.py", nodeid="workloads/mlp.py::mlp", steps=4, warmup=1)
BEGAN_AT = 1000.0
SO = "cpython-311-x86_64-linux-gnu.so"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A project with a package, and a rule of what it builds in place."""
    made = Repository(tmp_path / "project")
    made.commit({"src/pkg/__init__.py": "", ".gitignore": "*.so\n*_gen.py\n_version.py\n"})
    return made


@pytest.fixture
def tree(repository: Repository, tmp_path: Path) -> Worktree:
    """A checkout with the same package, and nothing built."""
    top = repository.folder / "0123456789ab-00000000" / "checkout"
    write(top, "src/pkg/__init__.py")
    sha = "0123456789ab" + "0" * 28
    origin = repository.root
    return Worktree(top=top, root=top, commit=sha, origin=origin, origin_top=origin, names=frozenset({"pkg"}))


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def told(folder: Path, modules: Mapping[str, str]) -> Witness:
    """A witness of modules, by their files from a folder."""
    return Witness(pid=1, prefixes=(), modules={name: str(folder / file) for name, file in modules.items()})


def of_sides(repository: Repository, tree: Worktree, there: Sequence[Witness], here: Sequence[Witness]) -> str:
    """What is said of both sides; nothing where they are proven."""
    try:
        prove_apart(FUNCTION, tree, reference=there, candidate=here, env=repository.env, began_at=BEGAN_AT)
    except CodeUnproven as unproven:
        return str(unproven)
    return ""


# What only the candidate has


FAST = f"src/pkg/_fast.{SO}"
OWN = {"pkg": "src/pkg/__init__.py"}


def of_candidate(
    repository: Repository,
    tree: Worktree,
    name: str,
    file: str,
    *,
    there: Mapping[str, str] | None = None,
    age_s: float = 1.0,
) -> str:
    """What is said where the candidate loaded a file, of that age when the gate began, and the reference others."""
    write(repository.root, file)
    os.utime(repository.root / file, (BEGAN_AT - age_s,) * 2)
    here, reference = told(repository.root, {**OWN, name: file}), told(tree.top, {**OWN, **(there or {})})
    return of_sides(repository, tree, [reference], [here])


def test_a_build_in_place_that_the_checkout_lacks_is_told_with_what_to_do(
    repository: Repository, tree: Worktree
) -> None:
    assert of_candidate(repository, tree, "pkg._fast", FAST) == (
        f"mlp at commit 0123456789ab: the project loaded {FAST}, which no commit of it holds and the checkout does not "
        "have. Without it that commit's code may have taken another way.\n"
        "Let duet_setup make it there as it was made here, for example: "
        'duet_setup = ["python", "setup.py", "build_ext", "--inplace"]. Where that commit has no source of it, judge '
        "by stored values: without --perfgate-against."
    )


@pytest.mark.parametrize("ignore", ["", "*.so\n"], ids=["untracked", "ignored"])
@pytest.mark.parametrize("pure", [{}, {"pkg._fast": "src/pkg/_fast.py"}], ids=["a fallback", "the same in Python"])
def test_a_build_in_place_is_lacking_whatever_git_says_of_it_and_the_reference_ran_instead(
    repository: Repository, tree: Worktree, ignore: str, pure: dict[str, str]
) -> None:
    repository.write({".gitignore": ignore})
    assert "the project loaded" in of_candidate(repository, tree, "pkg._fast", FAST, there=pure)


@pytest.mark.parametrize("made", [FAST, "src/pkg/_fast.cpython-312-x86_64-linux-gnu.so", "src/pkg/_fast.abi3.so"])
def test_what_a_setup_has_built_in_the_checkout_is_not_lacking(
    repository: Repository, tree: Worktree, made: str
) -> None:
    write(tree.top, made)
    assert of_candidate(repository, tree, "pkg._fast", FAST) == ""


@pytest.mark.parametrize("made", ["build/_fast.so", "../torch_extensions/_fast/_fast.so", "../env/lib/_fast.so"])
def test_what_the_reference_has_built_or_installed_elsewhere_of_its_own_is_not_lacking(
    repository: Repository, tree: Worktree, made: str
) -> None:
    assert of_candidate(repository, tree, "_fast", "build/lib/_fast.so", there={"_fast": made}) == ""


def test_files_of_a_commit_to_come_are_what_is_compared(repository: Repository, tree: Worktree) -> None:
    assert of_candidate(repository, tree, "pkg.new", "src/pkg/new.py") == ""
    repository.write({FAST: ""})
    repository.git("add", "--force", FAST)
    assert of_candidate(repository, tree, "pkg._fast", FAST) == ""


@pytest.mark.parametrize(
    ("file", "age_s", "is_lacking"),
    [
        ("src/pkg/ops_gen.py", 1.0, True),
        ("src/pkg/ops_gen.py", -1.0, False),
        ("src/pkg/_version.py", 1.0, False),
    ],
    ids=["made before", "made by the run", "a version"],
)
def test_code_that_was_generated_is_lacking_if_no_run_made_it(
    repository: Repository, tree: Worktree, file: str, age_s: float, is_lacking: bool
) -> None:
    said = of_candidate(repository, tree, "pkg.made", file, age_s=age_s)
    assert (f"the project loaded {file}, which" in said) is is_lacking
    write(tree.top, file)
    assert of_candidate(repository, tree, "pkg.made", file, age_s=age_s) == ""


@pytest.mark.parametrize(
    "file",
    [
        f".venv/lib/python3/site-packages/torch/_C.{SO}",
        f"env/lib/python3/lib-dynload/_json.{SO}",
        ".perfgate/runs/x.so",
        f"cache/{'ab2c' * 13}/launcher.so",
        "/usr/lib/x.so",
    ],
    ids=["installed", "an environment", "a run's", "by its digest", "elsewhere"],
)
def test_what_is_not_the_projects_own_may_lack_there(repository: Repository, tree: Worktree, file: str) -> None:
    write(repository.root, "env/pyvenv.cfg")
    here = told(repository.root, {"x": file})
    assert of_sides(repository, tree, [told(tree.top, OWN)], [here]) == ""


def test_code_of_a_submodule_that_is_not_checked_out_there_is_lacking(
    repository: Repository, tree: Worktree, tmp_path: Path
) -> None:
    library = Repository(tmp_path / "library")
    library.commit({"lib.py": "", "lib_c.so": ""})
    where = ("-c", "protocol.file.allow=always")
    repository.git(*where, "submodule", "--quiet", "add", str(library.root), "third_party/library")
    repository.commit()
    advice = "Submodules are not checked out; duet_setup can do it: git submodule update --init --recursive."
    write(tree.top, ".gitmodules")
    for file in ("third_party/library/lib.py", "third_party/library/lib_c.so"):
        here = [told(repository.root, {"lib": file})]
        (tree.top / "third_party" / "library").mkdir(parents=True, exist_ok=True)
        said = of_sides(repository, tree, [told(tree.top, OWN)], here)
        assert f"the project loaded {file}, which" in said
        assert said.endswith(advice)
    (tree.top / "third_party" / "library").rmdir()
    here = [told(repository.root, {"lib": "third_party/library/lib.py"})]
    assert of_sides(repository, tree, [told(tree.top, OWN)], here) == ""


def test_of_a_monorepo_files_are_told_from_the_root(tmp_path: Path, tree: Worktree) -> None:
    service = Repository(tmp_path / "mono", within="apps/train")
    service.commit({"train.py": "", "../../libs/core.py": "", "../../.gitignore": "*.so\n"})
    top = tmp_path / "worktrees" / "checkout"
    write(top, "apps/train/train.py", "libs/core.py")
    mono = replace(tree, top=top, root=top / "apps" / "train", origin=service.root, origin_top=service.top)
    write(service.top, "libs/core_c.so")
    said = of_sides(service, mono, [told(top, {})], [told(service.top, {"core_c": "libs/core_c.so"})])
    assert "the project loaded ../../libs/core_c.so, which" in said
