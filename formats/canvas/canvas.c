/* canvas.c - writes pictures through Graphviz.
 *
 * Drawing operations are stored as text in Graphviz's drawing language (xdot). They become the background of a graph that
 * Graphviz's engine nop2 draws; nop2 keeps all positions. Boxes with a tooltip become nodes of this graph, because only graph
 * objects can have tooltips. Two nodes without size in opposite corners fix the size of the picture.
 *
 * Graphviz has state for the whole process (the error hook, plugins), so only one picture is written at a time. The Graphviz
 * context is never released, because the pango plugin keeps a pointer to the last font in the context and reads it for the
 * next picture. */
#include "formats/canvas/canvas.h"

#include <cgraph.h>
#include <gvc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "estimator/base/memory.h"
#include "formats/base/file.h"
#include "formats/base/process.h"

#define FONT "DejaVu Sans,Verdana,sans-serif"

enum { NUMBER_MAX = 48, COLOR_MAX = 16 };
#define POINT_LIMIT 1e6     /* every coordinate is limited to this absolute value, in points */
#define PIXEL_LIMIT 32000.0 /* maximum number of pixels that cairo permits along one side of a PNG */
#define PIXELS_LIMIT 100e6  /* maximum number of pixels of a PNG in total */
#define PNG_DPI 192.0
#define RAISED 0.2 /* fraction of the font size by which Graphviz moves a text upwards if it draws with pango */
/* distance of the two corner nodes from the corners, in points: half of the smallest size that Graphviz gives a node */
#define CORNER 0.5
#define INCH 72.0 /* points per inch */

typedef struct node_box {
    double x, y, width, height; /* x and y: coordinates of the centre of the box, in points */
    char fill[COLOR_MAX], stroke[COLOR_MAX];
    char *tooltip;
} node_box;

struct mp_canvas {
    double width, height;
    mp_pool *pool;
    char *title;              /* title of the picture; NULL: none */
    mp_distinct_names *names; /* names that the picture contains in a shortened form */
    mp_text_builder drawing;
    node_box *boxes;
    size_t n_boxes, boxes_capacity;
    bool failed; /* true if an allocation failed while operations were recorded */
};

/* ---- recording ---- */

/* Returns a copy of a text in the pool as clean UTF-8. NULL: out of memory; the picture is then marked as failed. */
static char *clean_copy(mp_canvas *canvas, const char *text, bool lines)
{
    char *copy = mp_pool_alloc(canvas->pool, strlen(text) + 1, 3);
    if (copy)
        mp_canvas_clean(text, lines, copy);
    else
        canvas->failed = true;
    return copy;
}

mp_status mp_canvas_new(double width, double height, mp_canvas **out, mp_error *err)
{
    MP_OWNED_BY(mp_canvas_free) mp_canvas *canvas = mp_alloc(1, sizeof *canvas);
    MP_ENSURE(canvas, err, MP_NOMEM, "no memory for a picture");
    MP_ENSURE(isfinite(width) && isfinite(height) && width >= 1 && height >= 1 && width <= POINT_LIMIT && height <= POINT_LIMIT,
              err, MP_INVALID, "a picture of %g by %g points cannot be drawn", width, height);
    canvas->width = width;
    canvas->height = height;
    canvas->pool = mp_pool_new();
    canvas->names = mp_distinct_names_new();
    MP_ENSURE(canvas->pool && canvas->names, err, MP_NOMEM, "no memory for a picture");
    *out = canvas;
    canvas = NULL;
    return MP_OK;
}

void mp_canvas_free(mp_canvas *canvas)
{
    if (!canvas) return;
    mp_pool_free(canvas->pool);
    mp_distinct_names_free(canvas->names);
    mp_text_builder_free(&canvas->drawing);
    mp_free(canvas->boxes);
    mp_free(canvas);
}

mp_distinct_names *mp_canvas_names(mp_canvas *canvas)
{
    return canvas->names;
}

