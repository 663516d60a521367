/* communicator.c - the NCCL communicator between the GPUs of ranks that MPI has joined, built as a module. No other file uses
 * NCCL.
 *
 * All NCCL kernels are enqueued on the backend's current stream. A captured pass therefore contains the NCCL kernels, and
 * later work on the stream runs after them. This file loads the library (libnccl.so.2). */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "executor/kernel/backend.h"
#include "executor/nccl/nccl_calls.h"
#include "executor/ranks/exchanges.h"

enum { JOIN_SECONDS = 60 };

typedef struct joined {
    mp_communicator base;
    const mp_backend *backend;
    struct ncclComm *comm; /* NCCL's communicator; NULL: it was aborted */
#define FIELD(result, name, arguments) result(*name) arguments;
    MP_NCCL_CALLS(FIELD)
#undef FIELD
} joined;

static mp_status failed(const joined *m, unsigned code, const char *what, mp_error *err)
{
    if (code == MP_NCCL_SUCCESS) return MP_OK;
    return MP_FAIL(err, MP_IO, "NCCL: %.120s (in %s)", m->ncclGetErrorString(code), what);
}
#define NCCL(m, name, ...) failed(m, (m)->name(__VA_ARGS__), #name, err)

static struct CUstream_st *stream(const joined *m)
{
    return m->backend->stream(m->backend);
}

static mp_status send(mp_communicator *self, const void *from, int64_t bytes, int to, int tag, mp_message *out, mp_error *err)
{
    const joined *m = self->context;
    (void)tag; /* NCCL needs no tags, because messages arrive in the order in which they were enqueued */
    *out = 0;
    return NCCL(m, ncclSend, from, (size_t)bytes, MP_NCCL_INT8, to, m->comm, stream(m));
}

static mp_status receive(mp_communicator *self, void *to, int64_t bytes, int from, int tag, mp_message *out, mp_error *err)
{
    const joined *m = self->context;
    (void)tag;
    *out = 0;
    return NCCL(m, ncclRecv, to, (size_t)bytes, MP_NCCL_INT8, from, m->comm, stream(m));
}

static mp_status broadcast(mp_communicator *self, void *values, int64_t bytes, int root, mp_message *out, mp_error *err)
{
    const joined *m = self->context;
    *out = 0;
    return NCCL(m, ncclBroadcast, values, values, (size_t)bytes, MP_NCCL_INT8, root, m->comm, stream(m));
}

static mp_status type_of(mp_dtype dtype, unsigned *type, mp_error *err)
{
    MP_ENSURE(dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16, err, MP_UNSUPPORTED,
              "NCCL cannot sum %s, only fp32 and bf16; use --reduce ordered", mp_dtype_name(dtype));
    *type = dtype == MP_DTYPE_FLOAT ? MP_NCCL_FLOAT32 : MP_NCCL_BFLOAT16;
    return MP_OK;
}

static mp_status all_reduce(mp_communicator *self, mp_dtype dtype, void *values, int64_t n, mp_message *out, mp_error *err)
{
    const joined *m = self->context;
    unsigned type = 0;
    *out = 0;
    MP_CHECK(type_of(dtype, &type, err));
    return NCCL(m, ncclAllReduce, values, values, (size_t)n, type, MP_NCCL_SUM, m->comm, stream(m));
}

/* NCCL's reduce-scatter requires equal parts. If the last parts are shorter, each part is reduced to its rank separately. */
static mp_status reduce_scatter(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                                mp_error *err)
{
    const joined *m = self->context;
    const int64_t element = mp_dtype_bits(dtype) / 8;
    unsigned type = 0;
    *out = 0;
    MP_CHECK(type_of(dtype, &type, err));
    if (n % self->n == 0)
        return NCCL(m, ncclReduceScatter, from, to, (size_t)(n / self->n), type, MP_NCCL_SUM, m->comm, stream(m));
    for (int r = 0; r < self->n; r++) {
        const mp_range part = mp_range_of(n, self->n, r);
        if (part.n)
            MP_CHECK(NCCL(m, ncclReduce, (const char *)from + part.from * element, to, (size_t)part.n, type, MP_NCCL_SUM, r,
                          m->comm, stream(m)));
    }
    return MP_OK;
}

