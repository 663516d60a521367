/* rank_interrupt.c - the signal handlers of a rank, and the messages that it prints before the launcher's SIGKILL. */
#include "cli/messages/rank_interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/messages/launcher.h"
#include "cli/messages/messages.h"
#include "cli/messages/signal_order.h"
#include "executor/ranks/peers.h"

/* The stages of ending a rank after SIGTERM, as fractions of the time from the launcher's SIGTERM to its SIGKILL. In the first
 * of these stages, a rank that waits for a rank on another machine fails, with a message that names the other rank. In the
 * second stage, rank 0 prints the message for all ranks. The other ranks end in the last stage, after rank 0, because rank 0
 * would report them as lost if they ended earlier. */
#define CALL_OFF 0.25
#define SPEAK 0.2
#define OUTLIVE 0.3
#define IN_STEP 0.55

typedef enum stage { STAGE_NONE, STAGE_CALL_OFF, STAGE_SPEAK, STAGE_END, STAGE_IN_STEP, STAGE_LATE } stage;

/* asked: number of the received signal; next: the stage of ending this rank that begins with the next alarm */
static volatile sig_atomic_t asked, next;
static const char *volatile late;
static volatile bool is_on, trains, is_first;
static const mp_peers *peers;
static pid_t launcher;
static double kill_seconds;

/* Sets the alarm for a stage of ending this rank. `share` is the fraction of the time until the launcher's SIGKILL. */
static void set_alarm(stage at, double share)
{
    const double seconds = share * kill_seconds;
    const struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)seconds, .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};
    next = at;
    setitimer(ITIMER_REAL, &timer, NULL); /* setitimer is only a system call, so like alarm it is async-signal-safe */
}

static void say(const char *sentence)
{
    if (is_first && sentence && write(STDERR_FILENO, sentence, strlen(sentence)) < 0) is_first = false;
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    const int kept = errno;
    (void)context;
    const signal_order order = signal_next(signal);
    if (order == SIGNAL_AGAIN) signal_end_process(signal);
    if (order != SIGNAL_FIRST) return;
    asked = signal;
    if (!trains && info->si_pid != launcher) mp_peers_signal(peers, info->si_pid, SIGTERM);
    if (!trains)
        set_alarm(STAGE_CALL_OFF, CALL_OFF);
    else if (signal == SIGTERM && info->si_pid == launcher)
        set_alarm(STAGE_IN_STEP, IN_STEP);
    errno = kept;
}

/* Handles an alarm: starts the next stage of ending this rank. Calls only async-signal-safe functions. */
static void on_alarm(int signal)
{
    const int kept = errno;
    (void)signal;
    switch (next) {
    case STAGE_CALL_OFF:
        mp_peers_call_off();
        set_alarm(STAGE_SPEAK, SPEAK);
        break;
    case STAGE_SPEAK:
        say("memplan: stopped before it was done\n");
        if (is_first) _exit(rank_interrupt_status());
        mp_peers_hush();
        set_alarm(STAGE_END, OUTLIVE);
        break;
    case STAGE_END:
        _exit(rank_interrupt_status());
    case STAGE_IN_STEP:
        mp_peers_call_off();
        set_alarm(STAGE_LATE, SPEAK);
        break;
    case STAGE_LATE:
        say(late);
        if (late) mp_peers_hush();
        break;
    }
    errno = kept;
}

void rank_interrupt_begin(const mp_communicator *world)
{
    const struct sigaction alarmed = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    launcher = launcher_process();
    kill_seconds = launcher_kill_seconds();
    is_first = world->rank == 0;
    peers = world->who;
    is_on = true;
    sigaction(SIGALRM, &alarmed, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool rank_interrupt_is_on(void)
{
    return is_on;
}

void rank_interrupt_late(const char *sentence)
{
    late = sentence;
    trains = true;
}

bool rank_interrupt_asked(void)
{
    return asked != 0;
}

int rank_interrupt_status(void)
{
    return asked == SIGTERM ? EXIT_TERMINATED : EXIT_INTERRUPTED;
}

void rank_interrupt_end(void)
{
    if (!is_on) return;
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    set_alarm(STAGE_NONE, 0);
}
