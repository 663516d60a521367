/* lifetimes.h - what one run more or less in a list of makers or readers does to the memory of a storage. For
 * planner/anneal/runs/runs.h.
 */
#ifndef PLANNER_LIFETIMES_H
#define PLANNER_LIFETIMES_H

#include "planner/anneal/runs/runs.h"

/* The place of the first run of a list whose slot is `slot` or later. */
int mp_run_list_find(const mp_runs *x, const mp_run_list *list, int slot);
/* Puts a run into a list, or takes it out; its slot must be what it was when it went in. */
void mp_run_list_insert(mp_runs *x, mp_run_list *list, int run);
void mp_run_list_drop(const mp_runs *x, mp_run_list *list, int run);
/* The slot in which the copy of storage s made by makers[maker] ends. */
int mp_lifetime_end(const mp_runs *x, int s, int maker);
/* The lifetime of a sum; false: nobody adds to it or reads it. */
bool mp_lifetime_of_sum(const mp_runs *x, int s, int *first, int *last);
bool mp_is_sum(const mp_graph *graph, int s);

/* Each also brings in-place credits up to date. */
void mp_lifetime_add_maker(mp_runs *x, int s, int run);
void mp_lifetime_drop_maker(mp_runs *x, int s, int run);
void mp_lifetime_add_reader(mp_runs *x, int s, int run);
void mp_lifetime_drop_reader(mp_runs *x, int s, int run);
/* The bytes of all copies and sums that begin with a run. */
int64_t mp_lifetimes_begun(const mp_runs *x, int run);
/* Computes a run's credit anew. */
void mp_lifetime_credit(mp_runs *x, int run);

#endif
