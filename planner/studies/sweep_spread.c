/* sweep_spread.c - builds lists of evenly spread checkpoints of different length, and measures each by the timeline. */
#include "memplan/studies/sweep.h"

#include <string.h>

#include "planner/order/boundaries.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    SPREAD_SIXTEENTHS = 64, /* largest growth of the number of evenly spread checkpoints per list, in 1/16 */
};

typedef struct spread {
    mp_boundaries *boundaries;
    bool *ends;
    size_t n;
    mp_spread_point *points;
} spread;

/* Counts the activations that are kept, because a segment after the one that produces them reads them. */
static size_t count_held(const spread *x)
{
    const mp_boundaries *b = x->boundaries;
    size_t n = 0;
    for (size_t s = 0; s < b->graph->n_storages; s++) {
        if (b->birth[s] < 0 || b->graph->storages[s].kind != MP_KIND_ACTIVATION) continue;
        for (int p = b->birth[s]; p < b->last[s]; p++)
            if (x->ends[p]) {
                n++;
                break;
            }
    }
    return n;
}

/* Inserts a point, so that points are sorted by their number of checkpoints. Of two points with the same number, keeps the one
 * with the lower peak. */
static void insert(spread *x, mp_spread_point point)
{
    size_t at = 0;
    while (at < x->n && x->points[at].n_checkpoints < point.n_checkpoints) at++;
    if (at < x->n && x->points[at].n_checkpoints == point.n_checkpoints) {
        if (point.peak_bytes < x->points[at].peak_bytes && point.n_checkpoints) x->points[at] = point;
        return;
    }
    memmove(&x->points[at + 1], &x->points[at], (x->n - at) * sizeof *x->points);
    x->points[at] = point;
    x->n++;
}

static mp_status judge(spread *x, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    size_t n = 0;
    MP_CHECK(mp_boundaries_schedule(x->boundaries, x->ends, NULL, &steps, &n, err));
    MP_CHECK(mp_timeline_build(x->boundaries->graph, steps, n, &timeline, err));
    insert(x, (mp_spread_point){count_held(x), timeline->peak_bytes, timeline->ticks});
    return MP_OK;
}

/* Divides the possible positions into `count` equal ranges. In each range, a segment ends at the position that the fewest bytes
 * cross; of equal positions at the last. */
static void put_ends(spread *x, int count)
{
    const mp_boundaries *b = x->boundaries;
    const int64_t places = b->n - 1;
    memset(x->ends, 0, (size_t)b->n * sizeof *x->ends);
    for (int64_t i = 0; i < count; i++) {
        const int from = (int)(places * i / count), to = (int)(places * (i + 1) / count);
        int best = from;
        for (int p = from; p < to; p++)
            if (b->crossing_bytes[p] <= b->crossing_bytes[best]) best = p;
        x->ends[best] = true;
    }
}

/* Returns the number of segment ends of the next list: `count` + 1, or more if the lists that are left would otherwise not
 * reach `last`. In this case the number grows by a constant fraction. */
static int next_count(int count, int last, size_t left)
{
    /* growth per list in sixteenths: the smallest with which the lists that are still to be built reach `last` ends */
    int64_t power = 0;
    for (; power < SPREAD_SIXTEENTHS; power++) {
        int64_t reached = count;
        for (size_t k = 0; k < left && reached < last; k++) reached += reached * power / 16 > 1 ? reached * power / 16 : 1;
        if (reached >= last) break;
    }
    const int64_t step = count * power / 16 > 1 ? count * power / 16 : 1;
    return count + step < last ? (int)(count + step) : last;
}

mp_status mp_spread(const mp_graph *graph, size_t most, mp_spread_point **points, size_t *n, mp_error *err)
{
    MP_OWNED_BY(mp_boundaries_free) mp_boundaries *boundaries = NULL;
    MP_ENSURE(most >= 2, err, MP_INVALID, "%zu points", most);
    MP_ENSURE(!graph->has_copies, err, MP_NOT_APPLICABLE,
              "%s copies or exchanges tensors during computation, which the solver segments does not support", graph->name);
    MP_CHECK(mp_boundaries_new(graph, &boundaries, err));
    MP_OWNED bool *ends = mp_alloc((size_t)boundaries->n, sizeof *ends);
    MP_OWNED mp_spread_point *found = mp_alloc(most + 1, sizeof *found);
    spread x = {.boundaries = boundaries, .ends = ends, .points = found};
    const int last = x.boundaries->n - 1; /* the largest number of segment ends in a list: every position but the last */
    MP_ENSURE(ends && found, err, MP_NOMEM, "out of memory for %zu lists of checkpoints", most);
    MP_CHECK(judge(&x, err));
    for (int count = 0; count < last && x.n < most;) {
        count = next_count(count, last, most - x.n);
        put_ends(&x, count);
        MP_CHECK(judge(&x, err));
    }
    *points = found;
    *n = x.n;
    found = NULL;
    return MP_OK;
}
