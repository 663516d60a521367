/* progress.c - the line of progress, and Ctrl-C. */
#include "cli/reports/progress.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/messages/quantities.h"

static volatile sig_atomic_t interrupted;
static struct sigaction before;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

void progress_start(progress *p, int64_t floor_bytes)
{
    /* SA_RESETHAND: the second Ctrl-C finds the system's own way, and kills */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    *p = (progress){.floor_bytes = floor_bytes, .shown_at = -1, .terminal = isatty(STDERR_FILENO)};
    interrupted = 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before);
}

bool progress_show(const mp_progress *now, void *data)
{
    progress *p = data;
    char extra[QUANTITY_MAX] = "none yet", peak[QUANTITY_MAX] = "none yet", floor[QUANTITY_MAX];
    if (interrupted) return false;
    if (now->elapsed_seconds < p->shown_at) p->shown_at = -1; /* another search */
    if (!p->terminal || now->elapsed_seconds < p->shown_at + 0.1) return true;
    p->shown_at = now->elapsed_seconds;
    p->any = true;
    if (now->best_ticks >= 0) extra_text((double)now->best_ticks, (double)now->baseline_ticks, extra);
    if (now->smallest_peak_bytes >= 0) bytes_short(now->smallest_peak_bytes, peak);
    fprintf(stderr, "\r\033[K%s%s  %.1f s  %lld tried  extra time %s", p->what, now->solver, now->elapsed_seconds,
            (long long)now->n_offers, extra);
    if (now->bound_ticks > 0) {
        extra_text((double)now->bound_ticks, (double)now->baseline_ticks, extra);
        fprintf(stderr, " (at least %s)", extra);
    }
    if (now->moves_per_second > 0) fprintf(stderr, "  %.0f moves/s", now->moves_per_second);
    fprintf(stderr, "  smallest %s", peak);
    if (p->floor_bytes > 0) fprintf(stderr, " (floor %s)", bytes_short(p->floor_bytes, floor));
    fflush(stderr);
    return true;
}

bool progress_next(progress *p, const char *what)
{
    snprintf(p->what, sizeof p->what, "%s: ", what);
    if (p->terminal && !interrupted) {
        p->any = true;
        fprintf(stderr, "\r\033[K%s", what);
        fflush(stderr);
    }
    return !interrupted;
}

void progress_end(progress *p)
{
    sigaction(SIGINT, &before, NULL);
    if (p->any) fputs("\r\033[K", stderr);
}
