/* rank_channel.c - lists the legs of each collective of a plan, with addresses. */
#include "executor/run/rank_channel.h"

#include <string.h>

enum { SILENT_SECONDS = 600 }; /* after which a rank is given up, unless the options say otherwise */

/* One process by itself: its collectives are over ranks of which it is the only one. */
static mp_communicator alone = {.name = "one process", .n = 1};

/* Adds a leg over one dimension of the mesh, with pieces that have yet to be listed. */
static mp_status add_leg(const mp_addresses *a, const mp_communicator *world, mp_collective kind, mp_dim dim,
                         const mp_ready_step *r, mp_pool *pool, mp_collective_work *w, mp_piece **pieces, mp_error *err)
{
    const mp_program *p = a->program;
    MP_ENSURE(*pieces = mp_pool_alloc(pool, r->n_moved, sizeof **pieces), err, MP_NOMEM, "out of memory");
    w->legs[w->n_legs++] =
        (mp_leg){.kind = kind,
                 .team = world == &alone ? (mp_team){.n = 1, .stride = 1} : mp_team_of(&p->mesh, dim, world->rank),
                 .dtype = p->options.dtype,
                 .n_pieces = r->n_moved,
                 .pieces = *pieces,
                 .workspace = r->workspace};
    return MP_OK;
}

/* Lists whole tensors, with this rank's parts where they lie apart, or in their places. */
static mp_status add_wholes(const mp_addresses *a, const mp_communicator *world, mp_collective kind, mp_dim dim, size_t step,
                            mp_pool *pool, mp_collective_work *w, mp_error *err)
{
    const mp_program *p = a->program;
    const mp_ready_step *r = &a->steps[step];
    const mp_node *node = &p->graph->nodes[r->node];
    const mp_alternative *f = node->alternatives;
    const int *wholes = f->n_adds ? f->adds : node->phase == MP_PHASE_BACKWARD ? f->reads : f->writes;
    const int64_t element = mp_dtype_bits(p->options.dtype) / 8;
    mp_piece *pieces;
    MP_CHECK(add_leg(a, world, kind, dim, r, pool, w, &pieces, err));
    const mp_team *team = &w->legs[w->n_legs - 1].team;
    for (size_t k = 0; k < r->n_moved; k++) {
        const int64_t n = p->graph->storages[wholes[k]].payload_bytes / element;
        pieces[k] = (mp_piece){.whole = r->wholes[k], .n = n};
        pieces[k].part = r->parts ? r->parts[k] : r->wholes[k] + mp_rank_part(n, team->n) * team->index * element;
    }
    return MP_OK;
}

/* Lists the parts that the leg before has left, as wholes of which the ranks of another dimension have parts. */
static mp_status add_parts(const mp_addresses *a, const mp_communicator *world, mp_collective kind, mp_dim dim, size_t step,
                           mp_pool *pool, mp_collective_work *w, mp_error *err)
{
    const mp_leg *before = &w->legs[0];
    const int64_t element = mp_dtype_bits(a->program->options.dtype) / 8;
    mp_piece *pieces;
    MP_CHECK(add_leg(a, world, kind, dim, &a->steps[step], pool, w, &pieces, err));
    const mp_team *team = &w->legs[w->n_legs - 1].team;
    for (size_t k = 0; k < before->n_pieces; k++) {
        const mp_range own = mp_range_of(before->pieces[k].n, before->team.n, before->team.index);
        pieces[k] = (mp_piece){.whole = before->pieces[k].part, .n = own.n};
        pieces[k].part = pieces[k].whole + mp_rank_part(own.n, team->n) * team->index * element;
    }
    return MP_OK;
}

static mp_status list(const mp_addresses *a, const mp_rank_channel *c, size_t step, mp_pool *pool, mp_error *err)
{
    mp_collective_work *w = &c->works[step];
    const mp_communicator *world = c->collectives.world;
    const mp_node *node = &a->program->graph->nodes[a->steps[step].node];
    const mp_mesh *mesh = &a->program->mesh;
    *w = (mp_collective_work){.name = node->name};
    if (node->phase != MP_PHASE_BACKWARD) {
        MP_CHECK(add_wholes(a, world, MP_ALL_GATHER, MP_DIM_SHARD, step, pool, w, err));
    } else if (mesh->zero) {
        MP_CHECK(add_wholes(a, world, MP_REDUCE_SCATTER, MP_DIM_SHARD, step, pool, w, err));
        if (mesh->size[MP_DIM_DP] > 1) {
            MP_CHECK(add_parts(a, world, MP_REDUCE_SCATTER, MP_DIM_DP, step, pool, w, err));
            MP_CHECK(add_parts(a, world, MP_ALL_GATHER, MP_DIM_DP, step, pool, w, err));
        }
    } else if (c->collectives.fast) {
        MP_CHECK(add_wholes(a, world, MP_ALL_REDUCE, MP_DIM_DP, step, pool, w, err));
    } else {
        MP_CHECK(add_wholes(a, world, MP_REDUCE_SCATTER, MP_DIM_DP, step, pool, w, err));
        MP_CHECK(add_wholes(a, world, MP_ALL_GATHER, MP_DIM_DP, step, pool, w, err));
    }
    w->requests = mp_pool_alloc(pool, mp_work_requests(w), sizeof *w->requests);
    w->peers = mp_pool_alloc(pool, mp_work_requests(w), sizeof *w->peers);
    MP_ENSURE(w->requests && w->peers, err, MP_NOMEM, "out of memory");
    return MP_OK;
}

mp_status mp_rank_channel_open(const mp_addresses *a, const mp_execution_options *options, mp_pool *pool, mp_rank_channel *out,
                               mp_error *err)
{
    const size_t n = a->plan->n_steps;
    *out = (mp_rank_channel){.collectives = {.world = options->world ? options->world : &alone,
                                             .backend = a->program->backend,
                                             .fast = a->program->fast_sums,
                                             .timeout = options->timeout > 0 ? options->timeout : SILENT_SECONDS},
                             .works = mp_pool_alloc(pool, n, sizeof *out->works),
                             .tickets = mp_pool_alloc(pool, n, sizeof *out->tickets)};
    MP_ENSURE(out->works && out->tickets, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < n; t++)
        if (a->steps[t].is_collective) MP_CHECK(list(a, out, t, pool, err));
    return MP_OK;
}

mp_status mp_rank_channel_issue(mp_rank_channel *c, size_t step, mp_error *err)
{
    return mp_collectives_issue(&c->collectives, &c->works[step], &c->tickets[step], err);
}

mp_status mp_rank_channel_wait(mp_rank_channel *c, size_t step, mp_error *err)
{
    return mp_collectives_wait(&c->collectives, c->tickets[step], err);
}
