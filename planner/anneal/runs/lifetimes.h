/* lifetimes.h - the lifetimes of instances and sums in an order of runs, and their change when a run enters or leaves the list
 * of a storage's producers or readers. All are half-open intervals of positions. For planner/anneal/runs.
 */
#pragma once

#include "planner/anneal/runs/runs.h"

/* Returns the end of the instance of s that producers[producer] begins: the position after its last read. O(log n). */
int mp_lifetime_end(const mp_runs *runs, int s, int producer);
/* Finds the lifetime of a sum. False if no run adds to it and none reads it. O(1). */
bool mp_lifetime_of_sum(const mp_runs *runs, int s, int *begin, int *end);

/* Add a run to the producers or readers of s, or remove it, and update the memory profile and in-place bytes.
 * O(list + positions / 64). */
void mp_lifetime_add_producer(mp_runs *runs, int s, int run);
void mp_lifetime_remove_producer(mp_runs *runs, int s, int run);
void mp_lifetime_add_reader(mp_runs *runs, int s, int run);
void mp_lifetime_remove_reader(mp_runs *runs, int s, int run);
/* Returns the bytes of all instances and sums that begin with a run. */
int64_t mp_lifetimes_begun(const mp_runs *runs, int run);
/* Computes a run's in-place bytes anew. */
void mp_lifetime_pair(mp_runs *runs, int run);
