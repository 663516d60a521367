/* row_chunks.h - chooses the number of chunks of rows in which the logits and their loss are computed (the setting row_chunks).
 *
 *     // given: const char *path; mp_workload_options *options; mp_error *err
 *     mp_workload whole = {0}, chosen = {0};
 *     MP_CHECK(mp_workload_load(path, options, &whole, err));
 *     const mp_request request = {.budget_bytes = INT64_C(24) << 30};
 *     mp_row_chunks_choice choice;
 *     MP_CHECK(mp_row_chunks_choose(&whole, options, &request, &choice, err));
 *     options->row_chunks = choice.setting;
 *     MP_CHECK(mp_workload_load(path, options, &chosen, err)); // plan this graph
 *     mp_workload_free(&whole);
 *     mp_workload_free(&chosen);
 */
#pragma once

#include "memplan/search.h"
#include "memplan/workload.h"

enum { MP_ROW_CHUNKS_TEXT = 64 }; /* bytes of a setting that names all kinds of regions */

typedef struct mp_row_chunks_choice {
    int n; /* the largest chosen number of chunks; 1: all regions stay whole; 0: no choice was made */
    char setting[MP_ROW_CHUNKS_TEXT]; /* the value of mp_workload_options.row_chunks: "head=8,mlp=4", or "off" */
    /* no plan within the budget with other numbers of chunks takes fewer ticks; INT64_MAX: with no others a plan fits */
    int64_t other_ticks;
} mp_row_chunks_choice;

/* Returns true if the setting leaves the choice to memplan ("auto"). mp_workload_load then keeps the logits whole. */
bool mp_row_chunks_are_open(const mp_workload_options *options);

/* Chooses among 1, 2, 4, 8, 16, 32 and 64 chunks the number whose plan within request->budget_bytes takes the fewest
 * ticks. Among equal plans, the smallest number wins. A plan for each number is found by a quick search with the request's
 * searcher, and a lower bound is proved. A number is skipped if all its plans take more ticks than the best plan so far. If no
 * number gives a plan that fits, the number with the smallest plan wins. `whole` is the workload with whole logits; `options`
 * are its settings. The graph and problem of the request are ignored. MP_INVALID: the logits cannot be cut. Other errors as
 * mp_workload_load and mp_solve. */
mp_status mp_row_chunks_choose(const mp_workload *whole, const mp_workload_options *options, const mp_request *request,
                               mp_row_chunks_choice *out, mp_error *err);
