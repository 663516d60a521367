/* dataset.c - reads headers of .npy and IDX files, splits texts into tokens, and converts elements of any type to numbers. */
#include "formats/data/dataset.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "estimator/base/names.h"
#include "formats/base/nameless.h"

static const int64_t limit_bytes = INT64_C(1) << 44;

/* Checks that the data after the header have the size that the shape requires. */
static mp_status close_shape(mp_dataset *d, size_t header, mp_error *err)
{
    int64_t bytes = mp_dtype_bits(d->dtype) / 8;
    for (int k = 0; k < d->rank; k++)
        MP_ENSURE(mp_multiply(bytes, d->dims[k], &bytes), err, MP_PARSE, "the shape in the header is too large");
    MP_ENSURE((uint64_t)bytes == d->file.size - header, err, MP_PARSE,
              "the header states %lld bytes of data, but the file has %zu", (long long)bytes, d->file.size - header);
    d->data = d->file.bytes + header;
    return MP_OK;
}

/* Reads an IDX file (http://yann.lecun.com/exdb/mnist): two zero bytes, element type, rank, big-endian sizes. */
static mp_status read_idx(mp_dataset *d, mp_error *err)
{
    static const struct {
        uint8_t code;
        mp_dtype dtype;
    } types[] = {{0x08, MP_DTYPE_UINT8}, {0x09, MP_DTYPE_INT8},  {0x0b, MP_DTYPE_INT16},
                 {0x0c, MP_DTYPE_INT32}, {0x0d, MP_DTYPE_FLOAT}, {0x0e, MP_DTYPE_DOUBLE}};
    const uint8_t *b = d->file.bytes;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (types[k].code == b[2]) d->dtype = types[k].dtype;
    MP_ENSURE(d->dtype, err, MP_PARSE, "the IDX file has elements of the unknown type 0x%02x", b[2]);
    d->rank = b[3];
    MP_ENSURE(d->rank >= 1 && d->rank <= MP_DATASET_RANK, err, MP_PARSE, "the IDX file has %d dimensions", d->rank);
    MP_ENSURE(d->file.size >= 4 + 4 * (size_t)d->rank, err, MP_PARSE, "the IDX file is cut off in its header");
    for (int k = 0; k < d->rank; k++) {
        const uint8_t *n = b + 4 + 4 * k;
        d->dims[k] = (int64_t)n[0] << 24 | n[1] << 16 | n[2] << 8 | n[3];
    }
    d->big_endian = true;
    return close_shape(d, 4 + 4 * (size_t)d->rank, err);
}

/* Returns the text of the value after 'key': in a Python dictionary of literals; NULL: the key does not occur. */
static const char *entry(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ' || *at == ':') at++;
    return at;
}

/* Reads the header of NumPy's format, versions 1 to 3: magic number, version, header length, and a dictionary as text. */
static mp_status read_npy(mp_dataset *d, mp_error *err)
{
    static const struct {
        const char *text;
        mp_dtype dtype;
    } types[] = {{"|u1", MP_DTYPE_UINT8},  {"|i1", MP_DTYPE_INT8},  {"|b1", MP_DTYPE_BOOL},   {"<i2", MP_DTYPE_INT16},
                 {"<u2", MP_DTYPE_UINT16}, {"<i4", MP_DTYPE_INT32}, {"<u4", MP_DTYPE_UINT32}, {"<i8", MP_DTYPE_INT64},
                 {"<u8", MP_DTYPE_UINT64}, {"<f4", MP_DTYPE_FLOAT}, {"<f8", MP_DTYPE_DOUBLE}};
    const uint8_t *b = d->file.bytes;
    char header[2048];
    size_t wide = b[6] > 1 ? 4 : 2, length = b[8] | (size_t)b[9] << 8;
    if (wide == 4) length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    MP_ENSURE(b[6] >= 1 && b[6] <= 3, err, MP_PARSE, "the .npy file is of version %d, and 1 to 3 are known", b[6]);
    MP_ENSURE(length < sizeof header && 8 + wide + length <= d->file.size, err, MP_PARSE, "the .npy header is cut off");
    memcpy(header, b + 8 + wide, length);
    header[length] = 0;
    const char *type = entry(header, "'descr'"), *order = entry(header, "'fortran_order'"), *shape = entry(header, "'shape'");
    MP_ENSURE(type && order && shape && *shape == '(', err, MP_PARSE, "the .npy header has no type, order or shape");
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (!strncmp(type + 1, types[k].text, 3) && type[4] == type[0]) d->dtype = types[k].dtype;
    MP_ENSURE(d->dtype, err, MP_PARSE, "the .npy file has elements of type %.*s, which is not supported",
              (int)strcspn(type, ",\n}"), type);
    MP_ENSURE(strncmp(order, "True", 4) != 0, err, MP_PARSE, "the .npy file is in Fortran order; save it in C order");
    for (shape++; *shape && *shape != ')';) {
        char *end;
        long long n = strtoll(shape, &end, 10);
        MP_ENSURE(end != shape && n >= 0 && d->rank < MP_DATASET_RANK, err, MP_PARSE, "the .npy header has no proper shape");
        d->dims[d->rank++] = n;
        shape = end;
        while (*shape == ',' || *shape == ' ' || *shape == 'L') shape++;
    }
    return close_shape(d, 8 + wide + length, err);
}

