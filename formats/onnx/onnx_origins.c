/* onnx_origins.c - reads metadata_props, in which PyTorch's newer exporter records which initializers are parameters.
 *
 * The exporter computes in advance all results that depend on no input: transposed weights, rows of a position table, causal
 * masks, zeros. It names such results after the operator or by number. Only the metadata state from which tensors they were
 * computed:
 *
 *     graph        pkg.torch.export.ExportedProgram.graph_signature
 *                      p_l_weight: PARAMETER target='l.weight'
 *                      b_n_running_mean: BUFFER target='n.running_mean' persistent=True
 *     value_info   pkg.torch.export.graph_signature.InputSpec.kind    PARAMETER
 *                  pkg.onnxscript.optimizer.folded_from               ['l.weight', 'val_3']
 *
 * For operator sets below 18, PyTorch converts the finished file, and the conversion loses the signature. Other tools remove
 * it, too. The exporter also merges small tensors with equal values; the signature shows which parameters are missing. */
#include "formats/onnx/onnx.h"

#include <string.h>

#include "estimator/base/names.h"
#include "formats/onnx/scan/onnx_scan.h"

typedef struct reader {
    mp_model *model;
    mp_onnx_budget *budget;
    mp_pool *pool;
    mp_names
        *signature;    /* map from the name of a parameter, buffer or constant of the exported program to its mp_onnx_origin */
    mp_names *sources; /* names of all tensors from which the exporter has computed a floating-point tensor */
    mp_onnx_origin *of;
    const char **means, **parameters; /* names of the running means, and names of the parameters, of the exported program */
    size_t n_means, means_capacity, n_parameters, parameters_capacity;
    bool is_signed;
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

/* Returns the start of the next text in quotation marks before `end`, and the length of this text; NULL: there is none. */
static const char *quoted(const char *at, const char *end, size_t *length)
{
    const char *open = memchr(at, '\'', (size_t)(end - at));
    const char *close = open ? memchr(open + 1, '\'', (size_t)(end - open - 1)) : NULL;
    if (!close) return NULL;
    *length = (size_t)(close - open - 1);
    return open + 1;
}

/* Reads one line of the signature, such as "NAME: KIND target='TARGET' ...". */
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
    r->is_signed = true;
    if (origin == MP_ONNX_ORIGIN_PARAMETER) {
        MP_ENSURE(mp_grow(&r->parameters, &r->parameters_capacity, r->n_parameters + 1, sizeof *r->parameters), r->err,
                  MP_NOMEM, "no memory for the file's metadata");
        r->parameters[r->n_parameters++] = name;
    }
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

/* The tensors from which a tensor was computed. */
typedef struct folded {
    int parameters, buffers; /* numbers of parameters and buffers among them, if the file has a signature */
    const char *parameter;   /* name of one of these parameters; NULL: none */
    bool moves, maps; /* moves: true if all operators that the exporter has evaluated only move elements; maps: true if each of
                         these operators moves elements or computes each element from a single element */
} folded;

/* Processes the name of a result that the exporter has evaluated. "val_3" is a result of the exporter's own operators. */
static void take_result(folded *f, const char *name)
{
    static const char moves[] =
        "val t transpose permute view _unsafe_view reshape flatten unflatten unsqueeze squeeze alias "
        "clone detach contiguous _to_copy lift_fresh_copy cat concat stack split split_with_sizes chunk "
        "unbind getitem flip roll swapaxes movedim numpy_T mT zeros scalar_tensor_default";
    static const char maps[] = "neg exp log abs sign sqrt rsqrt reciprocal square pow mul div add sub rsub sigmoid tanh relu "
                               "softplus softmax clamp tril triu";
    const bool is_move = mp_onnx_names_result_of(name, moves);
    f->moves &= is_move;
    f->maps &= is_move || mp_onnx_names_result_of(name, maps);
}

/* True if the parameters from which a tensor was computed may have another number of elements than the tensor. This is so if
 * the tensor was sliced or expanded, or computed from several tensors, as weight normalization does. */
static bool is_resized(const folded *f)
{
    return f->parameters && !f->moves && !(f->maps && f->parameters + f->buffers == 1);
}

/* True if a buffer is a vector of PyTorch's spectral normalization of this parameter. Its two forms name them
 * "l.parametrizations.weight.original" and "l.parametrizations.weight.0._u", or "l.weight_orig" and "l.weight_u". */
static bool is_spectral_vector(const char *parameter, const char *buffer)
{
    static const char original[] = ".original", orig[] = "_orig";
    const bool is_parametrized = ends_with(parameter, original);
    if (!is_parametrized && !ends_with(parameter, orig)) return false;
    const size_t stem = strlen(parameter) - strlen(is_parametrized ? original : orig);
    const char *rest = buffer + stem;
    if (strncmp(parameter, buffer, stem) != 0) return false;
    if (is_parametrized && *rest == '.') rest += 1 + strspn(rest + 1, "0123456789");
    return !strcmp(rest, is_parametrized ? "._u" : "_u") || !strcmp(rest, is_parametrized ? "._v" : "_v");
}

/* True if the tensor is a parameter after spectral normalization, which divides it by one number. */
static bool is_spectral(const reader *r, const folded *f, const char *text)
{
    const char *end = text + strlen(text);
    size_t length;
    if (f->parameters != 1 || !f->buffers) return false;
    for (const char *name; (name = quoted(text, end, &length)); text = name + length + 1) {
        const char *copy = mp_pool_text(r->pool, name, length);
        if (!copy) return false;
        if (mp_names_find(r->signature, copy) == MP_ONNX_ORIGIN_BUFFER && !is_spectral_vector(f->parameter, copy)) return false;
    }
    return true;
}

/* Processes the name of one tensor from which a floating-point tensor was computed. */
static mp_status take_source(reader *r, int tensor, const char *name, folded *f)
{
    const int said = mp_names_find(r->signature, name), at = mp_model_find(r->model, name);
    const mp_tensor *t = &r->model->tensors[tensor];
    const bool is_written =
        at >= 0 && r->model->tensors[at].producer >= 0; /* true if an operator of the file still computes this source. The
                                                           exporter then knew only its shape, not its value */
    const bool is_state =
        !is_written && !mp_onnx_names_result(name) && !mp_onnx_names_table(name) && !mp_onnx_names_statistic(name);
    MP_ENSURE(mp_names_set(r->sources, name, 1), r->err, MP_NOMEM, "no memory for the file's metadata");
    if (said == MP_ONNX_ORIGIN_PARAMETER) f->parameters++, f->parameter = name;
    f->buffers += said == MP_ONNX_ORIGIN_BUFFER;
    if (said < 0) take_result(f, name);
    if (r->is_signed ? said != MP_ONNX_ORIGIN_PARAMETER : !is_state) return MP_OK;
    r->of[tensor] = r->is_signed ? MP_ONNX_ORIGIN_OF_PARAMETERS : MP_ONNX_ORIGIN_OF_STATE;
    if (at < 0 || r->model->tensors[at].producer >= 0 || r->model->tensors[at].rank < 0) return MP_OK;
    return mp_model_doubt(r->model, MP_DOUBT_COPIED, name, mp_tensor_elements(t), r->err);
}

/* Reads a list of names such as "['l.weight', 'val_3']". If the file has a signature, only names of parameters count.
 * Otherwise every name of a state dictionary counts. */
static mp_status read_folded(reader *r, int tensor, const char *text)
{
    const mp_tensor *t = &r->model->tensors[tensor];
    const char *end = text + strlen(text);
    size_t length;
    if (t->producer >= 0 || t->rank < 0 || !mp_dtype_is_float(t->dtype)) return MP_OK;
    r->of[tensor] = MP_ONNX_ORIGIN_OF_CONSTANTS;
    folded f = {.moves = true, .maps = true};
    take_result(&f, t->name);
    const char *const all = text;
    for (const char *name; (name = quoted(text, end, &length)); text = name + length + 1) {
        const char *copy = mp_pool_text(r->pool, name, length);
        MP_ENSURE(copy, r->err, MP_NOMEM, "no memory for the file's metadata");
        MP_CHECK(take_source(r, tensor, copy, &f));
    }
    if (is_resized(&f) && !is_spectral(r, &f, all))
        return mp_model_doubt(r->model, MP_DOUBT_RESIZED, t->name, mp_tensor_elements(t), r->err);
    if (r->of[tensor] != MP_ONNX_ORIGIN_OF_STATE) return MP_OK;
    return mp_model_doubt(r->model, MP_DOUBT_UNSIGNED, t->name, mp_tensor_elements(t), r->err);
}

/* The tensor to which a metadata entry belongs; -1: the entry belongs to the whole graph. */
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
        return read_folded(r, tensor, value);
    }
    return MP_OK;
}

