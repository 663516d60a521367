/* priced.h - what is stored for backward and what is made again, decided for a whole graph at once by a minimum cut with
 * memory priced. For priced.c.
 *
 * A stage is the run of a node that is no update, in list order. At the turn, the first stage of the loss or of backward, it is
 * decided for every output of the stages before whether it is stored until its last read after the turn, or let go and made
 * again just before it is read first after the turn, and then held to its last read. What makes it again needs its own inputs,
 * stored or made again.
 *
 * Storing costs the bytes times the prices of the stages that it lies in memory for nothing but later reads; making again costs
 * ticks, and the prices of the stages from then on. The least total is a closure problem (Picard 1976), one cut.
 */
#ifndef PLANNER_PRICED_H
#define PLANNER_PRICED_H

#include "memplan/timeline.h"
#include "planner/math/mincut.h"

typedef struct mp_priced {
    const mp_graph *graph;
    int n;             /* stages */
    int *node;         /* per stage */
    int turn;          /* the stage before which outputs are let go */
    int *maker;        /* per storage: the stage before the turn that makes it, if it can be stored or not; -1 */
    int *early;        /* per storage: its last read before the turn, else the stage that makes it */
    int *first, *last; /* per storage: its first and last read in stages from the turn on; n and -1: none */
    bool *repeatable;  /* per stage before the turn: its node may run again, and that can be of use */
    bool *held;        /* per stage before the turn, set by the caller: its outputs are stored, if they are needed at all */
    int *run, *end;    /* per stage before the turn: where it would be made again; per storage: where it then ends. By the
                          labels of the cut before */
    mp_mincut *cut;
    int *storage_vertex, *stage_vertex; /* -1: none */
    int *arc_from, *arc_to;             /* a storage and the stage that makes it, or a stage and a storage that it reads */
    size_t n_arcs, n_making;            /* the first n_making arcs are of the first sort */
    int64_t *scaled_ticks;              /* per stage: later ones count slightly more, so that equal layers are told apart */
    double scale;                       /* scaled ticks per tick */
    int64_t most;                       /* of the price of a storage, scaled */
    bool lets_go; /* set by the caller: schedules let go what is made again if its price until the next read is more than what
                     making it once more takes */
    bool *again;  /* per stage: set by mp_priced_label */
    double *price_before; /* work: per stage, the sum of the prices of those before */
    /* per storage, of what is made again: the stage from which it is needed, the next stage that needs it, and the stage before
       the turn for whose second run the first is (-1: a stage after the turn reads it itself) */
    int *needed, *next_needed, *needed_by;
} mp_priced;

/* The problem of a graph; in one without loss and backward nodes the turn is at keep-all's peak. On MP_OK *out is released with
 * mp_priced_free (NULL is fine). MP_NOMEM. O(list lengths). */
mp_status mp_priced_new(const mp_graph *graph, mp_priced **out, mp_error *err);
void mp_priced_free(mp_priced *x);

/* Sets `again` to the cheapest labels for the prices, ticks per byte, >= 0, one per stage. One cut. */
void mp_priced_label(mp_priced *x, const double *price);

/* The order of steps that follows from `again`: the stages in list order, and before each from the turn on what it lacks. Every
 * node runs at most twice, unless `lets_go` is set; then there are at most 4 steps for each node. Updates as
 * mp_updates_place places them. On MP_OK *steps is released with mp_free. MP_NOMEM. O(list lengths + n log n). */
mp_status mp_priced_schedule(const mp_priced *x, mp_step **steps, size_t *n, mp_error *err);

#endif
