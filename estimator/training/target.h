/* target.h - the question about one node that a target is asked, and its answer; mp_target itself is in memplan/target.h. */
#pragma once

#include "estimator/model/ops.h"
#include "estimator/training/training.h"
#include "memplan/target.h"

/* One node that is about to be built, as a target is asked about it. */
struct mp_work {
    const mp_model *model;
    const mp_operator *op; /* NULL for updates, and for copies that belong to no operator */
    mp_phase phase;
    double flops;                /* of products */
    int64_t moved_bytes;         /* read and written */
    mp_dtype dtype;              /* the type in which products are computed */
    const mp_binding *binding;   /* what the node computes */
    const mp_bindings *bindings; /* of the nodes, tensors and operators so far */
};

struct mp_cost {
    double seconds;
    int64_t workspace_bytes;
};

/* Returns the seconds that a device described by its peak rates takes for one piece of work. */
double mp_roofline_seconds(const mp_device *device, const mp_work *work);
