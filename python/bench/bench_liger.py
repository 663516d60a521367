"""The peaks of single modules and losses against Liger's published benchmark, in bytes.

    PYTHONPATH=python/src python python/bench/bench_liger.py ROWS.csv LIGER --libraries FOLDER [--check]

LIGER is a git checkout of github.com/linkedin/Liger-Kernel with its history, and needs Triton. Each row runs the script of the
commit that published it, on the meta device. Old scripts need old versions of transformers. Rows that fail run again with the
folder of each `--libraries`: 4.51.3, then 4.44.2 with tokenizers 0.19.1, each with its dependencies. `--check`: exit
with 1 if a row does not run. Also exit with 1 if a row differs by 512 bytes or more and its reason does not give these bytes.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

from liger_reasons import GRAIN, MEASURED_WITH, MIB, Row, reason_of

DATA = "benchmark/data/all_benchmark_data.csv"
FLOAT32 = 2.0**-23


def one_form(text: str) -> str:
    """Return a JSON object in one form, so that two texts compare."""
    return json.dumps(json.loads(text or "{}"), sort_keys=True)


def rows_of(path: str) -> list[Row]:
    found = []
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if not row["id"].startswith("liger-"):
                continue
            script = row["note"].partition("; script ")[2]
            name, _, value = row["seq"].partition("=")
            if not value:
                name, _, value = row["batch"].partition("=")
            mode = row["quantity"].split(", ")[1].split(" ")[0]
            provider = row["framework"].split("provider ")[1]
            key = (row["model"].removeprefix("module "), provider, mode, name, value)
            found.append(Row(row["id"], (*key, row["value"]), row["gpu"], script))
    return found


def commits_of(rows: list[Row], checkout: str) -> dict[str, list[Row]]:
    """Return the rows by the first commit that contains them."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", checkout, *words], capture_output=True, text=True, check=True).stdout

    wanted = defaultdict(list)
    for row in rows:
        wanted[row.key].append(row)
    found: dict[str, list[Row]] = defaultdict(list)
    for commit in git("log", "--reverse", "--format=%H", "--", DATA).split():
        for line in csv.DictReader(io.StringIO(git("show", f"{commit}:{DATA}"))):
            if line["metric_name"] != "memory":
                continue
            columns = ("kernel_name", "kernel_provider", "kernel_operation_mode", "x_name", "x_value")
            key = (*(line[c] for c in columns), line["y_value_50"])
            for row in [row for row in wanted[key] if row.gpu in line["gpu_name"]]:
                wanted[key].remove(row)
                found[commit].append(replace(row, sizes=one_form(line["extra_benchmark_config_str"])))
    found[""] = [row for rest in wanted.values() for row in rest]
    return found


def script_of(row: Row, texts: dict[str, str]) -> str:
    """Return the path of the script that measures a kernel: the named one, or the first one that names the kernel."""
    known = Path(row.script).name
    return (
        f"benchmark/scripts/{known if known in texts else next((s for s, text in texts.items() if row.key[0] in text), known)}"
    )


def extracted(commit: str, checkout: str, folder: str) -> None:
    """Write the scripts, the package and the tests of a commit into a folder."""
    for paths in (("benchmark/scripts", "src"), (":(glob)test/**/*.py",)):
        archive = subprocess.run(["git", "-C", checkout, "archive", commit, *paths], capture_output=True, check=False).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=False)
    for package in ("test", "src/liger_kernel"):  # else Python imports other packages of these names
        Path(folder, package).mkdir(exist_ok=True)
        Path(folder, package, "__init__.py").touch()


def run_script(tree: str, script: str, rows: list[Row], libraries: str) -> list[int | str]:
    """Run a script in a process of its own. `libraries`: a folder that Python searches first, or ""."""
    names = ("kernel", "provider", "mode", "x_name", "x")
    given = [{**dict(zip(names, row.key, strict=False)), "card": row.card, "sizes": row.sizes} for row in rows]
    run = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "liger_scripts.py"), tree, script],
        check=False,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "TORCHDYNAMO_DISABLE": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, (libraries, os.environ.get("PYTHONPATH")))),
        },
    )
    if run.returncode:
        return [run.stderr.strip().rpartition("\n")[2]] * len(rows)
    found: list[int | str] = json.loads(run.stdout.rpartition("\n")[2])
    return found


def estimated(tree: str, rows: list[Row], libraries: list[str]) -> dict[str, int | str]:
    """Run the scripts of a tree once per card. Rows that fail run again with the next folder of libraries."""
    found: dict[str, int | str] = {}
    texts = {path.name: path.read_text() for path in sorted(Path(tree, "benchmark/scripts").glob("benchmark_*.py"))}
    for folder in ["", *libraries]:
        rest = [row for row in rows if not isinstance(found.get(row.id), int)]
        for script, card in dict.fromkeys((script_of(row, texts), row.card) for row in rest):
            some = [row for row in rest if (script_of(row, texts), row.card) == (script, card)]
            found.update(zip((row.id for row in some), run_script(tree, script, some, folder), strict=True))
    return found


def judged(row: Row, found: int | str) -> str:
    """Return "exact", "reason" (the difference is that of the reason), "differs" or "fails", and print the row."""
    if isinstance(found, str):
        sys.stdout.write(f"{row.id}: {found}\n")
        return "fails"
    difference = found - round(row.measured_mib * MIB)
    grain = max(GRAIN, row.measured_mib * MIB * FLOAT32)  # the scripts print float32
    reason = reason_of(row)
    if abs(difference) < grain:
        verdict = "exact"
    else:
        verdict = "reason" if reason is not None and abs(difference - reason.n_bytes) < grain else "differs"
    sys.stdout.write(
        f"{row.id}: measured {row.measured_mib:.4f} MiB, estimate {found / MIB:.4f}"
        f" ({found / MIB / row.measured_mib - 1:+.2%}, {difference:+} bytes): {verdict}"
        f"{f', {reason.text}' if verdict == 'reason' and reason is not None else ''}\n"
    )
    sys.stdout.flush()
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows")
    parser.add_argument("checkout")
    parser.add_argument("--libraries", action="append", default=[], help="a folder with another version of transformers")
    parser.add_argument("--only", default="", help="rows whose id contains this text")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    verdicts: Counter[str] = Counter()
    for commit, rows in commits_of([row for row in rows_of(given.rows) if given.only in row.id], given.checkout).items():
        code = MEASURED_WITH.get(commit, commit)
        with tempfile.TemporaryDirectory() as tree:
            if rows and commit:
                extracted(code, given.checkout, tree)
            found = estimated(tree, rows, given.libraries) if commit else {row.id: "no commit has this row" for row in rows}
        verdicts.update(judged(row, found[row.id]) for row in rows)
    sys.stdout.write(
        f"{verdicts['exact']} exact, {verdicts['reason']} differ by the bytes of a reason, {verdicts['differs']} differ,"
        f" {verdicts['fails']} do not run\n"
    )
    return int(given.check and verdicts["differs"] + verdicts["fails"] > 0)


if __name__ == "__main__":
    sys.exit(main())
