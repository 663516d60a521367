/* canvas_text.h - text as pictures can show it. Private to formats/. */
#ifndef FORMATS_CANVAS_TEXT_H
#define FORMATS_CANVAS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The next character of UTF-8 text, *text not at its end; *text moves behind it. What is broken, or no XML file may hold, comes
 * out as U+FFFD. */
uint32_t mp_canvas_next(const char **text);

/* Writes `text` to `to` as UTF-8 that any format can hold: line breaks and tabs become spaces unless `lines`, other control
 * characters and broken bytes U+FFFD. `to` has room for 3 * strlen(text) + 1 bytes. Returns the length. */
size_t mp_canvas_clean(const char *text, bool lines, char *to);

#endif
