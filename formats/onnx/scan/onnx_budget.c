/* onnx_budget.c - an allocator for protobuf-c that stops at a number of bytes. */
#include "formats/onnx/scan/onnx_budget.h"

#include "estimator/base/memory.h"

/* Real files need ten bytes per byte of the skeleton, hostile ones up to 129. */
enum { BASE_BYTES = 64 << 20, BYTES_PER_BYTE = 32, MAX_BYTES = 1 << 30 };

static void *budget_alloc(void *data, size_t size)
{
    mp_onnx_budget *budget = data;
    if (size > budget->left) {
        budget->exhausted = true;
        return NULL;
    }
    budget->left -= size;
    void *p = mp_alloc(1, size);
    if (!p) budget->out_of_memory = true;
    return p;
}

static void budget_free(void *data, void *p)
{
    (void)data;
    mp_free(p);
}

void mp_onnx_budget_start(mp_onnx_budget *budget, size_t skeleton_bytes)
{
    size_t bytes = BASE_BYTES + skeleton_bytes * BYTES_PER_BYTE;
    *budget = (mp_onnx_budget){{budget_alloc, budget_free, budget}, bytes < MAX_BYTES ? bytes : MAX_BYTES, false, false};
}

mp_status mp_onnx_budget_failure(const mp_onnx_budget *budget, const char *what, mp_error *err)
{
    if (budget->out_of_memory) return MP_FAIL(err, MP_NOMEM, "no memory to unpack %s", what);
    if (budget->exhausted) return MP_FAIL(err, MP_PARSE, "%s takes more memory than a model of this size can need", what);
    return MP_FAIL(err, MP_PARSE, "this is no ONNX model, or a damaged one: protobuf cannot unpack %s", what);
}
