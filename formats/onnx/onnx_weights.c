/* onnx_weights.c - finds the TensorProtos of the graph in the file's bytes, and records the position of each tensor's
 * values. onnx_scan.c has checked the file when the model was read, but the file may have changed, so every length is
 * checked again. */
#include "formats/onnx/onnx_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "estimator/base/names.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/onnx_tensor.h"
#include "formats/onnx/scan/onnx_wire.h"

enum {
    MODEL_GRAPH = 7,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_KIND = 4,
    NODE_ATTRIBUTE = 5
};
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_TENSOR = 5, ATTRIBUTE_GRAPH = 6 };
enum { TENSOR_TYPE = 2, TENSOR_FLOATS = 4, TENSOR_INT32S = 5, TENSOR_INT64S = 7, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { TENSOR_DOUBLES = 10, TENSOR_UINT64S = 11, TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14, ENTRY_KEY = 1, ENTRY_VALUE = 2 };

const char *mp_onnx_join(mp_pool *pool, const char *prefix, const char *name)
{
    return mp_pool_format(pool, "%s/%s", prefix, *name == '/' ? name + 1 : name);
}

const char *mp_onnx_subgraph_prefix(mp_pool *pool, const char *node, const char *attribute)
{
    const char *branch = strstr(attribute, "_branch");
    return mp_pool_format(pool, "%s#%.*s", node, branch ? (int)(branch - attribute) : 0, attribute);
}

static const int64_t file_limit_bytes = INT64_C(1) << 46;

/* A tensor with values: the bytes of its TensorProto in the mapped file. */
typedef struct payload {
    const char *name;
    const uint8_t *bytes, *end;
} payload;

/* An Identity operator of the graph: tensor `name` has the values of tensor `of`. */
typedef struct copy {
    const char *name, *of;
} copy;

struct mp_onnx_weights {
    mp_file file;
    const char *path;
    const char *folder;    /* folder of the model, with a slash at its end; "": the current folder */
    const char *permitted; /* second folder that may contain external values; NULL: none */
    mp_pool *pool;
    mp_names *names;
    payload *payloads;
    size_t n, capacity;
    copy *copies;
    size_t n_copies, copies_capacity;
};

/* Those fields of a TensorProto that are needed to read its values. */
typedef struct tensor {
    mp_dtype dtype;
    const uint8_t *raw, *raw_end; /* begin and end of the bytes of raw_data; NULL: the elements are in typed fields */
    bool external;
    char location[256];
    int64_t offset,
        length; /* position and length of external data in their file, in bytes; length -1: up to the end of the file */
} tensor;

static char *text_of(mp_pool *pool, const mp_wire_field *f)
{
    return mp_pool_text(pool, (const char *)f->bytes, (size_t)(f->end - f->bytes));
}

static mp_status add(mp_onnx_weights *w, const char *name, const uint8_t *bytes, const uint8_t *end, mp_error *err)
{
    MP_ENSURE(name, err, MP_NOMEM, "out of memory");
    if (mp_names_find(w->names, name) >= 0) return MP_OK;
    MP_ENSURE(mp_grow(&w->payloads, &w->capacity, w->n + 1, sizeof *w->payloads), err, MP_NOMEM, "out of memory");
    w->payloads[w->n] = (payload){name, bytes, end};
    MP_ENSURE(mp_names_set(w->names, name, (int)w->n), err, MP_NOMEM, "out of memory");
    w->n++;
    return MP_OK;
}

/* Finds the last field with this number that is a message or text. For the outputs of a node, finds the first. */
static bool find_field(const uint8_t *at, const uint8_t *end, uint32_t id, mp_wire_field *out)
{
    mp_wire_field f;
    bool found = false;
    while (at < end && mp_wire_next(&at, end, &f))
        if (f.id == id && f.wire == MP_WIRE_BYTES && !(found && id == NODE_OUTPUT)) {
            *out = f;
            found = true;
        }
    return found;
}

/* Returns a name in a graph, with the prefix of the subgraph. NULL: out of memory. */
static const char *name_of(mp_pool *pool, const char *prefix, const mp_wire_field *f)
{
    const char *name = text_of(pool, f);
    return name && prefix ? mp_onnx_join(pool, prefix, name) : name;
}

static mp_status walk_graph(mp_onnx_weights *w, const char *prefix, const uint8_t *at, const uint8_t *end, int depth,
                            mp_error *err);

/* Finds the tensors with values in one subgraph of the node. */
static mp_status walk_subgraph(mp_onnx_weights *w, const char *node, const mp_wire_field *attribute, int depth, mp_error *err)
{
    mp_wire_field name, graph;
    if (!find_field(attribute->bytes, attribute->end, ATTRIBUTE_GRAPH, &graph) ||
        !find_field(attribute->bytes, attribute->end, ATTRIBUTE_NAME, &name))
        return MP_OK;
    MP_ENSURE(depth < MP_ONNX_CALL_DEPTH_MAX, err, MP_PARSE, "subgraphs are nested more than %d deep", MP_ONNX_CALL_DEPTH_MAX);
    const char *role = text_of(w->pool, &name);
    const char *prefix = role && node ? mp_onnx_subgraph_prefix(w->pool, node, role) : NULL;
    MP_ENSURE(prefix, err, MP_NOMEM, "out of memory");
    return walk_graph(w, prefix, graph.bytes, graph.end, depth + 1, err);
}

/* Records an Identity operator, because exporters use it for tensors with equal values. */
static mp_status note_copy(mp_onnx_weights *w, const uint8_t *at, const uint8_t *end, const mp_wire_field *output,
                           mp_error *err)
{
    static const char identity[] = "Identity";
    mp_wire_field kind, input;
    if (!find_field(at, end, NODE_KIND, &kind) || kind.end - kind.bytes != sizeof identity - 1 ||
        memcmp(kind.bytes, identity, sizeof identity - 1) || !find_field(at, end, NODE_INPUT, &input))
        return MP_OK;
    MP_ENSURE(mp_grow(&w->copies, &w->copies_capacity, w->n_copies + 1, sizeof *w->copies), err, MP_NOMEM, "out of memory");
    const copy found = {text_of(w->pool, output), text_of(w->pool, &input)};
    MP_ENSURE(found.name && found.of, err, MP_NOMEM, "out of memory");
    w->copies[w->n_copies++] = found;
    return MP_OK;
}

/* Gives the outputs of Identity operators the values of their inputs. Runs after the whole graph is read, because the values
 * follow the nodes in the file. */
static mp_status resolve_copies(mp_onnx_weights *w, mp_error *err)
{
    for (size_t k = 0; k < w->n_copies; k++) {
        const int of = mp_names_find(w->names, w->copies[k].of);
        if (of >= 0) MP_CHECK(add(w, w->copies[k].name, w->payloads[of].bytes, w->payloads[of].end, err));
    }
    return MP_OK;
}

/* Records the tensor of a Constant node, under the name of the node's output. */
static mp_status walk_node(mp_onnx_weights *w, const char *prefix, const uint8_t *at, const uint8_t *end, int depth,
                           mp_error *err)
{
    mp_wire_field output, name, attribute, t;
    const uint8_t *from = at;
    if (!find_field(at, end, NODE_OUTPUT, &output)) return MP_OK;
    if (!prefix) MP_CHECK(note_copy(w, at, end, &output, err));
    if (!find_field(at, end, NODE_NAME, &name) || name.bytes == name.end) name = output;
    while (from < end && mp_wire_next(&from, end, &attribute)) {
        if (attribute.id != NODE_ATTRIBUTE || attribute.wire != MP_WIRE_BYTES) continue;
        if (find_field(attribute.bytes, attribute.end, ATTRIBUTE_TENSOR, &t))
            MP_CHECK(add(w, name_of(w->pool, prefix, &output), t.bytes, t.end, err));
        MP_CHECK(walk_subgraph(w, name_of(w->pool, prefix, &name), &attribute, depth, err));
    }
    return MP_OK;
}

static mp_status walk_graph(mp_onnx_weights *w, const char *prefix, const uint8_t *at, const uint8_t *end, int depth,
                            mp_error *err)
{
    mp_wire_field f, name;
    while (at < end) {
        MP_ENSURE(mp_wire_next(&at, end, &f), err, MP_PARSE, "the graph is cut off");
        if (f.wire != MP_WIRE_BYTES) continue;
        if (f.id == GRAPH_INITIALIZER && find_field(f.bytes, f.end, TENSOR_NAME, &name))
            MP_CHECK(add(w, name_of(w->pool, prefix, &name), f.bytes, f.end, err));
        if (f.id == GRAPH_NODE) MP_CHECK(walk_node(w, prefix, f.bytes, f.end, depth, err));
    }
    return MP_OK;
}

mp_status mp_onnx_weights_open(const char *path, const char *permitted, mp_onnx_weights **out, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(mp_onnx_weights_close) mp_onnx_weights *w = mp_alloc(1, sizeof *w);
    const char *slash = strrchr(path, '/');
    mp_wire_field f;
    MP_ENSURE(w, err, MP_NOMEM, "out of memory");
    w->pool = mp_pool_new();
    w->names = mp_names_new();
    MP_ENSURE(w->pool && w->names, err, MP_NOMEM, "out of memory");
    w->folder = mp_pool_text(w->pool, path, slash ? (size_t)(slash - path) + 1 : 0);
    w->path = mp_pool_text(w->pool, path, strlen(path));
    MP_ENSURE(w->folder && w->path, err, MP_NOMEM, "out of memory");
    w->permitted = permitted;
    MP_CHECK(mp_file_open(path, file_limit_bytes, &w->file, err));
    for (const uint8_t *at = w->file.bytes, *end = at + w->file.size; at < end;) {
        MP_ENSURE(mp_wire_next(&at, end, &f), err, MP_PARSE, "the file is cut off");
        if (f.id == MODEL_GRAPH && f.wire == MP_WIRE_BYTES) MP_CHECK(walk_graph(w, NULL, f.bytes, f.end, 0, err));
    }
    MP_CHECK(resolve_copies(w, err));
    *out = w;
    w = NULL;
    return MP_OK;
}

void mp_onnx_weights_close(mp_onnx_weights *w)
{
    if (!w) return;
    mp_file_close(&w->file);
    mp_names_free(w->names);
    mp_free(w->payloads);
    mp_free(w->copies);
    mp_pool_free(w->pool);
    mp_free(w);
}

static void copy_text(char *to, size_t size, const mp_wire_field *f)
{
    snprintf(to, size, "%.*s", (int)(f->end - f->bytes), (const char *)f->bytes);
}

/* Reads one entry of a tensor's external_data. An entry is a pair of key and value. */
static void read_entry(const mp_wire_field *entry, tensor *out)
{
    char key[32] = "", value[sizeof out->location] = "";
    mp_wire_field f;
    if (find_field(entry->bytes, entry->end, ENTRY_KEY, &f)) copy_text(key, sizeof key, &f);
    if (find_field(entry->bytes, entry->end, ENTRY_VALUE, &f)) copy_text(value, sizeof value, &f);
    if (!strcmp(key, "location")) memcpy(out->location, value, sizeof value);
    if (!strcmp(key, "offset")) out->offset = strtoll(value, NULL, 10);
    if (!strcmp(key, "length")) out->length = strtoll(value, NULL, 10);
}

static tensor read_tensor(const payload *p)
{
    tensor t = {.length = -1};
    mp_wire_field f;
    for (const uint8_t *at = p->bytes; at < p->end && mp_wire_next(&at, p->end, &f);) {
        if (f.id == TENSOR_TYPE && f.wire == MP_WIRE_VARINT && f.number < MP_N_DTYPES) t.dtype = (mp_dtype)f.number;
        if (f.id == TENSOR_LOCATION && f.wire == MP_WIRE_VARINT) t.external = f.number == 1;
        if (f.wire != MP_WIRE_BYTES) continue;
        if (f.id == TENSOR_RAW) {
            t.raw = f.bytes;
            t.raw_end = f.end;
        }
        if (f.id == TENSOR_EXTERNAL) read_entry(&f, &t);
    }
    return t;
}

static const char *external_path(const mp_onnx_weights *w, const tensor *t)
{
    return mp_pool_format(w->pool, "%s%s", t->location[0] == '/' ? "" : w->folder, t->location);
}

/* True if the real path, after links are resolved, is in this folder or below it. */
static bool lies_in(const char *path, const char *folder)
{
    char *real = realpath(*folder ? folder : ".", NULL);
    const size_t n = real ? strlen(real) : 0;
    const bool inside = n && !strncmp(path, real, n) && (path[n] == '/' || real[n - 1] == '/');
    free(real);
    return inside;
}

/* Finds the file that contains the external values of a tensor. All links in its path are resolved. */
static mp_status find_external(const mp_onnx_weights *w, const tensor *t, const char *name, char **out, mp_error *err)
{
    const char *path = external_path(w, t);
    const bool plain = t->location[0] && t->location[0] != '/' && !strstr(t->location, "..");
    MP_ENSURE(path, err, MP_NOMEM, "out of memory");
    MP_ENSURE(plain || (w->permitted && t->location[0]), err, MP_PARSE,
              "the values of '%s' are outside the model's folder, in '%s'; move them into the folder", name, t->location);
    *out = realpath(path, NULL);
    MP_ENSURE(*out, err, MP_PARSE, "the file '%s' with the values of '%s' cannot be opened", t->location, name);
    MP_ENSURE(lies_in(*out, w->folder) || (w->permitted && lies_in(*out, w->permitted)), err, MP_PARSE,
              "the values of '%s' are outside the model's folder: '%s' is a link; move the file into the folder", name,
              t->location);
    return MP_OK;
}

const char *mp_onnx_weights_in(const mp_onnx_weights *w, dev_t device, ino_t inode)
{
    struct stat info;
    for (size_t k = 0; k < w->n; k++) {
        tensor t = read_tensor(&w->payloads[k]);
        const char *path = t.external ? external_path(w, &t) : NULL;
        if (path && stat(path, &info) == 0 && info.st_dev == device && info.st_ino == inode) return w->payloads[k].name;
    }
    return NULL;
}

/* True if the TensorProto contains values. Some tools remove only the values from a file. */
static bool has_values(const payload *p)
{
    mp_wire_field f;
    bool found = false;
    for (const uint8_t *at = p->bytes; !found && at < p->end && mp_wire_next(&at, p->end, &f);)
        found = f.id == TENSOR_RAW || f.id == TENSOR_FLOATS || f.id == TENSOR_DOUBLES || f.id == TENSOR_INT32S ||
                f.id == TENSOR_INT64S || f.id == TENSOR_UINT64S;
    return found;
}

bool mp_onnx_weights_have(const mp_onnx_weights *w, const char *name)
{
    int k = mp_names_find(w->names, name);
    if (k < 0) return false;
    tensor t = read_tensor(&w->payloads[k]);
    if (!t.external) return has_values(&w->payloads[k]);
    const char *path = external_path(w, &t);
    return path && access(path, R_OK) == 0;
}

const char *mp_onnx_weights_missing(const mp_onnx_weights *w, const char *name)
{
    const int k = mp_names_find(w->names, name);
    const tensor t = k < 0 ? (tensor){0} : read_tensor(&w->payloads[k]);
    if (!t.external || mp_onnx_weights_have(w, name)) return NULL;
    return mp_pool_text(w->pool, t.location, strlen(t.location));
}

/* Writes n little-endian elements to `to`, either in their own type or converted to FLOAT. */
static void convert(const uint8_t *from, mp_dtype is, mp_dtype wanted, int64_t n, void *to)
{
    const size_t size = (size_t)mp_dtype_bits(is) / 8;
    if (is == wanted) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        uint64_t bits = 0;
        memcpy(&bits, from + (size_t)k * size, size);
        ((float *)to)[k] = (float)mp_onnx_real(is, bits);
    }
}

