/* exact_floor.c - stages that no plan leads out of, because some node that has not run will not fit.
 *
 * When a node runs for the first time, what it reads and makes is there. Besides, whatever can be made only once, has been made
 * by then, and is certainly used by a node that has to come later: the floor of floor.h, seen from within a search.
 */
#include "planner/exact/exact.h"

/* Who has to run before the node, whatever its form. */
static mp_exact_set waits_for(const mp_exact_graph *x, int v)
{
    const mp_exact_node *node = &x->nodes[v];
    mp_exact_set always = ~(mp_exact_set)0;
    for (size_t k = 0; k < node->n_forms; k++) always &= node->forms[k].after;
    always |= node->first_after;
    for (mp_exact_set reads = node->certain & ~x->carried; reads;) always |= x->makers[mp_exact_take(&reads)];
    return always;
}

void mp_exact_order_nodes(mp_exact_graph *x)
{
    mp_exact_set earlier[MP_EXACT_BITS] = {0}, later[MP_EXACT_BITS] = {0}, makes_once = 0;
    for (int v = 0; v < x->n_nodes; v++) {
        mp_exact_set barring = ~(mp_exact_set)0;
        earlier[v] |= waits_for(x, v);
        for (size_t k = 0; k < x->nodes[v].n_forms; k++) barring &= x->nodes[v].forms[k].before;
        while (barring) earlier[mp_exact_take(&barring)] |= mp_exact_one(v);
    }
    for (int via = 0; via < x->n_nodes; via++)
        for (int v = 0; v < x->n_nodes; v++)
            if (earlier[v] & mp_exact_one(via)) earlier[v] |= earlier[via];
    for (int v = 0; v < x->n_nodes; v++)
        for (mp_exact_set left = earlier[v]; left;) later[mp_exact_take(&left)] |= mp_exact_one(v);
    for (int s = 0; s < x->n_storages; s++)
        if (!(x->makers[s] & x->repeatable)) makes_once |= mp_exact_one(s);
    for (int v = 0; v < x->n_nodes; v++) {
        mp_exact_node *node = &x->nodes[v];
        for (mp_exact_set left = later[v]; left;) {
            const mp_exact_node *other = &x->nodes[mp_exact_take(&left)];
            node->used_later |= other->certain | other->forms[0].adds;
        }
        for (mp_exact_set left = node->used_later & makes_once & ~x->carried; left;) {
            const int s = mp_exact_take(&left);
            if (x->makers[s] & earlier[v]) node->kept |= mp_exact_one(s);
        }
    }
}

/* At least these bytes are live when the node runs in the form, what is carried and has begun aside. */
static int64_t least_bytes(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_form *form)
{
    const mp_exact_node *node = &x->nodes[form->node];
    const mp_exact_set stays = node->kept | (stage->forced & node->used_later);
    const mp_exact_set begun = x->carried & stage->made;
    mp_exact_set shared = 0;
    for (size_t i = 0; i < form->n_pairs; i++)
        if (!(stays & mp_exact_one(form->pairs[i].from))) shared |= mp_exact_one(form->pairs[i].to);
    const mp_exact_set there = (stays | form->reads | form->writes | form->adds) & ~begun;
    return form->workspace_bytes + mp_exact_bytes(x, there & ~(shared & ~stage->made));
}

bool mp_exact_is_dead_end(const mp_exact_graph *x, const mp_exact_stage *stage)
{
    for (mp_exact_set left = x->all & ~stage->ran; left;) {
        const mp_exact_node *node = &x->nodes[mp_exact_take(&left)];
        bool fits = false;
        for (size_t k = 0; k < node->n_forms && !fits; k++)
            fits = !(node->forms[k].before & stage->ran) &&
                   stage->fixed_bytes + least_bytes(x, stage, &node->forms[k]) <= x->room_bytes;
        if (!fits) return true;
    }
    return false;
}
