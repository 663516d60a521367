/* link.h - measures the copies between two memories, and fits rates and latency to the measurements. */
#pragma once

#include "executor/kernel/backend.h"
#include "executor/tiers/copy_queue.h"
#include "memplan/target.h"

/* ---- link_speed.c ---- */

/* Measures the speed of copies to a tier and back on this machine, alone and beside computation. The measurement copies as a
 * plan does: on the CPU by a thread that copies in pieces, on a GPU by streams and pinned memory. */

enum {
    MP_LINK_SIZES = 6,
    MP_LINK_REPEATS = 5,
    MP_LINK_LEAST = 64 << 10, /* bytes of the smallest measured copy; each next size is four times larger */
    MP_LINK_AT_BESIDE = 3,    /* index in sizes[] of the size of copies that run beside computation */
    MP_LINK_BESIDE = MP_LINK_LEAST << 2 * MP_LINK_AT_BESIDE
};

/* Seconds of one copy of `bytes` bytes in each direction, the median of MP_LINK_REPEATS. */
typedef struct mp_link_size {
    int64_t bytes;
    double out_seconds, in_seconds;
} mp_link_size;

/* Slowdown of computation and of copies if both run at once: seconds divided by the seconds alone. 1.2 is a fifth slower. */
typedef struct mp_link_beside {
    double compute, copy;
} mp_link_beside;

typedef struct mp_link_speed {
    mp_link_size sizes[MP_LINK_SIZES]; /* measurements by size, from 64 KiB to 64 MiB */
    /* seconds for a copy out and a copy back of the largest size that run at the same time */
    double both_seconds;
    mp_link_beside arithmetic, memory; /* arithmetic: copies beside computation on data in caches; memory: copies beside
                                          computation on vectors in memory */
} mp_link_speed;

/* The measured operations. `copy` returns the seconds of one copy, or with `both` of one copy in each direction at once.
 * `beside` runs computation and copies at once; copy_seconds is the time of one copy alone. */
typedef struct mp_link_probe {
    void *link;
    mp_status (*copy)(void *link, int64_t bytes, bool is_out, bool both, double *seconds, mp_error *err);
    mp_status (*beside)(void *link, bool in_memory, double copy_seconds, mp_link_beside *out, mp_error *err);
} mp_link_probe;

/* Runs all measurements of a link and fills *out. */
mp_status mp_link_probe_all(const mp_link_probe *probe, mp_link_speed *out, mp_error *err);

/* Returns a link, without names, whose latency + bytes / rate fits the measured seconds (least squares of relative errors). Its
 * latency is the mean of both directions. The link is shared if simultaneous copies in both directions save less than half of
 * the possible time. */
mp_link mp_link_fit(const mp_link_speed *speed);

/* ---- link_of_device.c: measures the speed of copies between a device and pinned host memory ---- */

/* Measures copies of an open device. The backend must have side streams and pinned memory, and nothing else may run on the
 * device. MP_NOMEM: 384 MiB of device memory or 128 MiB of pinned memory are not available. MP_IO: the device has failed. */
mp_status mp_link_measure_device(const mp_backend *backend, mp_link_speed *out, mp_error *err);

/* ---- link_of_host.c ---- */

/* Measures the speed of copies between host memory and a memory tier on this machine: other host memory, or a file. */

/* Measures copies between host memory and a tier: a file in `folder`, or, if folder is NULL, host memory. About 2 GB are moved.
 * The tier is removed afterwards. Errors: as mp_tier_open and mp_copy_queue_wait. */
mp_status mp_link_measure_host(const char *folder, const mp_copy_queue_options *options, mp_link_speed *out, mp_error *err);
