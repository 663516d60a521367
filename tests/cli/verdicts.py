"""verdicts.py MEMPLAN - a verdict about a card's memory is about PyTorch, unless --rules or the device says otherwise.

Every figure is compared with the answer of `estimate MODEL --rules R --json`, whose peak needs no card. Where a second figure is
known, the verdict has both. Limits of MPS must leave a job of PyTorch its peak.
"""

import json
import re
import subprocess
import sys

MEMPLAN = sys.argv[1]
GPT2 = ["gpt2", "--dim", "layers=2", "--dim", "width=64", "--dim", "heads=4", "--dim", "vocabulary=512", "--dim", "sequence=128"]
MODEL = [*GPT2, "--batch", "8"]


def run(*words: str) -> tuple[str, int]:
    done = subprocess.run([MEMPLAN, *words], capture_output=True, text=True)
    return " ".join(done.stdout.split()), done.returncode


def peak(*words: str) -> int:
    return json.loads(subprocess.run([MEMPLAN, "estimate", *words, "--json"], capture_output=True, text=True, check=True).stdout)["peak_bytes"]


def text(size: int) -> str:
    return f"{size / 2**20:.2f} MiB"


OF = {rules: peak(*MODEL, "--rules", rules) for rules in ("pytorch", "executor")}
BETWEEN = (OF["pytorch"] + OF["executor"]) // 2  # memplan's executor fits there with everything kept, PyTorch does not
CARD = f"t4,memory={BETWEEN},reserve=0"
assert OF["executor"] < BETWEEN < OF["pytorch"], OF

# the card, who trains, and whether keep-all fits
CASES = [
    ([], "pytorch"),
    (["--rules", "pytorch"], "pytorch"),
    (["--rules", "executor"], "executor"),
    (["--rules", "memplan"], "executor"),
]
for more, rules in CASES:
    other = "executor" if rules == "pytorch" else "pytorch"
    name = {"pytorch": "in PyTorch", "executor": "in memplan"}
    fits = rules == "executor"
    verdict = "Fits" if fits else "Does not fit"
    for quiet in ([], ["-q"]):
        out, _ = run("estimate", *MODEL, "--device", CARD, *more, *quiet)
        said = f", {name[rules]}: keeping everything takes {text(OF[rules])}, {text(OF[other])} {name[other]}. {verdict} the"
        assert out.count(said) == (1 if quiet else 2), (more, quiet, said, out)
    answer = json.loads(subprocess.run([MEMPLAN, "estimate", *MODEL, "--device", CARD, *more, "--json"], capture_output=True, text=True).stdout)
    assert answer["rules"] == rules and answer["device"]["fits"] is fits and answer["peak_bytes"] == OF[rules], answer["device"]
    assert answer["other_rules"]["peak_bytes"] == OF[other]
    # the exit status of a plan that keeps everything: 0 if it fits, 1 if it is refused
    for budget in ([], ["--budget", "device"]):
        out, status = run("plan", *MODEL, "--device", CARD, "--solver", "none", "--no-offsets", "-q", *(budget or ["--budget", "device"]), *more)
        assert status == (0 if fits else 1) and name[rules] in out, (more, out, status)
    if more and more[1] != "memplan":
        continue  # the rest takes seconds
    # fit: the largest batch that is kept is the largest one whose peak fits
    batch = json.loads(subprocess.run([MEMPLAN, "fit", *GPT2, "--device", CARD, "--effort", "quick", "--json", *more], capture_output=True, text=True).stdout)
    kept = batch["batch_keep_all"]
    assert batch["rules"] == rules and (kept >= 8) is fits, batch
    assert peak(*GPT2, "--batch", str(kept), "--rules", rules) <= BETWEEN < peak(*GPT2, "--batch", str(kept + 1), "--rules", rules), kept
    assert batch["other_rules"]["peak_bytes"] == peak(*GPT2, "--batch", str(kept), "--rules", other)
    # share: a job that keeps everything may have its peak under MPS
    out, _ = run("share", MODEL[0], *MODEL, "--memory", "200MiB", "--reserve", "1MiB", "--effort", "quick", *more)
    limits = [int(limit) for limit in re.findall(r'"0=(\d+)M"', out)]
    assert len(limits) == 2 and min(limits) * 2**20 >= OF[rules] + 2**20, (more, limits, OF[rules])
    assert f", {name[rules]}, in the 200.00 MiB of a100" in out and f"{name[other]} keep all takes {text(OF[other])}" in out, out

# without a card's name; answers about the memory of a card are about PyTorch too; memplan's backends run memplan
assert ", in PyTorch," in run("fit", *GPT2, "--memory", "8MiB", "--effort", "quick", "-q")[0]
assert ", in PyTorch:" in run("plan", *MODEL, "--effort", "quick", "-q")[0]
assert ", in memplan:" in run("estimate", *MODEL, "--device", "cpu", "-q")[0]
assert ", in memplan," in run("fit", *GPT2, "--device", "cpu", "--memory", "8MiB", "--effort", "quick", "-q")[0]
