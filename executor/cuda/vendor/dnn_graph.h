/* dnn_graph.h - operation graphs of cuDNN: described as plain data, planned once, run any number of times. Private to
 * executor/cuda/.
 *
 * A graph is a list of tensors and of operations on them. The plan of a graph is an engine configuration of cuDNN: the first
 * one from the heuristics (mode A, then the fallback mode) that is deterministic, exact enough (mp_cuda_settings) and within
 * the workspace limit. Plans are stored with their backend, including refusals, so equal graphs are planned once.
 *
 * An engine that compiles its kernels during planning takes seconds. Such engines are skipped unless the graph allows them
 * (may_compile). Attention has only such engines; convolutions, with or without bias, also have others.
 *
 * Graphs and plans are created with the handle of the open GPU. Without a GPU, cuDNN plans for the properties of an H200:
 * compute capability 9.0, 132 multiprocessors (dnn_describe.c). Such plans have the engines and workspaces of an H200, and
 * cannot run. cuDNN lists engines that compile kernels only if a driver is installed. If cuDNN reports that only the driver is
 * missing for a graph, a plan is assumed, with the workspace stated in the graph. */
#pragma once

#include <cudnn.h>

#include "executor/kernel/kernel.h"

enum { MP_DNN_RANK = 6, MP_DNN_SPATIAL = 3, MP_DNN_TENSORS = 48, MP_DNN_OPERATIONS = 32, MP_DNN_OPERANDS = 12 };

/* All fields have 8 bytes without padding, because graphs are compared byte by byte. */
typedef struct mp_dnn_tensor {
    int64_t type; /* cudnnDataType_t */
    int64_t rank, dims[MP_DNN_RANK], strides[MP_DNN_RANK];
    int64_t is_virtual;  /* true: an intermediate result between two operations, which has no memory */
    int64_t is_by_value; /* true: a single value in host memory, which is read when the plan runs */
} mp_dnn_tensor;

/* The kind of an operation, with its operands in order. -1 marks an absent operand. */
typedef enum mp_dnn_kind {
    MP_DNN_CONVOLVE,        /* x, w -> y */
    MP_DNN_CONVOLVE_DATA,   /* dy, w -> dx */
    MP_DNN_CONVOLVE_FILTER, /* x, dy -> dw */
    /* x, b, y, dx, dy, t: computes y from x and b, or dx from dy and x; t is the condition of a selection */
    MP_DNN_POINTWISE,
    MP_DNN_MATMUL,  /* a, b -> c */
    MP_DNN_REDUCE,  /* x -> y */
    MP_DNN_RESHAPE, /* x -> y */
    MP_DNN_RANDOM,  /* seed, offset -> y: each element of y is 1 with `probability`, else 0 */
    MP_DNN_N_KINDS
} mp_dnn_kind;

typedef struct mp_dnn_operation {
    int64_t kind;
    int64_t mode; /* cuDNN's pointwise or reduction mode */
    int64_t operands[MP_DNN_OPERANDS];
    int64_t axis;       /* for pointwise GEN_INDEX: the axis along which indices are generated */
    double probability; /* probability that a random element is 1 */
    int64_t n;          /* number of spatial dimensions of a convolution */
    int64_t stride[MP_DNN_SPATIAL], dilation[MP_DNN_SPATIAL], begin[MP_DNN_SPATIAL], end[MP_DNN_SPATIAL];
    int64_t adds; /* true: a convolution adds to its result instead of overwriting it */
} mp_dnn_operation;

typedef struct mp_dnn_graph {
    int64_t n_tensors, n_operations;
    int64_t may_compile; /* true: permits engines that compile their kernels during planning */
    /* with may_compile: workspace in bytes that is assumed for an engine that compiles, if there is no GPU to query */
    int64_t assumed_workspace_bytes;
    mp_dnn_tensor tensors[MP_DNN_TENSORS];
    mp_dnn_operation operations[MP_DNN_OPERATIONS];
} mp_dnn_graph;

/* Add a tensor or an operation, and return its index. A graph starts as {0}. A graph that is too large is refused when it is
 * planned. */
int mp_dnn_tensor_add(mp_dnn_graph *g, cudnnDataType_t type, int rank, const int64_t *dims, const int64_t *strides);
int mp_dnn_operation_add(mp_dnn_graph *g, mp_dnn_kind kind, int64_t mode, const int *operands, int n);
/* Adds a tensor with the layout of an array. If the array has fewer than `rank` dimensions, dimensions of size 1 are inserted
 * after the second one. */
int mp_dnn_array_add(mp_dnn_graph *g, const mp_array *a, int rank);
/* Adds a scale, bias or statistic of n channels: `rank` dimensions, of which the second has size n and the others size 1. */
int mp_dnn_channels_add(mp_dnn_graph *g, cudnnDataType_t type, int rank, int64_t n);
/* Adds one float in host memory, which is passed by value, as a tensor with `rank` dimensions of size 1. */
int mp_dnn_scalar_add(mp_dnn_graph *g, int rank);

/* Returns cuDNN's type for FLOAT, BFLOAT16, INT32, UINT8; FLOAT for other types, which callers have already refused. */
cudnnDataType_t mp_dnn_type(mp_dtype dtype);

typedef struct mp_dnn_plan mp_dnn_plan;

/* Returns the plan of a graph, owned by the backend of the calling thread. MP_UNSUPPORTED: the settings permit none of cuDNN's
 * engines for the graph; MP_NOMEM. */
mp_status mp_dnn_plan_find(const mp_dnn_graph *g, const mp_dnn_plan **out, mp_error *err);
/* Lists the permitted engine configurations, starting with the choice of mp_dnn_plan_find; an engine may occur several times.
 * out->n = 0: no configuration is permitted. MP_NOMEM. */
mp_status mp_dnn_algorithms(const mp_dnn_graph *g, mp_algorithms *out, mp_error *err);
/* Returns the plan with the engine configuration named `algorithm`; NULL: as mp_dnn_plan_find. MP_UNSUPPORTED: cuDNN has no
 * such configuration on this machine. */
mp_status mp_dnn_plan_find_named(const mp_dnn_graph *g, const char *algorithm, const mp_dnn_plan **out, mp_error *err);
int64_t mp_dnn_plan_workspace_bytes(const mp_dnn_plan *plan);
bool mp_dnn_plan_is_assumed(
    const mp_dnn_plan *plan); /* true: cuDNN knows the graph, but returned no engine because there is no driver */
int mp_dnn_plan_engine(const mp_dnn_plan *plan); /* returns cuDNN's number of the selected engine */
bool mp_dnn_plan_notes(const mp_dnn_plan *plan,
                       cudnnBackendNumericalNote_t note); /* true if the selected engine has the numerical note `note` */
/* Enqueues the plan. addresses[k] is the address of tensor k; virtual tensors need none. MP_UNSUPPORTED: there is no GPU. */
mp_status mp_dnn_plan_run(const mp_dnn_plan *plan, void *const *addresses, void *workspace, mp_error *err);
/* Frees all cuDNN execution plans of the calling thread's backend, and the device properties used for them. */
void mp_dnn_forget(void);
size_t mp_dnn_plan_count(void); /* returns the number of plans stored with the thread's backend, including refused graphs */
