/* dnnl.h - the oneDNN bridge: its errors as ours, its primitives as calls. Private to executor/cpu/.
 *
 * oneDNN 2.6: a primitive is made from an operation descriptor, its scratchpad is ours (mp_call.workspace_bytes), and it runs
 * on one global CPU engine and stream.
 */
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include "estimator/base/memory.h"
#include "executor/kernel/kernel.h"
#include "formats/base/process.h"

/* The engine and stream of the process, made at the first use; NULL if that fails. Thread-safe. */
dnnl_engine_t mp_dnnl_engine(void);
dnnl_stream_t mp_dnnl_stream(void);

/* Turns a failed status into an error that names the operator (op may be NULL): unimplemented is MP_UNSUPPORTED, out of memory
 * MP_NOMEM, everything else MP_INVALID. */
mp_status mp_dnnl_check(dnnl_status_t status, const mp_operator *op, const char *what, mp_error *err);
/* The same of a call that prepares something, which is counted while it runs. */
#define MP_DNNL_PREPARED(call, op, what, err) \
    ((void)atomic_fetch_add(&mp_library_works, 1), mp_dnnl_ended((call), (op), (what), (err)))
mp_status mp_dnnl_ended(dnnl_status_t status, const mp_operator *op, const char *what, mp_error *err);

/* What mp_array.packed and mp_stored.packed point to: weights in the blocks that a primitive wants. */
typedef struct mp_dnnl_packing {
    dnnl_memory_desc_t desc;
    bool inputs_first; /* in the model's order of dimensions: a transposed convolution's weights */
} mp_dnnl_packing;

/* The descriptor of an array: by its strides, or its packed one. MP_UNSUPPORTED: an element type oneDNN does not know. */
mp_status mp_dnnl_desc(const mp_array *a, const mp_operator *op, dnnl_memory_desc_t *desc, mp_error *err);
/* The same sizes and type, with the layout left to oneDNN (format_kind any). */
dnnl_memory_desc_t mp_dnnl_any(const dnnl_memory_desc_t *desc);

enum { MP_DNNL_ARGS = 12 };

MP_HANDLE_OWNER(dnnl_primitive_desc_destroy, dnnl_primitive_desc_t)
MP_HANDLE_OWNER(dnnl_primitive_desc_iterator_destroy, dnnl_primitive_desc_iterator_t)
MP_HANDLE_OWNER(dnnl_primitive_attr_destroy, dnnl_primitive_attr_t)
MP_HANDLE_OWNER(dnnl_post_ops_destroy, dnnl_post_ops_t)

/* A primitive with its memory objects. Where an argument's memory comes from is the kernel's business: it sets the addresses
 * before it runs. */
typedef struct mp_dnnl_op {
    dnnl_primitive_t primitive;
    int n_args;
    dnnl_exec_arg_t args[MP_DNNL_ARGS];
    int64_t scratchpad_bytes; /* rounded up to 64; the scratchpad is the argument DNNL_ARG_SCRATCHPAD, if there is any */
} mp_dnnl_op;

/* An attribute with a user-managed scratchpad; post-ops may be set on it. Release with dnnl_primitive_attr_destroy. */
mp_status mp_dnnl_attr(dnnl_primitive_attr_t *attr, mp_error *err);
/* Makes the primitive from its descriptor and adds the scratchpad argument if it needs one. */
mp_status mp_dnnl_primitive(const_dnnl_primitive_desc_t desc, const mp_operator *op, mp_dnnl_op *out, mp_error *err);
/* Adds an argument (DNNL_ARG_SRC, ...) of this layout, without an address yet. */
mp_status mp_dnnl_arg(mp_dnnl_op *p, int arg, const dnnl_memory_desc_t *desc, mp_error *err);
/* Sets the address of an argument for the next run; an argument that is not there is ignored. */
void mp_dnnl_address(const mp_dnnl_op *p, int arg, void *data);
/* Runs it and waits. `scratchpad`: scratchpad_bytes, aligned to 64. */
mp_status mp_dnnl_run(const mp_dnnl_op *p, void *scratchpad, const mp_operator *op, mp_error *err);
void mp_dnnl_release(mp_dnnl_op *p); /* a zeroed one is fine */

/* A reorder between two layouts as an operation of its own (arguments DNNL_ARG_FROM and DNNL_ARG_TO). */
mp_status mp_dnnl_reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, const mp_operator *op, mp_dnnl_op *out,
                          mp_error *err);
