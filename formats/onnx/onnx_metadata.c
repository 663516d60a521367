/* onnx_metadata.c - what PyTorch's newer exporter notes beside graphs, nodes and values (metadata_props): which
 * initializers are parameters, and the modules and source lines of operators.
 *
 * The exporter computes everything that depends on no input (transposed weights, rows of a position table, causal
 * masks, zeros) and names the results after the operator or by number. Their origin is only in the metadata:
 *
 *     graph        pkg.torch.export.ExportedProgram.graph_signature
 *                      p_l_weight: PARAMETER target='l.weight'
 *                      b_n_running_mean: BUFFER target='n.running_mean' persistent=True
 *     value_info   pkg.torch.export.graph_signature.InputSpec.kind    PARAMETER
 *                  pkg.onnxscript.optimizer.folded_from               ['l.weight', 'val_3']
 *
 * The older exporter puts modules into names ("/layer1/layer1.0/conv1/Conv"), the newer one into the metadata of nodes:
 *
 *     pkg.torch.onnx.name_scopes    ['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d']
 *     pkg.torch.onnx.stack_trace    File "/home/me/net.py", line 12, in forward
 *                                       return x + self.conv1(x)
 *                                     File ".../site-packages/torch/nn/modules/conv.py", line 548, in forward
 *                                       ...
 *
 * The fields are younger than Debian's schema; the scan renumbered them, so they come as unknown fields.
 */
#include "formats/onnx/onnx.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/names.h"
#include "formats/onnx/scan/onnx_scan.h"
#include "formats/onnx/scan/onnx_wire.h"

/* Takes one entry; the texts are valid during the call. A status other than MP_OK ends the reading. */
typedef mp_status (*entry_taker)(void *data, const char *key, const char *value);

