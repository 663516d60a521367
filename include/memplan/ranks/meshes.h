/* meshes.h - how to split a network over many devices: the best meshes, and a number for every other one.
 *
 * Every mesh of so many devices (dp, shard with zero 1 to 3, tp, tp with data=1, pp, ep of 2, 4, ... where experts divide),
 * micro-batch and schedule (schedule.h) is looked at. One whose floor is over the memory cannot fit, whatever it recomputes;
 * one whose bound is over the time of the best cannot win; the others are played through (planner/parallel/stages.h), cheapest
 * bound first. So `set_aside` is a proof within this model of time, that of the roofline and the network's formulas.
 *
 *     const mp_meshes_request request = {.devices = 64, .memory_bytes = room, .global_batch = 512, .ranks = ranks,
 *                                        .graph = build, .data = my_model};
 *     mp_meshes *meshes;
 *     MP_CHECK(mp_meshes_search(&request, &meshes, err));
 *     printf("%s: %.2f s\n", mp_mesh_write(&meshes->choices[0].mesh).text, meshes->choices[0].seconds);
 *     mp_meshes_free(meshes);
 */
#pragma once

#include "memplan/ranks/exchange.h"
#include "memplan/ranks/schedule.h"
#include "memplan/target.h"

/* What one stage holds and does; bytes are those of its fullest moment. */
typedef struct mp_stage {
    int begin, end;    /* blocks [begin, end) */
    int64_t in_flight; /* micro-batches */
    int64_t waiting;   /* of these that have gone backward, but for the gradients of parameters */
    int64_t parameter_bytes, gradient_bytes, state_bytes, activation_bytes, buffer_bytes;
    int64_t peak_bytes;                       /* of all together, on a rank of several stages of all its stages */
    int64_t recomputed_bytes;                 /* of a micro-batch: what is not kept for its backward */
    double forward_seconds, backward_seconds; /* of a micro-batch, recomputation included */
    double extra_seconds;                     /* of recomputation, of a micro-batch */
    int64_t sent_bytes;                       /* in a step: to the next stage, for gradients and parameters, and by operators */
    int64_t moved_bytes, moved_state_bytes;   /* activations of a micro-batch, and optimizer state, that lie on the host */
    int64_t host_bytes;                       /* there, of all micro-batches in flight and state */
    double update_seconds;                    /* of updates whose state is there */
    double copy_seconds;                      /* of a step: for copies, with no compute beside */
} mp_stage;

/* Why a mesh is not among the best. */
typedef enum mp_verdict {
    MP_VERDICT_BEST,
    MP_VERDICT_SLOWER,      /* it was played through, and takes longer */
    MP_VERDICT_BOUND,       /* its bound is over the time of the best */
    MP_VERDICT_FLOOR,       /* its floor is over the memory */
    MP_VERDICT_OVER_MEMORY, /* what is held is over the memory with all that can be recomputed */
    MP_N_VERDICTS
} mp_verdict;
const char *mp_verdict_name(mp_verdict verdict); /* "floor" */

typedef struct mp_mesh_choice {
    mp_mesh mesh;
    int64_t micro_batch, n_micro_batches;
    mp_schedule schedule;
    int64_t n_chunks; /* stages of each rank */
    mp_verdict verdict;
    double bound_seconds;
    int64_t floor_bytes;
    double seconds;         /* of a step; 0: it was not played through */
    double bubble_seconds;  /* in which the slowest stage waits for others */
    double exposed_seconds; /* for gradients and parameters, not hidden by compute */
    int64_t peak_bytes;     /* of the fullest stage */
    size_t n_stages;
    mp_stage *stages; /* NULL: it was not played through */
} mp_mesh_choice;

/* The host's memory beside each device, for activations, and for optimizer state. */
typedef struct mp_host {
    const mp_link *link; /* NULL: nothing is copied there */
    int64_t bytes;       /* of each device; 0: no limit */
    bool takes_state;
    int64_t least_state_bytes; /* of a parameter; less stays on the device. 0: MP_OFFLOAD_LEAST_BYTES */
} mp_host;

typedef struct mp_meshes_request {
    int64_t devices, memory_bytes;
    int64_t global_batch; /* samples of a step over all ranks */
    int64_t micro_batch;  /* samples; 0: free */
    bool is_scheduled;    /* only this schedule of pipelines, with so many chunks; else all */
    mp_schedule schedule;
    int64_t n_chunks;
    mp_ranks ranks;    /* network, algorithm, buckets; of its mesh only `sequence` counts */
    mp_mesh fixed;     /* dimensions that are given; 0: free. zero 0: free. data: only meshes with it */
    int64_t most_tp;   /* 0: the devices of a node */
    size_t n_best;     /* how many to rank; 0: 5 */
    mp_host host;      /* what may lie there */
    bool shares_apart; /* `graph` builds another graph for zero=3: ranks gather parameters in 16 bits */
    /* Builds the training graph of one rank, split over tp, of a micro-batch, and says what its operators send to other ranks
     * in it. MP_UNSUPPORTED, MP_INVALID: this split is left out. */
    mp_status (*graph)(void *data, const mp_mesh *mesh, int64_t micro_batch, mp_graph **out, int64_t *sent_bytes,
                       mp_error *err);
    void *data;
} mp_meshes_request;

typedef struct mp_meshes {
    size_t n, n_best;
    mp_mesh_choice *choices; /* the best first; then the others by bound */
    struct mp_pool *pool;    /* owns all */
} mp_meshes;

/* Searches. *out is released with mp_meshes_free (NULL is fine); n_best is 0 if no mesh fits. MP_INVALID: no mesh multiplies
 * out; as the graph's builder for a mesh of one device; MP_NOMEM. Deterministic. */
mp_status mp_meshes_search(const mp_meshes_request *request, mp_meshes **out, mp_error *err);
void mp_meshes_free(mp_meshes *meshes);
MP_OWNER(mp_meshes_free, mp_meshes)
