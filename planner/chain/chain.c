/* chain.c - the searcher `chain`: cuts the forward list into blocks, and derives schedules from the table of chain_table.c.
 *
 * Blocks end at cut tensors or at seams. A cut tensor is a single storage. In some networks each block passes several storages
 * to the next block, such as the hidden state and the cell state of a recurrent cell. There a block may end at a seam: a
 * position for which every storage that crosses it was produced after the previous seam. A storage that is read much later,
 * such as a skip connection between an encoder and a decoder, is ignored at seams. It is pinned: it stays live until its last
 * read.
 *
 * One table contains the fastest schedule for every size of memory. A rung is a size from which on the schedule is faster. The
 * timeline judges the schedule of each rung, from the smallest size up. If it is proved that no plan fits the budget, only the
 * smallest rungs matter. Then tables of smaller memories are tried first. The table rounds bytes up and ignores in-place pairs
 * across blocks. So the search does not end at the first schedule over the budget, but after several in a row. */
#include "planner/chain/chain.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "planner/math/tuning.h"
#include "planner/order/dag.h"
#include "planner/order/updates.h"
#include "planner/search/searchers.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    CHAIN_RUNGS = 400,  /* most memory sizes whose schedule is judged */
    CHAIN_PATIENCE = 8, /* the search ends after 8 consecutive schedules above the budget */
    CHAIN_PARTS = 32,   /* search for the smallest peak: starts with 1/32 of the memory and doubles it */
};

/* Selects positions, so that the chain has at most MP_CHAIN_BLOCKS blocks. It divides the ascending list of positions into
 * equal ranges, and takes from each range the position that the fewest bytes cross. */
static int choose(const mp_boundaries *boundaries, const int *positions, int n, bool *ends)
{
    const int stretch = (n + MP_CHAIN_BLOCKS - 2) / (MP_CHAIN_BLOCKS - 1);
    int n_ends = 0;
    for (int first = 0; first < n; first += stretch, n_ends++) {
        int best = positions[first];
        for (int i = first + 1; i < first + stretch && i < n; i++)
            if (boundaries->crossing_bytes[positions[i]] <= boundaries->crossing_bytes[best]) best = positions[i];
        ends[best] = true;
    }
    return n_ends;
}

static mp_status find_cuts(const mp_boundaries *boundaries, int *positions, int *n, mp_error *err)
{
    size_t n_cuts = 0;
    MP_OWNED int *cuts = mp_alloc(boundaries->graph->n_storages, sizeof *cuts);
    if (!cuts) return MP_NO_MEMORY(err);
    MP_CHECK(mp_cut_tensors(boundaries->graph, cuts, &n_cuts, err));
    for (size_t i = 0; i < n_cuts; i++)
        if (boundaries->birth[cuts[i]] + 1 < boundaries->n) positions[(*n)++] = boundaries->birth[cuts[i]];
    return MP_OK;
}

/* Computes oldest[p] for each position p: of the storages that cross p, the earliest position of a producer; p + 1 if no
 * storage crosses. Storages that are read more than `far` positions after their production are ignored. `reach`: scratch, one
 * number per position. */
static void find_oldest(const mp_boundaries *b, int far, int *reach, int *oldest)
{
    int filled = 0;
    for (int p = 0; p < b->n; p++) reach[p] = oldest[p] = p + 1;
    for (size_t s = 0; s < b->graph->n_storages; s++)
        if (b->birth[s] >= 0 && b->last[s] - b->birth[s] <= far && b->last[s] > reach[b->birth[s]] - 1)
            reach[b->birth[s]] = b->last[s] + 1;
    for (int birth = 0; birth < b->n; birth++) {
        if (filled < birth) filled = birth;
        for (; filled < reach[birth] - 1; filled++) oldest[filled] = birth;
    }
}

/* Finds the seams from first to last. A seam is normally the first possible position after the previous seam. If fewer bytes
 * cross at another possible position, at most twice as far from the previous seam, that position is chosen. */
