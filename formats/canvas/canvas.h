/* canvas.h - pictures through Graphviz. Only this part of memplan calls cgraph and gvc for output.
 *
 * Coordinates are points with y upwards and (0, 0) at the bottom left. Graphviz's engine nop2 draws the picture and keeps every
 * position. Boxes with a tooltip become nodes. Everything else (areas, lines, text, boxes without tooltip) becomes drawing
 * operations of the background, in call order.
 *
 * Colours are "#rrggbb", or "#rrggbbaa" with transparency. The functions escape all text: names may contain any UTF-8;
 * invalid UTF-8 and control characters are replaced. The same calls give the same file. If memory runs out while a picture
 * is recorded, mp_canvas_write fails. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/base/distinct_names.h"
#include "formats/base/text.h"
#include "memplan/error.h"
#include "memplan/memory.h"

/* ---- the colours of all pictures; each colour has one meaning ---- */

#define MP_COLOR_PAPER "#ffffff"
#define MP_COLOR_CLEAR "#ffffff00" /* transparent; for boxes that exist only to have a tooltip */
#define MP_COLOR_TEXT "#0f172a"
#define MP_COLOR_MUTED "#64748b"
#define MP_COLOR_GRID "#e2e8f0"
#define MP_COLOR_WIRE "#94a3b8"
#define MP_COLOR_LIMIT "#dc2626" /* colour of budgets and floors */

/* ---- colours of the categories of memory contents ---- */
#define MP_COLOR_STATIC "#cbd5e1"
#define MP_COLOR_STATE "#94a3b8"
#define MP_COLOR_KEPT "#3b82f6"
#define MP_COLOR_FORWARD_ONLY "#a5c8fa"
#define MP_COLOR_RECOMPUTED "#f59e0b"
#define MP_COLOR_COPIED "#f9a8d4"
#define MP_COLOR_GRADIENT "#a78bfa"
#define MP_COLOR_WORKSPACE "#10b981"

/* ---- functions that record and write a picture ---- */

typedef struct mp_canvas mp_canvas;

typedef enum mp_align { MP_ALIGN_LEFT, MP_ALIGN_CENTER, MP_ALIGN_RIGHT } mp_align;

/* Creates an empty, white picture of this size in points. Release with mp_canvas_free (NULL is allowed). MP_NOMEM. */
mp_status mp_canvas_new(double width, double height, mp_canvas **out, mp_error *err);
void mp_canvas_free(mp_canvas *canvas);
MP_OWNER(mp_canvas_free, mp_canvas)

/* Draws a filled box from (x, y) to (x + width, y + height). stroke NULL: no outline. If the box has a tooltip (shown by SVG
 * viewers), it becomes a node and is drawn above everything else. Use tooltips for at most about two thousand boxes per
 * picture. */
void mp_canvas_box(mp_canvas *canvas, double x, double y, double width, double height, const char *fill, const char *stroke,
                   const char *tooltip);
/* Draws a filled polygon. xy contains its n corners: x0 y0 x1 y1 ... */
void mp_canvas_area(mp_canvas *canvas, const double *xy, size_t n, const char *fill);
/* Draws a line through n points, which xy contains as x0 y0 x1 y1 ... */
void mp_canvas_line(mp_canvas *canvas, const double *xy, size_t n, const char *color, double width, bool dashed);
/* Draws a solid line with an arrowhead at its last point. The last segment should be longer than the head. */
void mp_canvas_arrow(mp_canvas *canvas, const double *xy, size_t n, const char *color, double width);
/* Draws a filled circle. */
void mp_canvas_dot(mp_canvas *canvas, double x, double y, double radius, const char *fill);
/* Draws one line of text. y is the coordinate of its baseline. */
void mp_canvas_text(mp_canvas *canvas, double x, double y, mp_align align, double size, bool bold, const char *color,
                    const char *text);

/* Draws the picture's heading, a bold line of text that starts at x. In file formats that store a title, the heading is also
 * the file's title. */
void mp_canvas_heading(mp_canvas *canvas, double x, double y, double size, const char *text);

/* Appends the picture to `out` in a format, "svg", "png" or "pdf". Errors as mp_canvas_write, except MP_INVALID and MP_IO. */
mp_status mp_canvas_render(const mp_canvas *canvas, const char *format, mp_text_builder *out, mp_error *err);

/* Writes the picture in the format that the ending of the path states: svg, png or pdf. The file is replaced atomically, as
 * by mp_file_write. MP_INVALID: the path has another ending. MP_UNSUPPORTED: the installed Graphviz cannot write the format.
 * MP_IO, MP_NOMEM. */
mp_status mp_canvas_write(const mp_canvas *canvas, const char *path, mp_error *err);

/* Checks that a path ends in svg, png or pdf. Call it early, so that a typo is reported before the work is done. MP_INVALID:
 * the path has another ending. */
mp_status mp_canvas_check_path(const char *path, mp_error *err);

/* ---- text for pictures: functions that clean UTF-8, estimate widths and shorten texts ---- */

/* Returns the next character of UTF-8 text and advances *text. *text must not be at the end of the text. Invalid bytes, and
 * characters that XML forbids, become U+FFFD. */
uint32_t mp_canvas_next(const char **text);

/* Writes `text` to `to` as UTF-8 that every format permits. Line breaks and tabs become spaces unless `lines` is true. Other
 * control characters and invalid bytes become U+FFFD. `to` has 3 * strlen(text) + 1 bytes. Returns the length. */
size_t mp_canvas_clean(const char *text, bool lines, char *to);

/* Estimates the width of a text without font files, so that the layout is the same on every machine. */
double mp_canvas_text_width(const char *text, double size, bool bold);

enum { MP_CANVAS_LINE = 256 };
/* Returns a text that fits into `width` and MP_CANVAS_LINE bytes: `text` itself, or `text` with its middle removed
 * ("layer1...conv1/Conv"), because names differ at both ends. The result is valid as long as a result of mp_text (text.h). */
const char *mp_canvas_shorten(const char *text, double size, bool bold, double width);

/* As mp_canvas_shorten, for the name of a thing in a picture. `text` is the name, or a short form of it, and the result differs
 * from the results for other names (distinct_names.h). mp_canvas_names returns the collection of a picture. */
const char *mp_canvas_distinct(mp_distinct_names *names, const char *name, const char *text, double size, bool bold,
                               double width);
mp_distinct_names *mp_canvas_names(mp_canvas *canvas);

/* Returns the largest font size from `size` down to `least` at which a text fits into `width`. If no size suffices, returns
 * `least`. */
double mp_canvas_fitting_size(const char *text, double size, double least, bool bold, double width);

/* ---- the title of a PDF; Graphviz does not write it ---- */

/* Appends to `out` the bytes that set the title (UTF-8) of a PDF of `size` bytes when they are appended to the PDF. The
 * bytes are an incremental update (ISO 32000-1, 7.5.6). Its cross references are a table or a stream, as in the PDF itself.
 * If the end of the PDF cannot be parsed, nothing is appended. O(size of the file's last section + title). */
void mp_pdf_title_put(mp_text_builder *out, const char *bytes, size_t size, const char *title);
