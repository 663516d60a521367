/* communicator.h - the interface of a module that connects the ranks of a training, such as the MPI and NCCL modules.
 *
 * A communicator has messages and collectives that run beside compute. A call that starts one returns immediately with a
 * request; `test` reports whether the request has ended. Some libraries transfer data only during their own calls; with them,
 * repeated calls of `test` drive the transfer. The caller must not change buffers until the request has ended. All calls come
 * from one thread, and all ranks start collectives in the same order.
 *
 * If ranks have devices, a second communicator connects the devices. It enqueues on the current stream of a backend. Its
 * requests therefore count as ended immediately, and later work on the stream runs after them.
 *
 * collectives.h uses this interface, for example for sums in a fixed order. */
#pragma once

#include <stdbool.h>

#include "executor/kernel/kernel_group.h"
#include "memplan/backend.h"
#include "memplan/ranks/communicator.h"

/* Handle of a request; 0: no request, or a request that has ended. */
typedef int64_t mp_message;

/* A send or receive in progress, with the properties that are checked when it ends. */
typedef struct mp_awaited {
    mp_message message;
    int peer;      /* the rank that sends or receives the message; -1: only the library knows the rank */
    int64_t bytes; /* number of bytes to receive; -1: nothing is received, or only the library knows the number */
    void *to;      /* buffer for a message whose length must be checked before it is received; NULL: the receive has started */
} mp_awaited;

enum { MP_COMMUNICATOR_TAGS = 32768, MP_COMMUNICATOR_NAME = 64 };
#define MP_MESSAGE_TOO_LONG INT64_MAX

struct mp_communicator {
    char name[MP_COMMUNICATOR_NAME];
    int rank, n;
    void *context;
    mp_awaited *open;         /* the requests of the exchange that is in progress (exchanges.h): two for each rank */
    struct mp_peers *who;     /* the processes of all ranks */
    bool is_on_stream;        /* true: messages and collectives are enqueued on a backend's stream */
    mp_communicator *devices; /* a second communicator that connects the devices of the same ranks; NULL: none */

    /* Messages with the same tag between two ranks arrive in order. Tags are below MP_COMMUNICATOR_TAGS. */
    mp_status (*send)(mp_communicator *self, const void *from, int64_t bytes, int to, int tag, mp_message *out, mp_error *err);
    mp_status (*receive)(mp_communicator *self, void *to, int64_t bytes, int from, int tag, mp_message *out, mp_error *err);
    /* Reports, without receiving it, whether a message has arrived, and its length; -1: none. The check is necessary because a
     * library may write beyond the buffer if a message is too long (docs/internals/ranks.md). NULL: the library has no such
     * function. */
    mp_status (*probe)(mp_communicator *self, int from, int tag, int64_t *bytes, mp_error *err);
    mp_status (*broadcast)(mp_communicator *self, void *values, int64_t bytes, int root, mp_message *out, mp_error *err);
    /* Sums in the library's own order. all_reduce sums n elements in place. reduce_scatter: rank r receives the sums of part r
     * in a separate buffer; parts at the end may be shorter. all_gather: every rank's part is copied to all ranks.
     * MP_UNSUPPORTED: the library has no sums of this type. */
    mp_status (*all_reduce)(mp_communicator *self, mp_dtype dtype, void *values, int64_t n, mp_message *out, mp_error *err);
    mp_status (*reduce_scatter)(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                                mp_error *err);
    mp_status (*all_gather)(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                            mp_error *err);
    /* Messages that wait for each other, such as a send and a receive between two ranks, must be started between begin_group
     * and end_group. NULL: the library needs no groups. */
    mp_status (*begin_group)(mp_communicator *self, mp_error *err);
    mp_status (*end_group)(mp_communicator *self, mp_error *err);
    /* If the request has ended, sets *request to 0 and *done to true. *arrived is then the length of a received message, or
     * MP_MESSAGE_TOO_LONG if the message did not fit. *arrived is unchanged if the library does not report lengths. */
    mp_status (*test)(mp_communicator *self, mp_message *request, bool *done, int64_t *arrived, mp_error *err);
    /* Ends the processes of all ranks, including this one. Called after a failure, because other ranks would wait forever. If
     * the communicator is on a stream, aborts the work in progress instead, which may wait for other ranks; the device can
     * then be released. */
    void (*end)(mp_communicator *self, int status);
    void (*close)(mp_communicator *self);
};

/* The type of the symbol mp_module_communicator, a function that connects the ranks of this training. */
typedef mp_status mp_module_join(mp_communicator **out, mp_error *err);
/* The type of the symbol mp_module_devices: a function that connects the devices of ranks that are already connected. Each
 * rank must have opened its backend. */
typedef mp_status mp_module_join_devices(mp_communicator *world, const mp_backend *backend, mp_communicator **out,
                                         mp_error *err);
