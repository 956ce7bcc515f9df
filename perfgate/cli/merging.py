"""`perfgate merge`: one verdict and one page of several gates."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from perfgate.bless.gates import find_gates
from perfgate.bless.merge import merge, merged_page
from perfgate.cli.terminal import PATH, screen, show
from perfgate.model.errors import EXIT_SHUT, ConfigInvalid
from perfgate.model.secrets import Cleaner
from perfgate.plugin.outputs import OutputFormat, Outputs
from perfgate.render.page import Page
from perfgate.render.text import merged_text
from perfgate.words import escape


@click.command("merge")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=PATH)
@click.option(
    "--expect", type=click.IntRange(min=1), metavar="N", help="How many gates there should be."
)
@click.option(
    "--json", type=PATH, metavar="FILE", help="Write verdicts and measurements to FILE as JSON."
)
@click.option(
    "--html", type=PATH, metavar="FILE", help="Write a page with plots and timelines to FILE."
)
@click.option(
    "--page-data",
    type=PATH,
    metavar="FILE",
    help="Write what such a page is made of to FILE as JSON.",
)
@click.option("--markdown", type=PATH, metavar="FILE", help="Append verdicts to FILE as Markdown.")
@click.option("--junit", type=PATH, metavar="FILE", help="Write verdicts to FILE as JUnit XML.")
def merge_gates(folders: tuple[Path, ...], *, expect: int | None, **files: Path | None) -> None:
    """Make one verdict of gates that were measured apart.

    Each FOLDER holds the perfgate.json of a gate (pytest --perfgate-json), and the page.json of
    --perfgate-page-data where there is one, or folders that do.
    """
    given = {
        form: file
        for form in OutputFormat
        if (file := files.get(form.replace("-", "_"))) is not None
    }
    outputs = Outputs(files=given, prefix="--")
    try:
        outputs.refuse()
    except ConfigInvalid as refused:
        raise click.UsageError(str(refused)) from None
    found, unread = find_gates(folders)
    cleaner = Cleaner(os.environ)  # what wrote a gate's files may have known of no secrets
    merged = cleaner.record(merge(found, unread=unread, expect=expect, at=datetime.now(UTC)))

    document = outputs.write(
        merged, lambda document: cleaner.record(merged_page(document, found=found))
    )
    # Documents may be a stranger's, and this a job's log.
    show(escape.without_commands(merged_text(Page(**screen()), document)))
    if not document.opens_gate:
        sys.exit(EXIT_SHUT)
