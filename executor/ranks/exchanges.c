/* exchanges.c - exchanges between ranks outside of a plan's collectives, and waiting for single messages. */
#include "executor/ranks/exchanges.h"

#include "executor/ranks/peers.h"

/* Compares the length of a received message with the expected length. */
static mp_status check_arrival(const mp_communicator *world, const mp_awaited *p, int64_t arrived, const char *what,
                               mp_error *err)
{
    static const char *const why = "it runs another program, or another version of this one";
    if (arrived != MP_MESSAGE_TOO_LONG)
        MP_ENSURE(p->bytes < 0 || arrived == p->bytes, err, MP_IO,
                  "rank %d of %d has sent %lld bytes in %s instead of %lld: %s", p->peer, world->n, (long long)arrived, what,
                  (long long)p->bytes, why);
    else if (p->peer >= 0)
        return MP_FAIL(err, MP_IO, "rank %d of %d has sent more than the %lld bytes of %s: %s", p->peer, world->n,
                       (long long)p->bytes, what, why);
    else
        return MP_FAIL(err, MP_IO, "a rank has sent more bytes than others in %s: %s", what, why);
    return MP_OK;
}

mp_status mp_awaited_test(mp_communicator *world, mp_awaited *p, bool *done, const char *what, mp_error *err)
{
    /* initialized with the expected length, which remains if the library does not report the length of the received message */
    int64_t arrived = p->bytes;
    *done = false;
    if (p->to) {
        MP_CHECK(world->probe(world, p->peer, MP_TAG_OF_EXCHANGES, &arrived, err));
        if (arrived < 0) return MP_OK;
        MP_CHECK(check_arrival(world, p, arrived, what, err));
        MP_CHECK(world->receive(world, p->to, p->bytes, p->peer, MP_TAG_OF_EXCHANGES, &p->message, err));
        p->to = NULL;
    }
    MP_CHECK(world->test(world, &p->message, done, &arrived, err));
    return *done ? check_arrival(world, p, arrived, what, err) : MP_OK;
}

/* Waits for the requests in progress of an exchange: one message to each rank, and one message from each rank. */
static mp_status wait_for_open(mp_communicator *world, double timeout, const char *what, mp_error *err)
{
    const size_t n = (size_t)world->n;
    mp_patience patience = mp_patience_begin(world, timeout);
    patience.may_sleep = true;
    for (;;) {
        int missing = -1;
        bool moved = false, is_over = true;
        for (size_t k = 0; k < 2 * n; k++) {
            bool done = true;
            const bool is_open = world->open[k].message || world->open[k].to;
            if (is_open) MP_CHECK(mp_awaited_test(world, &world->open[k], &done, what, err));
            moved |= is_open && done;
            is_over &= done;
            if (!done && missing < 0) missing = (int)(k % n);
        }
        if (is_over) return MP_OK;
        MP_CHECK(mp_patience_go_on(&patience, moved, missing, what, err));
    }
}

static mp_status open_send(mp_communicator *world, const void *from, int64_t bytes, int to, mp_error *err)
{
    mp_awaited *p = &world->open[world->n + to];
    *p = (mp_awaited){.peer = to, .bytes = -1};
    return bytes ? world->send(world, from, bytes, to, MP_TAG_OF_EXCHANGES, &p->message, err) : MP_OK;
}

/* Starts a receive. The sender may be another program, so the length of the message is checked before it is received, if the
 * library supports this. */
static mp_status begin_receive(mp_communicator *world, void *to, int64_t bytes, mp_awaited *p, mp_error *err)
{
    p->bytes = bytes;
    if (world->probe) p->to = to;
    return world->probe ? MP_OK : world->receive(world, to, bytes, p->peer, MP_TAG_OF_EXCHANGES, &p->message, err);
}

static mp_status open_receive(mp_communicator *world, void *to, int64_t bytes, int from, mp_error *err)
{
    world->open[from] = (mp_awaited){.peer = from};
    return bytes ? begin_receive(world, to, bytes, &world->open[from], err) : MP_OK;
}

mp_status mp_communicator_exchange(mp_communicator *world, const void *own, int64_t bytes, void *all, double timeout,
                                   const char *what, mp_error *err)
{
    __builtin_memcpy((char *)all + world->rank * bytes, own, (size_t)bytes);
    if (world->n == 1) return MP_OK;
    for (int r = 0; r < world->n; r++) {
        if (r == world->rank) continue;
        MP_CHECK(open_receive(world, (char *)all + r * bytes, bytes, r, err));
        MP_CHECK(open_send(world, own, bytes, r, err));
    }
    return wait_for_open(world, timeout, what, err);
}

mp_status mp_communicator_gather(mp_communicator *world, const mp_process_group *group, int root, const mp_shard_view *piece,
                                 int64_t of_element, double timeout, const char *what, mp_error *err)
{
    const mp_range own = mp_range_of(piece->n, group->n, group->index);
    for (int k = 0; k < group->n; k++) {
        const int rank = group->first + k * group->stride;
        const mp_range theirs = mp_range_of(piece->n, group->n, k);
        if (rank == world->rank) continue;
        if (root < 0 || root == world->rank)
            MP_CHECK(open_receive(world, piece->whole + theirs.from * of_element, theirs.n * of_element, rank, err));
        if (root < 0 || root == rank) MP_CHECK(open_send(world, piece->part, own.n * of_element, rank, err));
    }
    return wait_for_open(world, timeout, what, err);
}

