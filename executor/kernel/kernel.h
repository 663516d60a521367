/* kernel.h - what a backend's kernel is: a table row that prepares calls, and a prepared call that runs any number of times.
 *
 * A kernel is prepared once per node, when the graph is built: it says whether it supports these operands, and how much
 * workspace it takes (a library's scratchpad included), so that both are in the plan. A prepared call allocates nothing when
 * it runs; all memory it touches is in the operands. With the same values and the same number of threads it gives the same
 * bits in every run; so a recomputed activation equals the first one. */
#pragma once

#include "estimator/model/ops.h"
#include "executor/kernel/team.h"
#include "memplan/backend.h"

/* What a pass through the network is for. */
typedef enum mp_mode {
    MP_MODE_TRAIN,     /* dropout drops, normalization takes the batch's statistics and updates the running ones */
    MP_MODE_EVALUATE,  /* dropout passes through, normalization takes the running statistics */
    MP_MODE_AS_WRITTEN /* as the operator's own attributes and inputs say (ONNX's conformance cases) */
} mp_mode;

/* Parameters of one pass through the network. */
typedef struct mp_run {
    uint64_t seed;
    uint32_t step;  /* counts every pass through the network, micro-batches included */
    bool first_run; /* true: the first run of this node in this step. Only then are running statistics updated, not in a
                       recomputation */
    const mp_kernel_team *team;    /* the ranks that split the network's operators; NULL: there is one */
    const mp_kernel_team *samples; /* the ranks that share a batch's statistics; NULL: there is one */
} mp_run;

/* The operands of one node. The arrays are described in full (type, sizes, strides) when the call is prepared, and are the same
 * when it runs; only `data` changes from run to run.
 *
 * Forward reads in[], and writes out[] and extra[]. Backward reads d_out[], and those of in[], out[] and extra[] that the
 * registry lists for the gradients of inputs [from, to) (`needs` under the executor's rules); only these are sure to have data,
 * and a kernel must not read the others. It writes d_in[i] for each i in [from, to) whose dtype is not UNDEFINED. Bit i of
 * `adds` asks to add to d_in[i] instead of overwriting it; where an operand occurs twice (Mul(x, x)) both gradients are at one
 * address, and the second adds to the first.
 *
 * Where the registry allows it (traits IN_PLACE, GRADIENT_IN_PLACE, see builder_forward.c and builder_backward.c) an output
 * may be at the same address as an input of its size: a kernel must read each element before it writes it there. */
typedef struct mp_operands {
    const mp_model *model;
    const mp_operator *op;
    int op_index; /* the operator's number in the model as it was read, from which random kernels derive their stream */
    mp_mode mode;
    bool is_backward;
    int alternative;       /* index of the node's alternative; 0 is the base */
    const char *algorithm; /* name of the algorithm to use (mp_backend.algorithms); NULL: the backend's default */
    int from, to;
    uint64_t adds;
    int n_in, n_out;
    mp_array *in, *out; /* n_in and n_out of them. Small constants (axes, scalars) have data already when the call is prepared,
                           in the program's memory; when it runs, all data lies in the backend's memory */
    mp_array *d_in, *d_out;        /* NULL except in backward. An output without gradient is UNDEFINED: its gradient is zero */
    mp_array extra[MP_EXTRAS_MAX]; /* flat: rank 1, dims[0] elements; UNDEFINED: not saved, because nothing needs it */
    void *workspace;               /* call->workspace_bytes bytes, aligned as storages are: to 64 bytes, on devices to 256 */
    mp_run run;                    /* parameters of the pass; valid only when the call runs */
} mp_operands;

/* True for FLOAT and BFLOAT16, the types that networks are computed in and gradients have. */
static inline bool mp_is_real(mp_dtype dtype)
{
    return dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16;
}

/* Returns input i (output o); in backward its gradient if it has one. */
const mp_array *mp_operands_in(const mp_operands *x, int i);
const mp_array *mp_operands_out(const mp_operands *x, int o);
/* True if this call writes the gradient of input i. */
bool mp_operands_wants(const mp_operands *x, int i);
/* Returns the attribute `axis`, negative ones counted from the end; `otherwise` is its default. */
int mp_operands_axis(const mp_operands *x, int64_t otherwise, int rank);
/* Returns what the registry's readers of attributes take. After a read, its missing_value is the operand that has to be a
 * constant and is not; -1: none is missing. */
mp_infer mp_operands_reader(const mp_operands *x, mp_error *err);

/* Writes uniform random numbers for n elements of the operator, from element `from` of this rank's part on: those that the
 * elements have in the whole tensor. */
void mp_dealt_uniforms(const mp_operands *x, const mp_dealt *dealt, int64_t from, int64_t n, float *out);

/* The algorithms that a backend has for a node. A name means the same algorithm in every process. */
enum { MP_ALGORITHMS = 8, MP_ALGORITHM_NAME = 96 };
typedef struct mp_algorithms {
    int n;
    struct {
        char name[MP_ALGORITHM_NAME];
        bool is_deterministic; /* true: the same bits in every run */
    } list[MP_ALGORITHMS];
} mp_algorithms;

#define MP_BIT(i) (UINT64_C(1) << (i))

enum { MP_CALL_REASON = 112 };

typedef struct mp_call mp_call;
struct mp_call {
    /* Runs the call; never NULL once prepared. Fails only if the backend's library fails. */
    mp_status (*run)(const mp_call *call, const mp_operands *x, mp_error *err);
    void (*release)(mp_call *call); /* NULL: only `state` has to be released */
    void *state; /* the kernel's own state, allocated with mp_alloc; NULL: none. Released with mp_free after `release` */
    int64_t workspace_bytes;
    uint64_t
        adds; /* bit i: the kernel itself accumulates into d_in[i]. For other inputs it was asked to add to, mp_call_run does */
    int64_t added_at;            /* offset in the workspace of the gradients that mp_call_run adds; set by mp_call_prepare */
    const char *provider;        /* library that computes it, such as "cuDNN", where the backend has several; else NULL */
    char reason[MP_CALL_REASON]; /* why this provider was taken, for reports; "": the backend has no better one */
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

/* One row of a backend's table: how an operator runs there. */
typedef struct mp_kernel {
    const char *kind, *domain; /* as in ops.def; kind NULL marks the end of the table */
    mp_prepare forward;
    mp_prepare backward; /* NULL: the operator has no gradient */
} mp_kernel;

/* Returns the first row for this operator in the tables; NULL: no table has one. */
const mp_kernel *mp_kernel_find(const mp_kernel *const *tables, size_t n, const mp_operator *op);

/* Fails because the operator, or this form of it, has no kernel, with a message like "Conv ('conv1'): ... is not supported
 * on the CPU". */
#define MP_NO_KERNEL(x, err, what) \
    MP_FAIL(err, MP_UNSUPPORTED, "%s ('%s'): %s is not supported here", (x)->op->kind, (x)->op->name, what)

/* Prepares a call for these operands on the backend; on failure *call is empty. Reserves workspace for gradients that the
 * kernel cannot accumulate itself. MP_UNSUPPORTED names the operator; MP_NOMEM. */
mp_status mp_call_prepare(const mp_backend *backend, const mp_kernel *kernel, const mp_operands *x, mp_call *call,
                          mp_error *err);
/* Runs a prepared call on its backend, and accumulates the gradients of x->adds, a subset of those it was prepared for. */
mp_status mp_call_run(const mp_backend *backend, const mp_call *call, const mp_operands *x, mp_error *err);
void mp_call_release(mp_call *call); /* does nothing for an empty call */
