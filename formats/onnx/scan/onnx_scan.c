/* onnx_scan.c - checks a file's wire format and copies the file without its weights.
 *
 * protobuf-c has no limits. It unpacks messages nested so deeply that the stack overflows. It merges ten thousand repetitions
 * of a singular message in quadratic time. It uses 73 to 129 MB for a megabyte of empty messages. It also copies weights. The
 * scan therefore runs first. The scan follows the message types of the generated code and refuses malformed or excessive input.
 * It writes a skeleton: the same messages without payloads of large tensors and without documentation. The payload of a tensor
 * is its elements. A file of 10 GB with embedded weights gives a skeleton of some hundred kilobytes, and no page of a payload
 * is read.
 *
 * The length of a message precedes it and is known only after copying. The scan reserves five bytes for the length, which every
 * protobuf reader accepts, and fills them in later. */
#include "formats/onnx/scan/onnx_scan.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/model/model.h"
#include "formats/onnx/scan/onnx_wire.h"
#include "onnx.pb-c.h"

typedef ProtobufCMessageDescriptor descriptor;
typedef ProtobufCFieldDescriptor schema_field;

typedef struct scanner {
    const uint8_t *file;
    mp_onnx_skeleton *out;
    int64_t n_messages, n_nodes, kept_payload_bytes;
    mp_error *err;
} scanner;

/* Fields that memplan needs and that older schemas lack: message, field number, field number in the skeleton (the copy without
 * weights), message type (NULL: a text). */
static const struct younger {
    const descriptor *in;
    uint32_t id, skeleton_id;
    const descriptor *message;
} younger_fields[] = {
    {&onnx__value_info_proto__descriptor, 4, MP_ONNX_VALUE_METADATA, &onnx__string_string_entry_proto__descriptor},
    {&onnx__graph_proto__descriptor, 16, MP_ONNX_GRAPH_METADATA, &onnx__string_string_entry_proto__descriptor},
    {&onnx__node_proto__descriptor, 8, MP_ONNX_NODE_OVERLOAD, NULL},
    {&onnx__node_proto__descriptor, 9, MP_ONNX_NODE_METADATA, &onnx__string_string_entry_proto__descriptor},
    {&onnx__function_proto__descriptor, 11, MP_ONNX_FUNCTION_DEFAULT, &onnx__attribute_proto__descriptor},
    {&onnx__function_proto__descriptor, 13, MP_ONNX_FUNCTION_OVERLOAD, NULL},
};

/* Names of the fields that the skeleton, the copy of the file without weights, omits. */
static const char *const dropped_fields[] = {"doc_string", "metadata_props", "training_info", "quantization_annotation"};

/* Field numbers of a TensorProto that contain its payload (elements). */
enum { FLOATS = 4, INT32S = 5, STRINGS = 6, INT64S = 7, RAW = 9, DOUBLES = 10, UINT64S = 11 };

static mp_status put(scanner *s, const void *bytes, size_t n)
{
    mp_onnx_skeleton *out = s->out;
    if (n > MP_ONNX_SKELETON_MAX - out->size)
        return MP_FAIL(s->err, MP_PARSE, "the file has more than %d bytes besides its weights", MP_ONNX_SKELETON_MAX);
    if (!mp_grow(&out->bytes, &out->capacity, out->size + n, 1))
        return MP_FAIL(s->err, MP_NOMEM, "no memory for %zu bytes of the model", out->size + n);
    if (n) memcpy(out->bytes + out->size, bytes, n);
    out->size += n;
    return MP_OK;
}

static mp_status malformed(const scanner *s, const descriptor *d, const uint8_t *at, const char *what)
{
    return MP_FAIL(s->err, MP_PARSE, "this is no ONNX model, or a damaged one: %s in %s at byte %zu", what, d->short_name,
                   (size_t)(at - s->file));
}

/* The fields of a TensorProto that decide whether its payload (elements) is copied to the skeleton. */
typedef struct tensor_facts {
    const uint8_t *name, *name_end;
    int64_t dims[MP_RANK_MAX];
    int rank;
    int64_t type;
    int64_t raw_bytes, float_bytes, double_bytes, other_bytes;
} tensor_facts;

