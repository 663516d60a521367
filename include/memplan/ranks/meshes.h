/* meshes.h - search for the best device mesh: ranks the best meshes, and gives a reason for each rejected mesh.
 *
 * The search covers every mesh of the given number of devices (dp, shard with zero 1 to 3, tp, tp with data=1, pp, and ep of 2,
 * 4, ... that divides the experts), every micro-batch and every schedule (schedule.h). A mesh whose floor exceeds the memory
 * cannot fit, even with recomputation. A mesh whose bound exceeds the time of the best mesh cannot win. The remaining meshes
 * are simulated (planner/parallel/stages.h), lowest bound first. A rejection by floor or bound is a proof, if times follow the
 * roofline and the network's formulas. A choice is a mesh with a micro-batch and a schedule. If one choice of a mesh is
 * simulated, all its choices that may be faster are simulated too. A mesh therefore has the same time in every search.
 *
 * Simulations use sums over the blocks of the network (the block model), which takes milliseconds. Before the n_best meshes are
 * returned, `judge` simulates them again with the graphs of their ranks, and they are ranked by these times. So their numbers
 * are those of the commands that build the same graphs.
 *
 *     // given: mp_meshes_request request; mp_error *err
 *     // request.ranks is the network; request.graph builds the training graph of a rank
 *     request.devices = 64;
 *     request.memory_bytes = INT64_C(70) << 30;
 *     request.global_batch = 512;
 *     mp_meshes *meshes = NULL;
 *     MP_CHECK(mp_meshes_search(&request, &meshes, err));
 *     printf("%s: %.2f s\n", mp_mesh_write(&meshes->choices[0].mesh).text, meshes->choices[0].seconds);
 *     mp_meshes_free(meshes);
 */
#pragma once

#include "memplan/ranks/exchange.h"
#include "memplan/ranks/schedule.h"
#include "memplan/target.h"
#include "memplan/workloads/needs.h"

/* Memory and time of one pipeline stage. Byte counts are for the moment of the stage's memory peak. */
typedef struct mp_stage {
    int begin, end;    /* the stage consists of the blocks [begin, end) of the network */
    int64_t in_flight; /* number of micro-batches in flight at the memory peak of the stage */
    int64_t waiting;   /* number of the micro-batches in flight that have run backward, except for their parameter gradients */
    int64_t parameter_bytes, gradient_bytes, state_bytes, activation_bytes, buffer_bytes;
    /* peak memory of the stage in bytes: the sum of the five members above. If a rank has several stages, the sum over all its
     * stages */
    int64_t peak_bytes;
    int64_t
        recomputed_bytes; /* bytes of activations per micro-batch that are dropped after forward and recomputed for backward */
    double forward_seconds, backward_seconds; /* seconds per micro-batch, recomputation included */
    double extra_seconds;                     /* seconds per micro-batch by which recomputation lengthens backward */
    double hidden_seconds; /* seconds per micro-batch of recomputation that exchanges of tp hide; not part of extra_seconds */
    int64_t sent_bytes;    /* bytes that a rank of this stage sends per training step: to the next stage, for gradients and
                              parameters, and by operators */
    int64_t moved_bytes,
        moved_state_bytes; /* bytes offloaded to the host: activations of one micro-batch, and optimizer state */
    int64_t host_bytes; /* host memory for the offloaded activations of all micro-batches in flight, and for optimizer state */
    double update_seconds; /* seconds of the updates whose optimizer state is stored on the host */
    double copy_seconds;   /* seconds per step in which compute waits for copies between device and host */
} mp_stage;

/* The result for a mesh: it is ranked, or the reason why it is not. */
typedef enum mp_verdict {
    MP_VERDICT_BEST,
    MP_VERDICT_SLOWER,      /* the mesh was simulated, and is slower than the ranked meshes */
    MP_VERDICT_BOUND,       /* the lower bound on the time of this mesh exceeds the time of the best mesh */
    MP_VERDICT_FLOOR,       /* the floor of the mesh exceeds the memory limit */
    MP_VERDICT_OVER_MEMORY, /* the mesh exceeds the memory limit even with all possible recomputation */
    MP_VERDICT_REFUSED,     /* the graphs of the ranks of this mesh cannot be built */
    MP_N_VERDICTS
} mp_verdict;
const char *mp_verdict_name(mp_verdict verdict); /* "floor" */

/* The source of a choice's seconds and bytes. */
typedef enum mp_mesh_judge {
    MP_JUDGE_BLOCKS,   /* the block model: sums over the blocks of the network */
    MP_JUDGE_KEEP_ALL, /* the graphs of the ranks, with everything kept */
    MP_N_MESH_JUDGES
} mp_mesh_judge;
const char *mp_mesh_judge_name(mp_mesh_judge judge); /* "keep-all" */

