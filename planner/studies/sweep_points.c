/* sweep_points.c - looks up points of a sweep: the best ones, the ends of the curve, and bounds. */
#include "memplan/studies/sweep.h"

bool mp_sweep_is_cheapest(const mp_sweep *sweep, const mp_sweep_point *point)
{
    for (size_t k = 0; k < sweep->n_curves; k++)
        for (size_t i = 0; i < sweep->curves[k].n; i++) {
            const mp_sweep_point *other = &sweep->curves[k].points[i];
            if (other->feasible && other->budget_bytes <= point->budget_bytes && other->ticks < point->ticks) return false;
        }
    return true;
}

const mp_sweep_bound *mp_sweep_bound_at(const mp_sweep *sweep, int64_t budget_bytes)
{
    for (size_t k = 0; k < sweep->n_bounds; k++)
        if (sweep->bounds[k].budget_bytes == budget_bytes) return &sweep->bounds[k];
    return NULL;
}

static bool is_better(const mp_sweep_point *p, const mp_sweep_point *other)
{
    return p->ticks != other->ticks ? p->ticks < other->ticks : p->peak_bytes < other->peak_bytes;
}

const mp_sweep_point *mp_sweep_best_above(const mp_sweep *sweep, int64_t bytes, const char **solver)
{
    const mp_sweep_point *best = NULL;
    for (size_t k = 0; k < sweep->n_curves; k++)
        for (size_t i = 0; i < sweep->curves[k].n; i++) {
            const mp_sweep_point *p = &sweep->curves[k].points[i];
            if (p->budget_bytes <= bytes || (best && p->budget_bytes > best->budget_bytes)) continue;
            if (best && p->budget_bytes == best->budget_bytes && (!p->feasible || (best->feasible && !is_better(p, best))))
                continue;
            best = p;
            *solver = sweep->curves[k].solver;
        }
    return best;
}

const mp_sweep_point *mp_sweep_least(const mp_sweep *sweep)
{
    const mp_sweep_point *least = NULL;
    for (size_t k = 0; k < sweep->n_curves; k++)
        for (size_t i = 0; i < sweep->curves[k].n; i++) {
            const mp_sweep_point *p = &sweep->curves[k].points[i];
            if (!p->feasible) continue;
            if (!least || p->budget_bytes < least->budget_bytes ||
                (p->budget_bytes == least->budget_bytes && p->ticks < least->ticks))
                least = p;
        }
    return least;
}

bool mp_sweep_is_refuted(const mp_sweep *sweep)
{
    size_t n = 0;
    for (size_t k = 0; k < sweep->n_curves; k++)
        for (size_t i = 0; i < sweep->curves[k].n; i++, n++) {
            const int64_t bytes = sweep->curves[k].points[i].budget_bytes;
            bool is_proved = bytes < sweep->floor_bytes;
            for (size_t b = 0; b < sweep->n_bounds; b++)
                is_proved |= sweep->bounds[b].budget_bytes == bytes && sweep->bounds[b].infeasible;
            if (!is_proved) return false;
        }
    return n > 0;
}
