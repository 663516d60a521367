/* link_speed.h - how fast copies to a tier and back are here, alone and beside computing: measured with what copies of a plan
 * have, which is a thread, pieces and a file on the CPU, and streams and pinned memory on a GPU. */
#pragma once

#include "memplan/target.h"

enum {
    MP_LINK_SIZES = 6,
    MP_LINK_REPEATS = 5,
    MP_LINK_LEAST = 64 << 10, /* bytes; each size is four times the one before */
    MP_LINK_AT_BESIDE = 3,    /* index of the size of copies beside computing, */
    MP_LINK_BESIDE = MP_LINK_LEAST << 2 * MP_LINK_AT_BESIDE
};

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
    mp_link_beside arithmetic, memory; /* beside work in caches; on vectors in memory */
} mp_link_speed;

/* What a measurement is made of: the seconds of one copy, or if `both` of one each way at once; and of computing and copies
 * beside each other, where one copy alone takes copy_seconds. */
typedef struct mp_link_probe {
    void *link;
    mp_status (*copy)(void *link, int64_t bytes, bool is_out, bool both, double *seconds, mp_error *err);
    mp_status (*beside)(void *link, bool in_memory, double copy_seconds, mp_link_beside *out, mp_error *err);
} mp_link_probe;

/* Measures all of *out. */
mp_status mp_link_probe_all(const mp_link_probe *probe, mp_link_speed *out, mp_error *err);

/* Returns the link, without names, whose latency + bytes / rate is nearest to the seconds measured, each in proportion to
 * itself (least squares); its latency is the mean of both ways. Its ways take turns if copies at once take more than half of
 * the time that turns would save. */
mp_link mp_link_fit(const mp_link_speed *speed);
