/* dnnl.c - translates errors, layouts and primitives between oneDNN and the executor. */
#include "executor/cpu/base/dnnl.h"

#include <pthread.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void start(void)
{
    mp_library_works++;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        engine = NULL;
    else if (dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success)
        stream = NULL;
    mp_library_works--;
}

dnnl_engine_t mp_dnnl_engine(void)
{
    pthread_once(&once, start);
    return engine;
}

dnnl_stream_t mp_dnnl_stream(void)
{
    pthread_once(&once, start);
    return stream;
}

mp_status mp_dnnl_check(dnnl_status_t status, const mp_operator *op, const char *what, mp_error *err)
{
    const char *kind = op ? op->kind : "oneDNN", *name = op ? op->name : "";
    switch (status) {
    case dnnl_success:
        return MP_OK;
    case dnnl_out_of_memory:
        return MP_FAIL(err, MP_NOMEM, "%s ('%s'): oneDNN has no memory for %s", kind, name, what);
    case dnnl_unimplemented:
        return MP_FAIL(err, MP_UNSUPPORTED, "%s ('%s'): oneDNN has no implementation of %s", kind, name, what);
    default:
        return MP_FAIL(err, MP_INVALID, "%s ('%s'): oneDNN refuses %s (status %d)", kind, name, what, (int)status);
    }
}

mp_status mp_dnnl_ended(dnnl_status_t status, const mp_operator *op, const char *what, mp_error *err)
{
    mp_library_works--;
    return mp_dnnl_check(status, op, what, err);
}

static dnnl_data_type_t data_type(mp_dtype dtype)
{
    switch (dtype) {
    case MP_DTYPE_FLOAT:
        return dnnl_f32;
    case MP_DTYPE_BFLOAT16:
        return dnnl_bf16;
    case MP_DTYPE_FLOAT16:
        return dnnl_f16;
    case MP_DTYPE_INT32:
        return dnnl_s32;
    case MP_DTYPE_INT8:
        return dnnl_s8;
    case MP_DTYPE_UINT8:
        return dnnl_u8;
    default:
        return dnnl_data_type_undef;
    }
}

mp_status mp_dnnl_desc(const mp_array *a, const mp_operator *op, dnnl_memory_desc_t *desc, mp_error *err)
{
    dnnl_dims_t dims = {1}, strides = {1};
    if (a->packed) {
        *desc = ((const mp_dnnl_packing *)a->packed)->desc;
        /* the element type is that of `a`, not of the packed layout: `a` may be a float copy of 16-bit weights in the same
         * blocked layout */
        desc->data_type = data_type(a->dtype);
        return MP_OK;
    }
    MP_ENSURE(data_type(a->dtype) != dnnl_data_type_undef, err, MP_UNSUPPORTED, "%s ('%s'): type %s is not supported here",
              op->kind, op->name, mp_dtype_name(a->dtype));
    for (int d = 0; d < a->rank; d++) {
        dims[d] = a->dims[d];
        strides[d] = a->strides[d];
    }
    return mp_dnnl_check(dnnl_memory_desc_init_by_strides(desc, a->rank ? a->rank : 1, dims, data_type(a->dtype), strides), op,
                         "the layout of a tensor", err);
}

dnnl_memory_desc_t mp_dnnl_any(const dnnl_memory_desc_t *desc)
{
    dnnl_memory_desc_t any;
    memset(&any, 0, sizeof any);
    dnnl_memory_desc_init_by_tag(&any, desc->ndims, desc->dims, desc->data_type, dnnl_format_tag_any);
    return any;
}

mp_status mp_dnnl_attr(dnnl_primitive_attr_t *attr, mp_error *err)
{
    MP_OWNED_BY(dnnl_primitive_attr_destroy) dnnl_primitive_attr_t made = NULL;
    MP_CHECK(MP_DNNL_PREPARED(dnnl_primitive_attr_create(&made), NULL, "attributes", err));
    MP_CHECK(
        MP_DNNL_PREPARED(dnnl_primitive_attr_set_scratchpad_mode(made, dnnl_scratchpad_mode_user), NULL, "attributes", err));
    *attr = made;
    made = NULL;
    return MP_OK;
}

