/* public_calls.h - the functions of include/memplan, each called once with few allocations allowed. */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/memplan.h"

/* What the calls are about: a small graph with its plan, and files. */
typedef struct public_world {
    mp_graph *graph, *updates; /* a chain of layers; one with updates */
    mp_plan *plan;             /* keep-all of the first, with offsets */
    char graph_file[64], plan_file[64], costs_file[64], csv_file[64], dot_file[64], written[64], picture[64];
    long allowed; /* how many allocations the function may make; -1: all */
    long made;    /* how many it made */
} public_world;

/* Calls a function with no more memory than is allowed. */
#define PUBLIC_LIMITED(w, result, call)       \
    do {                                      \
        const long before = mp_alloc_count;   \
        mp_alloc_budget = (w)->allowed;       \
        (result) = (call);                    \
        mp_alloc_budget = -1;                 \
        (w)->made += mp_alloc_count - before; \
    } while (0)

/* A function that allocates: prepares, calls it limited, sees that its outputs are untouched unless it is MP_OK, and releases
 * everything. Returns what it returned; for one that returns no status, MP_NOMEM if it failed. */
typedef struct public_call {
    const char *name;
    mp_status (*run)(public_world *w, mp_error *err);
} public_call;

/* Ends with a row without a name: functions of the planner and estimator, of files, of models, programs and searches, and of
 * ranks.
 */
extern const public_call public_graphs[], public_files[], public_models[], public_ranks[];

/* Fills an output; and says, of the function at hand, that it is wrong unless the bytes are still so. */
void public_mark(void *out, size_t size);
void public_is_marked(const void *out, size_t size);
/* The function at hand, what is wrong with it, and whether anything was. */
void public_begin(const char *name, const public_world *w);
void public_wrong(const char *what);
bool public_is_wrong(void);

/* A function with one output, which has to stay as it was. */
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

/* Released with public_world_free, files included. */
public_world public_world_new(void);
void public_world_free(public_world *w);
