/* rank_report.h - what each rank of a training has measured, as rank 0 and all others know it at the end. */
#pragma once

#include "memplan/ranks/network.h"

/* Collectives of one kind, over all steps: how many, what this rank sent, and how long they were under way, added up. */
typedef struct mp_sent {
    int64_t n, bytes;
    double seconds;
} mp_sent;

typedef struct mp_rank_report {
    char machine[64];
    int64_t process;
    int64_t planned_peak_bytes, measured_peak_bytes; /* static memory and the arena: as planned, and as far as it was written */
    int64_t process_bytes;                           /* -1: not known */
    int64_t sent_bytes, planned_sent_bytes;          /* in all steps */
    int64_t set_aside_bytes; /* of a pipeline: copied out of the arena for other micro-batches and back, in all steps */
    char weights_hash[40];   /* of what this rank has, at the end */
    mp_sent sent[MP_N_COLLECTIVES];
    mp_sent sent_by_operators; /* that are split over ranks, while they run */
    double step_seconds;       /* as mp_report has it */
    /* Of a step, means: while something was under way to other ranks, and of that while nothing else was done. An end shows
     * when the training looks, between two operators, so the first is an upper bound. */
    double network_seconds, wait_seconds;
} mp_rank_report;
