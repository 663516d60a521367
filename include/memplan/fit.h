/* fit.h - the largest batch whose training step fits a memory size: without recomputation, with a limited recomputation time,
 * and with any recomputation.
 *
 * Each batch size has its own graph, which the caller builds. Batches are found by growth and bisection. The first guess is a
 * prediction from earlier batches, and each try is a search as in mp_solve. We assume that a larger batch requires more memory.
 * The answer itself is always verified by searches: for the batch, and for the next larger one. `auto` starts from the plan of
 * the nearest batch, whose steps are also valid here. It searches anew if the result is slightly too slow.
 *
 *     // graph_at builds the training graph at a batch, as examples/plan_model.c does
 *     const mp_fit_request request = {.graph_at = graph_at, .memory_bytes = INT64_C(16) << 30, .overhead = 0.2};
 *     mp_fit fit;
 *     MP_CHECK(mp_fit_batch(&request, &fit, err));
 *     printf("batch %lld\n", (long long)fit.answers[MP_FIT_RECOMPUTE].batch);
 */
#pragma once

#include "memplan/solver.h"

/* Builds the training graph at a batch (>= 1). The caller releases it with mp_graph_free. */
typedef mp_status (*mp_batch_graph)(void *data, int64_t batch, mp_graph **out, mp_error *err);

/* Called before a batch is tried (`search` NULL) and while it is searched. Return false to stop with the results so far. */
typedef bool (*mp_fit_progress)(int64_t batch, const mp_progress *search, void *data);

typedef struct mp_fit_request {
    mp_batch_graph graph_at;
    void *graph_data;
    int64_t memory_bytes; /* memory for static bytes and the arena together */
    double overhead;      /* the extra time that recomputation may take, as a fraction of keep-all's; >= 0 */
    int64_t most;         /* the largest batch that is tried; <= 0: MP_FIT_MOST */
    const char *solver;   /* this and the members up to keep_order: as in mp_request (search.h) */
    uint64_t seed;
    int64_t moves;
    mp_effort effort;
    bool keep_order;          /* true: first runs stay in list order, as mp_request.keep_order */
    mp_fit_progress progress; /* function that reports progress; NULL: none */
    void *progress_data;
} mp_fit_request;

enum { MP_FIT_MOST = 1 << 24 };

/* The reason why the next larger batch is not the answer. */
typedef enum mp_fit_end {
    MP_FIT_UNKNOWN,   /* the search was stopped before this batch was tried */
    MP_FIT_PROVED,    /* proved: the floor of the next larger batch exceeds the memory, so no schedule fits */
    MP_FIT_OVER,      /* without recomputation: the peak of the next larger batch exceeds the memory */
    MP_FIT_NOT_FOUND, /* the floor of the next larger batch is within the memory, but the search found no plan that fits */
    MP_FIT_TOO_SLOW,  /* the cheapest plan of the next larger batch takes more extra time than allowed */
    MP_FIT_MOST_MET   /* the next larger batch exceeds `most` */
} mp_fit_end;

typedef struct mp_fit_answer {
    int64_t batch;      /* 0: no batch fits, and the members up to `solver` are unset */
    int64_t peak_bytes; /* bytes that the batch's plan requires, arena included; the plan has passed mp_plan_check */
    int64_t static_bytes;
    double overhead;    /* extra time of the plan, as a fraction of keep-all's time */
    double seconds;     /* seconds of one training step */
    const char *solver; /* this and the members up to keep_order: as in mp_request (search.h) */
    mp_fit_end end;
    int64_t next_floor_bytes;    /* floor of the next larger batch; -1: not known */
    int64_t next_smallest_bytes; /* lowest peak found for the next larger batch (without recomputation: its peak); -1: not
                                    searched */
    double next_overhead; /* extra time of the cheapest plan found for the next larger batch; negative: none found, or not
                             searched */
} mp_fit_answer;

typedef enum mp_fit_means { MP_FIT_KEEP_ALL, MP_FIT_RECOMPUTE, MP_FIT_ANY, MP_N_FIT_MEANS } mp_fit_means;

typedef struct mp_fit {
    mp_fit_answer answers[MP_N_FIT_MEANS];
    size_t n_tried, n_searches; /* number of graphs built, one per batch; number of searches */
    bool stopped;
} mp_fit;

/* Answers the request with some tens of searches. *out needs no release. MP_INVALID: contradictory request. Other errors are
 * those of building and searching. Deterministic. */
mp_status mp_fit_batch(const mp_fit_request *request, mp_fit *out, mp_error *err);
