/* rank_channel.c - prepares the collectives of a plan and runs them. A collective has one leg per dimension of the mesh; each
 * leg lists the addresses of its tensors. */
#include "executor/run/rank_channel.h"

#include "estimator/base/clock.h"
#include "estimator/graph/collective.h"
#include "estimator/parallel/statistics.h"
#include "executor/program/stage.h"
#include "executor/ranks/exchanges.h"
#include "executor/ranks/peers.h"

enum { SILENT_SECONDS = 60 }; /* default timeout in seconds, after which a rank without messages counts as failed */

/* The communicator of a single process; all its collectives have one rank. */
static mp_communicator alone = {.name = "one process", .n = 1};

/* Adds to a collective a leg, an operation over one dimension of the mesh. The caller adds the tensors (pieces) of the leg. */
static mp_status add_leg(const mp_addresses *a, const mp_communicator *world, mp_collective kind, mp_dim dim,
                         const mp_ready_step *r, mp_pool *pool, mp_collective_work *w, mp_shard_view **pieces, mp_error *err)
{
    const mp_program *p = a->program;
    MP_ENSURE(*pieces = mp_pool_alloc(pool, r->n_moved, sizeof **pieces), err, MP_NOMEM, "out of memory");
    w->legs[w->n_legs++] = (mp_leg){.kind = kind,
                                    .group = world == &alone ? (mp_process_group){.n = 1, .stride = 1}
                                                             : mp_process_group_along(&p->mesh, dim, world->rank),
                                    .dtype = p->options.dtype,
                                    .n_pieces = r->n_moved,
                                    .pieces = *pieces,
                                    .workspace = r->workspace};
    return MP_OK;
}

/* Adds to a collective a leg over whole tensors, with one piece per tensor. With `in_place`, or if the step has no separate
 * storages for parts, this rank's part of a piece is inside the whole tensor. Otherwise this part is the separate storage. */
static mp_status add_wholes(const mp_addresses *a, const mp_communicator *world, mp_collective kind, mp_dim dim, bool in_place,
                            size_t step, mp_pool *pool, mp_collective_work *w, mp_error *err)
{
    const mp_program *p = a->program;
    const mp_ready_step *r = &a->steps[step];
    const int *wholes = p->graph->nodes[r->node].collective->wholes;
    const int64_t element = mp_dtype_bits(p->options.dtype) / 8;
    mp_shard_view *pieces;
    MP_CHECK(add_leg(a, world, kind, dim, r, pool, w, &pieces, err));
    const mp_leg *leg = &w->legs[w->n_legs - 1];
    for (size_t k = 0; k < r->n_moved; k++) {
        const int64_t n = p->graph->storages[wholes[k]].payload_bytes / element;
        pieces[k] = (mp_shard_view){.whole = r->wholes[k], .n = n};
        pieces[k].part =
            r->parts && !in_place ? r->parts[k] : r->wholes[k] + mp_leg_part(leg, n, leg->group.index).from * element;
    }
    return MP_OK;
}

/* Adds to a collective a leg over the parts that the previous leg computed on this rank. The new leg splits each of these parts
 * again, over the ranks of another dimension. */
static mp_status add_parts(const mp_addresses *a, const mp_communicator *world, mp_collective kind, mp_dim dim, size_t step,
                           mp_pool *pool, mp_collective_work *w, mp_error *err)
{
    const mp_leg *before = &w->legs[0];
    const int64_t element = mp_dtype_bits(a->program->options.dtype) / 8;
    mp_shard_view *pieces;
    MP_CHECK(add_leg(a, world, kind, dim, &a->steps[step], pool, w, &pieces, err));
    const mp_leg *leg = &w->legs[w->n_legs - 1];
    for (size_t k = 0; k < before->n_pieces; k++) {
        const mp_range own = mp_leg_part(before, before->pieces[k].n, before->group.index);
        pieces[k] = (mp_shard_view){.whole = before->pieces[k].part, .n = own.n};
        pieces[k].part = pieces[k].whole + mp_leg_part(leg, own.n, leg->group.index).from * element;
    }
    return MP_OK;
}

