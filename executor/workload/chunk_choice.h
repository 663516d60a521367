/* chunk_choice.h - the candidates among which memplan chooses the numbers of chunks of rows.
 *
 * A candidate is a number of chunks for each kind of region. Its index is the sum of exponent[kind] * MP_CHUNK_NUMBERS^kind, so
 * candidate 0 has whole regions. */
#pragma once

#include "executor/workload/workload.h"
#include "memplan/workloads/row_chunks.h"
#include "planner/floor/floor.h"

enum {
    MP_CHUNK_NUMBERS = 7,      /* 1, 2, 4, ... 64 chunks */
    MP_CHUNK_CANDIDATES = 2401 /* MP_CHUNK_NUMBERS to the power of MP_N_CHUNK_KINDS */
};

typedef enum mp_chunk_state {
    MP_CHUNK_NEW,
    MP_CHUNK_BUILT,   /* least_ticks is known */
    MP_CHUNK_BOUNDED, /* bound_ticks is known, too */
    MP_CHUNK_SCORED,  /* the floor is known, too. If it is within the budget, the searcher `chen` has run */
    MP_CHUNK_SOLVED,  /* a quick search has run */
    MP_CHUNK_EXCLUDED /* a region has fewer rows, the head overlaps a region, or the graph is too large */
} mp_chunk_state;

typedef struct mp_chunk_candidate {
    mp_chunk_state state;
    int64_t least_ticks; /* no plan takes fewer ticks, whatever its memory */
    int64_t bound_ticks; /* no plan within the budget takes fewer ticks; INT64_MAX: none fits */
    int64_t ticks;       /* ticks of the best plan found; INT64_MAX: none fits */
    int64_t floor_bytes, smallest_bytes;
    size_t n_nodes;
} mp_chunk_candidate;

typedef struct mp_chunk_choice {
    const mp_workload *whole;
    const mp_workload_options *options;
    const mp_request *request;
    int64_t most[MP_N_CHUNK_KINDS]; /* per kind: the largest number of chunks that the workload permits */
    mp_chunk_candidate *all;        /* MP_CHUNK_CANDIDATES candidates */
    int64_t best_ticks;             /* ticks of the best plan of all candidates; INT64_MAX: none fits */
    mp_floor_shared *shared;        /* nodes that the graphs with chunks of the kinds in is_met have in common */
    bool is_met[MP_N_CHUNK_KINDS];  /* per kind: `shared` contains no nodes that chunks of this kind replace */
    int64_t shared_bytes;           /* lower bound on the floor of every graph, if is_met for all kinds that can be cut */
    mp_answer trial;                /* the best answer of the searcher `lagrange` in mp_chunk_solve */
    int trial_index;                /* the candidate of `trial`; -1: none */
    mp_error *err;
} mp_chunk_choice;

/* Begins a choice: finds the numbers that the workload permits. Release it with mp_chunk_choice_clear on any status.
 * MP_NOMEM. */
mp_status mp_chunk_choice_begin(const mp_workload *whole, const mp_workload_options *options, const mp_request *request,
                                mp_chunk_choice *out, mp_error *err);
void mp_chunk_choice_clear(mp_chunk_choice *c);
/* True if the workload is so small that memplan searches for plans of all promising candidates. */
bool mp_chunk_choice_is_small(const mp_chunk_choice *c);

int mp_chunk_step(int kind); /* difference between the indices of two candidates, with N and with 2 N chunks of the kind */
int mp_chunk_exponent(int index, int kind); /* 2 to this power is the candidate's number of chunks of a kind */
void mp_chunk_numbers_at(int index, int n[MP_N_CHUNK_KINDS]);

/* Each of these functions loads the graph of a candidate. Errors as mp_workload_load and mp_solve.
 *
 * - mp_chunk_build computes the least ticks, and updates `shared`. It does nothing unless the candidate is new.
 * - mp_chunk_bound also computes the bound. Call it after the last update of `shared`. It does nothing unless the candidate is
 *   new or built. with_floor: the bound includes the candidate's floor. Otherwise floor_bytes is `shared_bytes`.
 * - mp_chunk_score computes the bound, the floor, and plans by `chen`. It does nothing unless the candidate is new or built. If
 *   the least ticks are not below the ticks of the best plan, it does as much as mp_chunk_build.
 * - mp_chunk_solve computes plans of a scored candidate by a quick search. */
mp_status mp_chunk_build(mp_chunk_choice *c, int index);
mp_status mp_chunk_bound(mp_chunk_choice *c, int index, bool with_floor);
mp_status mp_chunk_score(mp_chunk_choice *c, int index);
mp_status mp_chunk_solve(mp_chunk_choice *c, int index);
