/* canvas.h - pictures through Graphviz: the one file that calls cgraph and gvc for output.
 *
 * A picture is given in points with y upwards, (0, 0) at the bottom left, and drawn with Graphviz's engine nop2, which
 * takes every position as it is: boxes with a tooltip become nodes, everything else (areas, lines, text, boxes without
 * tooltip) drawing operations of the background, in the order in which they were given. Colours are "#rrggbb", or
 * "#rrggbbaa" to be partly transparent. All text is escaped here: names may contain anything that is UTF-8 (broken
 * UTF-8 and control characters are replaced). The same calls give the same file. If memory runs out while drawing,
 * mp_canvas_write fails.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/base/text.h"
#include "memplan/error.h"
#include "memplan/memory.h"

/* ---- the colours of all pictures: one thing has one colour in each ---- */

#define MP_COLOR_PAPER "#ffffff"
#define MP_COLOR_CLEAR "#ffffff00" /* of a box that only carries a tooltip */
#define MP_COLOR_TEXT "#0f172a"
#define MP_COLOR_MUTED "#64748b"
#define MP_COLOR_GRID "#e2e8f0"
#define MP_COLOR_WIRE "#94a3b8"
#define MP_COLOR_LIMIT "#dc2626" /* a budget, or the floor */

/* ---- the colours of what is in memory, by why it is ---- */
#define MP_COLOR_STATIC "#cbd5e1"
#define MP_COLOR_STATE "#94a3b8"
#define MP_COLOR_KEPT "#3b82f6"
#define MP_COLOR_FORWARD_ONLY "#a5c8fa"
#define MP_COLOR_RECOMPUTED "#f59e0b"
#define MP_COLOR_COPIED "#f9a8d4"
#define MP_COLOR_GRADIENT "#a78bfa"
#define MP_COLOR_WORKSPACE "#10b981"

/* ---- a picture ---- */

typedef struct mp_canvas mp_canvas;

typedef enum mp_align { MP_ALIGN_LEFT, MP_ALIGN_CENTER, MP_ALIGN_RIGHT } mp_align;

/* Makes an empty white picture of this size. Released with mp_canvas_free (NULL is fine). MP_NOMEM. */
mp_status mp_canvas_new(double width, double height, mp_canvas **out, mp_error *err);
void mp_canvas_free(mp_canvas *canvas);
MP_OWNER(mp_canvas_free, mp_canvas)

/* Draws a filled box from (x, y) to (x + width, y + height). stroke NULL: no outline. With a tooltip (which viewers of
 * SVG show) it becomes a node, drawn above everything else: use that for at most some two thousand boxes a picture. */
void mp_canvas_box(mp_canvas *canvas, double x, double y, double width, double height, const char *fill, const char *stroke,
                   const char *tooltip);
/* Draws a filled polygon of n points x0 y0 x1 y1 ... */
void mp_canvas_area(mp_canvas *canvas, const double *xy, size_t n, const char *fill);
/* Draws a line through n points. */
void mp_canvas_line(mp_canvas *canvas, const double *xy, size_t n, const char *color, double width, bool dashed);
/* Draws a solid line with an arrowhead at its last point; its last stretch should be longer than the head. */
void mp_canvas_arrow(mp_canvas *canvas, const double *xy, size_t n, const char *color, double width);
/* Draws a filled circle. */
void mp_canvas_dot(mp_canvas *canvas, double x, double y, double radius, const char *fill);
/* Draws one line of text with its baseline at y. */
void mp_canvas_text(mp_canvas *canvas, double x, double y, mp_align align, double size, bool bold, const char *color,
                    const char *text);

/* Draws the picture's heading, a bold line of text from x on; formats that have a title get it as title. */
void mp_canvas_heading(mp_canvas *canvas, double x, double y, double size, const char *text);

/* Writes the picture in the format that the ending of path names: svg, png or pdf. Atomic, as mp_file_write.
 * MP_INVALID: another ending; MP_IO; MP_NOMEM; MP_UNSUPPORTED: this Graphviz cannot write the format. */
mp_status mp_canvas_write(const mp_canvas *canvas, const char *path, mp_error *err);

/* Checks that a path ends in svg, png or pdf, so that a typo is found before the work is done. MP_INVALID. */
mp_status mp_canvas_check_path(const char *path, mp_error *err);

/* ---- text as pictures can show it: clean UTF-8, about how wide it is, and cut to a width ---- */

/* Returns the next character of UTF-8 text that is not at its end, and moves *text behind it. Broken bytes, and what XML does
 * not allow, come out as U+FFFD. */
uint32_t mp_canvas_next(const char **text);

/* Writes `text` to `to` as UTF-8 that every format allows: line breaks and tabs become spaces unless `lines`, other control
 * characters and broken bytes U+FFFD. `to` has 3 * strlen(text) + 1 bytes. Returns the length. */
size_t mp_canvas_clean(const char *text, bool lines, char *to);

/* Estimates the width of a text without asking a font, for layout that must be the same on every machine. */
double mp_canvas_text_width(const char *text, double size, bool bold);

enum { MP_CANVAS_LINE = 256 };
/* Returns a text that fits `width` and MP_CANVAS_LINE bytes: `text` itself, or it without its middle
 * ("layer1...conv1/Conv": names differ at both ends), as mp_text returns it. */
const char *mp_canvas_shorten(const char *text, double size, bool bold, double width);

/* ---- the title of a PDF, which Graphviz does not write ---- */

/* Appends to `out` the bytes that, written behind a PDF of `size` bytes, give it this title (UTF-8): an incremental
 * update (ISO 32000-1, 7.5.6) with a table or a stream of cross-references, whichever the file has. Appends nothing if
 * it does not understand the file's end. O(size of the file's last section + title). */
void mp_pdf_title_put(mp_text_builder *out, const char *bytes, size_t size, const char *title);