mp_status mp_dataset_open(const char *path, mp_dataset *out, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_CLEARED_BY(mp_dataset_close) mp_dataset d = {0};
    MP_CHECK(mp_file_open(path, limit_bytes, &d.file, err));
    const uint8_t *b = d.file.bytes;
    if (d.file.size >= 12 && !memcmp(b, "\x93NUMPY", 6))
        MP_CHECK(read_npy(&d, err));
    else if (d.file.size >= 4 && !b[0] && !b[1])
        MP_CHECK(read_idx(&d, err));
    else
        MP_ENSURE(false, err, MP_PARSE, "%s",
                  d.file.size >= 2 && b[0] == 0x1f && b[1] == 0x8b ? "the file is compressed with gzip; unpack it first"
                                                                   : "the file is neither .npy nor IDX");
    *out = d;
    d = (mp_dataset){0};
    return MP_OK;
}

mp_status mp_dataset_take_room(mp_dataset *d, const char *column, int64_t bytes, const char *folder, mp_error *err)
{
    if (folder) {
        MP_CHECK(mp_nameless_map(folder, bytes + 1, &d->owned, err));
        d->mapped_bytes = (size_t)bytes + 1;
    } else {
        d->owned = mp_alloc((size_t)bytes + 1, 1);
    }
    MP_ENSURE(d->owned, err, MP_NOMEM, "there is no memory for %lld bytes of column '%s'", (long long)bytes, column);
    d->data = d->owned;
    return MP_OK;
}

void mp_dataset_close(mp_dataset *d)
{
    mp_file_close(&d->file);
    if (d->mapped_bytes)
        munmap(d->owned, d->mapped_bytes);
    else
        mp_free(d->owned);
    *d = (mp_dataset){0};
}

/* The vocabulary: a map from the text of a token to its number. */
typedef struct vocabulary {
    mp_pool *pool;
    mp_names *names;
    size_t longest;
} vocabulary;

static mp_status read_vocabulary(const char *path, vocabulary *v, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_CLEARED_BY(mp_file_close) mp_file file = {0};
    int n = 0;
    MP_CHECK(mp_file_open(path, limit_bytes, &file, err));
    v->pool = mp_pool_new();
    v->names = mp_names_new();
    MP_ENSURE(v->pool && v->names, err, MP_NOMEM, "out of memory");
    for (const char *at = (const char *)file.bytes, *end = at + file.size; at < end; n++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        char *token = mp_pool_text(v->pool, at, length);
        MP_ENSURE(token && mp_names_set(v->names, token, n), err, MP_NOMEM, "out of memory");
        if (length > v->longest) v->longest = length;
        at += length + 1;
    }
    MP_ENSURE(v->longest, err, MP_PARSE, "the vocabulary has no tokens");
    return MP_OK;
}

/* Returns the number of the longest token at the start of text[0..n); -1: no token matches. `buffer` has v->longest + 1
 * bytes. */
static int longest_token(const vocabulary *v, const char *text, size_t n, char *buffer, size_t *length)
{
    for (size_t k = n < v->longest ? n : v->longest; k > 0; k--) {
        memcpy(buffer, text, k);
        buffer[k] = 0;
        int token = mp_names_find(v->names, buffer);
        if (token >= 0) {
            *length = k;
            return token;
        }
    }
    return -1;
}

