/* communicator.h - the processes of a distributed training, one per rank of a mesh, and their communication.
 *
 * A launcher starts the processes: mpirun -n 4 program ... A module that is loaded at run time implements the communicator, so
 * the program itself is not linked with MPI or NCCL.
 *
 *     // given: mp_train_request request; uint64_t seed; mp_error *err
 *     mp_communicator *world;
 *     MP_CHECK(mp_communicator_open("mpi", &world, err));
 *     printf("rank %d of %d\n", mp_communicator_rank(world), mp_communicator_size(world));
 *     MP_CHECK(mp_communicator_agree(world, &(mp_fact){"seed", &seed, sizeof seed}, 1, 60, err));
 *     request.execution.world = world;
 *     mp_report report = {0};
 *     MP_CHECK(mp_train(&request, &report, err)); // train.h
 *     mp_report_free(&report);
 *     mp_communicator_close(world);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/backend.h"
#include "memplan/error.h"
#include "memplan/memory.h"

typedef struct mp_communicator mp_communicator;

/* Connects the processes that the launcher has started; without a launcher there is one process. Call at most once per
 * process. Release *out with mp_communicator_close. MP_UNSUPPORTED: this build lacks the module, or the machine lacks its
 * library. MP_INVALID, MP_IO: a process runs another program or version, or has ended. After MP_INVALID and MP_IO *out may
 * still be set, so that the caller can end the other processes. MP_NOMEM. */
mp_status mp_communicator_open(const char *module, mp_communicator **out, mp_error *err);
/* Waits until all sent data has arrived, then leaves the communicator. NULL is allowed. */
void mp_communicator_close(mp_communicator *world);
MP_OWNER(mp_communicator_close, mp_communicator)

/* Connects the devices of all ranks, so that trainings on these devices can exchange tensors. Each rank passes the backend it
 * has opened on its device. A backend in host memory needs no connection. All ranks call this function before the first
 * training. MP_UNSUPPORTED: this build lacks the module, or the machine lacks its library. MP_IO: the connection failed. */
mp_status mp_communicator_join_devices(mp_communicator *world, const mp_backend *backend, mp_error *err);

int mp_communicator_rank(const mp_communicator *world); /* returns the rank of this process, 0 .. size - 1 */
int mp_communicator_size(const mp_communicator *world);
int mp_communicator_number_here(
    const mp_communicator *world); /* returns the index of this rank among the ranks on the same machine, from 0 */
const char *mp_communicator_name(const mp_communicator *world); /* returns the name of the communication library, such as "Open
                                                                   MPI 4.1.4"; if devices are connected, "NCCL 2.28.9" */

/* A named value that must be equal on all ranks. */
typedef struct mp_fact {
    const char *name; /* name of the value in messages, such as "graph" */
    const void *bytes;
    size_t n_bytes;
} mp_fact;

/* Compares named values (mp_fact) across ranks. All ranks pass the same facts in the same order. MP_INVALID: values differ;
 * the message names a rank and its first fact that differs from rank 0. MP_IO: a rank has ended or did not answer within
 * `timeout` seconds; the message names the rank. */
mp_status mp_communicator_agree(mp_communicator *world, const mp_fact *facts, size_t n, double timeout, mp_error *err);
