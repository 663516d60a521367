/* link_speed.h - how fast copies to a tier and back are here: measured with the thread, the pieces and the file that copies of
 * a plan have, alone and beside computing. */
#pragma once

#include "executor/tiers/copy_queue.h"
#include "memplan/target.h"

enum { MP_LINK_SIZES = 6, MP_LINK_REPEATS = 5 };

/* Seconds of one copy of so many bytes, the median of MP_LINK_REPEATS. */
typedef struct mp_link_size {
    int64_t bytes;
    double out_seconds, in_seconds;
} mp_link_size;

/* What two things that run beside each other take, of what each takes alone: 1.2 is a fifth more. */
typedef struct mp_link_beside {
    double compute, copy;
} mp_link_beside;

typedef struct mp_link_speed {
    mp_link_size sizes[MP_LINK_SIZES]; /* from 64 KiB to 64 MiB */
    double both_seconds;               /* of a copy out and a copy back of the largest size, at once */
    mp_link_beside arithmetic, memory; /* beside all of the CPU's threads at work in their caches; on vectors in memory */
} mp_link_speed;

/* Measures copies between memory of the program and a tier, in `folder` or, if NULL, in memory as well: some 2 GB are moved.
 * The tier is gone afterwards. As mp_tier_open and mp_copy_queue_wait. */
mp_status mp_link_measure(const char *folder, const mp_copy_queue_options *options, mp_link_speed *out, mp_error *err);

/* Returns the link, without names, whose latency + bytes / rate is nearest to the seconds measured, each in proportion to
 * itself (least squares); its latency is the mean of both ways. Its ways take turns if copies at once take more than half of
 * the time that turns would save. */
mp_link mp_link_fit(const mp_link_speed *speed);
