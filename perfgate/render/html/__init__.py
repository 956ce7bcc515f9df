"""The HTML page of a gate: one file that asks the network for nothing; returns text, writes no
file."""

from perfgate.render.html.page import MOST_BYTES, page_html

__all__ = ["MOST_BYTES", "page_html"]
