"""The comment on a pull request: of the right run, once, and nothing but text of what a stranger
uploaded."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from github.Artifact import Artifact
from github.PullRequest import PullRequest
from github.Repository import Repository
from github.WorkflowRun import WorkflowRun
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support import records
from support.rest import BOT, NOON, Answer, GitHub, finished_run, zipped
from syrupy.assertion import SnapshotAssertion

from perfgate.github import api
from perfgate.github.artifacts import read_untrusted
from perfgate.github.comment import RunToShow, body_of, comment, judges
from perfgate.model.baseline import Commit
from perfgate.model.diagnosis import Advice, Topic
from perfgate.model.document import DocumentWorkload, GateDocument
from perfgate.model.document_text import document_text
from perfgate.model.errors import ActionsContextMissing, ArtifactUnreadable, GitHubRefused
from perfgate.model.metric import Metric
from perfgate.model.note import quoted
from perfgate.model.outcome import Outcome
from perfgate.model.record import LARGEST_DOCUMENT
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict

SHA, OTHER = "a" * 40, "b" * 40
RUN = 700


def document(*verdicts: Verdict, opens: bool | None = None, **more: object) -> GateDocument:
    """A gate of these verdicts for the pull request's commit, open where each of them is PASSED."""
    judged = [
        DocumentWorkload(verdict=one, opens_gate=one.outcome is Outcome.PASSED)
        for one in verdicts or (records.verdict(),)
    ]
    commit = Commit(sha=SHA, branch="faster")
    return records.document(*judged, opens=opens, **{"commit": commit, **more})


class Desk:
    """A pull request whose run has finished, and the command at work on it."""

    def __init__(self, hub: GitHub, repository: Repository, folder: Path) -> None:
        self.hub = hub
        self.repository = repository
        self.folder = folder
        self.number = hub.pull(branch="faster", sha=SHA)

    def env(self, about: Mapping[str, object], event_name: str = "workflow_run") -> dict[str, str]:
        url = self.hub.url(f"/actions/runs/{about.get('run', RUN)}/artifacts")
        made = finished_run(url, **about)  # type: ignore[arg-type]
        return self.hub.env_of(event_name, made, self.folder)

    def uploads(self, found: GateDocument, *, run: int = RUN) -> None:
        """The run leaves an artifact with a document."""
        members = {"perfgate.json": document_text(found), "perfgate.html": "<h1>page</h1>"}
        self.hub.artifact(run, "perfgate", members)

    def comments(self, **about: object) -> list[str]:
        """What the command did for the run of an event, as codes."""
        self.hub.artifacts.setdefault(int(str(about.get("run", RUN))), [])
        done = comment(self.repository, self.env(about), settings=Settings())
        return [one.code for one in done]

    def bodies(self, number: int | None = None) -> list[str]:
        """The comments of ours."""
        rows = self.hub.comments[number or self.number]
        authors = (one["user"] and one["user"]["login"] for one in rows)  # type: ignore[index]
        return [str(one["body"]) for one, by in zip(rows, authors, strict=True) if by == BOT]

    @property
    def body(self) -> str:
        """The one comment of ours."""
        (body,) = self.bodies()
        return body


@pytest.fixture
def desk(hub: GitHub, repository: Repository, tmp_path: Path) -> Desk:
    return Desk(hub, repository, tmp_path)


@pytest.fixture
def fork(desk: Desk) -> int:
    """The number of a fork's pull request."""
    return desk.hub.pull(branch="faster", sha=SHA, head="eve/loops")


def mark(*, run: int = RUN, attempt: int = 1, result: str = "yes") -> str:
    return f"<!-- perfgate run={run} attempt={attempt} commit={SHA} result={result} -->"


# What is said


