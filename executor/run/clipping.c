/* clipping.c - finds the gradients that a plan's updates read, and computes the global norm of these gradients. */
#include "executor/run/clipping.h"

#include <math.h>

#include "executor/kernel/optimizer.h"
#include "executor/program/program_nodes.h"
#include "executor/program/stage.h"
#include "executor/ranks/exchanges.h"

/* True if an earlier stage also holds the parameter; the gradient then counts on that stage. */
static bool counts_before(const mp_program *p, int gradient)
{
    for (size_t k = 0; p->stage && k < p->stage->n_messages; k++) {
        const mp_stage_message *m = &p->stage->messages[k];
        if (m->is_sum && m->storages[0] == gradient) return m->first < p->stage->index;
    }
    return false;
}

mp_status mp_clipping_open(const mp_program *p, int n_ranks, mp_pool *pool, mp_clipping *out, mp_error *err)
{
    *out = (mp_clipping){.gradients = mp_pool_alloc(pool, p->model->n_tensors, sizeof *out->gradients),
                         .of = mp_pool_alloc(pool, p->n_nodes, sizeof *out->of),
                         .sums = mp_pool_alloc(pool, (size_t)n_ranks, sizeof *out->sums)};
    MP_ENSURE(out->gradients && out->of && out->sums, err, MP_NOMEM, "out of memory");
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        for (size_t k = 0; k < p->n_nodes; k++) {
            const mp_binding *b = mp_program_binding(p, (int)k);
            if (b->task != MP_TASK_UPDATE || (!p->model->tensors[b->parameter].part) != is_whole) continue;
            out->of[k] = counts_before(p, b->source) ? -1 : (int)out->n;
            if (out->of[k] < 0) continue;
            out->gradients[out->n++] = (mp_update){.dtype = p->bindings->dtype[b->parameter]};
        }
        if (!is_whole) out->n_split = out->n;
    }
    return MP_OK;
}

/* Adds the sums of squares of all ranks in a fixed order: stage by stage, within a stage the ranks of `shard`, within those the
 * ranks of `tp`. Replicas (dp) have identical sums, so only the ranks of this rank's replica are added. */
static mp_status sum_over_ranks(mp_clipping *c, const mp_mesh *mesh, const mp_clipping_sums *own, mp_communicator *world,
                                double timeout, double *sum, mp_error *err)
{
    const mp_process_group stages = mp_process_group_along(mesh, MP_DIM_PP, world->rank),
                           shards = mp_process_group_along(mesh, MP_DIM_SHARD, world->rank),
                           parts = mp_process_group_along(mesh, MP_DIM_TP, world->rank);
    const int first = world->rank - stages.index * stages.stride - shards.index * shards.stride - parts.index * parts.stride;
    MP_CHECK(mp_communicator_exchange(world, own, sizeof *own, c->sums, timeout, "the norm of all gradients", err));
    *sum = 0;
    for (int q = 0; q < stages.n; q++)
        for (int s = 0; s < shards.n; s++) {
            const mp_clipping_sums *of = &c->sums[first + q * stages.stride + s * shards.stride];
            for (int k = 0; k < parts.n; k++) *sum += of[k * parts.stride].split;
            *sum += of->alike;
        }
    return MP_OK;
}

mp_status mp_clipping_run(mp_clipping *c, const mp_addresses *a, const mp_ready_step *r, mp_communicator *world, double timeout,
                          mp_error *err)
{
    const mp_program *p = a->program;
    const mp_backend *b = p->backend;
    const double limit = p->options.clip_norm;
    for (size_t t = 0; t < a->plan->n_steps; t++) {
        const mp_ready_step *u = &a->steps[t];
        if (!mp_ready_step_does(u, p, MP_TASK_UPDATE) || c->of[u->node] < 0) continue;
        c->gradients[c->of[u->node]].gradient = u->source;
        c->gradients[c->of[u->node]].n = u->n_updated;
    }
    if (a->place.n_shards * a->place.n_parts * a->place.n_stages == 1) {
        b->clip(b, c->gradients, c->n, limit, r->workspace, (float *)r->state);
        return MP_OK;
    }
    const mp_clipping_sums own = {b->squares(b, c->gradients, c->n_split, r->workspace),
                                  b->squares(b, c->gradients + c->n_split, c->n - c->n_split, r->workspace)};
    double sum;
    MP_CHECK(sum_over_ranks(c, &p->mesh, &own, world, timeout, &sum, err));
    *(float *)r->state = mp_clip_factor(sqrt(sum), limit);
    return MP_OK;
}
