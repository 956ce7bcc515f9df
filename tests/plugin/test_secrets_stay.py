"""Secrets that a workload is given, or comes by, stand in nothing that a gate keeps or prints."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import pytest
from support import records
from support.project import LOOP, Project, Seen

pytestmark = pytest.mark.behaviour

TOKEN = 'tok3n+Aa1Bb2/Cc3Dd4Ee5Ff6Gg7="Hh8'
"""Given by pass_env."""
PASSWORD = "Sw0rd-Fish-22"
"""Withheld, and come by in another way."""
PATTERN = "ghp_" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3"
"""Of no variable."""
HOST_PASSWORD = "hushhush1"

LEAKING = """
import base64, json, os, pathlib, sys, urllib.parse
import nvtx
from perfgate import workload

TOKEN = os.environ["SERVICE_TOKEN"]
PASSWORD = pathlib.Path(__file__).with_name("hidden.bin").read_text()[::-1]
PATTERN = "ghp_" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3"

def show():
    print(TOKEN, repr(TOKEN), json.dumps({"token": TOKEN}), urllib.parse.quote(TOKEN, safe=""))
    print(base64.b64encode(f"user:{TOKEN}".encode()).decode(), TOKEN.encode().hex())
    print("E   no access with " + TOKEN[:15] + "\\nE     " + TOKEN[15:])
    print(f"cut: '{TOKEN[:20]}...'")
    print(PASSWORD, PATTERN, f"https://me:{'hush' * 2}1@example.org/x", file=sys.stderr)

@workload(steps=3, warmup=1)
def names(steps):
    show()
    for _ in steps:
        with nvtx.annotate(f"load {TOKEN}"):
            with nvtx.annotate(PATTERN):
                sum(range(200_000))

@workload(steps=3, warmup=1)
def raises(steps):
    for _ in steps:
        show()
        raise RuntimeError(f"401 for {TOKEN} and {PASSWORD} and {PATTERN}")

@workload(steps=3, warmup=1)
def cuts(steps):
    raise RuntimeError(f"401 for {TOKEN[:17]}...")