def test_a_result_is_shown_with_its_page_its_commit_and_its_run(desk: Desk) -> None:
    desk.uploads(document())
    assert desk.comments() == ["comment-created"]
    artifact = desk.hub.artifacts[RUN][0]["id"]
    here = "https://github.example/octo/loops"
    assert desk.body.startswith(f"{mark()}\n## perfgate: gate \u2705 open\n")
    for link in (
        f"{here}/actions/runs/{RUN}/artifacts/{artifact}",
        f"{here}/pull/{desk.number}/commits/{SHA}",
        f"{here}/actions/runs/{RUN}/attempts/1",
    ):
        assert f"]({link})" in desk.body


def test_what_is_said_of_a_result_and_of_none_is_shown_whole(
    desk: Desk, fork: int, snapshot: SnapshotAssertion
) -> None:
    desk.uploads(document(commit=Commit(sha=SHA, dirty=True)))
    desk.hub.change(desk.number, "baselines/h200/mlp.json")
    desk.comments(conclusion="failure")
    assert desk.body == snapshot(name="result")
    desk.hub.pulls[fork]["labels"] = [{"name": "perfgate-approved"}]
    desk.comments(run=RUN + 1, head="eve/loops", conclusion="failure")
    assert desk.bodies(fork) == snapshot(name="a fork waits")


def test_the_newest_of_several_attempts_is_shown(desk: Desk) -> None:
    desk.uploads(document(records.verdict(Outcome.REGRESSED)))
    desk.uploads(document())
    desk.comments(attempt=2)
    assert "## perfgate: gate \u2705 open" in desk.body


@pytest.mark.behaviour
def test_a_comment_holds_no_secret_of_a_document(desk: Desk) -> None:
    token = "ghp_" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3"
    desk.uploads(document(opens=False, shut_by=(f"mlp: no access with {token}",), label=token))
    desk.comments()
    assert "no access with" in desk.body
    assert token not in desk.body.replace("\\", "").replace("\u200b", "")


def test_what_was_measured_otherwise_than_it_seems_has_a_line_more(desk: Desk) -> None:
    desk.uploads(document())
    desk.comments()
    plain = desk.body.count("\n")
    packed = {"perfgate.json": document_text(document(commit=Commit(sha=SHA, dirty=True)))}
    desk.hub.artifact(RUN + 1, "perfgate", packed, created_at=NOON - timedelta(hours=3))
    desk.comments(run=RUN + 1, attempt=2, conclusion="cancelled")
    assert desk.body.count("\n") == plain + 3  # dirty, of an earlier attempt, of a run that failed


@pytest.mark.parametrize("conclusion", ["cancelled", "failure", "timed_out"])
def test_a_run_without_an_artifact_has_no_result(desk: Desk, conclusion: str) -> None:
    desk.hub.artifact(RUN, "another", {"perfgate.json": document_text(document())})
    desk.comments(conclusion=conclusion)
    assert desk.body.startswith(f"{mark()}\n## perfgate: no result\n")
    assert desk.hub.fetched == []


@pytest.mark.parametrize(
    ("about", "artifact", "waits"),
    [
        ({"conclusion": "failure"}, None, True),
        ({"conclusion": "action_required"}, None, True),
        ({"conclusion": "failure", "workflow": "perfgate-approved.yml"}, None, False),
        ({"conclusion": "cancelled"}, None, False),
        ({"conclusion": "success"}, None, False),
        ({"conclusion": "failure"}, "kept-perfgate-h200-1", False),
    ],
)
def test_a_fork_of_which_no_gate_ran_waits_for_a_maintainer(
    desk: Desk,
    fork: int,
    about: Mapping[str, str],
    artifact: str | None,
    waits: bool,
) -> None:
    if artifact is not None:
        desk.hub.artifact(RUN, artifact, b"x")
    desk.comments(head="eve/loops", **about)
    (body,) = desk.bodies(fork)
    assert body.startswith(mark())
    assert ("perfgate-approved" in body) is waits


# Which pull request


