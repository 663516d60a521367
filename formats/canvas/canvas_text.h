/* canvas_text.h - text as pictures can show it: clean UTF-8, about how wide it is, and cut to a width. Private to formats/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the next character of UTF-8 text that is not at its end, and moves *text behind it. Broken bytes, and what XML does
 * not allow, come out as U+FFFD. */
uint32_t mp_canvas_next(const char **text);

/* Writes `text` to `to` as UTF-8 that every format allows: line breaks and tabs become spaces unless `lines`, other control
 * characters and broken bytes U+FFFD. `to` has 3 * strlen(text) + 1 bytes. Returns the length. */
size_t mp_canvas_clean(const char *text, bool lines, char *to);

/* Estimates the width of a text without asking a font, for layout that must be the same on every machine. */
double mp_canvas_text_width(const char *text, double size, bool bold);

enum { MP_CANVAS_LINE = 256 };
/* Returns a text, without its middle ("layer1...conv1/Conv": names differ at both ends) if it is wider than `width` or has
 * MP_CANVAS_LINE bytes or more: as mp_text does, or `text` itself. */
const char *mp_canvas_shorten(const char *text, double size, bool bold, double width);
