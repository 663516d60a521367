/* onnx_calls.c - finds calls of the program that PyTorch's newer exporter has merged with equal calls.
 *
 * If a program calls one layer twice on the same tensor, the exporter writes one operator. PyTorch runs both, and saves the
 * results of both. The records of calls show it, because calls of one function are numbered:
 *
 *     pkg.torch.onnx.fx_node    %add : [..] = call_function[target=torch.ops.aten.add.Tensor](args = (%relu, %relu_1), ..
 *
 * A call whose number is missing among the records was merged. Exceptions: constant folding has evaluated the call, and lists
 * it as a source of a tensor; or the function may do nothing (views, dropout), so the exporter may have removed it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/onnx/onnx.h"

/* Functions whose calls the exporter removes only if it merges them. Convolutions are not among them, because the exporter
 * folds batch normalizations into convolutions. */
static const char *const functions[] = {"linear",  "layer_norm", "matmul", "bmm",     "scaled_dot_product_attention",
                                        "gelu",    "relu",       "silu",   "sigmoid", "tanh",
                                        "softmax", "sub",        "mean"};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions, NAME_MAX_BYTES = 64, DIGITS_MAX = 5 };

struct mp_onnx_calls {
    mp_names *found;          /* names of calls that the file contains, or has evaluated */
    int numbers[N_FUNCTIONS]; /* per function: 1 + the largest number of a call; 0: no call */
    mp_pool *pool;
    mp_error *err;
};

mp_status mp_onnx_calls_new(mp_onnx_calls **out, mp_error *err)
{
    mp_pool *pool = mp_pool_new();
    mp_onnx_calls *c = pool ? mp_pool_alloc(pool, 1, sizeof *c) : NULL;
    if (!c) {
        mp_pool_free(pool);
        return MP_FAIL(err, MP_NOMEM, "no memory for the file's metadata");
    }
    *c = (mp_onnx_calls){.pool = pool, .found = mp_names_new(), .err = err};
    *out = c;
    MP_ENSURE(c->found, err, MP_NOMEM, "no memory for the file's metadata");
    return MP_OK;
}

void mp_onnx_calls_free(mp_onnx_calls *c)
{
    if (!c) return;
    mp_names_free(c->found);
    mp_pool_free(c->pool);
}

/* If the name is that of a call of a function in the list, returns the function's index, and sets *number; else -1. */
static int function_of(const char *name, size_t length, int *number)
{
    *number = 0;
    for (int k = 0; k < N_FUNCTIONS; k++) {
        const size_t n = strlen(functions[k]);
        if (length < n || memcmp(name, functions[k], n) != 0) continue;
        if (length == n) return k;
        if (name[n] != '_' || length == n + 1 || length > n + 1 + DIGITS_MAX) continue;
        if (strspn(name + n + 1, "0123456789") < length - n - 1) continue;
        *number = (int)strtol(name + n + 1, NULL, 10);
        return k;
    }
    return -1;
}

/* Adds a name, if it is that of a call. `is_found`: the file contains the call. */
static mp_status take_name(mp_onnx_calls *c, const char *name, size_t length, bool is_found)
{
    int number;
    const int k = function_of(name, length, &number);
    if (k < 0) return MP_OK;
    if (number >= c->numbers[k]) c->numbers[k] = number + 1;
    if (!is_found) return MP_OK;
    const char *copy = mp_pool_text(c->pool, name, length);
    MP_ENSURE(copy && mp_names_set(c->found, copy, 1), c->err, MP_NOMEM, "no memory for the file's metadata");
    return MP_OK;
}

mp_status mp_onnx_calls_take(mp_onnx_calls *c, const char *record)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    bool is_call = true; /* the first name is that of the call itself, the others are arguments */
    for (const char *at = record; (at = strchr(at, '%')); is_call = false) {
        const size_t length = strspn(++at, letters);
        MP_CHECK(take_name(c, at, length, is_call));
    }
    return MP_OK;
}

/* Adds the calls in a list of sources, such as "['linear', 'val_3']". */
static mp_status take_sources(void *data, const char *key, const char *value)
{
    if (strcmp(key, "pkg.onnxscript.optimizer.folded_from")) return MP_OK;
    for (const char *open = strchr(value, '\''), *close; open; open = strchr(close + 1, '\'')) {
        close = strchr(open + 1, '\'');
        if (!close) break;
        MP_CHECK(take_name(data, open + 1, (size_t)(close - open - 1), true));
    }
    return MP_OK;
}

mp_status mp_onnx_calls_doubt(mp_onnx_calls *c, mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget)
{
    for (size_t k = 0; k < graph->n_value_info; k++)
        MP_CHECK(mp_onnx_metadata_each(&graph->value_info[k]->base, MP_ONNX_VALUE_METADATA, budget, take_sources, c, c->err));
    for (int k = 0; k < N_FUNCTIONS; k++)
        for (int number = 0; number < c->numbers[k]; number++) {
            char name[NAME_MAX_BYTES];
            snprintf(name, sizeof name, number ? "%s_%d" : "%s", functions[k], number);
            if (mp_names_find(c->found, name) >= 0 || mp_model_find(model, name) >= 0) continue;
            MP_CHECK(mp_model_doubt(model, MP_DOUBT_MERGED, name, 0, c->err));
        }
    return MP_OK;
}
