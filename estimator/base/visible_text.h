/* visible_text.h - text from files as people may be shown it. A name can hold what a terminal or a browser obeys: control
 * characters, marks that turn the direction of writing, bytes that are no UTF-8. Here each is replaced by an escape. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MP_VISIBLE_MAX = 7 }; /* bytes of a character made visible, with the end */

/* Returns the next character of UTF-8 text (not at its end) and moves *text behind it; -1 and one byte if it is broken. */
int32_t mp_utf8_next(const char **text);
/* True if the character steers what shows it: a control character, or a mark of direction or of a line's end. */
bool mp_is_steering(int32_t character);
/* Writes the next character, or an escape for it ("\x1b", "\u202e"), into `to`. Returns its length. O(1). */
size_t mp_visible_next(const char **text, char to[MP_VISIBLE_MAX]);
/* Writes as much of the text as fits into `size` (> 0) bytes, made visible, and returns `to`. O(length). */
char *mp_visible_text(const char *text, char *to, size_t size);
