/* exact.h - the cheapest plan of a tiny graph within a budget, over all schedules. For the planner's own use.
 *
 * A* (Hart, Nilsson and Raphael 1968) over states between steps: the nodes that have run, and the storages that are still held.
 * The cost of the way to a state is what it took beyond each node once in its fastest form, so that cheap plans come first.
 *
 * Nothing is given up before room is needed. A storage that is held may be given up between any two steps for nothing, since
 * its instance has then ended at its last read already. So of two states in which the same nodes have run, the one that holds
 * all that the other holds, at no more cost, is as good; and of the ways to make a step fit, only those count that give up no
 * more than they must. An instance may also end at the step itself, so that an output takes its room.
 *
 * Every run takes its own form, algorithms (memplan/graph.h) included: what is found is the optimum where no node takes
 * two of them, and a lower bound else, and the plan then has one for all runs of a node (algorithms.h).
 *
 * Nodes and storages (those not always live) are bits of a set, which limits both to 64.
 */
#ifndef PLANNER_EXACT_H
#define PLANNER_EXACT_H

#include "memplan/timeline.h"
#include "planner/math/heap.h"

typedef uint64_t mp_exact_set;

enum { MP_EXACT_BITS = 64 };

static inline mp_exact_set mp_exact_one(int i)
{
    return UINT64_C(1) << i;
}
/* Takes the lowest element out of a set that is not empty. */
static inline int mp_exact_take(mp_exact_set *set)
{
    const int i = __builtin_ctzll(*set);
    *set &= *set - 1;
    return i;
}

/* ---- the graph in sets (exact_graph.c) ---- */

typedef struct mp_exact_form {
    int node, number;
    mp_exact_set reads, writes, adds; /* storages */
    mp_exact_set after, before;       /* nodes that must have run, and that must not have, whenever this runs */
    mp_exact_set from;                /* inputs whose room an output can take */
    mp_in_place *pairs;               /* those that can fit, by bit */
    size_t n_pairs;
    int64_t workspace_bytes, ticks;
} mp_exact_form;

typedef struct mp_exact_node {
    const mp_exact_form *forms;
    size_t n_forms;
    mp_exact_set first_after; /* nodes that must have run before its first run */
    mp_exact_set certain;     /* storages that every form reads */
    mp_exact_set writes;      /* what some form writes */
    mp_exact_set used_later;  /* storages that some node that has to come later certainly uses */
    mp_exact_set kept;        /* those of them that can be made only once, and have been when it runs */
    int64_t least_ticks;
} mp_exact_node;

typedef struct mp_exact_graph {
    const mp_graph *graph;
    int n_nodes, n_storages;
    mp_exact_set all, repeatable; /* nodes */
    mp_exact_set carried;         /* storages */
    mp_exact_node nodes[MP_EXACT_BITS];
    mp_exact_set makers[MP_EXACT_BITS], adders[MP_EXACT_BITS]; /* per storage; an adder is a maker */
    int64_t bytes[MP_EXACT_BITS];
    int64_t remake_ticks[MP_EXACT_BITS]; /* of the fastest form that writes the storage */
    int64_t room_bytes;                  /* the budget less what is always live */
    int64_t least_ticks;                 /* every node once, in its fastest form */
    mp_exact_form *forms;
    mp_in_place *pairs;
} mp_exact_graph;

/* Zeroed *out is released with mp_exact_graph_free, also after a failure. MP_NOT_APPLICABLE: too many nodes or storages, or
 * forms that differ in what they add to, carry on or update. MP_NOMEM. */
mp_status mp_exact_graph_read(const mp_graph *graph, int64_t budget_bytes, bool keep_order, mp_exact_graph *out, mp_error *err);
void mp_exact_graph_free(mp_exact_graph *x);
int64_t mp_exact_bytes(const mp_exact_graph *x, mp_exact_set storages);

/* ---- what follows from the nodes that have run (exact_stage.c) ---- */

