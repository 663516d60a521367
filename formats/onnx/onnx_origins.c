/* onnx_origins.c - reads metadata_props: which initializers are parameters, as PyTorch's newer exporter notes them.
 *
 * The exporter computes everything that depends on no input (transposed weights, rows of a position table, causal
 * masks, zeros) and names the results after the operator or by number. Their origin is only in the metadata:
 *
 *     graph        pkg.torch.export.ExportedProgram.graph_signature
 *                      p_l_weight: PARAMETER target='l.weight'
 *                      b_n_running_mean: BUFFER target='n.running_mean' persistent=True
 *     value_info   pkg.torch.export.graph_signature.InputSpec.kind    PARAMETER
 *                  pkg.onnxscript.optimizer.folded_from               ['l.weight', 'val_3']
 */
#include "formats/onnx/onnx.h"

#include <string.h>

#include "estimator/base/names.h"
#include "formats/onnx/scan/onnx_scan.h"

typedef struct reader {
    const mp_model *model;
    mp_onnx_budget *budget;
    mp_pool *pool;
    mp_names *signature; /* name in the exported program's state -> mp_onnx_origin */
    mp_onnx_origin *of;
    const char **means; /* running means of the exported program, by name */
    size_t n_means, means_capacity;
    mp_error *err;
} reader;

static const char running_mean[] = "running_mean";

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && !strcmp(text + n - m, ending);
}

static mp_onnx_origin kind_of(const char *text, size_t length)
{
    static const struct {
        const char *name;
        mp_onnx_origin origin;
    } kinds[] = {{"PARAMETER", MP_ONNX_ORIGIN_PARAMETER},
                 {"BUFFER", MP_ONNX_ORIGIN_BUFFER},
                 {"CONSTANT_TENSOR", MP_ONNX_ORIGIN_CONSTANT}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strlen(kinds[k].name) == length && !memcmp(kinds[k].name, text, length)) return kinds[k].origin;
    return MP_ONNX_ORIGIN_UNSAID;
}

/* Returns the text between the next two quotation marks before `end`, and its length; NULL if there is none. */
static const char *quoted(const char *at, const char *end, size_t *length)
{
    const char *open = memchr(at, '\'', (size_t)(end - at));
    const char *close = open ? memchr(open + 1, '\'', (size_t)(end - open - 1)) : NULL;
    if (!close) return NULL;
    *length = (size_t)(close - open - 1);
    return open + 1;
}

/* Reads one line of the signature: "NAME: KIND target='TARGET' ...". */
static mp_status read_line(reader *r, const char *line, const char *end)
{
    const char *colon = memchr(line, ':', (size_t)(end - line)), *kind = colon ? colon + 1 : end;
    while (kind < end && *kind == ' ') kind++;
    const char *space = memchr(kind, ' ', (size_t)(end - kind));
    size_t length;
    const char *target = space ? quoted(space, end, &length) : NULL;
    mp_onnx_origin origin = target ? kind_of(kind, (size_t)(space - kind)) : MP_ONNX_ORIGIN_UNSAID;
    if (origin == MP_ONNX_ORIGIN_UNSAID) return MP_OK;
    const char *name = mp_pool_text(r->pool, target, length);
    MP_ENSURE(name && mp_names_set(r->signature, name, (int)origin), r->err, MP_NOMEM, "no memory for the file's metadata");
    if (origin != MP_ONNX_ORIGIN_BUFFER || !ends_with(name, running_mean)) return MP_OK;
    MP_ENSURE(mp_grow(&r->means, &r->means_capacity, r->n_means + 1, sizeof *r->means), r->err, MP_NOMEM,
              "no memory for the file's metadata");
    r->means[r->n_means++] = name;
    return MP_OK;
}

static mp_status read_signature(reader *r, const char *text)
{
    for (const char *line = text; *line;) {
        const char *end = line + strcspn(line, "\n");
        MP_CHECK(read_line(r, line, end));
        line = *end ? end + 1 : end;
    }
    return MP_OK;
}

/* Finds whether a parameter is among the names of "['l.weight', 'val_3']". */
static mp_status read_folded(reader *r, const char *text, mp_onnx_origin *out)
{
    const char *end = text + strlen(text);
    size_t length;
    *out = MP_ONNX_ORIGIN_OF_CONSTANTS;
    for (const char *name; (name = quoted(text, end, &length)); text = name + length + 1) {
        char *copy = mp_alloc(length + 1, 1);
        MP_ENSURE(copy, r->err, MP_NOMEM, "no memory for the file's metadata");
        memcpy(copy, name, length);
        if (mp_names_find(r->signature, copy) == MP_ONNX_ORIGIN_PARAMETER) *out = MP_ONNX_ORIGIN_OF_PARAMETERS;
        mp_free(copy);
    }
    return MP_OK;
}

