/* chain.c - Beaumont et al. 2019: the cheapest persistent schedule of a chain of blocks in a given memory.
 *
 * The blocks end at cut tensors. One table (chain.h) answers for all memories; wherever more memory costs less, the schedule is
 * judged by the timeline, from the least memory on. What the table believes in is not quite what the timeline finds, so the
 * ladder is climbed until some schedules in a row have been over the budget.
 */
#include "planner/chain.h"
#include "planner/dag.h"
#include "planner/schedule.h"

enum { PATIENCE = 8 };

typedef struct walk {
    const mp_chain_table *table;
    mp_step *steps;
    size_t n, capacity;
} walk;

static mp_status push(walk *w, const mp_chain_run *run, mp_error *err)
{
    if (!mp_grow(&w->steps, &w->capacity, w->n + run->n, sizeof *w->steps))
        return MP_FAIL(err, MP_NOMEM, "out of memory for a schedule of a chain");
    for (size_t t = 0; t < run->n; t++) w->steps[w->n++] = (mp_step){run->nodes[t], 0};
    return MP_OK;
}

/* At most as deep as the chain is long. */
static mp_status run_stretch(walk *w, mp_chain_stretch s, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_chain *chain = w->table->chain;
    while (s.first <= s.last) {
        const bool is_first = s.last == chain->n - 1;
        const mp_chain_choice c = mp_chain_choose(w->table, s);
        const mp_chain_block *b = &chain->blocks[s.first];
        if (c.option >= 0) {
            MP_TRY(push(w, is_first ? &b->first : &b->options[c.option].again, err));
            MP_TRY(run_stretch(w, c.after, err));
            MP_TRY(push(w, &b->options[c.option].backward, err));
        } else if (c.after.first > s.last) {
            MP_TRY(push(w, &b->alone, err));
        } else {
            for (int k = s.first; k < c.after.first; k++)
                MP_TRY(push(w, is_first ? &chain->blocks[k].first : &chain->blocks[k].advance, err));
            MP_TRY(run_stretch(w, c.after, err));
        }
        s = c.before;
    }
done:
    return st;
}

mp_status mp_chain_schedule(const mp_chain_table *table, int slots, mp_step **steps, size_t *n, mp_error *err)
{
    mp_status st = MP_OK;
    walk w = {.table = table};
    MP_TRY(run_stretch(&w, (mp_chain_stretch){0, table->chain->n - 1, slots, false}, err));
    MP_TRY(mp_schedule_updates(table->chain->graph, w.steps, w.n, steps, n, err));
done:
    mp_free(w.steps);
    return st;
}

static mp_status offer(mp_search *search, const mp_chain_table *table, int slots, int64_t *peak_bytes, mp_error *err)
{
    mp_status st = MP_OK;
    mp_step *steps = NULL;
    size_t n = 0;
    MP_TRY(mp_chain_schedule(table, slots, &steps, &n, err));
    MP_TRY(mp_search_offer(search, steps, n, peak_bytes, NULL, err));
done:
    mp_free(steps);
    return st;
}

/* The rungs are the memories from which on less time suffices. With few moves only some of them are stepped on. */
static mp_status climb(mp_search *search, const mp_chain_table *table, mp_error *err)
{
    mp_status st = MP_OK;
    const int64_t budget_bytes = mp_search_request(search)->budget_bytes, moves = mp_search_moves(search);
    int rungs[MP_CHAIN_SLOTS + 1], n_rungs = 0, over = 0;
    int64_t least = INT64_MAX, peak;
    for (int m = 0; m <= table->n_slots; m++) {
        const int64_t ticks = mp_chain_ticks(table, m);
        if (ticks == MP_CHAIN_NEVER || ticks >= least) continue;
        least = ticks;
        rungs[n_rungs++] = m;
    }
    const int64_t n = moves < n_rungs ? moves : n_rungs;
    for (int64_t i = 0; i < n && over < PATIENCE && !mp_search_stopped(search); i++) {
        MP_TRY(offer(search, table, rungs[i * n_rungs / n], &peak, err));
        over = peak > budget_bytes ? over + 1 : 0;
    }
done:
    return st;
}

static mp_status search_chain(mp_search *search, const mp_boundaries *boundaries, const bool *ends, mp_error *err)
{
    mp_status st = MP_OK;
    mp_chain *chain = NULL;
    mp_chain_table *table = NULL;
    MP_TRY(mp_chain_new(boundaries, ends, &chain, err));
    MP_TRY(mp_chain_measure(chain, err));
    MP_TRY(mp_chain_solve(chain, mp_chain_whole_bytes(chain), search, &table, err));
    if (table) MP_TRY(climb(search, table, err));
done:
    mp_chain_table_free(table);
    mp_chain_free(chain);
    return st;
}

/* Ends at cut tensors: of equal stretches of them, the one of the fewest bytes in each. */
static void end_at(const mp_boundaries *boundaries, const int *cuts, size_t n_cuts, bool *ends)
{
    const size_t stretch = (n_cuts + MP_CHAIN_BLOCKS - 2) / (MP_CHAIN_BLOCKS - 1);
    for (size_t first = 0; first < n_cuts; first += stretch) {
        int best = boundaries->birth[cuts[first]];
        for (size_t i = first + 1; i < first + stretch && i < n_cuts; i++) {
            const int p = boundaries->birth[cuts[i]];
            if (boundaries->crossing_bytes[p] <= boundaries->crossing_bytes[best]) best = p;
        }
        if (best + 1 < boundaries->n) ends[best] = true;
    }
}

mp_status mp_run_chain(mp_search *search, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = mp_search_request(search)->graph;
    mp_boundaries *boundaries = NULL;
    size_t n_cuts = 0;
    int n_ends = 0;
    int *cuts = mp_alloc(graph->n_storages, sizeof *cuts);
    bool *ends = mp_alloc(graph->n_nodes, sizeof *ends);
    MP_REQUIRE(cuts && ends, err, MP_NOMEM, "out of memory for the chain of %s", graph->name);
    MP_TRY(mp_boundaries_new(graph, &boundaries, err));
    MP_TRY(mp_cut_tensors(graph, cuts, &n_cuts, err));
    end_at(boundaries, cuts, n_cuts, ends);
    for (int p = 0; p < boundaries->n; p++) n_ends += ends[p];
    MP_REQUIRE(n_ends > 0, err, MP_NOT_APPLICABLE, "%s is no chain: no tensor cuts it in two", graph->name);
    MP_TRY(search_chain(search, boundaries, ends, err));
done:
    mp_boundaries_free(boundaries);
    mp_free(cuts);
    mp_free(ends);
    return st;
}
