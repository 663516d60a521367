/* visible_format.h - printf with safe texts. The texts of %s often come from files. Characters that would control a terminal,
 * line breaks included, are replaced by visible escapes (visible_text.h). The format string is output unchanged. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "formats/base/text.h"

/* Outputs n bytes. `to` is the destination. */
typedef void (*mp_put_bytes)(void *to, const char *bytes, size_t n);

/* Outputs a formatted text through calls of `put`. Returns its length in bytes. */
size_t mp_visible_format(mp_put_bytes put, void *to, const char *format, va_list *args);
/* Formats a text, and appends it. */
void mp_visible_put(mp_text_builder *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