typedef struct mp_exact_stage {
    mp_exact_set ran, active;     /* nodes; active: those that have not run, or may run again for something useful */
    mp_exact_set useful;          /* storages that somebody may still use, if they are held */
    mp_exact_set forced;          /* those that nobody can make again and that will be used: without them there is no plan */
    mp_exact_set made, remakable; /* storages that some node has made; that some node may make again */
    mp_exact_set present;         /* carried gradients that are complete: live to the end, read without being held */
    mp_exact_set wanted;          /* what nodes that have not run certainly read */
    int64_t fixed_bytes;          /* carried gradients that have begun: live to the end */
    bool dead_end;
    size_t first, n, room; /* its states that are not dominated: entries[first .. first + n), of a block of `room` */
} mp_exact_stage;

void mp_exact_stage_of(const mp_exact_graph *x, mp_exact_set ran, mp_exact_stage *out);

/* At least this many ticks go into second runs from here on; -1: there is no plan from here. Every wanted storage that is made
 * and not held is made again, from what is held or made again as well. */
int64_t mp_exact_least_extra(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set held);

/* ---- nodes that will not fit (exact_floor.c) ---- */

/* Fills in what is used after each node, and kept for it: from who has to run before whom. */
void mp_exact_order_nodes(mp_exact_graph *x);
/* True: no plan leads out of the stage, since some node that has not run does not fit beside what is live then. */
bool mp_exact_is_dead_end(const mp_exact_graph *x, const mp_exact_stage *stage);

/* ---- steps (exact_step.c) ---- */

/* Whether the form can run now. A second run has to make something useful that is not held. */
bool mp_exact_can_run(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set held, const mp_exact_form *form);

/* Told what is held after a step; false ends the enumeration. */
typedef bool (*mp_exact_visit)(void *data, mp_exact_set held);

/* All that can be held after a step that can run, `next` being the stage after it: everything if that fits, else every largest
 * set that leaves it room. False: the visitor ended it. O(2^storages held) in the worst case, few in practice. */
bool mp_exact_step(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set held,
                   const mp_exact_form *form, mp_exact_visit visit, void *data);

/* Whether some best plan from here, if there is one, begins with the first run of the form's node in this form, which gives up
 * nothing; then *held_after. */
bool mp_exact_is_safe(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set held,
                      const mp_exact_form *form, mp_exact_set *held_after);

/* ---- states (exact_states.c) ---- */

typedef struct mp_exact_state {
    mp_exact_set made, held; /* storages held right after its step, and after the safe steps that follow it */
    int64_t extra_ticks;
    int stage, parent; /* of the state itself; -1: the first state */
    const mp_exact_form *form;
    bool dominated;
} mp_exact_state;

typedef struct mp_exact_entry { /* of a stage */
    mp_exact_set held;
    int64_t extra_ticks;
    int state;
} mp_exact_entry;

typedef struct mp_exact_states {
    mp_exact_state *states;
    mp_exact_stage *stages;
    mp_exact_entry *entries;
    int *slots;     /* a hash table of 1 + stage, at most half full */
    mp_heap open;   /* by ticks at least, then by nodes left */
    int64_t n_work; /* ways to hold things after a step, and entries looked at */
    size_t n, capacity, n_stages, stages_capacity, n_slots, n_entries, entries_capacity, open_capacity;
} mp_exact_states;

void mp_exact_states_free(mp_exact_states *t); /* zeroed is fine */

/* The number of the stage, which is made at need; pointers to stages end with that. MP_NOMEM. O(1) or one mp_exact_stage_of. */
mp_status mp_exact_find_stage(mp_exact_states *t, const mp_exact_graph *x, mp_exact_set ran, int *out, mp_error *err);

/* Puts a state among those to be expanded, unless another of its stage is as good. MP_NOMEM. O(states of the stage). */
mp_status mp_exact_reach(mp_exact_states *t, const mp_exact_graph *x, const mp_exact_state *state, int64_t least_extra,
                         mp_error *err);
/* The most promising one, -1: none is left. O(log states). */
int mp_exact_pop(mp_exact_states *t);

#endif
