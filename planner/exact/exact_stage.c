/* exact_stage.c - what may still be used, what must be live, and whether every node that has not run still fits. */
#include "planner/exact/exact_stage.h"

/* An alternative that is barred by an update that has run is barred for good. */
static bool is_barred(const mp_exact_alternative *alternative, mp_exact_set ran)
{
    return (alternative->before & ran) != 0;
}

/* What the node may still read, in any alternative that is left to it. */
static mp_exact_set reads_of(const mp_exact_node *node, mp_exact_set ran)
{
    mp_exact_set reads = 0;
    for (size_t k = 0; k < node->n_alternatives; k++)
        if (!is_barred(&node->alternatives[k], ran)) reads |= node->alternatives[k].reads;
    return reads;
}
static mp_exact_set writes_of(const mp_exact_node *node, mp_exact_set ran)
{
    mp_exact_set writes = 0;
    for (size_t k = 0; k < node->n_alternatives; k++)
        if (!is_barred(&node->alternatives[k], ran)) writes |= node->alternatives[k].writes;
    return writes;
}

/* Which nodes may still run, and what they may read: those that have not run, and those that recompute what others may read. */
static void find_useful(const mp_exact_graph *x, mp_exact_stage *g)
{
    const mp_exact_set ran = g->ran;
    g->active = x->all & ~ran;
    for (mp_exact_set left = g->active; left;) {
        const mp_exact_node *node = &x->nodes[mp_bits_take(&left)];
        g->useful |= reads_of(node, ran);
        g->demanded |= node->always_read;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (mp_exact_set idle = x->repeatable & ran & ~g->active; idle;) {
            const int v = mp_bits_take(&idle);
            if (!(writes_of(&x->nodes[v], ran) & g->useful)) continue;
            g->active |= mp_exact_one(v);
            g->useful |= reads_of(&x->nodes[v], ran);
            changed = true;
        }
    }
}

/* ---- nodes that will not fit ----
 *
 * When a node runs for the first time, what it reads and produces is live. So is what only nodes that run once produce, one of
 * which has run by then, and what a node that has to come later certainly uses: the floor of floor.h, seen from within a
 * search.
 */

/* At least these bytes are live when the node runs in the alternative, carried gradients that have begun not counted. */
static int64_t least_bytes(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_alternative *a)
{
    const mp_exact_node *node = &x->nodes[a->node];
    const mp_exact_set stays = node->retained | (stage->forced & node->used_later);
    const mp_exact_set begun = x->carried & stage->produced;
    mp_exact_set shared = 0;
    for (size_t i = 0; i < a->n_pairs; i++)
        if (!(stays & mp_exact_one(a->pairs[i].from))) shared |= mp_exact_one(a->pairs[i].to);
    const mp_exact_set live = (stays | a->reads | a->writes | a->adds) & ~begun;
    return a->workspace_bytes + mp_exact_bytes(x, live & ~(shared & ~stage->produced));
}

static bool is_dead_end(const mp_exact_graph *x, const mp_exact_stage *stage)
{
    for (mp_exact_set left = x->all & ~stage->ran; left;) {
        const mp_exact_node *node = &x->nodes[mp_bits_take(&left)];
        bool fits = false;
        for (size_t k = 0; k < node->n_alternatives && !fits; k++)
            fits = !(node->alternatives[k].before & stage->ran) &&
                   stage->fixed_bytes + least_bytes(x, stage, &node->alternatives[k]) <= x->memory_bytes;
        if (!fits) return true;
    }
    return false;
}

/* ---- the stage ---- */

void mp_exact_stage_of(const mp_exact_graph *x, mp_exact_set ran, mp_exact_stage *out)
{
    mp_exact_stage g = {.ran = ran};
    mp_exact_set pending = 0, begun = 0;
    find_useful(x, &g);
    for (int s = 0; s < x->n_storages; s++) {
        const mp_exact_set one = mp_exact_one(s);
        if (!(x->producers[s] & ran)) continue;
        g.produced |= one;
        if (x->adders[s] & ~ran) pending |= one;
        if (!(x->carried & one)) continue;
        begun |= one;
        g.fixed_bytes += x->bytes[s];
    }
    for (mp_exact_set again = g.active & ran; again;) g.recomputable |= writes_of(&x->nodes[mp_bits_take(&again)], ran);
    g.complete = begun & ~pending;
    g.useful = (g.useful | pending) & ~begun;
    g.forced = ((g.produced & g.demanded & ~g.recomputable) | pending) & ~x->carried;
    g.dead_end = is_dead_end(x, &g);
    *out = g;
}

int64_t mp_exact_least_extra(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live)
{
    if (stage->dead_end || (stage->forced & ~live)) return -1;
    const mp_exact_set available = live | x->carried | ~stage->produced;
    mp_exact_set demanded = stage->demanded & ~available, again = 0;
    int64_t ticks[MP_EXACT_BITS], sum = 0;
    for (mp_exact_set seen = 0; demanded & ~seen;) {
        mp_exact_set left = demanded & ~seen;
        const int s = mp_bits_take(&left), v = __builtin_ctzll(x->producers[s]);
        seen |= mp_exact_one(s);
        if (!(stage->recomputable & mp_exact_one(s))) return -1;
        if (!(again & mp_exact_one(v))) ticks[v] = 0;
        again |= mp_exact_one(v);
        if (x->recompute_ticks[s] > ticks[v]) ticks[v] = x->recompute_ticks[s];
        demanded |= x->nodes[v].always_read & ~available;
    }
    while (again) sum += ticks[mp_bits_take(&again)];
    return sum;
}