/* The tensor that an entry is about; -1: the whole graph. */
typedef struct subject {
    reader *r;
    int tensor;
} subject;

static mp_status take_of_graph(void *data, const char *key, const char *value)
{
    reader *r = ((subject *)data)->r;
    return strcmp(key, "pkg.torch.export.ExportedProgram.graph_signature") ? MP_OK : read_signature(r, value);
}

static mp_status take_of_tensor(void *data, const char *key, const char *value)
{
    reader *r = ((subject *)data)->r;
    const int tensor = ((subject *)data)->tensor;
    if (!strcmp(key, "pkg.torch.export.graph_signature.InputSpec.kind")) {
        mp_onnx_origin said = kind_of(value, strlen(value));
        if (said) r->of[tensor] = said;
    } else if (!strcmp(key, "pkg.onnxscript.optimizer.folded_from")) {
        return read_folded(r, value, &r->of[tensor]);
    }
    return MP_OK;
}

/* Finds whether the scale beside this running mean is a buffer: detectors freeze batch normalization so, as arithmetic. */
static mp_status is_frozen(const reader *r, const char *mean, bool *out)
{
    const size_t stem = strlen(mean) - strlen(running_mean);
    char *scale = mp_alloc(stem + sizeof "weight", 1);
    MP_ENSURE(scale, r->err, MP_NOMEM, "no memory for the file's metadata");
    memcpy(scale, mean, stem);
    memcpy(scale + stem, "weight", sizeof "weight");
    *out = mp_names_find(r->signature, scale) == MP_ONNX_ORIGIN_BUFFER;
    mp_free(scale);
    return MP_OK;
}

/* True for names of folded tensors: newer exporters write biases "conv.weight_bias", older ones filters "onnx::Conv_497". */
static bool is_named_as_folded(const mp_tensor *t)
{
    return t->role == MP_ROLE_CONSTANT && mp_dtype_is_float(t->dtype) &&
           (ends_with(t->name, ".weight_bias") || (!strncmp(t->name, "onnx::Conv", 10) && t->rank >= 3));
}

static mp_status count_folded_norms(const reader *r, int *out)
{
    int n = 0, there = 0;
    bool frozen = false;
    for (size_t k = 0; k < r->n_means; k++) {
        MP_CHECK(is_frozen(r, r->means[k], &frozen));
        n += !frozen;
    }
    for (size_t k = 0; !r->n_means && k < r->model->n_tensors; k++) n += is_named_as_folded(&r->model->tensors[k]);
    for (size_t k = 0; r->n_means && k < r->model->n_operators; k++)
        there += !strcmp(r->model->operators[k].kind, "BatchNormalization");
    *out = n > there ? n - there : 0;
    return MP_OK;
}

static void reader_free(reader *r)
{
    mp_names_free(r->signature);
    mp_pool_free(r->pool);
    mp_free(r->of);
    mp_free(r->means);
}

mp_status mp_onnx_origins_read(const mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget,
                               mp_onnx_origins *out, mp_error *err)
{
    MP_CLEARED_BY(reader_free) reader r = {.model = model, .budget = budget, .err = err};
    MP_ENSURE((r.pool = mp_pool_new()) && (r.signature = mp_names_new()) && (r.of = mp_alloc(model->n_tensors, sizeof *r.of)),
              err, MP_NOMEM, "no memory for the file's metadata");
    subject about = {&r, -1};
    MP_CHECK(mp_onnx_metadata_each(&graph->base, MP_ONNX_GRAPH_METADATA, budget, take_of_graph, &about, err));
    for (size_t k = 0; k < model->n_tensors; k++) {
        int said = mp_names_find(r.signature, model->tensors[k].name);
        if (said > 0) r.of[k] = (mp_onnx_origin)said;
    }
    for (size_t k = 0; k < graph->n_value_info; k++) {
        const Onnx__ValueInfoProto *info = graph->value_info[k];
        about.tensor = info->name ? mp_model_find(model, info->name) : -1;
        if (about.tensor >= 0)
            MP_CHECK(mp_onnx_metadata_each(&info->base, MP_ONNX_VALUE_METADATA, budget, take_of_tensor, &about, err));
    }
    MP_CHECK(count_folded_norms(&r, &out->folded_norms));
    out->of = r.of;
    r.of = NULL;
    return MP_OK;
}

void mp_onnx_origins_free(mp_onnx_origins *origins)
{
    mp_free(origins->of);
    *origins = (mp_onnx_origins){0};
}