/* Writes value * scale with `digits` decimals. The decimal separator is a point in every locale. */
static const char *number_text(double value, double scale, int digits, char *text)
{
    long long power = 1, units;
    /* the comparison is negated, so that a NaN is also replaced by -POINT_LIMIT */
    if (!(value > -POINT_LIMIT)) value = -POINT_LIMIT;
    if (value > POINT_LIMIT) value = POINT_LIMIT;
    for (int k = 0; k < digits; k++) power *= 10;
    units = llround(value * scale * (double)power);
    snprintf(text, NUMBER_MAX, "%s%lld.%0*lld", units < 0 ? "-" : "", llabs(units) / power, digits, llabs(units) % power);
    for (size_t n = strlen(text); text[n - 1] == '0' || text[n - 1] == '.';
         n--) { /* removes zeros at the end: 12.50 becomes 12.5, and 12.00 becomes 12 */
        bool point = text[n - 1] == '.';
        text[n - 1] = '\0';
        if (point) break;
    }
    return text;
}

static void append_number(mp_canvas *canvas, double value)
{
    char text[NUMBER_MAX];
    mp_text_format(&canvas->drawing, "%s ", number_text(value, 1, 2, text));
}

/* Appends a drawing operation that has a string: "c 7 -#rrggbb ". */
static void append_setting(mp_canvas *canvas, char operation, const char *value)
{
    mp_text_format(&canvas->drawing, "%c %zu -%s ", operation, strlen(value), value);
}

static void append_pen(mp_canvas *canvas, const char *color, double width, bool dashed)
{
    char text[NUMBER_MAX], style[2 * NUMBER_MAX];
    snprintf(style, sizeof style, "setlinewidth(%s)", number_text(width, 1, 2, text));
    append_setting(canvas, 'S', style);
    append_setting(canvas, 'S', dashed ? "dashed" : "solid");
    append_setting(canvas, 'c', color);
}

/* Appends the fill and outline colours of a shape. stroke NULL: the outline is transparent. */
static void append_fill(mp_canvas *canvas, const char *fill, const char *stroke)
{
    if (stroke)
        append_pen(canvas, stroke, 1, false);
    else
        append_setting(canvas, 'c', MP_COLOR_CLEAR);
    append_setting(canvas, 'C', fill);
}

static void append_points(mp_canvas *canvas, const char *operation, const double *xy, size_t n)
{
    mp_text_format(&canvas->drawing, "%s%zu ", operation, n);
    for (size_t k = 0; k < 2 * n; k++) append_number(canvas, xy[k]);
}

static void add_node_box(mp_canvas *canvas, const node_box *box, const char *tooltip)
{
    char *copy = clean_copy(canvas, tooltip, true);
    if (!copy || !mp_grow(&canvas->boxes, &canvas->boxes_capacity, canvas->n_boxes + 1, sizeof *canvas->boxes)) {
        canvas->failed = true;
        return;
    }
    canvas->boxes[canvas->n_boxes] = *box;
    canvas->boxes[canvas->n_boxes++].tooltip = copy;
}

void mp_canvas_box(mp_canvas *canvas, double x, double y, double width, double height, const char *fill, const char *stroke,
                   const char *tooltip)
{
    if (tooltip) {
        node_box box = {.x = x + width / 2, .y = y + height / 2, .width = width, .height = height};
        snprintf(box.fill, sizeof box.fill, "%s", fill);
        snprintf(box.stroke, sizeof box.stroke, "%s", stroke ? stroke : MP_COLOR_CLEAR);
        add_node_box(canvas, &box, tooltip);
        return;
    }
    append_fill(canvas, fill, stroke);
    append_points(canvas, "P ", (double[]){x, y, x + width, y, x + width, y + height, x, y + height}, 4);
}

void mp_canvas_area(mp_canvas *canvas, const double *xy, size_t n, const char *fill)
{
    append_fill(canvas, fill, NULL);
    append_points(canvas, "P ", xy, n);
}

void mp_canvas_line(mp_canvas *canvas, const double *xy, size_t n, const char *color, double width, bool dashed)
{
    append_pen(canvas, color, width, dashed);
    append_points(canvas, "L ", xy, n);
}