mp_status mp_dnnl_primitive(const_dnnl_primitive_desc_t desc, const mp_operator *op, mp_dnnl_op *out, mp_error *err)
{
    MP_CLEARED_BY(mp_dnnl_release) mp_dnnl_op made = {0};
    MP_CHECK(MP_DNNL_PREPARED(dnnl_primitive_create(&made.primitive, desc), op, "the primitive", err));
    const dnnl_memory_desc_t *scratchpad = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    size_t bytes = scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
    if (bytes) {
        MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_SCRATCHPAD, scratchpad, err));
        MP_ENSURE(mp_round_up((int64_t)bytes, 64, &made.scratchpad_bytes), err, MP_INVALID,
                  "%s ('%s') needs too much workspace", op ? op->kind : "", op ? op->name : "");
    }
    *out = made;
    made = (mp_dnnl_op){0};
    return MP_OK;
}

mp_status mp_dnnl_arg(mp_dnnl_op *p, int arg, const dnnl_memory_desc_t *desc, mp_error *err)
{
    MP_ENSURE(p->n_args < MP_DNNL_ARGS, err, MP_INVALID, "oneDNN: a primitive has more than %d arguments", MP_DNNL_ARGS);
    dnnl_exec_arg_t *a = &p->args[p->n_args];
    MP_CHECK(MP_DNNL_PREPARED(dnnl_memory_create(&a->memory, desc, mp_dnnl_engine(), DNNL_MEMORY_NONE), NULL, "a memory object",
                              err));
    a->arg = arg;
    p->n_args++;
    return MP_OK;
}

void mp_dnnl_address(const mp_dnnl_op *p, int arg, void *data)
{
    for (int k = 0; k < p->n_args; k++)
        if (p->args[k].arg == arg) dnnl_memory_set_data_handle_v2(p->args[k].memory, data, NULL);
}

mp_status mp_dnnl_run(const mp_dnnl_op *p, void *scratchpad, const mp_operator *op, mp_error *err)
{
    mp_dnnl_address(p, DNNL_ARG_SCRATCHPAD, scratchpad);
    MP_CHECK(mp_dnnl_check(dnnl_primitive_execute(p->primitive, mp_dnnl_stream(), p->n_args, p->args), op, "to run", err));
    return mp_dnnl_check(dnnl_stream_wait(mp_dnnl_stream()), op, "to run", err);
}

void mp_dnnl_release(mp_dnnl_op *p)
{
    for (int k = 0; k < p->n_args; k++) dnnl_memory_destroy(p->args[k].memory);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    *p = (mp_dnnl_op){0};
}

mp_status mp_dnnl_reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, const mp_operator *op, mp_dnnl_op *out,
                          mp_error *err)
{
    MP_OWNED_BY(dnnl_primitive_attr_destroy) dnnl_primitive_attr_t attr = NULL;
    MP_OWNED_BY(dnnl_primitive_desc_destroy) dnnl_primitive_desc_t desc = NULL;
    MP_CLEARED_BY(mp_dnnl_release) mp_dnnl_op made = {0};
    *out = made;
    MP_CHECK(mp_dnnl_attr(&attr, err));
    MP_CHECK(MP_DNNL_PREPARED(dnnl_reorder_primitive_desc_create(&desc, from, mp_dnnl_engine(), to, mp_dnnl_engine(), attr), op,
                              "a change of layout", err));
    MP_CHECK(mp_dnnl_primitive(desc, op, &made, err));
    MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_FROM, from, err));
    MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_TO, to, err));
    *out = made;
    made = (mp_dnnl_op){0};
    return MP_OK;
}