/* Adds to a collective a leg that sums over one dimension of the mesh: whole tensors, or the parts from the previous leg. */
static mp_status add_sum(const mp_addresses *a, const mp_rank_channel *c, mp_dim dim, size_t step, mp_pool *pool,
                         mp_collective_work *w, mp_error *err)
{
    const mp_program *p = a->program;
    mp_communicator *world = c->collectives.world;
    const bool fast = !p->mesh.zero && mp_program_sums_fast(p, dim);
    if (p->mesh.size[dim] == 1 && w->n_legs) return MP_OK;
    for (int turn = fast; turn < 2; turn++) {
        const mp_collective kind = fast ? MP_ALL_REDUCE : turn ? MP_ALL_GATHER : MP_REDUCE_SCATTER;
        MP_CHECK(p->mesh.zero ? add_parts(a, world, kind, dim, step, pool, w, err)
                              : add_wholes(a, world, kind, dim, false, step, pool, w, err));
    }
    return MP_OK;
}

/* Moves this rank's part of each summed gradient from the whole gradient to the separate storage of the part. The first pass
 * of a step copies the part; later passes add it. */
static mp_status keep_sums(const mp_addresses *a, const mp_communicator *world, size_t step, mp_pool *pool,
                           mp_collective_work *w, mp_error *err)
{
    const mp_ready_step *r = &a->steps[step];
    const mp_leg *before = &w->legs[0];
    mp_shard_view *pieces;
    MP_CHECK(add_leg(a, world, MP_REDUCE_SCATTER, MP_DIM_SHARD, r, pool, w, &pieces, err));
    w->legs[w->n_legs - 1].group = (mp_process_group){.n = 1, .stride = 1};
    w->legs[w->n_legs - 1].adds_up = true;
    for (size_t k = 0; k < r->n_moved; k++)
        pieces[k] = (mp_shard_view){.whole = before->pieces[k].part,
                                    .part = r->parts[k],
                                    .n = mp_leg_part(before, before->pieces[k].n, before->group.index).n};
    return MP_OK;
}

/* Prepares the collective that sums a bucket of gradients over the ranks. */
static mp_status list_sum(const mp_addresses *a, const mp_rank_channel *c, size_t step, mp_pool *pool, mp_collective_work *w,
                          mp_error *err)
{
    const mp_program *p = a->program;
    const mp_communicator *world = c->collectives.world;
    const bool is_of_parts = mp_collective_leg_over(p->graph->nodes[a->steps[step].node].collective, MP_DIM_TP),
               goes_on = p->mesh.size[MP_DIM_DP] > 1 || is_of_parts,
               in_place = goes_on && p->options.accumulate > 1 &&
                          p->mesh.zero >= 2; /* the gradient of the current micro-batch is summed in place; the accumulated
                                                parts of earlier micro-batches must not be summed again */
    if (p->mesh.zero) MP_CHECK(add_wholes(a, world, MP_REDUCE_SCATTER, MP_DIM_SHARD, in_place, step, pool, w, err));
    w->legs[0].adds_up = p->mesh.zero >= 2 && !in_place;
    if (!is_of_parts || p->mesh.size[MP_DIM_DP] > 1) MP_CHECK(add_sum(a, c, MP_DIM_DP, step, pool, w, err));
    if (is_of_parts) MP_CHECK(add_sum(a, c, MP_DIM_TP, step, pool, w, err));
    return in_place ? keep_sums(a, world, step, pool, w, err) : MP_OK;
}

static mp_status take_requests(mp_collective_work *w, mp_pool *pool, mp_error *err)
{
    w->requests = mp_pool_alloc(pool, mp_work_requests(w), sizeof *w->requests);
    MP_ENSURE(w->requests, err, MP_NOMEM, "out of memory");
    return MP_OK;
}

