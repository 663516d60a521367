/* communicator.c - the MPI communicator, built as a module. No other file uses MPI.
 *
 * Open MPI makes progress only inside its own calls. The training thread makes these calls between two operators and while it
 * waits, so MPI_THREAD_FUNNELED is enough. docs/internals/ranks.md states the cost of a separate thread. */
#include "executor/ranks/communicator.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(mp_message), "a request does not fit");

typedef struct joined {
    mp_communicator base;
    /* for each rank: number of elements and index of the first element, as arguments of the current MPI call */
    int *counts, *starts;
} joined;

static mp_status failed(int code, const char *what, mp_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS) return MP_OK;
    MPI_Error_string(code, text, &n);
    return MP_FAIL(err, MP_IO, "%s: %s", what, text);
}

static mp_message number_of(MPI_Request request)
{
    mp_message number = 0;
    memcpy(&number, &request, sizeof request);
    return number;
}

/* MPI counts elements in an int, so messages of more than INT_MAX bytes are counted in 8-byte words. */
static mp_status count(int64_t bytes, MPI_Datatype *type, int *n, mp_error *err)
{
    const bool in_words = bytes > INT_MAX && bytes % 8 == 0;
    const int64_t units = in_words ? bytes / 8 : bytes;
    MP_ENSURE(units <= INT_MAX, err, MP_UNSUPPORTED, "MPI cannot send %lld bytes in one message", (long long)bytes);
    *type = in_words ? MPI_INT64_T : MPI_BYTE;
    *n = (int)units;
    return MP_OK;
}

static mp_status send(mp_communicator *self, const void *from, int64_t bytes, int to, int tag, mp_message *out, mp_error *err)
{
    (void)self;
    MPI_Datatype type = MPI_BYTE;
    MPI_Request request;
    int n = 0;
    MP_CHECK(count(bytes, &type, &n, err));
    MP_CHECK(failed(MPI_Isend(from, n, type, to, tag, MPI_COMM_WORLD, &request), "MPI_Isend", err));
    *out = number_of(request);
    return MP_OK;
}

static mp_status receive(mp_communicator *self, void *to, int64_t bytes, int from, int tag, mp_message *out, mp_error *err)
{
    (void)self;
    MPI_Datatype type = MPI_BYTE;
    MPI_Request request;
    int n = 0;
    MP_CHECK(count(bytes, &type, &n, err));
    MP_CHECK(failed(MPI_Irecv(to, n, type, from, tag, MPI_COMM_WORLD, &request), "MPI_Irecv", err));
    *out = number_of(request);
    return MP_OK;
}

static mp_status probe(mp_communicator *self, int from, int tag, int64_t *bytes, mp_error *err)
{
    (void)self;
    MPI_Status status;
    MPI_Count n = 0;
    int has_come = 0;
    *bytes = -1;
    MP_CHECK(failed(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &has_come, &status), "MPI_Iprobe", err));
    if (!has_come) return MP_OK;
    MP_CHECK(failed(MPI_Get_elements_x(&status, MPI_BYTE, &n), "MPI_Get_elements_x", err));
    *bytes = n;
    return MP_OK;
}

static mp_status broadcast(mp_communicator *self, void *values, int64_t bytes, int root, mp_message *out, mp_error *err)
{
    (void)self;
    MPI_Datatype type = MPI_BYTE;
    MPI_Request request;
    int n = 0;
    MP_CHECK(count(bytes, &type, &n, err));
    MP_CHECK(failed(MPI_Ibcast(values, n, type, root, MPI_COMM_WORLD, &request), "MPI_Ibcast", err));
    *out = number_of(request);
    return MP_OK;
}

static mp_status check_sum(mp_dtype dtype, int64_t n, mp_error *err)
{
    MP_ENSURE(dtype == MP_DTYPE_FLOAT, err, MP_UNSUPPORTED, "MPI cannot sum %s, only fp32; use --reduce ordered",
              mp_dtype_name(dtype));
    MP_ENSURE(n <= INT_MAX, err, MP_UNSUPPORTED, "MPI cannot sum %lld numbers at once; use --reduce ordered", (long long)n);
    return MP_OK;
}

static mp_status all_reduce(mp_communicator *self, mp_dtype dtype, void *values, int64_t n, mp_message *out, mp_error *err)
{
    (void)self;
    MPI_Request request;
    MP_CHECK(check_sum(dtype, n, err));
    MP_CHECK(failed(MPI_Iallreduce(MPI_IN_PLACE, values, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request),
                    "MPI_Iallreduce", err));
    *out = number_of(request);
    return MP_OK;
}