/* The message that each rank sends in mp_communicator_meet: its status, and bytes of data, which only rank 0 sets. */
typedef struct meeting {
    int64_t status;
    char word[MP_MEETING_BYTES];
} meeting;

mp_status mp_communicator_meet(mp_communicator *world, mp_status own, void *word, int64_t bytes, double timeout,
                               const char *what, mp_error *err)
{
    meeting said = {.status = own};
    if (world->n == 1) return own;
    MP_OWNED meeting *all = mp_alloc((size_t)world->n, sizeof *all);
    MP_ENSURE(all, err, MP_NOMEM, "out of memory");
    if (bytes) __builtin_memcpy(said.word, word, (size_t)bytes);
    MP_CHECK(mp_communicator_exchange(world, &said, sizeof said, all, timeout, what, err));
    if (own != MP_OK) return own;
    for (int r = 0; r < world->n; r++)
        MP_ENSURE(all[r].status == MP_OK, err, MP_IO, "rank %d of %d has failed in %s; its own message gives the cause", r,
                  world->n, what);
    if (bytes) __builtin_memcpy(word, all[0].word, (size_t)bytes);
    return MP_OK;
}

/* Waits until one message has arrived. */
static mp_status await(mp_communicator *world, mp_awaited message, double timeout, const char *what, mp_error *err)
{
    mp_patience patience = mp_patience_begin(world, timeout);
    patience.may_sleep = true;
    for (bool done = false; !done;) {
        MP_CHECK(mp_awaited_test(world, &message, &done, what, err));
        if (!done) MP_CHECK(mp_patience_go_on(&patience, false, message.peer, what, err));
    }
    return MP_OK;
}

/* Exchanges the lengths of the ranks' texts: sizes[r] becomes the length of the text of rank r. */
static mp_status exchange_sizes(mp_communicator *world, const char *own, int64_t *sizes, double timeout, const char *what,
                                mp_error *err)
{
    const int64_t bytes = (int64_t)__builtin_strlen(own) + 1;
    MP_CHECK(mp_communicator_exchange(world, &bytes, sizeof bytes, sizes, timeout, what, err));
    for (int r = 0; r < world->n; r++)
        MP_ENSURE(sizes[r] > 0 && sizes[r] <= MP_TEXT_BYTES, err, MP_IO,
                  "rank %d of %d announces %lld bytes in %s, but only 1 to %d are allowed", r, world->n, (long long)sizes[r],
                  what, MP_TEXT_BYTES);
    return MP_OK;
}

/* Receives the text of another rank. */
static mp_status take_text(mp_communicator *world, int from, int64_t bytes, const char **out, mp_pool *pool, double timeout,
                           const char *what, mp_error *err)
{
    char *text = mp_pool_alloc(pool, (size_t)bytes, 1);
    mp_awaited message = {.peer = from};
    MP_ENSURE(text, err, MP_NOMEM, "there is no memory for %lld bytes of rank %d in %s", (long long)bytes, from, what);
    MP_CHECK(begin_receive(world, text, bytes, &message, err));
    MP_CHECK(await(world, message, timeout, what, err));
    MP_ENSURE(!text[bytes - 1], err, MP_IO, "rank %d of %d has sent no text in %s", from, world->n, what);
    *out = text;
    return MP_OK;
}

mp_status mp_communicator_collect(mp_communicator *world, const char *own, const char **texts, mp_pool *pool, double timeout,
                                  const char *what, mp_error *err)
{
    MP_OWNED int64_t *sizes = mp_alloc((size_t)world->n, sizeof *sizes);
    MP_ENSURE(sizes, err, MP_NOMEM, "out of memory");
    MP_CHECK(exchange_sizes(world, own, sizes, timeout, what, err));
    if (world->rank) {
        mp_awaited message = {.bytes = -1};
        MP_CHECK(world->send(world, own, sizes[world->rank], 0, MP_TAG_OF_EXCHANGES, &message.message, err));
        return await(world, message, timeout, what, err);
    }
    texts[0] = own;
    for (int r = 1; r < world->n; r++) MP_CHECK(take_text(world, r, sizes[r], &texts[r], pool, timeout, what, err));
    return MP_OK;
}

mp_status mp_communicator_hand_out(mp_communicator *world, int block, const char **text, mp_pool *pool, double timeout,
                                   const char *what, mp_error *err)
{
    const int first = world->rank - world->rank % block;
    MP_OWNED int64_t *sizes = mp_alloc((size_t)world->n, sizeof *sizes);
    MP_ENSURE(sizes, err, MP_NOMEM, "out of memory");
    MP_CHECK(exchange_sizes(world, world->rank == first ? *text : "", sizes, timeout, what, err));
    if (world->rank != first) return take_text(world, first, sizes[first], text, pool, timeout, what, err);
    for (int r = first + 1; r < first + block; r++) MP_CHECK(open_send(world, *text, sizes[first], r, err));
    return wait_for_open(world, timeout, what, err);
}