/* Lists a message between stages of a pipeline: either bytes to send, or a gradient to sum over stages. */
static mp_status list_message(const mp_addresses *a, const mp_communicator *world, const mp_stage_message *m, size_t step,
                              mp_pool *pool, mp_collective_work *w, mp_error *err)
{
    const mp_program *p = a->program;
    const int stride = a->place.stage_stride, index = (p->stage->index - m->first) / m->stride;
    const mp_process_group group = {m->n, index, world->rank + (m->first - p->stage->index) * stride, m->stride * stride};
    const int64_t element = m->is_sum ? mp_dtype_bits(p->options.dtype) / 8 : 1;
    char *room = m->is_ahead ? a->fixed + a->fixed_at[p->stage->send_buffer] : NULL;
    mp_shard_view *pieces;
    MP_ENSURE(world->n > 1, err, MP_INVALID, "a stage of a pipeline cannot run alone");
    w->own_tag = m->tag;
    MP_CHECK(add_leg(a, world, m->is_sum ? MP_REDUCE_SCATTER : MP_SEND, MP_DIM_PP, &a->steps[step], pool, w, &pieces, err));
    w->legs[0].group = group;
    w->legs[0].is_ordered = true;
    w->legs[0].dtype = m->is_sum ? p->options.dtype : MP_DTYPE_UINT8;
    for (size_t k = 0; k < m->n_storages; k++) {
        const mp_storage *s = &p->graph->storages[m->storages[k]];
        const int64_t n = s->payload_bytes / element;
        pieces[k] = (mp_shard_view){.whole = room ? room : a->steps[step].wholes[k], .n = n};
        pieces[k].part = pieces[k].whole + mp_rank_part(n, group.n) * group.index * element;
        if (room) room += s->bytes;
    }
    if (!m->is_sum) return MP_OK;
    w->legs[w->n_legs] = w->legs[0];
    w->legs[w->n_legs++].kind = MP_ALL_GATHER;
    return MP_OK;
}

static mp_status list(const mp_addresses *a, const mp_rank_channel *c, size_t step, mp_pool *pool, mp_error *err)
{
    mp_collective_work *w = &c->works[step];
    const mp_communicator *world = c->collectives.world;
    const mp_node *node = &a->program->graph->nodes[a->steps[step].node];
    const mp_stage_message *message = mp_program_message(a->program, a->steps[step].node);
    *w = (mp_collective_work){.name = node->name, .kind = node->collective->legs[0].kind};
    if (message) {
        MP_CHECK(list_message(a, world, message, step, pool, w, err));
        return take_requests(w, pool, err);
    }
    if (w->kind == MP_ALL_GATHER) {
        MP_CHECK(add_wholes(a, world, MP_ALL_GATHER, MP_DIM_SHARD, false, step, pool, w, err));
        return take_requests(w, pool, err);
    }
    MP_CHECK(list_sum(a, c, step, pool, w, err));
    return take_requests(w, pool, err);
}

/* ---- exchanges inside operators ---- */

/* Runs a collective over one tensor among the ranks that share a split operator, and waits for its end. */
static mp_status cross(const mp_kernel_group *self, mp_dtype dtype, const mp_collective *kinds, size_t n_kinds,
                       const mp_shard_view *piece, void *workspace, mp_error *err)
{
    const mp_kernel_ranks *of = self->context;
    mp_rank_channel *c = of->channel;
    mp_collective_work *w = &c->crossing;
    w->n_legs = n_kinds;
    for (size_t k = 0; k < n_kinds; k++)
        w->legs[k] = (mp_leg){.kind = kinds[k],
                              .group = of->ranks,
                              .dtype = dtype,
                              .n_pieces = 1,
                              .pieces = piece,
                              .is_ordered = true,
                              .workspace = workspace};
    const double from = mp_clock_now();
    const mp_status st = mp_collectives_run(&c->collectives, w, err);
    c->wait_seconds += mp_clock_now() - from;
    return st;
}

