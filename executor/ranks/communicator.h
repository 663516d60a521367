/* communicator.h - what a module that joins ranks provides, and how long to wait for them.
 *
 * As a backend has streams, a communicator has messages and collectives that run beside compute: each is begun by a call that
 * returns at once with a request, and `test` says whether that has ended. Where nothing but its own calls advances a library's
 * work, `test` is what advances it. All that is sent and received stays as it is until its request has ended. Calls come from
 * one thread, and collectives in the same order on all ranks.
 *
 * Where ranks have devices of their own, a second communicator joins those: it enqueues on the stream that a backend enqueues
 * on, so a request has ended, for the program, when it has been made, and what comes after it there comes after it.
 *
 * What is built of these, sums in a fixed order among others, is in collectives.h.
 */
#pragma once

#include <stdbool.h>

#include "executor/kernel/team.h"
#include "memplan/backend.h"
#include "memplan/ranks/communicator.h"

/* A request of the module; 0: none, which has ended. */
typedef int64_t mp_message;

/* One that is under way, and what is to come of it. */
typedef struct mp_awaited {
    mp_message message;
    int peer;      /* the rank at its other end; -1: the library knows */
    int64_t bytes; /* that are received; -1: none are, or the library knows */
    void *to;      /* where they will be received once it is seen how many there are; NULL: that has begun */
} mp_awaited;

enum { MP_COMMUNICATOR_TAGS = 32768, MP_COMMUNICATOR_NAME = 64 };
#define MP_MESSAGE_TOO_LONG INT64_MAX

struct mp_communicator {
    char name[MP_COMMUNICATOR_NAME];
    int rank, n;
    void *context;
    mp_awaited *open;         /* of an exchange: two per rank */
    struct mp_peers *who;     /* the processes of the ranks */
    bool is_on_stream;        /* it enqueues on a backend's stream */
    mp_communicator *devices; /* the same ranks, on a stream of their devices; NULL: there is none */

    /* Messages of one tag between two ranks arrive in order. Tags are below MP_COMMUNICATOR_TAGS. */
    mp_status (*send)(mp_communicator *self, const void *from, int64_t bytes, int to, int tag, mp_message *out, mp_error *err);
    mp_status (*receive)(mp_communicator *self, void *to, int64_t bytes, int from, int tag, mp_message *out, mp_error *err);
    /* Looks whether a message has come, and of how many bytes, without receiving it; -1: none has. A library may write what is
     * too long behind its room (docs/internals/ranks.md). NULL: it cannot look. */
    mp_status (*probe)(mp_communicator *self, int from, int tag, int64_t *bytes, mp_error *err);
    mp_status (*broadcast)(mp_communicator *self, void *values, int64_t bytes, int root, mp_message *out, mp_error *err);
    /* Sums in an order of the library's own. all_reduce: of n elements in their place. reduce_scatter: rank r gets the sum of
     * elements [r part, (r + 1) part), fewer at the end, apart from `from`. all_gather: the other way round, without a sum.
     * MP_UNSUPPORTED: the library has no sums of this type. */
    mp_status (*all_reduce)(mp_communicator *self, mp_dtype dtype, void *values, int64_t n, mp_message *out, mp_error *err);
    mp_status (*reduce_scatter)(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                                mp_error *err);
    mp_status (*all_gather)(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                            mp_error *err);
    /* What is begun between the two may wait for one another, on this rank or others. NULL: it may anyway. */
    mp_status (*begin_group)(mp_communicator *self, mp_error *err);
    mp_status (*end_group)(mp_communicator *self, mp_error *err);
    /* *request is 0 when it is done. *arrived is then the bytes of a message that was received, MP_MESSAGE_TOO_LONG if there
     * was no room for all of them; it stays what it is where the library does not say. */
    mp_status (*test)(mp_communicator *self, mp_message *request, bool *done, int64_t *arrived, mp_error *err);
    /* Ends all processes at once, this one with them: after a failure that the others would wait for. On a stream: gives up
     * what is under way there, which may wait for others, so that the device can be left. */
    void (*end)(mp_communicator *self, int status);
    void (*close)(mp_communicator *self);
};

/* The type of a module's symbol, mp_module_communicator: joins the ranks. */
typedef mp_status mp_module_join(mp_communicator **out, mp_error *err);
/* That of mp_module_devices: joins the devices of ranks that are joined already; each has opened the backend of its own. */
typedef mp_status mp_module_join_devices(mp_communicator *world, const mp_backend *backend, mp_communicator **out,
                                         mp_error *err);

/* The elements of a rank's part. */
typedef struct mp_range {
    int64_t from, n;
} mp_range;
static inline mp_range mp_range_of(int64_t n, int64_t ranks, int64_t rank)
{
    const int64_t part = mp_rank_part(n, ranks), from = part * rank;
    return (mp_range){from, from >= n ? 0 : n - from < part ? n - from : part};
}
