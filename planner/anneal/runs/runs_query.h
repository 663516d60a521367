/* runs_query.h - questions to an order of runs: who reads and produces a storage where, and whether a change would leave an
 * order that can run. Each is O(log n) for each storage that the run reads, adds to or writes, but where it says otherwise.
 */
#pragma once

#include "planner/anneal/runs/runs.h"

/* Returns the run that first reads storage s after `position` from the instance that is live there, -1 if no instance is
 * live or none reads it. */
int mp_runs_next_read(const mp_runs *runs, int s, int position);
/* True if an instance of s produced before `position` is live there or beyond. */
bool mp_runs_is_live(const mp_runs *runs, int s, int position);
/* Returns the last run before `position` that produces storage s, -1 if there is none. */
int mp_runs_latest_producer(const mp_runs *runs, int s, int position);
/* True if a run is a recomputation: not its node's first. */
bool mp_runs_is_extra(const mp_runs *runs, int run);
/* True if no run reads what this run produces. */
bool mp_runs_is_dead(const mp_runs *runs, int run);

/* True if node v may run with this alternative at a position: what it reads is produced before, and nothing that depends on
 * what it writes, adds to or updates comes out of order. The run `without_run` (-1: none) is disregarded. */
bool mp_runs_allows(const mp_runs *runs, int node, int alternative, int position, int without_run);
/* True if the order can run without a run, or with that run in another alternative. */
bool mp_runs_can_spare(const mp_runs *runs, int run);
bool mp_runs_can_change(const mp_runs *runs, int run, int alternative);
