/* signal_order.c - the times of the first SIGINT and of the first SIGTERM. */
#include "cli/messages/signal_order.h"

#include <signal.h>
#include <time.h>

#define DOUBLED_SECONDS 0.2

static volatile sig_atomic_t is_heard[2];
static struct timespec heard_at[2];

signal_order signal_next(int signal)
{
    const int kind = signal == SIGTERM;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!is_heard[kind]) {
        is_heard[kind] = 1;
        heard_at[kind] = now;
        return SIGNAL_FIRST;
    }
    const double seconds = (double)(now.tv_sec - heard_at[kind].tv_sec) + 1e-9 * (double)(now.tv_nsec - heard_at[kind].tv_nsec);
    return seconds <= DOUBLED_SECONDS ? SIGNAL_DOUBLED : SIGNAL_AGAIN;
}

void signals_forget(void)
{
    is_heard[0] = is_heard[1] = 0;
}

void signal_end_process(int signal)
{
    const struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(signal, &by_default, NULL);
    raise(signal); /* blocked until the handler returns */
}
