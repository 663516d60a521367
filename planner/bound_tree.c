#include "planner/bound_tree.h"

#include <math.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>

#include "estimator/memory.h"
#include "planner/bound_relax.h"

enum { ROUNDS = 4, TRIED = 8, RELIABLE = 4, MOST_LEAVES = 1 << 16 };

/* A leaf, or what was one: what its parent has, and one storage more settled. */
struct leaf {
    int parent;
    int place; /* boundary * storages + storage */
    bool held;
    bool open;
    int64_t value;   /* scaled ticks, certified */
    double estimate; /* of the linear programme, of its parent's if it was not solved */
};

/* How much a storage's fate moved the programme, per part that it was away from it. */
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
    struct history *history; /* per place */
    unsigned char *basis;
    bool *used;
} tree;

static int column_of(const tree *t, int place)
{
    return mp_bound_relax_held(t->relax, place / (int)t->o.n_storages, place % (int)t->o.n_storages);
}

static void settle(tree *t, int place, unsigned char fate)
{
    t->o.fate[place] = fate;
    mp_bound_linear_limit(mp_bound_relax_linear(t->relax), column_of(t, place), fate == MP_BOUND_HELD ? 1 : 0,
                          fate == MP_BOUND_NOT_HELD ? 0 : INFINITY);
}

static void settle_all(tree *t, int leaf, bool settled)
{
    for (; leaf > 0; leaf = t->leaves[leaf].parent)
        settle(t, t->leaves[leaf].place,
               !settled                ? MP_BOUND_OPEN
               : t->leaves[leaf].held ? MP_BOUND_HELD
                                      : MP_BOUND_NOT_HELD);
}

static mp_status add_leaf(tree *t, int parent, int place, bool held, int64_t value, double estimate, mp_error *err)
{
    mp_status st = MP_OK;
    MP_REQUIRE(mp_grow(&t->leaves, &t->capacity, (size_t)t->n + 1, sizeof *t->leaves), err, MP_NOMEM,
               "no memory for %d leaves of a bound", t->n);
    t->leaves[t->n++] = (struct leaf){parent, place, held, true, value, estimate};
done:
    return st;
}

/* Which intervals' prices count. */
static void mark_used(tree *t)
{
    const mp_bound_overlap *o = &t->o;
    for (int p = 0; p < o->n_pairs; p++)
        for (size_t k = (size_t)p * o->n_storages; k < (size_t)(p + 1) * o->n_storages && !t->used[p]; k++)
            t->used[p] = o->held[k] || o->reward[k];
}

/* Leaves the intervals whose prices counted, and those between neighbours. */
static mp_status drop_idle(tree *t, mp_error *err)
{
    mp_status st = MP_OK;
    mp_bound_overlap *o = &t->o;
    int n = 0;
    bool solved;
    for (int p = 0; p < o->n_pairs; p++)
        if (o->pairs[p].to == o->pairs[p].from + 1 || t->used[p]) o->pairs[n++] = o->pairs[p];
    if(getenv("TR")) fprintf(stderr,"pairs %d of %d\n",n,o->n_pairs);
    o->n_pairs = n;
    mp_bound_relax_free(t->relax);
    t->relax = NULL;
    MP_TRY(mp_bound_overlap_make_room(o, err));
    MP_TRY(mp_bound_relax_new(o, &t->relax, err));
    MP_TRY(mp_bound_relax_solve(t->relax, t->work_left, &solved, err));
    t->work_left -= mp_bound_relax_linear(t->relax)->work;
done:
    return st;
}

