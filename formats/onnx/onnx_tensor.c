/* onnx_tensor.c - converts TensorProto and AttributeProto to values and attributes of the model.
 *
 * The elements of a tensor are in raw_data (little-endian on every machine), in one of five typed arrays, or in another
 * file. int32_data also contains the elements of all narrower types, including float16 as bit patterns. Other files are
 * never opened here, because a plan needs only the shape. onnx_scan.c has removed large payloads, so the value of a tensor
 * without elements is unknown. */
#include "formats/onnx/onnx_tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static mp_status tensor_type(const Onnx__TensorProto *tensor, const char *name, mp_dtype *dtype, mp_error *err)
{
    int32_t type = tensor->has_data_type ? tensor->data_type : 0;
    if (type == MP_DTYPE_UNDEFINED) return MP_FAIL(err, MP_PARSE, "tensor '%s' has no element type", name);
    if (type < 0 || type >= MP_N_DTYPES)
        return MP_FAIL(err, MP_UNSUPPORTED, "tensor '%s' has elements of the unknown type %d", name, (int)type);
    *dtype = (mp_dtype)type;
    return MP_OK;
}

/* Computes the number of elements of a shape. The error message names the tensor. */
static mp_status count_elements(const char *name, const int64_t *dims, size_t rank, int64_t *n, mp_error *err)
{
    *n = 1;
    MP_ENSURE(rank <= MP_RANK_MAX, err, MP_PARSE, "tensor '%s' has %zu dimensions, more than %d", name, rank, MP_RANK_MAX);
    for (size_t k = 0; k < rank; k++)
        if (dims[k] < 0)
            return MP_FAIL(err, MP_PARSE, "dimension %zu of tensor '%s' is negative (%" PRId64 ")", k, name, dims[k]);
    for (size_t k = 0; k < rank; k++)
        if (!mp_multiply(*n, dims[k], n))
            return MP_FAIL(err, MP_PARSE, "tensor '%s' has more elements than can be counted", name);
    return MP_OK;
}

static const char *external_entry(const Onnx__TensorProto *tensor, const char *key)
{
    for (size_t k = 0; k < tensor->n_external_data; k++)
        if (tensor->external_data[k]->key && !strcmp(tensor->external_data[k]->key, key))
            return tensor->external_data[k]->value;
    return NULL;
}

