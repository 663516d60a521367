/* collectives.h - sums over ranks, and gathers, made of a communicator's messages: each is issued, and later waited for.
 *
 * Every rank has a part of each tensor: of n elements over p ranks ceil(n / p), at the end fewer. A reduce-scatter sends each
 * rank its part of what this rank has, and adds up what the others send of one's own, in the order of the ranks. So the result
 * does not depend on who was first: it is the same in every run. An all-gather sends one's part to the others. An all-reduce is
 * one after the other, so all ranks have the same bits, and each sends 2 (p - 1) / p of the bytes, as with a ring. What the
 * others send is received into a workspace, which the plan counts.
 *
 * With a server, the first of the ranks has all of each tensor as its part: the others send it what they have, and it sends
 * them the sum, which has the same bits.
 *
 * With `fast` the communicator's library sums as it likes; of one tensor and its ranks, that may round otherwise in another
 * run.
 *
 * Four ranks, 10 elements, so parts of 3, 3, 3 and 1. Rank 2 sends elements 0 to 2 to rank 0, 3 to 5 to rank 1 and 9 to rank
 * 3, receives three times three elements, adds ((rank 0 + rank 1) + own) + rank 3, and sends those three elements to all.
 */
#pragma once

#include "executor/kernel/backend.h"
#include "executor/ranks/communicator.h"
#include "memplan/ranks/mesh.h"

/* The ranks of a collective: first, first + stride, ... of the world, of which this one is number `index`. */
typedef struct mp_team {
    int n, index, first, stride;
} mp_team;
/* Return the ranks of one's group, and those that differ from this one in one dimension of the mesh alone. */
mp_team mp_team_among(mp_rank_group group, int rank);
mp_team mp_team_of(const mp_mesh *mesh, mp_dim dim, int rank);

/* A tensor: the whole, and this rank's part of it, which may lie in its place in the whole. */
typedef struct mp_piece {
    char *whole, *part;
    int64_t n; /* elements of the whole */
} mp_piece;

typedef struct mp_leg {
    mp_collective
        kind; /* MP_ALL_REDUCE (fast only), MP_REDUCE_SCATTER, MP_ALL_GATHER; MP_SEND: wholes, of a team's rank 0 to 1 */
    mp_team team;
    mp_dtype dtype;
    size_t n_pieces;
    const mp_piece *pieces;
    bool adds_up;    /* where the collective adds, its sums are added to the parts */
    bool is_ordered; /* sums are in the order of the ranks, whatever the others do */
    bool has_server; /* the first of the ranks has the whole of each tensor as its part, and the others have nothing */
    char *workspace;
} mp_leg;

/* A collective, leg after leg, that can be issued again when it has ended. */
enum { MP_LEGS = 6 };
typedef struct mp_collective_work mp_collective_work;
struct mp_collective_work {
    const char *name;   /* in messages: "all-reduce 3" */
    mp_collective kind; /* as the plan has it, of whatever legs it is made */
    size_t n_legs;
    mp_leg legs[MP_LEGS];
    bool adds; /* set before it is issued */
    /* of one that is under way: */
    size_t leg, n_requests;
    mp_awaited *requests; /* room for mp_work_requests of them */
    int tag, own_tag;     /* own_tag: where ranks issue not all the same; 0: none */
    int64_t ticket;
    mp_collective_work *next;
    /* of all its runs: how many, what they sent, and how long they were under way, if not on a stream; and of the last one when
     * that was */
    int64_t n_runs, sent_bytes;
    double seconds, began_at, ended_at;
};
/* Returns which of a tensor's n elements are a rank's part in a leg. */
mp_range mp_leg_part(const mp_leg *leg, int64_t n, int member);
size_t mp_work_requests(const mp_collective_work *work);
/* Returns the bytes that a leg receives into, for pieces of so many elements; with a server, of as many for each rank. */
int64_t mp_leg_workspace(mp_collective kind, bool fast, int64_t ranks, int64_t n, int64_t element_bytes);

typedef struct mp_collectives {
    mp_communicator *world;
    const mp_backend *backend;
    bool fast;
    double timeout; /* seconds in which nothing moves, after which a wait fails */
    int64_t issued, sent_bytes;
    double busy_since, busy_seconds;  /* in which something is under way: an end shows when somebody looks */
    double wait_seconds;              /* of them, those in which nothing else was done */
    mp_collective_work *first, *last; /* under way, in the order of issue */
} mp_collectives;

/* Issues a collective; *ticket is its number. Waiting for it waits for all before it. MP_IO: a message failed, or a rank is
 * gone, or silent for too long; MP_UNSUPPORTED as the communicator. */
mp_status mp_collectives_issue(mp_collectives *c, mp_collective_work *work, int64_t *ticket, mp_error *err);
/* Moves on what is under way, as far as it goes without waiting. */
mp_status mp_collectives_advance(mp_collectives *c, mp_error *err);
mp_status mp_collectives_wait(mp_collectives *c, int64_t ticket, mp_error *err);
/* Issues a collective and waits for it alone. */
mp_status mp_collectives_run(mp_collectives *c, mp_collective_work *work, mp_error *err);

/* Counts a run that a recording makes: it sends what those before it have sent. */
void mp_collectives_repeat(mp_collectives *c, mp_collective_work *work);