/* Hands over every entry of the metadata that the scan has left in a message under the number `id`. MP_PARSE, MP_NOMEM. */
static mp_status each_entry(const ProtobufCMessage *message, uint32_t id, mp_onnx_budget *budget, entry_taker take, void *data,
                            mp_error *err)
{
    for (unsigned k = 0; k < message->n_unknown_fields; k++) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[k];
        if (field->tag != id) continue;
        const uint8_t *at = field->data;
        uint64_t length;
        MP_ENSURE(mp_wire_varint(&at, field->data + field->len, &length), err, MP_PARSE, "the file's metadata is damaged");
        Onnx__StringStringEntryProto *entry =
            onnx__string_string_entry_proto__unpack(&budget->allocator, field->len - (size_t)(at - field->data), at);
        if (!entry) return mp_onnx_budget_failure(budget, "an entry of the metadata", err);
        const mp_status st = take(data, entry->key ? entry->key : "", entry->value ? entry->value : "");
        onnx__string_string_entry_proto__free_unpacked(entry, &budget->allocator);
        MP_CHECK(st);
    }
    return MP_OK;
}

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
    MP_CHECK(each_entry(&graph->base, MP_ONNX_GRAPH_METADATA, budget, take_of_graph, &about, err));
    for (size_t k = 0; k < model->n_tensors; k++) {
        int said = mp_names_find(r.signature, model->tensors[k].name);
        if (said > 0) r.of[k] = (mp_onnx_origin)said;
    }
    for (size_t k = 0; k < graph->n_value_info; k++) {
        const Onnx__ValueInfoProto *info = graph->value_info[k];
        about.tensor = info->name ? mp_model_find(model, info->name) : -1;
        if (about.tensor >= 0) MP_CHECK(each_entry(&info->base, MP_ONNX_VALUE_METADATA, budget, take_of_tensor, &about, err));
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

enum { PATH_MAX_BYTES = 512, LINE_MAX_BYTES = 160, CALL_MAX_BYTES = 128 }; /* longer paths are left out, longer lines cut */

typedef struct scope {
    char path[PATH_MAX_BYTES];   /* "/layer1/layer1.0"; "" for none */
    char call[CALL_MAX_BYTES];   /* "conv2d", which occurs once in the program; "" for none */
    char source[LINE_MAX_BYTES]; /* "net.py:12: return x + self.conv1(x)" */
} scope;

/* Reads the path of modules: the quoted names but the last, which is the call's own. */
static void read_path(const char *text, scope *s)
{
    char *path = s->path;
    size_t n = 0, before = 0;
    for (const char *open = strchr(text, '\''), *close; open; open = strchr(close + 1, '\'')) {
        close = strchr(open + 1, '\'');
        if (!close) break;
        const size_t length = (size_t)(close - open - 1);
        if (!length) continue;
        if (n + length + 2 > PATH_MAX_BYTES) n = before = 0; /* no path rather than a part of one */
        before = n;
        path[n++] = '/';
        memcpy(path + n, open + 1, length);
        n += length;
        snprintf(s->call, sizeof s->call, "%.*s", length < sizeof s->call ? (int)length : 0, open + 1);
    }
    path[before] = '\0';
}

static bool is_of_a_library(const char *file, size_t length)
{
    static const char *const parts[] = {"site-packages/", "dist-packages/", "lib/python"};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        for (size_t at = 0, n = strlen(parts[k]); at + n <= length; at++)
            if (!memcmp(file + at, parts[k], n)) return true;
    return false;
}

/* Returns the number in `", line 12`, 0 if there is none. */
static long line_number(const char *text)
{
    static const char before[] = "\", line ";
    if (strncmp(text, before, sizeof before - 1) != 0) return 0;
    const long line = strtol(text + sizeof before - 1, NULL, 10);
    return line > 0 && line < INT_MAX ? line : 0;
}

/* Reads the innermost source line outside libraries, or the innermost of all. */
static void read_source(const char *text, char *source)
{
    bool own = false;
    for (const char *at = text, *close; (at = strstr(at, "File \"")); at = close) {
        const char *file = at + 6;
        close = strchr(file, '"');
        const char *end = close ? strchr(close, '\n') : NULL;
        if (!close) break;
        const long line = line_number(close);
        const bool library = is_of_a_library(file, (size_t)(close - file));
        if ((own && library) || !line) continue;
        own |= !library;
        for (const char *c = file; c < close; c++)
            if (*c == '/' || *c == '\\') file = c + 1;
        const char *code = end ? end + 1 + strspn(end + 1, " \t") : "";
        snprintf(source, LINE_MAX_BYTES, "%.*s:%ld%s%.*s", (int)(close - file), file, line, *code ? ": " : "",
                 (int)strcspn(code, "\r\n"), code);
    }
}

static mp_status take(void *data, const char *key, const char *value)
{
    scope *s = data;
    if (!strcmp(key, "pkg.torch.onnx.name_scopes")) read_path(value, s);
    if (!strcmp(key, "pkg.torch.onnx.stack_trace")) read_source(value, s->source);
    return MP_OK;
}

/* Cuts an incomplete UTF-8 character off the end. */
static void end_at_a_character(char *text)
{
    size_t n = strlen(text), k = n;
    while (k > 0 && ((unsigned char)text[k - 1] & 0xC0) == 0x80) k--;
    if (k == 0 || !((unsigned char)text[k - 1] & 0x80)) return;
    const unsigned char first = (unsigned char)text[k - 1];
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (n - (k - 1) < length) text[k - 1] = '\0';
}

static mp_status apply_to_tensor(mp_model *model, int index, const scope *s, mp_error *err)
{
    mp_tensor *t = &model->tensors[index];
    if (*s->source) {
        t->source = mp_pool_text(model->pool, s->source, strlen(s->source));
        MP_ENSURE(t->source, err, MP_NOMEM, "no memory for the file's metadata");
    }
    if (!*s->path || t->is_output || *t->name == '/') return MP_OK;
    const char *name = mp_pool_format(model->pool, "%s/%s", s->path, t->name);
    MP_ENSURE(name, err, MP_NOMEM, "no memory for the file's metadata");
    if (mp_model_find(model, name) >= 0) return MP_OK;
    MP_ENSURE(mp_names_set(model->names, name, index), err, MP_NOMEM, "no memory for the file's metadata");
    t->name = name;
    return MP_OK;
}

static mp_status apply(mp_model *model, const Onnx__NodeProto *node, const scope *s, mp_error *err)
{
    static const char prefix[] = "node_";
    int producer = -1;
    for (size_t k = 0; k < node->n_output; k++) {
        const int tensor = node->output[k] && *node->output[k] ? mp_model_find(model, node->output[k]) : -1;
        if (tensor < 0 || model->tensors[tensor].producer < 0) continue;
        producer = model->tensors[tensor].producer;
        if (strcmp(model->operators[producer].kind, "Constant")) MP_CHECK(apply_to_tensor(model, tensor, s, err));
    }
    if (producer < 0) return MP_OK;
    mp_operator *op = &model->operators[producer];
    if (*s->call)
        MP_ENSURE(op->call = mp_pool_text(model->pool, s->call, strlen(s->call)), err, MP_NOMEM,
                  "no memory for the file's metadata");
    if (!*s->path || *op->name == '/') return MP_OK;
    const bool is_prefixed = !strncmp(op->name, prefix, sizeof prefix - 1) && op->name[sizeof prefix - 1];
    op->name = mp_pool_format(model->pool, "%s/%s", s->path, op->name + (is_prefixed ? sizeof prefix - 1 : 0));
    MP_ENSURE(op->name, err, MP_NOMEM, "no memory for the file's metadata");
    return MP_OK;
}

mp_status mp_onnx_scopes_read(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget, mp_error *err)
{
    for (size_t k = 0; k < graph->n_node; k++) {
        scope s = {.path = "", .call = "", .source = ""};
        MP_CHECK(each_entry(&graph->node[k]->base, MP_ONNX_NODE_METADATA, budget, take, &s, err));
        end_at_a_character(s.source);
        if (*s.path || *s.call || *s.source) MP_CHECK(apply(model, graph->node[k], &s, err));
    }
    return MP_OK;
}
