/* ranking.c - ranks meshes by time. Meshes of about equal time are ranked by simplicity. */
#include "planner/parallel/ranking.h"

#include <string.h>

/* Returns a number for the complexity of a mesh for the user's training program. Data parallelism is simplest, and a pipeline
 * is most complex. Of meshes with the same directions, the one with fewer ranks in tp and pp is simpler. */
static int64_t complexity(const mp_mesh_choice *c)
{
    const int64_t *size = c->mesh.size;
    const int64_t axes = (size[MP_DIM_DP] > 1) + (size[MP_DIM_SHARD] > 1) + (size[MP_DIM_SHARD] > 1 && c->mesh.zero < 3) +
                         2 * (size[MP_DIM_TP] > 1) + c->mesh.data + 2 * (size[MP_DIM_EP] > 1) + 3 * (size[MP_DIM_PP] > 1) +
                         (c->schedule == MP_SCHEDULE_INTERLEAVED || c->schedule == MP_SCHEDULE_ZB_H1);
    return (axes << 32) + size[MP_DIM_TP] * size[MP_DIM_PP];
}

static bool is_listed(const mp_mesh_choice *choices, size_t n, const mp_mesh *mesh)
{
    for (size_t k = 0; k < n; k++)
        if (mp_mesh_is_same(&choices[k].mesh, mesh)) return true;
    return false;
}

/* Returns the choice that is ranked after choices[0..n). The remaining choices ascend in seconds. Meshes without a ranked
 * choice are considered first. Of these, the choice of the simplest mesh that takes at most alike_seconds is returned. If no
 * mesh is that fast, the choice of the fastest mesh is returned. Otherwise the fastest remaining choice is returned. NULL: no
 * simulated choice remains. */
static mp_mesh_choice *next_best(mp_meshes *found, size_t n_candidates, size_t n, double alike_seconds)
{
    mp_mesh_choice *next = NULL, *choices = found->choices;
    for (size_t k = n; k < n_candidates && choices[k].verdict == MP_VERDICT_SLOWER; k++) {
        if (next && choices[k].seconds > alike_seconds) break;
        /* skips a choice if an earlier choice of the list has the same mesh, because that one is faster */
        if (is_listed(choices, k, &choices[k].mesh)) continue;
        if (!next || complexity(&choices[k]) < complexity(next)) next = &choices[k];
    }
    const bool is_simulated = n < n_candidates && choices[n].verdict == MP_VERDICT_SLOWER;
    return next ? next : is_simulated ? &choices[n] : NULL;
}

void mp_meshes_rank(mp_meshes *found, size_t n_candidates, size_t n_best, double alike)
{
    if (n_candidates > found->n) n_candidates = found->n;
    const double alike_seconds = found->n ? (1 + alike) * found->choices->seconds : 0;
    while (found->n_best < n_best && found->n_best < n_candidates) {
        mp_mesh_choice *to = &found->choices[found->n_best];
        mp_mesh_choice *chosen = alike > 0 ? next_best(found, n_candidates, found->n_best, alike_seconds) : to;
        if (!chosen || chosen->verdict != MP_VERDICT_SLOWER) return;
        const mp_mesh_choice best = *chosen;
        memmove(to + 1, to, (size_t)(chosen - to) * sizeof *to);
        *to = best;
        to->verdict = MP_VERDICT_BEST;
        found->n_best++;
    }
}
