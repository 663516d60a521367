/* json.h - interface to jansson: reads files of limited size with exact integers and precise errors, and writes files row by
 * row.
 *
 * memplan's files contain one object: first header fields, then arrays of rows (storages, nodes, steps, ...). A syntax error
 * is reported with line and column. An error in a field is reported with its row: `nodes[3] (Conv_1): "reads" is missing`. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/base/text.h"
#include "memplan/error.h"
#include "memplan/memory.h"

MP_OWNER(json_decref, json_t)

/* Limits on a file: its bytes, its objects and arrays (containers), its elements. For a large file, one container per 16
 * bytes and one element per 4 bytes are permitted if this is more than the limit. Memory is thus proportional to the size of
 * the file. Tests set lower limits. */
typedef struct mp_json_limits {
    int64_t bytes;
    size_t containers, elements;
} mp_json_limits;
extern _Thread_local mp_json_limits mp_json_most;

/* ---- reading ---- */

/* Reads a file that contains one object. Its field "format" must equal `format`, and "version" must be 1 or absent. On MP_OK
 * release *out with json_decref. MP_PARSE: a syntax error, a repeated key, another format, or a file over the limits.
 * MP_UNSUPPORTED: the file has a later version. MP_IO, MP_NOMEM. */
mp_status mp_json_read(const char *path, const char *format, json_t **out, mp_error *err);
/* Like mp_json_read, for a text of `size` bytes in memory. Messages about syntax errors use `name` as file name. */
mp_status mp_json_read_text(const void *text, size_t size, const char *name, const char *format, json_t **out, mp_error *err);

/* A JSON object, and its position in its file for messages. */
typedef struct mp_json_record {
    const json_t *object;
    const char
        *array; /* name of the array that contains the object, such as "nodes"; NULL: it is the outermost object of the file */
    size_t index;
    mp_error *err;
} mp_json_record;

/* Returns element number i of an array, which must be an object, for mp_json_get_int and the other readers of its fields.
 * MP_PARSE: the element is not an object. */
mp_status mp_json_record_at(const json_t *array, const char *name, size_t i, mp_json_record *out, mp_error *err);
/* Read a field of an object. If the field is missing or null, *value is unchanged. MP_PARSE: a required field is missing, or
 * the field has another type. Texts and arrays are valid as long as the document that contains the row. */
mp_status mp_json_get_int(const mp_json_record *row, const char *key, bool required, int64_t *value);
mp_status mp_json_get_real(const mp_json_record *row, const char *key, bool required, double *value);
mp_status mp_json_get_flag(const mp_json_record *row, const char *key, bool *value);
mp_status mp_json_get_text(const mp_json_record *row, const char *key, bool required, const char **value);
mp_status mp_json_get_array(const mp_json_record *row, const char *key, bool required, const json_t **value);
mp_status mp_json_get_object(const mp_json_record *row, const char *key, const json_t **value);
/* Read element number i of the array that is the field `key` of a row. */
mp_status mp_json_element_int(const mp_json_record *row, const char *key, const json_t *array, size_t i, int64_t *value);
mp_status mp_json_element_text(const mp_json_record *row, const char *key, const json_t *array, size_t i, const char **value);
/* Records an error with status MP_PARSE. Its message begins with the position of the row, such as "nodes[3] (Conv_1)". */
mp_status mp_json_record_fail(const mp_json_record *row, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- building and writing ---- */

/* Set (*object)[key], or append to *list, and take ownership of the value. If memory is short, or the value is NULL, the
 * object or list is released and set to NULL. If the object or list is NULL, these functions do nothing, so the caller can
 * check once, at the end. */
void mp_json_set(json_t **object, const char *key, json_t *value);
void mp_json_append(json_t **list, json_t *value);
/* Return a JSON number, or JSON's null if the number is unknown. NULL: out of memory, or JSON cannot represent the number. */
json_t *mp_json_integer_if(bool known, int64_t value);
json_t *mp_json_real_if(bool known, double value);
/* Returns a JSON string. If the text is not UTF-8, its non-ASCII bytes become question marks. NULL: out of memory. */
json_t *mp_json_text(const char *text);
/* Parses a text of `size` bytes. Release the value with json_decref. NULL: the text has a syntax error, which *fault
 * describes, or memory is short (*is_nomem is true). */
json_t *mp_json_load(const void *text, size_t size, json_error_t *fault, bool *is_nomem);
/* Parses a text such as mp_graph.options. If the text is not a valid object, returns an empty object. NULL: out of memory. */
json_t *mp_json_parse(const char *text);
/* Prints a value as text. Doubles have 17 digits; characters that control a terminal are escaped. `indent` is the number of
 * blanks per nesting level; 0: everything in one line. Release the text with mp_free. NULL: out of memory. */
char *mp_json_print(const json_t *value, int indent);

/* A JSON document under construction. Its first failure is kept, and mp_json_finish returns it. */
typedef struct mp_json_out {
    mp_text_builder text;
    bool first; /* true as long as the current array has no element */
} mp_json_out;

void mp_json_start(mp_json_out *out, json_t *header); /* writes the header fields in order, one per line, and releases the
                                                         header. header NULL: an earlier allocation failed */
void mp_json_begin_array(mp_json_out *out, const char *key);
void mp_json_row(mp_json_out *out,
                 json_t *row); /* writes the row on one line and releases it. row NULL: an earlier allocation failed */
void mp_json_end_array(mp_json_out *out);
/* Writes the document to a file (formats/base/file.h) and releases the members of *out. MP_NOMEM, MP_IO. */
mp_status mp_json_finish(mp_json_out *out, const char *path, mp_error *err);
/* Like mp_json_finish, but returns the document as a text. Release the text with mp_free. MP_NOMEM. */
mp_status mp_json_finish_text(mp_json_out *out, char **text, mp_error *err);
