/* kernel.h - what a backend's kernel is: a table row that prepares calls, and a prepared call that runs any number of times.
 *
 * A kernel is prepared once per node, when the graph is built: it says whether it can do this at all, and how much workspace it
 * takes (a library's scratchpad included), so that both are in the plan. A prepared call allocates nothing when it runs; all
 * memory it touches is in the operands. It gives the same bits every time it runs on the same values with the same number of
 * threads; so a recomputed activation is the one it was.
 */
#pragma once

#include "estimator/model/ops.h"
#include "executor/kernel/array.h"
#include "memplan/backend.h"

/* What a run of the network is for. */
typedef enum mp_mode {
    MP_MODE_TRAIN,     /* dropout drops, normalization takes the batch's statistics and moves the running ones */
    MP_MODE_EVALUATE,  /* dropout passes through, normalization takes the running statistics */
    MP_MODE_AS_WRITTEN /* as the operator's own attributes and inputs say (ONNX's conformance cases) */
} mp_mode;

/* What a run of the network is like. */
typedef struct mp_run {
    uint64_t seed;
    uint32_t step;  /* counts every pass through the network, micro-batches included */
    bool first_run; /* of this node in this step: running statistics move now, and not when it is recomputed */
} mp_run;

/* The operands of one node. The arrays are described in full (type, sizes, strides) when the call is prepared, and the same
 * when it runs; only `data` changes from run to run.
 *
 * Forward reads in[], and writes out[] and extra[].
 *
 * Backward reads d_out[], and of in[], out[] and extra[] what the registry's row says that the gradients of inputs [from, to)
 * need (`needs` under the executor's rules); only those are sure to have data, and a kernel must not look at the others. It
 * writes d_in[i] for each i in [from, to) whose dtype is not UNDEFINED. Bit i of `adds` asks to add to d_in[i] instead of
 * overwriting it; where an operand occurs twice (Mul(x, x)) both gradients are at one address, and the second adds to the
 * first.
 *
 * Where the registry allows it (traits IN_PLACE, GRADIENT_IN_PLACE, see builder_forward.c and builder_backward.c) an output
 * may be at the very address of an input of its size: a kernel reads each element before it writes it there. */
typedef struct mp_operands {
    const mp_model *model;
    const mp_operator *op;
    int op_index; /* the operator's index in the model, from which random kernels derive their stream */
    mp_mode mode;
    bool is_backward;
    int alternative;       /* of the node: 0 is the base */
    const char *algorithm; /* which of the backend's algorithms (mp_backend.algorithms) computes it; NULL: its own choice */
    int from, to;
    uint64_t adds;
    int n_in, n_out;
    mp_array *in, *out;     /* n_in, n_out; small constants (axes, scalars) have data already when the call is prepared, in
                            the program's memory; when it runs all data lies where calls run */
    mp_array *d_in, *d_out; /* backward only, else NULL; an output without gradient is UNDEFINED: its gradient is zero */
    mp_array extra[MP_EXTRAS_MAX]; /* flat: rank 1, dims[0] elements; UNDEFINED: not demanded */
    void *workspace;               /* call->workspace_bytes, aligned as storages are: to 64, on devices 256 */
    mp_run run;                    /* when it runs */
} mp_operands;

/* True for FLOAT and BFLOAT16, the types that networks are computed in and gradients have. */
static inline bool mp_is_real(mp_dtype dtype)
{
    return dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16;
}

/* Returns input i (output o); backward its gradient if it has one. */
const mp_array *mp_operands_in(const mp_operands *x, int i);
const mp_array *mp_operands_out(const mp_operands *x, int o);
/* True if this call writes the gradient of input i. */
bool mp_operands_wants(const mp_operands *x, int i);
/* Returns the attribute `axis`, counted from the front; `otherwise` is its default. */
int mp_operands_axis(const mp_operands *x, int64_t otherwise, int rank);
/* Returns what the registry's readers of attributes take. Its missing_value is then the operand that a reader wanted as a
 * constant and that is none; -1: all were there. */
mp_infer mp_operands_reader(const mp_operands *x, mp_error *err);

/* The algorithms that a backend has for a node; a name means the same in every process. */
enum { MP_ALGORITHMS = 8, MP_ALGORITHM_NAME = 96 };
typedef struct mp_algorithms {
    int n;
    struct {
        char name[MP_ALGORITHM_NAME];
        bool is_deterministic; /* the same bits in every run */
    } list[MP_ALGORITHMS];
} mp_algorithms;

#define MP_BIT(i) (UINT64_C(1) << (i))

enum { MP_CALL_REASON = 112 };

typedef struct mp_call mp_call;
struct mp_call {
    /* Never NULL once prepared. The status is MP_OK unless the backend's library fails. */
    mp_status (*run)(const mp_call *call, const mp_operands *x, mp_error *err);
    void (*release)(mp_call *call); /* NULL: nothing to release but `state` */
    void *state;                    /* of the kernel, from mp_alloc; NULL: none. Released with mp_free after `release` */
    int64_t workspace_bytes;
    uint64_t adds;        /* of the inputs it was asked to add to, those it adds to itself; the others mp_call_run adds */
    int64_t added_at;     /* set by mp_call_prepare: where in the workspace the others' own values lie */
    const char *provider; /* who computes it, where a backend has several for one operator: "cuDNN"; NULL: it has one */
    char reason[MP_CALL_REASON]; /* why it is this one, for people; "": the backend has no better one */
};

typedef mp_status (*mp_prepare)(const mp_operands *x, mp_call *call, mp_error *err);

/* In an mp_prepare: declares `name`, a zeroed `type` that is the call's state; returns MP_NOMEM where there is no memory. */
#define MP_STATE(type, name, call, err)                               \
    type *name = (type *)((call)->state = mp_alloc(1, sizeof(type))); \
    MP_ENSURE(name, err, MP_NOMEM, "out of memory")
/* Defines `name`, an mp_prepare: that of the operator's description, `described`, with the run function of a backend. */
#define MP_PREPARE_TO_RUN(name, described, runs)                              \
    static mp_status name(const mp_operands *x, mp_call *call, mp_error *err) \
    {                                                                         \
        call->run = runs;                                                     \
        return described(x, call, err);                                       \
    }

/* One row of a backend's table: how an operator runs there. */
typedef struct mp_kernel {
    const char *kind, *domain; /* as in ops.def; kind NULL ends a table */
    mp_prepare forward;
    mp_prepare backward; /* NULL: the operator has no gradient */
} mp_kernel;

/* Returns the first row for this operator among the tables. NULL: there is none. */
const mp_kernel *mp_kernel_find(const mp_kernel *const *tables, size_t n, const mp_operator *op);

/* Fails because the operator, or this form of it, has no kernel: "Conv ('conv1'): ... is not supported on the CPU". */
#define MP_NO_KERNEL(x, err, what) \
    MP_FAIL(err, MP_UNSUPPORTED, "%s ('%s'): %s is not supported here", (x)->op->kind, (x)->op->name, what)

/* Prepares the call for these operands on the backend; on failure *call is empty. What the kernel does not add by itself gets
 * room in the workspace. MP_UNSUPPORTED names the operator; MP_NOMEM. */
mp_status mp_call_prepare(const mp_backend *backend, const mp_kernel *kernel, const mp_operands *x, mp_call *call,
                          mp_error *err);
/* Runs it there, adding where x->adds asks for it (a subset of what it was prepared for). */
mp_status mp_call_run(const mp_backend *backend, const mp_call *call, const mp_operands *x, mp_error *err);
void mp_call_release(mp_call *call); /* an empty one is fine */
