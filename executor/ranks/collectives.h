/* collectives.h - collectives (sums over ranks, gathers), built from the messages of a communicator. A rank starts (issues) a
 * collective and later waits for its end.
 *
 * Every rank owns a part of each tensor: ceil(n / p) of n elements over p ranks, with smaller parts at the end. In a
 * reduce-scatter, each rank sends to every other rank r the elements of part r of its own tensor. Each rank then adds the
 * received values and its own in the order of the ranks. The result does not depend on the order of arrival, so it is the same
 * in every run. In an all-gather, each rank sends its part to all others. An all-reduce is a reduce-scatter followed by an
 * all-gather. All ranks get the same bits, and each sends 2 (p - 1) / p of the bytes, as in a ring. Values are received into a
 * workspace that is part of the plan.
 *
 * With `fast`, the communicator's library sums in its own order. For the same tensor, the rounding may then differ between
 * runs.
 *
 * Example: four ranks, 10 elements, so parts of 3, 3, 3 and 1. Rank 2 sends elements 0 to 2 to rank 0, 3 to 5 to rank 1 and 9
 * to rank 3. It receives three elements from each rank, computes ((rank 0 + rank 1) + own) + rank 3, and sends the three sums
 * to all ranks. */
#pragma once

#include "executor/kernel/backend.h"
#include "executor/ranks/communicator.h"
#include "memplan/ranks/mesh.h"

/* The ranks of a collective: first, first + stride, ... in the world (n ranks); `index` is the position of this rank. */
typedef struct mp_process_group {
    int n, index, first, stride;
} mp_process_group;
/* mp_process_group_of returns the group that contains this rank, if all ranks form groups of this size and stride.
 * mp_process_group_along returns the ranks whose mesh coordinates differ from this rank's in dimension `dim` only. */
mp_process_group mp_process_group_of(mp_rank_group group, int rank);
mp_process_group mp_process_group_along(const mp_mesh *mesh, mp_dim dim, int rank);

/* A tensor of a collective: the address of the whole tensor, and of this rank's part. `part` may point into `whole`. */
typedef struct mp_shard_view {
    char *whole, *part;
    int64_t n; /* number of elements of the whole tensor */
} mp_shard_view;

typedef struct mp_leg {
    /* the operation: MP_ALL_REDUCE (only with c->fast), MP_REDUCE_SCATTER or MP_ALL_GATHER; MP_SEND: rank 0 of the group sends
     * whole tensors to rank 1 */
    mp_collective kind;
    mp_process_group group;
    mp_dtype dtype;
    size_t n_pieces;
    const mp_shard_view *pieces;
    bool adds_up;    /* true: if the collective has `adds` set, the sums of this leg are added to the values in the parts */
    bool is_ordered; /* true: the leg sums in the order of the ranks, even if c->fast is set */
    char *workspace;
} mp_leg;

/* A collective: a sequence of legs, which are operations over groups of ranks. A collective can be issued again after it has
 * ended. */
enum { MP_LEGS = 6 };
typedef struct mp_collective_work mp_collective_work;
struct mp_collective_work {
    const char *name;   /* name of the collective in messages, such as "all-reduce 3" */
    mp_collective kind; /* kind of the collective in the plan; its legs may have other kinds */
    size_t n_legs;
    mp_leg legs[MP_LEGS];
    bool adds; /* set by the caller before each issue. true: sums are added to the parts instead of overwriting them */
    /* The following members have a value only while the collective is in progress. */
    size_t leg, n_requests;
    mp_awaited *requests; /* array of mp_work_requests(work) entries */
    int tag, own_tag; /* own_tag: a fixed message tag, needed if not all ranks issue the same collectives; 0: tags are numbered
                         in the order of issue */
    int64_t ticket;
    mp_collective_work *next;
    /* Statistics over all runs of this collective: number of runs, bytes sent, seconds in progress (0 on a stream). began_at
     * and ended_at are the times of the last run. */
    int64_t n_runs, sent_bytes;
    double seconds, began_at, ended_at;
};
/* Returns the part of a tensor with n elements that rank `member` of the leg's group owns. */
mp_range mp_leg_part(const mp_leg *leg, int64_t n, int member);
size_t mp_work_requests(const mp_collective_work *work);
/* Returns the workspace bytes of a leg (an operation of a collective) whose tensors have n elements in total. */
int64_t mp_leg_workspace(mp_collective kind, bool fast, int64_t ranks, int64_t n, int64_t element_bytes);

typedef struct mp_collectives {
    mp_communicator *world;
    const mp_backend *backend;
    bool fast;
    double timeout; /* seconds without progress after which a wait fails */
    int64_t issued, sent_bytes;
    /* seconds in which at least one collective was in progress. A collective is in progress until this rank notices its end by
     * a test */
    double busy_since, busy_seconds;
    double wait_seconds;              /* the part of busy_seconds in which this rank waited and computed nothing */
    mp_collective_work *first, *last; /* collectives in progress, in the order of issue */
} mp_collectives;

/* Starts a collective; *ticket becomes its number. A wait for a ticket also waits for all earlier ones. MP_IO: a message
 * failed, or a rank has ended or was silent for too long; MP_UNSUPPORTED: as the communicator. */
mp_status mp_collectives_issue(mp_collectives *c, mp_collective_work *work, int64_t *ticket, mp_error *err);
/* Tests the messages of all collectives in progress, and starts their next legs, as far as possible without waiting. */
mp_status mp_collectives_advance(mp_collectives *c, mp_error *err);
mp_status mp_collectives_wait(mp_collectives *c, int64_t ticket, mp_error *err);
/* Issues a collective and waits until this collective has ended. */
mp_status mp_collectives_run(mp_collectives *c, mp_collective_work *work, mp_error *err);

/* Counts a run of a collective that the backend replayed from a recording. A replayed run sends the same bytes as earlier
 * runs. */
void mp_collectives_repeat(mp_collectives *c, mp_collective_work *work);
