/* collectives.c - a collective has one or several legs that run in turn. A leg is an operation over one group of ranks. Starts
 * the messages of each leg, and adds the received values when all messages have arrived. */
#include "executor/ranks/collectives.h"

#include "estimator/base/clock.h"
#include "executor/ranks/exchanges.h"
#include "executor/ranks/peers.h"

mp_process_group mp_process_group_of(mp_rank_group group, int rank)
{
    const int index = (int)(rank / group.stride % group.n);
    return (mp_process_group){(int)group.n, index, rank - index * (int)group.stride, (int)group.stride};
}

mp_process_group mp_process_group_along(const mp_mesh *mesh, mp_dim dim, int rank)
{
    return mp_process_group_of(mp_mesh_group(mesh, dim), rank);
}

static int world_rank(const mp_process_group *t, int member)
{
    return t->first + member * t->stride;
}

mp_range mp_leg_part(const mp_leg *s, int64_t n, int member)
{
    return mp_range_of(n, s->group.n, member);
}

static mp_range part_of(const mp_leg *s, const mp_shard_view *p, int member)
{
    return mp_leg_part(s, p->n, member);
}

static int64_t element_bytes(const mp_leg *s)
{
    return mp_dtype_bits(s->dtype) / 8;
}

int64_t mp_leg_workspace(mp_collective kind, bool fast, int64_t ranks, int64_t n, int64_t of_element)
{
    if (kind != MP_REDUCE_SCATTER || ranks < 2) return 0;
    return mp_sum_workspace(ranks, n, of_element) / (fast ? ranks - 1 : 1);
}

size_t mp_work_requests(const mp_collective_work *work)
{
    size_t most = 0;
    for (size_t k = 0; k < work->n_legs; k++) {
        const size_t n = 2 * work->legs[k].n_pieces * (size_t)work->legs[k].group.n;
        if (n > most) most = n;
    }
    return most;
}

/* ---- the legs of a collective ---- */

/* True if the network library itself runs the leg, an operation of a collective. The library can only sum over all ranks of the
 * world. */
static bool is_fast(const mp_collectives *c, const mp_leg *s)
{
    return c->fast && !s->is_ordered && s->group.n == c->world->n;
}

/* Returns the workspace bytes for a piece, which is one tensor of a leg. This workspace receives the values that each other
 * rank sends. */
static int64_t room_bytes(const mp_collectives *c, const mp_leg *s, const mp_shard_view *p)
{
    return mp_leg_workspace(s->kind, is_fast(c, s), s->group.n, p->n, element_bytes(s));
}

static char *slot_of(const mp_collectives *c, const mp_leg *s, const mp_shard_view *p, char *room, int member)
{
    const int others = s->group.n - 1;
    return others ? room + room_bytes(c, s, p) / others * (member - (member > s->group.index)) : room;
}

/* Adds an entry to a collective's list of open requests. Returns the address at which the caller stores the request's
 * handle. */
static mp_message *pend(mp_collective_work *w, int peer, int64_t bytes)
{
    mp_awaited *p = &w->requests[w->n_requests++];
    *p = (mp_awaited){.peer = peer, .bytes = bytes};
    return &p->message;
}

static mp_status send(mp_collectives *c, mp_collective_work *w, const mp_leg *s, int member, const char *from, int64_t n,
                      mp_error *err)
{
    const int64_t bytes = n * element_bytes(s);
    const int to = world_rank(&s->group, member);
    if (!n) return MP_OK;
    c->sent_bytes += bytes;
    w->sent_bytes += bytes;
    return c->world->send(c->world, from, bytes, to, w->tag, pend(w, to, -1), err);
}

static mp_status receive(mp_collectives *c, mp_collective_work *w, const mp_leg *s, int member, char *to, int64_t n,
                         mp_error *err)
{
    const int from = world_rank(&s->group, member);
    if (!n) return MP_OK;
    return c->world->receive(c->world, to, n * element_bytes(s), from, w->tag, pend(w, from, n * element_bytes(s)), err);
}

/* Starts the messages of one piece of a reduce-scatter. A piece is one tensor; `room` is the piece's part of the leg's
 * workspace. */
static mp_status scatter_piece(mp_collectives *c, mp_collective_work *w, const mp_leg *s, const mp_shard_view *p, char *room,
                               mp_error *err)
{
    const mp_range own = part_of(s, p, s->group.index);
    for (int d = 1; d < s->group.n;
         d++) { /* each rank sends first to the next higher rank, so that no rank receives all messages at once */
        const int to = (s->group.index + d) % s->group.n, from = (s->group.index + s->group.n - d) % s->group.n;
        const mp_range theirs = part_of(s, p, to);
        MP_CHECK(receive(c, w, s, from, slot_of(c, s, p, room, from), own.n, err));
        MP_CHECK(send(c, w, s, to, p->whole + theirs.from * element_bytes(s), theirs.n, err));
    }
    return MP_OK;
}

