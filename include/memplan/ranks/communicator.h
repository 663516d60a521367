/* communicator.h - the processes that train together, one for each rank of a mesh, and what joins them.
 *
 * They are started by a launcher: mpirun -n 4 program ... The communicator is made by a module of the program, and the program
 * itself is linked with no such library.
 *
 *     mp_communicator *world;
 *     MP_CHECK(mp_communicator_open("mpi", &world, err));
 *     printf("rank %d of %d\n", mp_communicator_rank(world), mp_communicator_size(world));
 *     MP_CHECK(mp_communicator_agree(world, &(mp_fact){"seed", &seed, sizeof seed}, 1, 60, err));
 *     request.execution.world = world;
 *     mp_communicator_close(world);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/backend.h"
#include "memplan/error.h"
#include "memplan/memory.h"

typedef struct mp_communicator mp_communicator;

/* Joins the processes that the launcher has started; alone, without a launcher, there is one. The caller releases *out with
 * mp_communicator_close. Once in the life of a process. MP_UNSUPPORTED: this build has no such module, or the machine lacks
 * what it needs. MP_INVALID, MP_IO: a process is another program, or of another version, or has ended; *out may then be set all
 * the same, so that the caller can end the others. MP_NOMEM. */
mp_status mp_communicator_open(const char *module, mp_communicator **out, mp_error *err);
/* Leaves the others, after all that was sent has arrived. NULL is fine. */
void mp_communicator_close(mp_communicator *world);
MP_OWNER(mp_communicator_close, mp_communicator)

/* Joins the devices of the ranks, each of which has a backend opened on one, so that trainings there can exchange what they
 * have; nothing is to do for a backend in the program's memory. All ranks call it, before the first training. MP_UNSUPPORTED:
 * this build has no module for it, or the machine lacks its library. MP_IO: they cannot be joined. */
mp_status mp_communicator_join_devices(mp_communicator *world, const mp_backend *backend, mp_error *err);

int mp_communicator_rank(const mp_communicator *world); /* 0 .. size - 1 */
int mp_communicator_size(const mp_communicator *world);
int mp_communicator_number_here(const mp_communicator *world);  /* of this rank among those on its machine, 0 ... */
const char *mp_communicator_name(const mp_communicator *world); /* "Open MPI 4.1.4"; of joined devices "NCCL 2.28.9" */

/* Something that has to be the same on all ranks, as bytes. */
typedef struct mp_fact {
    const char *name; /* "graph" */
    const void *bytes;
    size_t n_bytes;
} mp_fact;

/* Compares facts, which all ranks give in the same order. MP_INVALID: a rank has another value; the sentence names it, and the
 * first fact that differs from what rank 0 has. MP_IO: a rank has ended or gave no answer within `timeout` seconds, and which.
 */
mp_status mp_communicator_agree(mp_communicator *world, const mp_fact *facts, size_t n, double timeout, mp_error *err);
