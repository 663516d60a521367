/* safetensors.c - writes and checks the JSON header of a safetensors file. Maps the tensor data for reading, and writes them
 * without a copy. */
#include "formats/data/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/names.h"
#include "formats/json/json.h"

static const struct {
    const char *text;
    mp_dtype dtype;
} types[] = {{"BOOL", MP_DTYPE_BOOL},  {"U8", MP_DTYPE_UINT8},    {"I8", MP_DTYPE_INT8},       {"I16", MP_DTYPE_INT16},
             {"U16", MP_DTYPE_UINT16}, {"F16", MP_DTYPE_FLOAT16}, {"BF16", MP_DTYPE_BFLOAT16}, {"I32", MP_DTYPE_INT32},
             {"U32", MP_DTYPE_UINT32}, {"F32", MP_DTYPE_FLOAT},   {"F64", MP_DTYPE_DOUBLE},    {"I64", MP_DTYPE_INT64},
             {"U64", MP_DTYPE_UINT64}};

enum { HEADER_MAX = 100 << 20, RANK_MAX = 16 };

static const char *text_of_type(mp_dtype dtype)
{
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (types[k].dtype == dtype) return types[k].text;
    return NULL;
}

static int64_t bytes_of(const mp_named_tensor *t)
{
    int64_t n = mp_dtype_bits(t->dtype) / 8;
    for (int d = 0; d < t->rank; d++) n *= t->dims[d];
    return n;
}

