/* dnn_graph.c - builds cuDNN operation graphs as plain data, stores the execution plan of each graph, and runs plans. */
#include "executor/cuda/vendor/dnn_graph.h"

#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"
#include "executor/cuda/vendor/dnn_describe.h"
#include "executor/cuda/vendor/dnn_plan.h"

int mp_dnn_tensor_add(mp_dnn_graph *g, cudnnDataType_t type, int rank, const int64_t *dims, const int64_t *strides)
{
    int k = (int)g->n_tensors++;
    if (k >= MP_DNN_TENSORS || rank > MP_DNN_RANK) {
        g->n_tensors = MP_DNN_TENSORS + 1;
        return k;
    }
    mp_dnn_tensor *t = &g->tensors[k];
    t->type = type;
    t->rank = rank;
    for (int d = 0; d < rank; d++) {
        t->dims[d] = dims[d];
        t->strides[d] = strides[d];
    }
    return k;
}

int mp_dnn_operation_add(mp_dnn_graph *g, mp_dnn_kind kind, int64_t mode, const int *operands, int n)
{
    int k = (int)g->n_operations++;
    if (k >= MP_DNN_OPERATIONS) return k;
    mp_dnn_operation *o = &g->operations[k];
    o->kind = kind;
    o->mode = mode;
    for (int i = 0; i < MP_DNN_OPERANDS; i++) o->operands[i] = i < n ? operands[i] : -1;
    return k;
}

cudnnDataType_t mp_dnn_type(mp_dtype dtype)
{
    switch (dtype) {
    case MP_DTYPE_BFLOAT16:
        return CUDNN_DATA_BFLOAT16;
    case MP_DTYPE_INT32:
        return CUDNN_DATA_INT32;
    case MP_DTYPE_UINT8:
        return CUDNN_DATA_UINT8;
    default:
        return CUDNN_DATA_FLOAT;
    }
}

int mp_dnn_array_add(mp_dnn_graph *g, const mp_array *a, int rank)
{
    int64_t dims[MP_ARRAY_RANK] = {0}, strides[MP_ARRAY_RANK] = {0};
    int more = rank > a->rank && a->rank >= 2 ? rank - a->rank : 0, n = 0;
    for (int d = 0; d < a->rank; d++) {
        for (int k = 0; d == 2 && k < more; k++) {
            dims[n] = 1;
            strides[n++] = a->dims[2] * a->strides[2];
        }
        dims[n] = a->dims[d];
        strides[n++] = a->strides[d];
    }
    for (; n < a->rank + more; n++) {
        dims[n] = 1;
        strides[n] = a->strides[1] == 1 ? a->dims[1] : 1;
    }
    return mp_dnn_tensor_add(g, mp_dnn_type(a->dtype), n, dims, strides);
}

int mp_dnn_channels_add(mp_dnn_graph *g, cudnnDataType_t type, int rank, int64_t n)
{
    int64_t dims[MP_ARRAY_RANK], strides[MP_ARRAY_RANK];
    for (int d = 0; d < rank; d++) {
        dims[d] = d == 1 ? n : 1;
        strides[d] = d == 1 ? 1 : n;
    }
    return mp_dnn_tensor_add(g, type, rank, dims, strides);
}

int mp_dnn_scalar_add(mp_dnn_graph *g, int rank)
{
    int k = mp_dnn_channels_add(g, CUDNN_DATA_FLOAT, rank, 1);
    if (k < MP_DNN_TENSORS) g->tensors[k].is_by_value = 1;
    return k;
}

/* All cuDNN execution plans of a backend in the order of creation, including refused graphs. */
typedef struct mp_dnn_plans {
    mp_dnn_plan **list;
    size_t n, capacity;
} mp_dnn_plans;

/* Returns the cuDNN execution plans of the calling thread's backend; NULL: out of memory. */
static mp_dnn_plans *plans_here(void)
{
    mp_cuda_context *c = mp_cuda_current();
    if (!c->plans) c->plans = mp_alloc(1, sizeof *c->plans);
    return c->plans;
}

static void plan_free(mp_dnn_plan *p)
{
    if (!p) return;
    mp_dnn_plan_close(p);
    mp_free(p);
}
MP_OWNER(plan_free, mp_dnn_plan)

/* Creates a plan of the graph for the current settings; mp_dnn_plan_open completes it. */
static mp_status new_plan(const mp_dnn_graph *g, const char *algorithm, mp_dnn_plan **out, mp_error *err)
{
    mp_dnn_plan *made;
    MP_ENSURE(g->n_tensors <= MP_DNN_TENSORS && g->n_operations <= MP_DNN_OPERATIONS, err, MP_UNSUPPORTED,
              "a graph of %d tensors and %d operations is too large", (int)g->n_tensors, (int)g->n_operations);
    MP_ENSURE(made = mp_alloc(1, sizeof *made), err, MP_NOMEM, "out of memory");
    memcpy(&made->graph, g, sizeof *g);
    made->settings = *mp_cuda_settings_get();
    snprintf(made->algorithm, sizeof made->algorithm, "%s", algorithm ? algorithm : "");
    *out = made;
    return MP_OK;
}

