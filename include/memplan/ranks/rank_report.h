/* rank_report.h - measurements of one rank of a training. At the end of the training every rank has the reports of all
 * ranks. */
#pragma once

#include "memplan/ranks/network.h"

/* Totals over all steps for the collectives of one kind: their number, the bytes that this rank sent, and the sum of their
 * durations. */
typedef struct mp_sent {
    int64_t n, bytes;
    double seconds;
} mp_sent;

typedef struct mp_rank_report {
    char machine[64];
    int64_t process;
    int64_t planned_peak_bytes,
        measured_peak_bytes; /* bytes of static memory plus arena: as planned, and the part that the training wrote to */
    int64_t process_bytes;   /* peak memory in bytes of the process that runs this rank; -1: unknown */
    int64_t sent_bytes, planned_sent_bytes; /* bytes sent to other ranks in all steps: measured, and according to the plan */
    int64_t set_aside_bytes; /* only for pipelines: bytes that the rank copied out of the arena and back because another
                                micro-batch ran, in all steps */
    char weights_hash[40];   /* hash of this rank's weights at the end of the training */
    mp_sent sent[MP_N_COLLECTIVES];
    mp_sent sent_by_operators; /* data that operators exchange because they are split over ranks */
    double step_seconds;       /* median seconds of a training step, measured as mp_report.step_seconds (train.h) */
    /* Means per training step. network_seconds is the time in which a transfer is in progress. wait_seconds is the part of
     * this time in which the rank does no other work. The training notices the end of a transfer only between two operators,
     * so network_seconds is an upper bound. */
    double network_seconds, wait_seconds;
} mp_rank_report;

/* Combines the measurements of n ranks: bytes are added up, and times are averaged. process_bytes is -1 if it is unknown for a
 * rank. Other members are 0. */
mp_rank_report mp_rank_reports_sum(const mp_rank_report *reports, int n);
/* Returns the fraction of the time of network transfers during which the rank also computed; -1: the rank used no network. */
double mp_rank_report_hidden(const mp_rank_report *report);
