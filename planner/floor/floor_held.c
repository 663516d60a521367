/* floor_held.c - chains of repeatable nodes, and after which nodes their first one has to be recomputed. */
#include "planner/floor/floor_held.h"

#include <stdlib.h>

#include "planner/math/bits.h"
#include "planner/math/tuning.h"

struct search {
    mp_floor_cut *cut;
    const mp_precedence *order;
    const mp_floor_needs *needs;
    int64_t most_work, looks; /* of the cuts; at nodes beside them, so far */
    int64_t bytes;            /* the floor so far */
    mp_floor_reason *reason;
    size_t n;
    mp_floor_rank *once; /* the nodes that run once, those that need most first */
    int *names;          /* per node: the last chain of which it names a storage in some alternative */
    int chain;           /* counts the chains */
    uint64_t *done;      /* a set of vertices */
    mp_floor_rank *over; /* of one (j, s, P0): before j, naming nothing of the chain, over the floor if the chain is live */
};

static int by_bytes(const void *a, const void *b)
{
    const mp_floor_rank *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->node < y->node ? -1 : x->node > y->node;
}

void mp_floor_rank_sort(mp_floor_rank *ranks, size_t n)
{
    if (n) qsort(ranks, n, sizeof *ranks, by_bytes);
}

/* The least while `producer` runs after the first n of `over`, and before j. */
static mp_status again(struct search *x, size_t n, int j, int producer, int64_t *bytes, mp_error *err)
{
    const mp_precedence *o = x->order;
    for (size_t w = 0; w < o->words; w++) x->done[w] = 0;
    for (size_t k = 0; k < n; k++) {
        const int v = x->over[k].node;
        const uint64_t *earlier = mp_precedence_ancestors(o, v);
        mp_bits_unite(x->done, earlier, o->words);
        mp_bits_add(x->done, v);
    }
    x->looks += (int64_t)(n * o->words);
    MP_CHECK(mp_floor_cut_least(x->cut, x->done, j, producer, bytes, err));
    *bytes += x->needs->again_bytes[producer];
    return MP_OK;
}

/* The least of level_bytes between the last of `over` and j in the sequence. */
static int64_t least_level(const struct search *x, size_t n, int j)
{
    int last = -1;
    int64_t least = INT64_MAX;
    for (size_t k = 0; k < n; k++)
        if (x->cut->position[x->over[k].node] > last) last = x->cut->position[x->over[k].node];
    for (int p = last + 1; p <= x->cut->position[j]; p++)
        if (x->cut->level_bytes[p] < least) least = x->cut->level_bytes[p];
    return least;
}

/* The floor of (j, s, producer), the smallest storage of the chain having `held` bytes, if it is above the one so far. With
 * over[0 .. k) after it, the producer's run takes again(k), which rises with k; and over[k] with the chain live beside it takes
 * what falls with k. The floor lies where they meet. */
static mp_status try_producer(struct search *x, int j, int s, int producer, int64_t held, mp_error *err)
{
    size_t i, n = 0, low = 1; /* the meeting point is in [low, n] */
    int64_t bytes;
    for (i = 0; i < x->n && x->once[i].bytes + held > x->bytes; i++) {
        const int v = x->once[i].node;
        if (x->names[v] != x->chain && mp_precedes(x->order, v, j)) x->over[n++] = x->once[i];
    }
    x->looks += (int64_t)i;
    if (!n || x->needs->again_bytes[producer] + least_level(x, n, j) <= x->bytes) return MP_OK;
    MP_CHECK(again(x, n, j, producer, &bytes, err));
    if (bytes <= x->bytes) return MP_OK;
    int64_t at_meeting = bytes;
    for (size_t high = n; low < high;) {
        const size_t k = (low + high) / 2;
        MP_CHECK(again(x, k, j, producer, &bytes, err));
        if (bytes >= x->over[k].bytes + held) {
            high = k;
            at_meeting = bytes;
        } else {
            low = k + 1;
        }
    }
    const mp_floor_rank *beside = &x->over[low - 1];
    x->bytes = at_meeting < beside->bytes + held ? at_meeting : beside->bytes + held;
    *x->reason = (mp_floor_reason){j, s, producer, beside->node, held, beside->bytes + held, at_meeting};
    return MP_OK;
}

static void name_readers(struct search *x, int s)
{
    const mp_graph *graph = x->order->graph;
    for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) x->names[graph->readers[r]] = x->chain;
    x->looks += graph->readers_start[s + 1] - graph->readers_start[s];
}

/* The chain from s back along the largest input, as long as it can matter. */
static mp_status try_chain(struct search *x, int j, int s, mp_error *err)
{
    const mp_precedence *o = x->order;
    const mp_storage *storages = o->graph->storages;
    int64_t held = storages[s].bytes;
    x->chain++;
    for (int length = 0, output = s; length < MP_FLOOR_CHAIN && output >= 0; length++) {
        const int producer = o->graph->producer[output];
        int input = -1;
        if (storages[output].bytes < held) held = storages[output].bytes;
        if (!held || x->once[0].bytes + held <= x->bytes || x->cut->work > x->most_work || x->looks > MP_FLOOR_LOOKS) break;
        name_readers(x, output);
        MP_CHECK(try_producer(x, j, s, producer, held, err));
        for (int r = o->reads_start[producer]; r < o->reads_start[producer + 1]; r++)
            if (o->recomputable[o->reads[r]] && (input < 0 || storages[o->reads[r]].bytes > storages[input].bytes))
                input = o->reads[r];
        x->looks += o->reads_start[producer + 1] - o->reads_start[producer];
        output = input;
    }
    return MP_OK;
}

mp_status mp_floor_held(mp_floor_cut *cut, const mp_floor_needs *needs, int64_t most_work, int64_t *bytes,
                        mp_floor_reason *reason, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_precedence *o = cut->order;
    const size_t n = (size_t)o->n - 1;
    struct search x = {.cut = cut, .order = o, .needs = needs, .most_work = most_work, .bytes = *bytes, .reason = reason};
    x.once = mp_alloc(n, sizeof *x.once);
    x.over = mp_alloc(n, sizeof *x.over);
    x.names = mp_alloc(n, sizeof *x.names);
    x.done = mp_alloc(o->words, sizeof *x.done);
    MP_REQUIRE(x.once && x.over && x.names && x.done, err, MP_NOMEM, "no memory for the floor of %zu nodes", n);
    for (size_t i = 0; i < n; i++)
        if (!o->repeatable[i]) x.once[x.n++] = (mp_floor_rank){needs->least_bytes[i], (int)i};
    mp_floor_rank_sort(x.once, x.n);
    for (int j = 0; j < (int)n && x.n; j++)
        for (int r = o->reads_start[j]; r < o->reads_start[j + 1] && !o->repeatable[j]; r++)
            if (o->recomputable[o->reads[r]]) MP_TRY(try_chain(&x, j, o->reads[r], err));
    *bytes = x.bytes;
done:
    mp_free(x.once);
    mp_free(x.over);
    mp_free(x.names);
    mp_free(x.done);
    return st;
}