static json_t *tensor_json(const mp_named_tensor *tensor, int64_t from, int64_t to)
{
    json_t *shape = json_array();
    for (int d = 0; d < tensor->rank; d++) mp_json_append(&shape, json_integer(tensor->dims[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", text_of_type(tensor->dtype), "shape", shape, "data_offsets",
                     (json_int_t)from, (json_int_t)to);
}

static json_t *header_of(const mp_named_tensor *tensors, size_t n, const mp_metadatum *metadata, size_t n_metadata)
{
    json_t *header = json_object(), *notes = json_object();
    int64_t from = 0;
    for (size_t k = 0; k < n_metadata; k++) mp_json_set(&notes, metadata[k].key, mp_json_text(metadata[k].value));
    if (n_metadata)
        mp_json_set(&header, "__metadata__", notes);
    else
        json_decref(notes);
    for (size_t k = 0; k < n; k++) {
        const int64_t to = from + bytes_of(&tensors[k]);
        mp_json_set(&header, tensors[k].name, tensor_json(&tensors[k], from, to));
        from = to;
    }
    return header;
}

mp_status mp_safetensors_write_summed(const char *path, const mp_named_tensor *tensors, size_t n, const mp_metadatum *metadata,
                                      size_t n_metadata, char checksum[MP_CHECKSUM_TEXT], mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(json_decref) json_t *header = NULL;
    MP_OWNED char *text = NULL;
    MP_OWNED mp_file_part *parts = NULL;
    uint8_t length[8];
    for (size_t k = 0; k < n; k++)
        MP_ENSURE(text_of_type(tensors[k].dtype), err, MP_UNSUPPORTED, "'%s' is of type %s, which cannot be saved",
                  tensors[k].name, mp_dtype_name(tensors[k].dtype));
    MP_ENSURE(header = header_of(tensors, n, metadata, n_metadata), err, MP_NOMEM, "no memory for the file's header");
    MP_ENSURE(text = mp_json_print(header, 0), err, MP_NOMEM, "no memory for the file's header");
    MP_ENSURE(parts = mp_alloc(n + 3, sizeof *parts), err, MP_NOMEM, "no memory for the file's header");
    size_t size = strlen(text), padding = (8 - size % 8) % 8;
    for (int b = 0; b < 8; b++) length[b] = (uint8_t)((size + padding) >> 8 * b);
    parts[0] = (mp_file_part){length, 8};
    parts[1] = (mp_file_part){text, size};
    parts[2] = (mp_file_part){"        ", padding};
    for (size_t k = 0; k < n; k++) parts[3 + k] = (mp_file_part){tensors[k].data, (size_t)bytes_of(&tensors[k])};
    if (checksum) MP_CHECK(mp_checksum_of(parts, n + 3, checksum, err));
    return mp_file_write_parts(path, parts, n + 3, err);
}

mp_status mp_safetensors_write(const char *path, const mp_named_tensor *tensors, size_t n, const mp_metadatum *metadata,
                               size_t n_metadata, mp_error *err)
{
    return mp_safetensors_write_summed(path, tensors, n, metadata, n_metadata, NULL, err);
}

struct mp_safetensors {
    mp_file file;
    json_t *header;
    mp_pool *pool;
    mp_names *names;
    mp_named_tensor *tensors;
    size_t n;
};

/* The range [from, to) of a tensor's bytes in the file. */
typedef struct stretch {
    int64_t from, to;
    const char *name;
} stretch;

static int by_place(const void *a, const void *b)
{
    const stretch *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static mp_status read_tensor(mp_safetensors *s, const char *name, const json_t *row, const uint8_t *data, int64_t size,
                             stretch *where, mp_error *err)
{
    mp_named_tensor *t = &s->tensors[s->n];
    const char *type = json_string_value(json_object_get(row, "dtype"));
    json_t *shape = json_object_get(row, "shape"), *offsets = json_object_get(row, "data_offsets");
    int64_t *dims, elements = 1, bytes;
    *t = (mp_named_tensor){.name = name};
    for (size_t k = 0; type && k < sizeof types / sizeof *types; k++)
        if (!strcmp(types[k].text, type)) t->dtype = types[k].dtype;
    MP_ENSURE(t->dtype, err, MP_PARSE, "'%.64s' has the unknown type %.32s", name, type ? type : "(none)");
    MP_ENSURE(json_is_array(shape) && json_array_size(shape) <= RANK_MAX, err, MP_PARSE, "'%.64s' has no proper shape", name);
    t->rank = (int)json_array_size(shape);
    MP_ENSURE(dims = mp_pool_alloc(s->pool, (size_t)t->rank + 1, sizeof *dims), err, MP_NOMEM, "out of memory");
    for (int d = 0; d < t->rank; d++) {
        const json_t *dim = json_array_get(shape, (size_t)d);
        dims[d] = json_integer_value(dim);
        MP_ENSURE(json_is_integer(dim) && mp_multiply(elements, dims[d], &elements), err, MP_PARSE,
                  "'%.64s' has no proper shape", name);
    }
    t->dims = dims;
    MP_ENSURE(mp_multiply(elements, mp_dtype_bits(t->dtype) / 8, &bytes), err, MP_PARSE, "'%.64s' is too large", name);
    MP_ENSURE(json_is_array(offsets) && json_array_size(offsets) == 2, err, MP_PARSE, "'%.64s' has no data_offsets", name);
    *where = (stretch){json_integer_value(json_array_get(offsets, 0)), json_integer_value(json_array_get(offsets, 1)), name};
    MP_ENSURE(where->from >= 0 && where->from <= where->to && where->to <= size, err, MP_PARSE,
              "the data of '%.64s' are outside the file", name);
    MP_ENSURE(where->to - where->from == bytes, err, MP_PARSE, "'%.64s' has %lld bytes of data, but its shape needs %lld", name,
              (long long)(where->to - where->from), (long long)bytes);
    t->data = data + where->from;
    MP_ENSURE(mp_names_set(s->names, name, (int)s->n), err, MP_NOMEM, "out of memory");
    s->n++;
    return MP_OK;
}

static mp_status read_tensors(mp_safetensors *s, const uint8_t *data, int64_t size, mp_error *err)
{
    const char *name;
    json_t *row;
    size_t n = json_object_size(s->header);
    MP_OWNED stretch *places = mp_alloc(n, sizeof *places);
    s->tensors = mp_alloc(n, sizeof *s->tensors);
    MP_ENSURE(places && s->tensors, err, MP_NOMEM, "out of memory");
    json_object_foreach(s->header, name, row)
    {
        if (!strcmp(name, "__metadata__")) continue;
        MP_ENSURE(json_is_object(row), err, MP_PARSE, "'%.64s' is no tensor", name);
        MP_CHECK(read_tensor(s, name, row, data, size, &places[s->n], err));
    }
    qsort(places, s->n, sizeof *places, by_place);
    for (size_t k = 1; k < s->n; k++)
        MP_ENSURE(places[k].from >= places[k - 1].to, err, MP_PARSE, "the data of '%.64s' and '%.64s' overlap",
                  places[k - 1].name, places[k].name);
    MP_ENSURE(size == (s->n ? places[s->n - 1].to : 0), err, MP_PARSE, "the file has bytes behind its last tensor");
    return MP_OK;
}

mp_status mp_safetensors_open(const char *path, mp_safetensors **out, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(mp_safetensors_close) mp_safetensors *s = mp_alloc(1, sizeof *s);
    json_error_t fault;
    uint64_t length = 0;
    bool is_nomem;
    MP_ENSURE(s, err, MP_NOMEM, "out of memory");
    s->pool = mp_pool_new();
    s->names = mp_names_new();
    MP_ENSURE(s->pool && s->names, err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_file_open(path, INT64_C(1) << 46, &s->file, err));
    MP_ENSURE(s->file.size >= 8, err, MP_PARSE, "the file is too short to be safetensors");
    for (int b = 7; b >= 0; b--) length = length << 8 | s->file.bytes[b];
    MP_ENSURE(length <= HEADER_MAX && length <= s->file.size - 8, err, MP_PARSE,
              "the header of %llu bytes is cut off or too long", (unsigned long long)length);
    s->header = mp_json_load(s->file.bytes + 8, (size_t)length, &fault, &is_nomem);
    MP_ENSURE(!is_nomem, err, MP_NOMEM, "no memory to read the header");
    MP_ENSURE(s->header && json_is_object(s->header), err, MP_PARSE, "the header is not a JSON object: %s",
              s->header ? "" : fault.text);
    MP_CHECK(read_tensors(s, s->file.bytes + 8 + length, (int64_t)(s->file.size - 8 - length), err));
    *out = s;
    s = NULL;
    return MP_OK;
}

void mp_safetensors_close(mp_safetensors *s)
{
    if (!s) return;
    if (s->header) json_decref(s->header);
    mp_file_close(&s->file);
    mp_names_free(s->names);
    mp_free(s->tensors);
    mp_pool_free(s->pool);
    mp_free(s);
}

const mp_named_tensor *mp_safetensors_find(const mp_safetensors *s, const char *name)
{
    int k = mp_names_find(s->names, name);
    return k < 0 ? NULL : &s->tensors[k];
}

const char *mp_safetensors_metadatum(const mp_safetensors *s, const char *key)
{
    return json_string_value(json_object_get(json_object_get(s->header, "__metadata__"), key));
}

mp_status mp_safetensors_checksum(const mp_safetensors *s, char checksum[MP_CHECKSUM_TEXT], mp_error *err)
{
    return mp_checksum_of(&(mp_file_part){s->file.bytes, s->file.size}, 1, checksum, err);
}
