/* stage_gathers.c - finds the forward gathers whose results the backward uses, and repeats them. */
#include "executor/run/stage_gathers.h"

#include "executor/program/stage.h"

bool mp_stage_keeps(const mp_plan *plan, size_t turn_around, size_t step, int storage)
{
    for (size_t k = 0; k < plan->n_places; k++) {
        const mp_place *p = &plan->places[k];
        if (p->storage == storage && (size_t)p->begin == step) return (size_t)p->end > turn_around;
    }
    return false;
}

/* Copies the prepared collective of a gather, restricted to the parameters that the backward uses. */
static mp_status take_kept(const mp_rank_channel *c, size_t turn_around, size_t step, mp_pool *pool, mp_collective_work *out,
                           mp_error *err)
{
    const mp_addresses *a = c->at;
    const mp_collective_record *r = a->program->graph->nodes[a->steps[step].node].collective;
    mp_shard_view *pieces = mp_pool_alloc(pool, r->n_moved, sizeof *pieces);
    if (!pieces) return MP_NO_MEMORY(err);
    *out = c->works[step];
    out->legs[0].n_pieces = 0;
    out->legs[0].pieces = pieces;
    for (size_t k = 0; k < r->n_moved; k++)
        if (mp_stage_keeps(a->plan, turn_around, step, r->wholes[k]))
            pieces[out->legs[0].n_pieces++] = c->works[step].legs[0].pieces[k];
    out->requests = mp_pool_alloc(pool, mp_work_requests(out), sizeof *out->requests);
    return out->requests ? MP_OK : MP_NO_MEMORY(err);
}

mp_status mp_stage_gathers_of(mp_rank_channel *c, size_t turn_around, mp_pool *pool, mp_error *err)
{
    const mp_addresses *a = c->at;
    c->again = mp_pool_alloc(pool, turn_around, sizeof *c->again);
    if (!c->again) return MP_NO_MEMORY(err);
    for (size_t t = 0; t < turn_around; t++) {
        if (!mp_program_gathers(a->program, a->steps[t].node)) continue;
        MP_CHECK(take_kept(c, turn_around, t, pool, &c->again[c->n_again], err));
        if (c->again[c->n_again].legs[0].n_pieces) c->n_again++;
    }
    return MP_OK;
}

mp_status mp_stage_gathers_run(mp_rank_channel *c, mp_error *err)
{
    int64_t last = 0;
    for (size_t k = 0; k < c->n_again; k++) MP_CHECK(mp_collectives_issue(&c->collectives, &c->again[k], &last, err));
    return mp_collectives_wait(&c->collectives, last, err);
}
