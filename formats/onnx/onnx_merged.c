/* onnx_merged.c - separates initializers with equal values that PyTorch's exporters have merged.
 *
 * Before training all scales are ones, all biases and running means are zeros, and copied layers are equal. The older exporter
 * stores one of the equal tensors and writes the others as Identity of it:
 * Identity(layer1.0.bn1.bias) -> layer1.0.bn2.bias Identity(onnx::MatMul_16) -> onnx::MatMul_17 transposed weights: of two
 * layers, or of one layer that runs twice
 *
 * During training these tensors diverge. If two modules really share a tensor, the file has no Identity, unless the exporter
 * transposed the tensor for each module. In that case the names of the operators that read the tensor identify the module:
 * "/a/MatMul", and for the module's second call "/a_1/MatMul". The newer exporter writes no Identity for merged tensors. But
 * if it merged running statistics with a parameter, a batch normalization reads the parameter as a statistic. */
#include <ctype.h>
#include <string.h>

#include "estimator/base/names.h"
#include "estimator/model/ops.h"
#include "formats/onnx/onnx.h"

typedef struct separator {
    mp_model *model;
    int *reader;    /* per tensor: index of the first operator, except Identity, that reads it; -1: none */
    mp_names *kept; /* map from "SOURCE MODULE" to the tensor that this module reads instead of SOURCE */
    mp_error *err;
} separator;

static bool is_identity(const mp_operator *op)
{
    return !op->removed && !strcmp(op->kind, "Identity") && !*op->domain && op->n_in == 1 && op->n_out == 1 && op->in[0] >= 0 &&
           op->out[0] >= 0;
}

/* Returns the length of the module name in the name of the operator that reads a tensor: "/a_1" in "/a_1/MatMul". 0: the
 * name contains no module. */
static size_t module_of(const separator *s, int tensor, const char **name)
{
    const int reader = s->reader[tensor];
    *name = reader >= 0 ? s->model->operators[reader].name : "";
    const char *slash = strrchr(*name, '/');
    return slash ? (size_t)(slash - *name) : 0;
}

/* Returns the length of a module name without the number of the call at its end: "/a" of "/a_1". */
static size_t without_call(const char *module, size_t length)
{
    size_t n = length;
    while (n && isdigit((unsigned char)module[n - 1])) n--;
    return n && n < length && module[n - 1] == '_' ? n - 1 : length;
}

static mp_status find_kept(const separator *s, int source, const char *module, size_t length, const char **key, int *kept)
{
    *key = mp_pool_format(s->model->pool, "%d %.*s", source, (int)length, module);
    MP_ENSURE(*key, s->err, MP_NOMEM, "no memory for the file's tensors");
    *kept = mp_names_find(s->kept, *key);
    return MP_OK;
}

static mp_status keep(const separator *s, const char *key, int tensor)
{
    return mp_names_set(s->kept, key, tensor) ? MP_OK : MP_FAIL(s->err, MP_NOMEM, "no memory for the file's tensors");
}

/* Converts the output of an Identity to an initializer. */
static mp_status separate(separator *s, mp_operator *op)
{
    const mp_tensor from = s->model->tensors[op->in[0]];
    mp_tensor *to = &s->model->tensors[op->out[0]];
    MP_CHECK(mp_tensor_set(s->model, op->out[0], from.dtype, from.rank, from.dims, s->err));
    to->value = from.value;
    to->role = MP_ROLE_CONSTANT;
    to->producer = -1;
    op->removed = true;
    return MP_OK;
}

/* Separates a merged tensor whose name the exporter generated, unless the module that reads it has a tensor of its own
 * already. In one call, a module reads several merged vectors only if they are parts of one bias, such as those of query, key
 * and value. The exporter transposes matrices for each use, so several of them may be one weight. */
static mp_status separate_for_module(separator *s, mp_operator *op)
{
    const char *module, *key, *own;
    int kept;
    size_t length = module_of(s, op->in[0], &module);
    MP_CHECK(find_kept(s, op->in[0], module, length, &key, &kept));
    if (kept < 0) MP_CHECK(keep(s, key, op->in[0]));
    length = module_of(s, op->out[0], &module);
    MP_CHECK(find_kept(s, op->in[0], module, length, &own, &kept));
    if (kept >= 0 && s->model->tensors[op->in[0]].rank == 1) return separate(s, op);
    if (kept < 0) MP_CHECK(find_kept(s, op->in[0], module, without_call(module, length), &key, &kept));
    if (kept >= 0) {
        op->in[0] = kept;
        return MP_OK;
    }
    MP_CHECK(keep(s, own, op->out[0]));
    return separate(s, op);
}

static mp_status visit(separator *s, mp_operator *op)
{
    if (!is_identity(op)) return MP_OK;
    const mp_tensor *from = &s->model->tensors[op->in[0]], *to = &s->model->tensors[op->out[0]];
    if (op->region || from->producer >= 0 || from->role != MP_ROLE_CONSTANT || !mp_dtype_is_float(from->dtype) || to->is_output)
        return MP_OK;
    if (mp_onnx_names_state(to->name) || mp_onnx_names_entry(to->name)) return separate(s, op);
    return strncmp(to->name, "onnx::", 6) ? MP_OK : separate_for_module(s, op);
}

static void separator_free(separator *s)
{
    mp_free(s->reader);
    mp_names_free(s->kept);
}

mp_status mp_onnx_separate(mp_model *model, mp_error *err)
{
    MP_CLEARED_BY(separator_free) separator s = {.model = model, .err = err};
    MP_ENSURE((s.reader = mp_alloc(model->n_tensors, sizeof *s.reader)) && (s.kept = mp_names_new()), err, MP_NOMEM,
              "no memory for the file's tensors");
    for (size_t k = 0; k < model->n_tensors; k++) s.reader[k] = -1;
    for (size_t n = model->n_operators; n-- > 0;) {
        const mp_operator *op = &model->operators[n];
        for (int k = 0; k < op->n_in && !is_identity(op); k++)
            if (op->in[k] >= 0) s.reader[op->in[k]] = (int)n;
    }
    for (size_t n = 0; n < model->n_operators; n++) MP_CHECK(visit(&s, &model->operators[n]));
    return MP_OK;
}

mp_status mp_onnx_separate_statistics(mp_model *model, mp_error *err)
{
    for (size_t n = 0; n < model->n_operators; n++) {
        mp_operator *op = &model->operators[n];
        const mp_op *row = mp_op_find(op->domain, op->kind, op->version);
        for (int k = 0; k < op->n_in && !op->removed; k++) {
            if (op->in[k] < 0 || mp_op_input_of(row, k).use != MP_USE_STATISTIC) continue;
            const mp_tensor from = model->tensors[op->in[k]];
            int own;
            if (from.role != MP_ROLE_PARAMETER || from.producer >= 0 || from.rank < 0) continue;
            MP_CHECK(mp_model_fresh_tensor(model, mp_pool_format(model->pool, "%s.statistics", from.name), &own, err));
            MP_CHECK(mp_tensor_set(model, own, from.dtype, from.rank, from.dims, err));
            model->tensors[own].role = MP_ROLE_BUFFER;
            model->tensors[own].role_reason = "running statistics, which the exporter has merged with a parameter";
            op->in[k] = own;
        }
    }
    return MP_OK;
}