/* Finds the kind that the signature states for another tensor of the same module. Its name is `name` with `entry` in place
 * of `last`, the last component. */
static mp_status kind_beside(const reader *r, const char *name, const char *last, const char *entry, int *kind)
{
    const size_t stem = strlen(name) - strlen(last);
    const char *beside = mp_pool_format(r->pool, "%.*s%s", (int)stem, name, entry);
    MP_ENSURE(beside, r->err, MP_NOMEM, "no memory for the file's metadata");
    *kind = mp_names_find(r->signature, beside);
    return MP_OK;
}

/* True for names that the older exporter gives to folded operands of an operator of this kind: "onnx::Conv_497". */
static bool is_of_folded_operand(const mp_model *model, int tensor, const char *kind)
{
    static const char prefix[] = "onnx::";
    const size_t length = sizeof prefix - 1;
    const char *name = tensor >= 0 ? model->tensors[tensor].name : "";
    return !strncmp(name, prefix, length) && !strncmp(name + length, kind, strlen(kind));
}

bool mp_onnx_has_folded_filter(const mp_model *model, const mp_operator *op, bool *is_norm)
{
    enum { FILTER = 1, BIAS = 2, LEAST_RANK = 3 };
    /* a Gemm reads a weight under its own name, unless the exporter has computed the weight */
    const bool is_product = !strcmp(op->kind, "Gemm");
    const char *kind = is_product ? "Gemm" : "Conv";
    *is_norm = false;
    if (strncmp(op->kind, kind, 4) || op->n_in <= FILTER || !is_of_folded_operand(model, op->in[FILTER], kind)) return false;
    const mp_tensor *filter = &model->tensors[op->in[FILTER]];
    *is_norm = !is_product && op->n_in > BIAS && is_of_folded_operand(model, op->in[BIAS], kind);
    return filter->role == MP_ROLE_CONSTANT && mp_dtype_is_float(filter->dtype) && (is_product || filter->rank >= LEAST_RANK);
}

