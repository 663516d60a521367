/* mpi_calls.c - loaded into a rank before MPI: logs each MPI call that exchanges data between training processes. The channel
 * column has the number of the collective, which allows sorting of messages. */
#include <mpi.h>

#include "tests/nccl/calls_log.h"

enum { TAG_OF_EXCHANGES = 32767 }; /* losses and comparisons, which are not a plan's collectives */

static void note(int collective, const char *kind, int peer, int n, MPI_Datatype type)
{
    int rank, size;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Type_size(type, &size);
    if (collective != TAG_OF_EXCHANGES) log_call(rank, collective, kind, peer, (long long)n * size);
}

int MPI_Isend(const void *from, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    note(tag, "send", to, n, type);
    return PMPI_Isend(from, n, type, to, tag, comm, request);
}

int MPI_Irecv(void *to, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    note(tag, "receive", from, n, type);
    return PMPI_Irecv(to, n, type, from, tag, comm, request);
}

int MPI_Iallreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    note(0, "all-reduce", -1, n, type);
    return PMPI_Iallreduce(from, to, n, type, op, comm, request);
}

static int sum_of(const int counts[], MPI_Comm comm)
{
    int n, sum = 0;
    PMPI_Comm_size(comm, &n);
    for (int r = 0; r < n; r++) sum += counts[r];
    return sum;
}

int MPI_Ireduce_scatter(const void *from, void *to, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                        MPI_Request *request)
{
    note(0, "reduce-scatter", -1, sum_of(counts, comm), type);
    return PMPI_Ireduce_scatter(from, to, counts, type, op, comm, request);
}

int MPI_Iallgatherv(const void *from, int n, MPI_Datatype from_type, void *to, const int counts[], const int starts[],
                    MPI_Datatype type, MPI_Comm comm, MPI_Request *request)
{
    note(0, "all-gather", -1, sum_of(counts, comm), type);
    return PMPI_Iallgatherv(from, n, from_type, to, counts, starts, type, comm, request);
}
