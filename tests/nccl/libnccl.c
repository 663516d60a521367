/* libnccl.c - a replacement of libnccl.so.2. MPI runs NCCL's operations on a host stream (deferring_backend.h), in stream
 * order. Each call is logged when it is enqueued (calls_log.h).
 *
 * Calls in a group do not wait for each other. Arguments that NCCL reports as wrong are reported here, too. A call whose number
 * is in MEMPLAN_NCCL_FAILS fails. */
#include <mpi.h>
#include <stdbool.h>
#include <string.h>

#include "executor/nccl/nccl_calls.h"
#include "tests/cases/deferring_backend.h"
#include "tests/nccl/calls_log.h"

enum { FAILED = 1, WRONG_ARGUMENT = 4, WRONG_USE = 5, GROUP = 4096 };

typedef enum kind { SEND, RECEIVE, BROADCAST, REDUCE, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER } kind;
static const char *const names[] = {"send", "receive", "broadcast", "reduce", "all-reduce", "reduce-scatter", "all-gather"};

typedef struct call {
    kind kind;
    const void *from;
    void *to;
    int n, peer;
    MPI_Datatype type;
} call;

struct ncclComm {
    MPI_Comm comm;
    int rank, n;
};

typedef struct group {
    struct group *before; /* list of all enqueued groups */
    struct ncclComm *comm;
    size_t n;
    call calls[];
} group;

static int depth;
static struct ncclComm *group_comm;
static group *last_group;
static host_stream *group_stream;
static call pending[GROUP];
static size_t n_pending, n_calls;

unsigned ncclGetVersion(int *version)
{
    *version = 20000;
    return MP_NCCL_SUCCESS;
}

const char *ncclGetErrorString(unsigned code)
{
    return code == WRONG_ARGUMENT ? "invalid argument" : code == WRONG_USE ? "invalid usage" : "it was told to fail";
}

unsigned ncclGetUniqueId(ncclUniqueId *id)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(id, 0x40 + rank, sizeof *id);
    return MP_NCCL_SUCCESS;
}

/* All ranks must pass the id made by rank 0. */
unsigned ncclCommInitRank(struct ncclComm **out, int n, ncclUniqueId id, int rank)
{
    static struct ncclComm comm;
    ncclUniqueId made;
    memset(&made, 0x40, sizeof made);
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm.comm);
    PMPI_Comm_rank(comm.comm, &comm.rank);
    PMPI_Comm_size(comm.comm, &comm.n);
    *out = &comm;
    return memcmp(&made, &id, sizeof id) || comm.n != n || comm.rank != rank ? WRONG_ARGUMENT : MP_NCCL_SUCCESS;
}

unsigned ncclCommDestroy(struct ncclComm *comm)
{
    PMPI_Comm_free(&comm->comm);
    return MP_NCCL_SUCCESS;
}

unsigned ncclCommAbort(struct ncclComm *comm)
{
    return comm ? MP_NCCL_SUCCESS : WRONG_ARGUMENT;
}

unsigned ncclCommGetAsyncError(struct ncclComm *comm, unsigned *code)
{
    *code = MP_NCCL_SUCCESS;
    return comm ? MP_NCCL_SUCCESS : WRONG_ARGUMENT;
}

/* ---- operations, run in stream order ---- */

static void run_collective(const call *c, MPI_Comm comm, int rank)
{
    const void *from = c->from == c->to ? MPI_IN_PLACE : c->from;
    switch (c->kind) {
    case BROADCAST:
        if (rank == c->peer && c->from != c->to) memcpy(c->to, c->from, (size_t)c->n);
        PMPI_Bcast(c->to, c->n, c->type, c->peer, comm);
        break;
    case REDUCE:
        PMPI_Reduce(rank == c->peer ? from : c->from, c->to, c->n, c->type, MPI_SUM, c->peer, comm);
        break;
    case ALL_REDUCE:
        PMPI_Allreduce(from, c->to, c->n, c->type, MPI_SUM, comm);
        break;
    case REDUCE_SCATTER:
        PMPI_Reduce_scatter_block(from, c->to, c->n, c->type, MPI_SUM, comm);
        break;
    default: /* its own part may be in place */
        PMPI_Allgather((const char *)c->to + (size_t)rank * (size_t)c->n == c->from ? MPI_IN_PLACE : c->from, c->n, c->type,
                       c->to, c->n, c->type, comm);
    }
}

