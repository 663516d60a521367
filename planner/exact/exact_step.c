/* exact_step.c - computes, for a state of the exact search, the memory of one step and the minimal sets of evictions with which
 * the step fits. Also computes the sets and bytes of a stage (mp_exact_stage) from the set of nodes that have run. */
#include "planner/exact/exact.h"

/* True if the alternative cannot run any more, because a node that must not precede it has run. An example is an update that
 * overwrites one of its inputs. */
static bool is_barred(const mp_exact_alternative *alternative, mp_exact_set ran)
{
    return (alternative->before & ran) != 0;
}

/* Returns the storages that the node may still read: the inputs of all its alternatives that can still run. */
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

/* Finds the active nodes and the useful storages of a stage. Active nodes are nodes that have not run, and nodes that
 * recompute, copy back or copy out inputs of other active nodes. Useful storages are the inputs of active nodes. */
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
        for (mp_exact_set idle = ((x->repeatable & ran) | (x->optional & ~ran)) & ~g->active; idle;) {
            const int v = mp_bits_take(&idle);
            if (!(writes_of(&x->nodes[v], ran) & g->useful)) continue;
            g->active |= mp_exact_one(v);
            g->useful |= reads_of(&x->nodes[v], ran);
            changed = true;
        }
    }
}

/* ---- nodes that cannot fit any more ----
 *
 * When a node runs for the first time, its inputs and outputs are live. Another storage is also live if its producers run only
 * once, one of them has run, and a later required node uses it in each alternative. The least bytes of a node are computed like
 * the floor (floor.h), from the current stage on. */

/* Returns the least bytes that are live when the node runs in this alternative. Carried gradients with a contribution are not
 * included; they are in fixed_bytes. */
static int64_t least_bytes(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_alternative *a)
{
    const mp_exact_node *node = &x->nodes[a->node];
    const mp_exact_set stays = node->must_be_live | (stage->must_be_live & node->used_later);
    const mp_exact_set begun = x->lasting & stage->produced;
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
        if (!(x->lasting & one)) continue;
        begun |= one;
        g.fixed_bytes += x->bytes[s];
    }
    for (mp_exact_set again = g.active & ran; again;) g.recomputable |= writes_of(&x->nodes[mp_bits_take(&again)], ran);
    g.complete = begun & ~pending;
    g.useful = (g.useful | pending) & ~begun;
    g.must_be_live = ((g.produced & g.demanded & ~g.recomputable) | pending) & ~x->lasting;
    g.dead_end = is_dead_end(x, &g);
    *out = g;
}

