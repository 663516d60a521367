/* text.h - bytes, names and texts as people read them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "estimator/base/memory.h"

/* Texts that are printed or drawn at once. Each stays as it is until its thread has made MP_TEXTS more of them; what is over
 * MP_TEXT_MAX - 1 bytes is cut. */
enum { MP_TEXTS = 32, MP_TEXT_MAX = 1024 };

/* Returns a formatted text, as printf writes it. */
const char *mp_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns "7.43 GiB". */
const char *mp_bytes_text(int64_t bytes);
/* Returns what fragmentation costs an arena: "as much as lives at the peak: no fragmentation", or how many % over that. */
const char *mp_arena_text(int64_t arena_bytes, int64_t live_bytes);
/* Returns "gradient of /down.2/down.2.3/Relu_output_0" as "gradient of down.2.3.Relu": of each word with a slash the module as
 * people call it (module_name.h), and no "_output_0", the end that exporters give nearly every tensor. A name that is too long
 * is cut between characters. O(length). */
const char *mp_short_name(const char *name);

MP_OWNER(free, char) /* a text that the C library or another one made */

/* A text that grows at its end; empty if zeroed. Release with mp_text_builder_free, or `text` with mp_free. */
typedef struct mp_text_builder {
    char *text; /* NULL: nothing yet */
    size_t length, capacity;
    bool failed; /* memory ran out; what follows is ignored, so that only the end result has to be looked at */
} mp_text_builder;

void mp_text_builder_free(mp_text_builder *out);
void mp_text_put(mp_text_builder *out, const char *text);
void mp_text_put_bytes(mp_text_builder *out, const char *bytes, size_t n); /* the same, of a text without its end */
/* Appends a formatted text, as printf does; what is over 511 bytes is cut. */
void mp_text_format(mp_text_builder *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
