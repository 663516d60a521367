/* pipeline_cut.c - cuts a network into pipeline stages. */
#include "memplan/ranks/pipeline_cut.h"

#include "estimator/base/memory.h"
#include "estimator/parallel/pipeline_flow.h"
#include "planner/parallel/loads.h"
#include "planner/parallel/stages.h"

static mp_status take_begins(mp_pipeline *x, const int *begins, mp_error *err)
{
    for (int q = 0; q < x->n_stages; q++) {
        const bool ascends = q ? begins[q] > begins[q - 1] : begins[q] == 0;
        MP_ENSURE(ascends && begins[q] < x->n_blocks, err, MP_INVALID,
                  "stages must begin at ascending blocks, the first at 0; block %d of %d breaks this order", begins[q],
                  x->n_blocks);
        x->begins[q] = begins[q];
    }
    return MP_OK;
}

/* Chooses stage boundaries so that the slowest stage takes as little time as possible. If a rank exceeds the memory, moves some
 * of its blocks to neighbouring ranks. */
static mp_status balance(mp_pipeline *x, const mp_load *load, int64_t memory_bytes, mp_error *err)
{
    const mp_step_request request = {.load = load,
                                     .ranks = x->ranks,
                                     .schedule = x->shape.schedule,
                                     .n_chunks = x->shape.n_chunks,
                                     .n_micro_batches = x->shape.n_micro_batches,
                                     .memory_bytes = memory_bytes ? memory_bytes : INT64_MAX};
    MP_OWNED mp_stage *stages = mp_alloc((size_t)x->n_stages, sizeof *stages);
    mp_mesh_choice choice = {.stages = stages};
    bool fits;
    if (!stages) return MP_NO_MEMORY(err);
    MP_CHECK(mp_step_simulate(&request, &choice, &fits, err));
    for (int q = 0; q < x->n_stages; q++) x->begins[q] = stages[q].begin;
    return MP_OK;
}

mp_status mp_pipeline_new(const mp_pipeline_request *r, mp_pipeline **out, mp_error *err)
{
    MP_CHECK(mp_schedule_check(&r->shape, err));
    MP_OWNED_BY(mp_load_free) mp_load *load = NULL;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_pipeline *x = mp_pool_alloc(pool, 1, sizeof *x);
    if (!x) return MP_NO_MEMORY(err);
    MP_CHECK(mp_load_of(r->graph, 1, &load, err));
    *x = (mp_pipeline){.graph = r->graph,
                       .ranks = r->ranks,
                       .shape = r->shape,
                       .for_execution = r->for_execution,
                       .n_blocks = load->n_blocks,
                       .n_stages = r->shape.n_ranks * r->shape.n_chunks};
    MP_ENSURE(x->n_stages <= x->n_blocks, err, MP_INVALID,
              "the network can be cut into %d block%s at most, but %d stages are requested; choose fewer stages", x->n_blocks,
              x->n_blocks == 1 ? "" : "s", x->n_stages);
    x->begins = mp_pool_alloc(pool, (size_t)x->n_stages + 1, sizeof *x->begins);
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    x->begins[x->n_stages] = x->n_blocks;
    MP_CHECK(r->begins ? take_begins(x, r->begins, err) : balance(x, load, r->memory_bytes, err));
    MP_CHECK(mp_flow_new(x, load->block, pool, err));
    x->pool = pool;
    pool = NULL;
    *out = x;
    return MP_OK;
}