void mp_canvas_arrow(mp_canvas *canvas, const double *xy, size_t n, const char *color, double width)
{
    const double *tip = xy + 2 * (n - 1), *before = n > 1 ? tip - 2 : tip, size = 4 + 1.5 * width;
    double dx = tip[0] - before[0], dy = tip[1] - before[1], length = hypot(dx, dy);
    mp_canvas_line(canvas, xy, n, color, width, false);
    if (n < 2 || !(length > 0)) return;
    dx *= size / length;
    dy *= size / length;
    const double base_x = tip[0] - dx, base_y = tip[1] - dy; /* the width of an arrowhead is 0.8 of its length */
    const double head[] = {tip[0], tip[1], base_x - 0.4 * dy, base_y + 0.4 * dx, base_x + 0.4 * dy, base_y - 0.4 * dx};
    mp_canvas_area(canvas, head, 3, color);
}

void mp_canvas_dot(mp_canvas *canvas, double x, double y, double radius, const char *fill)
{
    append_fill(canvas, fill, NULL);
    mp_text_put(&canvas->drawing, "E ");
    for (size_t k = 0; k < 4; k++) append_number(canvas, (double[]){x, y, radius, radius}[k]);
}

void mp_canvas_text(mp_canvas *canvas, double x, double y, mp_align align, double size, bool bold, const char *color,
                    const char *text)
{
    static const char *const justify[] = {[MP_ALIGN_LEFT] = "-1 ", [MP_ALIGN_CENTER] = "0 ", [MP_ALIGN_RIGHT] = "1 "};
    char *copy = clean_copy(canvas, text, false);
    if (!copy || !*copy) return;
    append_setting(canvas, 'c', color);
    mp_text_put(&canvas->drawing, "F ");
    append_number(canvas, size);
    mp_text_format(&canvas->drawing, "%zu -" FONT " t %d T ", strlen(FONT), bold);
    append_number(canvas, x);
    append_number(canvas, y - RAISED * size);
    mp_text_put(&canvas->drawing, justify[align]);
    append_number(canvas, mp_canvas_text_width(text, size, bold));
    mp_text_format(&canvas->drawing, "%zu -", strlen(copy));
    mp_text_put(&canvas->drawing, copy);
    mp_text_put(&canvas->drawing, " ");
}

void mp_canvas_heading(mp_canvas *canvas, double x, double y, double size, const char *text)
{
    canvas->title = clean_copy(canvas, text, false);
    mp_canvas_text(canvas, x, y, MP_ALIGN_LEFT, size, true, MP_COLOR_TEXT, text);
}

/* ---- writing ---- */

/* Returns the file format that the ending of a path states; NULL: unknown. */
static const char *format_of(const char *path)
{
    static const char *const formats[] = {"svg", "png", "pdf"};
    const char *point = strrchr(path, '.');
    for (size_t k = 0; point && k < sizeof formats / sizeof *formats; k++)
        if (!strcasecmp(point + 1, formats[k])) return formats[k];
    return NULL;
}

mp_status mp_canvas_check_path(const char *path, mp_error *err)
{
    if (format_of(path)) return MP_OK;
    return MP_FAIL_AT(err, MP_INVALID, path, 0, 0, "a picture's name must end in .svg, .png or .pdf");
}

/* Returns a tooltip as a Graphviz escape string. Graphviz decodes entities once and backslashes twice, so both are escaped
 * accordingly. */
static char *escaped_tooltip(mp_pool *pool, const char *text)
{
    enum { LONGEST = 5 };
    char *to = mp_pool_alloc(pool, strlen(text) + 1, LONGEST);
    size_t n = 0;
    for (; to && *text; text++) {
        const char *piece = *text == '&' ? "&amp;" : *text == '\\' ? "\\\\\\\\" : *text == '\n' ? "\\n" : NULL;
        if (piece)
            n += (size_t)snprintf(to + n, LONGEST + 1, "%s", piece);
        else
            to[n++] = *text;
    }
    return to;
}

static int hear_nothing(char *message)
{
    (void)message;
    return 0;
}

static int set(void *object, const char *name, const char *value)
{
    return agsafeset(object, (char *)name, (char *)value, "");
}

/* Returns the first line of a text as a Graphviz node name, with `&` escaped as an entity. `extra` bytes after the text are
 * free. */
