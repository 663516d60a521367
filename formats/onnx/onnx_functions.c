/* onnx_functions.c - functions defined in a file. PyTorch's exporters write modules, or operators of their own library, as
 * functions of standard operators. A call identifies a function by its key (domain, name, overload). Two fields of functions
 * are missing in older ONNX schemas, such as Debian's. onnx_scan.c stores them under other numbers, so protobuf-c returns them
 * as unknown fields. */
#include "formats/onnx/onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/onnx/scan/onnx_scan.h"

enum { VERSION_MAX = 1000 }; /* largest accepted version of an operator set; the newest version in use is far smaller */

const char *mp_onnx_domain(const char *domain)
{
    return domain && strcmp(domain, "ai.onnx") ? domain : "";
}

int mp_onnx_version(Onnx__OperatorSetIdProto *const *imports, size_t n, const char *domain)
{
    for (size_t k = 0; k < n; k++)
        if (!strcmp(mp_onnx_domain(imports[k]->domain), domain)) return (int)imports[k]->version;
    return 0;
}

static mp_status check_list(Onnx__OperatorSetIdProto *const *imports, size_t n, mp_error *err)
{
    MP_ENSURE(n <= MP_ONNX_IMPORTS_MAX, err, MP_PARSE, "the file imports more than %d operator sets", MP_ONNX_IMPORTS_MAX);
    for (size_t k = 0; k < n; k++) {
        const char *domain = mp_onnx_domain(imports[k]->domain);
        int64_t version = imports[k]->has_version ? imports[k]->version : 0;
        if (version < 1 || version > VERSION_MAX)
            return MP_FAIL(err, MP_PARSE, "the file imports version %" PRId64 " of the operator set '%s', which cannot be",
                           version, *domain ? domain : "ai.onnx");
        for (size_t j = 0; j < k; j++)
            if (!strcmp(mp_onnx_domain(imports[j]->domain), domain) && imports[j]->version != version)
                return MP_FAIL(err, MP_PARSE, "the file imports two versions of the operator set '%s'",
                               *domain ? domain : "ai.onnx");
    }
    return MP_OK;
}

mp_status mp_onnx_check_imports(const Onnx__ModelProto *file, mp_error *err)
{
    MP_CHECK(check_list(file->opset_import, file->n_opset_import, err));
    for (size_t k = 0; k < file->n_functions; k++)
        MP_CHECK(check_list(file->functions[k]->opset_import, file->functions[k]->n_opset_import, err));
    return MP_OK;
}

/* Returns the last field of a message with this number, among the fields that protobuf-c's schema does not contain; NULL:
 * there is none. */
static const ProtobufCMessageUnknownField *unknown_field(const ProtobufCMessage *message, uint32_t id)
{
    for (unsigned k = message->n_unknown_fields; k-- > 0;)
        if (message->unknown_fields[k].tag == id) return &message->unknown_fields[k];
    return NULL;
}

/* Returns how many bytes the length prefix of an unknown field has. protobuf-c keeps this prefix before the field's bytes. */
static size_t length_prefix(const ProtobufCMessageUnknownField *field)
{
    size_t n = 0;
    while (n < field->len && field->data[n] >= 128) n++;
    return n < field->len ? n + 1 : field->len;
}

/* Returns the key of a function as a text. The text contains the lengths of its parts, so that different keys never give the
 * same text. Release with mp_free. NULL: out of memory. */
static char *function_key(const char *domain, const char *name, const ProtobufCMessage *message, uint32_t overload_id)
{
    const ProtobufCMessageUnknownField *overload = unknown_field(message, overload_id);
    size_t skip = overload ? length_prefix(overload) : 0, n_overload = overload ? overload->len - skip : 0;
    size_t size = strlen(domain) + strlen(name) + n_overload + 64;
    char *key = mp_alloc(size, 1);
    if (key)
        snprintf(key, size, "%zu %s %zu %s %.*s", strlen(domain), domain, strlen(name), name, (int)n_overload,
                 overload ? (const char *)overload->data + skip : "");
    return key;
}

