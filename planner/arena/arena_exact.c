#include "planner/arena/arena_exact.h"

#include "estimator/base/memory.h"
#include "memplan/pack.h"

enum {
    WORK = 1000000000, /* what is looked at by all nodes together, about: each looks at everything that lives, at every step */
    NODES_MOST = 100000
};

/* What lives at all steps, an item counted once per step; and no more than `most`. */
static int64_t count_lives(const mp_fitting *fit, int64_t most)
{
    int64_t lives = 0;
    for (size_t k = 0; k < fit->n && lives < most; k++)
        for (int p = fit->items[k].piece; p < fit->items[k].piece + fit->items[k].n_pieces; p++)
            lives += fit->pieces[p].last - fit->pieces[p].first + 1;
    return lives < most ? lives : most;
}

mp_status mp_fit_exactly(mp_fitting *fit, mp_error *err)
{
    mp_status st = MP_OK;
    mp_pack_options bounded = {0};
    mp_pack_result result;
    mp_packing packing = {.n_items = fit->n};
    mp_pack_piece *pieces = NULL;
    if (!fit->exact) {
        bounded.node_limit = WORK / (count_lives(fit, WORK) + 1);
        if (bounded.node_limit > NODES_MOST) bounded.node_limit = NODES_MOST;
        if (bounded.node_limit < 1) return MP_OK;
    }
    for (size_t k = 0; k < fit->n; k++) packing.n_pieces += (size_t)fit->items[k].n_pieces;
    packing.items = mp_alloc(fit->n, sizeof *packing.items);
    packing.pieces = pieces = mp_alloc(packing.n_pieces, sizeof *pieces);
    MP_REQUIRE(packing.items && pieces, err, MP_NOMEM, "no memory for the arena of %zu instances", fit->n);
    for (size_t k = 0, n = 0; k < fit->n; k++) {
        const mp_item *item = &fit->items[k];
        packing.items[k] = (mp_pack_item){(int)n, item->n_pieces, 1, -1, item->offset};
        for (int p = item->piece; p < item->piece + item->n_pieces; p++)
            pieces[n++] = (mp_pack_piece){fit->pieces[p].first, (int64_t)fit->pieces[p].last + 1, fit->pieces[p].size};
    }
    MP_TRY(mp_pack_minimize(&packing, fit->height, fit->exact ? fit->exact : &bounded, &result, err));
    for (size_t k = 0; k < fit->n; k++) fit->items[k].offset = packing.items[k].offset;
    fit->height = result.height;
    fit->bound = result.bound;
    fit->nodes = result.nodes;
done:
    mp_free(packing.items);
    mp_free(pieces);
    return st;
}
