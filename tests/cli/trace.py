"""trace.py TRACE [PLAN]: a trace in the Trace Event Format holds a step of PLAN as slices that follow each other on each thread,
and the highest sum of a tier's counters is its peak."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    trace = json.load(file)
events = trace["traceEvents"]
assert {e["ph"] for e in events} == {"M", "X", "C"} and all(isinstance(e["pid"], int) for e in events)
slices = [e for e in events if e["ph"] == "X"]
counters = [e for e in events if e["ph"] == "C" and e["name"] == "live bytes"]
assert [e["args"]["step"] for e in slices] == list(range(1, len(slices) + 1))
assert {e["cat"] for e in slices} <= {"forward", "recompute", "copy", "backward", "update"}
threads = {e["tid"] for e in slices}
for thread in threads:
    own = [e for e in slices if e["tid"] == thread]
    for one, two in zip(own, own[1:]):
        idle = two["ts"] - (one["ts"] + one["dur"])
        assert one["dur"] >= 0 and idle > -1e-6 * max(1, two["ts"]), (one, two)
        assert len(threads) > 1 or idle < 1e-6 * max(1, two["ts"]), (one, two)
assert [e["ts"] for e in counters] == [e["ts"] for e in slices]
sums = [sum(e["args"].values()) for e in counters]
assert max(sums) == trace["otherData"]["peak_bytes"] == sums[trace["otherData"]["peak_step"] - 1]
tiers = trace["otherData"].get("tiers", [])
for tier in tiers:
    there = [sum(e["args"].values()) for e in events if e["ph"] == "C" and e["name"] == "live bytes, " + tier["name"]]
    assert len(there) == len(slices) and max(there) == tier["peak_bytes"] == there[tier["peak_step"] - 1], tier
if len(sys.argv) > 2:
    with open(sys.argv[2], encoding="utf-8") as file:
        plan = json.load(file)
    assert len(slices) == len(plan["steps"]) and max(sums) == plan["peak_bytes"]
    assert [t["peak_bytes"] for t in tiers] == [t["peak_bytes"] for t in plan.get("tiers", [])]
    took = 1e-6 * max(e["ts"] + e["dur"] for e in slices)
    assert abs(took - plan["seconds"]) < 1e-3 * plan["seconds"], (took, plan["seconds"])
