/* kernel.h - the interface of a kernel: a kernel implements one operator on one backend. It prepares calls, and a prepared
 * call runs any number of times.
 *
 * A call is prepared once per node, when the graph is built. The kernel then reports whether it supports the operands, and how
 * many bytes of workspace it needs, including a library's scratchpad. The plan therefore contains this workspace. A prepared
 * call allocates nothing when it runs; it uses the memory of its operands only. The same values and the same number of threads
 * give the same bits in every run, so a recomputed activation is bit-identical to the first one. */
#pragma once

#include "estimator/model/ops.h"
#include "executor/kernel/kernel_group.h"
#include "memplan/backend.h"

/* The purpose of a pass through the network. */
typedef enum mp_mode {
    /* training: dropout drops elements; batch normalization uses the batch's statistics and updates the running statistics */
    MP_MODE_TRAIN,
    MP_MODE_EVALUATE, /* evaluation: dropout passes values through; batch normalization uses the running statistics */
    /* dropout and batch normalization follow the operator's own attributes and inputs (used for ONNX's conformance cases) */
    MP_MODE_AS_WRITTEN
} mp_mode;

/* Parameters of one pass through the network. */
typedef struct mp_run {
    uint64_t seed;
    uint32_t step;  /* number of this pass, counted over all passes through the network, micro-batches included */
    bool first_run; /* true: the first run of the node for this micro-batch. Running statistics are updated in the first run
                       only, not in a recomputation */
    const mp_kernel_group *group;   /* the ranks that split the network's operators; NULL: operators are not split */
    const mp_kernel_group *samples; /* the ranks that share a batch's statistics; NULL: each rank has statistics of its own */
} mp_run;

/* The operands of one node. Type, sizes and strides of all arrays are known when the call is prepared and do not change; only
 * `data` changes from run to run.
 *
 * Forward reads in[], and writes out[] and extra[]. Backward reads d_out[], and the members of in[], out[] and extra[] that
 * the registry lists for the gradients of inputs [from, to) (`needs` in the registry, under the executor's rules). All other
 * arrays may have no data, so a kernel must not read them. Backward writes d_in[i] for each i in [from, to) whose dtype is not
 * UNDEFINED. Bit i of `adds` requests addition to d_in[i] instead of overwriting. If an operand occurs twice (Mul(x, x)), both
 * gradients have one address, and the kernel adds the second gradient to the first.
 *
 * If the registry allows it (traits IN_PLACE, GRADIENT_IN_PLACE, see builder_forward.c and builder_backward.c), an output may
 * have the same address as an input of the same size. A kernel must then read each element before it writes that element. */
typedef struct mp_operands {
    const mp_model *model;
    const mp_operator *op;
    int op_index; /* the operator's number in the original model; random operators derive their random numbers from it */
    mp_mode mode;
    bool is_backward;
    int alternative;       /* index of the alternative that the call runs, among the node's alternatives; 0 is the base */
    const char *algorithm; /* name of the algorithm to use (mp_backend.algorithms); NULL: the backend's default */
    int from, to;
    uint64_t adds;
    int n_in, n_out;
    mp_array *in, *out; /* n_in and n_out arrays. Small constants (axes, scalars) have data in host memory already when the call
                           is prepared. When the call runs, all data is in the backend's memory */
    /* gradients of inputs and outputs; NULL in forward. UNDEFINED in d_out: the output has no gradient, it counts as zero */
    mp_array *d_in, *d_out;
    /* outputs saved for backward, of rank 1 with dims[0] elements; UNDEFINED: not saved, because no node needs it */
    mp_array extra[MP_EXTRAS_MAX];
    void *workspace; /* the workspace: call->workspace_bytes bytes, aligned like a storage (to 64 bytes; on devices to 256) */
    mp_run run;      /* parameters of the pass; valid only when the call runs */
} mp_operands;

/* True for FLOAT and BFLOAT16: the types in which memplan computes networks and gradients. */
static inline bool mp_is_real(mp_dtype dtype)
{
    return dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16;
}

/* Return input i and output o of the operator; in backward, the gradient of the input or output, if there is one. */
const mp_array *mp_operands_in(const mp_operands *x, int i);
const mp_array *mp_operands_out(const mp_operands *x, int o);
/* True if this call writes the gradient of input i. */
bool mp_operands_wants(const mp_operands *x, int i);
/* Returns the attribute `axis` as a non-negative number; a negative axis counts from the end. `otherwise` is the default. */
int mp_operands_axis(const mp_operands *x, int64_t otherwise, int rank);
/* Returns an mp_infer, with which the registry reads attributes and constants. After a read, missing_value is the index of an
 * operand that must be a constant but is not; -1: no operand is missing. */