"""


def forms() -> list[str]:
    """What must be found nowhere."""
    whole = base64.b64encode(f"user:{TOKEN}".encode()).decode()
    return [
        *(
            TOKEN,
            TOKEN[:15],
            TOKEN[15:],
            repr(TOKEN)[1:-1],
            json.dumps(TOKEN)[1:-1],
            urllib.parse.quote(TOKEN, safe=""),
        ),
        *(whole[8:-4], TOKEN.encode().hex(), PASSWORD, PATTERN, HOST_PASSWORD),
    ]


def secrets_in(root: Path, seen: Seen) -> list[str]:
    """Where any of them is: in files that the project did not have before, or on the screen."""
    own = [
        path
        for path in root.rglob("*")
        if path.is_file() and "workloads" not in path.relative_to(root).parts
    ]
    texts = {str(path.relative_to(root)): path.read_bytes() for path in own}
    texts |= {"stdout": seen.out.encode(), "stderr": seen.err.encode()}
    return [
        f"{name}: {form}"
        for name, held in texts.items()
        for form in forms()
        if form.encode() in held
    ]


@pytest.fixture
def given(project: Project) -> Project:
    project.write(
        "pyproject.toml",
        '[project]\nname = "scratch"\nversion = "1"\n[tool.perfgate]\nruns = 2\n'
        'pass_env = ["SERVICE_TOKEN"]\n',
    )
    project.write("workloads/hidden.bin", PASSWORD[::-1])
    project.patch.setenv("SERVICE_TOKEN", TOKEN)
    project.patch.setenv("DB_PASSWORD", PASSWORD)
    return project


OUTPUTS = ("--perfgate-json=g.json", "--perfgate-html=g.html", "--perfgate-markdown=g.md")


@pytest.mark.usefixtures("real_nsys")
def test_what_a_workload_says_and_names_is_kept_without_its_secrets(given: Project) -> None:
    given.workload(LEAKING)
    seen = given.run("--perfgate", *OUTPUTS, "--junitxml=pytest.xml", "-rA")
    assert seen.status == 1
    document = given.written("g.json")
    outcomes = {one.verdict.workload: one.verdict.outcome for one in document.workloads}
    assert outcomes == {"names": "NO_BASELINE", "raises": "NOT_MEASURED", "cuts": "NOT_MEASURED"}
    assert "SERVICE_TOKEN" in document.model_dump_json()  # whose secret it was is said
    kept = [path.name for path in (given.root / ".perfgate").rglob("*") if path.is_file()]
    assert {"workload.log", "result.json", "worker-report.json", "capture-0.sqlite"} <= set(kept)
    assert secrets_in(given.root, seen) == []


def test_what_collection_says_is_without_secrets(given: Project) -> None:
    given.nsys("sys.exit(1)")
    given.write(
        "workloads/conftest.py",
        "import os, warnings\nwarnings.warn('with ' + os.environ['SERVICE_TOKEN'])\n",
    )
    given.workload(
        "import os\nraise OSError('no ' + os.environ['SERVICE_TOKEN'])\n"
        "from perfgate import workload\n"
    )
    given.workload(
        "import os, pytest\nfrom perfgate import workload\n"
        "pytest.skip('without ' + os.environ['DB_PASSWORD'], allow_module_level=True)\n",
        file="left.py",
    )
    seen = given.run("--perfgate", *OUTPUTS, "--junitxml=pytest.xml", "-ra")
    assert seen.status != 0
    assert "SERVICE_TOKEN" in seen.out
    assert secrets_in(given.root, seen) == []


TALKING = """
import os, sys
SECRETS = [os.environ["SERVICE_TOKEN"], os.environ["DB_PASSWORD"], "ghp_" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3"]
print("loaded with", *SECRETS)
print(*SECRETS, file=sys.stderr)
sys.stdout.writelines([f"{one}\\n" for one in SECRETS])

def pytest_configure(config):
    print("configured with", *SECRETS)

def pytest_collection_finish(session):
    print("collected with", *SECRETS)
"""


@pytest.mark.parametrize("capture", ["-s", "--capture=tee-sys", "--capture=sys"])
def test_what_a_conftest_prints_is_without_secrets(given: Project, capture: str) -> None:
    given.nsys("sys.exit(1)")
    given.write("conftest.py", TALKING)
    given.workload(
        f"{TALKING}\nfrom perfgate import workload\n@workload(steps=3)\ndef mlp(steps): ...\n"
    )
    seen = given.run("--perfgate", *OUTPUTS, "--junitxml=pytest.xml", capture)
    assert seen.status == 1
    assert capture != "-s" or "configured with" in seen.out
    assert secrets_in(given.root, seen) == []


def test_nor_does_a_conftest_that_cannot_be_loaded_show_them(given: Project) -> None:
    given.write("conftest.py", "import os\nraise OSError('no ' + os.environ['SERVICE_TOKEN'])\n")
    given.workload("from perfgate import workload\n@workload(steps=3)\ndef mlp(steps): ...\n")
    seen = given.run("--perfgate", *OUTPUTS)
    assert seen.status == 4
    assert "SERVICE_TOKEN" in seen.out + seen.err
    assert secrets_in(given.root, seen) == []


def test_a_page_shows_none_of_what_was_blessed_and_committed_before(given: Project) -> None:
    given.workload(LOOP)
    given.gpus()
    given.measures(records.run)
    old = given.baseline("loop")
    reason = f"with {PATTERN} and {PASSWORD}"
    given.bless(
        old.model_copy(update={"blessing": old.blessing.model_copy(update={"reason": reason})})
    )
    for words in (("init", "--quiet"), ("add", "-A"), ("commit", "--quiet", "-m", reason)):
        command = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words)
        subprocess.run(command, cwd=given.root, check=True)
    assert given.gate("--perfgate-html=g.html", "--perfgate-page-data=g.json").status == 0
    assert given.perfgate("page", "kept.html").status == 0
    for name in ("g.html", "g.json", "kept.html"):
        found = (given.root / name).read_text()
        assert "with [hidden: secret] and [hidden: DB_PASSWORD]" in found
        assert PATTERN not in found
        assert PASSWORD not in found


def test_the_reason_of_a_baseline_is_without_secrets(given: Project) -> None:
    file = given.workload(LOOP)
    given.gpus()
    given.measures(
        *records.runs(),
        code=[{"workloads/loops.py": hashlib.sha256(file.read_bytes()).hexdigest()}],
    )
    assert given.gate("--perfgate-runs=5").status == 1
    seen = given.perfgate("bless", "--reason", f"measured with {TOKEN} and {PATTERN}")
    assert seen.status == 0
    (baseline,) = (given.root / "baselines").rglob("*.json")
    assert "measured with" in baseline.read_text()
    assert secrets_in(given.root, seen) == []


def test_a_workload_named_by_a_secret_is_refused(given: Project) -> None:
    given.nsys("sys.exit(1)")
    given.workload(
        "import os, pytest\nfrom perfgate import workload\n"
        "@pytest.mark.parametrize('token', [os.environ['SERVICE_TOKEN']])\n"
        "@workload(steps=3)\ndef mlp(steps, token): ...\n"
    )
    seen = given.run("--perfgate", *OUTPUTS, "-v")
    assert seen.status != 0
    assert secrets_in(given.root, seen) == []


def test_what_nsys_says_of_itself_is_without_secrets(given: Project) -> None:
    given.nsys(
        "print('FATAL ERROR: cannot serve', os.environ['SERVICE_TOKEN'])\nsys.exit(1)".replace(
            "os.", "__import__('os')."
        )
    )
    given.workload("from perfgate import workload\n@workload(steps=3)\ndef mlp(steps): ...\n")
    seen = given.run("--perfgate", *OUTPUTS)
    assert seen.status == 1
    assert secrets_in(given.root, seen) == []


def test_values_that_any_text_holds_stay(given: Project) -> None:
    for name, value in {
        "ONE_TOKEN": "1",
        "A_PASSWORD": "true",
        "AWS_PROFILE": "default",
        "MY_KEY": "loop",
    }.items():
        given.patch.setenv(name, value)
    given.nsys("print('default true 1 loop')\nsys.exit(1)")
    given.workload("from perfgate import workload\n@workload(steps=3)\ndef loop(steps): ...\n")
    given.run("--perfgate", *OUTPUTS)
    (log,) = given.root.rglob("workload.log")
    assert log.read_text() == "default true 1 loop\n"
    shutil.rmtree(given.root / ".perfgate")