static bool can_convert(mp_dtype is, mp_dtype wanted)
{
    return mp_dtype_bits(is) >= 8 &&
           (is == wanted ||
            (wanted == MP_DTYPE_FLOAT && (is == MP_DTYPE_DOUBLE || is == MP_DTYPE_FLOAT16 || is == MP_DTYPE_BFLOAT16)));
}

static mp_status read_external(const mp_onnx_weights *w, const tensor *t, const char *name, mp_dtype wanted, int64_t n,
                               void *to, mp_error *err)
{
    MP_CLEARED_BY(mp_file_close) mp_file file = {0};
    int64_t bytes = n * (mp_dtype_bits(t->dtype) / 8);
    MP_OWNED_BY(free) char *path = NULL;
    mp_error why = {0};
    MP_CHECK(find_external(w, t, name, &path, err));
    if (mp_file_open(path, file_limit_bytes, &file, &why) != MP_OK)
        return MP_FAIL(err, MP_PARSE, "'%s', the file with the values of '%s': %s", t->location, name, why.message);
    bool inside = t->offset >= 0 && (uint64_t)t->offset <= file.size && (uint64_t)bytes <= file.size - (uint64_t)t->offset &&
                  (t->length < 0 || t->length == bytes);
    MP_ENSURE(inside, err, MP_PARSE, "'%s' has %zu bytes, but '%s' needs %lld bytes from byte %lld on", t->location, file.size,
              name, (long long)bytes, (long long)t->offset);
    convert(file.bytes + t->offset, t->dtype, wanted, n, to);
    return MP_OK;
}

