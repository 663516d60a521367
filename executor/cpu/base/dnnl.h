/* dnnl.h - wraps oneDNN: its errors as mp_status, its primitives as operations of calls. Private to executor/cpu/.
 *
 * Written for oneDNN 2.6. A primitive is created from an operation descriptor, uses a scratchpad in the call's workspace
 * (mp_call.workspace_bytes), and runs on one global CPU engine and stream. */
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include "estimator/base/memory.h"
#include "executor/kernel/kernel.h"
#include "formats/base/process.h"

/* Return the engine and stream of the process, created at first use; NULL if that fails. Thread-safe. */
dnnl_engine_t mp_dnnl_engine(void);
dnnl_stream_t mp_dnnl_stream(void);

/* Converts a failed status to an error that names the operator (op may be NULL). dnnl_unimplemented becomes MP_UNSUPPORTED,
 * dnnl_out_of_memory becomes MP_NOMEM, and every other failure becomes MP_INVALID. */
mp_status mp_dnnl_check(dnnl_status_t status, const mp_operator *op, const char *what, mp_error *err);
/* As mp_dnnl_check, for a oneDNN call that prepares a primitive or layout. mp_library_works counts the oneDNN calls in
 * progress. */
#define MP_DNNL_PREPARED(call, op, what, err) \
    ((void)atomic_fetch_add(&mp_library_works, 1), mp_dnnl_ended((call), (op), (what), (err)))
mp_status mp_dnnl_ended(dnnl_status_t status, const mp_operator *op, const char *what, mp_error *err);

/* The blocked layout of weights that a oneDNN primitive requires. mp_array.packed and mp_stored.packed point to it. */
typedef struct mp_dnnl_packing {
    dnnl_memory_desc_t desc;
    bool
        inputs_first; /* true for a transposed convolution: in the model's weights the input channels are the first dimension */
} mp_dnnl_packing;

/* Describes an array for oneDNN, by its strides or its packed layout. MP_UNSUPPORTED: oneDNN does not know its element type. */
mp_status mp_dnnl_desc(const mp_array *a, const mp_operator *op, dnnl_memory_desc_t *desc, mp_error *err);
/* Returns a descriptor with the sizes and type of `desc` whose layout oneDNN may choose (format_kind any). */
dnnl_memory_desc_t mp_dnnl_any(const dnnl_memory_desc_t *desc);

enum { MP_DNNL_ARGS = 12 };

MP_HANDLE_OWNER(dnnl_primitive_desc_destroy, dnnl_primitive_desc_t)
MP_HANDLE_OWNER(dnnl_primitive_desc_iterator_destroy, dnnl_primitive_desc_iterator_t)
MP_HANDLE_OWNER(dnnl_primitive_attr_destroy, dnnl_primitive_attr_t)
MP_HANDLE_OWNER(dnnl_post_ops_destroy, dnnl_post_ops_t)

/* A oneDNN primitive with the memory objects of its arguments. The kernel sets the addresses of these arguments before each
 * run. */
typedef struct mp_dnnl_op {
    dnnl_primitive_t primitive;
    int n_args;
    dnnl_exec_arg_t args[MP_DNNL_ARGS];
    int64_t
        scratchpad_bytes; /* size of the argument DNNL_ARG_SCRATCHPAD, a multiple of 64; 0: the primitive has no scratchpad */
} mp_dnnl_op;

/* Creates an attribute with a user-managed scratchpad; post-ops may be added. Release with dnnl_primitive_attr_destroy. */
mp_status mp_dnnl_attr(dnnl_primitive_attr_t *attr, mp_error *err);
/* Creates the primitive from its descriptor, with the scratchpad argument if it needs one. */
mp_status mp_dnnl_primitive(const_dnnl_primitive_desc_t desc, const mp_operator *op, mp_dnnl_op *out, mp_error *err);
/* Adds an argument (DNNL_ARG_SRC, ...) with the layout `desc` to an operation. Its address is set later (mp_dnnl_address). */
mp_status mp_dnnl_arg(mp_dnnl_op *p, int arg, const dnnl_memory_desc_t *desc, mp_error *err);
/* Sets the address of an argument for the next run; does nothing if the primitive has no such argument. */
void mp_dnnl_address(const mp_dnnl_op *p, int arg, void *data);
/* Runs the primitive and waits. `scratchpad` has scratchpad_bytes bytes, aligned to 64. */
mp_status mp_dnnl_run(const mp_dnnl_op *p, void *scratchpad, const mp_operator *op, mp_error *err);
void mp_dnnl_release(mp_dnnl_op *p); /* Releases an operation; does nothing if *p is zeroed. */

/* Prepares an operation that copies between two layouts (arguments DNNL_ARG_FROM and DNNL_ARG_TO). */
mp_status mp_dnnl_reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, const mp_operator *op, mp_dnnl_op *out,
                          mp_error *err);
