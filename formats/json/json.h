/* json.h - the jansson bridge: bounded reading with exact integers and named faults, and writing row by row.
 *
 * Files of ours are one object: header fields, then arrays of rows (storages, nodes, steps, ...). A fault in the syntax is told
 * with line and column, a fault in a field with the row it stands in: `nodes[3] (Conv_1): "reads" is missing`.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* What a file may have: bytes; objects and arrays, elements. More of the latter are read where a file is so large that they are
 * no more than one for 16, or 4, of its bytes: then memory stays a multiple of what stands there. Tests set less. */
typedef struct mp_json_limits {
    int64_t bytes;
    size_t containers, elements;
} mp_json_limits;
extern _Thread_local mp_json_limits mp_json_most;

/* ---- reading ---- */

/* Reads the file's one object and sees that it says "format": format, "version": 1 (or no version). On MP_OK *out is released
 * with json_decref. MP_IO; MP_PARSE: syntax, a key that stands twice, another format, too large; MP_UNSUPPORTED: a later
 * version; MP_NOMEM. */
mp_status mp_json_read(const char *path, const char *format, json_t **out, mp_error *err);

/* An object and where it stands in its file. */
typedef struct mp_json_record {
    const json_t *object;
    const char *array; /* "nodes"; NULL: the file's own object */
    size_t index;
    mp_error *err;
} mp_json_record;

/* Row number i of an array. MP_PARSE unless it is an object. */
mp_status mp_json_record_at(const json_t *array, const char *name, size_t i, mp_json_record *out, mp_error *err);
/* The fields of a row. One that is missing or null leaves *value alone, unless `required`. MP_PARSE: missing, or of another
 * type. Texts and arrays live as long as the row's document. */
mp_status mp_json_get_int(const mp_json_record *row, const char *key, bool required, int64_t *value);
mp_status mp_json_get_real(const mp_json_record *row, const char *key, bool required, double *value);
mp_status mp_json_get_flag(const mp_json_record *row, const char *key, bool *value);
mp_status mp_json_get_text(const mp_json_record *row, const char *key, bool required, const char **value);
mp_status mp_json_get_array(const mp_json_record *row, const char *key, bool required, const json_t **value);
mp_status mp_json_get_object(const mp_json_record *row, const char *key, const json_t **value);
/* Element number i of the array row[key]. */
mp_status mp_json_element_int(const mp_json_record *row, const char *key, const json_t *array, size_t i, int64_t *value);
mp_status mp_json_element_text(const mp_json_record *row, const char *key, const json_t *array, size_t i, const char **value);
/* Raises MP_PARSE with a sentence that begins with the row. */
mp_status mp_json_record_fail(const mp_json_record *row, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- building and writing ---- */

/* Sets (*object)[key], or appends to *list, a new value, which is taken over. Without memory (value NULL included) the object
 * or list is released and *object or *list becomes NULL, on which both functions do nothing: only the end result has to be
 * looked at. */
void mp_json_set(json_t **object, const char *key, json_t *value);
void mp_json_append(json_t **list, json_t *value);
/* A number, or null where it is not known. NULL: no memory, or a number that JSON cannot write. */
json_t *mp_json_integer_if(bool known, int64_t value);
json_t *mp_json_real_if(bool known, double value);
/* A JSON string; bytes that are not UTF-8 become question marks. NULL: no memory. */
json_t *mp_json_text(const char *text);
/* The value of `size` bytes of text, released with json_decref; NULL: `fault`, or *is_nomem. */
json_t *mp_json_load(const void *text, size_t size, json_error_t *fault, bool *is_nomem);
/* The value of a text such as mp_graph.options; an empty object if it is none. NULL: no memory. */
json_t *mp_json_parse(const char *text);
/* A value as text, doubles with 17 digits, what would steer a terminal escaped; in lines that are indented by so many blanks a
 * level, 0: all in one. Released with mp_free. NULL: no memory. */
char *mp_json_print(const json_t *value, int indent);

/* A document under construction. Failures are kept and come out of mp_json_finish. */
typedef struct mp_json_out {
    char *bytes;
    size_t length, capacity;
    bool failed; /* out of memory */
    bool first;  /* nothing stands yet in the array at hand */
} mp_json_out;

void mp_json_start(mp_json_out *out, const json_t *header); /* its fields, one per line, in their order */
void mp_json_begin_array(mp_json_out *out, const char *key);
void mp_json_row(mp_json_out *out, json_t *row); /* taken over; one line; NULL: no memory */
void mp_json_end_array(mp_json_out *out);
/* Writes the document (formats/base/file.h) and releases what *out holds. MP_NOMEM, MP_IO. */
mp_status mp_json_finish(mp_json_out *out, const char *path, mp_error *err);
