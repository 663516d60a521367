/* rank_report.h - measurements of each rank of a training. At the end every rank has the reports of all ranks. */
#pragma once

#include "memplan/ranks/network.h"

/* All collectives of one kind, over all steps: their number, the bytes sent by this rank, and the sum of their durations. */
typedef struct mp_sent {
    int64_t n, bytes;
    double seconds;
} mp_sent;

typedef struct mp_rank_report {
    char machine[64];
    int64_t process;
    int64_t planned_peak_bytes,
        measured_peak_bytes;                /* static memory plus arena: planned, and measured as the part that was written */
    int64_t process_bytes;                  /* peak memory of the rank's process; -1: unknown */
    int64_t sent_bytes, planned_sent_bytes; /* bytes sent to other ranks in all steps: measured, and according to the plan */
    int64_t set_aside_bytes; /* pipelines: bytes copied out of the arena for other micro-batches and back, in all steps */
    char weights_hash[40];   /* hash of this rank's weights at the end */
    mp_sent sent[MP_N_COLLECTIVES];
    mp_sent sent_by_operators; /* communication inside operators that are split over ranks */
    double step_seconds;       /* median seconds of a step, as mp_report.step_seconds (train.h) */
    /* Means per step: network_seconds is the time with a transfer in progress, wait_seconds the part of it without other work.
     * The training notices the end of a transfer only between two operators, so network_seconds is an upper bound. */
    double network_seconds, wait_seconds;
} mp_rank_report;
