/* json.c - calls jansson's parser and printer; no other file does. */
#include "formats/json/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/visible_text.h"
#include "formats/base/file.h"

_Thread_local mp_json_limits mp_json_most = {1 << 30, 2000000, 8000000};

/* In a large file the limits increase to one container per 16 bytes and one element per 4 bytes. memplan's own files have
 * fewer. */
enum { CONTAINER_BYTES = 16, ELEMENT_BYTES = 4 };

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Counts the values of a file before jansson parses it. This limits memory, because jansson may use 220 bytes for an object
 * of 3 characters. */
static mp_status check_size(const uint8_t *bytes, size_t size, mp_error *err)
{
    size_t containers = 0, elements = 0;
    for (size_t i = 0; i < size; i++) {
        containers += bytes[i] == '{' || bytes[i] == '[';
        elements += bytes[i] == ',';
    }
    MP_ENSURE(containers <= larger(mp_json_most.containers, size / CONTAINER_BYTES) &&
                  elements <= larger(mp_json_most.elements, size / ELEMENT_BYTES),
              err, MP_PARSE, "the file holds too many values");
    return MP_OK;
}

static mp_status check_format(const json_t *object, const char *format, mp_error *err)
{
    mp_json_record top = {.object = object, .err = err};
    const char *found = NULL;
    int64_t version = 1;
    MP_ENSURE(json_is_object(object), err, MP_PARSE, "the file is not a JSON object, so it cannot be a %s file", format);
    MP_CHECK(mp_json_get_text(&top, "format", true, &found));
    MP_ENSURE(!strcmp(found, format), err, MP_PARSE, "the file's format is \"%s\", not \"%s\"", found, format);
    MP_CHECK(mp_json_get_int(&top, "version", false, &version));
    MP_ENSURE(version == 1, err, MP_UNSUPPORTED, "version %lld of %s is not known, only version 1", (long long)version, format);
    return MP_OK;
}

json_t *mp_json_load(const void *text, size_t size, json_error_t *fault, bool *is_nomem)
{
    errno = 0;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, fault);
    /* Distinguishes a lack of memory from a syntax error. If an allocation fails, jansson gives no error text for an object
     * or array, and reports a syntax error for a string. */
    *is_nomem = !json && (errno == ENOMEM || !fault->text[0] || json_error_code(fault) == json_error_out_of_memory);
    return json;
}

mp_status mp_json_read_text(const void *text, size_t size, const char *name, const char *format, json_t **out, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *json = NULL;
    json_error_t fault;
    bool is_nomem = false;
    MP_CHECK(check_size(text, size, err));
    json = mp_json_load(text, size, &fault, &is_nomem);
    MP_ENSURE(!is_nomem, err, MP_NOMEM, "no memory to read JSON");
    if (!json) {
        const int line = fault.line > 0 ? fault.line : 0, column = line && fault.column > 0 ? fault.column : 0;
        return MP_FAIL_AT(err, MP_PARSE, name, line, column, "JSON: %s", fault.text);
    }
    MP_CHECK(check_format(json, format, err));
    *out = json;
    json = NULL;
    return MP_OK;
}

mp_status mp_json_read(const char *path, const char *format, json_t **out, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_CLEARED_BY(mp_file_close) mp_file file = {0};
    MP_CHECK(mp_file_open(path, mp_json_most.bytes, &file, err));
    return mp_json_read_text(file.bytes, file.size, path, format, out, err);
}

mp_status mp_json_record_fail(const mp_json_record *row, const char *format, ...)
{
    char where[200] = "", what[300];
    const char *name = row->object ? json_string_value(json_object_get(row->object, "name")) : NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (row->array && name)
        snprintf(where, sizeof where, "%s[%zu] (%.120s): ", row->array, row->index, name);
    else if (row->array)
        snprintf(where, sizeof where, "%s[%zu]: ", row->array, row->index);
    return MP_FAIL(row->err, MP_PARSE, "%s%s", where, what);
}

