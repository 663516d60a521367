/* text_builder.c - text that grows at its end. */
#include "formats/base/text_builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"

enum { PIECE_MAX = 512 };

void mp_text_put(mp_text_builder *out, const char *text)
{
    const size_t n = strlen(text);
    if (out->failed || !mp_grow(&out->text, &out->capacity, out->length + n + 1, 1)) {
        out->failed = true;
        return;
    }
    memcpy(out->text + out->length, text, n + 1);
    out->length += n;
}

void mp_text_format(mp_text_builder *out, const char *format, ...)
{
    char piece[PIECE_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(piece, sizeof piece, format, list);
    va_end(list);
    mp_text_put(out, piece);
}
