/* oracle_states.h - the states of oracle_exact.c: a table to find each again, and a queue by the ticks of the way to it. */
#pragma once

#include "memplan/timeline.h"

enum { MOST_FLIGHTS = 6 };

/* A step that is issued and not yet waited for. */
struct flight {
    short node, alternative;
    int left; /* ticks */
};

struct state {
    uint64_t ran, live; /* nodes; storages, by their bit */
    int64_t extra;      /* ticks beyond one run of each node that has run, in its fastest alternative */
    int64_t peak;       /* of the way here, without static bytes */
    int parent;
    mp_step step; /* node -1: no step, but a wait */
    bool settled;
    int n_flights;
    struct flight flights[MOST_FLIGHTS]; /* by node */
};

struct oracle_states {
    struct state *states;
    int n, capacity, *table, table_size; /* a hash table of 1 + index, at most half full */
    struct entry {
        int64_t extra;
        int left, state; /* nodes that have not run */
    } * heap;
    int n_heap, heap_capacity;
};

/* Keeps and queues a state unless it was reached in as few ticks. False: there are `most` already. */
bool oracle_states_reach(struct oracle_states *o, struct state s, int n_nodes, int most);
/* Takes the next state out of the queue, which is not empty: the least ticks, then the fewest nodes that have not run. */
int oracle_states_pop(struct oracle_states *o);
void oracle_states_free(struct oracle_states *o);
