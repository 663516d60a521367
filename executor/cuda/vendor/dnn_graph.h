/* dnn_graph.h - operation graphs of cuDNN: described as plain data, planned once, run any number of times. Private to
 * executor/cuda/.
 *
 * A graph is a list of tensors and of operations on them. Its plan is an engine configuration of cuDNN's: the first that its
 * heuristics name (mode A, then what it falls back to) which is deterministic, exact enough (mp_cuda_settings) and takes no
 * more workspace than allowed. Plans are kept with their backend, refusals too, so equal graphs are planned once.
 *
 * Engines that compile their kernels when they are planned are passed over where a graph does not ask for them: that takes
 * seconds each. What is left are convolutions, with a bias added or not; attention has no others.
 *
 * Graphs and plans are made with the handle of the open GPU. Where there is none, cuDNN plans from the properties of one: those
 * of an H200, compute capability 9.0, 132 multiprocessors (dnn_describe.c). Engines and workspaces are then those of that GPU;
 * such plans cannot run. Engines that compile want a driver even to be named: for a graph of which cuDNN says that only this is
 * missing, a plan is assumed, with the workspace that the graph states.
 */
#pragma once

#include <cudnn.h>

#include "executor/kernel/kernel.h"

enum { MP_DNN_RANK = 6, MP_DNN_SPATIAL = 3, MP_DNN_TENSORS = 48, MP_DNN_OPERATIONS = 32, MP_DNN_OPERANDS = 12 };

/* All fields have 8 bytes and there is no padding, because graphs are compared byte by byte. */
typedef struct mp_dnn_tensor {
    int64_t type; /* cudnnDataType_t */
    int64_t rank, dims[MP_DNN_RANK], strides[MP_DNN_RANK];
    int64_t is_virtual;  /* true: only between two operations, without memory */
    int64_t is_by_value; /* true: its address is of host memory, read when the plan is run */
} mp_dnn_tensor;

/* The kind of an operation, with its operands in order. -1 marks an absent operand. */
typedef enum mp_dnn_kind {
    MP_DNN_CONVOLVE,        /* x, w -> y */
    MP_DNN_CONVOLVE_DATA,   /* dy, w -> dx */
    MP_DNN_CONVOLVE_FILTER, /* x, dy -> dw */
    MP_DNN_POINTWISE,       /* x, b -> y; the gradient of an activation: dx, dy; t selects */
    MP_DNN_MATMUL,          /* a, b -> c */
    MP_DNN_REDUCE,          /* x -> y */
    MP_DNN_RESHAPE,         /* x -> y */
    MP_DNN_RANDOM,          /* y, seed, offset: each element is 1 with `probability`, else 0 */
    MP_DNN_N_KINDS
} mp_dnn_kind;

typedef struct mp_dnn_operation {
    int64_t kind;
    int64_t mode; /* cuDNN's pointwise or reduction mode */
    int64_t operands[MP_DNN_OPERANDS];
    int64_t axis;       /* pointwise GEN_INDEX: the axis whose index it gives */
    double probability; /* that a random element is 1 */
    int64_t n;          /* spatial dimensions of a window */
    int64_t stride[MP_DNN_SPATIAL], dilation[MP_DNN_SPATIAL], begin[MP_DNN_SPATIAL], end[MP_DNN_SPATIAL];
    int64_t adds; /* true: a convolution accumulates into its result */
} mp_dnn_operation;

typedef struct mp_dnn_graph {
    int64_t n_tensors, n_operations;
    int64_t may_compile;             /* true: engines that compile their kernels when they are planned may be taken */
    int64_t assumed_workspace_bytes; /* with may_compile: workspace of such an engine, used if there is no GPU to ask */
    mp_dnn_tensor tensors[MP_DNN_TENSORS];
    mp_dnn_operation operations[MP_DNN_OPERATIONS];
} mp_dnn_graph;

/* A graph starts as {0}. Both return the index of what they add; a graph that is too large is refused when it is planned. */
int mp_dnn_tensor_add(mp_dnn_graph *g, cudnnDataType_t type, int rank, const int64_t *dims, const int64_t *strides);
int mp_dnn_operation_add(mp_dnn_graph *g, mp_dnn_kind kind, int64_t mode, const int *operands, int n);
/* Adds the tensor of an array; dimensions of size 1 are inserted behind the second until there are at least `rank`. */
int mp_dnn_array_add(mp_dnn_graph *g, const mp_array *a, int rank);
/* Adds a scale, bias or statistic of n channels: n along the second of `rank` dimensions, the others have size 1. */
int mp_dnn_channels_add(mp_dnn_graph *g, cudnnDataType_t type, int rank, int64_t n);
/* Adds one float of host memory, with `rank` dimensions of size 1. */
int mp_dnn_scalar_add(mp_dnn_graph *g, int rank);

/* Returns cuDNN's type for FLOAT, BFLOAT16, INT32, UINT8; FLOAT for others, which callers have refused. */
cudnnDataType_t mp_dnn_type(mp_dtype dtype);

typedef struct mp_dnn_plan mp_dnn_plan;

/* Returns the plan of a graph, owned by the backend of the calling thread. MP_UNSUPPORTED: cuDNN has no engine for it that
 * the settings allow; MP_NOMEM. */
mp_status mp_dnn_plan_find(const mp_dnn_graph *g, const mp_dnn_plan **out, mp_error *err);
/* Lists the engine configurations that the settings permit, the one that mp_dnn_plan_find takes first; an engine may occur
 * several times. n 0: there is none. MP_NOMEM. */
mp_status mp_dnn_algorithms(const mp_dnn_graph *g, mp_algorithms *out, mp_error *err);
/* Returns the plan with the configuration of this name; NULL: as mp_dnn_plan_find. MP_UNSUPPORTED: cuDNN does not list it
 * here. */
mp_status mp_dnn_plan_find_named(const mp_dnn_graph *g, const char *algorithm, const mp_dnn_plan **out, mp_error *err);
int64_t mp_dnn_plan_workspace_bytes(const mp_dnn_plan *plan);
bool mp_dnn_plan_is_assumed(
    const mp_dnn_plan *plan); /* true: cuDNN knows the graph, but named no engine because there is no driver */
int mp_dnn_plan_engine(const mp_dnn_plan *plan); /* returns cuDNN's number of the engine for this graph */
bool mp_dnn_plan_notes(const mp_dnn_plan *plan, cudnnBackendNumericalNote_t note); /* true if the engine has this property */
/* Enqueues the plan. addresses[k] is that of tensor k; virtual tensors need none. MP_UNSUPPORTED: there is no GPU. */
mp_status mp_dnn_plan_run(const mp_dnn_plan *plan, void *const *addresses, void *workspace, mp_error *err);
/* Frees all plans of the calling thread's backend, and the device properties they were made for. */
void mp_dnn_forget(void);
size_t mp_dnn_plan_count(void); /* returns the number of plans that are kept, refused graphs included */