mp_infer mp_operands_reader(const mp_operands *x, mp_error *err);

/* Writes uniform random numbers for n elements of this rank's part of a tensor, from element `from` on. An element's number
 * depends only on its position in the whole tensor, so the result does not depend on the split over ranks. */
void mp_dealt_uniforms(const mp_operands *x, const mp_dealt *dealt, int64_t from, int64_t n, float *out);

/* The algorithms that a backend has for a node. A name stands for the same algorithm in every process. */
enum { MP_ALGORITHMS = 8, MP_ALGORITHM_NAME = 96 };
typedef struct mp_algorithms {
    int n;
    struct {
        char name[MP_ALGORITHM_NAME];
        bool is_deterministic; /* true: the results are bit-identical in every run */
    } list[MP_ALGORITHMS];
} mp_algorithms;

#define MP_BIT(i) (UINT64_C(1) << (i))

enum { MP_CALL_REASON = 112 };

typedef struct mp_call mp_call;
struct mp_call {
    /* Runs the call; never NULL once prepared. Fails only if the backend's library fails. */
    mp_status (*run)(const mp_call *call, const mp_operands *x, mp_error *err);
    void (*release)(mp_call *call); /* releases resources that the call holds besides `state`; NULL: there are none */
    void *state; /* the kernel's own state, allocated with mp_alloc; NULL: none. Released with mp_free after `release` */
    int64_t workspace_bytes;
    uint64_t
        adds; /* bit i: the kernel itself accumulates into d_in[i]; mp_call_run accumulates all other requested gradients */
    int64_t added_at;     /* offset in the workspace of the gradients that mp_call_run adds to d_in; set by mp_call_prepare */
    const char *provider; /* library that computes the call, such as "cuDNN", if the backend has several; else NULL */
    char reason[MP_CALL_REASON]; /* for reports: the reason for the choice of this provider; "": the backend has no better
                                    provider */
};

typedef mp_status (*mp_prepare)(const mp_operands *x, mp_call *call, mp_error *err);

/* Used in an mp_prepare: declares `name`, a pointer to a zeroed `type` that is the call's state; returns MP_NOMEM if memory
 * is short. */
#define MP_STATE(type, name, call, err)                               \
    type *name = (type *)((call)->state = mp_alloc(1, sizeof(type))); \
    MP_ENSURE(name, err, MP_NOMEM, "out of memory")
/* Defines `name`, an mp_prepare: it calls `described`, the operator's common prepare function, and sets the backend's run
 * function. */
#define MP_PREPARE_TO_RUN(name, described, runs)                              \
    static mp_status name(const mp_operands *x, mp_call *call, mp_error *err) \
    {                                                                         \
        call->run = runs;                                                     \
        return described(x, call, err);                                       \
    }

/* One row of a backend's table: the kernel of one operator. */
typedef struct mp_kernel {
    const char *kind, *domain; /* the operator's kind and domain, as in ops.def; kind NULL marks the end of the table */
    mp_prepare forward;
    mp_prepare backward; /* prepares calls of backward; NULL: the operator has no gradient */
} mp_kernel;

/* Returns the first row for this operator in the tables; NULL: no table has one. */
const mp_kernel *mp_kernel_find(const mp_kernel *const *tables, size_t n, const mp_operator *op);

/* Fails because the operator, or this variant of it, has no kernel. Example: "Conv ('conv1'): ... is not supported on the CPU".
 */
#define MP_NO_KERNEL(x, err, what) \
    MP_FAIL(err, MP_UNSUPPORTED, "%s ('%s'): %s is not supported here", (x)->op->kind, (x)->op->name, what)

/* Prepares a call of `kernel` for the operands `x` on the backend; on failure *call is empty. The workspace includes room for
 * gradients that the kernel cannot accumulate itself. MP_UNSUPPORTED: the message names the operator; MP_NOMEM. */
mp_status mp_call_prepare(const mp_backend *backend, const mp_kernel *kernel, const mp_operands *x, mp_call *call,
                          mp_error *err);
/* Runs a prepared call on its backend, and accumulates the gradients in x->adds. x->adds must be a subset of the `adds` with
 * which the call was prepared. */
mp_status mp_call_run(const mp_backend *backend, const mp_call *call, const mp_operands *x, mp_error *err);
void mp_call_release(mp_call *call); /* Releases a call; does nothing if the call is empty. */
