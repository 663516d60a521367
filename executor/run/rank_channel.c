/* rank_channel.c - lists the legs of each collective of a plan, with addresses. */
#include "executor/run/rank_channel.h"

#include <string.h>

enum { SILENT_SECONDS = 600 }; /* after which a rank is given up, unless the options say otherwise */

/* One process by itself: its collectives are over ranks of which it is the only one. */
static mp_communicator alone = {.name = "one process", .n = 1};

mp_status mp_rank_place_of(const mp_program *p, const mp_communicator *world, mp_rank_place *out, mp_error *err)
{
    const mp_mesh *m = &p->mesh;
    *out = (mp_rank_place){.n_data = 1, .data_stride = 1};
    if (!world) return MP_OK;
    MP_ENSURE(mp_mesh_devices(m) == world->n, err, MP_INVALID, "the mesh %s has %lld ranks, and there %s %d process%s",
              mp_mesh_write(m).text, (long long)mp_mesh_devices(m), world->n == 1 ? "is" : "are", world->n,
              world->n == 1 ? "" : "es");
    const int inner = (int)m->size[MP_DIM_TP];
    *out = (mp_rank_place){.n_data = (int)(m->size[MP_DIM_SHARD] * m->size[MP_DIM_DP]), .data_stride = inner};
    out->data_index = world->rank / inner % out->n_data;
    return MP_OK;
}

/* Adds a leg whose pieces are the storages of a step, and returns its team's number of ranks. */
static mp_status add_leg(const mp_addresses *a, const mp_communicator *world, mp_collective kind, mp_dim dim, size_t step,
                         mp_pool *pool, mp_collective_work *w, mp_error *err)
{
    const mp_alternative *f = mp_addresses_alternative(a, (int)step);
    const mp_program *p = a->program;
    const mp_ready_step *r = &a->steps[step];
    mp_leg *s = &w->legs[w->n_legs++];
    mp_piece *pieces = mp_pool_alloc(pool, r->n_moved, sizeof *pieces);
    const int64_t element = mp_dtype_bits(p->options.dtype) / 8;
    MP_ENSURE(pieces, err, MP_NOMEM, "out of memory");
    *s = (mp_leg){.kind = kind,
                  .team = world == &alone ? (mp_team){.n = 1, .stride = 1} : mp_team_of(&p->mesh, dim, world->rank),
                  .dtype = p->options.dtype,
                  .n_pieces = r->n_moved,
                  .pieces = pieces,
                  .workspace = r->workspace};
    for (size_t k = 0; k < r->n_moved; k++) {
        const int whole = kind == MP_ALL_GATHER && f->n_reads ? f->writes[k] : f->n_adds ? f->adds[k] : f->reads[k];
        mp_piece *piece = &pieces[k];
        piece->n = p->graph->storages[whole].payload_bytes / element;
        piece->whole = r->moved[k];
        piece->part = piece->whole + mp_rank_part(piece->n, s->team.n) * s->team.index * element;
    }
    return MP_OK;
}

static mp_status list(const mp_addresses *a, const mp_rank_channel *c, size_t step, mp_pool *pool, mp_error *err)
{
    mp_collective_work *w = &c->works[step];
    const mp_communicator *world = c->collectives.world;
    const mp_node *node = &a->program->graph->nodes[a->steps[step].node];
    *w = (mp_collective_work){.name = node->name};
    if (c->collectives.fast) {
        MP_CHECK(add_leg(a, world, MP_ALL_REDUCE, MP_DIM_DP, step, pool, w, err));
    } else {
        MP_CHECK(add_leg(a, world, MP_REDUCE_SCATTER, MP_DIM_DP, step, pool, w, err));
        MP_CHECK(add_leg(a, world, MP_ALL_GATHER, MP_DIM_DP, step, pool, w, err));
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
