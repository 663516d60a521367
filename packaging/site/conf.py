"""conf.py - the documentation site: Sphinx reads the Markdown pages of the repository as they are.

Sphinx, MyST and the theme Furo are maintained. They resolve links between Markdown files and to source files, report broken
links and anchors, and search without a server. `docs/README.md` is the map: its links become the navigation.
"""

import re
from os.path import normpath
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
MAP = "docs/README"
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")

project = "memplan"
author = "the memplan developers"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "memplan"
html_theme_options = {"sidebar_hide_name": False}
html_copy_source = False
root_doc = MAP
source_suffix = {".md": "markdown"}
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "tests/README.md"]
myst_heading_anchors = 4
highlight_language = "none"
suppress_warnings = ["myst.header"]  # guides start their sections as they need them
linkcheck_ignore = [r"https?://(localhost|127\.0\.0\.1)"]


def navigation(text: str) -> str:
    """Returns the map with one hidden table of contents per section, made of the section's links."""
    sections = re.split(r"(?m)^(?=## )", text)
    for k, section in enumerate(sections[1:], start=1):
        caption = section.splitlines()[0].removeprefix("## ").split(":")[0]
        links = {normpath(Path(MAP).parent / page): " ".join(text.split()) for text, page in LINK.findall(section)}
        pages = "\n".join(f"{text} </{page}>" for page, text in links.items())
        sections[k] = f"{section}\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {caption}\n\n{pages}\n```\n\n"
    return "".join(sections)


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Adds the navigation to the map while Sphinx reads it."""
    if name == MAP:
        source[0] = navigation(source[0])


def write_start(app: Sphinx, error: Exception | None) -> None:
    """Writes a start page that leads to the map."""
    if error is None:
        head = f'<title>memplan</title><meta http-equiv="refresh" content="0; url={MAP}.html">'
        Path(app.outdir, "index.html").write_text(f"<!DOCTYPE html>{head}<a href={MAP}.html>memplan</a>\n")


def setup(app: Sphinx) -> None:
    """Connects these functions to Sphinx."""
    app.connect("source-read", read)
    app.connect("build-finished", write_start)
