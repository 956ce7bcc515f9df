"""Documents and records as text, Markdown, HTML, JUnit and annotations; returns what others print
or write."""
