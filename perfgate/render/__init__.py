"""Verdicts and records as text, JSON and JUnit properties; returns what a door prints or writes."""

from perfgate.render.document import (
    DocumentRun,
    DocumentWorkload,
    GateDocument,
    document_text,
    read_document,
)
from perfgate.render.junit import properties
from perfgate.render.records import baseline_text, bless_text, comparison_text
from perfgate.render.samples import sample_text
from perfgate.render.text import render_verdicts, summary, verdict_table

__all__ = [
    "DocumentRun",
    "DocumentWorkload",
    "GateDocument",
    "baseline_text",
    "bless_text",
    "comparison_text",
    "document_text",
    "properties",
    "read_document",
    "render_verdicts",
    "sample_text",
    "summary",
    "verdict_table",
]
