/* exact_step.c - one step from a state: whether it may be, what it takes, and what can be held after it. */
#include "planner/exact/exact.h"

bool mp_exact_can_run(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set held, const mp_exact_form *form)
{
    const mp_exact_set ran = stage->ran;
    if ((form->after & ~ran) || (form->before & ran)) return false;
    if (form->reads & ~(held | stage->present)) return false;
    if (ran & mp_exact_one(form->node)) return (form->writes & stage->useful & ~held) != 0;
    return !(x->nodes[form->node].first_after & ~ran);
}

/* A step, and what it does whatever is given up. */
typedef struct step {
    const mp_exact_graph *x;
    const mp_exact_form *form;
    mp_exact_set begins; /* storages of which an instance begins */
    mp_exact_set held;   /* what is held besides, before the step */
    mp_exact_set useful; /* after it */
    int64_t over_bytes;  /* beyond the room, if nothing takes the room of an input and nothing is given up */
} step;

/* What an output saves by taking the room of an input that ends at the step. More ends never save less: an output is left
 * without a room that it had only when an input goes to another output instead. */
static int64_t shared_bytes(const step *p, mp_exact_set ends)
{
    int64_t bytes = 0;
    mp_exact_set open = p->begins;
    for (size_t i = 0; i < p->form->n_pairs; i++) {
        const mp_in_place pair = p->form->pairs[i];
        if (!(ends & mp_exact_one(pair.from)) || !(open & mp_exact_one(pair.to))) continue;
        ends &= ~mp_exact_one(pair.from);
        open &= ~mp_exact_one(pair.to);
        bytes += p->x->bytes[pair.to];
    }
    return bytes;
}

/* Inputs that are given up end at the step, all else before it. */
static bool fits(const step *p, mp_exact_set given_up)
{
    const mp_exact_set inputs = p->form->reads & p->held;
    return p->over_bytes <= mp_exact_bytes(p->x, given_up & ~inputs) + shared_bytes(p, inputs & (given_up | ~p->useful));
}

static step step_of(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set held,
                    const mp_exact_form *form)
{
    step p = {.x = x, .form = form, .begins = form->writes, .useful = next->useful};
    p.begins |= form->adds & ~stage->made;
    /* what was held and is made anew has ended, as has what nobody may read after the step and the step does not read */
    p.held = held & ~p.begins & (next->useful | form->reads | form->adds);
    p.over_bytes = stage->fixed_bytes + mp_exact_bytes(x, p.held) + mp_exact_bytes(x, p.begins) + form->workspace_bytes;
    if (!stage->ran) p.over_bytes += mp_exact_bytes(x, x->carried & ~p.held); /* all are live in the first step */
    p.over_bytes -= x->room_bytes;
    return p;
}

/* The search for all smallest sets to give up. */
typedef struct drops {
    const step *p;
    int candidates[MP_EXACT_BITS], n;
    mp_exact_visit visit;
    void *data;
} drops;

static bool choose(drops *d, int from, mp_exact_set given_up)
{
    const step *p = d->p;
    if (fits(p, given_up)) {
        for (mp_exact_set left = given_up; left;)
            if (fits(p, given_up & ~mp_exact_one(mp_exact_take(&left)))) return true; /* one too many */
        return d->visit(d->data, (p->held | p->begins) & p->useful & ~given_up);
    }
    mp_exact_set rest = given_up;
    for (int i = from; i < d->n; i++) rest |= mp_exact_one(d->candidates[i]);
    if (!fits(p, rest)) return true;
    return choose(d, from + 1, given_up | mp_exact_one(d->candidates[from])) && choose(d, from + 1, given_up);
}

bool mp_exact_step(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set held,
                   const mp_exact_form *form, mp_exact_visit visit, void *data)
{
    const step p = step_of(x, stage, next, held, form);
    drops d = {.p = &p, .visit = visit, .data = data};
    mp_exact_set candidates = p.held & p.useful & ~form->adds & ~next->forced & (~form->reads | form->from);
    while (candidates) { /* the largest first */
        const int s = mp_exact_take(&candidates);
        int i = d.n++;
        for (; i > 0 && x->bytes[d.candidates[i - 1]] < x->bytes[s]; i--) d.candidates[i] = d.candidates[i - 1];
        d.candidates[i] = s;
    }
    return choose(&d, 0, 0);
}

/* Let another plan run the node later. Run here instead, in its fastest form, it makes all that any form makes that is of use,
 * and everything it needs is there. Until the other plan runs it, its outputs are live besides; but what ends here would have
 * been live until then, since only this node uses it and nobody can make it again. So the plan takes no more memory at any
 * step, and no longer. The node must not keep others from running: an update bars those that read its parameter, and the first
 * contribution to a carried gradient those that read the one carried here. */
bool mp_exact_is_safe(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set held,
                      const mp_exact_form *form, mp_exact_set *held_after)
{
    const mp_exact_node *node = &x->nodes[form->node];
    const step p = step_of(x, stage, next, held, form);
    if (form->ticks > node->least_ticks || (node->writes & ~form->writes & next->useful) || !fits(&p, 0)) return false;
    if (p.begins & x->carried & stage->useful) return false;
    for (mp_exact_set others = stage->active & ~mp_exact_one(form->node); others;) {
        const mp_exact_node *other = &x->nodes[mp_exact_take(&others)];
        for (size_t k = 0; k < other->n_forms; k++)
            if (other->forms[k].before & mp_exact_one(form->node)) return false;
    }
    const mp_exact_set ends = stage->forced & held & (node->certain | form->adds) & ~next->useful;
    if (mp_exact_bytes(x, p.begins & (next->useful | x->carried)) > mp_exact_bytes(x, ends)) return false;
    *held_after = (p.held | p.begins) & p.useful;
    return true;
}
