/* sweep_report.c - prints a trade-off curve. On a terminal it prints the best plan for each budget, otherwise the plans of all
 * searchers. */
#include "cli/reports/sweep_report.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"

/* Returns the first columns of a table row: budget, peak, peak in per cent of keep-all's, and extra time. */
static const char *line_text(const mp_sweep *found, const char *budget, int64_t peak_bytes, int64_t ticks)
{
    return mp_text("  %11s  %11s  %5.1f %%  %9s", budget, mp_bytes_text(peak_bytes),
                   found->keep_all_bytes > 0 ? 100.0 * (double)peak_bytes / (double)found->keep_all_bytes : 100.0,
                   mp_extra_text((double)ticks, (double)found->keep_all_ticks));
}

/* Prints the row of one plan. `name` is the plan's searcher, or "". */
static void print_point(const mp_sweep *found, const mp_sweep_point *p, const char *name, const char *note)
{
    const mp_sweep_bound *bound = mp_sweep_bound_at(found, p->budget_bytes);
    const char *budget = mp_bytes_text(p->budget_bytes);
    if (!p->feasible) {
        screen_row("  %11s  %11s%s", budget, "none found", bound && bound->infeasible ? ", and there is none" : "");
        return;
    }
    const char *line = line_text(found, budget, p->peak_bytes, p->ticks);
    const char *least = bound ? mp_extra_text((double)bound->ticks, (double)found->keep_all_ticks) : "";
    if (bound && p->ticks <= bound->ticks) note = *name ? ", optimal" : "  optimal";
    if (*name)
        screen_row("%s %9s  %s%s", line, least, name, note);
    else
        screen_row("%s %9s  %6zu  %6zu%s", line, least, p->n_checkpoints, p->n_recomputed, note);
}

static void print_curve(const mp_sweep *found, const mp_sweep_curve *c)
{
    print("\n%s, smallest found %s\n", c->solver, mp_bytes_text(c->smallest_bytes));
    for (size_t k = 0; k < c->n; k++)
        print_point(found, &c->points[k], "", mp_sweep_is_cheapest(found, &c->points[k]) ? "  *" : "");
}

/* Prints the best plan of all searchers for each budget. */
static void print_best(const mp_sweep *found)
{
    const char *name;
    for (const mp_sweep_point *p = mp_sweep_best_above(found, -1, &name); p;
         p = mp_sweep_best_above(found, p->budget_bytes, &name))
        print_point(found, p, name, "");
}

/* Prints three lists of evenly spread checkpoints: one with too few checkpoints, the best one, and one with too many. */
static void print_spread(const mp_sweep *found)
{
    size_t best = 0;
    if (found->n_spread < 3) return;
    for (size_t k = 0; k < found->n_spread; k++)
        if (found->spread[k].peak_bytes < found->spread[best].peak_bytes) best = k;
    const size_t rows[] = {1, best, found->n_spread - 1};
    putchar('\n');
    screen_text(2, "More and more checkpoints, evenly spread and recomputed by segments:");
    screen_row("  %11s  %11s  %7s  %9s", "checkpoints", "peak", "", "extra");
    for (size_t k = 0; k < 3; k++) {
        const mp_spread_point *p = &found->spread[rows[k]];
        if (k && rows[k] == rows[k - 1]) continue;
        screen_row("  %11zu  %11s  %5.1f %%  %9s%s", p->n_checkpoints, mp_bytes_text(p->peak_bytes),
                   100.0 * (double)p->peak_bytes / (double)found->keep_all_bytes,
                   mp_extra_text((double)p->ticks, (double)found->keep_all_ticks),
                   rows[k] == best ? "  the smallest peak"
                   : k             ? "  many fill the memory themselves"
                                   : "  few leave long segments to make again");
    }
}

/* Prints the two ends of the curve: the fastest plan within the smallest feasible budget, and keep-all. */
static void print_verdict(const talk_options *o, const mp_workload *s, const mp_sweep *found)
{
    const char *title = s->title, *all = mp_bytes_text(found->keep_all_bytes);
    const mp_sweep_point *least = mp_sweep_least(found);
    if (least)
        screen_verdict(o->color, SCREEN_GOOD, "%s: from %s keeping all to %s at %s time.", title, all,
                       mp_bytes_text(least->peak_bytes), mp_extra_text((double)least->ticks, (double)found->keep_all_ticks));
    else
        screen_verdict(o->color, SCREEN_BAD, "%s: %s keeping all, and no plan was found for the budgets.", title, all);
}

void print_sweep(const talk_options *o, const mp_workload *s, const mp_sweep *found)
{
    const bool shortly = isatty(STDOUT_FILENO) && !o->list && !o->verbose;
    print_verdict(o, s, found);
    if (o->quiet) return;
    putchar('\n');
    if (shortly) {
        screen_text(2, "Peak and extra time by budget, by the cheapest searcher (all of them: --list):");
        screen_row("  %11s  %11s  %7s  %9s %9s  by", "budget", "peak", "", "extra", "at least");
    } else {
        screen_text(2, "Peak and extra time by budget (* nobody was cheaper), tensors kept, steps run again:");
        screen_row("  %11s  %11s  %7s  %9s %9s  %6s  %6s", "budget", "peak", "", "extra", "at least", "kept", "again");
    }
    screen_row("%s  keep all; the floor is %s", line_text(found, "", found->keep_all_bytes, found->keep_all_ticks),
               mp_bytes_text(found->floor_bytes));
    if (shortly)
        print_best(found);
    else
        for (size_t k = 0; k < found->n_curves; k++) print_curve(found, &found->curves[k]);
    if (found->n_bounds && found->bound_orders)
        print("\nAt least: proved for %s.\n",
              found->bound_orders == MP_BOUND_THIS_ORDER ? "every plan in this order" : "every plan in any order");
    if (!shortly) print_spread(found);
    putchar('\n');
    print_verdict(o, s, found);
}
