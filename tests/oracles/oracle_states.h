/* oracle_states.h - the states of oracle_exact.c: a hash table to find equal states, and a queue ordered by ticks. */
#pragma once

#include "memplan/timeline.h"

enum { MOST_FLIGHTS = 6 };

/* A step that is issued and not yet awaited. */
struct flight {
    short node, alternative;
    int left; /* remaining ticks */
};

struct state {
    uint64_t ran, live; /* sets of completed nodes, and of live storages by their bit */
    int64_t extra;      /* ticks in addition to one run of each completed node in its fastest alternative */
    int64_t peak;       /* peak on the path to this state, without static bytes */
    int parent;
    mp_step step; /* node -1: a wait instead of a step */
    bool settled;
    int n_flights;
    struct flight flights[MOST_FLIGHTS]; /* sorted by node */
};

struct oracle_states {
    struct state *states;
    int n, capacity, *table, table_size; /* a hash table of 1 + index, at most half full */
    struct entry {
        int64_t extra;
        int left, state; /* left: number of nodes that have not run */
    } * heap;
    int n_heap, heap_capacity;
};

/* Stores and queues a state unless an equal one was reached in as few ticks. False: there are already `most` states. */
bool oracle_states_reach(struct oracle_states *o, struct state s, int n_nodes, int most);
/* Removes the next state from the non-empty queue: the least ticks, then the fewest nodes that have not run. */
int oracle_states_pop(struct oracle_states *o);
void oracle_states_free(struct oracle_states *o);
