/* lifetimes.h - the lifetimes of instances and sums in an order of runs, and their change when a run enters or leaves the list
 * of a storage's producers or readers. All are half-open intervals of positions. For planner/anneal/runs.
 */
#pragma once

#include "planner/anneal/runs/runs.h"

/* Whether nodes add to s, so that it has one life from the first adder on. */
bool mp_is_sum(const mp_graph *graph, int s);
/* The end of the instance of s that producers[producer] begins: the position after its last read. O(log n). */
int mp_lifetime_end(const mp_runs *runs, int s, int producer);
/* The lifetime of a sum; false: nobody adds to it or reads it. O(1). */
bool mp_lifetime_of_sum(const mp_runs *runs, int s, int *begin, int *end);

/* A run enters or leaves the producers or readers of s. The memory profile and in-place bytes
 * follow. O(list + positions / 64). */
void mp_lifetime_add_producer(mp_runs *runs, int s, int run);
void mp_lifetime_remove_producer(mp_runs *runs, int s, int run);
void mp_lifetime_add_reader(mp_runs *runs, int s, int run);
void mp_lifetime_remove_reader(mp_runs *runs, int s, int run);
/* The bytes of all instances and sums that begin with a run. */
int64_t mp_lifetimes_begun(const mp_runs *runs, int run);
/* Computes a run's in-place bytes anew. */
void mp_lifetime_pair(mp_runs *runs, int run);
