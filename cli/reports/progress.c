/* progress.c - the line of progress: how long, how good, how good at best; with -v what the searchers count. */
#include "cli/reports/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/quantities.h"
#include "cli/messages/terminal.h"
#include "estimator/base/clock.h"

enum { LINE_MAX_BYTES = 512, MOST_SECONDS = 2 }; /* ... in which a search that has no plan yet heeds a signal */

typedef struct line {
    char text[LINE_MAX_BYTES];
    size_t n;
} line;

static void add(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(line *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, format, args);
    va_end(args);
    if (n > 0) l->n += (size_t)n;
    if (l->n >= sizeof l->text) l->n = sizeof l->text - 1;
}

double progress_time_left(const search_options *o)
{
    const double LEAST = 0.1, left = o->time_limit - (mp_clock_now() - o->begun);
    return left > LEAST * o->time_limit ? left : LEAST * o->time_limit;
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
                    .verbose = o->talk.verbose};
    interrupt_catch(o->command != CMD_TRAIN, !p->shows);
    if (o->command != CMD_TRAIN) interrupt_force("memplan: stopped before a plan was found\n", MOST_SECONDS);
}

/* "searching  12 s  best +5.7 %, at least +5.6 %  (Ctrl-C keeps the best)" */
static void add_extra(line *l, const progress *p, int64_t baseline_ticks)
{
    if (p->best_ticks < 0)
        add(l, "  no plan yet");
    else
        add(l, "  best %s", extra_text((double)p->best_ticks, (double)baseline_ticks));
    if (p->bound_ticks > baseline_ticks) add(l, ", at least %s", extra_text((double)p->bound_ticks, (double)baseline_ticks));
    add(l, p->best_ticks < 0 ? "  (Ctrl-C stops)" : "  (Ctrl-C keeps the best)");
}

/* "searching for the smallest budget  12 s  18.90 GiB so far  (Ctrl-C keeps it)" */
static void add_smallest(line *l, const mp_progress *now)
{
    if (now->smallest_peak_bytes >= 0) add(l, "  %s so far", mp_bytes_text(now->smallest_peak_bytes));
    add(l, "  (Ctrl-C keeps it)");
}

static void add_details(line *l, const progress *p, const mp_progress *now)
{
    add(l, "  %s %lld tried", now->solver, (long long)now->n_offers);
    if (now->moves_per_second > 0) add(l, "  %.0f moves/s", now->moves_per_second);
    if (now->smallest_peak_bytes >= 0) add(l, "  smallest %s", mp_bytes_text(now->smallest_peak_bytes));
    if (p->floor_bytes > 0) add(l, "  floor %s", mp_bytes_text(p->floor_bytes));
}

bool progress_show(const mp_progress *now, void *data)
{
    progress *p = data;
    line l = {.n = 0};
    if (interrupt_asked() || now->best_ticks >= 0) interrupt_force(NULL, 0);
    if (interrupt_asked()) return false;
    const double t = mp_clock_now() - p->start;
    if (!p->shows || t < p->shown_at + 0.1) return true;
    p->shown_at = t;
    p->any = true;
    if (now->best_ticks >= 0) p->best_ticks = now->best_ticks;
    if (now->bound_ticks > p->bound_ticks) p->bound_ticks = now->bound_ticks;
    const bool no_plan = p->budget_bytes < p->floor_bytes;
    add(&l, "%s%s  %.0f s", p->what, no_plan ? "searching for the smallest budget" : "searching", t);
    if (no_plan)
        add_smallest(&l, now);
    else
        add_extra(&l, p, now->baseline_ticks);
    if (p->verbose) add_details(&l, p, now);
    if (!interrupt_asked()) terminal_line(STDERR_FILENO, l.text);
    return true;
}

bool progress_next(progress *p, const char *what)
{
    const double t = mp_clock_now() - p->start;
    snprintf(p->what, sizeof p->what, "%s: ", what);
    p->best_ticks = p->bound_ticks = -1;
    if (interrupt_asked()) interrupt_force(NULL, 0);
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
