"""The HTML page of a gate: one file that asks the network for nothing; returns text, writes no file."""

from perfgate.render.html.gathered import page_data, page_data_text, read_page_data
from perfgate.render.html.page import MOST_BYTES, page_html

__all__ = ["MOST_BYTES", "page_data", "page_data_text", "page_html", "read_page_data"]
