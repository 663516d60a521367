"""report_page.py PAGE...: the requirements on a report, by an independent parser.

Elements are closed in order, there are two scripts whatever names say, nothing is loaded from anywhere, and the data add up.
"""
import html.parser
import json
import sys

VOID = {"meta", "input", "br"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.scripts, self.data, self.ids, self.texts = [], 0, "", set(), []

    def handle_starttag(self, tag, attributes):
        at = dict(attributes)
        assert not {"src", "href"} & set(at), f"<{tag}> loads something: {at}"
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
        self.texts.append(text)


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page = Page()
    page.feed(text)
    page.close()
    assert not page.open, f"{path}: {page.open} is never closed"
    assert page.scripts == 2, f"{path}: {page.scripts} scripts"
    assert {"chart", "tensors", "modules", "search"} <= page.ids, path
    assert "default-src 'none'" in text and "url(" not in text and "import" not in text and "fetch(" not in text
    data = json.loads(page.data)
    columns = data["columns"]
    assert columns[0]["first"] == 0 and columns[-1]["end"] == data["steps"]
    assert all(a["end"] == b["first"] for a, b in zip(columns, columns[1:]))
    assert max(sum(c["bytes"]) for c in columns) == data["peak"], path
    assert max(data["keep_all_curve"]) == data["keep_all"], path
    assert all(0 <= t["begin"] < t["end"] <= data["steps"] for t in data["tensors"])
    # the live tensors of a step are those of the chart, except in-place results, which are listed twice
    if data["n_tensors"] == len(data["tensors"]):
        names = [layer["name"] for layer in data["layers"]]
        apart = [names.index(name) for name in ("parameters, batch", "optimizer state", "workspace")]
        equal = 0
        for c in columns:
            live = sum(t["bytes"] for t in data["tensors"] if "tier" not in t and t["begin"] <= c["shown"] < t["end"])
            drawn = sum(c["bytes"]) - sum(c["bytes"][k] for k in apart)
            assert live >= drawn, f"{path}: step {c['shown']}: {drawn} bytes drawn, {live} in the table"
            equal += live == drawn
        assert 2 * equal >= len(columns), path
    # a tier besides the device: its columns are those of its tensors, one step each in a small graph
    for number, tier in enumerate(data.get("beside", {"tiers": []})["tiers"], 1):
        assert [sum(each) for each in tier["columns"]] == [
            sum(t["bytes"] for t in data["tensors"] if t.get("tier") == number and t["begin"] <= c["first"] < t["end"])
            for c in columns], path
        assert max(map(sum, tier["columns"])) == tier["peak"] == sum(tier["columns"][tier["peak_step"]]), path
    for lane in data.get("beside", {"lanes": []})["lanes"]:
        rows = {}
        for bar in lane["bars"]:
            assert rows.get(bar["row"], 0) <= bar["begin"] < bar["end"] <= data["steps"], (path, lane)
            rows[bar["row"]] = bar["end"]
        assert len(rows) <= lane["rows"] and all(a["to"] <= b["from"] for a, b in zip(lane["bars"], lane["bars"][1:])), path
    sizes = [t["bytes"] for t in data["tensors"]]
    assert sizes == sorted(sizes, reverse=True)