@pytest.mark.parametrize(
    "about",
    [
        *({"sha": OTHER}, {"branch": "main"}, {"branch": None}, {"head": None}),
        *({"head": "eve/loops"}, {"head": "octo/other"}, {"conclusion": "skipped"}),
    ],
)
def test_a_run_that_is_of_no_open_pull_request_is_nothing_to_comment_on(
    desk: Desk, about: Mapping[str, object]
) -> None:
    desk.uploads(document())
    desk.hub.pull(branch="faster", sha=SHA, state="closed")
    assert desk.comments(**about) == []
    assert (desk.hub.changes, desk.hub.fetched) == ([], [])


def test_the_artifact_does_not_say_where_it_is_shown(desk: Desk) -> None:
    """Its commit names another pull request: it is shown at none, and only where the event says."""
    other = desk.hub.pull(branch="victim", sha=OTHER)
    desk.uploads(document(commit=Commit(sha=OTHER, branch="victim")))
    desk.comments()
    assert desk.hub.comments[other] == []
    assert "## perfgate: no result\n" in desk.body


def test_two_pull_requests_of_one_head_have_a_comment_each(desk: Desk) -> None:
    second = desk.hub.pull(branch="faster", sha=SHA, base="stable")
    desk.uploads(document())
    assert desk.comments() == ["comment-created"] * 2
    assert f"/pull/{second}/commits/" in desk.bodies(second)[0]


def test_another_event_is_refused(desk: Desk) -> None:
    with pytest.raises(ActionsContextMissing):
        comment(desk.repository, desk.env({}, "pull_request"), settings=Settings())


# One comment, edited in place


def test_the_oldest_of_ours_among_hundreds_is_edited(desk: Desk) -> None:
    for n in range(230):
        desk.hub.comment(desk.number, f"comment {n}", author="eve")
    ours = desk.hub.comment(desk.number, mark(run=1))
    desk.hub.comment(desk.number, mark(run=2))
    desk.uploads(document())
    assert desk.comments() == ["comment-edited"]
    assert desk.hub.changes == [f"PATCH /issues/comments/{ours}"]
    assert [body.startswith(mark()) for body in desk.bodies()] == [True, False]


@pytest.mark.parametrize(
    ("author", "body"),
    [
        *((author, mark(run=9999)) for author in ("eve", "github-actions", None)),
        *((BOT, body) for body in (f"> {mark(run=9999)}", f"quoted:\n{mark(run=9999)}")),
        *((BOT, body) for body in ("<!-- perfgate -->", "<!-- perfgate run=9999 attempt=1 -->")),
    ],
)
def test_a_comment_that_only_looks_like_ours_is_left_alone(
    desk: Desk, author: str | None, body: str
) -> None:
    desk.hub.comment(desk.number, body, author=author)
    desk.uploads(document())
    assert desk.comments() == ["comment-created"]
    assert desk.hub.comments[desk.number][0]["body"] == body


@pytest.mark.parametrize(
    ("there", "code"),
    [
        (mark(run=RUN - 1), "comment-edited"),
        (mark(run=RUN - 1, result="not-run"), "comment-edited"),  # as older perfgates wrote it
        (mark(), "comment-edited"),
        (mark(run=RUN + 1), "comment-left"),
        (mark(attempt=2), "comment-left"),
    ],
)
@pytest.mark.parametrize("conclusion", ["failure", "action_required"])
def test_a_run_takes_the_place_of_what_is_older(
    desk: Desk, there: str, code: str, conclusion: str
) -> None:
    desk.hub.comment(desk.number, f"{there}\nbefore")
    assert desk.comments(conclusion=conclusion) == [code]
    assert desk.body.startswith(mark() if code == "comment-edited" else there)


