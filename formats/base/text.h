/* text.h - human-readable texts for bytes, names and numbers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "estimator/base/memory.h"

/* Limits of the texts that the following functions return. Each text stays valid until its thread has created MP_TEXTS more
 * texts. It is truncated to MP_TEXT_MAX - 1 bytes. */
enum { MP_TEXTS = 32, MP_TEXT_MAX = 1024 };

/* Formats a text as printf does, and returns it. */
const char *mp_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns "7.43 GiB". */
const char *mp_bytes_text(int64_t bytes);
/* Returns the difference between `value` and `base`, in per cent of `base`: "+12.3 %"; "0 %" if they are equal. A
 * difference that would print as 0.0 has one digit that is not 0: "-0.04 %". */
const char *mp_extra_text(double value, double base);
/* Returns the fragmentation of an arena in words: "as much as lives at the peak: no fragmentation", or the bytes in excess
 * of the live bytes in per cent. */
const char *mp_arena_text(int64_t arena_bytes, int64_t live_bytes);
/* Returns a short form of a name: "gradient of /down.2/down.2.3/Relu_output_0" becomes "gradient of down.2.3.Relu". Each word
 * with a slash is replaced by its usual module name (module_name.h). The exporters' suffix "_output_0" is removed. A name that
 * is too long is cut at a character boundary. O(length). */
const char *mp_short_name(const char *name);

MP_OWNER(free, char) /* lets MP_OWNED_BY(free) own a text that the C library or another library has allocated */

/* A text that grows at its end; empty if zeroed. Release with mp_text_builder_free, or release `text` with mp_free. */
typedef struct mp_text_builder {
    char *text; /* the text built so far, NUL-terminated; NULL: the text is empty */
    size_t length, capacity;
    bool failed; /* true after an allocation failed. Later text is ignored, so the caller can check once, at the end */
} mp_text_builder;

void mp_text_builder_free(mp_text_builder *out);
void mp_text_put(mp_text_builder *out, const char *text);
void mp_text_put_bytes(mp_text_builder *out, const char *bytes, size_t n); /* appends the first n bytes of `text` */
/* Formats a text as printf does, and appends it. The formatted text is truncated to 511 bytes. */
void mp_text_format(mp_text_builder *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
