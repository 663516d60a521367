/* bound_overlap_tree.c - branch and bound over the storages that are live at boundaries. A linear programme is solved for each
 * leaf of the search tree. */
#include "planner/bound/overlap/bound_overlap.h"

#include <math.h>
#include <string.h>

#include "estimator/base/memory.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    BOUND_TREE_PROGRAMMES = 4,  /* linear programmes that choose the intervals of the search tree */
    BOUND_TREE_TRIED = 8,       /* storages tried before the search tree branches on one of them */
    BOUND_TREE_LOOK = 50,       /* simplex iterations to try one storage as a branch */
    BOUND_TREE_RELIABLE = 4,    /* after 4 trials of a storage, the mean gain replaces further trials */
    BOUND_TREE_LEAVES = 16384,  /* most leaves of the search tree */
    BOUND_TREE_ALL_VISITS = 12, /* after 12 leaves, the search tree drops intervals with multiplier 0 */
};

/* A leaf of the branch-and-bound tree: the decisions of its parent and one further decision (a storage is live at a boundary,
 * or not). */
struct leaf {
    int parent;
    int place; /* the storage and the boundary of the decision, as boundary * n_storages + storage */
    bool live;
    bool open;
    int64_t value; /* lower bound for the plans of this leaf, in scaled ticks; INT64_MAX: no plan fits */
};

/* Past decisions about a storage at a boundary: the average rise of the programme's value, divided by the distance between the
 * storage's fraction and the decision. Index 0: not live; index 1: live. */
struct history {
    double gain[2];
    int n[2];
};

typedef struct tree {
    mp_bound_overlap o;
    mp_bound_relax *relax;
    int64_t work_left;
    struct leaf *leaves;
    size_t capacity;
    int n;
    mp_pool *pool;           /* owns the three arrays below */
    struct history *history; /* per boundary and storage: the rise of the bound in past decisions about this storage */
    unsigned char *basis;    /* scratch: a basis of the linear programme, saved before a look-ahead and restored afterwards */
    /* per pair of boundaries: true if in some leaf of the search tree a multiplier of the pair was not zero */
    bool *used;
} tree;

static int column_of(const tree *t, int place)
{
    return mp_bound_relax_live(t->relax, place / (int)t->o.n_storages, place % (int)t->o.n_storages);
}

static void decide_place(tree *t, int place, unsigned char decision)
{
    const int column = column_of(t, place);
    t->o.decision[place] = decision;
    if (column < 0)
        return; /* if the linear programme has no column for this storage at this boundary, the decision only changes the free
                   memory */
    mp_linear_limit(mp_bound_relax_linear(t->relax), column, decision == MP_BOUND_LIVE ? 1 : 0,
                    decision == MP_BOUND_NOT_LIVE ? 0 : INFINITY);
}

static void settle_all(tree *t, int leaf, bool settled)
{
    for (; leaf > 0; leaf = t->leaves[leaf].parent)
        decide_place(t, t->leaves[leaf].place,
                     !settled               ? MP_BOUND_OPEN
                     : t->leaves[leaf].live ? MP_BOUND_LIVE
                                            : MP_BOUND_NOT_LIVE);
}

static mp_status add_leaf(tree *t, int parent, int place, bool live, int64_t value, mp_error *err)
{
    MP_ENSURE(mp_grow(&t->leaves, &t->capacity, (size_t)t->n + 1, sizeof *t->leaves), err, MP_NOMEM,
              "no memory for %d leaves of a bound", t->n);
    t->leaves[t->n++] = (struct leaf){parent, place, live, true, value};
    return MP_OK;
}

/* Marks the intervals that have a multiplier other than zero in the present solution. */
static void mark_used(tree *t)
{
    const mp_bound_overlap *o = &t->o;
    for (int p = 0; p < o->n_pairs; p++)
        for (size_t k = (size_t)p * o->n_storages; k < (size_t)(p + 1) * o->n_storages && !t->used[p]; k++)
            t->used[p] = o->live[k] || o->reward[k];
}

/* Removes the intervals that are not marked as used. Intervals between neighbouring boundaries are always kept. */
static mp_status drop_idle(tree *t, mp_error *err)
{
    mp_bound_overlap *o = &t->o;
    int n = 0;
    bool solved;
    for (int p = 0; p < o->n_pairs; p++)
        if (o->pairs[p].to == o->pairs[p].from + 1 || t->used[p]) o->pairs[n++] = o->pairs[p];
    o->n_pairs = n;
    return mp_bound_relax_renew(o, &t->relax, &t->work_left, &solved, err);
}