/* The intervals between the boundaries, and those that a few programmes ask for. */
static mp_status choose_pairs(tree *t, mp_error *err)
{
    mp_status st = MP_OK;
    mp_bound_overlap *o = &t->o;
    bool solved = false;
    const int n = o->n * (o->n + 1);
    double *more = mp_alloc((size_t)n, sizeof *more);
    MP_REQUIRE(more, err, MP_NOMEM, "no memory for a bound of %zu nodes", o->n_nodes);
    for (int i = 0; i < o->n; i++) MP_TRY(mp_bound_overlap_add(o, (mp_bound_pair){i, i + 1}, err));
    for (int i = 0; i < o->n; i++) MP_TRY(mp_bound_overlap_add(o, (mp_bound_pair){i, o->n}, err));
    for (int k = 0; k < ROUNDS && t->work_left > 0; k++) {
        const int before = o->n_pairs;
        for (int added = 0; k && added < o->n; added++) {
            int best = 0;
            for (int j = 1; j < n; j++)
                if (more[j] > more[best]) best = j;
            if (more[best] < 1e-3) break;
            more[best] = 0;
            MP_TRY(mp_bound_overlap_add(o, (mp_bound_pair){best / (o->n + 1), best % (o->n + 1)}, err));
        }
        if (k && o->n_pairs == before) break;
        mp_bound_relax_free(t->relax);
        t->relax = NULL;
        MP_TRY(mp_bound_overlap_make_room(o, err));
        MP_TRY(mp_bound_relax_new(o, &t->relax, err));
        MP_TRY(mp_bound_relax_solve(t->relax, t->work_left, &solved, err));
        t->work_left -= mp_bound_relax_linear(t->relax)->work;
        if (!solved) break;
        mp_bound_relax_shortfalls(t->relax, more);
    }
    if (!solved) t->work_left = 0;
done:
    mp_free(more);
    return st;
}

/* How much further the programme goes with a storage settled: some iterations only, and all is put back. */
static void look(tree *t, int place, bool held, double part, double *gain)
{
    enum { ITERATIONS = 50 };
    mp_bound_linear *l = mp_bound_relax_linear(t->relax);
    struct history *h = &t->history[place];
    size_t size;
    const double before = l->value;
    memcpy(t->basis, mp_bound_linear_basis(l, &size), (size_t)l->n_rows + (size_t)l->n_columns);
    settle(t, place, held ? MP_BOUND_HELD : MP_BOUND_NOT_HELD);
    mp_bound_linear_advance(l, ITERATIONS);
    t->work_left -= l->work;
    *gain = l->infeasible ? 1e6 : fmax(0, l->value - before);
    settle(t, place, MP_BOUND_OPEN);
    memcpy(mp_bound_linear_basis(l, &size), t->basis, size);
    l->value = before;
    h->gain[held] += *gain / part;
    h->n[held]++;
}

/* Where to branch, -1: all that is held is so wholly. */
static mp_status choose_place(tree *t, int *place, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_bound_linear *l = mp_bound_relax_linear(t->relax);
    const int n = t->o.n * (int)t->o.n_storages;
    double best = -1;
    double *x = mp_alloc((size_t)n, sizeof *x), *score = mp_alloc((size_t)n, sizeof *score);
    MP_REQUIRE(x && score, err, MP_NOMEM, "no memory for a bound of %zu nodes", t->o.n_nodes);
    *place = -1;
    for (int k = 0; k < n; k++) {
        const int column = column_of(t, k);
        x[k] = column < 0 || t->o.fate[k] != MP_BOUND_OPEN ? 0 : l->x[column];
        score[k] = -1;
        if (x[k] < 1e-5 || x[k] > 1 - 1e-5) continue;
        const struct history *h = &t->history[k];
        const double down = h->n[0] ? h->gain[0] / h->n[0] * x[k] : 0, up = h->n[1] ? h->gain[1] / h->n[1] * (1 - x[k]) : 0;
        score[k] = h->n[0] && h->n[1] ? fmax(down, 1e-4) * fmax(up, 1e-4)
                                      : (double)t->o.bytes[k] / (double)(t->o.room_bytes[k / (int)t->o.n_storages] + 1) *
                                            fmin(x[k], 1 - x[k]);
    }
    for (int tried = 0; tried < 3 * TRIED && t->work_left > 0; tried++) {
        int k = 0;
        for (int j = 1; j < n; j++)
            if (score[j] > score[k]) k = j;
        if (score[k] < 0) break;
        struct history *h = &t->history[k];
        double down = 0, up = 0;
        score[k] = -1;
        if (h->n[0] < RELIABLE || h->n[1] < RELIABLE) {
            look(t, k, false, x[k], &down);
            look(t, k, true, 1 - x[k], &up);
        } else {
            down = h->gain[0] / h->n[0] * x[k];
            up = h->gain[1] / h->n[1] * (1 - x[k]);
            tried += 0;
        }
        const double worth = fmax(down, 1e-4) * fmax(up, 1e-4);
        if (worth <= best) continue;
        best = worth;
        *place = k;
        tried -= tried > 2 * TRIED ? TRIED : tried / 2;
    }
done:
    mp_free(x);
    mp_free(score);
    return st;
}

