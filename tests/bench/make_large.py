#!/usr/bin/env python3
"""Writes large training graphs, to see how planning scales.

make_large.py transformer N          N layers of 15 forward nodes, with backward nodes and updates as autodiff makes them
make_large.py copies K GRAPH.json    K copies of a graph, each reading the last forward output of the one before, and in backward, for
                                     the gradient that is given (memplan graph --loss none), the last one of the copy behind
make_large.py marked GRAPH.json      a graph without its updates, whose gradients then are results: always live
make_large.py erased GRAPH.json      the same without marks: every node is forward, and a sum is a chain of nodes that read the part before
make_large.py layered N SEED REACH   N nodes without marks, in layers of 8, each reading one to four outputs of layers before, half of
                                     them of the last one, one in k from k or more layers back, REACH at most

make_large.py dense N                N nodes, the first half of them forward, each reading the outputs of all earlier nodes

The graph goes to standard output.
"""
import json
import random
import sys


class Graph:
    def __init__(self, name):
        self.name, self.storages, self.nodes = name, [], []

    def storage(self, name, count, kind):
        self.storages.append({"id": len(self.storages), "name": name, "bytes": count, "kind": kind})
        return len(self.storages) - 1

    def node(self, phase, name, seconds, reads, writes=(), adds=(), **more):
        row = {"id": len(self.nodes), "name": name, "op": name.split("/")[-1], "phase": phase, "seconds": seconds,
               "reads": list(reads), "writes": list(writes), "adds": list(adds)}
        self.nodes.append({**row, **more})
        return len(self.nodes) - 1

    def write(self, tick):
        json.dump({"format": "memplan-graph", "version": 1, "name": self.name, "tick_seconds": tick,
                   "storages": self.storages, "nodes": self.nodes}, sys.stdout)


BATCH, LENGTH, WIDTH, HEADS = 8, 512, 1024, 16
FLOPS, BANDWIDTH = 60e12, 1.3e12  # per second; values of 4 bytes


