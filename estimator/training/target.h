/* target.h - input (mp_work) and output (mp_cost) of a target for one node. memplan/target.h declares mp_target itself. */
#pragma once

#include "estimator/model/ops.h"
#include "estimator/training/training.h"
#include "memplan/target.h"

/* True if a card name of a driver contains the name of a device: "NVIDIA GeForce RTX 4090" contains rtx4090. */
bool mp_card_has_name(const char *card, const char *device);

/* A node that is being built: input of mp_target.cost. */
struct mp_work {
    const mp_model *model;
    const mp_operator *op; /* the operator; NULL for updates, and for copies that belong to no operator */
    mp_phase phase;
    double flops;        /* FLOPs of the matrix products of the node */
    int64_t moved_bytes; /* bytes that the node reads from memory and writes to memory */
    mp_dtype dtype;      /* element type in which matrix products are computed */
    const char *foreach; /* name of the optimizer if PyTorch's foreach kernels run the update; NULL: one kernel, or no update */
    const mp_binding *binding;   /* states the task and the operands of the node */
    const mp_bindings *bindings; /* bindings of the nodes, tensors and operators that are built already */
};

struct mp_cost {
    double seconds;
    int64_t workspace_bytes;
    mp_collective_record collective; /* n_legs 0: the node exchanges no data */
};

/* Returns the seconds of one node on a device by the roofline model. */
double mp_roofline_seconds(const mp_device *device, const mp_work *work);
/* True if the seconds of the device's nodes are computed from achieved rates. */
bool mp_has_achieved_rates(const mp_device *device);
/* Returns the seconds of one node at the rates of the device: peak or achieved. A CPU has peak rates only. */
double mp_node_seconds(const mp_device *device, const mp_work *work);
