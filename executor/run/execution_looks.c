/* execution_looks.c - the queries of an execution: addresses of tensors and state, sizes, times and hashes. */
#include <string.h>

#include "executor/run/execution_state.h"
#include "executor/run/inspection.h"

mp_status mp_execution_tensor(mp_execution *e, int tensor, mp_array *out, mp_error *err)
{
    int storage = e->program->bindings->storage[tensor];
    MP_ENSURE(storage >= 0 && e->at.fixed_at[storage] >= 0, err, MP_INVALID,
              "'%s' is not static, so its memory has no fixed address", e->program->model->tensors[tensor].name);
    MP_CHECK(mp_program_array(e->program, tensor, out, err));
    out->data = e->at.fixed + e->at.fixed_at[storage] + e->program->bindings->offset[tensor];
    return MP_OK;
}

mp_status mp_execution_gradient(mp_execution *e, int tensor, mp_array *out, mp_error *err)
{
    int storage = e->program->bindings->gradient[tensor];
    MP_ENSURE(storage >= 0 && e->at.fixed_at[storage] >= 0, err, MP_INVALID,
              "the gradient of '%s' is not static, so its memory has no fixed address",
              e->program->model->tensors[tensor].name);
    MP_CHECK(mp_program_array(e->program, tensor, out, err));
    out->data = e->at.fixed + e->at.fixed_at[storage];
    return MP_OK;
}

char *mp_execution_part(const mp_execution *e, int tensor, mp_range *own)
{
    return mp_addresses_part(&e->at, tensor, own);
}

bool mp_execution_has_state(const mp_execution *e, int tensor)
{
    return mp_states_storage(e->program, tensor) >= 0;
}

mp_status mp_execution_state(mp_execution *e, int tensor, float **state, mp_error *err)
{
    return mp_states_get(&e->states, &e->at, tensor, state, err);
}

mp_status mp_execution_keep_state(mp_execution *e, int tensor, mp_error *err)
{
    return mp_states_keep(&e->states, &e->at, tensor, err);
}

double mp_execution_input_seconds(const mp_execution *e)
{
    return e->input_seconds;
}

int mp_execution_recordings(const mp_execution *e)
{
    int n = 0;
    for (int k = 0; k < MP_RUN_KINDS; k++) n += e->kinds[k].recording != NULL;
    return n;
}

int64_t mp_execution_arena_bytes(const mp_execution *e)
{
    return e->at.arena_bytes;
}

int64_t mp_execution_tier_bytes(const mp_execution *e, int tier)
{
    return e->at.tiers[tier].bytes;
}

mp_copied mp_execution_copied(const mp_execution *e)
{
    return mp_channels_copied(&e->channels);
}

double mp_execution_wait_seconds(const mp_execution *e)
{
    return e->channels.wait_seconds + e->channels.ranks.wait_seconds + e->channels.ranks.ahead.wait_seconds;
}

int64_t mp_execution_touched_bytes(const mp_execution *e)
{
    const mp_backend *b = e->program->backend;
    int64_t bytes = b->touched(b, e->at.arena, MP_UNUSED_BYTE, e->at.arena_bytes);
    return mp_round_up(bytes, b->alignment, &bytes) ? bytes : e->at.arena_bytes;
}

const double *mp_execution_seconds(const mp_execution *e)
{
    return e->options.profile ? e->seconds : NULL;
}

void mp_execution_forget_seconds(mp_execution *e)
{
    memset(e->seconds, 0, e->program->graph->n_nodes * sizeof *e->seconds);
}

void mp_execution_hash(const mp_execution *e, char hash[33])
{
    mp_addresses_hash(&e->at, 1u << MP_KIND_PARAMETER | 1u << MP_KIND_BUFFER, hash);
}

mp_status mp_execution_compare_ranks(const mp_execution *e, mp_error *err)
{
    return e->options.world ? mp_addresses_compare(&e->at, e->options.world, mp_execution_timeout(e), err) : MP_OK;
}

const mp_rank_channel *mp_execution_ranks(const mp_execution *e)
{
    return &e->channels.ranks;
}

int64_t mp_execution_set_aside_bytes(const mp_execution *e)
{
    return e->turns.slots.copied_bytes;
}

const mp_rank_position *mp_execution_position(const mp_execution *e)
{
    return &e->at.place;
}
