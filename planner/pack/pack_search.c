/* pack_search.c - depth-first branch and bound for offsets, with restarts. A hash table stores states from which the search has
 * failed, so that they are not searched again. Terms (box, section, floor) are defined in pack.h. */
#include "planner/pack/pack.h"

#include <stdlib.h>
#include <xxhash.h>

#include "estimator/base/memory.h"
#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    PACK_DEPTH = 5000, /* most nested branchings of the search tree, limited by the stack */
    PACK_RUNS = 100,   /* most restarts of a search that fails only because of PACK_DEPTH */
};

/* the branch RAISE: no box is placed at the floor of the section, and the floor is raised instead */
enum { RAISE = -1 };

enum order { BY_LIFE, BY_AREA, BY_SIZE, N_ORDERS };

typedef struct branching {
    /* section: the section to branch on; n: its number of branches, including RAISE; INT_MAX: no section is chosen yet */
    int section, n;
    int64_t floor, slack;
    int64_t raised; /* the floor of the section after the branch RAISE; -1: it would exceed the capacity */
} branching;

struct mp_pack_search {
    mp_pool *pool; /* owns all arrays except `branches` */
    mp_pack_state *state;
    const mp_pack_options *options;
    double *preference[N_ORDERS];
    enum order order;
    XXH128_hash_t *failed; /* failed states, by hash */
    int memory_bits;
    /* number of searches so far. It is part of each hash, because a state that failed for one capacity may succeed for
     * another */
    uint64_t n_searches;
    int *box_start; /* per section: index of the first box whose lifetime begins in this section or later */
    /* a stack of branches: first the branches of the first level of the search tree, then the branches of the second level, and
     * so on */
    int *branches;
    size_t n_branches, branches_capacity;
    int64_t *tops; /* per section: result of top_beside, which the function `supported` computes once; -1: not computed yet */
    /* per section: 1 + the number of times that boxes did not fit in it; hard sections are preferred for branching */
    int64_t *weight;
    int64_t nodes, limit; /* nodes: number of search nodes visited since the last restart; limit: limit on this number */
    int depth;
    bool halted, stopped;
};

/* ---- failed states ---- */

static XXH128_hash_t hash_part(const mp_pack_search *x, int from, int to)
{
    const mp_pack_state *s = x->state;
    const int a = x->box_start[from], b = x->box_start[to];
    XXH128_hash_t hash = XXH3_128bits_withSeed(s->floor + from, (size_t)(to - from) * sizeof *s->floor,
                                               (XXH64_hash_t)from ^ x->n_searches << 32);
    const XXH128_hash_t boxes = XXH3_128bits_withSeed(s->placed + a, (size_t)(b - a), hash.low64);
    hash.low64 = boxes.low64;
    hash.high64 = (hash.high64 * 0x9e3779b97f4a7c15u) ^ boxes.high64;
    return hash;
}

static XXH128_hash_t *place_of(const mp_pack_search *x, XXH128_hash_t hash)
{
    return &x->failed[hash.low64 >> (64 - x->memory_bits)];
}

/* ---- the choice of the section on which the search branches ---- */

static bool is_level(const mp_pack_state *s, const mp_pack_box *box, int64_t floor)
{
    /* if the box has the same size in all its sections, the floors of its other sections need no check */
    if (box->n_runs == 1) return true;
    for (int r = box->run; r < box->run + box->n_runs; r++)
        for (int t = s->runs[r].begin; t < s->runs[r].end; t++)
            if (s->floor[t] != floor) return false;
    return true;
}

/* Returns the lowest possible top (end offset) of an unplaced box that is live in section t. The box `box` and boxes that are
 * also live in `section` are not counted. */
static int64_t top_beside(const mp_pack_state *s, int t, int section, int box)
{
    int64_t least = INT64_MAX;
    for (int k = s->live_start[t]; k < s->live_start[t] + s->n_live[t]; k++) {
        const mp_pack_live *other = &s->live[k];
        const mp_pack_box *o = &s->boxes[other->box];
        const int64_t top = s->lowest[other->box] + other->size;
        if (top >= least || other->box == box) continue;
        if (o->begin <= section && section < o->end && o->n_runs == 1) continue;
        least = top;
    }
    return least;
}

/* Returns the lowest offset at which box b can rest on another box instead of the floor. This other box is not live in the
 * section. The result is at most `most`. x->tops caches values for the sections. */
