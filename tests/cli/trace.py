"""trace.py TRACE [PLAN]: a trace in the Trace Event Format holds a step of PLAN as slices that follow each other, and the
counters' highest sum is its peak."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    trace = json.load(file)
events = trace["traceEvents"]
assert {e["ph"] for e in events} == {"M", "X", "C"} and all(isinstance(e["pid"], int) for e in events)
slices = [e for e in events if e["ph"] == "X"]
counters = [e for e in events if e["ph"] == "C"]
assert [e["args"]["step"] for e in slices] == list(range(1, len(slices) + 1))
assert {e["cat"] for e in slices} <= {"forward", "recompute", "backward", "update"}
for one, two in zip(slices, slices[1:]):
    assert one["dur"] >= 0 and abs(one["ts"] + one["dur"] - two["ts"]) < 1e-6 * max(1, two["ts"]), (one, two)
assert [e["ts"] for e in counters] == [e["ts"] for e in slices]
sums = [sum(e["args"].values()) for e in counters]
assert max(sums) == trace["otherData"]["peak_bytes"] == sums[trace["otherData"]["peak_step"] - 1]
if len(sys.argv) > 2:
    with open(sys.argv[2], encoding="utf-8") as file:
        plan = json.load(file)
    assert len(slices) == len(plan["steps"]) and max(sums) == plan["peak_bytes"]
    took = 1e-6 * (slices[-1]["ts"] + slices[-1]["dur"])
    assert abs(took - plan["seconds"]) < 1e-3 * plan["seconds"], (took, plan["seconds"])