/* True for names of biases that the newer exporter makes when it folds a normalization: "conv.weight_bias". */
static bool is_named_as_folded(const mp_tensor *t)
{
    return t->role == MP_ROLE_CONSTANT && mp_dtype_is_float(t->dtype) && ends_with(t->name, ".weight_bias");
}

/* Counts the node if the optimizer of the exporter has folded a batch normalization into it. */
static mp_status take_of_node(void *data, const char *key, const char *value)
{
    if (!strcmp(key, "pkg.onnxscript.rewriter.rule_name")) *(int *)data += strstr(value, "FuseBatchNormInto") != NULL;
    return MP_OK;
}

/* Counts the folded batch normalizations in a file without signature, from the names of tensors and the metadata of nodes. */
static mp_status count_marked_norms(const reader *r, const Onnx__GraphProto *graph, int *out)
{
    int named = 0, noted = 0;
    for (size_t k = 0; k < r->model->n_tensors; k++) named += is_named_as_folded(&r->model->tensors[k]);
    for (size_t k = 0; k < r->model->n_operators; k++) {
        bool is_norm = false;
        named += mp_onnx_has_folded_filter(r->model, &r->model->operators[k], &is_norm) && is_norm;
    }
    for (size_t k = 0; k < graph->n_node; k++)
        MP_CHECK(mp_onnx_metadata_each(&graph->node[k]->base, MP_ONNX_NODE_METADATA, r->budget, take_of_node, &noted, r->err));
    *out = named > noted ? named : noted;
    return MP_OK;
}