static mp_status all_gather(mp_communicator *self, mp_dtype dtype, const void *from, void *to, int64_t n, mp_message *out,
                            mp_error *err)
{
    const joined *m = self->context;
    const int64_t element = mp_dtype_bits(dtype) / 8;
    *out = 0;
    if (n % self->n == 0)
        return NCCL(m, ncclAllGather, from, to, (size_t)(n / self->n * element), MP_NCCL_INT8, m->comm, stream(m));
    for (int r = 0; r < self->n; r++) {
        const mp_range part = mp_range_of(n, self->n, r);
        if (part.n)
            MP_CHECK(NCCL(m, ncclBroadcast, from, (char *)to + part.from * element, (size_t)(part.n * element), MP_NCCL_INT8, r,
                          m->comm, stream(m)));
    }
    return MP_OK;
}

static mp_status begin_group(mp_communicator *self, mp_error *err)
{
    const joined *m = self->context;
    return NCCL(m, ncclGroupStart, );
}

static mp_status end_group(mp_communicator *self, mp_error *err)
{
    const joined *m = self->context;
    return NCCL(m, ncclGroupEnd, );
}

/* A request counts as done as soon as it is enqueued. This function reports asynchronous failures of NCCL. */
static mp_status test(mp_communicator *self, mp_message *number, bool *done, int64_t *arrived, mp_error *err)
{
    (void)arrived;
    const joined *m = self->context;
    unsigned code = MP_NCCL_SUCCESS;
    *number = 0;
    *done = true;
    MP_CHECK(NCCL(m, ncclCommGetAsyncError, m->comm, &code));
    return failed(m, code, "a message", err);
}

static void end(mp_communicator *self, int status)
{
    joined *m = self->context;
    (void)status;
    if (m->comm) m->ncclCommAbort(m->comm);
    m->comm = NULL;
}

static void leave(mp_communicator *self)
{
    joined *m = self->context;
    if (m->comm && m->backend->wait(m->backend, NULL) == MP_OK) m->ncclCommDestroy(m->comm);
    mp_free(m);
}

static mp_status load(joined *m, mp_error *err)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL), *symbol;
    MP_ENSURE(library, err, MP_UNSUPPORTED, "several GPUs need NCCL, which cannot be loaded: %s", dlerror());
#define LOAD(result, name, arguments)                                            \
    MP_ENSURE(symbol = dlsym(library, #name), err, MP_UNSUPPORTED,               \
              "several GPUs need a newer NCCL, because this one has no " #name); \
    memcpy(&m->name, &symbol, sizeof symbol);
    MP_NCCL_CALLS(LOAD)
#undef LOAD
    return MP_OK;
}

/* Connects the ranks: rank 0 creates NCCL's unique ID and sends it to all other ranks. */
static mp_status meet(joined *m, mp_communicator *world, mp_error *err)
{
    ncclUniqueId own = {{0}};
    MP_OWNED ncclUniqueId *all = mp_alloc((size_t)world->n, sizeof *all);
    MP_ENSURE(all, err, MP_NOMEM, "out of memory");
    if (!world->rank) MP_CHECK(NCCL(m, ncclGetUniqueId, &own));
    MP_CHECK(mp_communicator_exchange(world, &own, sizeof own, all, JOIN_SECONDS, "joining GPUs", err));
    m->backend->use(m->backend);
    return NCCL(m, ncclCommInitRank, &m->comm, world->n, all[0], world->rank);
}

__attribute__((visibility("default"))) mp_module_join_devices mp_module_devices;
mp_status mp_module_devices(mp_communicator *world, const mp_backend *backend, mp_communicator **out, mp_error *err)
{
    MP_OWNED joined *m = mp_alloc(1, sizeof *m);
    int version = 0;
    MP_ENSURE(m, err, MP_NOMEM, "out of memory");
    MP_ENSURE(backend->stream && backend->side_begin, err, MP_UNSUPPORTED, "NCCL supports GPUs only, not --device %s",
              backend->name);
    m->backend = backend;
    m->base = (mp_communicator){.rank = world->rank,
                                .n = world->n,
                                .context = m,
                                .is_on_stream = true,
                                .send = send,
                                .receive = receive,
                                .broadcast = broadcast,
                                .all_reduce = all_reduce,
                                .reduce_scatter = reduce_scatter,
                                .all_gather = all_gather,
                                .begin_group = begin_group,
                                .end_group = end_group,
                                .test = test,
                                .end = end,
                                .close = leave};
    MP_CHECK(load(m, err));
    MP_CHECK(NCCL(m, ncclGetVersion, &version));
    snprintf(m->base.name, sizeof m->base.name, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    MP_CHECK(meet(m, world, err));
    *out = &m->base;
    m = NULL;
    return MP_OK;
}