static mp_status sum(const mp_kernel_group *self, mp_dtype dtype, void *values, int64_t n, void *workspace, mp_error *err)
{
    static const mp_collective kinds[] = {MP_REDUCE_SCATTER, MP_ALL_GATHER};
    const int64_t from = mp_range_of(n, self->n, self->index).from * (mp_dtype_bits(dtype) / 8);
    const mp_shard_view piece = {values, (char *)values + from, n};
    return cross(self, dtype, kinds, 2, &piece, workspace, err);
}

static mp_status scatter(const mp_kernel_group *self, mp_dtype dtype, const void *pieces, int64_t n, void *workspace, void *own,
                         mp_error *err)
{
    static const mp_collective kind = MP_REDUCE_SCATTER;
    const mp_shard_view piece = {(void *)pieces, own, n * self->n};
    return cross(self, dtype, &kind, 1, &piece, workspace, err);
}

static mp_status gather(const mp_kernel_group *self, const void *own, int64_t bytes, void *pieces, mp_error *err)
{
    static const mp_collective kind = MP_ALL_GATHER;
    const mp_shard_view piece = {pieces, (void *)own, bytes * self->n};
    return cross(self, MP_DTYPE_UINT8, &kind, 1, &piece, NULL, err);
}

/* Prepares the group of ranks with which kernels of split operators exchange data. */
static void open_group(mp_rank_channel *c, mp_process_group ranks, mp_kernel_ranks *out)
{
    if (ranks.n == 1) return;
    *out = (mp_kernel_ranks){.ranks = ranks, .channel = c};
    out->group =
        (mp_kernel_group){.n = ranks.n, .index = ranks.index, .context = out, .sum = sum, .scatter = scatter, .gather = gather};
}

static mp_status open_groups(const mp_program *p, mp_rank_channel *out, mp_pool *pool, mp_error *err)
{
    const mp_communicator *world = out->collectives.world;
    const int rank = world->rank;
    out->crossing = (mp_collective_work){.name = "an exchange of operators", .n_legs = 1};
    /* the leg spans all ranks, so its list of requests is long enough for an exchange in any group */
    out->crossing.legs[0] = (mp_leg){.group = {.n = world->n}, .n_pieces = 1};
    open_group(out, mp_process_group_along(&p->mesh, MP_DIM_TP, rank), &out->of_parts);
    if (p->shares_statistics) open_group(out, mp_process_group_of(mp_statistics_group(&p->mesh), rank), &out->of_samples);
    return take_requests(&out->crossing, pool, err);
}

mp_status mp_rank_channel_open(const mp_addresses *a, const mp_execution_options *options, mp_pool *pool, mp_rank_channel *out,
                               mp_error *err)
{
    const size_t n = a->plan->n_steps;
    const mp_backend *b = a->program->backend;
    mp_communicator *processes = options->world ? options->world : &alone;
    *out = (mp_rank_channel){.at = a,
                             .collectives = {.world = b->is_host || !options->world ? processes : processes->devices,
                                             .backend = b,
                                             .fast = a->program->fast_sums,
                                             .timeout = options->timeout > 0 ? options->timeout : SILENT_SECONDS},
                             .processes = processes,
                             .works = mp_pool_alloc(pool, n, sizeof *out->works),
                             .tickets = mp_pool_alloc(pool, n, sizeof *out->tickets)};
    MP_ENSURE(out->works && out->tickets, err, MP_NOMEM, "out of memory");
    MP_ENSURE(out->collectives.world, err, MP_INVALID, "the devices of the ranks are not connected");
    out->ahead = out->collectives;
    for (size_t t = 0; t < n; t++)
        if (a->steps[t].is_collective) MP_CHECK(list(a, out, t, pool, err));
    return options->world ? open_groups(a->program, out, pool, err) : MP_OK;
}

