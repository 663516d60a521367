/* dnn_plan.h - the state of a cuDNN execution plan, from the operation graph to the selected engine. Used by dnn_graph.c,
 * dnn_describe.c and dnn_plan.c only. */
#pragma once

#include "executor/cuda/device/device.h"
#include "executor/cuda/vendor/dnn_graph.h"
#include "memplan/memory.h"

MP_HANDLE_OWNER(cudnnBackendDestroyDescriptor, cudnnBackendDescriptor_t)

struct mp_dnn_plan {
    mp_dnn_graph graph;
    mp_cuda_settings settings;         /* the settings of the arithmetic when the plan was created */
    char algorithm[MP_ALGORITHM_NAME]; /* name of the requested engine configuration; "": the first permitted one is used */
    /* cuDNN descriptors in the order of creation: all tensors; for each operation its parameters, then the operation; the
     * graph. */
    cudnnBackendDescriptor_t made[MP_DNN_TENSORS + 2 * MP_DNN_OPERATIONS + 1];
    int n_made;
    cudnnBackendDescriptor_t config, plan; /* the selected engine configuration, and cuDNN's execution plan for it */
    int64_t workspace_bytes, engine_index;
    bool lacks_driver; /* true: the heuristics know the graph, but returned no engine because there is no driver */
    bool is_assumed;   /* true: no engine was selected but one is assumed, so config and plan are NULL */
    uint32_t notes;    /* bit set of the engine's numerical notes: bit k stands for cuDNN's note k */
    mp_error why;      /* if the code of this error is MP_UNSUPPORTED: the reason why planning was refused */
};

/* Selects an engine for p->graph under p->settings (and p->algorithm), and fills all other members. The caller closes the
 * plan, even after a failure. */
mp_status mp_dnn_plan_open(mp_dnn_plan *p, mp_error *err);
/* Lists the permitted engine configurations in the heuristics' order, without opening an execution plan. The caller must still
 * call mp_dnn_plan_close. */
mp_status mp_dnn_plan_list(mp_dnn_plan *p, mp_algorithms *out, mp_error *err);
void mp_dnn_plan_close(mp_dnn_plan *p);