static int64_t supported(const mp_pack_search *x, int b, int section, int64_t most)
{
    const mp_pack_state *s = x->state;
    const mp_pack_box *box = &s->boxes[b];
    int64_t least = most;
    for (int r = box->run; r < box->run + box->n_runs; r++)
        for (int t = s->runs[r].begin; t < s->runs[r].end; t++) {
            if (t == section || s->least_top[t] >= least) continue;
            int64_t top;
            if (box->n_runs > 1) {
                top = top_beside(s, t, section, b);
            } else {
                if (x->tops[t] < 0) x->tops[t] = top_beside(s, t, section, -1);
                top = x->tops[t];
            }
            if (top < least) least = top;
        }
    return least == most ? most : (least + box->alignment - 1) / box->alignment * box->alignment;
}

/* True if section b->section, with its b->n branches, is a better choice to branch on than best->section. */
static bool precedes(const mp_pack_search *x, const branching *b, const branching *best)
{
    if (best->section < 0) return true;
    if (x->options->without & MP_PACK_FEWEST) return b->floor < best->floor;
    const bool weighs = b->n > 1 && best->n > 1;
    const double cost = (double)b->n * (double)(weighs ? x->weight[best->section] : 1);
    const double least = (double)best->n * (double)(weighs ? x->weight[b->section] : 1);
    if (cost != least) return cost < least;
    if (b->slack != best->slack) return b->slack < best->slack;
    return b->floor < best->floor;
}

/* Returns the floor of section t after the branch in which no box is placed at the present floor. INT64_MAX: some box must be
 * placed at the present floor. */
static int64_t next_floor(const mp_pack_search *x, int t, int64_t most)
{
    const mp_pack_state *s = x->state;
    const mp_pack_live *live = &s->live[s->live_start[t]];
    const int64_t f = s->floor[t];
    int64_t next = most + 1;
    int from = t, end = t + 1;
    if (f >= most) return INT64_MAX;
    for (int k = 0; k < s->n_live[t]; k++) {
        if (s->lowest[live[k].box] <= f && s->boxes[live[k].box].fixed >= 0) return INT64_MAX;
        if (s->lowest[live[k].box] > f && s->lowest[live[k].box] < next) next = s->lowest[live[k].box];
        if (s->boxes[live[k].box].begin < from) from = s->boxes[live[k].box].begin;
        if (s->boxes[live[k].box].end > end) end = s->boxes[live[k].box].end;
    }
    for (int k = from; k < end; k++) x->tops[k] = -1;
    for (int k = 0; k < s->n_live[t] && next > f + 1; k++) {
        const int b = live[k].box;
        const int64_t alignment = s->boxes[b].alignment;
        if (s->lowest[b] > f) continue;
        const int64_t rises =
            x->options->without & MP_PACK_SUPPORT ? (f / alignment + 1) * alignment : supported(x, b, t, next);
        if (rises < next) next = rises;
    }
    return next;
}

/* Compares section t with the section chosen so far, and chooses t if it is better to branch on. */
static void look(const mp_pack_search *x, int t, branching *best)
{
    const mp_pack_state *s = x->state;
    const int64_t bounded = s->capacity - s->total[t], f = s->floor[t];
    const int64_t most = x->options->without & MP_PACK_SECTIONS ? s->capacity : bounded;
    branching b = {.section = t, .n = s->n_low[t], .floor = f, .slack = bounded - f, .raised = -1};
    if (!precedes(x, &b, best)) return;
    for (int k = s->live_start[t]; s->has_pieces && k < s->live_start[t] + s->n_live[t]; k++)
        if (s->lowest[s->live[k].box] <= f && !is_level(s, &s->boxes[s->live[k].box], f)) return;
    const int64_t next = next_floor(x, t, most);
    if (next <= most) {
        b.raised = next;
        b.n++;
    }
    if (precedes(x, &b, best)) *best = b;
}

static branching choose(const mp_pack_search *x, int from, int to)
{
    const mp_pack_state *s = x->state;
    branching best = {.section = -1, .n = INT32_MAX};
    for (int t = from, end; t < to && best.n > 1; t = end) {
        const int64_t f = s->floor[t];
        end = t + 1;
        if (!s->n_live[t]) continue;
        while (end < to && s->n_live[end] && s->floor[end] == f) end++;
        const bool left = t == from || !s->n_live[t - 1] || s->floor[t - 1] > f;
        const bool right = end == to || !s->n_live[end] || s->floor[end] > f;
        if (!left || !right) continue;
        for (int k = t; k < end && best.n > 1; k++) look(x, k, &best);
    }
    return best;
}

