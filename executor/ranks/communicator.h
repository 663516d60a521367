/* communicator.h - the interface of a module that joins ranks.
 *
 * A communicator has messages and collectives that run beside compute. A call that starts one returns immediately with a
 * request; `test` reports whether the request has ended. If a library makes progress only inside its calls, `test` is the call
 * that advances it. The caller must not change buffers until the request has ended. All calls come from one thread, and all
 * ranks start collectives in the same order.
 *
 * If ranks have devices, a second communicator joins the devices. It enqueues on the current stream of a backend. Its requests
 * therefore count as ended immediately, and later work on the stream runs after them.
 *
 * collectives.h builds on this interface, for example sums in a fixed order. */
#pragma once

#include <stdbool.h>

#include "executor/kernel/team.h"
#include "memplan/backend.h"
#include "memplan/ranks/communicator.h"

/* A request of the module; 0: no request, or one that has ended. */
typedef int64_t mp_message;

/* A request in progress, and the expected result. */
typedef struct mp_awaited {
    mp_message message;
    int peer;      /* the rank at the other end; -1: only the library knows it */
    int64_t bytes; /* bytes to receive; -1: none, or only the library knows the number */
    void *to;      /* buffer for a message whose length has not been checked yet; NULL: receiving has started */
} mp_awaited;

enum { MP_COMMUNICATOR_TAGS = 32768, MP_COMMUNICATOR_NAME = 64 };
#define MP_MESSAGE_TOO_LONG INT64_MAX

struct mp_communicator {
    char name[MP_COMMUNICATOR_NAME];
    int rank, n;
    void *context;
    mp_awaited *open;         /* requests of an exchange: two per rank */
    struct mp_peers *who;     /* the processes of all ranks */
    bool is_on_stream;        /* true: it enqueues on a backend's stream */
    mp_communicator *devices; /* a communicator of the same ranks on a stream of their devices; NULL: none */

    /* Messages with the same tag between two ranks arrive in order. Tags are below MP_COMMUNICATOR_TAGS. */
    mp_status (*send)(mp_communicator *self, const void *from, int64_t bytes, int to, int tag, mp_message *out, mp_error *err);
    mp_status (*receive)(mp_communicator *self, void *to, int64_t bytes, int from, int tag, mp_message *out, mp_error *err);
    /* Reports, without receiving it, whether a message has arrived, and its length; -1: none. The check is necessary because a
     * library may write beyond the buffer if a message is too long (docs/internals/ranks.md). NULL: the library has no such
     * function. */
    mp_status (*probe)(mp_communicator *self, int from, int tag, int64_t *bytes, mp_error *err);
    mp_status (*broadcast)(mp_communicator *self, void *values, int64_t bytes, int root, mp_message *out, mp_error *err);
    /* Sums in the library's own order. all_reduce sums n elements in place. reduce_scatter: rank r receives the sum of elements
     * [r part, (r + 1) part) in a separate buffer; parts at the end may be shorter. all_gather: every rank's part is copied to
     * all ranks. MP_UNSUPPORTED: the library has no sums of this type. */
    mp_status (*all_reduce)(mp_communicator *self, mp_dtype dtype, void *values, int64_t n, mp_message *out, mp_error *err);
    mp_status (*reduce_scatter)(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                                mp_error *err);
    mp_status (*all_gather)(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                            mp_error *err);
    /* Messages started between begin_group and end_group may depend on one another, on this rank or on others. NULL: this is
     * always allowed. */
    mp_status (*begin_group)(mp_communicator *self, mp_error *err);
    mp_status (*end_group)(mp_communicator *self, mp_error *err);
    /* Sets *request to 0 when it has ended. *arrived is then the length of a received message, or MP_MESSAGE_TOO_LONG if it did
     * not fit. *arrived is unchanged if the library does not report lengths. */
    mp_status (*test)(mp_communicator *self, mp_message *request, bool *done, int64_t *arrived, mp_error *err);
    /* Ends all processes, including this one: after a failure, because other ranks would wait forever. On a stream: aborts the
     * work in progress, which may wait for other ranks, so that the device can be released. */
    void (*end)(mp_communicator *self, int status);
    void (*close)(mp_communicator *self);
};

/* The type of the symbol mp_module_communicator: joins the ranks. */
typedef mp_status mp_module_join(mp_communicator **out, mp_error *err);
/* The type of the symbol mp_module_devices: joins the devices of ranks that are already joined. Each rank has opened its
 * backend. */
typedef mp_status mp_module_join_devices(mp_communicator *world, const mp_backend *backend, mp_communicator **out,
                                         mp_error *err);

/* The elements of a rank's part: n elements from `from` on. */
typedef struct mp_range {
    int64_t from, n;
} mp_range;
static inline mp_range mp_range_of(int64_t n, int64_t ranks, int64_t rank)
{
    const int64_t part = mp_rank_part(n, ranks), from = part * rank;
    return (mp_range){from, from >= n ? 0 : n - from < part ? n - from : part};
}
