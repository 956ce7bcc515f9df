"""What betrays that the two sides of a duet were not apart, and what both may load."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.repository import Repository

from perfgate.execute.proof import Witness
from perfgate.execute.sides import prove_apart
from perfgate.execute.worktree import Worktree
from perfgate.model.errors import CodeUnproven
from perfgate.model.workload import Workload

FUNCTION = Workload(
    id="mlp", source="workloads/mlp.py", nodeid="workloads/mlp.py::mlp", steps=4, warmup=1
)
BEGAN_AT = 1000.0
SITE = "usr/lib/python3/site-packages"
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
    return Worktree(
        top=top, root=top, commit=sha, origin=origin, origin_top=origin, names=frozenset({"pkg"})
    )


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def told(folder: Path, modules: Mapping[str, str]) -> Witness:
    """A witness of modules, by their files from a folder."""
    return Witness(
        pid=1, prefixes=(), modules={name: str(folder / file) for name, file in modules.items()}
    )


def of_sides(
    repository: Repository, tree: Worktree, there: Sequence[Witness], here: Sequence[Witness]
) -> str:
    """What is said of both sides; nothing where they are proven."""
    try:
        prove_apart(
            FUNCTION, tree, reference=there, candidate=here, env=repository.env, began_at=BEGAN_AT
        )
    except CodeUnproven as unproven:
        return str(unproven)
    return ""


def of_shared(repository: Repository, tree: Worktree, name: str, file: Path, **more: str) -> str:
    """What is said where both sides loaded one file, and the reference more modules of its own."""
    here = Witness(pid=1, prefixes=(), modules={name: str(file)})
    there = {name: str(file), **{module: str(tree.home / path) for module, path in more.items()}}
    prefix = str(repository.top.parent / "env")
    return of_sides(repository, tree, [Witness(pid=2, prefixes=(prefix,), modules=there)], [here])


def test_what_both_sides_loaded_of_a_build_that_no_package_owns_is_told_with_what_to_do(
    repository: Repository, tree: Worktree, tmp_path: Path
) -> None:
    file = (
        tmp_path / "home" / ".cache" / "torch_extensions" / "py311_cu121" / "stepext" / "stepext.so"
    )
    assert of_shared(repository, tree, "stepext", file) == (
        f"mlp at commit 0123456789ab: both sides loaded the same compiled code (stepext from {file}). "
        "It lies outside both and is of no installed package, so either side's code may be in it.\n"
        "Let each side build its own, in duet_setup or in a folder beside its files (build_directory, build_dir); "
        "if it is another project's, install that (pip install)."
    )


def test_the_first_of_what_both_loaded_are_named_and_the_rest_counted(
    repository: Repository, tree: Worktree, tmp_path: Path
) -> None:
    both = told(tmp_path / "cache", {f"m{n}": f"m{n}.so" for n in range(5)})
    fact = of_sides(repository, tree, [both, both], [both]).split(": ")[1]
    assert fact.endswith(
        f"m2 from {tmp_path}/cache/m2.so and 2 more). It lies outside both and is of no installed "
        "package, so either side's code may be in it.\nLet each side build its own, in duet_setup or "
        "in a folder beside its files (build_directory, build_dir); if it is another project's, "
        "install that (pip install)."
    )


def test_a_link_to_what_the_other_side_loaded_is_the_same_file(
    repository: Repository, tree: Worktree, tmp_path: Path
) -> None:
    write(tmp_path / "cache", "ext.so")
    (tmp_path / "linked").symlink_to("cache")
    there, here = (told(tmp_path / folder, {"ext": "ext.so"}) for folder in ("cache", "linked"))
    assert "both sides loaded" in of_sides(repository, tree, [there], [here])


def test_an_environment_may_be_links_into_an_installers_cache(
    repository: Repository, tree: Worktree, tmp_path: Path
) -> None:
    """As `uv pip install --link-mode=symlink` makes one."""
    write(
        tmp_path,
        "cache/archive-v0/x/numpy/_c.so",
        f"{SITE}/numpy/__init__.py",
        f"{SITE}/pkg_ops-1.dist-info/RECORD",
    )
    (tmp_path / SITE / "numpy" / "_c.so").symlink_to(tmp_path / "cache/archive-v0/x/numpy/_c.so")
    file = tmp_path / SITE / "numpy" / "_c.so"
    assert of_shared(repository, tree, "numpy._c", file) == ""
    (tmp_path / SITE / "pkg_ops-1.dist-info" / "RECORD").write_text("numpy/_c.so,sha256=x,1\n")
    assert of_shared(repository, tree, "pkg.ops", file, pkg="checkout/src/pkg/__init__.py") == ""


@pytest.mark.parametrize(
    "file",
    [
        # pyximport, by the module's name; a build folder of anybody's.
        f".pyxbld/lib.linux-x86_64-cpython-311/pkg/fast.{SO}",
        f"build/pkg/fast.{SO}",
        f"{SITE}/pkg/fast.{SO}",
    ],
)
def test_a_module_of_the_checkouts_own_package_is_its_own_wherever_it_was_built(
    repository: Repository, tree: Worktree, tmp_path: Path, file: str
) -> None:
    own = {"pkg": "checkout/src/pkg/__init__.py"}
    assert "both sides loaded" in of_shared(repository, tree, "pkg.fast", tmp_path / file, **own)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("torch._C", f"{SITE}/torch/_C.{SO}"),
        ("yaml._yaml", f"usr/lib/python3/dist-packages/yaml/_yaml.{SO}"),
        ("_json", f"env/lib/python3.11/lib-dynload/_json.{SO}"),
        ("gi._gi", "/usr/lib/gi/_gi.so"),
        ("launcher", f"home/.triton/cache/{'AB2C' * 13}/__triton_launcher.{SO}"),
        ("launcher", f"home/.triton/cache/{'0123456789abcdef' * 4}/__triton_launcher.so"),
        ("kernel.c", f"tmp/torchinductor_ada/ab/c{'ab2c' * 13}.so"),
        ("kernel.c", f"tmp/torchinductor_ada/ab/c{'ab2c' * 13}.main.so"),
        ("_inline", f"home/.cython/inline/_cython_inline_{'0123456789' * 4}.{SO}"),
    ],
    ids=[
        "a wheel",
        "the system's package",
        "the interpreter",
        "the system",
        "Triton",
        "Triton before 3",
        "Inductor",
        "a kernel of Inductor",
        "Cython's inline",
    ],
)
def test_what_is_installed_or_called_by_a_digest_of_its_source_may_be_shared(
    repository: Repository, tree: Worktree, tmp_path: Path, name: str, file: str
) -> None:
    assert of_shared(repository, tree, name, tmp_path / file) == ""


def test_python_code_and_each_sides_own_build_may_be_what_they_are(
    repository: Repository, tree: Worktree, tmp_path: Path
) -> None:
    assert of_shared(repository, tree, "tool", tmp_path / "tools" / "tool.py") == ""
    there, here = (told(tmp_path / side, {"ext": "cache/ext.so"}) for side in ("there", "here"))
    assert of_sides(repository, tree, [there], [here]) == ""


@pytest.mark.parametrize(
    ("project", "is_shared"),
    [('name = "other"', True), ('name = "pkg"', False), ('version = "1"', False)],
    ids=["another", "of the same name", "without a name"],
)
def test_a_build_in_another_projects_folder_may_be_shared(
    repository: Repository, tree: Worktree, tmp_path: Path, project: str, is_shared: bool
) -> None:
    write(tmp_path, "other/src/other/_c.so")
    (tmp_path / "other" / "pyproject.toml").write_text(f"[project]\n{project}\n")
    said = of_shared(repository, tree, "other._c", tmp_path / "other" / "src" / "other" / "_c.so")
    assert (said == "") is is_shared
    assert (
        of_shared(repository, tree, "other._c", tmp_path / "other" / ".cache" / "other" / "_c.so")
        != ""
    )


def test_a_build_in_a_clone_of_the_repository_is_shared_by_nobody(
    repository: Repository, tree: Worktree, tmp_path: Path
) -> None:
    repository.git("clone", "--quiet", str(repository.top), str(tmp_path / "clone"))
    (tmp_path / "clone" / "pyproject.toml").write_text('[project]\nname = "renamed"\n')
    of_clone = replace(tree, top=repository.top)
    file = tmp_path / "clone" / "src" / "fast.so"
    assert "both sides loaded" in of_shared(repository, of_clone, "fast", file)


@pytest.mark.parametrize(
    "note", [None, {"url": "file:///nowhere"}, {"dir_info": {"editable": True}}]
)
@pytest.mark.parametrize("name", ["other", "pkg"])
def test_what_is_installed_elsewhere_than_among_the_packages_may_be_shared_if_it_is_not_the_projects(
    repository: Repository,
    tree: Worktree,
    tmp_path: Path,
    name: str,
    note: dict[str, object] | None,
) -> None:
    """By `pip install --target`, and in place."""
    site = tmp_path / (SITE if note and "dir_info" in note else "libs")
    info = site / f"{name}-1.dist-info"
    write(site, "numpy/__init__.py", f"{info.name}/RECORD")
    (info / "RECORD").write_text("other/_c.so,sha256=x,1\n")
    if note is not None:
        (info / "direct_url.json").write_text(
            json.dumps({"url": (tmp_path / "libs").as_uri(), **note})
        )
    there = {
        "other._c": str(tmp_path / "libs" / "other" / "_c.so"),
        "numpy": str(site / "numpy" / "__init__.py"),
    }
    both = Witness(pid=1, prefixes=(), modules=there)
    assert (of_sides(repository, tree, [both], [both]) == "") is (name == "other")


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
    here, reference = (
        told(repository.root, {**OWN, name: file}),
        told(tree.top, {**OWN, **(there or {})}),
    )
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
@pytest.mark.parametrize(
    "pure", [{}, {"pkg._fast": "src/pkg/_fast.py"}], ids=["a fallback", "the same in Python"]
)
def test_a_build_in_place_is_lacking_whatever_git_says_of_it_and_the_reference_ran_instead(
    repository: Repository, tree: Worktree, ignore: str, pure: dict[str, str]
) -> None:
    repository.write({".gitignore": ignore})
    assert "the project loaded" in of_candidate(repository, tree, "pkg._fast", FAST, there=pure)


@pytest.mark.parametrize(
    "made", [FAST, "src/pkg/_fast.cpython-312-x86_64-linux-gnu.so", "src/pkg/_fast.abi3.so"]
)
def test_what_a_setup_has_built_in_the_checkout_is_not_lacking(
    repository: Repository, tree: Worktree, made: str
) -> None:
    write(tree.top, made)
    assert of_candidate(repository, tree, "pkg._fast", FAST) == ""


@pytest.mark.parametrize(
    "made", ["build/_fast.so", "../torch_extensions/_fast/_fast.so", "../env/lib/_fast.so"]
)
def test_what_the_reference_has_built_or_installed_elsewhere_of_its_own_is_not_lacking(
    repository: Repository, tree: Worktree, made: str
) -> None:
    assert (
        of_candidate(repository, tree, "_fast", "build/lib/_fast.so", there={"_fast": made}) == ""
    )


def test_files_of_a_commit_to_come_are_what_is_compared(
    repository: Repository, tree: Worktree
) -> None:
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
def test_what_is_not_the_projects_own_may_lack_there(
    repository: Repository, tree: Worktree, file: str
) -> None:
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
    advice = "Submodules are not checked out; duet_setup can do it, by `git submodule update --init --recursive`."
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
    mono = replace(
        tree, top=top, root=top / "apps" / "train", origin=service.root, origin_top=service.top
    )
    write(service.top, "libs/core_c.so")
    said = of_sides(
        service, mono, [told(top, {})], [told(service.top, {"core_c": "libs/core_c.so"})]
    )
    assert "the project loaded ../../libs/core_c.so, which" in said
