/* text_builder.h - text that grows at its end. Private to formats/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Zeroed: empty. `text` is released with mp_free. */
typedef struct mp_text_builder {
    char *text; /* NULL: nothing yet */
    size_t length, capacity;
    bool failed; /* memory ran out; what follows is ignored, so that only the end result has to be looked at */
} mp_text_builder;

void mp_text_put(mp_text_builder *out, const char *text);
/* As printf; what is over 511 bytes is cut. */
void mp_text_format(mp_text_builder *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
