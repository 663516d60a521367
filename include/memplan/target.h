/* target.h - what a training graph is built for: a machine that says how long an operator takes and what memory it needs
 * besides.
 *
 * The roofline target needs no hardware: a node takes max(FLOPs / peak, bytes moved / bandwidth) plus the launch overhead of
 * its device's profile. A backend (backend.h) is a target that can also run.
 *
 * A device that is not in the table:
 *
 *     mp_device mine = *mp_device_find("a100");
 *     mine.memory_bytes = INT64_C(40) << 30;
 *     const mp_target target = mp_roofline(&mine);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* What a target is asked about, one node at a time, and what it answers: for those who write one. */
typedef struct mp_work mp_work;
typedef struct mp_cost mp_cost;

/* One row of devices.def. */
typedef struct mp_device {
    const char *name;
    const char *title; /* "NVIDIA A100 SXM4 80 GB" */
    double fp32_flops; /* peak of matrix products per second, multiply-add = 2 */
    double tf32_flops; /* of products of FLOAT whose factors are rounded to TF32 */
    double fp16_flops, bf16_flops;
    double bytes_per_second; /* memory bandwidth */
    double launch_seconds;   /* fixed cost of one node */
    int64_t memory_bytes;
    int64_t reserve_bytes; /* of that memory: what the card keeps back, its driver, libraries and allocators take */
    int64_t cache_bytes;   /* the last level */
    int64_t alignment;     /* of every allocation */
} mp_device;

/* All rows, in the order of devices.def. */
size_t mp_device_count(void);
const mp_device *mp_device_row(size_t k); /* k < mp_device_count() */
/* By its name, in whatever case, spaces and dashes aside ("RTX 3090"); NULL: none. */
const mp_device *mp_device_find(const char *name);
/* By what the driver calls a card, "NVIDIA GeForce RTX 4090"; NULL: none. */
const mp_device *mp_device_of_card(const char *card);
/* The device as it is when products of FLOAT round their factors to TF32. */
mp_device mp_device_at_tf32(const mp_device *device);

typedef struct mp_target mp_target;
struct mp_target {
    const char *name;
    int64_t alignment, memory_bytes;
    bool alternatives; /* it can run alternatives (graph.h) of some operators */
    /* Fills *cost. Called once per node, in the order of the graph. MP_UNSUPPORTED names the operator the target cannot run. */
    mp_status (*cost)(const mp_target *target, const mp_work *work, mp_cost *cost, mp_error *err);
    void *details;
};

/* The roofline target of a device; nothing to release, `device` must outlive it. */
mp_target mp_roofline(const mp_device *device);