@pytest.mark.parametrize("line", ["GET /pulls", "GET /actions", "GET /issues"])
def test_a_request_that_fails_is_an_error(desk: Desk, line: str) -> None:
    desk.uploads(document())
    desk.hub.fail(line, Answer(404, {"message": "Not Found"}))
    with pytest.raises(GitHubRefused):
        desk.comments()
    assert desk.bodies() == []


# What is not trusted


def packed(text: str | bytes) -> bytes:
    return zipped({"perfgate.json": text})


def distrusted(content: bytes) -> str:
    with pytest.raises(ArtifactUnreadable) as caught:
        read_untrusted(content, SHA, artifact="perfgate")
    assert "\n" not in caught.value.fact
    return caught.value.code


def changed(**changes: object) -> bytes:
    return packed(json.dumps(json.loads(document_text(document())) | changes))


def nested(depth: int) -> str:
    return '{"workloads": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "artifact-broken"),
        (zipped({"a/perfgate.json": "x"}), "document-malformed"),
        (zipped({"perfgate.json": b"0" * (LARGEST_DOCUMENT + 1)}), "artifact-too-large"),
        (changed(commit=None), "document-of-another-commit"),
        (changed(commit={"sha": OTHER}), "document-of-another-commit"),
        (changed(commit={"sha": SHA[:12]}), "document-malformed"),
        *((packed(text), "document-malformed") for text in ("", "null", "[]", "{", "\xff")),
        *((packed(nested(depth)), "document-malformed") for depth in (300, 100_000)),
        (packed('{"format": 1, "format": 2}'), "document-malformed"),
    ],
    ids=lambda one: str(one)[:30] if isinstance(one, str) else "",
)
def test_a_result_that_cannot_be_trusted_is_refused(content: bytes, code: str) -> None:
    assert distrusted(content) == code


@given(st.data())
@settings(max_examples=100)
def test_whatever_is_changed_in_a_document_it_is_refused_or_shown(data: st.DataObject) -> None:
    """One value somewhere becomes another; what the schema refuses is never taken."""
    whole = json.loads(
        document_text(document(records.verdict(Outcome.REGRESSED, metrics=records.SLOWER)))
    )
    holder: dict[str, object] | list[object] = whole
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = data.draw(st.sampled_from(keys))
        inner = holder[key]  # type: ignore[call-overload, index]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        holder = inner
    leaf = st.none() | st.booleans() | st.integers() | st.text()
    holder[key] = data.draw(leaf | st.lists(leaf, max_size=3))  # type: ignore[call-overload, index]
    try:
        taken = read_untrusted(packed(json.dumps(whole)), SHA, artifact="perfgate")
    except ArtifactUnreadable as error:
        assert "\n" not in error.fact  # noqa: PT017 - either is right
    else:
        assert shown(taken)


# Hostile text

HOSTILE = [
    "@octocat and @octo/maintainers, please approve",
    "closes #1, GH-1, octo/loops#2, octo/loops@0123456789abcdef0123456789abcdef01234567",
    "mail eve@evil.example or mailto:eve@evil.example or xmpp:eve@evil.example",
    "<script>alert(1)</script><img src=x onerror=alert(1)><a href=https://evil.example>x</a>",
    "<details><summary>x</summary>",
    "</code></td></tr></table><h1>gate open</h1>",
    "[click](https://evil.example) [x][y] <https://evil.example>",
    "[y]: https://evil.example",
    "![x](https://evil.example/x.png)",
    "https://evil.example www.evil.example ftp://evil.example HTTP://EVIL.example",
    "``` \n# heading\n- item\n> quote\n| a | b |\n|---|---|\n---\n===\n1. one",
    "a | b \\| c `d` ``e`` ~~~",
    "*bold* __bold__ ~~struck~~ $x$ $$y$$",
    "::error file=x::evil\n::add-mask::x\n##[error]evil\n::stop-commands::x",
    "<!-- perfgate run=99999999 attempt=9 commit=" + OTHER + " result=yes -->",
    "--> <!-- perfgate -->",
    "\x1b[2J\u202eevil\u2066x\x00\u200d\ufeff",
    "\\`\\[\\\\",
    "&lt;b&gt; &amp; &#60;img&#62; &commat;octocat",
    "\u2028::error::x\u0085::error::y\x0b::error::z",
    "> [!WARNING]\n> x",
    ":tada: :octocat:",
    "x" * 99_999,
    "\U0001f600" * 40_000,
]


