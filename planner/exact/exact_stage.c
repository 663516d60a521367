/* exact_stage.c - what follows from the set of nodes that have run, whatever is held. */
#include "planner/exact/exact.h"

/* Forms that the updates bar now are barred for good. */
static bool is_barred(const mp_exact_form *form, mp_exact_set ran)
{
    return (form->before & ran) != 0;
}

/* What the node may still read, in any form that is left to it. */
static mp_exact_set reads_of(const mp_exact_node *node, mp_exact_set ran)
{
    mp_exact_set reads = 0;
    for (size_t k = 0; k < node->n_forms; k++)
        if (!is_barred(&node->forms[k], ran)) reads |= node->forms[k].reads;
    return reads;
}
static mp_exact_set writes_of(const mp_exact_node *node, mp_exact_set ran)
{
    mp_exact_set writes = 0;
    for (size_t k = 0; k < node->n_forms; k++)
        if (!is_barred(&node->forms[k], ran)) writes |= node->forms[k].writes;
    return writes;
}

/* Who may still run, and what they may read: the nodes that have not run; those that make again what others may read. */
static void find_useful(const mp_exact_graph *x, mp_exact_stage *g)
{
    const mp_exact_set ran = g->ran;
    g->active = x->all & ~ran;
    for (mp_exact_set left = g->active; left;) {
        const mp_exact_node *node = &x->nodes[mp_exact_take(&left)];
        g->useful |= reads_of(node, ran);
        g->wanted |= node->certain;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (mp_exact_set idle = x->repeatable & ran & ~g->active; idle;) {
            const int v = mp_exact_take(&idle);
            if (!(writes_of(&x->nodes[v], ran) & g->useful)) continue;
            g->active |= mp_exact_one(v);
            g->useful |= reads_of(&x->nodes[v], ran);
            changed = true;
        }
    }
}

void mp_exact_stage_of(const mp_exact_graph *x, mp_exact_set ran, mp_exact_stage *out)
{
    mp_exact_stage g = {.ran = ran};
    mp_exact_set pending = 0, begun = 0;
    find_useful(x, &g);
    for (int s = 0; s < x->n_storages; s++) {
        const mp_exact_set one = mp_exact_one(s);
        if (!(x->makers[s] & ran)) continue;
        g.made |= one;
        if (x->adders[s] & ~ran) pending |= one;
        if (!(x->carried & one)) continue;
        begun |= one;
        g.fixed_bytes += x->bytes[s];
    }
    for (mp_exact_set again = g.active & ran; again;) g.remakable |= writes_of(&x->nodes[mp_exact_take(&again)], ran);
    g.present = begun & ~pending;
    g.useful = (g.useful | pending) & ~begun;
    g.forced = ((g.made & g.wanted & ~g.remakable) | pending) & ~x->carried;
    g.dead_end = mp_exact_is_dead_end(x, &g);
    *out = g;
}

int64_t mp_exact_least_extra(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set held)
{
    if (stage->dead_end || (stage->forced & ~held)) return -1;
    const mp_exact_set there = held | x->carried | ~stage->made;
    mp_exact_set wanted = stage->wanted & ~there, again = 0;
    int64_t ticks[MP_EXACT_BITS], sum = 0;
    for (mp_exact_set seen = 0; wanted & ~seen;) {
        mp_exact_set left = wanted & ~seen;
        const int s = mp_exact_take(&left), v = __builtin_ctzll(x->makers[s]);
        seen |= mp_exact_one(s);
        if (!(stage->remakable & mp_exact_one(s))) return -1;
        if (!(again & mp_exact_one(v))) ticks[v] = 0;
        again |= mp_exact_one(v);
        if (x->remake_ticks[s] > ticks[v]) ticks[v] = x->remake_ticks[s];
        wanted |= x->nodes[v].certain & ~there;
    }
    while (again) sum += ticks[mp_exact_take(&again)];
    return sum;
}