/* Reads elements from typed fields, which may be packed or individual. Each element is a number, or has the bytes of the
 * element type. */
typedef struct taker {
    mp_dtype is, wanted;
    int64_t n, taken;
    void *to;
} taker;

static void take(taker *t, const uint8_t *bytes, size_t size, uint64_t number)
{
    uint8_t element[8] = {0};
    if (t->taken >= t->n) {
        t->taken++;
        return;
    }
    if (bytes)
        memcpy(element, bytes, size < 8 ? size : 8);
    else
        memcpy(element, &number, sizeof number); /* little-endian byte order, so the low bytes of the number are first */
    size_t out = (size_t)mp_dtype_bits(t->wanted) / 8;
    convert(element, t->is, t->wanted, 1, (char *)t->to + (size_t)t->taken * out);
    t->taken++;
}

static mp_status read_typed(const payload *p, const tensor *t, mp_dtype wanted, int64_t n, void *to, mp_error *err)
{
    taker all = {t->dtype, wanted, n, 0, to};
    mp_wire_field f;
    for (const uint8_t *at = p->bytes; at < p->end && mp_wire_next(&at, p->end, &f);) {
        bool fixed = f.id == TENSOR_FLOATS || f.id == TENSOR_DOUBLES;
        bool counted = f.id == TENSOR_INT32S || f.id == TENSOR_INT64S || f.id == TENSOR_UINT64S;
        size_t width = f.id == TENSOR_FLOATS ? 4 : 8;
        if (!fixed && !counted) continue;
        if (f.wire != MP_WIRE_BYTES) {
            take(&all, fixed ? f.bytes : NULL, width, f.number);
            continue;
        }
        for (const uint8_t *e = f.bytes; e < f.end;) {
            uint64_t number = 0;
            if (fixed) {
                MP_ENSURE((size_t)(f.end - e) >= width, err, MP_PARSE, "the values of '%s' are cut off", p->name);
                take(&all, e, width, 0);
                e += width;
            } else {
                MP_ENSURE(mp_wire_varint(&e, f.end, &number), err, MP_PARSE, "the values of '%s' are cut off", p->name);
                take(&all, NULL, 0, number);
            }
        }
    }
    MP_ENSURE(all.taken == n, err, MP_INVALID, "'%s' has %lld values in the file and should have %lld", p->name,
              (long long)all.taken, (long long)n);
    return MP_OK;
}

mp_status mp_onnx_weights_read(const mp_onnx_weights *w, const char *name, mp_dtype dtype, int64_t n, void *to, mp_error *err)
{
    MP_ABOUT(err, w->path);
    int k = mp_names_find(w->names, name);
    MP_ENSURE(k >= 0, err, MP_INVALID, "the file has no values for '%s'", name);
    const payload *p = &w->payloads[k];
    tensor t = read_tensor(p);
    MP_ENSURE(can_convert(t.dtype, dtype), err, MP_INVALID, "'%s' has the type %s in the file, but %s is needed", name,
              mp_dtype_name(t.dtype), mp_dtype_name(dtype));
    if (t.external) {
        MP_CHECK(read_external(w, &t, name, dtype, n, to, err));
    } else if (t.raw) {
        int64_t bytes = n * (mp_dtype_bits(t.dtype) / 8);
        MP_ENSURE(t.raw_end - t.raw == bytes, err, MP_INVALID, "'%s' has %lld bytes in the file and should have %lld", name,
                  (long long)(t.raw_end - t.raw), (long long)bytes);
        convert(t.raw, t.dtype, dtype, n, to);
    } else {
        MP_CHECK(read_typed(p, &t, dtype, n, to, err));
    }
    return MP_OK;
}
