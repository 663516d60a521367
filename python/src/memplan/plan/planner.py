"""From a captured graph to a plan within the budget, and to graphs that execute the plan."""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from memplan.budget import device_bytes, in_units, is_smallest, kind_of_budget, read_link, resolve
from memplan.costs.cache import replace_file
from memplan.costs.measure import Cost, context_bytes
from memplan.costs.roofline import Device
from memplan.errors import BudgetError, FallbackWarning, MemplanError
from memplan.graph.capture import DYNAMIC, Capture
from memplan.graph.row_regions import chunks_of
from memplan.library.calls import INTERFACE
from memplan.library.planning import NO_BUDGET, Copy, Step
from memplan.library.quantities import try_budgets
from memplan.memory.host import Pool
from memplan.memory.liveness import Liveness, keys_of, saved_bytes
from memplan.memory.trace import Trace, trace_of
from memplan.plan.card_room import excess_of, room_on
from memplan.plan.copies import Host
from memplan.plan.draft import drafted
from memplan.plan.emit import Emission, copied, fake_state
from memplan.plan.emitted import Emitted
from memplan.plan.graph_report import Copied, GraphReport, Recomputed
from memplan.plan.holders import holders_at_peak, module_of, who_holds
from memplan.plan.library_graph import OUTSIDE, library_graph
from memplan.plan.notes import notes_of
from memplan.plan.options import Options
from memplan.plan.overlapped_collectives import Time, put_waits, spread
from memplan.ranks.rank_group import ALONE, RankGroup, in_memory, saved

# maximum number of searches; a further search has a smaller target, because the final graphs may exceed the plan's peak
ROUNDS = 4
USUAL_LINK = "pcie4"  # the link of a GPU that is missing from the library's table