static char *escaped_line(mp_pool *pool, const char *text, size_t extra)
{
    static const char entity[] = "&amp;";
    char *to = mp_pool_alloc(pool, strlen(text) * (sizeof entity - 1) + 1 + extra, 1);
    size_t n = 0;
    for (; to && *text && *text != '\n'; text++) {
        to[n++] = *text;
        if (*text != '&') continue;
        memcpy(to + n - 1, entity, sizeof entity - 1);
        n += sizeof entity - 2;
    }
    if (to) to[n] = '\0';
    return to;
}

/* Returns the name of a box for SVG viewers. It is the first line of its tooltip. If another box has this name, a number is
 * appended. */
static char *node_name(mp_pool *pool, Agraph_t *g, const char *tooltip, size_t number)
{
    char *name = escaped_line(pool, tooltip, NUMBER_MAX);
    for (const size_t length = name ? strlen(name) : 0; name && (!*name || agnode(g, name, 0)); number++)
        snprintf(name + length, NUMBER_MAX, " (%zu)", number);
    return name;
}

/* Adds a node with this name and position to the graph. A node with width and height 0 only fixes the size of the picture. */
static Agnode_t *add_node(Agraph_t *g, const char *name, const node_box *box)
{
    char x[NUMBER_MAX], y[NUMBER_MAX], text[2 * NUMBER_MAX];
    Agnode_t *node = agnode(g, (char *)name, 1);
    if (!node) return NULL;
    snprintf(text, sizeof text, "%s,%s", number_text(box->x, 1, 2, x), number_text(box->y, 1, 2, y));
    set(node, "pos", text);
    set(node, "label", "");
    set(node, "width", number_text(box->width, 1 / INCH, 6, x));
    set(node, "height", number_text(box->height, 1 / INCH, 6, y));
    return node;
}

/* Returns the resolution of a PNG in dots per inch. It is twice the resolution of a common screen, so that the picture is
 * sharp on high-density screens. For a huge picture it is lower. */
static double resolution(const mp_canvas *canvas)
{
    double width = canvas->width / INCH, height = canvas->height / INCH;
    return fmin(PNG_DPI, fmin(PIXEL_LIMIT / fmax(width, height), sqrt(PIXELS_LIMIT / (width * height))));
}

static mp_status fill_graph(const mp_canvas *canvas, mp_pool *pool, Agraph_t *g, const char *format, mp_error *err)
{
    static const char *const defaults[][2] = {
        {"pos", ""},      {"width", "0"},      {"height", "0"},           {"fixedsize", "true"}, {"label", "\\N"},
        {"shape", "box"}, {"style", "filled"}, {"color", MP_COLOR_CLEAR}, {"tooltip", ""},       {"fillcolor", MP_COLOR_CLEAR}};
    char text[3 * NUMBER_MAX], width[NUMBER_MAX], height[NUMBER_MAX];
    node_box corner = {.x = CORNER, .y = CORNER};
    for (size_t k = 0; k < sizeof defaults / sizeof *defaults; k++)
        agattr(g, AGNODE, (char *)defaults[k][0], (char *)defaults[k][1]);
    set(g, "bgcolor", "white");
    set(g, "pad", "0");
    set(g, "margin", "0");
    set(g, "notranslate", "true");
    set(g, "outputorder", "nodesfirst");
    snprintf(text, sizeof text, "0,0,%s,%s", number_text(canvas->width, 1, 2, width),
             number_text(canvas->height, 1, 2, height));
    set(g, "bb", text);
    if (!strcmp(format, "png")) set(g, "dpi", number_text(resolution(canvas), 1, 2, text));
    set(g, "_background", canvas->drawing.text ? canvas->drawing.text : "");
    for (size_t k = 0; k < canvas->n_boxes; k++) {
        const node_box *box = &canvas->boxes[k];
        char *tooltip = escaped_tooltip(pool, box->tooltip), *name = node_name(pool, g, box->tooltip, k);
        Agnode_t *node = name ? add_node(g, name, box) : NULL;
        MP_ENSURE(node && tooltip, err, MP_NOMEM, "no memory for a picture");
        set(node, "color", box->stroke);
        set(node, "fillcolor", box->fill);
        set(node, "tooltip", tooltip);
    }
    for (size_t k = 0; k < 2; k++) {
        char *name = node_name(pool, g, "corner", k);
        Agnode_t *node = name ? add_node(g, name, &corner) : NULL;
        MP_ENSURE(node, err, MP_NOMEM, "no memory for a picture");
        set(node, "style", "invis");
        corner.x = canvas->width - CORNER;
        corner.y = canvas->height - CORNER;
    }
    return MP_OK;
}

