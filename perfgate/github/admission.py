"""Whether a job may run on this runner, by its event alone: asked before the job, of what no pull request can edit.

The workflow of a pull request is the pull request's own, and so is every `if` in it. What a runner asks for itself
(ACTIONS_RUNNER_HOOK_JOB_STARTED) is not.
"""

from __future__ import annotations

from typing import Final

from perfgate.github.approval import SETTLED, LabelEvent
from perfgate.github.context import Context
from perfgate.model.errors import JobNotAdmitted
from perfgate.model.workflows import APPROVAL
from perfgate.render.page import inert

OWN_EVENTS: Final = frozenset({"push", "schedule", "workflow_dispatch", "merge_group"})
"""Whose workflow and code are of a branch of the repository itself."""


def admit(context: Context) -> str:
    """Return why the job may run, in a sentence.

    Raises:
        JobNotAdmitted: it is a fork's that nobody has approved, or of an event that is not known to be harmless.
        ActionsContextMissing: it is no job, or its event is not as GitHub sends it.
    """
    kind = context.event_name
    if kind in OWN_EVENTS:
        return f"Admitted: {kind} is an event of {context.repository} itself."
    if kind != "pull_request":
        # Among them pull_request_review and its like, by which a fork's workflow can be started as well.
        raise JobNotAdmitted(
            subject="this job",
            fact=f"it was started by {kind}",
            expectation=f"This runner takes jobs of pull_request, {', '.join(sorted(OWN_EVENTS))}",
            next_step="Let the job run on one of GitHub's runners.",
        )
    event = context.event_as(LabelEvent)
    pull = event.pull_request
    head = None if pull.head.repo is None else pull.head.repo.full_name
    told = f"pull request {pull.number} at {inert(pull.head.sha)}"
    if head is not None and head.casefold() == context.repository.casefold():
        return f"Admitted: {told} is of a branch of {context.repository} itself."
    if event.is_approval and event.pushed_just_before:
        raise JobNotAdmitted(
            subject=told,
            fact=f"{inert(head or 'its fork')} was pushed to within {SETTLED.seconds // 60} minutes of the label",
            expectation="The commit that was labelled may not be the one that was read",
            next_step=f"Read {inert(pull.head.sha)}, remove the label {APPROVAL}, and add it again.",
        )
    if event.is_approval:
        return f"Admitted: {told} was given the label {APPROVAL}."
    whose = "a fork that is gone" if head is None else inert(head)
    raise JobNotAdmitted(
        subject=told,
        fact=f"it is from {whose}, and this run is not of its approval",
        expectation="A fork's code runs here only for a commit that a maintainer has read",
        next_step=f"A maintainer who has read it adds the label {APPROVAL}, or removes it and adds it again.",
    )
