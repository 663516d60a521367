/* target.h - what a training graph is built for: a machine model that says how long a node takes and how much workspace
 * it needs.
 *
 * The roofline target needs no hardware: a node takes max(FLOPs / peak, bytes moved / bandwidth) plus the launch
 * overhead of its device's profile. A backend (backend.h) is a target that can also run.
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

/* The question that a target is asked about one node, and its answer: for those who write a target. */
typedef struct mp_work mp_work;
typedef struct mp_cost mp_cost;

/* One row of devices.def. */
typedef struct mp_device {
    const char *name;
    const char *title; /* "NVIDIA A100 SXM4 80 GB" */
    double fp32_flops; /* peak rate of matrix products in float32, multiply-add = 2 */
    double tf32_flops; /* peak rate of products of FLOAT whose factors are rounded to TF32 */
    double fp16_flops, bf16_flops;
    double bytes_per_second; /* memory bandwidth */
    double launch_seconds;   /* fixed cost of one node */
    int64_t memory_bytes;
    int64_t reserve_bytes; /* part of the memory that the card, its driver, libraries and allocators keep */
    int64_t cache_bytes;   /* size of the last-level cache */
    int64_t alignment;     /* of every allocation */
    const char *link;      /* to the host's memory: a row of links; NULL: not known */
} mp_device;

/* One row of links in devices.def: the way from a device's memory to another one. A copy takes latency_seconds, and its bytes
 * at the rate of its way. */
typedef struct mp_link {
    const char *name;
    const char *title;                                /* "PCIe 4, 16 lanes" */
    double out_bytes_per_second, in_bytes_per_second; /* away from the device, back to it */
    double latency_seconds;
    bool is_shared; /* copies out and back take turns */
} mp_link;

/* All rows, in the order of devices.def. */
size_t mp_device_count(void);
const mp_device *mp_device_row(size_t k); /* k < mp_device_count() */
/* Finds a device by its name ("RTX 3090"); case, spaces and dashes do not matter. NULL if there is none. */
const mp_device *mp_device_find(const char *name);
/* Finds a device by the driver's name for a card, "NVIDIA GeForce RTX 4090". NULL if there is none. */
const mp_device *mp_device_of_card(const char *card);
/* Returns the device as it is when products of FLOAT round their factors to TF32. */
mp_device mp_device_at_tf32(const mp_device *device);

/* All links, in the order of devices.def; by name as devices. */
size_t mp_link_count(void);
const mp_link *mp_link_row(size_t k); /* k < mp_link_count() */
const mp_link *mp_link_find(const char *name);
/* Returns the way over `near` and on over `far`: each way at the slower rate of the two, with both latencies. */
mp_link mp_link_beyond(const mp_link *near, const mp_link *far);

typedef struct mp_target mp_target;
struct mp_target {
    const char *name;
    int64_t alignment, memory_bytes;
    bool alternatives; /* it can run alternatives (graph.h) of some operators */
    /* Fills *cost. Called once per node, in the order of the graph. MP_UNSUPPORTED names the operator it cannot run. */
    mp_status (*cost)(const mp_target *target, const mp_work *work, mp_cost *cost, mp_error *err);
    void *details;
};

/* Returns the roofline target of a device, which must outlive it; there is nothing to release. */
mp_target mp_roofline(const mp_device *device);