/* Appends the branches of a section to x->branches, in the order in which they are tried. */
static bool list_branches(mp_pack_search *x, const branching *b)
{
    const mp_pack_state *s = x->state;
    const double *preference = x->preference[x->order];
    const size_t from = x->n_branches;
    if (!mp_grow(&x->branches, &x->branches_capacity, from + (size_t)b->n, sizeof *x->branches)) return false;
    for (int k = 0; k < s->n_live[b->section]; k++) {
        const int box = s->live[s->live_start[b->section] + k].box, twin = s->boxes[box].twin;
        if (s->lowest[box] > b->floor) continue;
        if (twin >= 0 && !s->placed[twin] && !(x->options->without & MP_PACK_TWINS)) continue;
        size_t at = x->n_branches++;
        for (; at > from; at--) {
            const int before = x->branches[at - 1];
            if (preference[before] > preference[box] || (preference[before] == preference[box] && before < box)) break;
            x->branches[at] = before;
        }
        x->branches[at] = box;
    }
    if (b->raised >= 0) x->branches[x->n_branches++] = RAISE;
    return true;
}

/* ---- the search ---- */

static bool take(mp_pack_search *x, const branching *b, int branch)
{
    mp_pack_state *s = x->state;
    if (branch == RAISE ? mp_pack_raise(s, b->section, b->raised) : mp_pack_put(s, branch)) return true;
    x->weight[s->conflict]++;
    return false;
}

static bool count_node(mp_pack_search *x)
{
    if (x->nodes >= x->limit || x->state->no_memory) x->halted = true;
    if (x->halted) return false;
    if (x->nodes++ % 256 == 0 && x->options->stop && x->options->stop(x->options->data)) x->halted = x->stopped = true;
    return !x->halted;
}

static bool fill(mp_pack_search *x, int from, int to);

/* Divides the sections [*from, *to) at the times that no lifetime of an unplaced box crosses. The ranges between these times
 * are independent. Places the boxes of all ranges except the last. Sets [*from, *to) to the last range, which is empty if all
 * boxes are placed. */
static bool fill_parts(mp_pack_search *x, int *from, int *to)
{
    const mp_pack_state *s = x->state;
    for (;;) {
        int middle;
        while (*from < *to && !s->n_live[*from] && !s->crossing[*from + 1]) ++*from;
        while (*from < *to && !s->n_live[*to - 1] && !s->crossing[*to - 1]) --*to;
        for (middle = *from + 1; middle < *to && s->crossing[middle]; middle++) continue;
        if (middle >= *to || x->options->without & MP_PACK_PARTS) return true;
        if (!fill(x, *from, middle)) return false;
        *from = middle;
    }
}

/* Tries the branches of one section, one after the other, until one leads to a placement of all boxes. */
static bool fill_branches(mp_pack_search *x, const branching *b, int from, int to)
{
    const size_t first = x->n_branches, mark = x->state->n_trail;
    bool filled = false;
    if (x->depth >= PACK_DEPTH || !list_branches(x, b)) {
        x->state->no_memory |= x->depth < PACK_DEPTH;
        x->halted = true;
        return false;
    }
    x->depth++;
    for (size_t k = first, last = x->n_branches; k < last && !filled && count_node(x); k++) {
        filled = take(x, b, x->branches[k]) && fill(x, from, to);
        if (!filled) mp_pack_undo(x->state, mark);
    }
    x->depth--;
    x->n_branches = first;
    return filled;
}

/* Places all unplaced boxes that are live in the sections [from, to). No box's lifetime crosses the ends of this range. Returns
 * false if there is no placement or the search was stopped. The caller then undoes the changes. */
static bool fill(mp_pack_search *x, int from, int to)
{
    const bool remembers = !(x->options->without & MP_PACK_MEMORY);
    for (;;) {
        if (!fill_parts(x, &from, &to)) return false;
        if (from == to) return true;
        const branching b = choose(x, from, to);
        if (b.n == 0) {
            x->weight[b.section]++;
            return false;
        }
        if (b.n == 1) {
            const size_t at = x->n_branches;
            if (!count_node(x)) return false;
            if (!list_branches(x, &b)) {
                x->state->no_memory = x->halted = true;
                return false;
            }
            x->n_branches = at;
            if (!take(x, &b, x->branches[at])) return false;
            continue;
        }
        XXH128_hash_t hash = {0, 0};
        if (remembers) {
            hash = hash_part(x, from, to);
            if (XXH128_isEqual(*place_of(x, hash), hash)) return false;
        }
        if (fill_branches(x, &b, from, to)) return true;
        if (remembers && !x->halted) *place_of(x, hash) = hash;
        return false;
    }
}