static mp_status find_seams(const mp_boundaries *boundaries, int far, int *positions, int *n, mp_error *err)
{
    const int last = boundaries->n - 1;
    const size_t n_positions = (size_t)boundaries->n;
    MP_OWNED int *reach = mp_alloc(n_positions, sizeof *reach), *oldest = mp_alloc(n_positions, sizeof *oldest);
    if (!reach || !oldest) return MP_NO_MEMORY(err);
    find_oldest(boundaries, far, reach, oldest);
    for (int seam = -1, next; seam < last; seam = next) {
        next = seam + 1;
        while (next < last && oldest[next] <= seam) next++;
        for (int p = next, end = 2 * next - seam; p < last && p <= end; p++)
            if (oldest[p] > seam && boundaries->crossing_bytes[p] < boundaries->crossing_bytes[next]) next = p;
        if (next < last) positions[(*n)++] = next;
    }
    return MP_OK;
}

mp_status mp_chain_ends(const mp_boundaries *boundaries, mp_chain_cut cut, bool *ends, int *n_ends, mp_error *err)
{
    int n = 0;
    MP_OWNED int *positions = mp_alloc((size_t)boundaries->n, sizeof *positions);
    if (!positions) return MP_NO_MEMORY(err);
    for (int p = 0; p < boundaries->n; p++) ends[p] = false;
    if (cut == MP_CHAIN_CUTS)
        MP_CHECK(find_cuts(boundaries, positions, &n, err));
    else
        MP_CHECK(find_seams(boundaries, boundaries->n / MP_CHAIN_SEAM_SHARE, positions, &n, err));
    *n_ends = n ? choose(boundaries, positions, n, ends) : 0;
    return MP_OK;
}

typedef struct walk {
    const mp_chain_table *table;
    mp_step *steps;
    size_t n, capacity;
} walk;

static mp_status push(walk *w, const mp_chain_run *run, mp_error *err)
{
    if (!mp_grow(&w->steps, &w->capacity, w->n + run->n, sizeof *w->steps))
        return MP_FAIL(err, MP_NOMEM, "out of memory for a schedule of a chain");
    for (size_t t = 0; t < run->n; t++) w->steps[w->n++] = (mp_step){.node = run->nodes[t]};
    return MP_OK;
}

/* Appends the steps of a range of blocks, recursively. The recursion is at most as deep as the number of blocks. */
static mp_status run_stretch(walk *w, mp_chain_stretch s, mp_error *err)
{
    const mp_chain *chain = w->table->chain;
    while (s.begin < s.end) {
        const bool is_first = s.end == chain->n;
        const mp_chain_choice c = mp_chain_choose(w->table, s);
        const mp_chain_block *b = &chain->blocks[s.begin];
        if (c.option >= 0) {
            MP_CHECK(push(w, is_first ? &b->first : &b->options[c.option].rerun, err));
            MP_CHECK(run_stretch(w, c.after, err));
            MP_CHECK(push(w, &b->options[c.option].backward, err));
        } else if (c.after.begin >= s.end) {
            MP_CHECK(push(w, &b->alone, err));
        } else {
            for (int k = s.begin; k < c.after.begin; k++)
                MP_CHECK(push(w, is_first ? &chain->blocks[k].first : &chain->blocks[k].advance, err));
            MP_CHECK(run_stretch(w, c.after, err));
        }
        s = c.before;
    }
    return MP_OK;
}

static void clear(walk *w)
{
    mp_free(w->steps);
}

mp_status mp_chain_schedule(const mp_chain_table *table, int slots, mp_step **steps, size_t *n, mp_error *err)
{
    MP_CLEARED_BY(clear) walk w = {.table = table};
    MP_CHECK(run_stretch(&w, (mp_chain_stretch){0, table->chain->n, slots, false}, err));
    return mp_updates_place(table->chain->graph, w.steps, w.n, steps, n, err);
}

