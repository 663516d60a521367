/* dnn_plan.h - how a graph becomes descriptors of cuDNN's, and which engine runs it. Shared by dnn_graph.c and dnn_plan.c
 * only. */
#pragma once

#include "executor/cuda/device/device.h"
#include "executor/cuda/vendor/dnn_graph.h"
#include "memplan/memory.h"

MP_HANDLE_OWNER(cudnnBackendDestroyDescriptor, cudnnBackendDescriptor_t)

struct mp_dnn_plan {
    mp_dnn_graph graph;
    mp_cuda_settings settings;         /* that it was made under */
    char algorithm[MP_ALGORITHM_NAME]; /* the configuration that was asked for by name; "": the first that may be taken */
    /* Descriptors, in the order they were made: tensors, per operation its parameters and itself, the graph. */
    cudnnBackendDescriptor_t made[MP_DNN_TENSORS + 2 * MP_DNN_OPERATIONS + 1];
    int n_made;
    cudnnBackendDescriptor_t config, plan; /* the chosen engine configuration and its execution plan */
    int64_t workspace_bytes, engine_index;
    bool lacks_driver; /* the heuristics know the graph, and named no engine for want of a driver */
    bool is_assumed;   /* that it has an engine: config and plan are NULL */
    uint32_t notes;    /* bit k: numerical note k */
    mp_error why;      /* code MP_UNSUPPORTED: there is none, and this is why */
};

/* Fills everything behind `graph`, `settings` and `algorithm`; close it even when this fails. */
mp_status mp_dnn_plan_open(mp_dnn_plan *p, mp_error *err);
/* Instead of that, the configurations that may be taken, in the heuristics' order. Leaves no plan; close it all the same. */
mp_status mp_dnn_plan_list(mp_dnn_plan *p, mp_algorithms *out, mp_error *err);
void mp_dnn_plan_close(mp_dnn_plan *p);