/* Writes the size and the start of every rank's part of n elements, each multiplied by `unit`. */
static void deal(joined *m, int64_t n, int64_t unit)
{
    const int64_t part = mp_rank_part(n, m->base.n);
    for (int r = 0; r < m->base.n; r++) {
        const int64_t from = part * r < n ? part * r : n, to = part * (r + 1) < n ? part * (r + 1) : n;
        m->starts[r] = (int)(from * unit);
        m->counts[r] = (int)((to - from) * unit);
    }
}

static mp_status reduce_scatter(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                                mp_error *err)
{
    joined *m = self->context;
    MPI_Request request;
    MP_CHECK(check_sum(dtype, n, err));
    deal(m, n, 1);
    MP_CHECK(failed(MPI_Ireduce_scatter(from, to, m->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request),
                    "MPI_Ireduce_scatter", err));
    *out = number_of(request);
    return MP_OK;
}

static mp_status all_gather(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                            mp_error *err)
{
    joined *m = self->context;
    MPI_Request request;
    const int64_t unit = mp_dtype_bits(dtype) / 8;
    MP_ENSURE(n <= INT_MAX / unit, err, MP_UNSUPPORTED, "MPI cannot gather %lld numbers at once; use --reduce ordered",
              (long long)n);
    deal(m, n, unit);
    const bool is_in_place = (const char *)from == (char *)to + m->starts[self->rank];
    MP_CHECK(failed(MPI_Iallgatherv(is_in_place ? MPI_IN_PLACE : from, m->counts[self->rank], MPI_BYTE, to, m->counts,
                                    m->starts, MPI_BYTE, MPI_COMM_WORLD, &request),
                    "MPI_Iallgatherv", err));
    *out = number_of(request);
    return MP_OK;
}

static mp_status test(mp_communicator *self, mp_message *number, bool *done, int64_t *arrived, mp_error *err)
{
    (void)self;
    MPI_Request request;
    MPI_Status status;
    MPI_Count bytes = 0;
    int has_ended = 1, class = MPI_SUCCESS;
    *done = true;
    if (!*number) return MP_OK;
    memcpy(&request, number, sizeof request);
    const int code = MPI_Test(&request, &has_ended, &status);
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    if (class == MPI_ERR_TRUNCATE)
        *arrived = MP_MESSAGE_TOO_LONG;
    else
        MP_CHECK(failed(code, "MPI_Test", err));
    *done = has_ended || class == MPI_ERR_TRUNCATE;
    *number = *done ? 0 : number_of(request);
    if (has_ended && code == MPI_SUCCESS && MPI_Get_elements_x(&status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes >= 0)
        *arrived = bytes;
    return MP_OK;
}

static void end(mp_communicator *self, int status)
{
    (void)self;
    MPI_Abort(MPI_COMM_WORLD, status);
}

static void leave(mp_communicator *self)
{
    joined *m = self->context;
    MPI_Finalize();
    mp_free(m->counts);
    mp_free(m->starts);
    mp_free(m);
}

__attribute__((visibility("default"))) mp_module_join mp_module_communicator;
mp_status mp_module_communicator(mp_communicator **out, mp_error *err)
{
    MP_OWNED joined *m = mp_alloc(1, sizeof *m);
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "MPI";
    int level, n;
    MP_ENSURE(m, err, MP_NOMEM, "out of memory");
    MP_CHECK(failed(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread", err));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Get_library_version(library, &n);
    library[strcspn(library, ",\n")] = 0;
    m->base = (mp_communicator){.context = m,
                                .send = send,
                                .receive = receive,
                                .probe = probe,
                                .broadcast = broadcast,
                                .all_reduce = all_reduce,
                                .reduce_scatter = reduce_scatter,
                                .all_gather = all_gather,
                                .test = test,
                                .end = end,
                                .close = leave};
    snprintf(m->base.name, sizeof m->base.name, "%.60s", library);
    MPI_Comm_rank(MPI_COMM_WORLD, &m->base.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &m->base.n);
    m->counts = mp_alloc((size_t)m->base.n, sizeof *m->counts);
    m->starts = mp_alloc((size_t)m->base.n, sizeof *m->starts);
    MP_ENSURE(m->counts && m->starts, err, MP_NOMEM, "out of memory");
    *out = &m->base;
    m = NULL;
    return MP_OK;
}