def everywhere(text: str) -> GateDocument:
    """A document that is valid and has a text wherever there may be one."""
    verdict = records.verdict(
        Outcome.REGRESSED,
        name=text,
        reason=text,
        next_step=text,
        metrics=[row.model_copy(update={"reason": text}) for row in records.SLOWER],
        where={Metric.STEP_MS: text},
        information=(text,) * 3,
    )
    advice = Advice(topic=Topic.LOADER, range=text, what=quoted(text))
    verdict = verdict.model_copy(update={"rank_notes": (quoted(text),), "advice": (advice,)})
    workload = DocumentWorkload(
        verdict=verdict,
        opens_gate=False,
        baseline=text,
        files=text,
        source=text,
        line=1,
        gate=text,
        machine=records.machine(text),
    )
    other = workload.model_copy(update={"machine": records.machine("NVIDIA H100")})
    return document(opens=False).model_copy(
        update={
            "perfgate": text,
            "shut_by": (text, text),
            "label": text,
            "information": (text,),
            "commit": Commit(sha=SHA, branch=text),
            "workloads": (workload, other, other),
        }
    )


def shown(found: GateDocument, *touched: str) -> str:
    """The comment of a document."""
    env = {
        "GITHUB_REPOSITORY": "octo/loops",
        "GITHUB_API_URL": "https://api.github.example",
        "GITHUB_TOKEN": "x",
    }
    asks = api.connect(env).requester
    ours = {"full_name": "octo/loops"}
    sides = {"head": {"sha": SHA, "repo": ours}, "base": {"sha": OTHER, "repo": ours}}
    page = "https://github.example/octo/loops/pull/7"
    pull = PullRequest(asks, {}, {"number": 7, "html_url": page, **sides}, completed=True)
    sent = cast("dict[str, object]", finished_run()["workflow_run"])
    run = WorkflowRun(asks, {}, sent, completed=True)
    artifact = Artifact(asks, {}, {"id": 8, "created_at": "2026-03-02T12:00:00Z"})
    made = RunToShow(document=found, artifact=artifact)
    return f"{mark()}\n{body_of(run, pull, made, ([*touched], not touched), None)}"


def rendered(markdown: str) -> str:
    """As GitHub shows it: tables, bare addresses as links, HTML let through."""
    return str(
        MarkdownIt("commonmark", {"html": True, "linkify": True})
        .enable(["table", "strikethrough", "linkify"])
        .render(markdown)
    )


OURS = re.compile(
    r"https://github\.example/octo/loops/"
    r"(?:actions/runs/700/artifacts/8|actions/runs/700/attempts/1|pull/7/commits/a{40})"
)


def is_only_text(body: str) -> None:
    """Nothing in a comment but our hidden line, headings, tables, lists, code and three links."""
    page = rendered(body)
    assert page.startswith(f"{mark()}\n")
    assert page.count("<!--") == page.count("-->") == 1
    shown = page.removeprefix(mark())
    tags = set(re.findall(r"<\s*/?\s*([a-zA-Z!?][^\s/>]*)", shown))
    assert tags <= {
        *("h2", "h3", "p", "ul", "li", "strong", "code", "hr", "a"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    links = re.findall(r'<a href="([^"]*)"', shown)
    assert len(links) <= 3
    assert all(OURS.fullmatch(link) for link in links), links
    assert "<img" not in shown
    assert shown.count("<h2>") == 1
    outside = re.sub(r"<a href=[^>]*>.*?</a>", "", shown, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<code>.*?</code>", "", outside, flags=re.DOTALL))
    assert not re.search(r"@[a-zA-Z]|#\d|\w://\w|www\.|GH-\d", text)
    assert not any(
        re.match(r"\s*(::|##\[)", line)
        for line in re.split(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]", body)
    )
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]", body
    )
    assert len(body.encode("utf-16-le")) // 2 <= 65_536


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str) -> None:
    content = packed(document_text(everywhere(text)))
    is_only_text(shown(read_untrusted(content, SHA, artifact="perfgate")))