/* Decodes the default values of a function's attributes. The schema may lack this field, so it may be an unknown field. */
static mp_status read_defaults(mp_onnx_functions *functions, mp_onnx_function *f, mp_error *err)
{
    const ProtobufCMessage *message = &f->proto->base;
    size_t n = 0;
    for (unsigned k = 0; k < message->n_unknown_fields; k++) n += message->unknown_fields[k].tag == MP_ONNX_FUNCTION_DEFAULT;
    MP_ENSURE(f->defaults = mp_pool_alloc(functions->pool, n, sizeof(void *)), err, MP_NOMEM,
              "no memory for the attributes of function '%s'", f->proto->name);
    for (unsigned k = 0; k < message->n_unknown_fields; k++) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[k];
        if (field->tag != MP_ONNX_FUNCTION_DEFAULT) continue;
        size_t skip = length_prefix(field);
        Onnx__AttributeProto *a =
            onnx__attribute_proto__unpack(&functions->budget->allocator, field->len - skip, field->data + skip);
        if (!a) return mp_onnx_budget_failure(functions->budget, "an attribute of a function", err);
        f->defaults[f->n_defaults++] = a;
    }
    return MP_OK;
}

mp_status mp_onnx_functions_read(const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_onnx_functions *out, mp_error *err)
{
    MP_CLEARED_BY(mp_onnx_functions_free) mp_onnx_functions functions = {.budget = budget};
    MP_ENSURE((functions.pool = mp_pool_new()) && (functions.index = mp_names_new()) &&
                  (functions.list = mp_pool_alloc(functions.pool, file->n_functions, sizeof *functions.list)),
              err, MP_NOMEM, "no memory for %zu functions", file->n_functions);
    for (size_t k = 0; k < file->n_functions; k++) {
        const Onnx__FunctionProto *proto = file->functions[k];
        MP_ENSURE(proto->name && *proto->name, err, MP_PARSE, "the file defines a function without a name");
        char *text = function_key(mp_onnx_domain(proto->domain), proto->name, &proto->base, MP_ONNX_FUNCTION_OVERLOAD);
        const char *key = text ? mp_pool_text(functions.pool, text, strlen(text)) : NULL;
        mp_free(text);
        MP_ENSURE(key, err, MP_NOMEM, "no memory for the function '%s'", proto->name);
        MP_ENSURE(mp_names_find(functions.index, key) < 0, err, MP_PARSE, "the file defines the function '%s' twice",
                  proto->name);
        MP_ENSURE(mp_names_set(functions.index, key, (int)k), err, MP_NOMEM, "no memory for the function '%s'", proto->name);
        functions.list[functions.n++].proto = proto;
        MP_CHECK(read_defaults(&functions, &functions.list[k], err));
    }
    *out = functions;
    functions = (mp_onnx_functions){0};
    return MP_OK;
}

void mp_onnx_functions_free(mp_onnx_functions *functions)
{
    for (size_t k = 0; k < functions->n; k++)
        for (size_t j = 0; j < functions->list[k].n_defaults; j++)
            onnx__attribute_proto__free_unpacked(functions->list[k].defaults[j], &functions->budget->allocator);
    mp_names_free(functions->index);
    mp_pool_free(functions->pool);
    *functions = (mp_onnx_functions){0};
}

mp_status mp_onnx_function_of(const mp_onnx_functions *functions, const Onnx__NodeProto *node, const mp_onnx_function **found,
                              mp_error *err)
{
    *found = NULL;
    if (!functions->n) return MP_OK;
    char *key = function_key(mp_onnx_domain(node->domain), node->op_type, &node->base, MP_ONNX_NODE_OVERLOAD);
    int k = key ? mp_names_find(functions->index, key) : -1;
    mp_free(key);
    if (!key) return MP_FAIL(err, MP_NOMEM, "no memory to look up the operator %s", node->op_type);
    if (k >= 0) *found = &functions->list[k];
    return MP_OK;
}
