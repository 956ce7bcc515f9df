"""`perfgate github bless` as its workflow runs it: by event and environment, in a checkout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import records
from support.jobs import Job
from support.promotion import RUN_URL, Scene, place
from support.rest import Answer, GitHub, primary_limit, zipped
from syrupy.assertion import SnapshotAssertion

from perfgate.github.bless import LONGEST_REASON, Wish, read_comment
from perfgate.github.kept import commit_message
from perfgate.model.baseline import Blessing, Commit
from perfgate.model.errors import BlessRefused, PackageMissing
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.record import LARGEST_RESULT

pytestmark = pytest.mark.behaviour

OTHER = "0123456789abcdef" * 2 + "01234567"
LATER = records.NOON + timedelta(hours=2)


def test_a_dispatch_commits_what_the_gate_has_kept_and_starts_the_next(job: Job) -> None:
    run = job.gated()
    seen = job.dispatched()
    made = job.hub.branches["faster"]
    assert (seen.status, seen.err) == (0, "")
    assert made in seen.out
    assert made in seen.summary
    baseline = job.scene.on_branch()
    assert baseline is not None
    assert baseline.values(Metric.STEP_MS) == (12.34, 12.31, 12.36, 12.33, 12.35)
    blessing = baseline.blessing
    assert (blessing.by, blessing.reason) == ("ada via GitHub", "fused the loss")
    assert blessing.commit is not None
    assert (blessing.commit.sha, blessing.commit.dirty) == (job.scene.head, False)
    assert blessing.run_url == f"{RUN_URL}/{run}"
    assert [one.workflow for one in job.hub.dispatched] == ["perfgate.yml"]
    assert job.hub.comments == {}


def test_what_was_blessed_and_what_was_refused_is_shown_whole(
    job: Job, snapshot: SnapshotAssertion
) -> None:
    job.scene.bless(job.scene.baseline(*[12.2] * 5, name="cnn"))
    job.scene.gate(job.scene.result(), job.scene.result(name="cnn"))
    assert job.dispatched(workload="lmp").wording == snapshot(name="refused")
    assert job.dispatched().wording == snapshot(name="blessed")


def test_a_maintainers_comment_does_the_same_and_is_answered(job: Job) -> None:
    number = job.pull()
    job.scene.gate(job.scene.result(), job.scene.result(name="cnn"))
    seen = job.commented("/perfgate bless mlp fused the loss\n\nThank you!", number)
    assert (seen.status, seen.err) == (0, "")
    (answer,) = job.hub.comments[number]
    assert answer["body"] == seen.summary
    assert job.scene.on_branch("mlp") is not None
    assert job.scene.on_branch("cnn") is None


@pytest.mark.parametrize("may", ["read", "none", "Admin"])
def test_a_comment_of_somebody_who_may_not_write_does_nothing_and_is_not_answered(
    job: Job, may: str
) -> None:
    number = job.pull()
    job.gated()
    job.hub.permissions["eve"] = may
    seen = job.commented("/perfgate bless mlp please", number, login="eve")
    assert (seen.code, seen.out, seen.summary) == ("bless-by-stranger", "", "")
    assert job.hub.lines == ["GET /collaborators/eve/permission"]


@pytest.mark.parametrize(
    ("kind", "more", "code"),
    [
        ("issue_comment", {"action": "edited"}, "bless-event-wanted"),
        ("issue_comment", {"issue": {"number": 1}}, "event-odd"),
        ("pull_request_target", {}, "bless-event-wanted"),
    ],
)
def test_no_other_event_asks(job: Job, kind: str, more: dict[str, object], code: str) -> None:
    seen = job.commented("/perfgate bless mlp why", job.pull(), event_name=kind, more=more)
    assert seen.code == code
    assert job.hub.asked == []


def test_a_refusal_is_shown_where_it_was_asked(job: Job) -> None:
    number = job.pull()
    job.scene.gate(
        job.scene.result(outcome=Outcome.REGRESSED, reason="h2d_copies rose\n::error::from 2 to 3")
    )
    seen = job.commented("/perfgate bless mlp why not", number)
    (answer,) = job.hub.comments[number]
    assert answer["body"] == seen.summary
    assert not [line for line in seen.err.splitlines() if line.startswith("::")]
    assert (seen.code, job.hub.branches["faster"]) == ("bless-loss", job.scene.head)


def test_a_comment_of_another_form_is_answered_with_the_form(job: Job) -> None:
    number = job.pull()
    assert job.commented("/perfgate bless mlp", number).code == "bless-command-odd"
    assert len(job.hub.comments[number]) == 1


@pytest.mark.parametrize("where", [{"head": "eve/loops"}, {"fork_gone": True}, {"state": "closed"}])
def test_a_fork_is_left_to_a_desk(job: Job, where: dict[str, object]) -> None:
    seen = job.commented("/perfgate bless mlp why", job.pull(**where))
    assert seen.code == "bless-branch-elsewhere"


@pytest.mark.parametrize("reason", ["", "a\nb", "x" * (LONGEST_REASON + 1)])
def test_a_dispatch_without_a_reason_is_refused(job: Job, reason: str) -> None:
    assert job.dispatched(reason).code == "bless-reason-odd"
    assert job.hub.asked == []


def test_a_push_between_the_comment_and_its_job_is_not_blessed(job: Job) -> None:
    number = job.pull()
    job.scene.gate(job.scene.result(), created_at=records.NOON + timedelta(minutes=20))
    seen = job.commented("/perfgate bless mlp why", number, minutes=10)
    assert seen.code == "commit-after-comment"
    assert job.hub.branches["faster"] == job.scene.head


def test_a_push_while_the_job_starts_leaves_the_branch_alone(job: Job) -> None:
    job.gated()
    env = job.dispatch()
    job.hub.commit({"model.py": "LAYERS = 9\n"}, branch="faster")
    moved = job.hub.branches["faster"]
    seen = job.run("bless", env)
    assert (seen.status, job.hub.branches["faster"]) == (37, moved)
    assert moved[:12] in seen.summary


def test_a_gate_that_cannot_be_started_is_an_error_next_to_the_commit(job: Job) -> None:
    job.gated()
    job.hub.workflows.clear()
    seen = job.dispatched()
    assert job.scene.on_branch() is not None
    assert seen.out.startswith("Committed ")
    assert seen.status == 35
    assert job.hub.branches["faster"] in seen.summary


def test_an_answer_that_cannot_be_posted_undoes_nothing(job: Job) -> None:
    number = job.pull()
    job.gated()
    job.hub.fail(r"POST /issues", primary_limit(3000))
    seen = job.commented("/perfgate bless mlp why", number)
    assert seen.out.startswith("Committed ")
    assert seen.status == 36
    assert job.scene.on_branch() is not None


def test_nothing_of_the_branch_is_run_by_the_whole_command(job: Job, tmp_path: Path) -> None:
    """As the workflow starts it: the installed script, in the folder of a branch that would like to
    be run."""
    ran = tmp_path / "ran"
    run_it = f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n"
    modules = (
        "perfgate",
        "click",
        "pydantic",
        "github",
        "sitecustomize",
        "usercustomize",
        "conftest",
        "_pytest",
    )
    job.scene.push(
        {f"{name}.py": run_it for name in modules}
        | {"pytest.ini": "[pytest]\naddopts = -p conftest\n", "workloads/conftest.py": run_it}
    )
    job.gated()
    script = Path(sys.executable).parent / "perfgate"
    done = subprocess.run(
        [script, "github", "bless"],
        cwd=job.scene.root,
        env={**job.scene.env, **job.dispatch()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not ran.exists()


@pytest.mark.parametrize("command", ["approval", "bless", "comment", "occasions"])
def test_without_pygithub_it_says_what_is_missing(command: str) -> None:
    program = "import sys; sys.modules['github'] = None; from perfgate.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "github", command],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == PackageMissing.exit_code
    assert "pip install" in done.stderr


# What is blessed


def test_a_named_workload_is_taken_on_all_machines(job: Job) -> None:
    run = job.scene.gate(job.scene.result(), job.scene.result(name="cnn"))
    job.scene.keep(run, job.scene.result(on=records.machine("NVIDIA L4")), artifact="kept-l4")
    job.hub.artifact(run, "perfgate", zipped({"perfgate.json": "{}"}))
    assert job.dispatched(workload="lmp").code == "kept-without-workload"
    assert job.dispatched(workload="mlp").code is None
    assert blessed(job) == {"nvidia-h200/mlp", "nvidia-l4/mlp"}


def blessed(job: Job) -> set[str]:
    paths = (Path(path) for path in job.hub.content("faster") if path.startswith("baselines/"))
    return {f"{path.parent.name}/{path.stem}" for path in paths}


def test_a_loss_is_blessed_only_when_it_is_called_one(job: Job) -> None:
    job.scene.bless(job.scene.baseline())
    job.scene.gate(job.scene.result(*[14.0] * 5, outcome=Outcome.REGRESSED))
    assert job.dispatched().status == 22
    assert job.dispatched(accept="true").status == 0


def test_one_refusal_leaves_all_baselines_as_they_are(job: Job) -> None:
    job.scene.gate(job.scene.result(), job.scene.result(name="cnn", code={"model.py": "0" * 64}))
    assert job.dispatched().code == "bless-stale"
    assert blessed(job) == set()


def test_hostile_words_are_only_text(job: Job) -> None:
    evil = "<img src=x> [x](https://evil.example) @octocat | closes #1"
    job.gated()
    refused = job.dispatched(evil, workload=evil)
    done = job.dispatched(evil)
    assert (refused.code, done.code) == ("kept-without-workload", None)
    for text in (refused.summary, done.summary):
        assert not any(part in text for part in ("<img", "](https://evil", "@octocat", "#1"))


# Whose results


def newest(job: Job) -> float:
    """The first step time of what is blessed."""
    assert job.dispatched().code is None
    baseline = job.scene.on_branch()
    assert baseline is not None
    return baseline.values(Metric.STEP_MS)[0]


def test_the_newest_finished_gate_of_the_repository_itself_counts(job: Job) -> None:
    scene = job.scene
    scene.gate(scene.result(*[13.0] * 5))
    scene.gate(scene.result(), created_at=LATER)
    scene.gate(created_at=LATER, conclusion="skipped")
    scene.gate(scene.result(14.0), created_at=LATER + timedelta(hours=1), conclusion="cancelled")
    scene.gate(created_at=LATER + timedelta(hours=2), status="in_progress", conclusion=None)
    theirs = scene.hub.run(
        head_sha=scene.head, head_branch=scene.branch, created_at=LATER, fork="eve/loops"
    )
    scene.keep(theirs, scene.result(*[9.0] * 5, at=LATER))
    assert newest(job) == 12.34


@pytest.mark.parametrize("label_later", [True, False])
def test_a_gate_that_a_label_started_is_one_of_the_branch(job: Job, label_later: bool) -> None:
    job.scene.gate(job.scene.result(*[12.3] * 5))
    labelled = job.hub.run(
        head_sha=job.scene.head,
        head_branch=job.scene.branch,
        workflow="perfgate-approved.yml",
        created_at=LATER if label_later else records.NOON - timedelta(hours=1),
    )
    job.scene.keep(labelled, job.scene.result(*[9.0] * 5))
    assert newest(job) == (9.0 if label_later else 12.3)


def test_where_github_does_not_answer_about_gates_nothing_is_blessed(job: Job) -> None:
    job.gated()
    bad = Answer(502, {"message": "Bad Gateway"})
    job.hub.fail("GET /actions/runs", bad, times=99)
    assert job.dispatched().code == "github-unreachable"


def test_of_one_name_the_newest_artifact_counts(job: Job) -> None:
    run = job.scene.gate(job.scene.result(*[13.0] * 5))
    job.scene.keep(run, job.scene.result())
    assert newest(job) == 12.34


def test_a_gate_that_kept_nothing_of_this_commit_is_no_result(job: Job) -> None:
    scene = job.scene
    scene.gate(scene.result())
    scene.push({"model.py": "LAYERS = 4\n"})
    scene.gate(status="in_progress", conclusion=None)
    assert job.dispatched().code == "gate-never-ended"
    run = scene.gate()
    assert job.dispatched().code == "kept-nothing"
    scene.keep(run, scene.result())
    job.hub.artifacts[run][0]["expired"] = True
    assert job.dispatched().code == "kept-nothing"


@pytest.mark.parametrize("commit", [Commit(sha=OTHER), None, "dirty"])
def test_a_result_of_anything_but_the_commit_is_refused(
    job: Job, commit: Commit | str | None
) -> None:
    of = Commit(sha=job.scene.head, dirty=True) if commit == "dirty" else commit
    job.scene.gate(job.scene.result().model_copy(update={"commit": of}))
    assert job.dispatched().code == "kept-of-another-commit"


@pytest.mark.parametrize("raw", [b" " * (LARGEST_RESULT + 1), b"{}", b"\xff"])
def test_a_result_is_read_up_to_a_limit_and_only_if_it_is_one(job: Job, raw: bytes) -> None:
    run = job.scene.gate()
    job.hub.artifact(run, "kept-a", zipped({place(job.scene.result()): raw}))
    assert job.dispatched().status == 21


def test_the_checkout_has_to_be_the_commit_unchanged(job: Job) -> None:
    job.gated()
    job.scene.write({"model.py": "LAYERS = 9\n"})
    assert job.dispatched().code == "checkout-elsewhere"


def test_a_project_below_the_top_is_committed_there(
    hub: GitHub, job_of: Callable[[Scene], Job], tmp_path: Path
) -> None:
    job = job_of(Scene(tmp_path / "monorepo", hub, within="services/train"))
    job.gated()
    assert job.dispatched().code is None
    assert "services/train/baselines/nvidia-h200/mlp.json" in job.hub.content("faster")


# The words


@pytest.mark.parametrize(
    ("comment", "workload", "reason", "accept"),
    [
        ("/perfgate bless mlp fused the loss", "mlp", "fused the loss", False),
        ("/perfgate bless\tmlp  a   b \r\n\r\nThank you!", "mlp", "a b", False),
        ("/perfgate bless `mlp[a b]` why", "mlp[a b]", "why", False),
        ("/perfgate bless --accept-regression mlp why", "mlp", "why", True),
        ("/perfgate bless mlp meant --accept-regression so", "mlp", "meant so", True),
        ("/perfgate bless mlp why -- really", "mlp", "why -- really", False),
    ],
)
def test_a_comment_names_its_workload_and_its_reason(
    comment: str, workload: str, reason: str, accept: bool
) -> None:
    wish = Wish(workload=workload, reason=reason, accept_regression=accept)
    assert read_comment(comment) == wish


@pytest.mark.parametrize(
    "comment",
    [
        *("", "please /perfgate bless mlp why", "\n/perfgate bless mlp why"),
        *("/perfgate blessmlp x", "/perfgate bless", "/perfgate bless mlp"),
        *("/perfgate bless `mlp why", "/perfgate bless mlp --accept-regression"),
        *("/perfgate bless --accept-regression mlp", "/perfgate bless --allow-ci mlp why"),
        *("/perfgate bless -x why", "/perfgate bless mlp a\x1bb", "/perfgate bless mlp a\u202eb"),
        f"/perfgate bless mlp {'x' * (LONGEST_REASON + 1)}",
    ],
)
def test_what_is_no_such_command_is_refused(comment: str) -> None:
    with pytest.raises(BlessRefused) as caught:
        read_comment(comment)
    assert not {"\x1b", "\u202e"} & set(str(caught.value))


def message(*workloads: str, reason: str = "why") -> str:
    by = {"by": "ada via GitHub", "run_url": f"{RUN_URL}/7"}
    return commit_message(workloads, Blessing(at=records.NOON, reason=reason, **by))


def test_many_workloads_are_counted_and_a_long_name_is_cut() -> None:
    many = [f"workload-{n}" for n in range(20)]
    assert message(*many).splitlines()[0] == "bless: 20 workloads"
    assert message("mlp").splitlines()[0] == "bless: mlp"
    assert len(message("x" * 99).splitlines()[0]) <= 72


@given(st.text(min_size=1, max_size=300).filter(lambda text: text.strip() and text.isprintable()))
def test_whatever_the_words_there_are_three_paragraphs_and_our_trailers(reason: str) -> None:
    subject, said, trailers = message("mlp", reason=reason).rstrip("\n").split("\n\n")
    assert (subject, said[0], said[-1]) == ("bless: mlp", '"', '"')
    assert len(said.splitlines()) == 1
    assert [line.partition(": ")[0] for line in trailers.splitlines()] == [
        "Perfgate-Run",
        "Blessed-by",
    ]
