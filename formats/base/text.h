/* text.h - bytes, names and texts as people read them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "estimator/base/memory.h"

/* Limits of the texts below: each stays valid until its thread has made MP_TEXTS more of them, and is cut after
 * MP_TEXT_MAX - 1 bytes. */
enum { MP_TEXTS = 32, MP_TEXT_MAX = 1024 };

/* Returns a formatted text, as printf writes it. */
const char *mp_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns "7.43 GiB". */
const char *mp_bytes_text(int64_t bytes);
/* Returns how far an arena is above the live bytes: "as much as lives at the peak: no fragmentation", or by how many %. */
const char *mp_arena_text(int64_t arena_bytes, int64_t live_bytes);
/* Returns "gradient of /down.2/down.2.3/Relu_output_0" as "gradient of down.2.3.Relu": of each word with a slash the module as
 * people call it (module_name.h), and no "_output_0", the end that exporters give nearly every tensor. A name that is too long
 * is cut between characters. O(length). */
const char *mp_short_name(const char *name);

MP_OWNER(free, char) /* the owner of a text that the C library or another library has allocated */

/* A text that grows at its end; empty if zeroed. Release with mp_text_builder_free, or `text` with mp_free. */
typedef struct mp_text_builder {
    char *text; /* NULL: nothing yet */
    size_t length, capacity;
    bool failed; /* memory ran out; further text is ignored, so a caller checks once, at the end */
} mp_text_builder;

void mp_text_builder_free(mp_text_builder *out);
void mp_text_put(mp_text_builder *out, const char *text);
void mp_text_put_bytes(mp_text_builder *out, const char *bytes, size_t n); /* as mp_text_put, for n bytes of a text */
/* Appends a formatted text, as printf does; what is over 511 bytes is cut. */
void mp_text_format(mp_text_builder *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
