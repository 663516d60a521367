/* rank_results.c - compares values across ranks by their hashes, and exchanges the losses. */
#include "executor/run/rank_results.h"

#include <string.h>
#include <xxhash.h>

#include "executor/ranks/exchanges.h"

mp_status mp_ranks_agree(mp_communicator *world, int block, const mp_fact *facts, size_t n, double timeout, mp_error *err)
{
    MP_OWNED uint64_t *own = mp_alloc(n, sizeof *own), *all = mp_alloc(n * (size_t)world->n, sizeof *all);
    MP_ENSURE(own && all, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < n; k++) own[k] = XXH64(facts[k].bytes, facts[k].n_bytes, 0);
    MP_CHECK(mp_communicator_exchange(world, own, (int64_t)(n * sizeof *own), all, timeout, "the first comparison", err));
    for (size_t r = 1; r < (size_t)world->n; r++) {
        const size_t first = r - r % (size_t)block;
        for (size_t k = 0; k < n; k++)
            MP_ENSURE(all[r * n + k] == all[first * n + k], err, MP_INVALID, "rank %zu of %d has another %s than rank %zu", r,
                      world->n, facts[k].name, first);
    }
    return MP_OK;
}

double mp_loss_of_sum(const mp_program *p, double sum)
{
    return p->adds_losses || p->loss_parts < 2 ? sum : sum / p->loss_parts;
}

/* Computes one loss from the parts of the tp ranks, which are `stride` elements apart. */
static double loss_of(const mp_program *p, const float *losses, size_t stride)
{
    const int n = p->loss_parts > 1 ? p->loss_parts : 1;
    double all = 0;
    for (int part = 0; part < n; part++) all += (double)losses[(size_t)part * stride];
    return mp_loss_of_sum(p, all);
}

mp_status mp_rank_losses(const mp_addresses *a, mp_communicator *world, double timeout, const float *own, size_t n, float *all,
                         double *sum, mp_error *err)
{
    const mp_rank_position *place = &a->place;
    /* number of the first rank of the last stage; only the last stage computes the loss */
    const int first = (place->n_stages - 1) * place->stage_stride;
    const int64_t bytes = (int64_t)(n * sizeof *own);
    if (world)
        MP_CHECK(mp_communicator_exchange(world, own, bytes, all, timeout, "the loss of a step", err));
    else
        memcpy(all, own, (size_t)bytes);
    *sum = 0;
    for (size_t k = 0; k < n; k++)
        for (int d = 0; d < place->n_data; d++)
            *sum += loss_of(a->program, &all[(size_t)(first + d * place->data_stride) * n + k], n);
    return MP_OK;
}
