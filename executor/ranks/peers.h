/* peers.h - monitors the processes of the other ranks: detects that a process has ended, and limits the time to wait for one.
 */
#pragma once

#include "executor/ranks/communicator.h"

/* The identity of a rank's process, sent to all ranks. */
typedef struct mp_peer {
    char program[24]; /* program name and version, such as "memplan 0.1.0"; compared before the other members */
    int64_t process;
    char machine[184]; /* text that identifies the machine, and the container on this machine */
    char host[64];     /* host name, for messages */
} mp_peer;

typedef struct mp_peers {
    int rank, n;
    mp_peer *list; /* per rank: its process */
} mp_peers;

mp_peer mp_peer_self(void);
/* Checks the identities of n ranks; other programs may send arbitrary bytes. MP_INVALID: a rank runs another version of
 * memplan, or its identity is malformed. */
mp_status mp_peers_check(const mp_peers *peers, int n, mp_error *err);

/* For signal handlers, when the launcher ends all ranks. A rank cannot check whether processes on other machines have ended, so
 * all waits for ranks on other machines fail from now on. The error messages of these waits name the rank. */
void mp_peers_call_off(void);
/* For signal handlers of a process that is about to end: waits no longer fail, so that no misleading error is printed. */
void mp_peers_hush(void);

/* Sends a signal to the other ranks on this machine, unless one of them is the sender. May be called from a signal handler. */
void mp_peers_signal(const mp_peers *peers, int64_t sender, int signal);

/* A wait for other ranks. It continues while there is progress, or until `timeout` seconds have passed without progress.
 * A wait that `may_sleep` leaves the processor to others if it takes longer: outside of steps, ranks wait for a search of rank
 * 0. */
typedef struct mp_patience {
    const mp_communicator *world;
    double timeout, moved_at, looked_at;
    bool may_sleep;
} mp_patience;
mp_patience mp_patience_begin(const mp_communicator *world, double timeout);
/* Called between two tests; `moved` reports progress since the last call. `missing` is a rank whose message is awaited, -1:
 * unknown; `what` names the awaited operation. Yields the processor, or sleeps. MP_IO: rank `missing`, or another rank on this
 * machine, has ended, or the timeout has passed; the message has the rank's number. */
mp_status mp_patience_go_on(mp_patience *patience, bool moved, int missing, const char *what, mp_error *err);
