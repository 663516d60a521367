/* planning.h - internal to planner/interface: the fields of the planning handle, and the starts of its functions. */
#pragma once

#include "memplan/planning.h"
#include "memplan/solver.h"
#include "planner/arena/host_slab.h"

enum { MP_PLANNING_MOST_NAME = 32, MP_PLANNING_HOST = 1 };

struct mp_planning {
    mp_error err;
    mp_graph *graph;
    bool is_finished;
    int64_t keep_all_bytes, keep_all_ticks, static_bytes;
    int64_t floor_bytes; /* floor in bytes; -1: not computed yet */
    int floor_node;
    mp_request request;
    char solver[MP_PLANNING_MOST_NAME]; /* buffer for the name to which request.solver points */
    int64_t slab_bytes;                 /* limit of host memory: slab and optimizer state; 0: none */
    int turn;                           /* the node with the flag "turn"; -1: none */
    mp_planning_call progress;
    void *progress_data;
    mp_answer answer;
    bool has_answer;
    mp_host_slab slab; /* of answer.plan; zeroed: none */
};

/* Starts a function of the interface: clears the handle's error, and fails if a text argument is NULL. */
mp_status mp_planning_begin(mp_planning *planning, bool has_texts);

/* Starts a function that changes the graph. Fails if the graph has been finished. */
mp_status mp_planning_begin_change(mp_planning *planning, bool has_texts);

/* Starts a function that requires a finished graph. */
mp_status mp_planning_begin_search(mp_planning *planning);
