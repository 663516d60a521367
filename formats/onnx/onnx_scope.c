/* onnx_scope.c - names that a scope does not know are looked up around it, or become new tensors. */
#include "formats/onnx/onnx_scope.h"

#include <string.h>

#include "formats/onnx/scan/onnx_scan.h"

enum {
    CALLS_MAX = 1 << 17,
    INLINE_WORK_MAX = 1 << 24 /* operands, attributes, elements and bytes of names that functions and subgraphs add */
};

const char *mp_onnx_text(const char *s)
{
    return s ? s : "";
}

const char *mp_onnx_join(mp_pool *pool, const char *prefix, const char *name)
{
    return mp_pool_format(pool, "%s/%s", prefix, *name == '/' ? name + 1 : name);
}

mp_status mp_onnx_charge(mp_onnx_builder *b, int64_t work)
{
    b->work += work;
    if (b->work <= INLINE_WORK_MAX && b->n_calls <= CALLS_MAX && b->model->n_operators <= MP_ONNX_NODES_MAX) return MP_OK;
    return MP_FAIL(b->err, MP_PARSE, "inlining the file's functions makes the graph too large");
}

mp_status mp_onnx_define_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index)
{
    const char *own = mp_onnx_join(b->model->pool, s->prefix, name);
    MP_ENSURE(own, b->err, MP_NOMEM, "no memory for the tensor '%s'", name);
    MP_CHECK(mp_onnx_charge(b, (int64_t)strlen(own) + 1));
    MP_CHECK(mp_model_fresh_tensor(b->model, own, index, b->err));
    MP_ENSURE(mp_names_set(s->tensors, name, *index), b->err, MP_NOMEM, "no memory for the tensor '%s'", name);
    return MP_OK;
}

mp_status mp_onnx_check_values(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int index)
{
    const char *own = mp_onnx_join(b->model->pool, s->prefix, name), *given = b->model->tensors[index].name;
    if (!own) return MP_FAIL(b->err, MP_NOMEM, "no memory for the tensor '%s'", name);
    if (!strcmp(own, given)) return MP_OK;
    return MP_FAIL(b->err, MP_UNSUPPORTED,
                   "the file has two large tensors '%s', since two nodes with subgraphs have the same name", own);
}

mp_status mp_onnx_find_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index)
{
    *index = -1;
    if (!*name) return MP_OK;
    for (; s->tensors; s = s->visible) {
        int found = mp_names_find(s->tensors, name);
        if (found == MP_ONNX_LEFT_OUT) return MP_OK;
        *index = found;
        if (found >= 0) return MP_OK;
        if (!s->visible) return mp_onnx_define_tensor(b, s, name, index);
    }
    return mp_model_tensor(b->model, name, index, b->err);
}

mp_status mp_onnx_find_tensors(mp_onnx_builder *b, const mp_onnx_scope *s, char *const *names, size_t n, int **out)
{
    mp_status st = MP_OK;
    int *list = mp_alloc(n, sizeof *list);
    MP_REQUIRE(list, b->err, MP_NOMEM, "no memory for %zu operands", n);
    for (size_t k = 0; k < n; k++) MP_TRY(mp_onnx_find_tensor(b, s, mp_onnx_text(names[k]), &list[k]));
    *out = list;
    list = NULL;
done:
    mp_free(list);
    return st;
}

const Onnx__AttributeProto *mp_onnx_find_binding(const mp_onnx_binding *list, size_t n, const char *name)
{
    for (size_t k = 0; k < n; k++)
        if (!strcmp(list[k].name, name)) return list[k].attribute;
    return NULL;
}
