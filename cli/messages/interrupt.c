/* interrupt.c - the handlers for SIGINT and SIGTERM. They set a flag, print a message, and end a process that does not stop in
 * time. */
#include "cli/messages/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/launcher.h"
#include "cli/messages/messages.h"
#include "cli/messages/rank_interrupt.h"
#include "cli/messages/signal_order.h"
#include "cli/messages/terminal.h"

/* asked: number of the received signal, 0 if none; speaks: the handler prints a message */
static volatile sig_atomic_t asked, speaks;
static const char *volatile last_words; /* message with which the process ends at the deadline; NULL: no deadline */
static volatile unsigned grace;         /* seconds from the signal to the deadline; used if last_words is not NULL */
static struct sigaction old_int, old_term, old_alarm;
static bool has_term, is_silent; /* is_silent: this process is a rank, and another rank prints the message */

static void on_interrupt(int signal)
{
    /* with the ^C of the terminal the message has 57 columns, so that it fits on a terminal of any usual width */
    static const char heard[] = "\r\033[Kstopping; the best so far is kept (Ctrl-C: at once)";
    const int kept = errno;
    switch (signal_next(signal)) {
    case SIGNAL_FIRST:
        asked = signal;
        if (last_words) alarm(grace);
        if (speaks && write(STDERR_FILENO, heard, sizeof heard - 1) < 0) speaks = 0;
        break;
    case SIGNAL_DOUBLED:
        break;
    case SIGNAL_AGAIN:
        signal_end_process(signal);
        break;
    }
    errno = kept;
}

/* Handles the alarm at the deadline: ends the process. Calls only async-signal-safe functions, so no buffers are flushed and no
 * exit functions run. */
static void on_alarm(int signal)
{
    const char *words = last_words;
    (void)signal;
    if (words) _exit(write(STDERR_FILENO, words, strlen(words)) < 0 ? EXIT_NO : interrupt_status());
}

/* Handles a signal while no work runs that could be stopped with a result: ends the process. */
static void on_end(int signal)
{
    static const char words[] = "memplan: stopped before it was done\n";
    if (signal_next(signal) == SIGNAL_DOUBLED) return;
    asked = signal;
    if (is_silent) _exit(interrupt_status());
    _exit(write(STDERR_FILENO, words, sizeof words - 1) < 0 ? EXIT_NO : interrupt_status());
}

void interrupt_begin(void)
{
    const struct sigaction action = {.sa_handler = on_end};
    struct sigaction old;
    const int signals[] = {SIGINT, SIGTERM};
    is_silent = launcher_rank() > 0;
    for (size_t k = 0; k < sizeof signals / sizeof *signals; k++)
        if (sigaction(signals[k], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(signals[k], &action, NULL);
}

void interrupt_catch(bool term, bool quiet)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    const struct sigaction late = {.sa_handler = on_alarm};
    if (rank_interrupt_is_on()) return;
    speaks = !quiet && terminal_rewrites(STDERR_FILENO);
    has_term = term;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &old_int);
    if (!term) return;
    sigaction(SIGALRM, &late, &old_alarm);
    sigaction(SIGTERM, &action, &old_term);
}

void interrupt_release(void)
{
    if (rank_interrupt_is_on()) return;
    sigaction(SIGINT, &old_int, NULL);
    interrupt_force(NULL, 0);
    if (has_term) sigaction(SIGTERM, &old_term, NULL);
    if (has_term) sigaction(SIGALRM, &old_alarm, NULL);
    if (asked && speaks) terminal_clear(STDERR_FILENO);
}

void interrupt_forget(void)
{
    asked = 0;
    signals_forget();
}

bool interrupt_asked(void)
{
    return asked != 0;
}

int interrupt_status(void)
{
    return asked == SIGTERM ? EXIT_TERMINATED : EXIT_INTERRUPTED;
}

void interrupt_force(const char *sentence, unsigned seconds)
{
    if (rank_interrupt_is_on()) return; /* a rank uses alarm itself */
    grace = seconds;
    last_words = sentence;
    alarm(sentence && asked ? seconds : 0);
}