static void run_group(void *what)
{
    const group *g = what;
    MPI_Request requests[GROUP];
    int n = 0;
    for (size_t k = 0; k < g->n; k++) {
        const call *c = &g->calls[k];
        if (c->kind == SEND) PMPI_Isend(c->from, c->n, c->type, c->peer, 0, g->comm->comm, &requests[n++]);
        if (c->kind == RECEIVE) PMPI_Irecv(c->to, c->n, c->type, c->peer, 0, g->comm->comm, &requests[n++]);
        if (c->kind > RECEIVE) run_collective(c, g->comm->comm, g->comm->rank);
    }
    PMPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

/* ---- enqueued groups, which may be recorded and are never released ---- */

static void enqueue(void)
{
    group *g = malloc(sizeof *g + n_pending * sizeof *g->calls);
    if (!g) abort();
    g->before = last_group;
    g->comm = group_comm;
    g->n = n_pending;
    memcpy(g->calls, pending, n_pending * sizeof *pending);
    last_group = g;
    group_stream->enqueue(group_stream, run_group, g);
    n_pending = 0;
}

static unsigned add(call c, size_t n, unsigned type, struct ncclComm *comm, struct CUstream_st *stream)
{
    const char *fails = getenv("MEMPLAN_NCCL_FAILS");
    if (fails && ++n_calls == strtoul(fails, NULL, 10)) return FAILED;
    if (!comm || !stream || !n || n > 0x7fffffff || c.peer >= comm->n || (type != MP_NCCL_INT8 && type != MP_NCCL_FLOAT32))
        return WRONG_ARGUMENT;
    if (n_pending == GROUP || (n_pending && (comm != group_comm || (host_stream *)stream != group_stream))) return WRONG_USE;
    group_comm = comm;
    group_stream = (host_stream *)stream;
    c.n = (int)n;
    c.type = type == MP_NCCL_INT8 ? MPI_BYTE : MPI_FLOAT;
    pending[n_pending++] = c;
    const int parts = c.kind == REDUCE_SCATTER || c.kind == ALL_GATHER ? comm->n : 1;
    log_call(comm->rank, group_stream->channel, names[c.kind], c.peer, (long long)n * parts * (type == MP_NCCL_INT8 ? 1 : 4));
    if (!depth) enqueue();
    return MP_NCCL_SUCCESS;
}

unsigned ncclGroupStart(void)
{
    depth++;
    return MP_NCCL_SUCCESS;
}

unsigned ncclGroupEnd(void)
{
    if (!depth) return WRONG_USE;
    if (!--depth && n_pending) enqueue();
    return MP_NCCL_SUCCESS;
}

unsigned ncclSend(const void *from, size_t n, unsigned type, int peer, struct ncclComm *comm, struct CUstream_st *stream)
{
    return add((call){.kind = SEND, .from = from, .peer = peer}, n, type, comm, stream);
}

unsigned ncclRecv(void *to, size_t n, unsigned type, int peer, struct ncclComm *comm, struct CUstream_st *stream)
{
    return add((call){.kind = RECEIVE, .to = to, .peer = peer}, n, type, comm, stream);
}

unsigned ncclBroadcast(const void *from, void *to, size_t n, unsigned type, int root, struct ncclComm *comm,
                       struct CUstream_st *stream)
{
    return add((call){.kind = BROADCAST, .from = from, .to = to, .peer = root}, n, type, comm, stream);
}

unsigned ncclReduce(const void *from, void *to, size_t n, unsigned type, unsigned op, int root, struct ncclComm *comm,
                    struct CUstream_st *stream)
{
    if (op != MP_NCCL_SUM) return WRONG_ARGUMENT;
    return add((call){.kind = REDUCE, .from = from, .to = to, .peer = root}, n, type, comm, stream);
}

unsigned ncclAllReduce(const void *from, void *to, size_t n, unsigned type, unsigned op, struct ncclComm *comm,
                       struct CUstream_st *stream)
{
    if (op != MP_NCCL_SUM) return WRONG_ARGUMENT;
    return add((call){.kind = ALL_REDUCE, .from = from, .to = to, .peer = -1}, n, type, comm, stream);
}

unsigned ncclReduceScatter(const void *from, void *to, size_t n, unsigned type, unsigned op, struct ncclComm *comm,
                           struct CUstream_st *stream)
{
    if (op != MP_NCCL_SUM) return WRONG_ARGUMENT;
    return add((call){.kind = REDUCE_SCATTER, .from = from, .to = to, .peer = -1}, n, type, comm, stream);
}

unsigned ncclAllGather(const void *from, void *to, size_t n, unsigned type, struct ncclComm *comm, struct CUstream_st *stream)
{
    return add((call){.kind = ALL_GATHER, .from = from, .to = to, .peer = -1}, n, type, comm, stream);
}