/* Chooses the intervals for the whole search tree: those between neighbouring boundaries, those from each boundary to the end,
 * and intervals whose rows are violated by the solutions of a few linear programmes. */
static mp_status choose_pairs(tree *t, mp_error *err)
{
    mp_bound_overlap *o = &t->o;
    bool solved = false;
    for (int i = 0; i < o->n; i++) MP_CHECK(mp_bound_overlap_add(o, (mp_bound_pair){i, i + 1}, err));
    for (int i = 0; i < o->n; i++) MP_CHECK(mp_bound_overlap_add(o, (mp_bound_pair){i, o->n}, err));
    for (int k = 0; k < BOUND_TREE_PROGRAMMES && t->work_left > 0; k++) {
        const int before = o->n_pairs;
        if (k) MP_CHECK(mp_bound_relax_add_pairs(t->relax, o->n_pairs + o->n, err));
        if (k && o->n_pairs == before) break;
        MP_CHECK(mp_bound_relax_renew(o, &t->relax, &t->work_left, &solved, err));
        if (!solved) break;
    }
    if (!solved) t->work_left = 0;
    return MP_OK;
}

/* Look-ahead: makes one further decision and runs a few iterations of the simplex algorithm. Returns the rise of the linear
 * programme's optimum. Then undoes the decision. */
static double look(tree *t, int place, bool live, double part)
{
    enum { MOST = 1000000 };
    mp_linear *l = mp_bound_relax_linear(t->relax);
    struct history *h = &t->history[place];
    size_t size;
    const double before = l->value;
    const unsigned char *basis = mp_linear_basis(l, &size);
    memcpy(t->basis, basis, size);
    decide_place(t, place, live ? MP_BOUND_LIVE : MP_BOUND_NOT_LIVE);
    mp_linear_advance(l, BOUND_TREE_LOOK);
    const double gain = l->infeasible ? MOST : fmax(0, l->value - before);
    t->work_left -= l->work;
    t->o.x->work.n_pivots += l->work;
    decide_place(t, place, MP_BOUND_OPEN);
    memcpy(mp_linear_basis(l, &size), t->basis, size);
    l->value = before;
    if (l->infeasible) return gain;
    h->gain[live] += gain / part;
    h->n[live]++;
    return gain;
}

/* Returns the gain in value that the history predicts for a decision about a storage. */
static double expect(const struct history *h, bool live, double part)
{
    return h->n[live] ? h->gain[live] / h->n[live] * part : 0;
}

static double score_of(double without, double with)
{
    const double least = 1e-4;
    return fmax(without, least) * fmax(with, least);
}

/* Rates the decisions on which the search may branch: storages of which the solution keeps only a fraction live. The score is
 * the gain that earlier branches on the storage predict. Without earlier branches, it is the fraction of the free memory that
 * the storage needs. */
static void score_places(const tree *t, double *part, double *score)
{
    const mp_linear *l = mp_bound_relax_linear(t->relax);
    const double hardly = 1e-5;
    for (int k = 0; k < t->o.n * (int)t->o.n_storages; k++) {
        const struct history *h = &t->history[k];
        const int column = column_of(t, k);
        part[k] = column < 0 || t->o.decision[k] != MP_BOUND_OPEN ? 0 : l->x[column];
        if (part[k] < hardly || part[k] > 1 - hardly)
            score[k] = -1;
        else if (h->n[false] && h->n[true])
            score[k] = score_of(expect(h, false, part[k]), expect(h, true, 1 - part[k]));
        else
            score[k] =
                (double)t->o.bytes[k] / (double)(t->o.free_bytes[k / (int)t->o.n_storages] + 1) * fmin(part[k], 1 - part[k]);
    }
}

/* Chooses the storage to branch on. -1: the solution keeps no storage live with a fraction between 0 and 1. */
static mp_status choose_place(tree *t, int *place, mp_error *err)
{
    const size_t n = (size_t)t->o.n * t->o.n_storages;
    double best = -1;
    MP_OWNED double *part = mp_alloc(n, sizeof *part), *score = mp_alloc(n, sizeof *score);
    MP_ENSURE(part && score, err, MP_NOMEM, "no memory for a bound of %zu nodes", t->o.n_nodes);
    *place = -1;
    score_places(t, part, score);
    for (int idle = 0; idle < BOUND_TREE_TRIED && t->work_left > 0; idle++) {
        int k = 0;
        for (int j = 1; j < (int)n; j++)
            if (score[j] > score[k]) k = j;
        if (score[k] < 0) break;
        const struct history *h = &t->history[k];
        const bool reliable = h->n[false] >= BOUND_TREE_RELIABLE && h->n[true] >= BOUND_TREE_RELIABLE;
        const double without = reliable ? expect(h, false, part[k]) : look(t, k, false, part[k]);
        const double with = reliable ? expect(h, true, 1 - part[k]) : look(t, k, true, 1 - part[k]);
        score[k] = -1;
        if (score_of(without, with) <= best) continue;
        best = score_of(without, with);
        *place = k;
        idle = 0;
    }
    return MP_OK;
}