def transformer(n_layers):
    g = Graph(f"transformer{n_layers}")
    rows = BATCH * LENGTH
    stream, wide, table = 4 * rows * WIDTH, 16 * rows * WIDTH, 4 * BATCH * HEADS * LENGTH * LENGTH
    backward = []  # calls that make the backward nodes, in forward order
    updates = []
    gradient = {}

    def moved(count):
        return round(2e-6 + count / BANDWIDTH, 9)

    def product(flops):
        return round(4e-6 + flops / FLOPS, 9)

    def grad(s, summed=False):
        if s not in gradient:
            gradient[s] = g.storage("d" + g.storages[s]["name"], g.storages[s]["bytes"], "activation_gradient")
        return gradient[s]

    def weight(name, count):
        w = g.storage(name, count, "parameter")
        updates.append((w, g.storage(name + "/moments", 2 * count, "optimizer_state"),
                        g.storage("d" + name, count, "gradient")))
        return w, updates[-1][2]

    def norm(name, x, is_sum):
        w, dw = weight(name + "/scale", 8 * WIDTH)
        y = g.storage(name, stream, "activation")
        stats = g.storage(name + "/statistics", 8 * rows, "saved")
        f = g.node("forward", name, moved(2 * stream), [x, w], [y, stats])

        def back():
            to = {"adds": [grad(x)], "writes": [dw]} if is_sum else {"writes": [grad(x), dw]}
            g.node("backward", name + "/backward", moved(3 * stream), [x, w, stats, grad(y)], forward_of=f, **to)
        backward.append(back)
        return y

    def linear(name, x, n_in, n_out, is_sum=False):
        w, dw = weight(name + "/weight", 4 * n_in * n_out)
        y = g.storage(name, 4 * rows * n_out, "activation")
        t = product(2.0 * rows * n_in * n_out)
        f = g.node("forward", name, t, [x, w], [y])

        def back():
            to = {"adds": [grad(x)]} if is_sum else {"writes": [grad(x)]}
            g.node("backward", name + "/data", t, [grad(y), w], forward_of=f, **to)
            g.node("backward", name + "/weight", t, [grad(y), x], [dw], forward_of=f)
        backward.append(back)
        return y

    def batched(name, a, b, size):
        y = g.storage(name, size, "activation")
        t = product(2.0 * rows * LENGTH * WIDTH)
        f = g.node("forward", name, t, [a, b], [y])

        def back():
            g.node("backward", name + "/left", t, [grad(y), b], [grad(a)], forward_of=f)
            g.node("backward", name + "/right", t, [grad(y), a], [grad(b)], forward_of=f)
        backward.append(back)
        return y

    def pointwise(name, x, size, reads_output):
        y = g.storage(name, size, "activation")
        f = g.node("forward", name, moved(2 * size), [x], [y], in_place=[[x, y]])

        def back():
            g.node("backward", name + "/backward", moved(3 * size), [grad(y), y if reads_output else x], [grad(x)],
                   in_place=[[grad(y), grad(x)]], forward_of=f)
        backward.append(back)
        return y

    def dropout(name, x, size):
        y, mask = g.storage(name, size, "activation"), g.storage(name + "/mask", size // 4, "saved")
        f = g.node("forward", name, moved(2 * size), [x], [y, mask], in_place=[[x, y]], flags=["random"])

        def back():
            g.node("backward", name + "/backward", moved(2 * size), [grad(y), mask], [grad(x)],
                   in_place=[[grad(y), grad(x)]], forward_of=f)
        backward.append(back)
        return y

    def add(name, x, branch):
        y = g.storage(name, stream, "activation")
        f = g.node("forward", name, moved(3 * stream), [x, branch], [y], in_place=[[branch, y]])

        def back():  # the one that adds to the sum first
            g.node("backward", name + "/backward", moved(3 * stream), [grad(y)], [grad(branch)], [grad(x)], forward_of=f)
        backward.append(back)
        return y

    x = first = g.storage("embedded", stream, "input")
    for k in range(n_layers):
        p = f"layer{k}/"
        y = norm(p + "norm1", x, True)
        q, key, v = (linear(p + name, y, WIDTH, WIDTH, True) for name in ("query", "key", "value"))
        s = batched(p + "scores", q, key, table)
        s = pointwise(p + "softmax", s, table, True)
        s = dropout(p + "dropout", s, table)
        c = batched(p + "context", s, v, stream)
        c = linear(p + "projection", c, WIDTH, WIDTH)
        x = add(p + "add1", x, c)
        y = norm(p + "norm2", x, True)
        h = linear(p + "wide", y, WIDTH, 4 * WIDTH)
        h = pointwise(p + "gelu", h, wide, False)
        h = linear(p + "narrow", h, 4 * WIDTH, WIDTH)
        x = add(p + "add2", x, h)
    loss = g.storage("loss", 4, "activation")
    g.node("loss", "loss", moved(stream), [x], [loss])
    g.node("backward", "loss/backward", moved(stream), [x], [grad(x)])
    for back in reversed(backward):
        back()
    for w, state, dw in updates:
        g.node("update", g.storages[w]["name"] + "/update", moved(7 * g.storages[w]["bytes"]), [w, state, dw], [w, state])
    g.storages[first]["kind"] = "input"
    g.write(1e-9)


def copies(n, file):
    with open(file) as f:
        one = json.load(f)
    bytes_of = {s["id"]: s for s in one["storages"]}
    by_id = sorted(one["storages"], key=lambda s: s["id"])
    number = {s["id"]: k for k, s in enumerate(by_id)}
    forward = [v for v in one["nodes"] if v["phase"] == "forward"]
    behind = [v for v in one["nodes"] if v["phase"] == "backward"]
    updates = [v for v in one["nodes"] if v["phase"] == "update"]
    if len(forward) + len(behind) + len(updates) < len(one["nodes"]):
        sys.exit(f"{file}: a graph with a loss of its own; write it with --loss none")
    sink = forward[-1]["writes"][0]
    made = {s for v in one["nodes"] for s in v["writes"] + v.get("adds", [])}
    source = forward[0]["reads"]
    source = next(s for s in source if s not in made and bytes_of[s]["kind"] in ("parameter", "input"))
    first_gradient = next(s for s in behind[-1]["writes"] if bytes_of[s]["kind"] != "parameter")
    given = [s["id"] for s in one["storages"] if s["kind"] == "input" and not any(s["id"] in v["reads"] for v in forward)]
    seed = next(s for s in given if any(s in v["reads"] for v in behind))
    g = Graph(f"{one['name']}x{n}")
    size = len(by_id)
    for k in range(n):
        for s in by_id:
            g.storages.append({**s, "id": size * k + number[s["id"]], "name": f"{k}/{s['name']}"})

    def at(s, k):
        if s == source and k > 0:
            s, k = sink, k - 1
        elif s == seed and k < n - 1:
            s, k = first_gradient, k + 1
        return size * k + number[s]

    order = [(v, k) for k in range(n) for v in forward] + [(v, k) for k in reversed(range(n)) for v in behind]
    order += [(v, k) for k in range(n) for v in updates]
    for v, k in order:
        row = {**v, "id": len(g.nodes), "name": f"{k}/{v['name']}"}
        row.pop("forward_of", None)
        for key in ("reads", "writes", "adds"):
            row[key] = list(dict.fromkeys(at(s, k) for s in v.get(key, [])))
        row["in_place"] = [[at(a, k), at(b, k)] for a, b in v.get("in_place", [])]
        g.nodes.append(row)
    g.write(one.get("tick_seconds", 1.0))


def without_updates(file):
    """A graph without its updates. Storages that only updates use are left out; gradients that they read are always live."""
    with open(file) as f:
        whole = json.load(f)
    g = Graph(whole["name"])
    read = {s for v in whole["nodes"] if v["phase"] == "update" for s in v["reads"]}
    nodes = [v for v in whole["nodes"] if v["phase"] != "update"]
    used = {s for v in nodes for s in v["reads"] + v["writes"] + v.get("adds", [])}
    number = {}
    for s in whole["storages"]:
        if s["id"] in used:
            number[s["id"]] = g.storage(s["name"], s["bytes"], "buffer" if s["kind"] == "gradient" and s["id"] in read else s["kind"])
    for v in nodes:
        row = {**v, "id": len(g.nodes), "in_place": [[number[a], number[b]] for a, b in v.get("in_place", [])]}
        row.pop("forward_of", None)
        for key in ("reads", "writes", "adds"):
            row[key] = [number[s] for s in v.get(key, [])]
        g.nodes.append(row)
    return g, whole.get("tick_seconds", 1.0)


def erased(file):
    g, tick = without_updates(file)
    left, part = {}, {}
    for v in g.nodes:
        for s in v["adds"]:
            left[s] = left.get(s, 0) + 1
    for v in g.nodes:
        v["phase"] = "forward"
        for s in v["adds"]:
            left[s] -= 1
            to = g.storage(f"{g.storages[s]['name']}/{left[s]}", g.storages[s]["bytes"], "activation") if left[s] else s
            v["in_place"] = [[a, to if b == s else b] for a, b in v["in_place"]]
            if s in part:
                v["reads"].append(part[s])
                v["in_place"].append([part[s], to])
            v["writes"].append(to)
            part[s] = to
        v["adds"] = []
    for s in g.storages:
        if s["kind"] in ("gradient", "activation_gradient"):
            s["kind"] = "activation"
    g.write(tick)


def layered(n, seed, reach):
    width, source, g = 8, random.Random(seed), Graph(f"layered{n}-{seed}-{reach}")
    for v in range(n):
        layer, reads = v // width, []
        for _ in range(source.randint(1, 4) if layer else 0):
            back = min(int(1 / (1 - source.random())), reach, layer)
            reads.append((layer - back) * width + source.randrange(width))
        s = g.storage(f"s{v}", source.randint(100, 6000), "activation")
        g.node("forward", f"n{v}", source.randint(1, 1000) * 1e-6, list(dict.fromkeys(reads)), [s])
    g.write(1e-6)


def dense(n):
    g = Graph(f"dense{n}")
    for v in range(n):
        s = g.storage(f"s{v}", 8, "activation")
        g.node("forward" if v < n // 2 else "backward", f"n{v}", 1e-6, range(v), [s])
    g.write(1e-6)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "transformer":
        transformer(int(sys.argv[2]))
    elif len(sys.argv) == 4 and sys.argv[1] == "copies":
        copies(int(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) == 3 and sys.argv[1] == "marked":
        g, tick = without_updates(sys.argv[2])
        g.write(tick)
    elif len(sys.argv) == 3 and sys.argv[1] == "erased":
        erased(sys.argv[2])
    elif len(sys.argv) == 5 and sys.argv[1] == "layered":
        layered(*(int(x) for x in sys.argv[2:]))
    elif len(sys.argv) == 3 and sys.argv[1] == "dense":
        dense(int(sys.argv[2]))
    else:
        sys.exit(__doc__)
