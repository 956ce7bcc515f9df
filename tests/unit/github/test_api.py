"""What perfgate asks of GitHub and does there, against a server that answers as GitHub does."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from support.rest import (
    BOT,
    NOON,
    TOKEN,
    Answer,
    Dispatch,
    GitHub,
    primary_limit,
    secondary_limit,
)

from perfgate.github.api import MOST_CHANGED_FILES, Artifact, ChangedFile, PullRequest, Repository
from perfgate.github.asking import Patience
from perfgate.github.context import Context
from perfgate.model.errors import (
    ArtifactUnreadable,
    BranchMoved,
    GitHubRefused,
    GitHubUnreachable,
    PackageMissing,
    PerfgateError,
)

A, B = "a" * 40, "b" * 40
BROKEN = Answer(502, b"<html>Unicorn</html>", {"Content-Type": "text/html"})
LATER = "Run the job again; https://www.githubstatus.com/ tells of failures."


def message_of(error: type[PerfgateError], act: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


# Pull requests


def test_the_pull_request_of_a_commit_is_found_by_owner_branch_and_commit(
    hub: GitHub, repository: Repository
) -> None:
    hub.pull(branch="faster", sha=B, head="eve/loops")
    wanted = hub.pull(branch="faster", sha=A, head="eve/loops")
    hub.pull(branch="faster", sha=A, head="mallory/loops")
    hub.pull(branch="faster", sha=A, head="eve/loops", state="closed")
    found = repository.pull_requests(head_owner="eve", head_branch="faster", head_sha=A)
    assert found == (
        PullRequest(
            number=wanted,
            open=True,
            title="Faster",
            url=f"https://github.example/octo/loops/pull/{wanted}",
            author="eve",
            head_sha=A,
            head_branch="faster",
            head_repository="eve/loops",
            base_branch="main",
            base_repository="octo/loops",
            base_sha="b" * 40,
        ),
    )
    assert found[0].from_fork
    assert hub.asked[0].query == {"head": "eve:faster", "per_page": "100", "state": "open"}


def test_a_filter_that_github_does_not_understand_finds_nothing(
    hub: GitHub, repository: Repository
) -> None:
    hub.pull(branch="faster", sha=A)
    hub.fail("GET /pulls", Answer(200, list(hub.pulls.values())))
    assert repository.pull_requests(head_owner="", head_branch="faster", head_sha=A) == ()


def test_a_pull_request_of_a_fork_and_an_account_that_are_gone_is_one(
    hub: GitHub, repository: Repository
) -> None:
    found = repository.pull_request(
        hub.pull(head="eve/loops", author=None, fork_gone=True, state="closed")
    )
    assert (found.author, found.head_repository, found.open, found.from_fork) == (
        None,
        None,
        False,
        True,
    )


def test_the_pull_request_of_an_own_branch_is_not_that_of_a_fork(
    hub: GitHub, repository: Repository
) -> None:
    hub.pull(branch="perfgate/occasions", head="octo/other")
    assert repository.find_pull_request("perfgate/occasions") is None
    own = hub.pull(branch="perfgate/occasions")
    hub.pull(branch="perfgate/occasions")
    found = repository.find_pull_request("perfgate/occasions")
    assert found is not None
    assert found.number == own


def test_a_pull_request_is_opened_and_edited(hub: GitHub, repository: Repository) -> None:
    hub.commit({"a": "1"}, branch="main")
    hub.branches["new"] = hub.branches["main"]
    hub.commit({"a": "2"}, branch="new")
    made = repository.open_pull_request(
        head_branch="new", base_branch="main", title="New", body="Why"
    )
    assert (hub.pulls[made.number]["title"], hub.pulls[made.number]["body"]) == ("New", "Why")
    assert repository.edit_pull_request(made.number, title="Newer", body="Because").title == "Newer"
    assert hub.pulls[made.number]["body"] == "Because"


def test_what_github_finds_wrong_with_a_pull_request_is_told(
    hub: GitHub, repository: Repository
) -> None:
    hub.commit({"a": "1"}, branch="main")
    hub.branches["new"] = hub.branches["main"]
    setting = (
        "And in the repository's settings, under Actions, General: \"Allow GitHub Actions to create and approve "
        'pull requests".'
    )

    def act() -> PullRequest:
        return repository.open_pull_request(
            head_branch="new", base_branch="main", title="New", body="Why"
        )

    assert message_of(GitHubRefused, act) == (
        'opening a pull request from "new": GitHub answered 422: Validation Failed: No commits between main and new.\n'
        f"{setting}"
    )
    hub.may_open_pull_requests = False
    assert message_of(GitHubRefused, act) == (
        'opening a pull request from "new": GitHub answered 403: GitHub Actions is not permitted to create or approve '
        "pull requests. The token needs pull-requests: write.\n"
        f"Give it to the job, in its workflow: permissions: {{pull-requests: write}} {setting}"
    )


# The files of a pull request


def test_hundreds_of_changed_files_are_read_page_after_page(
    hub: GitHub, repository: Repository
) -> None:
    number = hub.pull()
    for n in range(249):
        hub.change(number, f"src/{n}.py", status="added")
    hub.change(number, "old/mlp.json", status="renamed", previous="baselines/mlp.json")
    found = repository.changed_files(number)
    assert [one.path for one in found] == [*(f"src/{n}.py" for n in range(249)), "old/mlp.json"]
    assert found[0] == ChangedFile(path="src/0.py", previous_path=None, status="added")
    assert found[249] == ChangedFile(
        path="old/mlp.json", previous_path="baselines/mlp.json", status="renamed"
    )
    assert hub.lines == [f"GET /pulls/{number}/files"] * 3
    assert [asked.query.get("page", "1") for asked in hub.asked] == ["1", "2", "3"]


def test_no_more_changed_files_are_read_than_github_lists(
    hub: GitHub, repository: Repository
) -> None:
    number = hub.pull()
    hub.fail(
        "files",
        Answer(
            200, [{"filename": f"{n}", "status": "added"} for n in range(MOST_CHANGED_FILES + 7)]
        ),
    )
    assert len(repository.changed_files(number)) == MOST_CHANGED_FILES


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"status": "added"}, "0.filename: Field required"),
        (
            {"filename": "", "status": "added"},
            "0.filename: String should have at least 1 character",
        ),
        ({"filename": "\ud800", "status": "added"}, "0.filename: "),
        (
            {"filename": "x", "status": "novel"},
            "0.status: Input should be 'added', 'removed', 'modified', ",
        ),
        ({"filename": "x", "status": "renamed", "previous_filename": 7}, "0.previous_filename: "),
    ],
)
def test_changed_files_of_another_form_are_not_guessed_at(
    hub: GitHub, repository: Repository, row: dict[str, object], fault: str
) -> None:
    number = hub.pull()
    hub.fail("files", Answer(200, [row]))
    told = message_of(GitHubUnreachable, lambda: repository.changed_files(number))
    assert told.startswith(
        f"the files of pull request {number}: the answer is not what GitHub's REST API says: {fault}"
    )


# Comments


def test_hundreds_of_comments_are_read_page_after_page(hub: GitHub, repository: Repository) -> None:
    number = hub.pull()
    made = [
        hub.comment(number, f"comment {n}", author="eve" if n % 2 else None) for n in range(250)
    ]
    found = list(repository.comments(number))
    assert [one.id for one in found] == made
    assert (found[0].author, found[1].author, found[249].body) == (None, "eve", "comment 249")
    assert [asked.query.get("page", "1") for asked in hub.asked] == ["1", "2", "3"]


def test_comments_are_asked_for_only_as_far_as_they_are_looked_at(
    hub: GitHub, repository: Repository
) -> None:
    number = hub.pull()
    for n in range(250):
        hub.comment(number, str(n))
    assert next(repository.comments(number)).body == "0"
    assert len(hub.asked) == 1


def test_a_next_page_elsewhere_is_not_asked_for(hub: GitHub, repository: Repository) -> None:
    number = hub.pull()
    hub.fail("comments", Answer(200, [], {"Link": '<https://evil.example/?page=2>; rel="next"'}))
    assert message_of(GitHubUnreachable, lambda: list(repository.comments(number))) == (
        f"the comments of pull request {number}: the next page is said to be at another address than the API. "
        "That is not GitHub's REST API as perfgate knows it.\nLook whether GITHUB_API_URL is GitHub's."
    )


def test_pages_without_end_are_left(hub: GitHub, repository: Repository) -> None:
    number = hub.pull()
    link = f'<{hub.api_url}/repos/octo/loops/issues/{number}/comments?page=2>; rel="next"'
    hub.fail("comments", Answer(200, [], {"Link": link}), times=1000)
    told = message_of(GitHubUnreachable, lambda: list(repository.comments(number)))
    assert told.startswith(
        f"the comments of pull request {number}: there are more than 100 pages. "
    )
    assert len(hub.asked) == 100


def test_a_comment_is_made_and_edited(hub: GitHub, repository: Repository) -> None:
    number = hub.pull()
    made = repository.create_comment(number, "first")
    assert (made.author, made.body) == (BOT, "first")
    assert repository.edit_comment(made.id, "second").id == made.id
    assert [one["body"] for one in hub.comments[number]] == ["second"]
    assert [asked.body for asked in hub.asked] == [{"body": "first"}, {"body": "second"}]


def test_a_comment_that_is_too_long_is_refused_in_githubs_words(
    hub: GitHub, repository: Repository
) -> None:
    number = hub.pull()
    assert message_of(GitHubRefused, lambda: repository.create_comment(number, "x" * 65_537)) == (
        f"commenting on pull request {number}: GitHub answered 422: Validation Failed: "
        "Body is too long (maximum is 65536 characters).\n"
        "See GitHub's documentation of its REST API for what it wants."
    )


# Permissions


@pytest.mark.parametrize("may", ["admin", "write", "read", "none"])
def test_the_permission_of_a_user_is_githubs_word(
    hub: GitHub, repository: Repository, may: str
) -> None:
    hub.permissions["ada"] = may
    assert repository.permission("ada") == may


def test_a_users_name_cannot_change_the_address(hub: GitHub, repository: Repository) -> None:
    hub.permissions["ada"] = "admin"
    with pytest.raises(GitHubRefused):
        repository.permission("eve/../ada")
    with pytest.raises(GitHubRefused):
        repository.permission("eve?x=")
    assert hub.lines == [
        "GET /collaborators/eve/../ada/permission",
        "GET /collaborators/eve?x=/permission",
    ]


# Runs and artifacts


def test_runs_of_a_commit_come_newest_first(hub: GitHub, repository: Repository) -> None:
    old = hub.run(head_sha=A, created_at=NOON, conclusion="failure")
    hub.run(head_sha=B)
    new = hub.run(
        head_sha=A,
        created_at=NOON + timedelta(hours=1),
        conclusion=None,
        status="in_progress",
        attempt=2,
    )
    hub.run(head_sha=A, workflow="tests.yml")
    found = repository.runs("perfgate.yml", A)
    assert [run.id for run in found] == [new, old]
    assert (found[0].status, found[0].conclusion, found[0].attempt) == ("in_progress", None, 2)
    assert found[1].conclusion == "failure"


def test_artifacts_are_listed_and_downloaded_without_the_token(
    hub: GitHub, repository: Repository
) -> None:
    run = hub.run()
    for n in range(120):
        hub.artifact(run, f"kept-{n}", b"x")
    found = repository.artifacts(run)
    assert [one.name for one in found] == [f"kept-{n}" for n in reversed(range(120))]
    assert repository.download(found[0], limit_bytes=1) == b"x"
    assert [asked.headers.get("authorization") for asked in hub.fetched] == [None]
    assert hub.asked[-1].headers["authorization"].endswith(TOKEN)


def test_an_artifact_is_read_no_further_than_its_limit(hub: GitHub, repository: Repository) -> None:
    hub.artifact(run := hub.run(), "perfgate", b"x" * 100_001)
    (artifact,) = repository.artifacts(run)
    assert message_of(
        ArtifactUnreadable, lambda: repository.download(artifact, limit_bytes=100_000)
    ) == (
        'artifact "perfgate": it is larger than 100000 bytes. So much is not taken from a run.\n'
        "Look at the run's artifacts by hand."
    )
    assert len(repository.download(artifact, limit_bytes=100_001)) == 100_001


def test_an_artifact_that_has_expired_is_told(hub: GitHub, repository: Repository) -> None:
    hub.artifact(run := hub.run(), "perfgate", b"x", expired=True)
    (artifact,) = repository.artifacts(run)
    assert artifact.expired
    assert message_of(GitHubRefused, lambda: repository.download(artifact, limit_bytes=10)) == (
        'artifact "perfgate": GitHub answered 410: Artifact has expired.\n'
        "See GitHub's documentation of its REST API for what it wants."
    )


def test_the_files_server_is_asked_again(hub: GitHub, repository: Repository) -> None:
    made = hub.artifact(hub.run(), "perfgate", b"x")
    artifact = Artifact(id=made, name="perfgate", size_bytes=1, expired=False, created_at=NOON)
    hub.fail(r"GET /\d+\.zip", Answer(503), times=2)
    assert repository.download(artifact, limit_bytes=10) == b"x"
    hub.fail(r"GET /\d+\.zip", Answer(503), times=9)
    told = message_of(GitHubUnreachable, lambda: repository.download(artifact, limit_bytes=10))
    assert told == (
        f'artifact "perfgate": the file\'s server answered 503. It was asked again where that can do no harm.\n{LATER}'
    )


@pytest.mark.parametrize("address", ["", "ftp://127.0.0.1/x", "file:///etc/passwd", "/relative"])
def test_a_file_at_no_address_is_not_fetched(
    hub: GitHub, repository: Repository, address: str
) -> None:
    made = hub.artifact(hub.run(), "perfgate", b"x")
    hub.fail("zip", Answer(302, None, {"Location": address}))
    artifact = Artifact(id=made, name="perfgate", size_bytes=1, expired=False, created_at=NOON)
    told = message_of(GitHubUnreachable, lambda: repository.download(artifact, limit_bytes=10))
    assert told.startswith('artifact "perfgate": it does not say at which address the file is. ')


def test_a_file_that_takes_too_long_is_left(hub: GitHub) -> None:
    hasty = Patience(timeout_s=5, repeats=0, download_s=1e-9)
    repository = Repository.connect(Context.from_env(hub.env()), patience=hasty)
    hub.artifact(run := hub.run(), "perfgate", b"x")
    told = message_of(
        GitHubUnreachable, lambda: repository.download(repository.artifacts(run)[0], limit_bytes=10)
    )
    assert told.startswith('artifact "perfgate": the file did not come within 1e-09 s. ')


def test_no_message_shows_the_signed_address(hub: GitHub, repository: Repository) -> None:
    made = hub.artifact(hub.run(), "perfgate", b"x")
    hub.fail("zip", Answer(302, None, {"Location": "http://127.0.0.1:1/x?sig=secret"}), times=9)
    artifact = Artifact(id=made, name="perfgate", size_bytes=1, expired=False, created_at=NOON)
    told = message_of(GitHubUnreachable, lambda: repository.download(artifact, limit_bytes=10))
    assert told == (
        'artifact "perfgate": 127.0.0.1: ConnectionError. It was asked again where that can do no harm.\n'
        + LATER
    )


def test_a_workflow_is_started_once(hub: GitHub, repository: Repository) -> None:
    hub.workflows.add("perfgate.yml")
    hub.commit({"a": "1"}, branch="faster")
    repository.dispatch("perfgate.yml", ref="faster", inputs={"workloads": "mlp"})
    assert hub.dispatched == [
        Dispatch(workflow="perfgate.yml", ref="faster", inputs={"workloads": "mlp"})
    ]
    hub.fail("dispatches", BROKEN, after=True)
    with pytest.raises(GitHubUnreachable):
        repository.dispatch("perfgate.yml", ref="faster", inputs={})
    assert len(hub.dispatched) == 2


@pytest.mark.parametrize("file", ["../perfgate.yml", "a/b.yml", "perfgate", "", "x.yml?"])
def test_a_file_that_is_no_workflows_is_not_asked_for(
    hub: GitHub, repository: Repository, file: str
) -> None:
    told = message_of(GitHubRefused, lambda: repository.runs(file, A))
    assert "this can be no workflow's file. GitHub was not asked." in told
    assert hub.asked == []


# Commits


def test_files_are_committed_on_top_of_a_branch(hub: GitHub, repository: Repository) -> None:
    head = hub.commit({"kept.txt": "as it was", "b/old.json": "1"}, branch="faster")
    made = repository.commit_files(
        branch="faster",
        expected_head=head,
        files={"b/old.json": b"2", "b/new.json": b"\x00\xff"},
        message="bless: mlp",
    )
    assert hub.branches["faster"] == repository.head("faster") == made
    assert hub.content("faster") == {
        "kept.txt": b"as it was",
        "b/old.json": b"2",
        "b/new.json": b"\x00\xff",
    }
    assert (hub.commits[made].parents, hub.commits[made].message) == ((head,), "bless: mlp")


def test_a_branch_that_is_elsewhere_is_left_alone(hub: GitHub, repository: Repository) -> None:
    hub.commit({"a": "1"}, branch="faster", sha=B)
    told = message_of(
        BranchMoved,
        lambda: repository.commit_files(
            branch="faster", expected_head=A, files={"x": b"1"}, message="bless: mlp"
        ),
    )
    assert told == (
        f'branch "faster": it is at {B[:12]}. It was to be at {A[:12]}; nothing was committed.\n'
        "Start again, with what the branch is now."
    )
    assert hub.changes == []
    gone = message_of(
        BranchMoved,
        lambda: repository.commit_files(
            branch="gone", expected_head=A, files={"x": b"1"}, message="m"
        ),
    )
    assert gone.startswith('branch "gone": it is gone. ')


def test_a_push_while_the_commit_is_made_wins(hub: GitHub, repository: Repository) -> None:
    head = hub.commit({"a": "1"}, branch="faster")
    theirs = hub.commit({"a": "2"}, branch="faster", sha=B)
    hub.branches["faster"] = head
    truly = hub._create_commit

    def pushed(asked: object) -> Answer:
        hub.branches["faster"] = theirs
        return truly(asked)  # type: ignore[arg-type]

    hub._create_commit = pushed  # type: ignore[method-assign]
    told = message_of(
        BranchMoved,
        lambda: repository.commit_files(
            branch="faster", expected_head=head, files={"x": b"1"}, message="m"
        ),
    )
    assert told.startswith(
        f'branch "faster": it is at {B[:12]}. It was to be at {head[:12]}; nothing was committed.'
    )
    assert hub.branches["faster"] == theirs


def test_a_commit_whose_answer_was_lost_is_made_once(hub: GitHub, repository: Repository) -> None:
    head = hub.commit({"a": "1"}, branch="faster")
    hub.fail("PATCH /git/refs", BROKEN, after=True, times=3)
    made = repository.commit_files(
        branch="faster", expected_head=head, files={"x": b"1"}, message="m"
    )
    assert hub.commits[made].parents == (head,)
    assert hub.branches["faster"] == made


def test_a_protected_branch_is_told_in_githubs_words(hub: GitHub, repository: Repository) -> None:
    head = hub.commit({"a": "1"}, branch="main")
    hub.fail(
        "PATCH /git/refs", Answer(422, {"message": "Changes must be made through a pull request."})
    )
    told = message_of(
        GitHubRefused,
        lambda: repository.commit_files(
            branch="main", expected_head=head, files={"x": b"1"}, message="m"
        ),
    )
    assert told.startswith(
        'committing to branch "main": GitHub answered 422: Changes must be made through a pull request.\n'
    )
    assert hub.branches["main"] == head


@pytest.mark.parametrize(
    "path",
    ["/etc/x", "../x", "a/../x", "a//b", "./a", ".git/config", "a/.GIT/x", "a\\b", "", "a\n"],
)
def test_a_path_that_leaves_the_repository_is_refused(
    hub: GitHub, repository: Repository, path: str
) -> None:
    with pytest.raises(ValueError, match="no path of a file in a repository"):
        repository.commit_files(branch="main", expected_head=A, files={path: b"1"}, message="m")
    assert hub.asked == []


def test_a_commit_of_nothing_or_on_nothing_is_refused(hub: GitHub, repository: Repository) -> None:
    with pytest.raises(ValueError, match="a commit of no files"):
        repository.commit_files(branch="main", expected_head=A, files={}, message="m")
    with pytest.raises(GitHubRefused, match="40 or 64 hex digits"):
        repository.commit_files(branch="main", expected_head="HEAD", files={"x": b"1"}, message="m")
    assert hub.asked == []


def test_a_branch_is_made_and_found(hub: GitHub, repository: Repository) -> None:
    head = hub.commit({"a": "1"}, branch="main")
    assert repository.head("perfgate/occasions") is None
    repository.create_branch("perfgate/occasions-2", head)
    assert (
        repository.head("perfgate/occasions") is None
    )  # a longer name that begins like it is another
    assert repository.head("perfgate/occasions-2") == head
    told = message_of(GitHubRefused, lambda: repository.create_branch("perfgate/occasions-2", head))
    assert told.startswith(
        'making branch "perfgate/occasions-2": GitHub answered 422: Reference already exists.\n'
    )


def test_a_branch_may_have_any_name_that_git_takes(hub: GitHub, repository: Repository) -> None:
    name = "eve/#1%2e-\u00fc&x=1"
    head = hub.commit({"a": "1"}, branch=name)
    assert repository.head(name) == head
    made = repository.commit_files(branch=name, expected_head=head, files={"x": b"1"}, message="m")
    assert hub.branches == {name: made}


@pytest.mark.parametrize(
    "name",
    ["", "a..b", "../x", "a b", "a\nb", "a~1", "a:b", "/a", "a/", "-a", "@", "a.lock", "a//b"],
)
def test_what_can_be_no_branch_is_not_asked_for(
    hub: GitHub, repository: Repository, name: str
) -> None:
    told = message_of(GitHubRefused, lambda: repository.head(name))
    assert "this can be no branch's name. GitHub was not asked." in told
    assert hub.asked == []


# Failures


def test_a_failure_of_githubs_is_asked_again(hub: GitHub, repository: Repository) -> None:
    number = hub.pull()
    hub.fail("GET", BROKEN, times=2)
    assert repository.pull_request(number).number == number
    assert len(hub.asked) == 3


def test_a_failure_that_lasts_is_told(hub: GitHub, repository: Repository) -> None:
    hub.fail("GET", Answer(500, {"message": "Server Error"}), times=9)
    assert message_of(GitHubUnreachable, lambda: repository.pull_request(7)) == (
        "pull request 7: GitHub answered 500: Server Error. It was asked again where that can do no harm.\n"
        + LATER
    )
    assert len(hub.asked) == 3


def test_a_comment_is_not_made_twice_because_its_answer_was_lost(
    hub: GitHub, repository: Repository
) -> None:
    number = hub.pull()
    hub.fail("POST", BROKEN, after=True)
    with pytest.raises(GitHubUnreachable, match=r"GitHub answered 502: nothing more\."):
        repository.create_comment(number, "once")
    assert [one["body"] for one in hub.comments[number]] == ["once"]


def test_a_rate_limit_is_waited_for_and_any_request_repeated(
    hub: GitHub, repository: Repository
) -> None:
    number = hub.pull()
    for limit in (
        primary_limit(0),
        secondary_limit(retry_after=1),
        secondary_limit(retry_after=0, status=429),
    ):
        hub.fail("POST", limit)
        begun = time.monotonic()
        repository.create_comment(number, "told")
        assert 0 <= time.monotonic() - begun < 5
    assert len(hub.comments[number]) == 3
    assert len(hub.asked) == 6


def test_retry_after_is_honoured(hub: GitHub, repository: Repository) -> None:
    hub.fail("GET", secondary_limit(retry_after=1))
    begun = time.monotonic()
    repository.pull_request(hub.pull())
    assert time.monotonic() - begun >= 1


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        (partial(primary_limit, 3000), "(29[0-9]{2}|300[01])"),
        (partial(secondary_limit, retry_after=77), "77"),
        (partial(Answer, 429), "60"),
    ],
)
def test_a_rate_limit_that_lasts_is_not_waited_for(
    hub: GitHub, repository: Repository, limit: Callable[[], Answer], seconds: str
) -> None:
    hub.fail("GET", limit(), times=9)
    with pytest.raises(GitHubUnreachable) as caught:
        repository.pull_request(7)
    first, second = str(caught.value).splitlines()
    assert second == "Run the job again later."
    assert re.fullmatch(
        f"pull request 7: GitHub's rate limit lasts for {seconds} s more\\. So long is not waited for\\.",
        first,
    )
    assert len(hub.asked) == 1


def test_a_rate_limit_that_only_its_text_tells_is_one(hub: GitHub) -> None:
    hasty = Patience(
        timeout_s=5, repeats=1, backoff_s=0.0, longest_wait_s=0.1, between_writes_s=0.0
    )
    repository = Repository.connect(Context.from_env(hub.env()), patience=hasty)
    hub.fail("GET", secondary_limit(retry_after=None))
    assert repository.pull_request(hub.pull()).open
    hub.fail("GET", secondary_limit(retry_after=None), times=2)
    assert message_of(GitHubUnreachable, lambda: repository.pull_request(7)) == (
        "pull request 7: GitHub's rate limit lasts. So long is not waited for.\nRun the job again later."
    )


@pytest.mark.parametrize(
    ("act", "what", "needs"),
    [
        (
            lambda r: r.create_comment(7, "x"),
            "commenting on pull request 7",
            "pull-requests: write",
        ),
        (lambda r: r.edit_comment(7, "x"), "editing comment 7", "pull-requests: write"),
        (lambda r: r.pull_request(7), "pull request 7", "pull-requests: read"),
        (lambda r: r.changed_files(7), "the files of pull request 7", "pull-requests: read"),
        (lambda r: r.artifacts(7), "the artifacts of run 7", "actions: read"),
        (lambda r: r.head("main"), 'branch "main"', "contents: read"),
        (lambda r: r.create_branch("x", A), 'making branch "x"', "contents: write"),
        (
            lambda r: r.dispatch("x.yml", ref="main", inputs={}),
            'starting "x.yml" on "main"',
            "actions: write",
        ),
    ],
)
def test_a_missing_permission_is_named(
    hub: GitHub, repository: Repository, act: Callable[[Repository], object], what: str, needs: str
) -> None:
    hub.token_may.clear()
    assert message_of(GitHubRefused, lambda: act(repository)) == (
        f"{what}: GitHub answered 403: Resource not accessible by integration. The token needs {needs}.\n"
        f"Give it to the job, in its workflow: permissions: {{{needs}}}"
    )
    assert len(hub.asked) == 1


def test_what_is_not_there_is_told(hub: GitHub, repository: Repository) -> None:
    assert message_of(GitHubRefused, lambda: repository.pull_request(7)) == (
        "pull request 7: GitHub answered 404: Not Found. "
        "It should be there, and the token may see it only with pull-requests: read.\n"
        "Look whether it is still there, and whether the job has permissions: {pull-requests: read}"
    )


def test_a_token_that_github_does_not_know_is_told_and_not_shown(hub: GitHub) -> None:
    context = Context.from_env(hub.env(GITHUB_TOKEN="ghs_wrong"))
    told = message_of(GitHubRefused, lambda: Repository.connect(context).pull_request(7))
    assert told == (
        "pull request 7: GitHub answered 401: Bad credentials. "
        "The token should be one that GitHub knows and that has not ended.\n"
        "Hand the job's own token over: env: {GITHUB_TOKEN: ${{ github.token }}}"
    )


def test_an_answer_that_does_not_come_is_not_waited_for(hub: GitHub) -> None:
    hasty = Patience(timeout_s=1, repeats=1, backoff_s=0.0)
    repository = Repository.connect(Context.from_env(hub.env()), patience=hasty)
    hub.fail("GET", Answer(200, {}), times=9, delay_s=1.5)
    begun = time.monotonic()
    told = message_of(GitHubUnreachable, lambda: repository.pull_request(7))
    assert time.monotonic() - begun < 6
    assert told.startswith(
        "pull request 7: ConnectionError. It was asked again where that can do no harm.\n"
    )


def test_a_github_that_is_not_there_is_told(hub: GitHub) -> None:
    context = Context.from_env(hub.env(GITHUB_API_URL="http://127.0.0.1:1"))
    hasty = Patience(timeout_s=1, repeats=1, backoff_s=0.0)
    told = message_of(
        GitHubUnreachable, lambda: Repository.connect(context, patience=hasty).pull_request(7)
    )
    assert told.startswith("pull request 7: ConnectionError. ")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer(200, [1]), "the whole: Input should be a valid dictionary or instance of _Pull"),
        (Answer(200, {"number": "x"}), "number: Input should be a valid integer"),
        (Answer(200, b"<html>Sign in</html>"), "number: Field required"),
        (Answer(204), "the whole: Input should be a valid dictionary or instance of _Pull"),
    ],
)
def test_an_answer_of_another_form_is_not_guessed_at(
    hub: GitHub, repository: Repository, answer: Answer, fault: str
) -> None:
    hub.fail("GET", answer)
    told = message_of(GitHubUnreachable, lambda: repository.pull_request(7))
    assert told.startswith(
        f"pull request 7: the answer is not what GitHub's REST API says: {fault}"
    )


def test_a_list_of_another_form_is_not_guessed_at(hub: GitHub, repository: Repository) -> None:
    number = hub.pull()
    hub.fail("comments", Answer(200, [{"id": "x"}]))
    told = message_of(GitHubUnreachable, lambda: list(repository.comments(number)))
    assert told.startswith(
        f"the comments of pull request {number}: the answer is not what GitHub's REST API says: "
        "0.id: Input should be a valid integer"
    )
    hub.fail("artifacts", Answer(200, [1]))
    with pytest.raises(GitHubUnreachable, match="the whole: Input should be a valid list"):
        repository.artifacts(hub.run())


@pytest.mark.parametrize(
    "answer", [Answer(200, b"{broken"), Answer(301, None, {"Location": "https://evil.example/x"})]
)
def test_an_answer_that_is_none_is_told(
    hub: GitHub, repository: Repository, answer: Answer
) -> None:
    hub.fail("GET", answer)
    with pytest.raises(GitHubUnreachable, match=r"pull request 7: \w+Error\."):
        repository.pull_request(7)


def test_what_github_says_cannot_command_the_runner(hub: GitHub, repository: Repository) -> None:
    hub.fail(
        "GET",
        Answer(
            422, {"message": "no\n::error::x", "errors": ["##[error]y", {"message": "\x1b[2Jz"}]}
        ),
    )
    told = message_of(GitHubRefused, lambda: repository.pull_request(7))
    assert told.splitlines()[0] == (
        "pull request 7: GitHub answered 422: no ::error::x: ## [error]y: \\x1b[2Jz."
    )


def test_pygithub_is_missed_in_words(hub: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "github", None)
    monkeypatch.delitem(sys.modules, "perfgate.github.client", raising=False)
    assert message_of(PackageMissing, lambda: Repository.connect(Context.from_env(hub.env()))) == (
        "perfgate github: the package github is not installed. It asks GitHub by means of PyGithub.\n"
        'Install what the extra github brings: pip install "PyGithub>=2.6" "requests>=2.31" "urllib3>=2.0"'
    )


def test_nothing_is_asked_by_connecting(hub: GitHub, repository: Repository) -> None:
    assert repository.name == "octo/loops"
    assert (hub.asked, hub.fetched) == ([], [])