static void add_dimension(tensor_facts *t, uint64_t size)
{
    if (t->rank < MP_RANK_MAX) t->dims[t->rank] = (int64_t)size;
    t->rank++;
}

/* Reads the fields of tensor_facts from a TensorProto, and skips the payload. */
static mp_status look_at_tensor(const scanner *s, const uint8_t *at, const uint8_t *end, tensor_facts *t)
{
    *t = (tensor_facts){0};
    mp_wire_field f;
    while (at < end) {
        const uint8_t *here = at;
        if (!mp_wire_next(&at, end, &f)) return malformed(s, &onnx__tensor_proto__descriptor, here, "a broken field");
        int64_t length = f.end - f.bytes;
        if (f.id == 1 && f.wire == MP_WIRE_VARINT) {
            add_dimension(t, f.number);
        } else if (f.id == 1) {
            uint64_t size;
            while (f.bytes < f.end && t->rank <= MP_RANK_MAX) {
                if (!mp_wire_varint(&f.bytes, f.end, &size))
                    return malformed(s, &onnx__tensor_proto__descriptor, here, "a broken dimension");
                add_dimension(t, size);
            }
        } else if (f.id == 2) {
            t->type = (int32_t)f.number;
        } else if (f.id == 8) {
            t->name = f.bytes;
            t->name_end = f.end;
        } else if (f.id == RAW) {
            t->raw_bytes = length;
        } else if (f.id == FLOATS) {
            t->float_bytes += length;
        } else if (f.id == DOUBLES) {
            t->double_bytes += length;
        } else if (f.id == INT32S || f.id == STRINGS || f.id == INT64S || f.id == UINT64S) {
            t->other_bytes += length;
        }
    }
    return MP_OK;
}

/* Decides whether the payload of a tensor is kept in the skeleton. It is kept only if it has few elements, such as a shape.
 * Fails if the length of the payload does not match the shape. */
static mp_status judge_payload(scanner *s, const tensor_facts *t, bool *keep)
{
    mp_dtype type = t->type > 0 && t->type < MP_N_DTYPES ? (mp_dtype)t->type : MP_DTYPE_UNDEFINED;
    int64_t elements = 1, bits = 0, payload = t->raw_bytes + t->float_bytes + t->double_bytes + t->other_bytes;
    int name_length = t->name && t->name_end - t->name < 200 ? (int)(t->name_end - t->name) : 0;
    MP_ENSURE(t->rank <= MP_RANK_MAX, s->err, MP_PARSE, "tensor '%.*s' has more than %d dimensions", name_length,
              (const char *)t->name, MP_RANK_MAX);
    for (int k = 0; k < t->rank && elements >= 0; k++)
        if (!mp_multiply(elements, t->dims[k], &elements))
            elements = -1; /* if the size overflows, a later check refuses the tensor, with a message that names it */
    *keep = false;
    if (elements < 0 || type == MP_DTYPE_UNDEFINED) return MP_OK;
    bool fits = mp_multiply(elements, mp_dtype_bits(type), &bits);
    int64_t needed = bits / 8 + (bits % 8 != 0);
    int64_t found = t->raw_bytes                                 ? t->raw_bytes
                    : type == MP_DTYPE_FLOAT && t->float_bytes   ? t->float_bytes
                    : type == MP_DTYPE_DOUBLE && t->double_bytes ? t->double_bytes
                                                                 : needed;
    if (type != MP_DTYPE_STRING && fits && found != needed)
        return MP_FAIL(s->err, MP_PARSE, "tensor '%.*s' carries %lld bytes of values, but its type and shape need %lld",
                       name_length, (const char *)t->name, (long long)found, (long long)needed);
    int64_t limit = mp_dtype_is_float(type)                              ? MP_ONNX_FLOATS_MAX
                    : mp_dtype_is_integer(type) || type == MP_DTYPE_BOOL ? MP_VALUE_MAX
                                                                         : -1;
    *keep = elements <= limit && payload <= MP_ONNX_PAYLOADS_MAX - s->kept_payload_bytes;
    if (*keep) s->kept_payload_bytes += payload;
    return MP_OK;
}

static bool is_payload(uint32_t id)
{
    return (id >= FLOATS && id <= INT64S) || (id >= RAW && id <= UINT64S);
}