/* Overwrites the creation time that cairo writes into a PDF. The same picture then gives the same file. */
static void remove_date(char *bytes, size_t size)
{
    static const char key[] = "/CreationDate (D:";
    for (size_t at = 0; at + sizeof key < size; at++) {
        if (bytes[at] != '/' || memcmp(bytes + at, key, sizeof key - 1) != 0) continue;
        for (size_t k = at + sizeof key - 1, digit = 0; k < size && bytes[k] >= '0' && bytes[k] <= '9'; k++, digit++)
            bytes[k] = digit < 14 ? "20000101000000"[digit] : '0';
    }
}

typedef struct layout {
    GVC_t *gvc;
    Agraph_t *graph; /* the graph that Graphviz has laid out; NULL: there is none */
} layout;

static void layout_free(layout *l)
{
    if (l->graph) gvFreeLayout(l->gvc, l->graph);
}

MP_HANDLE_OWNER(agclose, Agraph_t *)
MP_OWNER(gvFreeRenderData, char)

static mp_status render(const mp_canvas *canvas, GVC_t *gvc, const char *format, mp_text_builder *out, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    char *name = pool ? escaped_line(pool, canvas->title ? canvas->title : "picture", 0) : NULL;
    MP_OWNED_BY(agclose) Agraph_t *g = name ? agopen(name, Agdirected, NULL) : NULL;
    MP_CLEARED_BY(layout_free) layout laid_out = {0};
    MP_OWNED_BY(gvFreeRenderData) char *bytes = NULL;
    MP_CLEARED_BY(mp_text_builder_free) mp_text_builder title = {0};
    unsigned size = 0;
    MP_ENSURE(gvc && g, err, MP_NOMEM, "no memory for a picture");
    MP_CHECK(fill_graph(canvas, pool, g, format, err));
    MP_ENSURE(gvLayout(gvc, g, "nop2") == 0, err, MP_UNSUPPORTED,
              "this Graphviz cannot place pictures: its layout plugin neato is missing");
    laid_out = (layout){gvc, g};
    MP_ENSURE(gvRenderData(gvc, g, format, &bytes, &size) == 0 && bytes && size > 0, err, MP_UNSUPPORTED,
              "this Graphviz cannot write .%s: its plugin pango or the fonts are missing", format);
    if (!strcmp(format, "pdf")) {
        remove_date(bytes, size);
        if (canvas->title) mp_pdf_title_put(&title, bytes, size, canvas->title);
    }
    mp_text_put_bytes(out, bytes, size);
    if (title.length) mp_text_put_bytes(out, title.text, title.length);
    MP_ENSURE(!title.failed && !out->failed, err, MP_NOMEM, "no memory for a picture");
    return MP_OK;
}

mp_status mp_canvas_render(const mp_canvas *canvas, const char *format, mp_text_builder *out, mp_error *err)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    static GVC_t *gvc;
    MP_ENSURE(!canvas->failed && !canvas->drawing.failed, err, MP_NOMEM, "no memory for a picture");
    pthread_mutex_lock(&one_at_a_time);
    mp_library_works++;
    const agusererrf hook = agseterrf(hear_nothing);
    if (!gvc) gvc = gvContext();
    const mp_status st = render(canvas, gvc, format, out, err);
    agseterrf(hook);
    mp_library_works--;
    pthread_mutex_unlock(&one_at_a_time);
    return st;
}

mp_status mp_canvas_write(const mp_canvas *canvas, const char *path, mp_error *err)
{
    MP_CLEARED_BY(mp_text_builder_free) mp_text_builder picture = {0};
    const char *format = format_of(path);
    if (!format) return mp_canvas_check_path(path, err);
    MP_ABOUT(err, path);
    MP_CHECK(mp_canvas_render(canvas, format, &picture, err));
    return mp_file_write(path, picture.text, picture.length, err);
}
