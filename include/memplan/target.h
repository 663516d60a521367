/* target.h - the target of a training graph: a machine model that returns the time and workspace of each node.
 *
 * The roofline target needs no hardware. It estimates the time of a node as max(FLOPs / peak FLOP/s, bytes moved / bandwidth)
 * plus the launch overhead of the device. A backend (backend.h) is a target that can also execute nodes.
 *
 * A device that is missing from the table:
 *
 *     // given: const mp_model *model; const mp_training_options *options; int loss; mp_graph **graph; mp_error *err
 *     mp_device mine = *mp_device_find("a100");
 *     mine.memory_bytes = INT64_C(40) << 30;
 *     const mp_target target = mp_roofline(&mine);
 *     MP_CHECK(mp_training_graph(model, options, loss, &target, graph, err)); // training.h
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* Input and output of mp_target.cost for one node. Only authors of targets need these structs. */
typedef struct mp_work mp_work;
typedef struct mp_cost mp_cost;

/* The rates from which the roofline target computes seconds: the peaks of the data sheet, or the rates that kernels reach in
 * training runs (rates.def). */
typedef enum mp_rates { MP_RATES_ACHIEVED, MP_RATES_PEAK, MP_N_RATES_KINDS } mp_rates;

/* Returns "peak" or "achieved". */
const char *mp_rates_name(mp_rates rates);
/* Returns the rates with a name; MP_N_RATES_KINDS: none has it. */
mp_rates mp_rates_of(const char *name);

/* One row of devices.def. */
typedef struct mp_device {
    const char *name;
    const char *title; /* "NVIDIA A100 SXM4 80 GB" */
    double fp32_flops; /* peak FLOP/s of float32 matrix products; a multiply-add counts as 2 FLOPs */
    double tf32_flops; /* peak FLOP/s of float32 matrix products whose operands are rounded to TF32 */
    double fp16_flops, bf16_flops;
    double bytes_per_second; /* memory bandwidth of the device */
    double launch_seconds;   /* fixed time to start one node (kernel launch), in seconds */
    int64_t memory_bytes;
    int64_t reserve_bytes; /* memory that the card, its driver, libraries and allocators use, so that a plan cannot use it */
    int64_t cache_bytes;   /* size of the device's last-level cache */
    int64_t alignment;     /* alignment of every memory allocation on the device, in bytes */
    const char *link;      /* name of the link to host memory, a row of links in devices.def; NULL: unknown */
    int multiprocessors;   /* number of multiprocessors of a GPU; 0: the device has no achieved rates */
    double reach;          /* share of the peak of products that large products reach */
    mp_rates rates;        /* peak in the table; mp_workload_device sets it to --rates */
} mp_device;

/* One row of links in devices.def: the connection from a device's memory to another memory. The time of a copy is
 * latency_seconds plus its bytes divided by the rate in its direction. */
typedef struct mp_link {
    const char *name;
    const char *title; /* "PCIe 4, 16 lanes" */
    double out_bytes_per_second,
        in_bytes_per_second; /* rates in bytes/s of copies from the device, and of copies to the device */
    double latency_seconds;
    bool is_shared; /* true: copies out and copies back share the rate and cannot overlap */
} mp_link;

/* Access to the table devices.def: the number of devices, and device k in the order of the file. */
size_t mp_device_count(void);
const mp_device *mp_device_row(size_t k); /* k < mp_device_count() */
/* Finds a device by its name ("RTX 3090"). Case, spaces and dashes do not matter. Returns NULL if no device has this name. */
const mp_device *mp_device_find(const char *name);
/* Finds a device by the card name that the driver reports, such as "NVIDIA GeForce RTX 4090". Returns NULL if no device has
 * this card name. */
const mp_device *mp_device_of_card(const char *card);
/* Returns a copy of the device in which float32 products round their operands to TF32. */
mp_device mp_device_at_tf32(const mp_device *device);

/* Return the number of links in devices.def, link k in the file's order, and the link with a name. Case, spaces and dashes in a
 * name do not matter. NULL: no link has the name. */
size_t mp_link_count(void);
const mp_link *mp_link_row(size_t k); /* k < mp_link_count() */
const mp_link *mp_link_find(const char *name);
/* Parses a link as users write it. Returns false for other texts.
 *
 * - "pcie4": a link of devices.def. "h100", "NVIDIA A100-SXM4-80GB": the link of this device or card to host memory.
 * - "24GB/s": this rate in both directions. Latency and sharing are those of `usual`; NULL: of the first link of devices.def.
 * - "5.1GB/s,4.9GB/s,12us,turns": rates out and in, latency; "turns" if both directions share the rate.
 *
 * Rates are bytes as in budget.h, followed by "/s". O(length + devices). */
bool mp_link_parse(const char *text, const mp_link *usual, mp_link *out);
/* Returns a link that represents two links in series, such as device to host (`near`) and host to disk (`far`). Its rate per
 * direction is the slower rate; its latency is the sum of both latencies. */
mp_link mp_link_beyond(const mp_link *near, const mp_link *far);

typedef struct mp_target mp_target;
struct mp_target {
    const char *name;
    int64_t alignment, memory_bytes;
    bool alternatives; /* true: for some operators the target can run alternatives (graph.h) of a node */
    /* Computes the cost of one node and writes it to *cost. Called once per node, in graph order. MP_UNSUPPORTED: the target
     * cannot run the operator, which the message names. */
    mp_status (*cost)(const mp_target *target, const mp_work *work, mp_cost *cost, mp_error *err);
    void *details;
};

/* Returns the roofline target of a device. The device must outlive the target. The target needs no release. */
mp_target mp_roofline(const mp_device *device);