static mp_status offer(mp_search *search, const mp_chain_table *table, int slots, int64_t *peak_bytes, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    size_t n = 0;
    MP_CHECK(mp_chain_schedule(table, slots, &steps, &n, err));
    return mp_search_offer(search, steps, n, peak_bytes, NULL, err);
}

/* Judges the schedules of all rungs (sizes of memory from which on the schedule is faster), or of evenly spaced rungs if there
 * are too many. *over: number of schedules over the budget since the last schedule within the budget. */
static mp_status climb(mp_search *search, const mp_chain_table *table, int64_t moves, int *over, mp_error *err)
{
    const int64_t budget_bytes = mp_search_request(search)->budget_bytes;
    int rungs[MP_CHAIN_MOST_SLOTS + 1], n_rungs = 0;
    int64_t least = INT64_MAX, peak;
    for (int m = 0; m <= table->n_slots; m++) {
        const int64_t ticks = mp_chain_ticks(table, m);
        if (ticks == MP_CHAIN_NEVER || ticks >= least) continue;
        least = ticks;
        rungs[n_rungs++] = m;
    }
    int64_t n = n_rungs < CHAIN_RUNGS ? n_rungs : CHAIN_RUNGS;
    if (moves < n) n = moves;
    *over = 0;
    for (int64_t i = 0; i < n && *over < CHAIN_PATIENCE && !mp_search_stopped(search); i++) {
        MP_CHECK(offer(search, table, rungs[i * n_rungs / n], &peak, err));
        *over = peak > budget_bytes ? *over + 1 : 0;
    }
    return MP_OK;
}

static mp_status search_chain(mp_search *search, const mp_boundaries *boundaries, const bool *ends, int64_t moves,
                              mp_error *err)
{
    MP_OWNED_BY(mp_chain_free) mp_chain *chain = NULL;
    int over = 0;
    MP_CHECK(mp_chain_new(boundaries, ends, &chain, err));
    MP_CHECK(mp_chain_measure(chain, err));
    for (int part = mp_search_is_infeasible(search) ? CHAIN_PARTS : 1; part > 0 && over < CHAIN_PATIENCE; part /= 2) {
        MP_OWNED_BY(mp_chain_table_free) mp_chain_table *table = NULL;
        MP_CHECK(mp_chain_solve(chain, part, search, &table, err));
        if (table) MP_CHECK(climb(search, table, moves, &over, err));
    }
    return MP_OK;
}

/* The searcher tries two chains, one with blocks that end at cut tensors and one with blocks that end at seams. Each gets half
 * of the moves, for every budget. */
mp_status mp_run_chain(mp_search *search, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED_BY(mp_boundaries_free) mp_boundaries *boundaries = NULL;
    const mp_graph *graph = mp_search_request(search)->graph;
    bool *ends[MP_N_CHAIN_CUTS];
    int n = 0;
    MP_CHECK(mp_boundaries_new(graph, &boundaries, err));
    for (int cut = 0; cut < MP_N_CHAIN_CUTS; cut++) {
        int n_ends;
        bool is_new = true;
        ends[n] = mp_pool_alloc(pool, (size_t)boundaries->n, sizeof **ends);
        MP_ENSURE(ends[n], err, MP_NOMEM, "out of memory for the chain of %s", graph->name);
        MP_CHECK(mp_chain_ends(boundaries, (mp_chain_cut)cut, ends[n], &n_ends, err));
        for (int i = 0; i < n; i++) is_new &= memcmp(ends[i], ends[n], (size_t)boundaries->n * sizeof **ends) != 0;
        n += n_ends > 0 && is_new;
    }
    MP_ENSURE(n > 0, err, MP_NOT_APPLICABLE, "%s is not a chain: no tensor splits it into two parts", graph->name);
    for (int i = 0; i < n; i++) MP_CHECK(search_chain(search, boundaries, ends[i], (mp_search_moves(search) - 1) / n, err));
    return MP_OK;
}