/* Solves a leaf's programme; *place: where it has to be parted, -1: nowhere. */
static mp_status visit(tree *t, int leaf, int *place, mp_error *err)
{
    mp_status st = MP_OK;
    bool solved;
    *place = -1;
    settle_all(t, leaf, true);
    MP_TRY(mp_bound_relax_solve(t->relax, t->work_left, &solved, err));
    mp_bound_linear *l = mp_bound_relax_linear(t->relax);
    t->work_left -= l->work;
    const int64_t value = solved ? mp_bound_overlap_value(&t->o) : 0;
    struct leaf *at = &t->leaves[leaf];
    if (value > at->value) at->value = value;
    if (solved) mark_used(t);
    at->estimate = l->value;
    if (solved && t->work_left > 0) MP_TRY(choose_place(t, place, err));
    if(getenv("TR")) fprintf(stderr,"leaf %d of %d lp %f value %f solved %d inf %d place %d work %ld\n",leaf,t->n,l->value,(double)t->leaves[leaf].value/(double)t->o.x->up,solved,l->infeasible,*place,(long)t->work_left);
done:
    settle_all(t, leaf, false);
    return st;
}

mp_status mp_bound_tree(mp_bound_interval *x, const int *nodes, int n, const mp_bound_options *options, int64_t work,
                        int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    tree t = {.work_left = work};
    int64_t best = 0;
    MP_TRY(mp_bound_overlap_init(&t.o, x, nodes, n, options, err));
    t.history = mp_alloc((size_t)n * t.o.n_storages, sizeof *t.history);
    MP_REQUIRE(t.history, err, MP_NOMEM, "no memory for a bound of %zu nodes", t.o.n_nodes);
    MP_TRY(choose_pairs(&t, err));
    if (t.work_left <= 0) goto done;
    size_t size;
    mp_bound_linear_basis(mp_bound_relax_linear(t.relax), &size);
    t.basis = mp_alloc(size, 1);
    MP_REQUIRE(t.basis, err, MP_NOMEM, "no memory for a bound of %zu nodes", t.o.n_nodes);
    t.used = mp_alloc((size_t)t.o.n_pairs, 1);
    MP_TRY(add_leaf(&t, -1, -1, false, 0, 0, err));
    int visits = 0;
    while (t.work_left > 0 && t.n < MOST_LEAVES && !(options->stop && options->stop(options->data))) {
        int leaf = -1, place;
        for (int k = 0; k < t.n; k++)
            if (t.leaves[k].open && (leaf < 0 || t.leaves[k].value < t.leaves[leaf].value ||
                                     (t.leaves[k].value == t.leaves[leaf].value)))
                leaf = k;
        if (leaf < 0) break; /* no labelling is left: the caller's bound on it is no bound */
        best = t.leaves[leaf].value;
        MP_TRY(visit(&t, leaf, &place, err));
        if (++visits == (getenv("VIS") ? atoi(getenv("VIS")) : 12)) MP_TRY(drop_idle(&t, err));
        if (place < 0) {
            if (t.leaves[leaf].value == INT64_MAX) t.leaves[leaf].open = false;
            else if (t.leaves[leaf].value <= best) break;
            continue;
        }
        t.leaves[leaf].open = false;
        const int64_t value = t.leaves[leaf].value;
        const double estimate = t.leaves[leaf].estimate;
        for (int held = 0; held < 2; held++) MP_TRY(add_leaf(&t, leaf, place, held, value, estimate, err));
    }
    best = INT64_MAX;
    for (int k = 0; k < t.n; k++)
        if (t.leaves[k].open && t.leaves[k].value < best) best = t.leaves[k].value;
    if (best == INT64_MAX) st = MP_INFEASIBLE;
    else if (best > 0 && mp_bound_interval_ticks(x, best) > *ticks) *ticks = mp_bound_interval_ticks(x, best);
done:
    mp_bound_relax_free(t.relax);
    mp_bound_overlap_clear(&t.o);
    mp_free(t.leaves);
    mp_free(t.history);
    mp_free(t.basis);
    mp_free(t.used);
    return st;
}