typedef struct mp_mesh_choice {
    mp_mesh mesh;
    int64_t micro_batch, n_micro_batches;
    mp_schedule schedule;
    int64_t n_chunks; /* stages per rank */
    mp_verdict verdict;
    double bound_seconds;
    int64_t floor_bytes;
    double seconds;         /* simulated seconds per training step; 0: not simulated */
    double model_seconds;   /* seconds by the block model; 0: not simulated */
    bool is_judged;         /* true: mp_meshes_request.judge has been called with the choice */
    mp_mesh_judge judge;    /* source of `seconds`, `peak_bytes` and the numbers of the stages */
    double bubble_seconds;  /* seconds per step in which the slowest stage waits for other stages */
    double exposed_seconds; /* seconds per step in which gradients or parameters are sent and no compute overlaps */
    int64_t peak_bytes;     /* peak memory in bytes of the stage with the largest peak */
    mp_needs needs; /* needs of the rank with the largest process; process_bytes is 0 if unknown, as with MP_JUDGE_BLOCKS */
    size_t n_stages;
    mp_stage *stages; /* results per pipeline stage; NULL: the mesh is not simulated */
} mp_mesh_choice;

/* The host memory that stores offloaded activations and optimizer state, and its link to a device. */
typedef struct mp_host {
    const mp_link *link; /* link between device and host; NULL: no offloading */
    int64_t bytes;       /* host memory per device in bytes; 0: no limit */
    bool takes_state;
    int64_t
        least_state_bytes; /* smallest optimizer state of a parameter that is offloaded, in bytes; 0: MP_OFFLOAD_LEAST_BYTES */
} mp_host;

typedef struct mp_meshes_request {
    int64_t devices, memory_bytes;
    int64_t global_batch; /* number of samples per training step, over all ranks */
    int64_t micro_batch;  /* number of samples per micro-batch; 0: the search chooses */
    bool is_scheduled;    /* true: use only the given schedule and n_chunks; false: try all schedules */
    mp_schedule schedule;
    int64_t n_chunks;
    mp_ranks ranks; /* network, algorithm and buckets. Of ranks.mesh only `sequence` is used */
    mp_mesh fixed; /* sizes of dimensions that the caller fixes. A size of 0 and `zero` 0: the search chooses. `data` true: only
                      meshes with data=1 */
    int64_t most_tp; /* largest size of tp; 0: the number of devices of a node */
    size_t n_best;   /* number of meshes that are ranked as best; 0: 5 */
    double alike;    /* meshes that are slower than the fastest by at most this fraction are ranked by simplicity; 0: all meshes
                        are ranked by time */
    const mp_mesh *explained; /* a mesh that is simulated even if it is rejected; NULL: none */
    mp_host host;             /* host memory for offloaded tensors, the link to it, and limits for offloading */
    bool shares_apart; /* true: `graph` builds a different graph for zero=3, in which ranks gather parameters in 16 bits */
    /* Builds the training graph of one rank for a micro-batch, split over tp, with the records of the collectives of
     * its operators. MP_UNSUPPORTED, MP_INVALID: the search skips this split. */
    mp_status (*graph)(void *data, const mp_mesh *mesh, int64_t micro_batch, mp_graph **out, mp_error *err);
    void *data;
    /* Simulates a choice with the graphs of its ranks. Replaces the seconds and bytes of the choice and of its stages, and sets
     * `judge`. If a rank has to recompute, leaves the choice with the numbers of the block model. MP_UNSUPPORTED, MP_INVALID:
     * the ranks cannot be built. NULL: the block model judges alone. */
    mp_status (*judge)(void *data, mp_mesh_choice *choice, mp_error *err);
    void *judge_data;
} mp_meshes_request;

typedef struct mp_meshes {
    size_t n, n_best;
    mp_mesh_choice *choices; /* results. First the n_best best choices; different meshes precede variants of one mesh. Then all
                                other choices, sorted by bound */
    struct mp_pool *pool;    /* memory pool that owns this struct and all its arrays */
} mp_meshes;

/* Searches for the best meshes. Release *out with mp_meshes_free (NULL is allowed). n_best is 0 if no mesh fits. MP_INVALID: no
 * mesh has the given number of devices. Other errors are those of `graph` for a mesh of one device. MP_NOMEM. Deterministic. */
mp_status mp_meshes_search(const mp_meshes_request *request, mp_meshes **out, mp_error *err);
void mp_meshes_free(mp_meshes *meshes);
MP_OWNER(mp_meshes_free, mp_meshes)
