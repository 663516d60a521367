/* states.c - finds the optimizer state of a parameter on the device, in host memory or in a file, and reads it. */
#include "executor/run/states.h"

#include "estimator/graph/liveness.h"
#include "executor/program/program_nodes.h"

void mp_states_init(mp_states *states, bool plain)
{
    *states = (mp_states){.storage = -1, .plain = plain};
}

void mp_states_clear(mp_states *states)
{
    mp_free(states->read);
    mp_states_init(states, states->plain);
}

int mp_states_storage(const mp_program *p, int tensor)
{
    for (size_t k = 0; k < p->n_nodes; k++) {
        const mp_binding *b = mp_program_binding(p, (int)k);
        if (b->task == MP_TASK_UPDATE && b->parameter == tensor && b->state >= 0) return mp_state_home(p->graph, b->state);
    }
    return -1;
}

static bool always(void *data, int64_t moved_bytes)
{
    (void)data, (void)moved_bytes;
    return true;
}

/* Copies the optimizer state of a parameter from its file to the buffer, or back (is_out). */
static mp_status move(const mp_states *states, const mp_addresses *a, int storage, bool is_out, mp_error *err)
{
    const mp_storage *s = &a->program->graph->storages[storage];
    const mp_copy copy = {.tier = &a->tiers[s->tier],
                          .offset = a->fixed_at[storage],
                          .memory = (char *)states->read,
                          .bytes = s->payload_bytes,
                          .is_out = is_out,
                          .label = s->name};
    MP_OWNED_BY(mp_transfer_free) mp_transfer *transfer = mp_transfer_new(states->plain);
    MP_ENSURE(transfer, err, MP_NOMEM, "out of memory");
    return mp_transfer_run(transfer, &copy, always, NULL, err);
}

mp_status mp_states_get(mp_states *states, const mp_addresses *a, int tensor, float **state, mp_error *err)
{
    const int storage = mp_states_storage(a->program, tensor);
    *state = NULL;
    if (storage < 0) return MP_OK;
    const mp_storage *s = &a->program->graph->storages[storage];
    char *block = s->tier == MP_TIER_DEVICE ? a->fixed : a->tiers[s->tier].memory;
    if (block) {
        *state = (float *)(block + a->fixed_at[storage]);
        return MP_OK;
    }
    mp_states_clear(states);
    MP_ENSURE(states->read = mp_alloc((size_t)s->payload_bytes, 1), err, MP_NOMEM, "there is no memory for %s",
              mp_storage_label(a->program->graph, storage).text);
    MP_CHECK(move(states, a, storage, false, err));
    *state = states->read;
    states->storage = storage;
    return MP_OK;
}

mp_status mp_states_keep(mp_states *states, const mp_addresses *a, int tensor, mp_error *err)
{
    const int storage = mp_states_storage(a->program, tensor);
    return storage >= 0 && storage == states->storage ? move(states, a, storage, true, err) : MP_OK;
}
