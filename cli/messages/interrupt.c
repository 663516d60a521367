/* interrupt.c - a flag that the signal handler sets, and the word it says. */
#include "cli/messages/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "cli/messages/terminal.h"

static volatile sig_atomic_t asked, speaks;
static struct sigaction old_int, old_term;
static bool has_term;

static void on_interrupt(int signal)
{
    /* 57 columns with the ^C that the terminal shows: a handler had better not ask for the width */
    static const char heard[] = "\r\033[Kstopping; the best so far is kept (Ctrl-C: at once)";
    const int kept = errno;
    (void)signal;
    asked = 1;
    if (speaks && write(STDERR_FILENO, heard, sizeof heard - 1) < 0) speaks = 0;
    errno = kept;
}

void interrupt_catch(bool term, bool quiet)
{
    /* SA_RESETHAND: the second one finds the system's own way, and kills */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    asked = 0;
    speaks = !quiet && terminal_rewrites(STDERR_FILENO);
    has_term = term;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &old_int);
    if (term) sigaction(SIGTERM, &action, &old_term);
}

void interrupt_release(void)
{
    sigaction(SIGINT, &old_int, NULL);
    if (has_term) sigaction(SIGTERM, &old_term, NULL);
    if (asked && speaks) terminal_clear(STDERR_FILENO);
}

bool interrupt_asked(void)
{
    return asked;
}
