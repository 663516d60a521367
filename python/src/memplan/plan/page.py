"""A report as HTML for notebooks: the result, memory over the step, tensors at the peak, and remedies.

Text uses the notebook's colours, so that it is readable in light and dark themes. The picture has a white background.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Iterable
from html import escape

from memplan.budget import in_units
from memplan.errors import MemplanError
from memplan.plan.advice import what_would_help
from memplan.plan.graph_report import GraphReport
from memplan.plan.holders import WORDS, Holder

MOST_ROWS = 8
STYLE = """
.memplan { max-width: 68em; line-height: 1.45; overflow-wrap: anywhere; }
.memplan h4 { margin: 1.1em 0 0.3em; font-size: 1em; }
.memplan p { margin: 0.2em 0; }
.memplan .answer { font-size: 1.25em; }
.memplan .wide { overflow-x: auto; }
.memplan .wide svg { display: block; width: 100%; min-width: 44em; height: auto; border-radius: 6px; }
.memplan .bars { display: grid; grid-template-columns: max-content max-content 1fr; gap: 0.15em 0.8em; align-items: center; }
.memplan .bar { height: 0.8em; background: currentColor; opacity: 0.35; border-radius: 2px; }
.memplan .bar.this { background: #3b82f6; opacity: 1; }
.memplan .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
div.memplan table { border-collapse: collapse; background: transparent; color: inherit; margin: 0; }
div.memplan table td, div.memplan table th { text-align: left; padding: 0.15em 0.9em 0.15em 0; color: inherit;
  background: transparent; border: 0; vertical-align: top; white-space: nowrap; }
div.memplan table .number { text-align: right; }
.memplan .faint { opacity: 0.7; }
"""


def page(graphs: Iterable[GraphReport], others: Iterable[str]) -> str:
    """Return the HTML for all graphs, largest peak first, and sentences about graphs without a plan."""
    parts = [of_graph(graph) for graph in sorted(graphs, key=lambda g: -g.planned_bytes)]
    parts += [f"<p>{escape(sentence)}</p>" for sentence in others]
    return f'<div class="memplan"><style>{STYLE}</style>{"".join(parts) or "<p>nothing is planned yet</p>"}</div>'


def of_graph(graph: GraphReport) -> str:
    return "".join(
        [
            f'<p class="answer"><b>{in_units(graph.planned_bytes)}</b> at its peak, within {in_units(graph.budget_bytes)};'
            f" <b>{escape(time_of(graph))}</b></p>",
            f'<p class="faint">{escape(beside(graph))}</p>',
            bars(graph),
            "<h4>Memory over the step</h4>",
            f'<div class="wide">{timeline(graph)}</div>',
            "<h4>Who holds the peak</h4>",
            f'<div class="wide">{holders(graph)}</div>',
            helps(what_would_help(graph)),
            *(f'<p class="faint">{escape(note)}</p>' for note in graph.notes),
        ]
    )


def time_of(graph: GraphReport) -> str:
    return "extra time not known" if math.isnan(graph.overhead) else f"{graph.overhead:+.1%} time"


def beside(graph: GraphReport) -> str:
    proved = "" if math.isnan(graph.proved_overhead) else f"; no plan takes less than {graph.proved_overhead:+.1%}"
    return f"{graph.name}: {len(graph.recomputed)} of {graph.n_operators} operators run again{proved}"


def bars(graph: GraphReport) -> str:
    known = [
        ("keeping everything", graph.keep_all_bytes, ""),
        ("this plan", graph.planned_bytes, " this"),
        ("no order takes less", graph.floor_bytes, ""),
        ("static", graph.static_bytes, ""),
    ]
    most = max(1, *(n for _, n, _ in known))
    rows = (
        f'<span>{name}</span><span class="number">{in_units(n)}</span>'
        f'<span><div class="bar{kind}" style="width: {100 * n / most:.1f}%"></div></span>'
        for name, n, kind in known
    )
    return f'<div class="bars">{"".join(rows)}</div>'


def timeline(graph: GraphReport) -> str:
    """Return the library's picture as SVG for a page."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "timeline.svg")
        try:
            graph.planning.picture(path, graph.name)
        except MemplanError as error:
            return f"<p>{escape(str(error))}</p>"
        with open(path, encoding="utf-8") as file:
            text = file.read()
    # ids must be unique in a page, which contains several pictures
    text = re.sub(r' id="[^"]*"', "", text[text.index("<svg") :])
    return re.sub(r'<svg width="[^"]*" height="[^"]*"', "<svg", text, count=1)


def row(holder: Holder) -> str:
    line = os.path.join(*holder.line.file.split(os.sep)[-2:]) + f":{holder.line.number}" if holder.line is not None else ""
    cells = (holder.name, WORDS.get(holder.kind, holder.kind), holder.module, line)
    first, *rest = (f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr>{first}<td class="number">{in_units(holder.n_bytes)}</td>{"".join(rest)}</tr>'


def holders(graph: GraphReport) -> str:
    rows = [row(holder) for holder in graph.holders[:MOST_ROWS]]
    rest = graph.holders[MOST_ROWS:]
    if rest:
        n_bytes = in_units(sum(h.n_bytes for h in rest))
        rows.append(f'<tr><td>{len(rest)} more</td><td class="number">{n_bytes}</td><td></td><td></td><td></td></tr>')
    rows.append(f'<tr><td>static</td><td class="number">{in_units(graph.static_bytes)}</td><td></td><td></td><td></td></tr>')
    head = '<tr><th>tensor</th><th class="number">bytes</th><th>kind</th><th>module</th><th>line</th></tr>'
    at = f"<p>at {escape(graph.peak_at or 'its end')}</p>"
    return f"{at}<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def helps(sentences: list[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<h4>What would help</h4><ul>{items}</ul>"
