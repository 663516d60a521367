/* onnx_metadata.c - reads metadata_props: modules, source lines and calls of operators, as recorded by PyTorch's newer
 * exporter.
 *
 * The older exporter writes modules into names ("/layer1/layer1.0/conv1/Conv"), the newer one into the metadata of nodes:
 *
 *     pkg.torch.onnx.name_scopes    ['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d']
 *     pkg.torch.onnx.stack_trace    File "/home/me/net.py", line 12, in forward
 *                                       return x + self.conv1(x)
 *                                     File ".../site-packages/torch/nn/modules/conv.py", line 548, in forward
 *                                       ...
 *
 * Older ONNX schemas, such as Debian's, lack these fields. onnx_scan.c stores them under other numbers, so protobuf-c returns
 * them as unknown fields. */
#include "formats/onnx/onnx.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/names.h"
#include "formats/onnx/scan/onnx_scan.h"
#include "formats/onnx/scan/onnx_wire.h"

mp_status mp_onnx_metadata_each(const ProtobufCMessage *message, uint32_t id, mp_onnx_budget *budget, mp_onnx_entry_taker take,
                                void *data, mp_error *err)
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

enum {
    PATH_MAX_BYTES = 512,
    LINE_MAX_BYTES = 160,
    CALL_MAX_BYTES = 128
}; /* limits in bytes: a longer path is omitted, a longer line is truncated */

typedef struct scope {
    mp_model *model;
    char path[PATH_MAX_BYTES];   /* path of the modules, such as "/layer1/layer1.0"; "": none */
    char call[CALL_MAX_BYTES];   /* name of the function call, such as "conv2d", which is unique in the program; "": none */
    char source[LINE_MAX_BYTES]; /* source line, such as "net.py:12: return x + self.conv1(x)"; "": none */
    size_t node;
    mp_onnx_copies *copies;
    mp_onnx_calls *calls;
} scope;

/* Reads the path of the modules. It consists of all quoted names except the last one, which is the name of the function
 * call. */
static void read_path(const char *text, scope *s)
{
    char *path = s->path;
    size_t n = 0, before = 0;
    for (const char *open = strchr(text, '\''), *close; open; open = strchr(close + 1, '\'')) {
        close = strchr(open + 1, '\'');
        if (!close) break;
        const size_t length = (size_t)(close - open - 1);
        if (!length) continue;
        if (n + length + 2 > PATH_MAX_BYTES)
            n = before = 0; /* a path that is too long is omitted as a whole, because a truncated one would be wrong */
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

/* Returns the line number in a text such as `", line 12`; 0: none. */
static long line_number(const char *text)
{
    static const char before[] = "\", line ";
    if (strncmp(text, before, sizeof before - 1) != 0) return 0;
    const long line = strtol(text + sizeof before - 1, NULL, 10);
    return line > 0 && line < INT_MAX ? line : 0;
}

/* Reads the innermost source line that is not in a library. If all lines are in libraries, reads the innermost line. */
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
    if (!strcmp(key, "pkg.torch.onnx.class_hierarchy")) s->model->is_of_transformers |= strstr(value, "'transformers.") != NULL;
    if (strcmp(key, "pkg.torch.onnx.fx_node")) return MP_OK;
    MP_CHECK(mp_onnx_calls_take(s->calls, value));
    return mp_onnx_copies_take(s->copies, s->node, value);
}

/* Removes a UTF-8 character at the end that was truncated. */
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
    MP_OWNED_BY(mp_onnx_copies_free) mp_onnx_copies *copies = NULL;
    MP_OWNED_BY(mp_onnx_calls_free) mp_onnx_calls *calls = NULL;
    MP_CHECK(mp_onnx_copies_new(model, graph, &copies, err));
    MP_CHECK(mp_onnx_calls_new(&calls, err));
    for (size_t k = 0; k < graph->n_node; k++) {
        scope s = {.model = model, .path = "", .call = "", .source = "", .node = k, .copies = copies, .calls = calls};
        MP_CHECK(mp_onnx_metadata_each(&graph->node[k]->base, MP_ONNX_NODE_METADATA, budget, take, &s, err));
        end_at_a_character(s.source);
        if (*s.path || *s.call || *s.source) MP_CHECK(apply(model, graph->node[k], &s, err));
    }
    MP_CHECK(mp_onnx_calls_doubt(calls, model, graph, budget));
    return mp_onnx_copies_add(copies);
}
