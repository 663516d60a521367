#include "planner/pack.h"

#include <stdlib.h>

#include "estimator/memory.h"
#include "planner/pack_search.h"

static const mp_pack_options no_options = {0};

typedef struct packer {
    mp_packing *packing;
    mp_pack_state state;
    mp_pack_search *search;
    mp_pack_options options;
    mp_pack_result result;
    bool stopped;
} packer;

static mp_status open_packer(packer *p, mp_packing *packing, const mp_pack_options *options, mp_error *err)
{
    mp_status st = MP_OK;
    *p = (packer){.packing = packing, .options = options ? *options : no_options, .result = {.height = -1}};
    MP_TRY(mp_pack_state_make(&p->state, packing, err));
    p->search = mp_pack_search_new(&p->state, &p->options);
    MP_REQUIRE(p->search, err, MP_NOMEM, "no memory for the offsets of %zu items", packing->n_items);
    MP_TRY(mp_pack_bound(packing, &p->result.bound, err));
done:
    return st;
}

static void close_packer(packer *p)
{
    mp_pack_search_free(p->search);
    mp_pack_state_free(&p->state);
}

/* One capacity; the offsets are taken over if there are any. */
static mp_status attempt(packer *p, int64_t capacity, int64_t node_limit, mp_error *err)
{
    mp_status st = MP_OK;
    MP_TRY(mp_pack_search_run(p->search, capacity, node_limit, &p->result.verdict, &p->result.nodes, &p->stopped, err));
    if (p->result.verdict != MP_PACK_PLACED) goto done;
    p->result.height = 0;
    for (int b = 0; b < p->state.n_boxes; b++) {
        const mp_pack_box *box = &p->state.boxes[b];
        const int64_t top = p->state.lowest[b] + box->size;
        p->packing->items[box->item].offset = p->state.lowest[b];
        if (top > p->result.height) p->result.height = top;
    }
done:
    return st;
}

mp_status mp_pack_solve(mp_packing *packing, int64_t capacity, const mp_pack_options *options, mp_pack_result *result,
                        mp_error *err)
{
    packer p;
    mp_status st = MP_OK;
    MP_TRY(open_packer(&p, packing, options, err));
    MP_TRY(attempt(&p, capacity, p.options.node_limit, err));
    if (p.result.verdict == MP_PACK_INFEASIBLE && p.result.bound <= capacity) p.result.bound = capacity + 1;
    *result = p.result;
done:
    close_packer(&p);
    return st;
}

/* What every height is a multiple of: offsets are sums of sizes, rounded up to alignments, or fixed. */
static int64_t unit_of(const mp_packing *packing)
{
    int64_t unit = 0;
    for (size_t k = 0; k < packing->n_items + packing->n_pieces; k++) {
        const mp_pack_item *item = k < packing->n_items ? &packing->items[k] : NULL;
        for (int part = 0; part < (item ? 2 : 1); part++) {
            int64_t a = !item ? packing->pieces[k - packing->n_items].size : part ? item->fixed : item->alignment;
            if (a < 1 || (item && !part && a == 1)) continue;
            for (int64_t b = unit; b; b = a % b, a = unit) unit = b;
            unit = a;
        }
    }
    return unit ? unit : 1;
}

/* The height of whatever the search puts first, within a few nodes; what is fixed may need more. */
static mp_status find_any(packer *p, mp_error *err)
{
    mp_status st = MP_OK;
    int64_t capacity = 0;
    for (size_t k = 0; k < p->packing->n_items; k++) {
        const mp_pack_item *item = &p->packing->items[k];
        if (item->fixed > 0) capacity += item->fixed;
    }
    for (int b = 0; b < p->state.n_boxes; b++) capacity += p->state.boxes[b].size + p->state.boxes[b].alignment;
    MP_TRY(attempt(p, capacity, p->options.node_limit, err));
done:
    return st;
}

mp_status mp_pack_minimize(mp_packing *packing, int64_t known, const mp_pack_options *options, mp_pack_result *result,
                           mp_error *err)
{
    packer p;
    mp_status st = MP_OK;
    MP_TRY(open_packer(&p, packing, options, err));
    const int64_t unit = unit_of(packing), limit = p.options.node_limit;
    if (known >= 0)
        p.result.height = known;
    else
        MP_TRY(find_any(&p, err));
    if (p.result.height < 0) { /* infeasible, or cut short */
        *result = p.result;
        goto done;
    }
    p.result.bound = (p.result.bound + unit - 1) / unit * unit;
    /* at first the bound; then by halves, above the capacities that could not be decided */
    bool first = true;
    for (int64_t low = p.result.bound; low < p.result.height && !p.stopped;) {
        const int64_t high = p.result.height - 1, left = limit > 0 ? limit - p.result.nodes : 0;
        const int64_t capacity = first ? low : low + (high - low) / 2 / unit * unit;
        const bool last = capacity + unit > high;
        if (limit > 0 && left <= 0) break;
        first = false;
        MP_TRY(attempt(&p, capacity, limit > 0 && !last ? left / 4 + 1 : left, err));
        if (p.result.verdict == MP_PACK_PLACED) continue;
        if (p.result.verdict == MP_PACK_INFEASIBLE && p.result.bound <= capacity) p.result.bound = capacity + unit;
        low = capacity + unit;
    }
    p.result.verdict = p.result.bound >= p.result.height ? MP_PACK_PLACED : MP_PACK_LIMIT;
    *result = p.result;
done:
    close_packer(&p);
    return st;
}
