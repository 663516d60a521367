/* peers.c - checks the processes of other ranks on this machine, through /proc. */
#include "executor/ranks/peers.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "estimator/base/clock.h"

#define LOOK_SECONDS 0.05 /* seconds between two checks of the other ranks' processes */
#define AWAKE_SECONDS \
    1e-3 /* a wait that may sleep begins so many seconds after the last progress; messages of the network arrive earlier */
#define SLEEP_NANOSECONDS 100000

/* The state of a process. A GONE process has ended, even if its parent has not collected its status yet. */
typedef enum state { STATE_RUNS, STATE_STOPPED, STATE_GONE } state;

mp_peer mp_peer_self(void)
{
    mp_peer self = {.program = "memplan " MEMPLAN_VERSION, .process = getpid()};
    if (gethostname(self.host, sizeof self.host)) self.host[0] = 0;
    self.host[sizeof self.host - 1] = 0;
    const ssize_t space =
        readlink("/proc/self/ns/pid", self.machine, 60); /* process numbers are valid only within a PID namespace (a container),
                                                            so the namespace is part of the machine's identity */
    const size_t at = space > 0 ? (size_t)space : 0;
    if (gethostname(self.machine + at, 60)) self.machine[at] = 0;
    self.machine[at + 60] = 0;
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (boot) {
        const size_t n = strlen(self.machine);
        self.machine[n + fread(self.machine + n, 1, 60, boot)] = 0;
        fclose(boot);
    }
    return self;
}

/* True if a text ends within `size` bytes and has only printable ASCII characters. */
static bool is_name(const char *text, size_t size)
{
    const char *end = memchr(text, 0, size);
    for (const char *c = text; end && c < end; c++)
        if (*c < ' ' || *c > '~') return false;
    return end;
}

mp_status mp_peers_check(const mp_peers *peers, int n, mp_error *err)
{
    const char *own = peers->list[peers->rank].program;
    for (int r = 0; r < n; r++) {
        const mp_peer *p = &peers->list[r];
        const bool is_known = is_name(p->program, sizeof p->program) && !strncmp(p->program, "memplan ", 8);
        MP_ENSURE(is_known, err, MP_INVALID, "rank %d of %d does not run %s: its first message has another format", r, n, own);
        MP_ENSURE(!strcmp(p->program, own), err, MP_INVALID, "rank %d of %d runs %s, but rank %d runs %s", r, n, p->program,
                  peers->rank, own);
        MP_ENSURE(p->process > 0 && memchr(p->machine, 0, sizeof p->machine) && is_name(p->host, sizeof p->host), err,
                  MP_INVALID, "rank %d of %d has not sent its process and machine", r, n);
    }
    return MP_OK;
}

static state state_of(int64_t process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
    FILE *file = fopen(path, "r");
    /* the file is missing if the process has ended. If no file of /proc is readable, the process may still run */
    if (!file) return access("/proc/self/stat", R_OK) ? STATE_RUNS : STATE_GONE;
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    const char *name_end = strrchr(text, ')'); /* searches from the end, because a program's name may contain ')' */
    const char is = name_end && name_end[1] ? name_end[2] : 'R';
    return is == 'Z' || is == 'X' ? STATE_GONE : is == 'T' || is == 't' ? STATE_STOPPED : STATE_RUNS;
}

/* Returns the first other rank on this machine whose process is in state `wanted`; -1: none, or unknown. */
static int first_in(const mp_peers *peers, state wanted)
{
    for (int r = 0; peers && r < peers->n; r++)
        if (r != peers->rank && !strcmp(peers->list[r].machine, peers->list[peers->rank].machine) &&
            state_of(peers->list[r].process) == wanted)
            return r;
    return -1;
}

static volatile sig_atomic_t called_off, hushed;

void mp_peers_call_off(void)
{
    called_off = true;
}

void mp_peers_hush(void)
{
    hushed = true;
}

/* True if a rank runs on another machine; with rank -1, true if any rank does. */
static bool is_elsewhere(const mp_peers *peers, int rank)
{
    bool any = !peers;
    for (int r = 0; peers && r < peers->n; r++)
        any |= (rank < 0 || r == rank) && strcmp(peers->list[r].machine, peers->list[peers->rank].machine) != 0;
    return any;
}

void mp_peers_signal(const mp_peers *peers, int64_t sender, int signal)
{
    for (int r = 0; peers && r < peers->n; r++)
        if (!is_elsewhere(peers, r) && peers->list[r].process == sender) return;
    for (int r = 0; peers && r < peers->n; r++)
        if (r != peers->rank && !is_elsewhere(peers, r)) kill((pid_t)peers->list[r].process, signal);
}

static const char *host_of(const mp_peers *peers, int rank)
{
    return peers && rank < peers->n && peers->list[rank].host[0] ? peers->list[rank].host : "an unknown machine";
}

mp_patience mp_patience_begin(const mp_communicator *world, double timeout)
{
    const double now = mp_clock_now();
    return (mp_patience){.world = world, .timeout = timeout, .moved_at = now, .looked_at = now};
}

mp_status mp_patience_go_on(mp_patience *p, bool moved, int missing, const char *what, mp_error *err)
{
    const double now = mp_clock_now();
    if (moved) p->moved_at = now;
    if (moved || now < p->looked_at + LOOK_SECONDS) {
        if (p->may_sleep && now > p->moved_at + AWAKE_SECONDS)
            nanosleep(&(struct timespec){.tv_nsec = SLEEP_NANOSECONDS}, NULL);
        else if (!moved)
            sched_yield();
        return MP_OK;
    }
    p->looked_at = now;
    if (hushed) return MP_OK;
    const mp_peers *peers = p->world->who;
    const int gone = first_in(peers, STATE_GONE), n = p->world->n;
    if (gone >= 0)
        return MP_FAIL(err, MP_IO, "rank %d of %d has ended (process %lld on %s) while other ranks waited for it in %s", gone,
                       n, (long long)peers->list[gone].process, peers->list[gone].host, what);
    const bool is_called_off = called_off && is_elsewhere(peers, missing);
    if (is_called_off && missing >= 0)
        return MP_FAIL(err, MP_IO, "the launcher ended all ranks while this rank waited for rank %d of %d, on %s, in %s",
                       missing, n, host_of(peers, missing), what);
    MP_ENSURE(!is_called_off, err, MP_IO, "the launcher ended all ranks while this rank waited for others in %s", what);
    if (now < p->moved_at + p->timeout) return MP_OK;
    const int stopped = first_in(peers, STATE_STOPPED);
    if (stopped >= 0)
        return MP_FAIL(err, MP_IO,
                       "rank %d of %d has been stopped (process %lld on %s); other ranks waited for it in %s for %g s", stopped,
                       n, (long long)peers->list[stopped].process, peers->list[stopped].host, what, p->timeout);
    if (missing >= 0)
        return MP_FAIL(err, MP_IO, "rank %d of %d, on %s, has not answered in %s for %g s", missing, n, host_of(peers, missing),
                       what, p->timeout);
    return MP_FAIL(err, MP_IO, "a rank has not answered in %s for %g s", what, p->timeout);
}
