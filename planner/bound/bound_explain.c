/* bound_explain.c - the deciding interval solved once more, for what its cheapest choice does not keep live. */
#include "planner/bound/bound_explain.h"

#include <stdlib.h>

#include "estimator/base/memory.h"

static mp_bound_value solve(mp_bound_interval *x, int from, int to)
{
    mp_bound_interval_start(x, from);
    mp_bound_interval_end(x, to);
    return mp_bound_interval_solve(x);
}

void mp_bound_decide(mp_bound_interval *x, const int *nodes, int n, bool overlapping, mp_bound *bound)
{
    int64_t most = -1;
    for (int i = 0; i < n; i++) {
        const int to = overlapping || i == n - 1 ? -1 : nodes[i + 1];
        const mp_bound_value value = solve(x, nodes[i], to);
        if (value.infeasible || value.ticks <= most) continue;
        most = value.ticks;
        bound->from = nodes[i];
        bound->to = to;
        bound->multiplier = value.multiplier;
    }
}

static int by_bytes(const void *a, const void *b)
{
    const mp_bound_eviction *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

mp_status mp_bound_explain(mp_bound_interval *x, const mp_bound *bound, mp_bound_report *report, mp_error *err)
{
    const mp_precedence *o = x->order;
    const mp_bound_value value = solve(x, bound->from, bound->to);
    report->evictions = mp_alloc(x->n_required, sizeof *report->evictions);
    MP_ENSURE(report->evictions, err, MP_NOMEM, "no memory to explain a bound of %d nodes", o->n);
    report->n = 0;
    report->ticks = value.ticks;
    report->live_in_bytes = mp_bound_interval_live_in(x);
    report->free_bytes = x->free_bytes;
    for (size_t i = 0; i < x->n_required && value.ticks > 0; i++) {
        const int s = x->required[i], producer = o->graph->producer[s];
        if (!o->recomputable[s] || !x->bytes[s] || x->labels[1].live[s] || !mp_precedes(o, producer, x->at)) continue;
        report->evictions[report->n++] = (mp_bound_eviction){s, x->bytes[s], x->ticks[producer], x->labels[0].live[s]};
    }
    qsort(report->evictions, report->n, sizeof *report->evictions, by_bytes);
    return MP_OK;
}