/* Returns the number of units of work between two restarts: element `run` of the sequence 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ...
 * This sequence is optimal if the best amount of work is unknown (Luby, Sinclair, Zuckerman 1993). */
static int64_t luby(int run)
{
    int64_t k = run + 1;
    while (k & (k + 1)) {
        int64_t whole = 1;
        while (2 * whole + 1 <= k) whole = 2 * whole + 1;
        k -= whole;
    }
    return (k + 1) / 2;
}

mp_status mp_pack_search_run(mp_pack_search *x, int64_t capacity, int64_t node_limit, mp_pack_verdict *verdict, int64_t *nodes,
                             bool *stopped, mp_error *err)
{
    mp_pack_state *s = x->state;
    int64_t left = node_limit > 0 ? node_limit : INT64_MAX;
    *verdict = MP_PACK_LIMIT;
    x->stopped = false;
    const int64_t dive = 2 * (int64_t)s->n_boxes, shortest = dive > MP_PACK_RUN_NODES ? dive : MP_PACK_RUN_NODES;
    for (int t = 0; t < s->n_sections; t++) x->weight[t] = 1;
    x->n_searches++;
    if (!mp_pack_start(s, capacity, x->options->without)) {
        MP_ENSURE(!s->no_memory, err, MP_NOMEM, "no memory for the offsets of %d items", s->n_boxes);
        *verdict = MP_PACK_INFEASIBLE;
        return MP_OK;
    }
    const size_t mark = s->n_trail;
    for (int run = 0; *verdict == MP_PACK_LIMIT && left > 0 && !x->stopped; run++) {
        /* `shortest` is at least the number of boxes, so that every restarted search can place each box once */
        x->limit = shortest * luby(run);
        if (x->limit > left) x->limit = left;
        x->order = (enum order)(run % N_ORDERS);
        x->nodes = x->depth = 0;
        x->n_branches = 0;
        x->halted = false;
        if (fill(x, 0, s->n_sections))
            *verdict = MP_PACK_PLACED;
        else if (!x->halted)
            *verdict = MP_PACK_INFEASIBLE;
        else
            mp_pack_undo(s, mark);
        *nodes += x->nodes;
        left -= x->nodes;
        MP_ENSURE(!s->no_memory, err, MP_NOMEM, "no memory for the offsets of %d items", s->n_boxes);
        if (x->nodes < x->limit && *verdict == MP_PACK_LIMIT && run >= PACK_RUNS) break;
    }
    *stopped = x->stopped;
    return MP_OK;
}

mp_pack_search *mp_pack_search_new(mp_pack_state *state, const mp_pack_options *options)
{
    mp_pack_search *x = mp_alloc(1, sizeof *x);
    if (!x) return NULL;
    x->state = state;
    x->options = options;
    x->memory_bits = 8; /* size of the table of failed states: at most 2^18 entries, and about 1,024 per box */
    while (x->memory_bits < 18 && 1 << x->memory_bits < 1024 * (int64_t)state->n_boxes) x->memory_bits++;
    x->pool = mp_pool_new();
    x->failed = mp_pool_alloc(x->pool, (size_t)1 << x->memory_bits, sizeof *x->failed);
    x->box_start = mp_pool_alloc(x->pool, (size_t)state->n_sections + 2, sizeof *x->box_start);
    x->tops = mp_pool_alloc(x->pool, (size_t)state->n_sections + 1, sizeof *x->tops);
    x->weight = mp_pool_alloc(x->pool, (size_t)state->n_sections, sizeof *x->weight);
    for (int k = 0; k < N_ORDERS; k++)
        x->preference[k] = mp_pool_alloc(x->pool, (size_t)state->n_boxes, sizeof **x->preference);
    if (mp_pool_failed(x->pool)) {
        mp_pack_search_free(x);
        return NULL;
    }
    for (int t = 0, b = 0; t <= state->n_sections; t++) {
        while (b < state->n_boxes && state->boxes[b].begin < t) b++;
        x->box_start[t] = b;
    }
    for (int b = 0; b < state->n_boxes; b++) {
        const mp_pack_box *box = &state->boxes[b];
        const double life = box->end - box->begin, size = (double)box->size;
        x->preference[BY_LIFE][b] = life;
        x->preference[BY_AREA][b] = life * size;
        x->preference[BY_SIZE][b] = size;
    }
    return x;
}

void mp_pack_search_free(mp_pack_search *x)
{
    if (!x) return;
    mp_free(x->branches);
    mp_pool_free(x->pool);
    mp_free(x);
}
