"""The same rules as memplan.memory.allocator, written to be plain and not fast: a segment is a list of runs."""

from __future__ import annotations

from memplan.memory.allocator import MIB, Settings

FREE, HOLE = 0, -1  # states of a run; a hole is address space without memory; above 0: who has it
ENDLESS = 1 << 46


class SlowAllocator:
    def __init__(self, settings: Settings, limit: int) -> None:
        self.settings, self.limit = settings, limit
        self.segments: list[tuple[bool, list[list[int]]]] = []  # small or not; runs of [size, state]
        self.n_given = 0

    def reserved(self) -> int:
        return sum(size for _, runs in self.segments for size, state in runs if state != HOLE)

    def allocated(self) -> int:
        return sum(size for _, runs in self.segments for size, state in runs if state > 0)

    def allocate(self, n_bytes: int) -> int | None:
        """A number for the block, None where there is no room."""
        size = max(512, -(-n_bytes // 512) * 512)
        small = size <= MIB
        place = self.best(small, size) or self.more(small, size)
        if place is None and self.settings.max_split < ENDLESS and self.give_back_oversize(small, size):
            place = self.more(small, size)
        if place is None:
            self.give_back_all()
            place = self.more(small, size)
        if place is None:
            return None
        runs, k = place
        self.n_given += 1
        rest = runs[k][0] - size
        cut = rest > 0 if small or self.settings.expandable else rest > MIB and size < self.settings.max_split
        runs[k : k + 1] = [[size, self.n_given], [rest, FREE]] if cut else [[runs[k][0], self.n_given]]
        self.tidy()
        return self.n_given

    def free(self, number: int) -> None:
        for _, runs in self.segments:
            for run in runs:
                if run[1] == number:
                    run[1] = FREE
        self.tidy()

    def tidy(self) -> None:
        for _, runs in self.segments:
            merged: list[list[int]] = []
            for size, state in runs:
                if merged and state <= 0 and merged[-1][1] == state:
                    merged[-1][0] += size
                elif size:
                    merged.append([size, state])
            runs[:] = merged
        self.segments = [s for s in self.segments if any(state != HOLE for _, state in s[1])]

    def frees(self, small: bool, least: int) -> list[tuple[list[list[int]], int]]:
        found = [
            (runs[k][0], i, k)
            for i, (s, runs) in enumerate(self.segments)
            if s == small
            for k in range(len(runs))
            if runs[k][1] == FREE
        ]
        return [(self.segments[i][1], k) for size, i, k in sorted(found) if size >= least]

    def best(self, small: bool, size: int) -> tuple[list[list[int]], int] | None:
        def room(place: tuple[list[list[int]], int]) -> int:
            runs, k = place
            return runs[k][0] + (runs[k + 1][0] if k + 1 < len(runs) and runs[k + 1][1] == HOLE else 0)

        places = self.frees(small, size)
        if not places:
            return None
        k = 0
        while self.settings.expandable and k + 1 < len(places) and room(places[k + 1]) < room(places[k]):
            k += 1
        runs, at = places[k]
        most = self.settings.max_split
        if (size < most <= runs[at][0]) or (size >= most and runs[at][0] >= size + 20 * MIB):
            return None
        return runs, at

    def more(self, small: bool, size: int) -> tuple[list[list[int]], int] | None:
        if self.settings.expandable:
            return self.grown(small, size)
        segment = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if self.reserved() + segment > self.limit:
            return None
        self.segments.append((small, [[segment, FREE]]))
        return self.segments[-1][1], 0

    def grown(self, small: bool, size: int) -> tuple[list[list[int]], int] | None:
        page = 2 * MIB if small else 20 * MIB
        if not any(s == small for s, _ in self.segments):
            self.segments.append((small, [[ENDLESS, HOLE]]))
        ((_, runs),) = [s for s in self.segments if s[0] == small]
        for hole in [k for k in range(len(runs)) if runs[k][1] == HOLE]:
            first = hole - 1 if hole and runs[hole - 1][1] == FREE else hole
            end = first
            while end < len(runs) and runs[end][1] <= 0:
                end += 1
            if sum(s for s, _ in runs[first:end]) < size:
                continue
            while runs[first][1] == HOLE or runs[first][0] < size:
                k = first if runs[first][1] == HOLE else first + 1
                has = runs[first][0] if k > first else 0
                pages = -(-min(size - has, runs[k][0]) // page) * page
                if self.reserved() + pages > self.limit:
                    self.tidy()
                    return None
                runs[k : k + 1] = [[pages, FREE], [runs[k][0] - pages, HOLE]]
                before = sum(s for s, _ in runs[:first])
                self.tidy()
                first = next(j for j in range(len(runs)) if sum(s for s, _ in runs[:j]) == before)
            return runs, first
        raise AssertionError("the address space is endless")

    def give_back_oversize(self, small: bool, size: int) -> bool:
        wanted = max(size, self.settings.max_split)
        if enough := self.frees(small, wanted):
            enough[0][0][:] = []
            self.tidy()
            return True
        given = 0
        for runs, k in reversed(self.frees(small, self.settings.max_split)):
            if given < wanted:
                given += runs[k][0]
                runs[:] = []
        self.tidy()
        return given >= wanted

    def give_back_all(self) -> None:
        for small, runs in self.segments:
            page, at, kept = (2 * MIB if small else 20 * MIB), 0, []
            for size, state in runs:
                if state == FREE and self.settings.expandable:
                    head = min(size, -at % page)
                    tail = (at + size) % page if head < size else 0
                    middle = size - head - tail
                    kept += [[head, FREE], [middle, HOLE], [tail, FREE]] if middle > 0 else [[size, FREE]]
                else:
                    kept.append([size, state])
                at += size
            runs[:] = [] if not self.settings.expandable and len(runs) == 1 and runs[0][1] == FREE else kept
        self.tidy()