static mp_status gather_piece(mp_collectives *c, mp_collective_work *w, const mp_leg *s, const mp_shard_view *p, mp_error *err)
{
    const mp_range own = part_of(s, p, s->group.index);
    char *place = p->whole + own.from * element_bytes(s);
    if (own.n && p->part != place) c->backend->copy(c->backend, place, p->part, own.n * element_bytes(s));
    for (int d = 1; d < s->group.n; d++) {
        const int to = (s->group.index + d) % s->group.n, from = (s->group.index + s->group.n - d) % s->group.n;
        const mp_range theirs = part_of(s, p, from);
        MP_CHECK(receive(c, w, s, from, p->whole + theirs.from * element_bytes(s), theirs.n, err));
        MP_CHECK(send(c, w, s, to, p->part, own.n, err));
    }
    return MP_OK;
}

static mp_status hand_over(mp_collectives *c, mp_collective_work *w, const mp_leg *s, const mp_shard_view *p, mp_error *err)
{
    return s->group.index ? receive(c, w, s, 0, p->whole, p->n, err) : send(c, w, s, 1, p->whole, p->n, err);
}

/* Starts a collective of the network library for one piece, a tensor of a leg. The sent bytes are counted as for a ring
 * algorithm. */
static mp_status begin_fast(mp_collectives *c, mp_collective_work *w, const mp_leg *s, const mp_shard_view *p, char *room,
                            mp_error *err)
{
    mp_communicator *world = c->world;
    mp_message *request = pend(w, -1, -1);
    const int64_t bytes = mp_collective_sent_bytes(s->kind, world->n, p->n * element_bytes(s));
    c->sent_bytes += bytes;
    w->sent_bytes += bytes;
    if (s->kind == MP_ALL_REDUCE) return world->all_reduce(world, s->dtype, p->whole, p->n, request, err);
    if (s->kind == MP_ALL_GATHER) return world->all_gather(world, s->dtype, p->part, p->whole, p->n, request, err);
    return world->reduce_scatter(world, s->dtype, p->whole, room, p->n, request, err);
}

static mp_status begin_pieces(mp_collectives *c, mp_collective_work *w, const mp_leg *s, mp_error *err)
{
    char *room = s->workspace;
    for (size_t k = 0; k < s->n_pieces; k++) {
        const mp_shard_view *p = &s->pieces[k];
        if (s->kind == MP_SEND)
            MP_CHECK(hand_over(c, w, s, p, err));
        else if (is_fast(c, s) && s->group.n > 1)
            MP_CHECK(begin_fast(c, w, s, p, room, err));
        else if (s->kind == MP_ALL_GATHER)
            MP_CHECK(gather_piece(c, w, s, p, err));
        else
            MP_CHECK(scatter_piece(c, w, s, p, room, err));
        room += room_bytes(c, s, p);
    }
    return MP_OK;
}

static mp_status begin_leg(mp_collectives *c, mp_collective_work *w, mp_error *err)
{
    mp_communicator *world = c->world;
    w->n_requests = 0;
    if (world->begin_group) MP_CHECK(world->begin_group(world, err));
    const mp_status st = begin_pieces(c, w, &w->legs[w->leg], err);
    /* the library's group of messages must be ended also if a message failed to start */
    const mp_status ended = world->end_group ? world->end_group(world, st == MP_OK ? err : NULL) : MP_OK;
    return st == MP_OK ? ended : st;
}

/* Adds the values for this rank's part in the order of the ranks and stores the sum in p->part. If p->part is outside of
 * p->whole, p->whole is unchanged. */
static void add_up(const mp_collectives *c, const mp_leg *s, const mp_shard_view *p, char *room, bool adds)
{
    const mp_backend *b = c->backend;
    const mp_range own = part_of(s, p, s->group.index);
    const int64_t bytes = own.n * element_bytes(s);
    char *mine = p->whole + own.from * element_bytes(s), *first = s->group.index ? room : mine,
         *sum = p->part == mine ? first : p->part;
    if (!own.n) return;
    if (is_fast(c, s) && s->group.n > 1) first = sum = room;
    if (adds) /* adds to the part rank by rank, in the order in which a single process would add the gradients of its
                 micro-batches */
        b->add(b, s->dtype, own.n, first, sum = p->part);
    else if (sum != first)
        b->copy(b, sum, first, bytes);
    for (int r = 1; r < s->group.n && !is_fast(c, s); r++)
        b->add(b, s->dtype, own.n, r == s->group.index ? mine : slot_of(c, s, p, room, r), sum);
    if (sum != p->part) b->copy(b, p->part, sum, bytes);
}

