/* communicator.c - connects the ranks through a module such as MPI, and compares values that must be equal on all ranks. */
#include "executor/ranks/communicator.h"

#include <string.h>

#include "executor/kernel/backend.h"
#include "executor/modules/modules.h"
#include "executor/ranks/exchanges.h"
#include "executor/ranks/peers.h"
#include "executor/run/rank_results.h"

enum { JOIN_SECONDS = 60 };

/* Exchanges the identities of the ranks' processes, so that every rank knows all of them. */
static mp_status introduce(mp_communicator *world, mp_error *err)
{
    const mp_peer self = mp_peer_self();
    mp_peers *peers = mp_alloc(1, sizeof *peers);
    MP_ENSURE(peers, err, MP_NOMEM, "out of memory");
    *peers = (mp_peers){.rank = world->rank, .n = 0, .list = mp_alloc((size_t)world->n, sizeof *peers->list)};
    world->who = peers;
    world->open = mp_alloc(2 * (size_t)world->n, sizeof *world->open);
    MP_ENSURE(peers->list && world->open, err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_communicator_exchange(world, &self, sizeof self, peers->list, JOIN_SECONDS, "joining", err));
    MP_CHECK(mp_peers_check(peers, world->n, err));
    peers->n = world->n;
    return MP_OK;
}

mp_status mp_communicator_open(const char *module, mp_communicator **out, mp_error *err)
{
    MP_OWNED_BY(mp_communicator_close) mp_communicator *world = NULL;
    void *symbol;
    mp_module_join *join;
    MP_CHECK(mp_module_symbol(module, "mp_module_communicator", "many ranks", "MPI module", "make MPI=1", &symbol, err));
    /* memcpy converts the symbol, because ISO C cannot convert an object pointer to a function pointer */
    memcpy(&join, &symbol, sizeof join);
    MP_CHECK(join(&world, err));
    const mp_status st = introduce(world, err);
    if (st == MP_NOMEM) return st;
    /* the caller gets the communicator even if an unexpected process has joined: closing the communicator would wait for
     * that process, but the caller can end all processes */
    *out = world;
    world = NULL;
    return st;
}

mp_status mp_communicator_join_devices(mp_communicator *world, const mp_backend *backend, mp_error *err)
{
    void *symbol;
    mp_module_join_devices *join;
    if (backend->is_host || world->devices) return MP_OK;
    MP_CHECK(mp_module_symbol("nccl", "mp_module_devices", "many GPUs", "NCCL module", "make CUDA=1", &symbol, err));
    memcpy(&join, &symbol, sizeof join);
    return join(world, backend, &world->devices, err);
}

void mp_communicator_close(mp_communicator *world)
{
    if (!world) return;
    if (world->devices) world->devices->close(world->devices);
    if (world->who) mp_free(world->who->list);
    mp_free(world->who);
    mp_free(world->open);
    world->close(world);
}

int mp_communicator_rank(const mp_communicator *world)
{
    return world->rank;
}

int mp_communicator_size(const mp_communicator *world)
{
    return world->n;
}

int mp_communicator_number_here(const mp_communicator *world)
{
    int n = 0;
    for (int r = 0; r < world->rank; r++) n += !strcmp(world->who->list[r].machine, world->who->list[world->rank].machine);
    return n;
}

const char *mp_communicator_name(const mp_communicator *world)
{
    return world->devices ? world->devices->name : world->name;
}

mp_status mp_communicator_agree(mp_communicator *world, const mp_fact *facts, size_t n, double timeout, mp_error *err)
{
    return mp_ranks_agree(world, world->n, facts, n, timeout, err);
}
