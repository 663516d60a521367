/* fit.h - the largest batch whose training step fits a memory size: without recomputation, with a limited recomputation time,
 * and with any recomputation.
 *
 * Each batch size has its own graph, which the caller builds. Earlier results predict the next batch to try. For each batch
 * size, a search as in mp_solve decides whether a plan fits. memplan assumes that a larger batch requires more memory. Two
 * searches verify the answer: one for the batch itself, one for the next larger batch. No search is made for a batch whose
 * keep-all fits or whose floor exceeds the memory. The searcher `auto` starts from the plan of another batch, because its steps
 * are valid for every batch. If the plan of the next larger batch is slightly too slow, `auto` searches up to three more times.
 *
 *     // given: mp_batch_graph graph_at; mp_error *err
 *     // graph_at builds the training graph of a batch, as examples/plan_model.c does
 *     const mp_fit_request request = {.graph_at = graph_at, .memory_bytes = INT64_C(16) << 30, .overhead = 0.2};
 *     mp_fit fit;
 *     MP_CHECK(mp_fit_batch(&request, &fit, err));
 *     printf("batch %lld\n", (long long)fit.answers[MP_FIT_RECOMPUTE].batch);
 */
#pragma once

#include "memplan/solver.h"
#include "memplan/workloads/needs.h"

/* The caller's function that builds the training graph for a batch size (>= 1). The caller of the function releases the
 * graph with mp_graph_free. */
typedef mp_status (*mp_batch_graph)(void *data, int64_t batch, mp_graph **out, mp_error *err);

/* The settings of a batch that the caller's function chose, such as chunks of rows. */
typedef struct mp_fit_choice {
    mp_graph *graph;     /* the graph with these settings; NULL: the graph of graph_at is the best */
    int64_t floor_bytes; /* no plan with any settings has a smaller peak */
    mp_answer trial;     /* plans of `graph` within the budget by the searcher `lagrange`; zeroed: not known */
} mp_fit_choice;

/* The caller's function that chooses other settings of a batch. It chooses the settings with the fastest plan within
 * budget_bytes. If only_floor is true, only floor_bytes is needed, and `graph` stays NULL. The caller of the function releases
 * `graph` and `trial`. An error of the function ends the study. */
typedef mp_status (*mp_best_graph)(void *data, int64_t batch, int64_t budget_bytes, bool only_floor, mp_fit_choice *out,
                                   mp_error *err);

/* Called before the searches for a batch (`search` NULL) and repeatedly during them. Return false to stop with the results
 * so far. */
typedef bool (*mp_fit_progress)(int64_t batch, const mp_progress *search, void *data);

typedef struct mp_fit_request {
    mp_batch_graph graph_at;
    /* Called for a batch whose keep-all does not fit, first with only_floor. NULL: graph_at builds the graphs of all plans.
     * Extra time is always relative to keep-all of graph_at's graph. */
    mp_best_graph best_at;
    void *graph_data;     /* the first argument of graph_at and best_at */
    int64_t memory_bytes; /* limit of static bytes plus arena, in bytes */
    /* The process that trains; NULL: memory_bytes limits the plan alone. With terms, memory_bytes limits the memory in which 19
     * of 20 such jobs run (mp_needs.likely_bytes), on a card of terms->card_bytes. graph_at may set the terms. */
    const mp_needs_terms *terms;
    double overhead; /* the time that recomputation may add, as a fraction of keep-all's time; >= 0 */
    int64_t most;    /* the largest batch size that is tried; <= 0: MP_FIT_MOST */
    const char *
        solver; /* `solver`, seed, moves, effort and keep_order have the meaning of the same members of mp_request (search.h) */
    uint64_t seed;
    int64_t moves;
    mp_effort effort;
    bool keep_order;          /* true: first runs stay in list order, as in mp_request.keep_order */
    mp_fit_progress progress; /* function that receives the progress of the searches; NULL: none */
    void *progress_data;
} mp_fit_request;

enum { MP_FIT_MOST = 1 << 24 };

/* The reason why the next larger batch is not the answer. */
typedef enum mp_fit_end {
    MP_FIT_UNKNOWN,   /* the search was stopped before the next larger batch was tried */
    MP_FIT_PROVED,    /* proved: the floor of the next larger batch exceeds the memory, so no schedule fits */
    MP_FIT_OVER,      /* without recomputation: the peak of the next larger batch exceeds the memory limit */
    MP_FIT_NOT_FOUND, /* the floor of the next larger batch is within the memory, but the search found no plan that fits */
    MP_FIT_TOO_SLOW,  /* the fastest plan found for the next larger batch takes more extra time than allowed */
    MP_FIT_MOST_MET   /* the next larger batch exceeds mp_fit_request.most */
} mp_fit_end;

typedef struct mp_fit_answer {
    int64_t batch;      /* the largest batch size that fits. 0: no batch fits, and the members up to `solver` are unset */
    int64_t peak_bytes; /* bytes that the plan of this batch requires, arena included; the plan has passed mp_plan_check */
    int64_t static_bytes;
    mp_needs needs;     /* memory of the process; only with mp_fit_request.terms */
    double overhead;    /* extra time of the plan, as a fraction of keep-all's time */
    double seconds;     /* seconds of one training step */
    const char *solver; /* name of the searcher that found the plan */
    bool is_of_best_at; /* true: the plan is of the graph that best_at returned for this batch */
    mp_fit_end end;
    int64_t next_floor_bytes;    /* floor of the next larger batch, in bytes; -1: not known */
    int64_t next_smallest_bytes; /* bytes of the next larger batch: of the fastest plan that fits, otherwise of the smallest
                                    plan found; for MP_FIT_KEEP_ALL of its keep-all, or with `terms` of the process. -1: this
                                    batch was not searched */
    double next_overhead;        /* extra time of the fastest plan found for the next larger batch, as a fraction of keep-all's;
                                    negative: no plan was found, or this batch was not searched */
} mp_fit_answer;

typedef enum mp_fit_means { MP_FIT_KEEP_ALL, MP_FIT_RECOMPUTE, MP_FIT_ANY, MP_N_FIT_MEANS } mp_fit_means;

typedef struct mp_fit {
    int64_t plan_bytes; /* limit of static bytes plus arena for plans that recompute; equals memory_bytes without `terms` */
    mp_fit_answer answers[MP_N_FIT_MEANS];
    size_t n_tried, n_searches; /* number of batches for which a graph was built, and number of searches */
    bool stopped;
} mp_fit;

/* Finds the largest batch for each of the three conditions (mp_fit_means), with some tens of searches. *out needs no
 * release. MP_INVALID: contradictory request. Other errors as graph_at and mp_solve. Deterministic. */
mp_status mp_fit_batch(const mp_fit_request *request, mp_fit *out, mp_error *err);