/* Copies an activation to the send buffer and sends it from the send buffer. Before the copy, waits until the next stage has
 * received the previous activation. */
static mp_status send_ahead(mp_rank_channel *c, size_t step, const mp_stage_message *m, mp_error *err)
{
    const mp_ready_step *r = &c->at->steps[step];
    const mp_backend *b = c->collectives.backend;
    int64_t ticket;
    MP_CHECK(mp_collectives_wait(&c->ahead, c->ahead.issued, err));
    for (size_t k = 0; k < r->n_moved; k++)
        b->copy(b, c->works[step].legs[0].pieces[k].whole, r->wholes[k],
                c->at->program->graph->storages[m->storages[k]].payload_bytes);
    /* the activation has no ticket here: the step gets the ticket of the last collective issued before it. So a wait for the
     * step does not wait until the activation has been received */
    c->tickets[step] = c->collectives.issued;
    return mp_collectives_issue(&c->ahead, &c->works[step], &ticket, err);
}

mp_status mp_rank_channel_issue(mp_rank_channel *c, size_t step, mp_error *err)
{
    const mp_stage_message *m = mp_program_message(c->at->program, c->at->steps[step].node);
    if (m && m->is_ahead) return send_ahead(c, step, m, err);
    if (!m && c->summed)
        MP_CHECK(
            mp_collectives_wait(&c->collectives, c->summed,
                                err)); /* a gradient is first summed over pipeline stages, then over the ranks of a stage */
    if (m && m->is_sum && c->at->program->mesh.zero >= 2)
        MP_CHECK(mp_collectives_wait(&c->collectives, c->collectives.issued,
                                     err)); /* with zero >= 2, gradients are first summed over the ranks of a stage, then their
                                               parts over pipeline stages */
    c->works[step].adds = c->adds;
    MP_CHECK(mp_collectives_issue(&c->collectives, &c->works[step], &c->tickets[step], err));
    if (m && m->is_sum) c->summed = c->tickets[step];
    return MP_OK;
}

mp_status mp_rank_channel_wait(mp_rank_channel *c, size_t step, mp_error *err)
{
    return mp_collectives_wait(&c->collectives, c->tickets[step], err);
}

mp_status mp_rank_channel_settle(const mp_rank_channel *c, mp_error *err)
{
    const mp_backend *b = c->collectives.backend;
    mp_communicator *devices = c->collectives.world;
    mp_patience patience = mp_patience_begin(c->processes, c->collectives.timeout);
    mp_awaited none = {.peer = -1, .bytes = -1};
    mp_status st = MP_OK;
    for (bool all = !devices->is_on_stream || !b->has_run; st == MP_OK && !all;) {
        bool is_sound;
        st = b->has_run(b, &all, err);
        if (st == MP_OK && !all) st = mp_awaited_test(devices, &none, &is_sound, "a step", err);
        if (st == MP_OK && !all) st = mp_patience_go_on(&patience, false, -1, "the collectives of a step", err);
    }
    if (st != MP_OK) devices->end(devices, 1);
    return st;
}

mp_status mp_rank_channel_advance(mp_rank_channel *c, mp_error *err)
{
    MP_CHECK(mp_collectives_advance(&c->ahead, err));
    return mp_collectives_advance(&c->collectives, err);
}

mp_status mp_rank_channel_end_turn(mp_rank_channel *c, bool all, mp_error *err)
{
    MP_CHECK(mp_collectives_wait(&c->collectives, c->collectives.issued, err));
    if (all) MP_CHECK(mp_collectives_wait(&c->ahead, c->ahead.issued, err));
    return MP_OK;
}

int64_t mp_rank_channel_sent_bytes(const mp_rank_channel *c)
{
    return c->collectives.sent_bytes + c->ahead.sent_bytes;
}

double mp_rank_channel_wait_seconds(const mp_rank_channel *c)
{
    return c->collectives.wait_seconds + c->ahead.wait_seconds;
}
