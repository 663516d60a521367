/* progress.c - the progress line: elapsed time, best plan and bound; with -v also counters of the searchers. */
#include "cli/reports/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/messages/terminal.h"
#include "cli/options/options.h"
#include "estimator/base/clock.h"

enum { MOST_SECONDS = 2 }; /* a search without a plan must stop within this number of seconds after a signal */

double progress_time_left(const search_options *o)
{
    const double LEAST = 0.1, left = o->time_limit - (mp_clock_now() - o->begun);
    return left > LEAST * o->time_limit ? left : LEAST * o->time_limit;
}

log_times log_times_start(const options *o)
{
    const double FIRST = 10;
    return (log_times){o->talk.shows_progress && !o->talk.quiet && !terminal_rewrites(STDERR_FILENO), FIRST};
}

bool log_is_due(log_times *times, double seconds)
{
    const double MOST_APART = 600;
    if (!times->is_on || seconds < times->next_at) return false;
    while (times->next_at <= seconds) times->next_at += times->next_at < MOST_APART ? times->next_at : MOST_APART;
    return true;
}

void progress_start(progress *p, const options *o, int64_t floor_bytes, int64_t budget_bytes)
{
    *p = (progress){.floor_bytes = floor_bytes,
                    .budget_bytes = budget_bytes,
                    .start = mp_clock_now(),
                    .shown_at = -1,
                    .best_ticks = -1,
                    .bound_ticks = -1,
                    .shows = o->talk.shows_progress && !o->talk.quiet && terminal_rewrites(STDERR_FILENO),
                    .verbose = o->talk.verbose,
                    .logs = log_times_start(o)};
    interrupt_catch(o->command != CMD_TRAIN, !p->shows);
    if (o->command != CMD_TRAIN) interrupt_force("memplan: stopped before a plan was found\n", MOST_SECONDS);
}

/* Returns the extra time of the best plan, and of the bound, as " best +5.7 %, at least +5.6 %". */
static const char *extra_found(const progress *p, int64_t baseline_ticks)
{
    const double base = (double)baseline_ticks;
    const bool none = p->best_ticks < 0;
    return mp_text("%s%s%s%s", none ? "  no plan yet" : "  best ", none ? "" : mp_extra_text((double)p->best_ticks, base),
                   p->bound_ticks > baseline_ticks ? ", at least " : "",
                   p->bound_ticks > baseline_ticks ? mp_extra_text((double)p->bound_ticks, base) : "");
}

/* Returns the smallest peak that the search has found, as " 18.90 GiB so far". */
static const char *smallest_found(const mp_progress *now)
{
    const int64_t bytes = now->smallest_peak_bytes;
    return bytes >= 0 ? mp_text("  %s so far", mp_bytes_text(bytes)) : "";
}

static const char *details(const progress *p, const mp_progress *now)
{
    const char *text = mp_text("  %s %lld tried", now->solver, (long long)now->n_offers);
    if (now->moves_per_second > 0) text = mp_text("%s  %.0f moves/s", text, now->moves_per_second);
    if (now->smallest_peak_bytes >= 0) text = mp_text("%s  smallest %s", text, mp_bytes_text(now->smallest_peak_bytes));
    return p->floor_bytes > 0 ? mp_text("%s  floor %s", text, mp_bytes_text(p->floor_bytes)) : text;
}

bool progress_show(const mp_progress *now, void *data)
{
    progress *p = data;
    if (interrupt_asked() || now->best_ticks >= 0) interrupt_force(NULL, 0);
    if (interrupt_asked()) return false;
    const double t = mp_clock_now() - p->start;
    const bool is_due = log_is_due(&p->logs, t), is_shown = p->shows && t >= p->shown_at + 0.1;
    if (!is_due && !is_shown) return true;
    if (now->best_ticks >= 0) p->best_ticks = now->best_ticks;
    if (now->bound_ticks > p->bound_ticks) p->bound_ticks = now->bound_ticks;
    const bool no_plan = p->budget_bytes < p->floor_bytes;
    const char *found = no_plan ? smallest_found(now) : extra_found(p, now->baseline_ticks);
    const char *text =
        mp_text("%s%s  %.0f s%s", p->what, no_plan ? "searching for the smallest budget" : "searching", t, found);
    const char *more = p->verbose ? details(p, now) : "";
    if (is_due) complain("progress: %s%s", text, more);
    if (!is_shown) return true;
    p->shown_at = t;
    p->any = true;
    const char *keeps = no_plan ? "keeps it" : p->best_ticks < 0 ? "stops" : "keeps the best";
    if (!interrupt_asked()) terminal_line(STDERR_FILENO, mp_text("%s  (Ctrl-C %s)%s", text, keeps, more));
    return true;
}

bool progress_next(progress *p, const char *what)
{
    const double t = mp_clock_now() - p->start;
    snprintf(p->what, sizeof p->what, "%s: ", what);
    p->best_ticks = p->bound_ticks = -1;
    if (interrupt_asked()) interrupt_force(NULL, 0);
    if (log_is_due(&p->logs, t)) complain("progress: %s  %.0f s", what, t);
    if (p->shows && !interrupt_asked() && t >= p->shown_at + 0.1) {
        p->shown_at = t;
        p->any = true;
        terminal_line(STDERR_FILENO, what);
    }
    return !interrupt_asked();
}

void progress_end(progress *p)
{
    if (p->any) terminal_clear(STDERR_FILENO);
    interrupt_release();
}