static void end_leg(const mp_collectives *c, const mp_leg *s, bool adds)
{
    char *room = s->workspace;
    for (size_t k = 0; s->kind == MP_REDUCE_SCATTER && k < s->n_pieces; k++) {
        add_up(c, s, &s->pieces[k], room, adds && s->adds_up);
        room += room_bytes(c, s, &s->pieces[k]);
    }
}

/* ---- collectives in progress ---- */

/* Tests the requests of a leg, an operation of a collective. Sets *moved if a request has ended, and *missing to the peer of a
 * request that has not. */
static mp_status test_requests(mp_collectives *c, mp_collective_work *w, bool *moved, int *missing, mp_error *err)
{
    size_t n = 0;
    for (size_t k = 0; k < w->n_requests; k++) {
        bool done;
        MP_CHECK(mp_awaited_test(c->world, &w->requests[k], &done, w->name, err));
        *moved |= done;
        if (done) continue;
        if (*missing < 0) *missing = w->requests[k].peer;
        w->requests[n++] = w->requests[k];
    }
    w->n_requests = n;
    return MP_OK;
}

/* Continues one collective as far as possible without waiting. The collective has ended when w->leg == w->n_legs. */
static mp_status move(mp_collectives *c, mp_collective_work *w, bool *moved, int *missing, mp_error *err)
{
    while (w->leg < w->n_legs) {
        MP_CHECK(test_requests(c, w, moved, missing, err));
        if (w->n_requests) return MP_OK;
        end_leg(c, &w->legs[w->leg++], w->adds);
        *moved = true;
        if (w->leg < w->n_legs) MP_CHECK(begin_leg(c, w, err));
    }
    return MP_OK;
}

static mp_status move_all(mp_collectives *c, bool *moved, int *missing, mp_error *err)
{
    mp_collective_work *before = NULL, *next;
    for (mp_collective_work *w = c->first; w; w = next) {
        next = w->next;
        MP_CHECK(move(c, w, moved, missing, err));
        if (w->leg < w->n_legs) {
            before = w;
            continue;
        }
        *(before ? &before->next : &c->first) = next;
        w->n_runs++;
        /* the host does not know when a collective on a stream has ended, so its times are not recorded */
        if (c->world->is_on_stream) continue;
        w->ended_at = mp_clock_now();
        w->seconds += w->ended_at - w->began_at;
        if (!c->first) c->busy_seconds += w->ended_at - c->busy_since;
    }
    c->last = before;
    return MP_OK;
}

mp_status mp_collectives_issue(mp_collectives *c, mp_collective_work *w, int64_t *ticket, mp_error *err)
{
    w->leg = 0;
    w->ticket = *ticket = ++c->issued;
    w->tag = w->own_tag ? w->own_tag : (int)(w->ticket % MP_TAG_OF_EXCHANGES);
    w->next = NULL;
    w->began_at = mp_clock_now();
    if (!c->first) c->busy_since = w->began_at;
    *(c->last ? &c->last->next : &c->first) = w;
    c->last = w;
    MP_CHECK(begin_leg(c, w, err));
    return mp_collectives_advance(c, err);
}

mp_status mp_collectives_advance(mp_collectives *c, mp_error *err)
{
    bool moved = false;
    int missing = -1;
    return move_all(c, &moved, &missing, err);
}

/* Adds the seconds since `from` to c->wait_seconds, and returns MP_OK. */
static mp_status waited(mp_collectives *c, double from)
{
    c->wait_seconds += mp_clock_now() - from;
    return MP_OK;
}

mp_status mp_collectives_wait(mp_collectives *c, int64_t ticket, mp_error *err)
{
    mp_patience patience = mp_patience_begin(c->world, c->timeout);
    const double from = mp_clock_now();
    for (;;) {
        bool moved = false;
        int missing = -1;
        MP_CHECK(move_all(c, &moved, &missing, err));
        if (!c->first || c->first->ticket > ticket) return waited(c, from);
        MP_CHECK(mp_patience_go_on(&patience, moved, missing, c->first->name, err));
    }
}

mp_status mp_collectives_run(mp_collectives *c, mp_collective_work *work, mp_error *err)
{
    int64_t ticket;
    mp_patience patience = mp_patience_begin(c->world, c->timeout);
    const double from = mp_clock_now();
    MP_CHECK(mp_collectives_issue(c, work, &ticket, err));
    while (work->leg < work->n_legs) {
        bool moved = false;
        int missing = -1;
        MP_CHECK(move_all(c, &moved, &missing, err));
        if (work->leg < work->n_legs) MP_CHECK(mp_patience_go_on(&patience, moved, missing, work->name, err));
    }
    return waited(c, from);
}

void mp_collectives_repeat(mp_collectives *c, mp_collective_work *w)
{
    const int64_t bytes = w->sent_bytes / w->n_runs;
    w->n_runs++;
    w->sent_bytes += bytes;
    c->sent_bytes += bytes;
}
