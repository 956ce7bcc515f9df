"""What the commands for GitHub Actions say."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_ASKED_AGAIN: Final = "It was asked again where that can do no harm"
_AGAIN: Final = "Run the job again; https://www.githubstatus.com/ lists failures."
_MISSING: Final = "See perfgate's workflows for how a job of GitHub Actions calls it."
_UPLOADS: Final = "See what the gate's job has uploaded."

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
    "event-odd": (
        "{path}: no event that this command is for: {reason:quote}",
        "",
        _MISSING,
    ),
    "github-package-missing": (
        "perfgate github: the package {package} is not installed",
        "It asks GitHub by means of PyGithub",
        'Install what the extra github brings: pip install "PyGithub>=2.10"',
    ),
    "expects-node": "a path, or a node id of pytest's",
    "folder-not-emptied": (
        "{folder}: cannot be emptied ({reason})",
        "What lies there could be taken for this gate's",
        "Delete it on the runner.",
    ),
    # The gate as a step
    "change-unknown": "what it changes of its gate is not known: {reason:quote}",
    "workloads-not-collected": (
        "the workloads cannot be collected: {log:quote}",
        "",
        "See what pytest says: pytest --perfgate --collect-only",
    ),
    "gate-processes-ended": "Ended what the gate had left running: {processes:list}",
    "gate-without-verdict": (
        "The gate ended with exit status {status} and left no verdict",
        "Nothing is known of any workload, and nothing known is not a pass",
        "The log above has the reason.",
    ),
    "open-but-pytest-failed": (
        "The verdicts open the gate, but pytest ended with exit status {status}"
    ),
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
    "workspace-changed": (
        "The workspace is not clean, and what is measured in it cannot be blessed: "
        "{count:file|files} changed or not tracked, among them {first:list}"
    ),
    "workspace-unknown": "git cannot say whether the workspace is clean: {reason:quote}",
    # GitHub's answers
    "github-unreachable": ("{request}: no answer: {reason:quote}", _ASKED_AGAIN, _AGAIN),
    "github-refused": (
        "{request}: GitHub said no: {reason:quote}",
        "The job's token may do what its workflow names under permissions",
        (
            "See whether it is still there. Pull requests of a job need the repository's setting "
            'Actions, General, "Allow GitHub Actions to create and approve pull requests". Of '
            "permissions, see whether the workflows are those of this perfgate: "
            "perfgate init --check"
        ),
    ),
    "branch-moved": (
        "branch {branch}: it is at {commit}",
        "It was to be at {expected}; it stays as it is",
        "Start again, with what the branch is now.",
    ),
    # Artifacts
    "artifact-too-large": (
        "artifact {artifact}: larger than {limit_bytes:size}",
        "So much is not taken from a run",
        "Look at the run's artifacts by hand.",
    ),
    "artifact-not-downloaded": ("artifact {artifact}: it does not come ({reason})", "", _AGAIN),
    "artifact-broken": (
        "artifact {artifact}: no zip file that can be read: {reason}",
        "",
        _UPLOADS,
    ),
    "document-malformed": "{file} is not what its schema says: {reason:quote}",
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
    "admitted": "Admitted: {event} of {repository} itself",
    "fork-not-approved": (
        (
            "pull request {number} at {commit}: it is from {fork}, and this run is not of its "
            "approval, or the fork was pushed to within {minutes} minutes of that"
        ),
        "A fork's code runs here only for a commit that a maintainer has read",
        "A maintainer who has read it adds the label {label}, or removes it and adds it again.",
    ),
    "approval-event-wanted": (
        "perfgate github approval: its event is not the label {label} on a pull request",
        "It says whether that approves a commit",
        "Call it in a workflow with on: {{pull_request: {{types: [labeled]}}}}",
    ),
    "label-approves": "The label {label} approves commit {commit}",
    "label-approves-nothing": (
        (
            "commit {commit} of pull request {number}: the label does not approve it, since it is "
            "not the head, or was not {minutes} minutes before the label"
        ),
        "The label {label} approves the one commit that was read",
        "Read the commit that is the head now, and add the label {label} again.",
    ),
    "label-taken-off": (
        (
            "The label {label} was taken off: it was given to another commit, or within minutes of "
            "this one"
        ),
    ),
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
    "comment-left": (
        "pull request {number}: the comment is of another run that counts more, and was left",
        "",
        "{url:quote}",
    ),
    "run-left-nothing": "It left no result, or none any more",
    "run-measured-nothing": (
        "It measured nothing, and passed: all that is changed is named as unmeasured"
    ),
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
    "bless-command-odd": (
        '"{line}" is no command to bless',
        "A baseline says why it is one, and a comment names its workload",
        "Comment anew: {command} WORKLOAD REASON... [{option}]",
    ),
    "bless-reason-odd": (
        '"{reason}" is no reason for a baseline',
        "It is one line of 1 to {most} characters",
        "Ask again, with a reason.",
    ),
    "bless-branch-elsewhere": (
        "pull request {number}: its branch lies in a fork, or it is closed",
        "A baseline is committed to the branch of the code that it is of",
        "Bless at a desk, on that branch: pytest --perfgate; perfgate bless --reason REASON",
    ),
    "baselines-committed": "Committed {commit} to {branch}: {paths:list}",
    "checkout-elsewhere": (
        "the checkout is at {commit}, or has changes",
        "It should be {expected}, unchanged: its files say what is blessed",
        (
            "The branch may have moved: look at its newest commit, then ask again. Or see what "
            "was changed before this step: git status"
        ),
    ),
    "gate-never-ended": (
        "commit {commit}: no gate of it ({workflow}) has come to an end",
        "What the gate of this very commit has kept is blessed, and nothing is measured for it",
        "Let {workflow} run to its end on the branch, then ask again.",
    ),
    "commit-after-comment": (
        "commit {commit}: it was pushed after the comment was written",
        "What is blessed is what there was to look at",
        "Look at it, then comment anew.",
    ),
    "kept-nothing": (
        "commit {commit}: its gate has kept no result, or that has expired",
        "perfgate's action uploads it under a name that begins with {artifact}",
        "Let the gate run again on the branch, then ask again.",
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
        "Pull request {number} adds {added:occasion|occasions}",
        "",
        "{url:quote}",
    ),
}
