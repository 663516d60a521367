/* bound_branch.c - a tree of decisions, each that a storage is live at the start or not; the leaf of the lowest bound is opened
 * first. */
#include "planner/bound/interval/bound_branch.h"

#include "estimator/base/memory.h"
#include "planner/math/heap.h"

struct leaf {
    int parent;  /* -1: the root */
    int storage; /* what is decided */
    unsigned char fate;
    int open; /* what to decide next */
};

/* Sets what a leaf and all above it have decided, or takes it back. */
static void decide(mp_bound_interval *x, const struct leaf *leaves, int k, bool back)
{
    for (; k > 0; k = leaves[k].parent) x->fate[leaves[k].storage] = back ? MP_BOUND_OPEN : leaves[k].fate;
}

mp_status mp_bound_branch(mp_bound_interval *x, int64_t most, const mp_bound_options *options, mp_bound_value *out,
                          mp_error *err)
{
    mp_status st = MP_OK;
    mp_bound_value value = mp_bound_interval_solve(x);
    struct leaf *leaves = NULL;
    mp_heap heap = {0};
    int n = 1;
    if (value.infeasible || value.open < 0 || most <= 0) {
        *out = value;
        return MP_OK;
    }
    leaves = mp_alloc(2 * (size_t)most + 1, sizeof *leaves);
    heap.items = mp_alloc(2 * (size_t)most + 1, sizeof *heap.items);
    MP_REQUIRE(leaves && heap.items, err, MP_NOMEM, "no memory for %lld branchings", (long long)most);
    leaves[0] = (struct leaf){-1, -1, MP_BOUND_OPEN, value.open};
    mp_heap_push(&heap, value.ticks, 0);
    /* the least of what is open bounds all; a leaf that is settled, or that has to stay as it is, ends the search there */
    for (int64_t k = 0; k < most && heap.n && heap.items[0].key < value.found; k++) {
        const int64_t bound = heap.items[0].key;
        if (leaves[heap.items[0].value].open < 0 || (options->stop && options->stop(options->data))) break;
        const int parent = mp_heap_pop(&heap);
        for (int fate = MP_BOUND_LIVE; fate <= MP_BOUND_NOT_LIVE; fate++) {
            leaves[n] = (struct leaf){parent, leaves[parent].open, (unsigned char)fate, -1};
            decide(x, leaves, n, false);
            const mp_bound_value child = mp_bound_interval_solve(x);
            decide(x, leaves, n, true);
            if (child.infeasible) continue;
            if (child.found < value.found) value.found = child.found;
            leaves[n].open = child.open;
            mp_heap_push(&heap, child.ticks > bound ? child.ticks : bound, n++);
        }
    }
    value.infeasible = !heap.n && value.found == INT64_MAX;
    value.ticks = heap.n && heap.items[0].key < value.found ? heap.items[0].key : value.found;
    if (value.infeasible) value.ticks = 0;
    *out = value;
done:
    mp_free(leaves);
    mp_free(heap.items);
    return st;
}