int64_t mp_exact_least_extra(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live)
{
    if (stage->dead_end || (stage->must_be_live & ~live)) return -1;
    const mp_exact_set available = live | x->lasting | ~stage->produced;
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

bool mp_exact_can_run(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live,
                      const mp_exact_alternative *alternative)
{
    const mp_exact_set ran = stage->ran;
    if ((alternative->after & ~ran) || (alternative->before & ran)) return false;
    if (alternative->reads & ~(live | stage->complete)) return false;
    const mp_exact_set node = mp_exact_one(alternative->node);
    if (!(ran & node) && (alternative->returns || (x->nodes[alternative->node].first_after & ~ran))) return false;
    if ((ran & node) && !alternative->returns && !(x->computes_again & node)) return false;
    return !((ran | x->optional) & node) || (alternative->writes & stage->useful & ~live) != 0;
}

/* A step from a state, with the values that do not depend on which storages are evicted. */
typedef struct step {
    const mp_exact_graph *x;
    const mp_exact_alternative *alternative;
    mp_exact_set begins; /* storages that the step produces, as a new instance */
    mp_exact_set live;   /* all other storages that are live before the step */
    mp_exact_set useful; /* useful storages after the step */
    int64_t over_bytes;  /* bytes over the memory of the device, if no storage is evicted and no output takes over memory */
    int64_t over_there[MP_MAX_TIERS]; /* per tier with a budget: bytes over the budget, if no storage is evicted */
} step;

/* Returns the bytes that outputs save by taking over the memory of inputs that end at the step. If more inputs end, the result
 * does not fall: pairs are applied in order, so an output loses an input's memory only to another output. */
static int64_t shared_bytes(const step *p, mp_exact_set ends)
{
    int64_t bytes = 0;
    mp_exact_set open = p->begins;
    for (size_t i = 0; i < p->alternative->n_pairs; i++) {
        const mp_in_place pair = p->alternative->pairs[i];
        if (!(ends & mp_exact_one(pair.from)) || !(open & mp_exact_one(pair.to))) continue;
        ends &= ~mp_exact_one(pair.from);
        open &= ~mp_exact_one(pair.to);
        bytes += p->x->bytes[pair.to];
    }
    return bytes;
}

static int64_t bytes_there(const mp_exact_graph *x, mp_exact_set storages)
{
    int64_t bytes = 0;
    while (storages) bytes += x->there[mp_bits_take(&storages)];
    return bytes;
}

/* True if the step fits after the storages in `evicted` are evicted. Evicted inputs end at the step, so an output may take over
 * their memory. Other evicted storages end before the step. In tiers other than the device no output takes over memory. */
static bool fits(const step *p, mp_exact_set evicted)
{
    const mp_exact_set inputs = p->alternative->reads & p->live;
    for (int m = 0; m < p->x->n_tiers; m++)
        if (p->over_there[m] > bytes_there(p->x, evicted & ~inputs & p->x->in_tier[m])) return false;
    return p->over_bytes <= mp_exact_bytes(p->x, evicted & ~inputs) + shared_bytes(p, inputs & (evicted | ~p->useful));
}

static step step_of(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                    const mp_exact_alternative *alternative)
{
    step p = {.x = x, .alternative = alternative, .begins = alternative->writes, .useful = next->useful};
    p.begins |= alternative->adds & ~stage->produced;
    /* not live during the step: the earlier instance of a storage that the step produces again, and storages that neither the
     * step nor a later node reads */
    p.live = live & ~p.begins & (next->useful | alternative->reads | alternative->adds);
    p.over_bytes = stage->fixed_bytes + mp_exact_bytes(x, p.live) + mp_exact_bytes(x, p.begins) + alternative->workspace_bytes;
    /* before the first step, all carried gradients are live, with values from the previous training step */
    if (!stage->ran) p.over_bytes += mp_exact_bytes(x, x->lasting & ~p.live);
    p.over_bytes -= x->memory_bytes;
    for (int m = 0; m < x->n_tiers; m++) {
        const mp_exact_set begun = x->lasting & (stage->ran ? stage->produced : x->lasting);
        p.over_there[m] = bytes_there(x, (p.live | p.begins | begun) & x->in_tier[m]) - x->tier_bytes[m];
    }
    return p;
}

/* The data for enumerating all minimal sets of storages whose eviction makes the step fit. */
typedef struct eviction {
    const step *p;
    int candidates[MP_EXACT_BITS], n;
    mp_exact_visit visit;
    void *data;
} eviction;

static bool choose(eviction *d, int from, mp_exact_set evicted)
{
    const step *p = d->p;
    if (fits(p, evicted)) {
        /* if the step also fits with one storage of the set kept, the set is not minimal */
        for (mp_exact_set left = evicted; left;)
            if (fits(p, evicted & ~mp_exact_one(mp_bits_take(&left)))) return true;
        return d->visit(d->data, (p->live | p->begins) & p->useful & ~evicted);
    }
    mp_exact_set rest = evicted;
    for (int i = from; i < d->n; i++) rest |= mp_exact_one(d->candidates[i]);
    if (!fits(p, rest)) return true;
    return choose(d, from + 1, evicted | mp_exact_one(d->candidates[from])) && choose(d, from + 1, evicted);
}

bool mp_exact_step(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                   const mp_exact_alternative *alternative, mp_exact_visit visit, void *data)
{
    const step p = step_of(x, stage, next, live, alternative);
    eviction d = {.p = &p, .visit = visit, .data = data};
    mp_exact_set candidates =
        p.live & p.useful & ~alternative->adds & ~next->must_be_live & (~alternative->reads | alternative->from);
    while (candidates) { /* largest first */
        const int s = mp_bits_take(&candidates);
        int i = d.n++;
        for (; i > 0 && x->bytes[d.candidates[i - 1]] < x->bytes[s]; i--) d.candidates[i] = d.candidates[i - 1];
        d.candidates[i] = s;
    }
    return choose(&d, 0, 0);
}

/* The reason why a step is safe: consider any plan that runs the node later. Move the node's first run to the current position,
 * in its fastest alternative. All its inputs are live at this position, and the alternative produces every useful storage that
 * another alternative would produce. The outputs are then live earlier than in the original plan. In return, some inputs end at
 * the current position. In the original plan these inputs stay live until the later run, because only this node uses them and
 * they cannot be recomputed. So the changed plan needs no more memory at any step, and no more time. The node must not exclude
 * other nodes: an update excludes readers of its parameter, and the first contribution to a carried gradient excludes readers
 * of the carried-in value. */
bool mp_exact_is_safe(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                      const mp_exact_alternative *alternative, mp_exact_set *live_after)
{
    const mp_exact_node *node = &x->nodes[alternative->node];
    const step p = step_of(x, stage, next, live, alternative);
    if (x->graph->has_copies) return false;
    if (alternative->ticks > node->least_ticks || (node->writes & ~alternative->writes & next->useful) || !fits(&p, 0))
        return false;
    if (p.begins & x->lasting & stage->useful) return false;
    for (mp_exact_set others = stage->active & ~mp_exact_one(alternative->node); others;) {
        const mp_exact_node *other = &x->nodes[mp_bits_take(&others)];
        for (size_t k = 0; k < other->n_alternatives; k++)
            if (other->alternatives[k].before & mp_exact_one(alternative->node)) return false;
    }
    const mp_exact_set ends = stage->must_be_live & live & (node->always_read | alternative->adds) & ~next->useful;
    if (mp_exact_bytes(x, p.begins & (next->useful | x->lasting)) > mp_exact_bytes(x, ends)) return false;
    *live_after = (p.live | p.begins) & p.useful;
    return true;
}