class GraphPlanner:
    """The planner of one captured graph. `outside_bytes` is the constant memory besides it."""

    def __init__(
        self, capture: Capture, costs: dict[fx.Node, Cost], outside_bytes: int, name: str, rank_group: RankGroup = ALONE
    ) -> None:
        self.capture, self.costs, self.name, self.rank_group = capture, costs, name, rank_group
        for node, cost in costs.items():
            capture.take_sizes(node, cost.result_bytes)
        capture.keep_apart()
        self.results_bytes = capture.results_bytes
        self.static_keys = keys_of(capture.primals)
        self.held = capture.user_outputs
        self.planning = library_graph(capture, costs, outside_bytes, name)
        self.outside_bytes = outside_bytes
        self.static_bytes = self.planning.number("static_bytes")
        self.state_like = fake_state(capture)
        self.copies_inputs = self.has_graphs = True  # has_graphs: a finished plan has graphs, which PyTorch cuts
        # bytes reserved for other calls at the end of forward
        self.room_bytes = capture.operations[capture.boundary].workspace_bytes
        # for each set of options: the peak of the smallest plan, without outside_bytes
        self.smallest_bytes: dict[tuple[Any, ...], int] = {}
        # during a solution: the options, the draft and the steps of the smallest plan
        self.known_smallest: tuple[tuple[Any, ...], Emitted, bytes] | None = None
        self.host: Host | None = None  # host memory for copies, if plans may copy
        self.host_bytes = 0  # bytes of host memory that copies may use
        self.was_cut_short = False  # whether a search ended early, including searches without a plan
        self.is_replayed = False  # whether the plan has been found for another input size
        self.chunks = chunks_of(capture.joint.graph)
        self.choice: Any = None  # the Choice among numbers of chunks (memplan.plan.chunk_choice); None: there is no choice

    def again(self, outside_bytes: int) -> GraphPlanner:
        """Return a planner of the same graph for another budget and outside memory. Reports of earlier plans remain valid."""
        made = type(self)(self.capture, self.costs, outside_bytes, self.name, self.rank_group)
        if (made.room_bytes, made.results_bytes) == (self.room_bytes, self.results_bytes):
            made.smallest_bytes = self.smallest_bytes
        made.choice = self.choice
        return made

    def offload(self, pool: Pool, taken_bytes: int, options: Options) -> None:
        """Permit copies to the part of the host memory that other graphs do not use. Raises MemplanError."""
        left = pool.most_bytes - taken_bytes
        if self.host is not None or left <= 0:
            return
        device = self.device()
        if device.type == "meta" and options.device is None:
            raise MemplanError("offload= needs a named device on the meta device (device='h100')")
        if len(known := self.capture.devices()) > 1:
            raise MemplanError(f"offload= needs a graph on one device, but {self.name} is on {' and '.join(map(str, known))}")
        self.host, self.host_bytes = Host(self.capture, device, pool), left
        self.static_keys |= self.host.keys()
        link, rate = read_link(options.link) if options.link is not None else ("", 0.0)
        storages = sorted(self.host.makers), sorted(self.capture.moved)
        card = torch.cuda.get_device_name(device) if device.type == "cuda" else USUAL_LINK
        try:
            self.planning.offload(*storages, link or (options.device.name if options.device is not None else card), rate)
        except MemplanError:  # the library's table does not contain this GPU
            if link:
                raise
            self.planning.offload(*storages, USUAL_LINK, rate)
        self.static_bytes = self.planning.number("static_bytes")

    def emit(self, steps: list[Step]) -> Emitted:
        """Return a draft of these steps, with the memory counted on them."""
        emission = Emission(self.capture, steps, self.costs, self.state_like, self.copies_inputs, self.host)
        return drafted(emission, self.counted, self.has_graphs)

    def counted(self, forward: Any, backward: Any, host_bytes: int, collectives: Time) -> Emitted:
        above = Liveness(forward.graph, self.capture.sizes, self.static_keys)
        below, held_bytes = self.below(backward.graph, keys_of(self.held), set())
        peak = self.static_bytes + max(above.peak_bytes(self.results_bytes), below.peak_bytes(held_bytes))
        saved = saved_bytes(backward.graph, self.capture.sizes, self.static_keys)
        made = Emitted(forward, backward, above, below, peak, saved, held_bytes, host_bytes, collectives)
        made.peak_bytes = max(peak, self.static_bytes + made.waiting_bytes + self.capture.new_bytes)
        return made

    def _overlap_collectives(self, made: Emitted, budget: int) -> Emitted:
        """Let collectives overlap with compute as far as the budget permits."""
        most, held_bytes = max(budget, made.peak_bytes), made.held_bytes
        time = Time()
        for graph, live in (
            (made.forward, made.above.live_bytes(self.results_bytes)),
            (made.backward, made.below.live_bytes(held_bytes)),
        ):
            spread(graph.graph, [most - self.static_bytes - n for n in live], most - made.peak_bytes, time)
        made = self.counted(made.forward, made.backward, made.host_bytes, time) if time.hidden else made
        room = most - self.static_bytes
        waits = put_waits(made.above, room, self.results_bytes, time), put_waits(made.below, room, held_bytes, time)
        return self.counted(made.forward, made.backward, made.host_bytes, time) if any(waits) else made

    def below(self, backward: fx.Graph, held: set[int], absent: set[int]) -> tuple[Liveness, int]:
        """Return the liveness of backward while the user holds the storages `held`, and the bytes of those that backward does
        not read.
        """
        held = held - self.static_keys
        given = keys_of(n for n in backward.nodes if n.op == "placeholder")
        stay = held | keys_of(self.capture.tangents)
        below = Liveness(backward, self.capture.sizes, self.static_keys | absent, stay)
        return below, sum(s.n_bytes for s in self._storages_with(held - given))

    def seen_bytes(self, graph: GraphReport, backward: fx.Graph, unused: Iterable[int], gone: Iterable[int]) -> int:
        """Return the peak of a reported step with another backward.

        Args:
            graph: the report of the step.
            backward: the other backward graph.
            unused: indices of backward's arguments that are absent.
            gone: indices of forward's outputs that the user has released.
        """
        given = [n for n in backward.nodes if n.op == "placeholder"]
        held = keys_of(self.held) - keys_of(self.capture.forward_outputs[k] for k in gone)
        below, held_bytes = self.below(backward, held, keys_of(given[k] for k in unused))
        return self.static_bytes + max(graph.forward_bytes, below.peak_bytes(held_bytes))

    def trace(self, emitted: Emitted) -> Trace:
        """Return the step's memory requests, beginning with static memory."""
        before = {f"{s.kind} {s.name}": s.n_bytes for s in self.capture.storages if s.kind not in DYNAMIC}
        return trace_of({**before, OUTSIDE: self.outside_bytes}, emitted.above, emitted.below, self.held)

    def _storages_with(self, keys: set[int]) -> list[Any]:
        nodes = [n for n in self.held if isinstance(n, fx.Node) and keys_of([n]) & keys]
        return [self.capture.storages[s] for s in self.capture.storages_of(nodes)]

    def auto_bytes(self, meant: Device | None, whole: bool = False) -> int:
        """Return the memory for budget "auto": free memory plus the graph's static storages. The rank with the smallest sum
        decides.

        With `device=`, return the memory of the named device in which 19 of 20 such jobs run. `whole`: for budget "device".
        """
        if meant is not None:
            room = room_on(self.capture, meant)
            return room if room >= 0 else meant.room_bytes
        own = device_bytes(self.device(), whole) + (0 if whole else self.static_bytes)
        return min(self.rank_group.of_all(own))

    def within_process(self, budget: int, options: Options) -> Emitted | None:
        """Return graphs within the budget. With "auto" or "device" on a named card, the allocator's reserve fits too."""
        if options.device is None or kind_of_budget(options.budget) not in ("auto", "device"):
            return self.within(budget, options)
        room = room_on(self.capture, options.device)
        found: Emitted | None = None

        def excess(n_bytes: int) -> int:
            nonlocal found
            found = self.within(n_bytes, options)
            return 0 if found is None or room < 0 else excess_of(self.trace(found), room)

        try_budgets(budget, excess)
        return found

    def device(self) -> torch.device:
        for node in self.capture.primals:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and value.device.type != "cpu":
                return value.device
        return torch.device("cpu")

    def solve(self, options: Options, is_first: bool = True) -> tuple[Emitted, int]:
        """Plan the graph. Return graphs whose peak is within the budget, and the budget. Raises BudgetError.

        If a step is planned again (`is_first` is False) and no plan fits, the smallest plan is used and its peak is measured.
        """
        self.ready(options)
        self.was_cut_short = False
        keep_all = self.planning.number("keep_all_bytes")
        budget = resolve(
            options.budget, keep_all, lambda: self.least_bytes(options), lambda whole: self.auto_bytes(options.device, whole)
        )
        # the budget "min" needs no search within a budget, because only the smallest plan fits
        found = None if is_smallest(options.budget) else self.within_process(budget, options)
        found = found or self._smallest(budget, options, is_first)
        self.known_smallest = None  # the next call may change the graphs
        return self._overlap_collectives(found, budget) if self.has_graphs else found, budget

    def ready(self, options: Options) -> None:
        self.planning.set("effort", options.effort)
        self.planning.set("time_limit", options.time_limit)

    def within(self, budget: int, options: Options) -> Emitted | None:
        """Return graphs whose peak is within the budget. Inputs are copied as long as the budget has room for the copies."""
        is_tight = budget < self.planning.number("keep_all_bytes")
        for copies in dict.fromkeys((self._copied_bytes() if is_tight else 0, 0)):
            self.copies_inputs = copies > 0 or not is_tight
            if (emitted := self._within(budget, budget - copies, options)) is not None:
                return emitted
        return None

    def _copied_bytes(self) -> int:
        """Return the maximum size of copies of those inputs that the caller may overwrite."""
        return sum(
            self.capture.storages[s].n_bytes
            for s in self.capture.storages_of(copied(self.capture, True))
            if s not in self.capture.handed
        )

    def _within(self, budget: int, target: int, options: Options) -> Emitted | None:
        """Return graphs of a plan within the target whose peak is within the budget, or None."""
        for k in range(ROUNDS):
            emitted = self._found(target, options) if target >= self.static_bytes else None
            if emitted is None:
                break
            if emitted.peak_bytes <= budget and (emitted := emitted.finished()).peak_bytes <= budget:
                return emitted
            # the graphs need more memory than the plan contains, perhaps more each time, so the target shrinks faster each time
            target -= (emitted.peak_bytes - budget) << k
        return None

    def smallest(self, options: Options) -> Emitted:
        """Return the graphs of the smallest plan. They depend neither on the budget nor on operator times."""
        kind = self._kind(options)
        if self.known_smallest is None or self.known_smallest[0] != kind:
            return self._search_smallest(options).finished()
        _, emitted, plan = self.known_smallest
        if saved(self.planning.save_plan) != plan:
            with in_memory(plan) as path:
                self.planning.take(NO_BUDGET, path)
        self.copies_inputs = False
        return emitted.finished()

    def _search_smallest(self, options: Options) -> Emitted:
        """Return a draft of the smallest plan."""
        self.copies_inputs = False
        found = self._found(None, options)
        assert found is not None
        self.smallest_bytes[self._kind(options)] = found.peak_bytes - self.outside_bytes
        return found

    def _kind(self, options: Options) -> tuple[Any, ...]:
        return options.effort, self.host_bytes, options.link

    def least_bytes(self, options: Options) -> int:
        """Return the peak of the smallest plan."""
        if (kind := self._kind(options)) not in self.smallest_bytes:
            self.known_smallest = kind, self._search_smallest(options), saved(self.planning.save_plan)
        return self.smallest_bytes[kind] + self.outside_bytes

    def _found(self, target: int | None, options: Options) -> Emitted | None:
        """Return a draft of a plan within the target (None: of the smallest), or None."""
        self.planning.set("slab_bytes", self.host_bytes)
        return self.emit(self.planning.schedule()) if self.search(target, options) else None

    def search(self, target: int | None, options: Options) -> bool:
        """Find a plan within the target (None: the smallest), from the cache or by a search. Return whether there is one."""
        budget = NO_BUDGET if target is None else target
        known = [self.planning.hash(), str(target)]

        def find() -> bool:
            return options.other_sizes.searched(self, target, options)

        def take(path: str) -> bool:
            return self.planning.take(budget, path)

        found = self.rank_group.searched(known, find, self.planning.save_plan, take)
        self.was_cut_short |= self.planning.was_cut_short()
        return found

    def searched(self, target: int | None, options: Options) -> bool:
        planning = self.planning
        key = (planning.hash(), target, options.effort, options.time_limit, INTERFACE)
        path = options.kept.plan_path(*key, *(() if self.host is None else (self.host_bytes,)))
        if path is not None and os.path.exists(path):
            with contextlib.suppress(MemplanError):
                return planning.take(NO_BUDGET if target is None else target, str(path))
        found = planning.solve(target, options.progress or options.line.searched)
        if path is not None and not planning.was_ended:
            with contextlib.suppress(MemplanError):
                replace_file(path, planning.save_plan)
        return found

    def _smallest(self, budget: int, options: Options, is_first: bool) -> Emitted:
        """Return a plan with the peak of the smallest plan, the fastest found.

        Raises BudgetError if the peak exceeds the budget at the first planning, unless the user chose on_infeasible="smallest".
        """
        smallest = self.smallest(options)
        if smallest.peak_bytes <= budget or not is_first:
            return self._quicker(smallest, options)
        held = who_holds(*holders_at_peak(self.planning, self.capture), self.static_bytes)
        sentence = (
            f"a budget of {in_units(budget)} ({budget} bytes) cannot be met by {self.name}: the smallest plan found"
            f" needs {in_units(smallest.peak_bytes)} ({smallest.peak_bytes} bytes), {held}; no order of its"
            f" operators needs less than {in_units(self.planning.number('floor_bytes'))}"
        )
        if options.on_infeasible == "smallest":
            warnings.warn(sentence + "; it runs with the smallest plan", FallbackWarning, stacklevel=2)
            return self._quicker(smallest, options)
        raise BudgetError(
            sentence,
            budget_bytes=budget,
            smallest_bytes=smallest.peak_bytes,
            floor_bytes=self.planning.number("floor_bytes"),
        )

    def _quicker(self, smallest: Emitted, options: Options) -> Emitted:
        """Return a faster plan with at most the peak of the smallest plan, or the smallest plan if the search finds none."""
        plan = saved(self.planning.save_plan)
        quicker = self._found(self.planning.number("planned_bytes"), options)
        if quicker is not None and (quicker := quicker.finished()).peak_bytes <= smallest.peak_bytes:
            return quicker
        with in_memory(plan) as path:
            self.planning.take(NO_BUDGET, path)
        return smallest

    def report(self, emitted: Emitted, budget: int, plan_seconds: float, options: Options) -> GraphReport:
        p = self.planning
        # with unknown operator times, the extra time is NaN
        known = math.nan if options.device is None and self.device().type == "meta" else 1.0
        runs = Counter(p.steps())
        peak_at, holders = holders_at_peak(p, self.capture)
        copies = Counter((s.storage, s.is_back) for s in p.schedule() if isinstance(s, Copy))
        return GraphReport(
            name=self.name,
            budget_bytes=budget,
            planned_bytes=emitted.peak_bytes,
            most_bytes=emitted.peak_bytes,
            forward_bytes=emitted.above.peak_bytes(self.results_bytes),
            results_bytes=self.results_bytes,
            keep_all_bytes=p.number("keep_all_bytes"),
            floor_bytes=p.number("floor_bytes"),
            static_bytes=self.static_bytes,
            saved_bytes=emitted.saved_bytes,
            waiting_bytes=emitted.waiting_bytes,
            overhead=known * p.share("planned_ticks"),
            proved_overhead=known * max(0.0, bound) if not math.isnan(bound := p.share("bound_ticks")) else math.nan,
            seconds=known * p.number("planned_ticks") * 1e-9,
            plan_seconds=plan_seconds,
            n_operators=sum(o.source is not None for o in self.capture.operations),
            recomputed=[self._recomputed(step, n, known) for step, n in runs.items() if n > 1],
            copied=[self._copied(s, n) for (s, is_back), n in copies.items() if is_back],
            host_bytes=emitted.host_bytes,
            collectives=emitted.collectives,
            pool=self.host.pool if self.host is not None else None,
            device_type=self.device().type,
            context_bytes=context_bytes(self.device()),
            notes=[*notes_of(self), *(options.device.notes(self.costs) if options.device else [])],
            peak_at=peak_at,
            holders=holders,
            planning=p,
            trace=self.trace(emitted),
            capture=self.capture,
            costs=self.costs,
            chunks=self.chunks,
            card=options.device.name if options.device is not None else "",
        )

    def _copied(self, storage: int, n_back: int) -> Copied:
        known = self.capture.storages[storage]
        return Copied(known.name, known.n_bytes, n_back)

    def _recomputed(self, step: int, runs: int, known: float) -> Recomputed:
        operation = self.capture.operations[step]
        assert operation.source is not None
        module, seconds = module_of(operation.source), known * self.costs[operation.source].seconds
        return Recomputed(operation.name, operation.op, runs, module, seconds)