static bool is_external(const Onnx__TensorProto *tensor)
{
    return tensor->has_data_location && tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* Checks the fields that describe where the external data of a tensor are stored. */
static mp_status check_external(const Onnx__TensorProto *tensor, const char *name, int64_t bytes, mp_error *err)
{
    static const char *const numbers[] = {"offset", "length"};
    if (!is_external(tensor)) return MP_OK;
    const char *location = external_entry(tensor, "location");
    if (!location || !*location)
        return MP_FAIL(err, MP_PARSE, "tensor '%s' is stored in another file, but the file's name is missing", name);
    for (int k = 0; k < 2; k++) {
        const char *text = external_entry(tensor, numbers[k]);
        if (!text) continue;
        char *rest;
        long long number = strtoll(text, &rest, 10);
        MP_ENSURE(*text && !*rest && number >= 0 && number != LLONG_MAX, err, MP_PARSE,
                  "tensor '%s' is stored in another file, but its %s '%.40s' is not a size", name, numbers[k], text);
        if (k == 1 && number != bytes)
            return MP_FAIL(err, MP_PARSE, "tensor '%s' has %lld bytes in another file, but its type and shape need %lld", name,
                           number, (long long)bytes);
    }
    return MP_OK;
}

static uint64_t little_endian(const uint8_t *bytes, int n)
{
    uint64_t value = 0;
    for (int k = n; k-- > 0;) value = value << 8 | bytes[k];
    return value;
}

static double float16(uint32_t bits)
{
    const uint32_t sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    const uint32_t word = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    float normal;
    memcpy(&normal, &word, sizeof normal);
    if (exponent) return (double)normal;
    return fraction * (sign ? -0x1p-24 : 0x1p-24);
}

double mp_onnx_real(mp_dtype dtype, uint64_t bits)
{
    if (dtype == MP_DTYPE_FLOAT16) return float16((uint32_t)bits);
    if (dtype == MP_DTYPE_DOUBLE) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    uint32_t single = (uint32_t)(dtype == MP_DTYPE_BFLOAT16 ? bits << 16 : bits);
    float value;
    memcpy(&value, &single, sizeof value);
    return (double)value;
}

/* Converts the bit pattern of an element of this type to an integer. */
static int64_t integer(mp_dtype dtype, uint64_t bits)
{
    int width = mp_dtype_bits(dtype);
    bool is_signed = dtype == MP_DTYPE_INT4 || dtype == MP_DTYPE_INT8 || dtype == MP_DTYPE_INT16 || dtype == MP_DTYPE_INT32;
    if (dtype == MP_DTYPE_BOOL) return bits != 0;
    if (width < 64) bits &= (1ull << width) - 1;
    if (is_signed && bits >> (width - 1)) bits |= ~0ull << width;
    int64_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The typed array of a TensorProto that contains the elements. */
typedef struct typed_array {
    const void *elements;
    size_t n;
    bool is_wide; /* true: the elements of the protobuf array have 64 bits; false: 32 bits */
} typed_array;

static typed_array typed_array_of(const Onnx__TensorProto *tensor, mp_dtype dtype)
{
    switch (dtype) {
    case MP_DTYPE_FLOAT:
        return (typed_array){tensor->float_data, tensor->n_float_data, false};
    case MP_DTYPE_DOUBLE:
        return (typed_array){tensor->double_data, tensor->n_double_data, true};
    case MP_DTYPE_INT64:
        return (typed_array){tensor->int64_data, tensor->n_int64_data, true};
    case MP_DTYPE_UINT32:
    case MP_DTYPE_UINT64:
        return (typed_array){tensor->uint64_data, tensor->n_uint64_data, true};
    default:
        return (typed_array){tensor->int32_data, tensor->n_int32_data, false};
    }
}

static uint64_t typed_element(const typed_array *typed, size_t k)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;
    if (typed->is_wide)
        memcpy(&wide, (const uint64_t *)typed->elements + k, sizeof wide);
    else
        memcpy(&narrow, (const uint32_t *)typed->elements + k, sizeof narrow);
    return typed->is_wide ? wide : narrow;
}

static bool has_values(mp_dtype dtype)
{
    switch (dtype) {
    case MP_DTYPE_FLOAT16:
    case MP_DTYPE_BFLOAT16:
    case MP_DTYPE_FLOAT:
    case MP_DTYPE_DOUBLE:
    case MP_DTYPE_BOOL:
        return true;
    default:
        return mp_dtype_is_integer(dtype);
    }
}

/* Reads the elements of a tensor. *out is NULL if the elements are not in the file, if the check before parsing (onnx/scan)
 * removed them, or if they are not numbers. */
static mp_status tensor_value(mp_model *model, const Onnx__TensorProto *tensor, const char *name, mp_dtype dtype, int64_t n,
                              mp_value **out, mp_error *err)
{
    const int bits = mp_dtype_bits(dtype);
    const typed_array typed = typed_array_of(tensor, dtype);
    bool raw = tensor->has_raw_data && tensor->raw_data.len > 0;
    size_t per_entry = bits == 4 ? 2 : 1; /* elements of 4 bits: two of them share a byte, also in int32_data */
    size_t found = raw ? tensor->raw_data.len * 8 / (size_t)(bits ? bits : 8) : typed.n * per_entry;
    *out = NULL;
    if (!has_values(dtype) || is_external(tensor) || n > MP_VALUE_MAX || (n > 0 && found == 0)) return MP_OK;
    MP_ENSURE(found == (size_t)n || (bits == 4 && found == (size_t)n + n % 2), err, MP_PARSE,
              "tensor '%s' carries %zu elements, but its shape needs %" PRId64, name, found, n);
    mp_value *value = mp_value_new(model, n, mp_dtype_is_float(dtype));
    MP_ENSURE(value, err, MP_NOMEM, "no memory for the values of '%s'", name);
    for (int64_t k = 0; k < n; k++) {
        size_t entry = (size_t)k / per_entry;
        uint64_t pattern =
            raw ? bits == 4 ? tensor->raw_data.data[entry] : little_endian(tensor->raw_data.data + k * (bits / 8), bits / 8)
                : typed_element(&typed, entry);
        if (bits == 4 && k % 2) pattern >>= 4;
        if (value->is_real)
            value->f[k] = mp_onnx_real(dtype, pattern);
        else
            value->i[k] = integer(dtype, pattern);
    }
    *out = value;
    return MP_OK;
}

/* Adds a tensor to the model under the name that the file states. */
static mp_status add_named(mp_model *model, const char *name, int *index, mp_error *err)
{
    MP_ENSURE(*name, err, MP_PARSE, "the file has an initializer without a name");
    MP_ENSURE(mp_model_find(model, name) < 0, err, MP_PARSE, "the file has two initializers named '%s'", name);
    return mp_model_tensor(model, name, index, err);
}

/* Sets the type and shape of a tensor that no operator computes. */
static mp_status set_constant(mp_model *model, int index, mp_dtype dtype, const int64_t *dims, size_t rank, mp_error *err)
{
    mp_status st = mp_tensor_set(model, index, dtype, (int)rank, dims, err);
    if (st == MP_OK) model->tensors[index].role = MP_ROLE_CONSTANT;
    return st;
}

static int64_t bytes_of(mp_dtype dtype, int64_t elements)
{
    int64_t bits;
    return mp_multiply(elements, mp_dtype_bits(dtype), &bits) ? bits / 8 + (bits % 8 != 0) : INT64_MAX;
}

mp_status mp_onnx_initializer(mp_model *model, const Onnx__TensorProto *tensor, int index, mp_error *err)
{
    const char *name = tensor->name ? tensor->name : "";
    mp_dtype dtype = MP_DTYPE_UNDEFINED;
    int64_t elements;
    MP_CHECK(tensor_type(tensor, name, &dtype, err));
    MP_CHECK(count_elements(name, tensor->dims, tensor->n_dims, &elements, err));
    MP_CHECK(check_external(tensor, name, bytes_of(dtype, elements), err));
    if (index < 0) MP_CHECK(add_named(model, name, &index, err));
    MP_CHECK(set_constant(model, index, dtype, tensor->dims, tensor->n_dims, err));
    return tensor_value(model, tensor, name, dtype, elements, &model->tensors[index].value, err);
}

mp_status mp_onnx_sparse_initializer(mp_model *model, const Onnx__SparseTensorProto *tensor, mp_error *err)
{
    const char *name = tensor->values && tensor->values->name ? tensor->values->name : "";
    mp_dtype dtype = MP_DTYPE_UNDEFINED;
    int64_t elements;
    int index = -1;
    MP_ENSURE(tensor->values, err, MP_PARSE, "the file has a sparse initializer without values");
    MP_CHECK(tensor_type(tensor->values, name, &dtype, err));
    MP_CHECK(count_elements(name, tensor->dims, tensor->n_dims, &elements, err));
    MP_CHECK(add_named(model, name, &index, err));
    return set_constant(model, index, dtype, tensor->dims, tensor->n_dims, err);
}

static mp_status tensor_attribute(mp_model *model, const Onnx__TensorProto *tensor, const char *op, mp_attribute *out,
                                  mp_error *err)
{
    const char *name = mp_pool_format(model->pool, "%s of %s", out->name, op);
    int64_t elements;
    MP_ENSURE(name, err, MP_NOMEM, "no memory for an attribute of '%s'", op);
    out->kind = MP_ATTRIBUTE_TENSOR;
    MP_CHECK(tensor_type(tensor, name, &out->dtype, err));
    MP_CHECK(count_elements(name, tensor->dims, tensor->n_dims, &elements, err));
    MP_CHECK(check_external(tensor, name, bytes_of(out->dtype, elements), err));
    out->rank = (int)tensor->n_dims;
    out->dims = tensor->dims;
    return tensor_value(model, tensor, name, out->dtype, elements, &out->value, err);
}

/* Reads a sparse tensor without its values, because no operator rule reads the values. */
static mp_status sparse_attribute(const Onnx__SparseTensorProto *tensor, const char *op, mp_attribute *out, mp_error *err)
{
    int64_t elements;
    MP_ENSURE(tensor->values, err, MP_PARSE, "attribute '%s' of '%s' is a sparse tensor without values", out->name, op);
    out->kind = MP_ATTRIBUTE_TENSOR;
    out->rank = (int)tensor->n_dims;
    out->dims = tensor->dims;
    mp_status st = count_elements(out->name, tensor->dims, tensor->n_dims, &elements, err);
    return st == MP_OK ? tensor_type(tensor->values, out->name, &out->dtype, err) : st;
}

static mp_status floats_attribute(mp_model *model, const Onnx__AttributeProto *a, mp_attribute *out, mp_error *err)
{
    out->kind = MP_ATTRIBUTE_FLOATS;
    out->n = a->n_floats;
    out->floats = mp_pool_alloc(model->pool, a->n_floats, sizeof *out->floats);
    if (!out->floats) return MP_FAIL(err, MP_NOMEM, "no memory for the attribute '%s'", out->name);
    for (size_t k = 0; k < a->n_floats; k++) out->floats[k] = (double)a->floats[k];
    return MP_OK;
}

/* Stores a list of texts as one text attribute, with commas as separators. */
static mp_status text_attribute(mp_model *model, const ProtobufCBinaryData *texts, size_t n, mp_attribute *out, mp_error *err)
{
    size_t length = 1, at = 0;
    for (size_t k = 0; k < n; k++) {
        if (texts[k].len && memchr(texts[k].data, 0, texts[k].len))
            return MP_OK; /* a text with zero bytes is binary data, which no operator rule reads */
        length += texts[k].len + 1;
    }
    char *text = mp_pool_alloc(model->pool, length, 1);
    MP_ENSURE(text, err, MP_NOMEM, "no memory for the attribute '%s'", out->name);
    for (size_t k = 0; k < n; k++) {
        if (k) text[at++] = ',';
        if (texts[k].len) memcpy(text + at, texts[k].data, texts[k].len);
        at += texts[k].len;
    }
    out->kind = MP_ATTRIBUTE_TEXT;
    out->text = text;
    return MP_OK;
}

/* Returns the kind of an attribute. Files of format version 1 do not state the kind, so it is derived from the fields. */
static int attribute_type(const Onnx__AttributeProto *a)
{
    if (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return (int)a->type;
    return a->has_f       ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT
           : a->has_i     ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT
           : a->has_s     ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING
           : a->t         ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR
           : a->g         ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH
           : a->n_graphs  ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS
           : a->n_floats  ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS
           : a->n_ints    ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS
           : a->n_strings ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS
                          : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

mp_status mp_onnx_attribute(mp_model *model, const Onnx__AttributeProto *a, const char *name, const char *op, mp_attribute *out,
                            mp_error *err)
{
    *out = (mp_attribute){.name = name, .kind = MP_ATTRIBUTE_OTHER};
    switch (attribute_type(a)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        out->kind = MP_ATTRIBUTE_FLOAT;
        out->f = (double)a->f;
        return MP_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
        out->kind = MP_ATTRIBUTE_INT;
        out->i = a->i;
        return MP_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        return text_attribute(model, &a->s, 1, out, err);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
        return text_attribute(model, a->strings, a->n_strings, out, err);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
        if (!a->t) return MP_FAIL(err, MP_PARSE, "attribute '%s' of '%s' is a missing tensor", name, op);
        return tensor_attribute(model, a->t, op, out, err);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR:
        if (!a->sparse_tensor) return MP_FAIL(err, MP_PARSE, "attribute '%s' of '%s' is a missing tensor", name, op);
        return sparse_attribute(a->sparse_tensor, op, out, err);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
        return floats_attribute(model, a, out, err);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        out->kind = MP_ATTRIBUTE_INTS;
        out->n = a->n_ints;
        out->ints = a->ints;
        return MP_OK;
    default:
        return MP_OK;
    }
}
