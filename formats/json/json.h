/* json.h - interface to jansson: bounded reading with exact integers and precise errors, and writing row by row.
 *
 * memplan's files are one object: header fields, then arrays of rows (storages, nodes, steps, ...). A syntax error is reported
 * with line and column, an error in a field with its row: `nodes[3] (Conv_1): "reads" is missing`. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/base/text.h"
#include "memplan/error.h"
#include "memplan/memory.h"

MP_OWNER(json_decref, json_t)

/* Limits on a file: its bytes, its objects and arrays (containers), its elements. A large file may have one container per 16
 * bytes and one element per 4 bytes if these are higher limits, so memory stays proportional to the file size. Tests set lower
 * limits. */
typedef struct mp_json_limits {
    int64_t bytes;
    size_t containers, elements;
} mp_json_limits;
extern _Thread_local mp_json_limits mp_json_most;

/* ---- reading ---- */

/* Reads a file with one object and checks "format": format and "version": 1 (or no version). On MP_OK release *out with
 * json_decref. MP_PARSE: syntax, a repeated key, another format, too large. MP_UNSUPPORTED: a later version. MP_IO,
 * MP_NOMEM. */
mp_status mp_json_read(const char *path, const char *format, json_t **out, mp_error *err);
/* Like mp_json_read, for `size` bytes in memory. A syntax error is located in `name`. */
mp_status mp_json_read_text(const void *text, size_t size, const char *name, const char *format, json_t **out, mp_error *err);

/* An object and its position in its file. */
typedef struct mp_json_record {
    const json_t *object;
    const char *array; /* name of the array that contains the object, such as "nodes"; NULL: the file's own object */
    size_t index;
    mp_error *err;
} mp_json_record;

/* Returns row number i of an array. MP_PARSE: the row is not an object. */
mp_status mp_json_record_at(const json_t *array, const char *name, size_t i, mp_json_record *out, mp_error *err);
/* Read the fields of a row. A missing or null field leaves *value unchanged; MP_PARSE if it is `required`, or has another type.
 * Texts and arrays live as long as the row's document. */
mp_status mp_json_get_int(const mp_json_record *row, const char *key, bool required, int64_t *value);
mp_status mp_json_get_real(const mp_json_record *row, const char *key, bool required, double *value);
mp_status mp_json_get_flag(const mp_json_record *row, const char *key, bool *value);
mp_status mp_json_get_text(const mp_json_record *row, const char *key, bool required, const char **value);
mp_status mp_json_get_array(const mp_json_record *row, const char *key, bool required, const json_t **value);
mp_status mp_json_get_object(const mp_json_record *row, const char *key, const json_t **value);
/* Read element number i of the array row[key]. */
mp_status mp_json_element_int(const mp_json_record *row, const char *key, const json_t *array, size_t i, int64_t *value);
mp_status mp_json_element_text(const mp_json_record *row, const char *key, const json_t *array, size_t i, const char **value);
/* Records the failure MP_PARSE. Its message begins with the position of the row, such as "nodes[3] (Conv_1)". */
mp_status mp_json_record_fail(const mp_json_record *row, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- building and writing ---- */

/* Set (*object)[key], or append to *list, and take ownership of the value. If memory is short, or the value is NULL, the object
 * or list is released and set to NULL. Calls on a NULL object or list do nothing, so the caller checks once, at the end. */
void mp_json_set(json_t **object, const char *key, json_t *value);
void mp_json_append(json_t **list, json_t *value);
/* Return a number, or JSON's null if it is unknown. NULL: out of memory, or JSON cannot represent the number. */
json_t *mp_json_integer_if(bool known, int64_t value);
json_t *mp_json_real_if(bool known, double value);
/* Returns a JSON string. If the text is not UTF-8, its non-ASCII bytes become question marks. NULL: out of memory. */
json_t *mp_json_text(const char *text);
/* Parses `size` bytes of text. Release the value with json_decref. NULL: a syntax error (described in *fault), or out of memory
 * (*is_nomem is true). */
json_t *mp_json_load(const void *text, size_t size, json_error_t *fault, bool *is_nomem);
/* Parses a text such as mp_graph.options. If it is no valid object, returns an empty object. NULL: out of memory. */
json_t *mp_json_parse(const char *text);
/* Prints a value: doubles with 17 digits, terminal control characters escaped. `indent` is the number of blanks per level; 0:
 * one line. Release the text with mp_free. NULL: out of memory. */
char *mp_json_print(const json_t *value, int indent);

/* A document under construction. The first failure is kept until mp_json_finish returns it. */
typedef struct mp_json_out {
    mp_text_builder text;
    bool first; /* true while the current array is empty */
} mp_json_out;

void mp_json_start(mp_json_out *out, json_t *header); /* takes ownership of the header; its fields are written in order, one per
                                                         line; NULL: an earlier allocation failed */
void mp_json_begin_array(mp_json_out *out, const char *key);
void mp_json_row(mp_json_out *out,
                 json_t *row); /* takes ownership of the row; written on one line; NULL: an earlier allocation failed */
void mp_json_end_array(mp_json_out *out);
/* Writes the document (formats/base/file.h) and releases the members of *out. MP_NOMEM, MP_IO. */
mp_status mp_json_finish(mp_json_out *out, const char *path, mp_error *err);
/* Returns the document as a text instead. Release it with mp_free. MP_NOMEM. */
mp_status mp_json_finish_text(mp_json_out *out, char **text, mp_error *err);
