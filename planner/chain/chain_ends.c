/* chain_ends.c - where the blocks of a chain end.
 *
 * A cut tensor is one storage. Where the state of a network is several (a recurrent cell that hands on a hidden state and a
 * cell state), a block may end at a seam: whatever crosses it was produced after the seam before. What is read from far away,
 * such as the skip connections between an encoder and a decoder, is disregarded there; it is pinned.
 */
#include "planner/chain/chain_ends.h"

#include "planner/math/tuning.h"
#include "planner/order/dag.h"

/* Of the ascending positions, as many as a chain may have blocks: of equal stretches the one where the fewest bytes cross. */
static int choose(const mp_boundaries *boundaries, const int *positions, int n, bool *ends)
{
    const int stretch = (n + MP_CHAIN_BLOCKS - 2) / (MP_CHAIN_BLOCKS - 1);
    int n_ends = 0;
    for (int first = 0; first < n; first += stretch, n_ends++) {
        int best = positions[first];
        for (int i = first + 1; i < first + stretch && i < n; i++)
            if (boundaries->crossing_bytes[positions[i]] <= boundaries->crossing_bytes[best]) best = positions[i];
        ends[best] = true;
    }
    return n_ends;
}

static mp_status find_cuts(const mp_boundaries *boundaries, int *positions, int *n, mp_error *err)
{
    mp_status st = MP_OK;
    size_t n_cuts = 0;
    int *cuts = mp_alloc(boundaries->graph->n_storages, sizeof *cuts);
    if (!cuts) return MP_NO_MEMORY(err);
    MP_TRY(mp_cut_tensors(boundaries->graph, cuts, &n_cuts, err));
    for (size_t i = 0; i < n_cuts; i++)
        if (boundaries->birth[cuts[i]] + 1 < boundaries->n) positions[(*n)++] = boundaries->birth[cuts[i]];
done:
    mp_free(cuts);
    return st;
}

/* oldest[p]: the first position at which something that crosses p was produced; p + 1 if nothing crosses. What is read more
 * than `far` positions on is disregarded. `reach` is work space of one number per position. */
static void find_oldest(const mp_boundaries *b, int far, int *reach, int *oldest)
{
    int filled = 0;
    for (int p = 0; p < b->n; p++) reach[p] = oldest[p] = p + 1;
    for (size_t s = 0; s < b->graph->n_storages; s++)
        if (b->birth[s] >= 0 && b->last[s] - b->birth[s] <= far && b->last[s] > reach[b->birth[s]] - 1)
            reach[b->birth[s]] = b->last[s] + 1;
    for (int birth = 0; birth < b->n; birth++) {
        if (filled < birth) filled = birth;
        for (; filled < reach[birth] - 1; filled++) oldest[filled] = birth;
    }
}

/* From seam to seam: the first position that may be one, or within as many positions again one where fewer bytes cross. */
static mp_status find_seams(const mp_boundaries *boundaries, int far, int *positions, int *n, mp_error *err)
{
    const int last = boundaries->n - 1;
    int *reach = mp_alloc((size_t)boundaries->n, sizeof *reach), *oldest = mp_alloc((size_t)boundaries->n, sizeof *oldest);
    if (!reach || !oldest) {
        mp_free(reach);
        mp_free(oldest);
        return MP_NO_MEMORY(err);
    }
    find_oldest(boundaries, far, reach, oldest);
    for (int seam = -1, next; seam < last; seam = next) {
        next = seam + 1;
        while (next < last && oldest[next] <= seam) next++;
        for (int p = next, end = 2 * next - seam; p < last && p <= end; p++)
            if (oldest[p] > seam && boundaries->crossing_bytes[p] < boundaries->crossing_bytes[next]) next = p;
        if (next < last) positions[(*n)++] = next;
    }
    mp_free(reach);
    mp_free(oldest);
    return MP_OK;
}

mp_status mp_chain_ends(const mp_boundaries *boundaries, mp_chain_cut cut, bool *ends, int *n_ends, mp_error *err)
{
    mp_status st = MP_OK;
    int n = 0, *positions = mp_alloc((size_t)boundaries->n, sizeof *positions);
    if (!positions) return MP_NO_MEMORY(err);
    for (int p = 0; p < boundaries->n; p++) ends[p] = false;
    if (cut == MP_CHAIN_CUTS)
        MP_TRY(find_cuts(boundaries, positions, &n, err));
    else
        MP_TRY(find_seams(boundaries, boundaries->n / MP_CHAIN_SEAM_SHARE, positions, &n, err));
    *n_ends = n ? choose(boundaries, positions, n, ends) : 0;
done:
    mp_free(positions);
    return st;
}
