/* target.h - the query to a target about one node, and its result. mp_target itself is in memplan/target.h. */
#pragma once

#include "estimator/model/ops.h"
#include "estimator/training/training.h"
#include "memplan/target.h"

/* A node to be built, as described to the target. */
struct mp_work {
    const mp_model *model;
    const mp_operator *op; /* NULL for updates, and for copies that belong to no operator */
    mp_phase phase;
    double flops;                /* FLOPs of the node's matrix products */
    int64_t moved_bytes;         /* bytes that the node reads and writes in memory */
    mp_dtype dtype;              /* element type in which matrix products are computed */
    const mp_binding *binding;   /* the task of the node and its operands */
    const mp_bindings *bindings; /* bindings of the nodes, tensors and operators built so far */
};

struct mp_cost {
    double seconds;
    int64_t workspace_bytes;
};

/* Returns the seconds of one node on a device, from the device's peak rates. */
double mp_roofline_seconds(const mp_device *device, const mp_work *work);