static bool is_dropped(const schema_field *field)
{
    for (size_t k = 0; k < sizeof dropped_fields / sizeof *dropped_fields; k++)
        if (!strcmp(field->name, dropped_fields[k])) return true;
    return false;
}

static const struct younger *find_younger(const descriptor *in, uint32_t id)
{
    for (size_t k = 0; k < sizeof younger_fields / sizeof *younger_fields; k++)
        if (younger_fields[k].in == in && younger_fields[k].id == id) return &younger_fields[k];
    return NULL;
}

/* True if fields of this type may have this wire type. An array of numbers may also be packed as bytes. */
static bool right_wire(const schema_field *field, int wire)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return wire == MP_WIRE_BYTES;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return wire == MP_WIRE_32BIT || (wire == MP_WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED);
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return wire == MP_WIRE_64BIT || (wire == MP_WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED);
    default:
        return wire == MP_WIRE_VARINT || (wire == MP_WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED);
    }
}

static mp_status put_tag(scanner *s, uint32_t id)
{
    uint8_t bytes[5];
    size_t n = 0;
    uint32_t tag = id << 3 | MP_WIRE_BYTES;
    for (; tag >= 128; tag >>= 7) bytes[n++] = (uint8_t)(tag | 128);
    bytes[n++] = (uint8_t)tag;
    return put(s, bytes, n);
}

static mp_status copy_message(scanner *s, const descriptor *d, const uint8_t *at, const uint8_t *end, int depth);

/* Copies a field that contains a message to the skeleton, where its field number is `id`. */
static mp_status copy_submessage(scanner *s, uint32_t id, const descriptor *d, const mp_wire_field *f, int depth)
{
    static const uint8_t zeros[5];
    MP_CHECK(put_tag(s, id));
    MP_CHECK(put(s, zeros, sizeof zeros));
    size_t start = s->out->size;
    MP_CHECK(copy_message(s, d, f->bytes, f->end, depth + 1));
    size_t length = s->out->size - start;
    for (size_t k = 0; k < sizeof zeros; k++)
        s->out->bytes[start - sizeof zeros + k] = (uint8_t)((length >> (7 * k) & 127) | (k + 1 < sizeof zeros ? 128 : 0));
    return MP_OK;
}

/* Copies a field that the schema contains, unchanged, if it is well-formed. */
static mp_status copy_plain(scanner *s, const descriptor *d, const schema_field *field, const mp_wire_field *f)
{
    if (field->type == PROTOBUF_C_TYPE_STRING && !mp_wire_is_text(f->bytes, f->end))
        return malformed(s, d, f->start, "a name that is not UTF-8 or has a zero byte");
    return put(s, f->start, (size_t)(f->end - f->start));
}

static mp_status copy_younger(scanner *s, const struct younger *y, const mp_wire_field *f, int depth)
{
    if (f->wire != MP_WIRE_BYTES) return malformed(s, y->in, f->start, "a field of the wrong kind");
    if (y->message) return copy_submessage(s, y->skeleton_id, y->message, f, depth);
    if (!mp_wire_is_text(f->bytes, f->end)) return malformed(s, y->in, f->start, "a name that is not UTF-8 or has a zero byte");
    if (f->end - f->bytes > 127) return malformed(s, y->in, f->start, "an overload name of more than 127 bytes");
    uint8_t length = (uint8_t)(f->end - f->bytes);
    MP_CHECK(put_tag(s, y->skeleton_id));
    MP_CHECK(put(s, &length, 1));
    return put(s, f->bytes, length);
}

static mp_status count_message(scanner *s, const descriptor *d, const uint8_t *at, int depth)
{
    if (depth > MP_ONNX_DEPTH_MAX) return malformed(s, d, at, "messages nested more than 64 deep");
    if (++s->n_messages > MP_ONNX_MESSAGES_MAX)
        return MP_FAIL(s->err, MP_PARSE, "the file has more than %d messages", MP_ONNX_MESSAGES_MAX);
    if (d == &onnx__node_proto__descriptor && ++s->n_nodes > MP_ONNX_NODES_MAX)
        return MP_FAIL(s->err, MP_PARSE, "the file has more than %d operators", MP_ONNX_NODES_MAX);
    return MP_OK;
}

