/* exact_step.c - one step from a state: the memory that it takes, and the smallest evictions that make it fit. */
#include "planner/exact/exact_step.h"

bool mp_exact_can_run(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live,
                      const mp_exact_alternative *alternative)
{
    const mp_exact_set ran = stage->ran;
    if ((alternative->after & ~ran) || (alternative->before & ran)) return false;
    if (alternative->reads & ~(live | stage->complete)) return false;
    if (ran & mp_exact_one(alternative->node)) return (alternative->writes & stage->useful & ~live) != 0;
    return !(x->nodes[alternative->node].first_after & ~ran);
}

/* A step, and what it does whatever is evicted. */
typedef struct step {
    const mp_exact_graph *x;
    const mp_exact_alternative *alternative;
    mp_exact_set begins; /* storages of which an instance begins */
    mp_exact_set live;   /* all else that is live before the step */
    mp_exact_set useful; /* after it */
    int64_t over_bytes;  /* beyond the memory there is, if no output takes over memory and nothing is evicted */
} step;

/* What outputs save by taking over the memory of inputs that end at the step. More ends never save less: an output loses the
 * memory that it took over only when the input goes to another output instead. */
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

/* Inputs that are evicted end at the step, all else before it. */
static bool fits(const step *p, mp_exact_set evicted)
{
    const mp_exact_set inputs = p->alternative->reads & p->live;
    return p->over_bytes <= mp_exact_bytes(p->x, evicted & ~inputs) + shared_bytes(p, inputs & (evicted | ~p->useful));
}

static step step_of(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                    const mp_exact_alternative *alternative)
{
    step p = {.x = x, .alternative = alternative, .begins = alternative->writes, .useful = next->useful};
    p.begins |= alternative->adds & ~stage->produced;
    /* what was live and is produced again has ended, as has what neither the step nor any node after it reads */
    p.live = live & ~p.begins & (next->useful | alternative->reads | alternative->adds);
    p.over_bytes = stage->fixed_bytes + mp_exact_bytes(x, p.live) + mp_exact_bytes(x, p.begins) + alternative->workspace_bytes;
    if (!stage->ran) p.over_bytes += mp_exact_bytes(x, x->carried & ~p.live); /* all are live in the first step */
    p.over_bytes -= x->memory_bytes;
    return p;
}

/* The search for all smallest sets to evict. */
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
        for (mp_exact_set left = evicted; left;)
            if (fits(p, evicted & ~mp_exact_one(mp_bits_take(&left)))) return true; /* one too many */
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
        p.live & p.useful & ~alternative->adds & ~next->forced & (~alternative->reads | alternative->from);
    while (candidates) { /* the largest first */
        const int s = mp_bits_take(&candidates);
        int i = d.n++;
        for (; i > 0 && x->bytes[d.candidates[i - 1]] < x->bytes[s]; i--) d.candidates[i] = d.candidates[i - 1];
        d.candidates[i] = s;
    }
    return choose(&d, 0, 0);
}

/* Let another plan run the node later. Run here instead, in its fastest alternative, it produces everything useful that any
 * alternative produces, and all that it reads is live. Until the other plan runs it, its outputs are live in addition; but what
 * ends here would have been live until then, since only this node uses it and nothing can recompute it. So the plan takes no
 * more memory at any step, and no longer. The node must not keep others from running: an update bars those that read its
 * parameter, and the first contribution to a carried gradient those that read the one carried in. */
bool mp_exact_is_safe(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                      const mp_exact_alternative *alternative, mp_exact_set *live_after)
{
    const mp_exact_node *node = &x->nodes[alternative->node];
    const step p = step_of(x, stage, next, live, alternative);
    if (alternative->ticks > node->least_ticks || (node->writes & ~alternative->writes & next->useful) || !fits(&p, 0))
        return false;
    if (p.begins & x->carried & stage->useful) return false;
    for (mp_exact_set others = stage->active & ~mp_exact_one(alternative->node); others;) {
        const mp_exact_node *other = &x->nodes[mp_bits_take(&others)];
        for (size_t k = 0; k < other->n_alternatives; k++)
            if (other->alternatives[k].before & mp_exact_one(alternative->node)) return false;
    }
    const mp_exact_set ends = stage->forced & live & (node->always_read | alternative->adds) & ~next->useful;
    if (mp_exact_bytes(x, p.begins & (next->useful | x->carried)) > mp_exact_bytes(x, ends)) return false;
    *live_after = (p.live | p.begins) & p.useful;
    return true;
}