@given(st.text(max_size=300))
@settings(max_examples=50)
def test_any_text_is_only_text(text: str) -> None:
    is_only_text(shown(everywhere(text), f"baselines/{text}"))


def test_many_long_texts_still_fit_a_comment() -> None:
    long = "\U0001f600[x](y)@z " * 100
    verdicts = [
        records.verdict(Outcome.REGRESSED, name=f"{n}{long}", reason=long, information=(long,) * 9)
        for n in range(300)
    ]
    whole = document(*verdicts, opens=False, shut_by=(long,) * 900, information=(long,) * 900)
    is_only_text(shown(whole, *(f"baselines/{n}{long}" for n in range(300))))


@pytest.mark.parametrize("text", HOSTILE[:16])
def test_a_hostile_reason_for_having_no_result_is_only_text(text: str, desk: Desk) -> None:
    desk.hub.artifact(RUN, "perfgate", zipped({"perfgate.json": json.dumps({text: 1})}))
    desk.comments()
    page = rendered(desk.body)
    assert page.count("<!--") == 1
    assert set(re.findall(r"<(\w+)", page)) <= {"h2", "p", "a", "code"}
    assert len(re.findall(r"<a href", page)) == 2
    assert not any(line.startswith(("::", "##[")) for line in desk.body.splitlines())


# What of the pull request judges it


def test_a_path_belongs_to_what_judges_by_its_file_or_a_folder_above_it() -> None:
    those = (
        *("pyproject.toml", ".pytest.ini", "tox.ini", "setup.cfg", "sub/project/pyproject.toml"),
        *("conftest.py", "workloads/conftest.py", "a/ConfTest.py", "workloads/mlp.py"),
        *("baselines/h200/mlp.json", "Baselines/x", "baselines", "sub/project/baselines/mlp.json"),
        *("a/../workloads/x", ".github/workflows/perfgate.yml", ".github/x"),
    )
    others = ("src/model.py", "my_baselines/x.json", "baselines.json", "pyproject.toml/x")
    assert [path for path in (*those, *others) if judges(path, Settings())] == [*those]


def test_what_judges_is_named_whether_there_is_a_result_or_not(desk: Desk, fork: int) -> None:
    for number in (desk.number, fork):
        desk.hub.change(number, "src/model.py")
        desk.hub.change(number, "workloads/new.py", previous="baselines/old.py", status="renamed")
        desk.hub.change(number, "conftest.py", previous="workloads/seen.py", status="copied")
    desk.uploads(document())
    desk.comments()
    desk.comments(run=RUN + 1, head="eve/loops", conclusion="failure")
    for body in (desk.body, *desk.bodies(fork)):
        names = re.findall(r"`([a-z/]+\.py)`", body)
        assert names == ["baselines/old.py", "conftest.py", "workloads/new.py"]


@pytest.mark.parametrize(("files", "are_all"), [(250, True), (3000, False)])
def test_files_are_counted_over_all_pages_and_ten_named(
    desk: Desk, files: int, are_all: bool
) -> None:
    for n in range(files):
        desk.hub.change(desk.number, f"baselines/{n:04}.json", status="removed")
    desk.comments()
    assert len(re.findall(r"`baselines/\d+\.json`", desk.body)) == 10
    assert f"{files} files" in desk.body
    assert ("lists only 3000" in desk.body) is not are_all