mp_status mp_dnn_algorithms(const mp_dnn_graph *g, mp_algorithms *out, mp_error *err)
{
    MP_OWNED_BY(plan_free) mp_dnn_plan *p = NULL;
    out->n = 0;
    MP_CHECK(new_plan(g, NULL, &p, err));
    return mp_dnn_plan_list(p, out, err);
}

mp_status mp_dnn_plan_find(const mp_dnn_graph *g, const mp_dnn_plan **out, mp_error *err)
{
    return mp_dnn_plan_find_named(g, NULL, out, err);
}

static bool is_plan_of(const mp_dnn_plan *p, const mp_dnn_graph *g, const char *algorithm)
{
    const mp_cuda_settings *s = &p->settings, *now = mp_cuda_settings_get();
    return s->tf32 == now->tf32 && s->fast == now->fast && s->workspace_limit == now->workspace_limit &&
           !strcmp(p->algorithm, algorithm ? algorithm : "") && !memcmp(&p->graph, g, sizeof *g);
}

mp_status mp_dnn_plan_find_named(const mp_dnn_graph *g, const char *algorithm, const mp_dnn_plan **out, mp_error *err)
{
    mp_status st = MP_OK;
    mp_dnn_plan *plan = NULL;
    MP_OWNED_BY(plan_free) mp_dnn_plan *made = NULL;
    mp_dnn_plans *kept = plans_here();
    MP_ENSURE(kept, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < kept->n && !plan; k++)
        if (is_plan_of(kept->list[k], g, algorithm)) plan = kept->list[k];
    if (!plan) {
        MP_ENSURE(mp_grow(&kept->list, &kept->capacity, kept->n + 1, sizeof *kept->list), err, MP_NOMEM, "out of memory");
        MP_CHECK(new_plan(g, algorithm, &made, err));
        st = mp_dnn_plan_open(made, &made->why);
        if (st && st != MP_UNSUPPORTED && err) *err = made->why;
        if (st && st != MP_UNSUPPORTED) return st;
        plan = kept->list[kept->n++] = made;
        made = NULL;
        st = MP_OK;
    }
    MP_ENSURE(!plan->why.code, err, MP_UNSUPPORTED, "%s", plan->why.message);
    *out = plan;
    return st;
}

int64_t mp_dnn_plan_workspace_bytes(const mp_dnn_plan *p)
{
    return p->workspace_bytes;
}

bool mp_dnn_plan_is_assumed(const mp_dnn_plan *p)
{
    return p->is_assumed;
}

int mp_dnn_plan_engine(const mp_dnn_plan *p)
{
    return (int)p->engine_index;
}

bool mp_dnn_plan_notes(const mp_dnn_plan *p, cudnnBackendNumericalNote_t note)
{
    return p->notes >> note & 1;
}

size_t mp_dnn_plan_count(void)
{
    const mp_dnn_plans *kept = mp_cuda_current()->plans;
    return kept ? kept->n : 0;
}

void mp_dnn_forget(void)
{
    mp_cuda_context *c = mp_cuda_current();
    for (size_t k = 0; c->plans && k < c->plans->n; k++) plan_free(c->plans->list[k]);
    if (c->plans) mp_free(c->plans->list);
    mp_free(c->plans);
    c->plans = NULL;
    mp_dnn_device_forget();
}

mp_status mp_dnn_plan_run(const mp_dnn_plan *p, void *const *addresses, void *workspace, mp_error *err)
{
    MP_OWNED_BY(cudnnBackendDestroyDescriptor) cudnnBackendDescriptor_t pack = NULL;
    const mp_cuda_device *device;
    int64_t ids[MP_DNN_TENSORS];
    void *data[MP_DNN_TENSORS];
    int64_t n = 0;
    MP_CHECK(mp_cuda_open(&device, err));
    for (int64_t k = 0; k < p->graph.n_tensors; k++) {
        if (p->graph.tensors[k].is_virtual) continue;
        ids[n] = k + 1;
        data[n++] = addresses[k];
    }
    MP_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), err);
    MP_CUDNN(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids), err);
    MP_CUDNN(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, data), err);
    MP_CUDNN(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace), err);
    MP_CUDNN(cudnnBackendFinalize(pack), err);
    return MP_CUDNN_STATUS(cudnnBackendExecute(device->dnn, p->plan, pack), err);
}