static mp_status count_folded_norms(const reader *r, const Onnx__GraphProto *graph, int *out)
{
    int n = 0, there = 0, scale;
    if (!r->n_means) return count_marked_norms(r, graph, out);
    for (size_t k = 0; k < r->n_means;
         k++) { /* detectors contain frozen batch normalizations, which are written as arithmetic and whose scale is a buffer */
        MP_CHECK(kind_beside(r, r->means[k], running_mean, "weight", &scale));
        n += scale != MP_ONNX_ORIGIN_BUFFER;
    }
    for (size_t k = 0; k < r->model->n_operators; k++) there += !strcmp(r->model->operators[k].kind, "BatchNormalization");
    *out = n > there ? n - there : 0;
    return MP_OK;
}

/* True if this parameter belongs to a batch normalization that the exporter has folded into another operator. */
static mp_status is_folded(const reader *r, const char *name, bool *out)
{
    int mean = -1;
    *out = false;
    const char *last = ends_with(name, "weight") ? "weight" : ends_with(name, "bias") ? "bias" : NULL;
    if (last) MP_CHECK(kind_beside(r, name, last, running_mean, &mean));
    *out = mean == MP_ONNX_ORIGIN_BUFFER;
    return MP_OK;
}

/* Counts the parameters of the program that the file does not contain, and from which no tensor of the file was computed. */
static mp_status count_missing(const reader *r, int folded_norms)
{
    for (size_t k = 0; k < r->n_parameters; k++) {
        const char *name = r->parameters[k];
        bool folded;
        if (mp_model_find(r->model, name) >= 0 || mp_names_find(r->sources, name) >= 0) continue;
        MP_CHECK(is_folded(r, name, &folded));
        if (!folded || !folded_norms) MP_CHECK(mp_model_doubt(r->model, MP_DOUBT_MISSING, name, 0, r->err));
    }
    return MP_OK;
}

/* True if the nodes have names as PyTorch's newer exporter generates them, such as "node_linear". */
static bool is_of_newer_exporter(const Onnx__GraphProto *graph)
{
    size_t n = 0;
    for (size_t k = 0; k < graph->n_node; k++) n += !strncmp(mp_onnx_text(graph->node[k]->name), "node_", 5);
    return n > 0 && 2 * n >= graph->n_node;
}

static void reader_free(reader *r)
{
    mp_names_free(r->signature);
    mp_names_free(r->sources);
    mp_free(r->parameters);
    mp_pool_free(r->pool);
    mp_free(r->of);
    mp_free(r->means);
}

mp_status mp_onnx_origins_read(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget, mp_onnx_origins *out,
                               mp_error *err)
{
    MP_CLEARED_BY(reader_free) reader r = {.model = model, .budget = budget, .err = err};
    MP_ENSURE((r.pool = mp_pool_new()) && (r.signature = mp_names_new()) && (r.sources = mp_names_new()) &&
                  (r.of = mp_alloc(model->n_tensors, sizeof *r.of)),
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
    MP_CHECK(count_folded_norms(&r, graph, &out->folded_norms));
    MP_CHECK(count_missing(&r, out->folded_norms));
    out->is_newer = r.is_signed || is_of_newer_exporter(graph);
    out->is_unsigned = !r.is_signed && (out->is_newer || model->doubts[MP_DOUBT_UNSIGNED].n);
    out->of = r.of;
    r.of = NULL;
    return MP_OK;
}

void mp_onnx_origins_free(mp_onnx_origins *origins)
{
    mp_free(origins->of);
    *origins = (mp_onnx_origins){0};
}
