/* frontier.c - keeps the Pareto frontier of schedules, sorted by peak: finds points by binary search, inserts points, and
 * removes dominated points. */
#include "planner/studies/frontier.h"

#include "estimator/base/memory.h"

#include <string.h>

/* Returns the number of schedules on the frontier with a peak of at most `bytes` bytes. */
static size_t count_within(const mp_frontier *f, int64_t bytes)
{
    size_t low = 0, high = f->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (f->points[middle].peak_bytes <= bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const mp_frontier_point *mp_frontier_within(const mp_frontier *f, int64_t budget_bytes)
{
    const size_t n = count_within(f, budget_bytes);
    return n ? &f->points[n - 1] : NULL;
}

mp_status mp_frontier_add(mp_frontier *f, const mp_step *steps, size_t n_steps, int64_t peak_bytes, int64_t ticks,
                          mp_error *err)
{
    const size_t at = count_within(f, peak_bytes - 1);
    size_t beaten = 0;
    if (at && f->points[at - 1].ticks <= ticks) return MP_OK;
    if (at < f->n && f->points[at].peak_bytes == peak_bytes && f->points[at].ticks <= ticks) return MP_OK;
    MP_OWNED mp_step *copy = mp_alloc(n_steps, sizeof *copy);
    MP_ENSURE(copy && mp_grow(&f->points, &f->capacity, f->n + 1, sizeof *f->points), err, MP_NOMEM,
              "out of memory for a schedule of %zu steps", n_steps);
    memcpy(copy, steps, n_steps * sizeof *copy);
    while (at + beaten < f->n && f->points[at + beaten].ticks >= ticks) mp_free(f->points[at + beaten++].steps);
    memmove(f->points + at + 1, f->points + at + beaten, (f->n - at - beaten) * sizeof *f->points);
    f->points[at] = (mp_frontier_point){peak_bytes, ticks, copy, n_steps};
    copy = NULL;
    f->n += 1 - beaten;
    return MP_OK;
}

void mp_frontier_free(mp_frontier *f)
{
    for (size_t k = 0; k < f->n; k++) mp_free(f->points[k].steps);
    mp_free(f->points);
    *f = (mp_frontier){0};
}