static mp_status copy_message(scanner *s, const descriptor *d, const uint8_t *at, const uint8_t *end, int depth)
{
    bool is_tensor = d == &onnx__tensor_proto__descriptor, keep_payload = true;
    uint64_t seen =
        0; /* bit k is set if singular field k of this message type has occurred; only fields that contain a message count */
    MP_CHECK(count_message(s, d, at, depth));
    if (is_tensor) {
        tensor_facts facts;
        MP_CHECK(look_at_tensor(s, at, end, &facts));
        MP_CHECK(judge_payload(s, &facts, &keep_payload));
    }
    while (at < end) {
        mp_wire_field f;
        const uint8_t *here = at;
        if (!mp_wire_next(&at, end, &f)) MP_CHECK(malformed(s, d, here, "a broken or cut off field"));
        const struct younger *younger = find_younger(d, f.id);
        const schema_field *field = protobuf_c_message_descriptor_get_field(d, f.id);
        if (younger) {
            MP_CHECK(copy_younger(s, younger, &f, depth));
            continue;
        }
        if (!field) continue;
        if (!right_wire(field, f.wire)) MP_CHECK(malformed(s, d, here, "a field of the wrong kind"));
        if (is_dropped(field) || (is_tensor && !keep_payload && is_payload(f.id))) continue;
        if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
            MP_CHECK(copy_plain(s, d, field, &f));
            continue;
        }
        uint64_t bit = 1ull << ((field - d->fields) & 63);
        MP_ENSURE(field->label == PROTOBUF_C_LABEL_REPEATED || !(seen & bit), s->err, MP_PARSE,
                  "the file repeats the field '%s' of a %s at byte %zu; it is allowed once", field->name, d->short_name,
                  (size_t)(here - s->file));
        seen |= bit;
        MP_CHECK(copy_submessage(s, f.id, field->descriptor, &f, depth));
    }
    return MP_OK;
}

mp_status mp_onnx_scan(const uint8_t *bytes, size_t size, mp_onnx_skeleton *out, mp_error *err)
{
    MP_CLEARED_BY(mp_onnx_skeleton_free) mp_onnx_skeleton skeleton = {0};
    scanner s = {.file = bytes, .out = &skeleton, .err = err};
    MP_CHECK(copy_message(&s, &onnx__model_proto__descriptor, bytes, bytes + size, 1));
    *out = skeleton;
    skeleton = (mp_onnx_skeleton){0};
    return MP_OK;
}

void mp_onnx_skeleton_free(mp_onnx_skeleton *skeleton)
{
    mp_free(skeleton->bytes);
    *skeleton = (mp_onnx_skeleton){0};
}

/* Limits of protobuf-c's memory. protobuf-c uses ten bytes per byte of the skeleton (the copy without weights) for real files,
 * but up to 129 for hostile files. */
enum { BASE_BYTES = 64 << 20, BYTES_PER_BYTE = 32, MAX_BYTES = 1 << 30 };

static void *budget_alloc(void *data, size_t size)
{
    mp_onnx_budget *budget = data;
    if (size > budget->left) {
        budget->exhausted = true;
        return NULL;
    }
    budget->left -= size;
    void *p = mp_alloc(1, size);
    if (!p) budget->out_of_memory = true;
    return p;
}

static void budget_free(void *data, void *p)
{
    (void)data;
    mp_free(p);
}

void mp_onnx_budget_start(mp_onnx_budget *budget, size_t skeleton_bytes)
{
    size_t bytes = BASE_BYTES + skeleton_bytes * BYTES_PER_BYTE;
    *budget = (mp_onnx_budget){{budget_alloc, budget_free, budget}, bytes < MAX_BYTES ? bytes : MAX_BYTES, false, false};
}

mp_status mp_onnx_budget_failure(const mp_onnx_budget *budget, const char *what, mp_error *err)
{
    if (budget->out_of_memory) return MP_FAIL(err, MP_NOMEM, "no memory to unpack %s", what);
    if (budget->exhausted) return MP_FAIL(err, MP_PARSE, "%s takes more memory than a model of this size can need", what);
    return MP_FAIL(err, MP_PARSE, "this is no ONNX model, or a damaged one: protobuf cannot unpack %s", what);
}