static mp_status solve_leaf(tree *t, int leaf, int *place, mp_error *err)
{
    bool solved;
    MP_CHECK(mp_bound_relax_solve(t->relax, t->work_left, &solved, err));
    t->work_left -= mp_bound_relax_linear(t->relax)->work;
    /* if the programme was not solved, the previous multipliers still give a valid bound */
    const int64_t value = mp_bound_overlap_value(&t->o);
    if (value > t->leaves[leaf].value) t->leaves[leaf].value = value;
    if (solved) mark_used(t);
    return solved && value < INT64_MAX && t->work_left > 0 ? choose_place(t, place, err) : MP_OK;
}

/* Solves the linear programme of a leaf of the search tree. *place: the storage and boundary to branch on; -1: none. */
static mp_status visit(tree *t, int leaf, int *place, mp_error *err)
{
    *place = -1;
    settle_all(t, leaf, true);
    const mp_status st = solve_leaf(t, leaf, place, err);
    settle_all(t, leaf, false);
    return st;
}

/* Returns the open leaf with the smallest bound. Of equal leaves, returns the latest. -1: no leaf is feasible. */
static int best_leaf(const tree *t)
{
    int best = -1;
    for (int k = 0; k < t->n; k++)
        if (t->leaves[k].open && (best < 0 || t->leaves[k].value <= t->leaves[best].value)) best = k;
    return best >= 0 && t->leaves[best].value < INT64_MAX ? best : -1;
}

static mp_status grow(tree *t, mp_error *err)
{
    const mp_bound_options *options = t->o.options;
    for (int visits = 0; t->work_left > 0 && t->n < BOUND_TREE_LEAVES && !(options->stop && options->stop(options->data));
         visits++) {
        const int leaf = best_leaf(t);
        if (leaf < 0) break;
        const int64_t before = t->leaves[leaf].value;
        int place;
        if (visits == BOUND_TREE_ALL_VISITS) MP_CHECK(drop_idle(t, err));
        MP_CHECK(visit(t, leaf, &place, err));
        const int64_t value = t->leaves[leaf].value;
        /* the search ends at a leaf without a storage to branch on: it has the smallest bound of all leaves, so the bound of
         * the tree cannot rise */
        if (place < 0 && value == before) break;
        if (place < 0) continue;
        t->leaves[leaf].open = false;
        for (int live = 0; live < 2; live++) MP_CHECK(add_leaf(t, leaf, place, live, value, err));
    }
    return MP_OK;
}

static void clear(tree *t)
{
    mp_bound_relax_free(t->relax);
    mp_bound_overlap_clear(&t->o);
    mp_free(t->leaves);
    mp_pool_free(t->pool);
}

mp_status mp_bound_tree(mp_bound_interval *x, const int *nodes, int n, const mp_bound_options *options, int64_t work,
                        int64_t *ticks, mp_error *err)
{
    MP_CLEARED_BY(clear) tree t = {.pool = mp_pool_new(), .work_left = work};
    size_t size;
    MP_CHECK(mp_bound_overlap_init(&t.o, x, nodes, n, options, err));
    MP_CHECK(choose_pairs(&t, err));
    if (t.work_left <= 0) return MP_OK;
    mp_linear_basis(mp_bound_relax_linear(t.relax), &size);
    t.history = mp_pool_alloc(t.pool, (size_t)n * t.o.n_storages, sizeof *t.history);
    t.basis = mp_pool_alloc(t.pool, size, sizeof *t.basis);
    t.used = mp_pool_alloc(t.pool, (size_t)t.o.n_pairs, sizeof *t.used);
    MP_ENSURE(!mp_pool_failed(t.pool), err, MP_NOMEM, "no memory for a bound of %zu nodes", t.o.n_nodes);
    MP_CHECK(add_leaf(&t, -1, -1, false, 0, err));
    MP_CHECK(grow(&t, err));
    const int best = best_leaf(&t);
    if (best < 0) return MP_INFEASIBLE;
    if (t.leaves[best].value > 0 && mp_bound_interval_ticks(x, t.leaves[best].value) > *ticks)
        *ticks = mp_bound_interval_ticks(x, t.leaves[best].value);
    return MP_OK;
}
