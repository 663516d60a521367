"""report_page.py PAGE...: the requirements on a report, by an independent parser.

Elements are closed in order, there are two scripts whatever names say, nothing is loaded from anywhere, and the picture
shows the live tensors of the table.
"""
import html.parser
import json
import re
import sys

VOID = {"meta", "input", "br"}
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
APART = ("parameters, batch", "optimizer state", "workspace")


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.scripts, self.data, self.ids, self.pictures, self.steps = [], 0, "", set(), 0, []

    def handle_starttag(self, tag, attributes):
        at = dict(attributes)
        assert not {"src", "href", "xlink:href"} & set(at), f"<{tag}> loads something: {at}"
        self.pictures += tag == "svg"
        if step := re.match(r"step (\d+) of (\d+), ", at.get("xlink:title", "")):
            self.steps.append((int(step[1]), int(step[2]), re.findall(r"^\s+(\D+) ([\d.]+) (\w*B)$", at["xlink:title"], re.M)))
        if tag == "script":
            self.scripts += 1
        if "id" in at:
            self.ids.add(at["id"])
        if tag not in VOID:
            self.open.append((tag, at.get("id")))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, text):
        if self.open and self.open[-1] == ("script", "data"):
            self.data += text


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page = Page()
    page.feed(text)
    page.close()
    assert not page.open, f"{path}: {page.open} is never closed"
    assert page.scripts == 2, f"{path}: {page.scripts} scripts"
    assert {"timeline", "tensors", "modules", "search"} <= page.ids, path
    assert "default-src 'none'" in text and "url(" not in text and "import" not in text and "fetch(" not in text
    data = json.loads(page.data)
    assert page.pictures == 1 and page.steps, f"{path}: {page.pictures} pictures"
    assert {of for _, of, _ in page.steps} == {data["steps"]} and page.steps[0][0] == 1, path
    assert all(0 <= t["begin"] < t["end"] <= data["steps"] for t in data["tensors"])
    # the live tensors of a step are those of the chart, except in-place results, which are listed twice
    if data["n_tensors"] == len(data["tensors"]):
        equal = last = columns = 0
        for step, _, layers in page.steps:
            if step <= last:
                break  # the panel of another tier
            last, columns = step, columns + 1
            shown = [(float(number), UNITS[unit]) for name, number, unit in layers if name not in APART]
            drawn, rounding = sum(n * unit for n, unit in shown), sum(unit for _, unit in shown) * 0.00501
            live = sum(t["bytes"] for t in data["tensors"] if ", " not in t["kind"] and t["begin"] < step <= t["end"])
            assert live >= drawn - rounding, f"{path}: step {step}: {drawn} bytes drawn, {live} in the table"
            equal += live <= drawn + rounding
        assert columns > 1 and 2 * equal >= columns, path
    sizes = [t["bytes"] for t in data["tensors"]]
    assert sizes == sorted(sizes, reverse=True)
