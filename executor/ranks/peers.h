/* peers.h - the processes of the other ranks: whether they are still there, and how long to wait for them. */
#pragma once

#include "executor/ranks/communicator.h"

/* What a rank tells the others of itself. */
typedef struct mp_peer {
    char program[24]; /* "memplan 0.1.0", the first that is compared */
    int64_t process;
    char machine[184]; /* what tells machines, and the containers on them, apart */
    char host[64];     /* its name, for messages */
} mp_peer;

typedef struct mp_peers {
    int rank, n;
    mp_peer *list; /* per rank */
} mp_peers;

mp_peer mp_peer_self(void);
/* Checks what n ranks have said of themselves, as another program may have sent as many bytes. MP_INVALID: one runs another
 * version of memplan than this rank, or says nothing that can be understood. */
mp_status mp_peers_check(const mp_peers *peers, int n, mp_error *err);

/* May be called by a signal's handler, of a launcher that ends all. A wait for ranks on other machines fails and names the
 * rank: whether these have ended is not known here. */
void mp_peers_call_off(void);
/* May be called by a signal's handler of a process that is about to end: waits do not fail any more. */
void mp_peers_hush(void);

/* Sends a signal to the other ranks on this machine, unless one of them is its sender. May be called by a signal's handler. */
void mp_peers_signal(const mp_peers *peers, int64_t sender, int signal);

/* Waiting for other ranks, as long as something moves or `timeout` seconds have not passed since. */
typedef struct mp_patience {
    const mp_communicator *world;
    double timeout, moved_at, looked_at;
} mp_patience;
mp_patience mp_patience_begin(const mp_communicator *world, double timeout);
/* Called between two tests, after which something moved or not. `missing` is a rank whose message is awaited, -1: not known;
 * `what` what is waited for. Lets others compute. MP_IO: that rank, or another one on this machine, has ended, or time is up;
 * one sentence with its number. */
mp_status mp_patience_go_on(mp_patience *patience, bool moved, int missing, const char *what, mp_error *err);