mp_status mp_json_record_at(const json_t *array, const char *name, size_t i, mp_json_record *out, mp_error *err)
{
    *out = (mp_json_record){json_array_get(array, i), name, i, err};
    return json_is_object(out->object) ? MP_OK : MP_FAIL(err, MP_PARSE, "%s[%zu] is no object", name, i);
}

/* Finds the value of a field; NULL: missing or null. MP_PARSE: the field is missing although it is required, or its type is
 * not in `types`. `types` has bit k for type k of jansson; `what` describes the types for messages. */
static mp_status field(const mp_json_record *row, const char *key, bool required, unsigned types, const char *what,
                       const json_t **value)
{
    *value = json_object_get(row->object, key);
    if (json_is_null(*value)) *value = NULL;
    if (!*value) return required ? mp_json_record_fail(row, "\"%s\" is missing", key) : MP_OK;
    return types >> json_typeof(*value) & 1 ? MP_OK : mp_json_record_fail(row, "\"%s\" is %s", key, what);
}

mp_status mp_json_get_int(const mp_json_record *row, const char *key, bool required, int64_t *value)
{
    const json_t *v;
    MP_CHECK(field(row, key, required, 1u << JSON_INTEGER, "no whole number", &v));
    if (v) *value = json_integer_value(v);
    return MP_OK;
}

mp_status mp_json_get_real(const mp_json_record *row, const char *key, bool required, double *value)
{
    const json_t *v;
    MP_CHECK(field(row, key, required, 1u << JSON_INTEGER | 1u << JSON_REAL, "no number", &v));
    if (v) *value = json_number_value(v);
    return MP_OK;
}

mp_status mp_json_get_flag(const mp_json_record *row, const char *key, bool *value)
{
    const json_t *v;
    MP_CHECK(field(row, key, false, 1u << JSON_TRUE | 1u << JSON_FALSE, "neither true nor false", &v));
    if (v) *value = json_boolean_value(v);
    return MP_OK;
}

mp_status mp_json_get_text(const mp_json_record *row, const char *key, bool required, const char **value)
{
    const json_t *v;
    MP_CHECK(field(row, key, required, 1u << JSON_STRING, "no text", &v));
    if (v) *value = json_string_value(v);
    return MP_OK;
}

mp_status mp_json_get_array(const mp_json_record *row, const char *key, bool required, const json_t **value)
{
    const json_t *v;
    MP_CHECK(field(row, key, required, 1u << JSON_ARRAY, "no array", &v));
    if (v) *value = v;
    return MP_OK;
}

mp_status mp_json_get_object(const mp_json_record *row, const char *key, const json_t **value)
{
    const json_t *v;
    MP_CHECK(field(row, key, false, 1u << JSON_OBJECT, "no object", &v));
    if (v) *value = v;
    return MP_OK;
}

mp_status mp_json_element_int(const mp_json_record *row, const char *key, const json_t *array, size_t i, int64_t *value)
{
    const json_t *v = json_array_get(array, i);
    if (!json_is_integer(v)) return mp_json_record_fail(row, "\"%s\"[%zu] is no whole number", key, i);
    *value = json_integer_value(v);
    return MP_OK;
}

mp_status mp_json_element_text(const mp_json_record *row, const char *key, const json_t *array, size_t i, const char **value)
{
    const json_t *v = json_array_get(array, i);
    if (!json_is_string(v)) return mp_json_record_fail(row, "\"%s\"[%zu] is no text", key, i);
    *value = json_string_value(v);
    return MP_OK;
}

void mp_json_set(json_t **object, const char *key, json_t *value)
{
    if (json_object_set_new(*object, key, value) == 0) return;
    json_decref(*object);
    *object = NULL;
}

void mp_json_append(json_t **list, json_t *value)
{
    if (json_array_append_new(*list, value) == 0) return;
    json_decref(*list);
    *list = NULL;
}

json_t *mp_json_integer_if(bool known, int64_t value)
{
    return known ? json_integer(value) : json_null();
}

json_t *mp_json_real_if(bool known, double value)
{
    return known ? json_real(value) : json_null();
}