static mp_status cut(mp_dataset *d, const vocabulary *v, const char *path, mp_error *err)
{
    size_t n = 0, length = 1;
    int line = 1;
    const char *text = (const char *)d->file.bytes;
    MP_OWNED char *buffer = mp_alloc(v->longest + 1, 1);
    int32_t *tokens = d->owned = mp_alloc(d->file.size, sizeof *tokens);
    MP_ENSURE(buffer && tokens, err, MP_NOMEM, "there is no memory for a text of %zu bytes", d->file.size);
    for (size_t at = 0; at < d->file.size; at += length) {
        int token = longest_token(v, text + at, d->file.size - at, buffer, &length);
        bool skips = token < 0 && (text[at] == '\n' || text[at] == ' ' || text[at] == '\r' || text[at] == '\t');
        line += text[at] == '\n';
        if (skips) length = 1;
        if (skips) continue;
        if (token < 0)
            return MP_FAIL_AT(err, MP_PARSE, path, line, 0, "the byte 0x%02x begins no token of the vocabulary",
                              (unsigned char)text[at]);
        tokens[n++] = token;
    }
    d->dtype = MP_DTYPE_INT32;
    d->dims[0] = (int64_t)n;
    d->data = (const uint8_t *)tokens;
    return MP_OK;
}

static void vocabulary_free(vocabulary *v)
{
    mp_names_free(v->names);
    mp_pool_free(v->pool);
}

mp_status mp_dataset_open_text(const char *path, const char *vocabulary_path, mp_dataset *out, mp_error *err)
{
    MP_CLEARED_BY(mp_dataset_close) mp_dataset d = {.dtype = MP_DTYPE_UINT8, .rank = 1};
    MP_CLEARED_BY(vocabulary_free) vocabulary v = {0};
    MP_CHECK(mp_file_open(path, limit_bytes, &d.file, err));
    d.data = d.file.bytes;
    d.dims[0] = (int64_t)d.file.size;
    if (vocabulary_path) {
        MP_CHECK(read_vocabulary(vocabulary_path, &v, err));
        MP_CHECK(cut(&d, &v, path, err));
    }
    *out = d;
    d = (mp_dataset){0};
    return MP_OK;
}

double mp_dataset_get(const mp_dataset *d, int64_t k)
{
    union {
        uint8_t bytes[8];
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
    } e;
    size_t size = (size_t)mp_dtype_bits(d->dtype) / 8;
    const uint8_t *from = d->data + (size_t)k * size;
    for (size_t b = 0; b < size; b++) e.bytes[b] = from[d->big_endian ? size - 1 - b : b];
    switch (d->dtype) {
    case MP_DTYPE_INT8:
        return (int8_t)e.bytes[0];
    case MP_DTYPE_INT16:
        return e.i16;
    case MP_DTYPE_UINT16:
        return e.u16;
    case MP_DTYPE_INT32:
        return e.i32;
    case MP_DTYPE_UINT32:
        return e.u32;
    case MP_DTYPE_INT64:
        return (double)e.i64;
    case MP_DTYPE_UINT64:
        return (double)e.u64;
    case MP_DTYPE_FLOAT:
        return (double)e.f32;
    case MP_DTYPE_DOUBLE:
        return e.f64;
    default:
        return e.bytes[0];
    }
}

void mp_dataset_floats(const mp_dataset *d, int64_t from, int64_t n, float *to)
{
    if (d->dtype == MP_DTYPE_UINT8)
        for (int64_t k = 0; k < n; k++) to[k] = (float)d->data[from + k] / 255;
    else if (d->dtype == MP_DTYPE_FLOAT && !d->big_endian)
        memcpy(to, d->data + 4 * from, (size_t)n * sizeof *to);
    else
        for (int64_t k = 0; k < n; k++) to[k] = (float)mp_dataset_get(d, from + k);
}

void mp_dataset_integers(const mp_dataset *d, int64_t from, int64_t n, int64_t *to)
{
    for (int64_t k = 0; k < n; k++) to[k] = (int64_t)mp_dataset_get(d, from + k);
}
