/* visible_text.h - makes text from files safe to display. A name may contain characters that control a terminal or a browser:
 * control characters, characters that set the writing direction, invalid UTF-8. Each is replaced by an escape sequence. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MP_VISIBLE_MAX = 7 }; /* largest number of bytes of an escaped character, with the terminating NUL */

/* Returns the next character of UTF-8 text and advances *text. *text must not be at the end of the text. If the bytes are
 * invalid UTF-8, returns -1 and advances by one byte. */
int32_t mp_utf8_next(const char **text);
/* True if the character affects display: a control character, a character that sets the writing direction, or a line
 * separator. */
bool mp_is_steering(int32_t character);
/* Writes the next character of a text into `to`, or an escape sequence for it ("\x1b", "\u202e"). Returns the length that
 * was written. O(1). */
size_t mp_visible_next(const char **text, char to[MP_VISIBLE_MAX]);
/* Writes as much of the text, with escape sequences, as fits into `size` (> 0) bytes. Returns `to`. O(length). */
char *mp_visible_text(const char *text, char *to, size_t size);