json_t *mp_json_text(const char *text)
{
    json_t *json = json_string(text);
    if (json) return json;
    char *ascii = mp_alloc(strlen(text) + 1, 1);
    if (!ascii) return NULL;
    for (size_t i = 0; text[i]; i++) ascii[i] = text[i] & 0x80 ? '?' : text[i];
    json = json_string(ascii);
    mp_free(ascii);
    return json;
}

json_t *mp_json_parse(const char *text)
{
    json_error_t fault;
    bool is_nomem;
    json_t *json = mp_json_load(text ? text : "", text ? strlen(text) : 0, &fault, &is_nomem);
    if (json_is_object(json) || is_nomem) return json;
    json_decref(json);
    return json_object();
}

/* Escapes those characters that control a terminal and that jansson does not escape. (jansson escapes characters below
 * U+0020.) */
static int put_piece(const char *bytes, size_t n, void *out)
{
    for (const char *at = bytes, *from = bytes; at < bytes + n; from = at) {
        const int32_t c = (unsigned char)*at < 0x7F ? (at++, 0) : mp_utf8_next(&at);
        char escape[MP_VISIBLE_MAX];
        if (c > 0 && mp_is_steering(c)) {
            const int length = snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(c & 0xFFFF));
            mp_text_put_bytes(out, escape, (size_t)length);
        } else {
            mp_text_put_bytes(out, from, (size_t)(at - from));
        }
    }
    return ((mp_text_builder *)out)->failed ? -1 : 0;
}

static void put_value(mp_text_builder *out, const json_t *value, size_t shape)
{
    const size_t flags = shape | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    if (!value || json_dump_callback(value, put_piece, out, flags) != 0) out->failed = true;
}

char *mp_json_print(const json_t *value, int indent)
{
    mp_text_builder out = {0};
    put_value(&out, value, indent ? JSON_INDENT((size_t)indent) : JSON_COMPACT);
    if (!out.failed) return out.text;
    mp_text_builder_free(&out);
    return NULL;
}

void mp_json_start(mp_json_out *out, json_t *header)
{
    const char *key, *between = "{\"";
    json_t *value;
    *out = (mp_json_out){.text.failed = !header};
    json_object_foreach(header, key, value)
    {
        mp_text_put(&out->text, between);
        mp_text_put(&out->text, key); /* memplan itself chooses the keys, so they need no escaping */
        mp_text_put(&out->text, "\":");
        put_value(&out->text, value, JSON_COMPACT);
        between = ",\n \"";
    }
    json_decref(header);
}

void mp_json_begin_array(mp_json_out *out, const char *key)
{
    mp_text_format(&out->text, ",\n \"%s\":[", key);
    out->first = true;
}

void mp_json_row(mp_json_out *out, json_t *row)
{
    mp_text_put(&out->text, out->first ? "\n  " : ",\n  ");
    put_value(&out->text, row, JSON_COMPACT);
    out->first = false;
    json_decref(row);
}

void mp_json_end_array(mp_json_out *out)
{
    mp_text_put(&out->text, "]");
}

mp_status mp_json_finish_text(mp_json_out *out, char **text, mp_error *err)
{
    MP_CLEARED_BY(mp_text_builder_free) mp_text_builder all = out->text;
    *out = (mp_json_out){0};
    mp_text_put(&all, "}\n");
    MP_ENSURE(!all.failed, err, MP_NOMEM, "no memory to write JSON");
    MP_ENSURE((int64_t)all.length <= mp_json_most.bytes, err, MP_LIMIT,
              "the file would have %zu bytes, and files of more than %lld are not read back", all.length,
              (long long)mp_json_most.bytes);
    *text = all.text;
    all = (mp_text_builder){0};
    return MP_OK;
}

mp_status mp_json_finish(mp_json_out *out, const char *path, mp_error *err)
{
    MP_OWNED char *text = NULL;
    MP_CHECK(mp_json_finish_text(out, &text, err));
    return mp_file_write(path, text, strlen(text), err);
}
