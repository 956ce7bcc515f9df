"""What the commands for GitHub Actions say."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_ASKED_AGAIN: Final = "It was asked again where that can do no harm"
_AGAIN: Final = "Run the job again; https://www.githubstatus.com/ lists failures."
_MISSING: Final = "See perfgate's workflows for how a job of GitHub Actions calls it."
_START: Final = "Start the workflow again."
_DESK: Final = "Bless at a desk, by `perfgate bless`."
_UPLOADS: Final = "See what the gate's job has uploaded."
_GIVE: Final = "Give it to the job, in its workflow: permissions: {{{needs}}}"

TEXT: Final[Rows] = {
    # The job
    "actions-token-missing": (
        "GITHUB_TOKEN: not set",
        "GitHub gives the token to a step only where the workflow hands it over",
        "Add to the step: env: {{GITHUB_TOKEN: ${{{{ github.token }}}}}}",
    ),
    "actions-variable-missing": (
        "{name}: not set",
        "GitHub Actions sets it in every job",
        _MISSING,
    ),
    "actions-variable-odd": (
        '{name}: "{value}" is nothing that GitHub sets for this',
        "",
        _MISSING,
    ),
    "event-unreadable": ("{path}: the event cannot be read: {reason:quote}", "", _MISSING),
    "event-odd": ("event {event}: not what this command is for: {reason:quote}", "", _MISSING),
    "github-package-missing": (
        "perfgate github: the package {package} is not installed",
        "It asks GitHub by means of PyGithub",
        'Install what the extra github brings: pip install "PyGithub>=2.10"',
    ),
    "expects-name": "letters, digits, dots, _ and -, 100 of them at most",
    "expects-machine": "the name of a folder of baselines, such as nvidia-h200 or no-gpu",
    "expects-shard": "I/N: the I-th, from 1, of N parts",
    "expects-node": "a path, or a node id of pytest's",
    "expects-branch": "the name of a branch",
    "folder-not-emptied": (
        "{folder}: cannot be emptied ({reason})",
        "What lies there could be taken for this gate's",
        "Delete it on the runner.",
    ),
    "runner-file-not-written": (
        "{path}: cannot be written ({reason})",
        "The runner reads from it what the step has come to",
        "See to the runner's disk.",
    ),
    # The gate as a step
    "branch-not-fetched": (
        "{branch} was not fetched ({reason:quote})",
        "With fetch-depth: 0 the checkout brings it",
    ),
    "change-unknown": "what it changes of its gate is not known: {reason:quote}",
    "workloads-not-collected": (
        "the workloads cannot be collected: {log:quote}",
        "",
        "See what pytest says: pytest --perfgate --collect-only",
    ),
    "python-not-started": "{python} cannot be started: {reason}",
    "gate-processes-ended": "Ended what the gate had left running: {processes:list}",
    "gate-without-verdict": (
        "The gate ended with exit status {status} and left no verdict",
        "Nothing is known of any workload, and nothing known is not a pass",
        "The log above has the reason.",
    ),
    "open-but-pytest-failed": (
        "The verdicts open the gate, but pytest ended with exit status {status}"
    ),
    "results-not-copied": "The kept results cannot be copied ({reason})",
    "clean-outside-a-job": (
        "this is no job of GitHub Actions",
        "It deletes kept results, which at a desk wait to be blessed",
        "Delete .perfgate yourself, if you want that.",
    ),
    "runner-clean": "The workspace is clean, and nothing of a gate runs",
    "gate-processes-left": (
        "{count:process|processes} of this gate cannot be ended, and may hold the GPU"
    ),
    "checkout-removed": "Removed the checkout {checkout} that a gate had left",
    "folder-not-removed": "{folder} was not removed ({reason})",
    "workspace-unknown": "git cannot say whether the workspace is clean: {reason:quote}",
    "workspace-changed-before": (
        "The workspace is not clean before the gate, so that its results cannot be blessed: "
        "{count:file|files} changed or not tracked, among them {first:list}"
    ),
    "workspace-changed-after": (
        "The workspace is not clean after the gate: "
        "{count:file|files} changed or not tracked, among them {first:list}"
    ),
    # GitHub's answers
    "github-unreachable": ("{request}: no answer: {reason:quote}", _ASKED_AGAIN, _AGAIN),
    "github-fails": ("{request}: GitHub answered {status}: {message:quote}", _ASKED_AGAIN, _AGAIN),
    "github-token-unknown": (
        "{request}: GitHub answered {status}: {message:quote}",
        "The token should be one that GitHub knows and that has not ended",
        "Hand the job's own token over: env: {{GITHUB_TOKEN: ${{{{ github.token }}}}}}",
    ),
    "github-forbidden": (
        "{request}: GitHub answered {status}: {message:quote}",
        "The token needs {needs}",
        _GIVE,
    ),
    "github-pulls-forbidden": (
        "{request}: GitHub answered {status}: {message:quote}",
        "The token needs {needs}",
        (
            f"{_GIVE} And in the repository's settings, under Actions, General: "
            '"Allow GitHub Actions to create and approve pull requests".'
        ),
    ),
    "github-not-found": (
        "{request}: GitHub answered {status}: {message:quote}",
        "The token sees it only with {needs}",
        f"See whether it is still there. {_GIVE}",
    ),
    "github-refused": (
        "{request}: GitHub answered {status}: {message:quote}",
        "",
        "See GitHub's documentation of its REST API for what it wants.",
    ),
    "branch-moved": (
        "branch {branch}: it is at {commit}",
        "It was to be at {expected}; it stays as it is",
        "Start again, with what the branch is now.",
    ),
    # Artifacts
    "artifact-too-large": (
        "artifact {artifact}: larger than {limit_bytes:size}, or of too many files",
        "So much is not taken from a run",
        "Look at the run's artifacts by hand.",
    ),
    "artifact-not-downloaded": ("artifact {artifact}: it does not come ({reason})", "", _AGAIN),
    "artifact-broken": (
        "artifact {artifact}: no zip file that can be read: {reason}",
        "",
        _UPLOADS,
    ),
    "artifact-unsafe": (
        'artifact {artifact}: its member "{member}" is in it twice',
        "It is not read",
        "Look at the run that uploaded it: it may be made to do harm.",
    ),
    "artifact-without-document": "artifact {artifact}: there is no {file} in it",
    "document-malformed": "{file} is not what its schema says: {reason:quote}",
    "document-contradicts-itself": "{file} says that the gate is open, and what keeps it shut",
    "document-of-another-commit": (
        "{file} is of another commit: {found}",
        "It should be of {commit}",
    ),
    # Approval
    "event-not-admitted": (
        "this job was started by {event}",
        "This runner takes jobs of {known:list}",
        "Let the job run on one of GitHub's runners.",
    ),
    "admitted-event": "Admitted: {event} is an event of {repository} itself",
    "admitted-branch": (
        "Admitted: pull request {number} at {commit} is of a branch of {repository} itself"
    ),
    "admitted-approved": "Admitted: pull request {number} at {commit} was given the label {label}",
    "fork-not-approved": (
        "pull request {number} at {commit}: it is from {fork}, and this run is not of its approval",
        "A fork's code runs here only for a commit that a maintainer has read",
        "A maintainer who has read it adds the label {label}, or removes it and adds it again.",
    ),
    "fork-pushed-just-before": (
        (
            "pull request {number} at {commit}: {fork} was pushed to within {minutes} minutes of "
            "the label"
        ),
        "The commit that was labelled may not be the one that was read",
        "Read {commit}, remove the label {label}, and add it again.",
    ),
    "approval-event-wanted": (
        "perfgate github approval: its event is not the label {label} on a pull request",
        "It says whether that approves a commit",
        "Call it in a workflow with on: {{pull_request: {{types: [labeled]}}}}",
    ),
    "label-approves": "The label {label} approves commit {commit}",
    "label-approves-another": "The label {label} does not approve this commit: {why}",
    "label-stays": "Taking it off failed: {why}",
    "label-approves-nothing": (
        "commit {commit} of pull request {number}: {why}",
        (
            "The label {label} approves the one commit that was read, and takes effect only where "
            "it had been the head for {minutes} minutes"
        ),
        "Read the commit that is the head now, and add the label {label} again.",
    ),
    "label-of-another-commit": "the label was given to another commit",
    "head-moved-on": "the head is {commit} by now",
    "head-never-seen": "GitHub knows no run of it before the label",
    "head-too-young": "GitHub saw it as the head at {seen}, and the label at {labelled} UTC",
    # The comment
    "comment-event-wanted": (
        "perfgate github comment: the event is {event}",
        "It comments on what a finished run left, at the event workflow_run",
        (
            "Call it in a workflow with "
            "on: {{workflow_run: {{workflows: [perfgate], types: [completed]}}}}"
        ),
    ),
    "nothing-to-comment-on": (
        "There is nothing to comment on: the run was skipped, "
        "or its commit is the head of no open pull request"
    ),
    "comment-created": ("pull request {number}: commented", "", "{url:quote}"),
    "comment-edited": ("pull request {number}: edited the comment", "", "{url:quote}"),
    "comment-unchanged": (
        "pull request {number}: the comment says this already",
        "",
        "{url:quote}",
    ),
    "comment-newer": (
        "pull request {number}: the comment is of a newer run, and was left",
        "",
        "{url:quote}",
    ),
    "comment-kept": (
        (
            "pull request {number}: the comment is of this commit, this run measured nothing, "
            "and it was left"
        ),
        "",
        "{url:quote}",
    ),
    "run-without-job": "No job of it ran",
    "run-left-nothing": "It left no result",
    "run-measured-nothing": (
        "It measured nothing, and passed: all that is changed is named as unmeasured"
    ),
    "artifact-expired": "Its artifact {artifact} has expired",
    "files-listed-in-part": "GitHub lists only {most} of its files",
    # Blessing
    "bless-event-wanted": (
        "it was asked by {event}",
        "It should be workflow_dispatch, or a new comment on a pull request",
        "Comment there: {command} WORKLOAD REASON...",
    ),
    "bless-by-stranger": (
        "{login}: their permission in this repository is {permission}",
        "A baseline is blessed by someone who may write here",
        "Ask a maintainer to bless it.",
    ),
    "bless-input-odd": (
        'input {input}: "{value}" is nothing that it can be',
        (
            "accept-regression is true or false, workload is one line, "
            "and reason is one line of 1 to {most} characters"
        ),
        _START,
    ),
    "bless-command-odd": (
        '"{line}" is no command to bless',
        (
            "A baseline says why it is one, in at most {most} characters, "
            "and a comment names its workload"
        ),
        "Comment anew: {command} WORKLOAD REASON... [{option}]",
    ),
    "bless-branch-elsewhere": (
        "pull request {number}: its branch lies in a fork, or it is closed",
        "A baseline is committed to the branch of the code that it is of",
        "Bless at a desk, on that branch: pytest --perfgate; perfgate bless --reason REASON",
    ),
    "bless-all-or-none": (
        "of {count} baselines none was committed: {refused:list;}",
        "All are, or none",
        "Name those that can be blessed.",
    ),
    "baselines-committed": "Committed {commit} to {branch}: {paths:list}",
    "baselines-elsewhere": (
        '[tool.perfgate] baselines: it is "{folder}"',
        "From CI, baselines are committed to a folder of the project's own",
        _DESK,
    ),
    "checkout-elsewhere": (
        "the checkout is at {commit}",
        "It should be {expected}, whose files say what is blessed",
        "The branch may have moved: look at its newest commit, then ask again.",
    ),
    "checkout-changed": (
        "the checkout: files in it are not those of {commit}",
        "The files of the commit say what is blessed",
        "See what was changed or added before this step: git status",
    ),
    "gate-still-runs": (
        "commit {commit}: its gate has not come to an end yet",
        "What the gate of this very commit has kept is blessed, and nothing is measured for it",
        "Wait for it, then ask again.",
    ),
    "gate-never-ended": (
        "commit {commit}: no gate of it ({workflow}) came to an end",
        "What the gate of this very commit has kept is blessed, and nothing is measured for it",
        "Let {workflow} run on the branch, then ask again.",
    ),
    "commit-after-comment": (
        "commit {commit}: it was pushed after the comment was written",
        "What is blessed is what there was to look at",
        "Look at it, then comment anew.",
    ),
    "kept-twice": (
        "{workload}: the gate has kept several results of it on {gpu}",
        "Which of them is meant cannot be known",
        "Let each workload be in one shard and one gate of a machine only.",
    ),
    "kept-expired": (
        "commit {commit}: what its gate has kept has expired",
        "",
        "Let the gate run again on the branch, then ask again.",
    ),
    "kept-nothing": (
        "commit {commit}: its gate has kept no result",
        "perfgate's action uploads it under a name that begins with {artifact}",
        "Let the gate run again on the branch, then ask again.",
    ),
    "kept-out-of-place": (
        "{path:quote}: no place, name or size of a kept result",
        (
            "Expected are results/<machine>/<workload>/<time>/result.json, of at most "
            "{most_bytes:size}"
        ),
        _UPLOADS,
    ),
    "kept-of-another-commit": (
        "{workload}: the kept result is of {commit}",
        "It should be of {expected}, without any change",
        "See the gate's log: its checkout should be the head commit, and clean.",
    ),
    "kept-without-workload": (
        "{workload}: the gate of this commit has kept no result of it",
        "Kept are: {known:list}",
        "Name one of these.",
    ),
    # Occasions
    "occasions-event-wanted": (
        "the event is {event}",
        "Occasions are of a gate of the base branch, which is started by schedule or by hand",
        "Call it in a workflow with that trigger; perfgate init writes one.",
    ),
    "occasions-none": "No result is an occasion of a baseline, of {results:result|results}",
    "occasions-proposed": (
        "Pull request {number} adds {added} of {results:result|results}",
        "",
        "{url:quote}",
    ),
}
