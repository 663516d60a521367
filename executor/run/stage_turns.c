/* stage_turns.c - lists the turns of a stage, and where in a plan's calls its backward begins. */
#include "executor/run/stage_turns.h"

#include "executor/run/stage.h"

/* Returns the step that makes the loss; the number of steps if none does, as on all stages but the last. */
static size_t loss_step(const mp_addresses *a)
{
    const mp_program *p = a->program;
    const int loss = p->bindings->storage[p->bindings->loss];
    for (size_t t = 0; loss >= 0 && t < a->plan->n_steps; t++) {
        const mp_alternative *f = mp_addresses_alternative(a, (int)t);
        for (size_t k = 0; k < f->n_writes; k++)
            if (f->writes[k] == loss) return t;
    }
    return a->plan->n_steps;
}

mp_status mp_stage_turns_of(const mp_addresses *a, const mp_calls *calls, mp_pool *pool, mp_stage_turns *out, mp_error *err)
{
    const mp_program *p = a->program;
    const mp_plan *plan = a->plan;
    size_t at;
    *out = (mp_stage_turns){.n = mp_schedule_turns(&p->stage->shape)};
    MP_ENSURE(out->list = mp_pool_alloc(pool, out->n, sizeof *out->list), err, MP_NOMEM, "out of memory");
    mp_schedule_order(&p->stage->shape, p->stage->index, out->list);
    MP_CHECK(mp_rank_turn_around(p->graph, plan->steps, plan->n_steps, &at, err));
    for (size_t t = at; t < plan->n_steps; t++) {
        const mp_stage_message *m = mp_program_message(p, plan->steps[t].node);
        MP_ENSURE(!m || !m->is_ahead, err, MP_INVALID,
                  "the plan sends activations to the next stage in the middle of backward");
    }
    while (out->first_back < calls->n && calls->list[out->first_back].step < at) out->first_back++;
    out->loss_is_ahead = loss_step(a) < at;
    return mp_stage_slots_of(a, at, pool, &out->slots, err);
}

void mp_stage_turns_enter(mp_stage_turns *turns, const mp_turn *turn)
{
    if (turn->pass == MP_PASS_FORWARD)
        mp_stage_slots_begin(&turns->slots, turn->micro_batch);
    else
        mp_stage_slots_turn(&turns->slots, turn->micro_batch);
}
