/* public_calls.h - functions of include/memplan, each called once with a limited number of allocations. */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/memplan.h"

/* Arguments of the calls: small graphs, a plan, and files. */
typedef struct public_world {
    mp_graph *graph, *updates; /* a chain of layers; a graph with updates */
    mp_plan *plan;             /* keep-all of the chain, with offsets */
    char graph_file[64], plan_file[64], costs_file[64], csv_file[64], dot_file[64], written[64], picture[64];
    long allowed; /* number of allocations that the function may make; -1: no limit */
    long made;    /* number of allocations it made */
} public_world;

/* Calls a function with the allowed number of allocations. */
#define PUBLIC_LIMITED(w, result, call)       \
    do {                                      \
        const long before = mp_alloc_count;   \
        mp_alloc_budget = (w)->allowed;       \
        (result) = (call);                    \
        mp_alloc_budget = -1;                 \
        (w)->made += mp_alloc_count - before; \
    } while (0)

/* Tests one allocating function: prepares, makes the limited call, checks unchanged outputs unless it returns MP_OK, and
 * releases everything. Returns the function's status. A function without a status counts as MP_NOMEM if it failed. */
typedef struct public_call {
    const char *name;
    mp_status (*run)(public_world *w, mp_error *err);
} public_call;

/* Lists ended by a row without a name: functions of the planner and estimator; of files; of models, programs and searches; of
 * ranks; of workloads; and about plans. A function may have more rows with other arguments, whose names continue with a comma.
 */
extern const public_call public_graphs[], public_files[], public_models[], public_ranks[], public_workloads[], public_studies[];

/* The calls of functions without allocations as text, such as "mp_plan_need(w->plan)"; ended by NULL. */
extern const char *const public_without[];
/* Makes all these calls, and fails the test if one allocates. */
void public_call_without(public_world *w);

/* Returns the default settings of a workload, with the optimizer SGD. */
mp_workload_options public_sgd(void);

/* Fills an output with a mark; reports the current function as wrong unless the mark is unchanged. */
void public_mark(void *out, size_t size);
void public_is_marked(const void *out, size_t size);
/* Sets the current function; reports a fault of it; returns whether any fault was reported. */
void public_begin(const char *name, const public_world *w);
void public_wrong(const char *what);
bool public_is_wrong(void);

/* Tests a function with one output, which must stay unchanged after a failure. */
#define PUBLIC_OUTPUT(w, out, call, release)       \
    do {                                           \
        mp_status st;                              \
        public_mark(&(out), sizeof(out));          \
        PUBLIC_LIMITED(w, st, call);               \
        if (st != MP_OK)                           \
            public_is_marked(&(out), sizeof(out)); \
        else                                       \
            release;                               \
        return st;                                 \
    } while (0)
#define PUBLIC_NOTHING (void)0

/* Release with public_world_free, which also removes the files. */
public_world public_world_new(void);
void public_world_free(public_world *w);
