/* pipeline_picture.c - draws a pipeline step over time: one row per rank, one box per pass of a micro-batch. */
#include "memplan/pictures/pipeline_picture.h"

#include <math.h>

#include "formats/base/text.h"
#include "formats/canvas/plot.h"

#define WIDTH 1100.0
#define LEFT 84.0
#define RIGHT (WIDTH - 120)
#define ROW 30.0
#define GAP 8.0
#define BELOW 56.0
#define ABOVE 92.0
#define NUMBER_SIZE 10.0

enum { TOOLTIPS_MAX = 1500, MIXES = 4 };

typedef struct picture {
    const mp_pipeline_shape *shape;
    const mp_played *played;
    mp_canvas *canvas;
    mp_plot_axis time;
    double top; /* y coordinate of the top of the first row, in points */
} picture;

/* Returns the colour of a turn (a pass of a micro-batch). The colour depends on the result of the pass. Later chunks are
 * darker. */
static const char *color_of(const picture *p, const mp_turn *turn)
{
    static const char *const forward[MIXES] = {MP_COLOR_FORWARD_ONLY, "#7fb0f8", "#5c98f7", MP_COLOR_KEPT};
    static const char *const backward[MIXES] = {"#cdbffc", "#b7a3fb", MP_COLOR_GRADIENT, "#8b6cf0"};
    const int mix = p->shape->n_chunks == 1 ? 0 : turn->chunk * (MIXES - 1) / (p->shape->n_chunks - 1);
    if (turn->pass == MP_PASS_WEIGHTS) return MP_COLOR_WORKSPACE;
    return turn->pass == MP_PASS_FORWARD ? forward[mix] : backward[mix];
}

static const char *describe(const picture *p, int rank, const mp_turn *turn)
{
    static const char *const names[] = {"forward", "backward", "gradients of parameters"};
    const char *stage = p->shape->n_chunks > 1 ? mp_text(", stage %d", turn->chunk * p->shape->n_ranks + rank) : "";
    return mp_text("rank %d%s: %s of micro-batch %lld\nfrom %.6g s to %.6g s", rank, stage, names[turn->pass],
                   (long long)turn->micro_batch, turn->begin, turn->end);
}

static void draw_rank(const picture *p, int rank, const char *note)
{
    const double y = p->top - (rank + 1) * (ROW + GAP) + GAP;
    const size_t n = p->played->n_turns;
    const bool has_tooltips = n * (size_t)p->shape->n_ranks <= TOOLTIPS_MAX;
    mp_canvas_text(p->canvas, LEFT - 10, y + ROW / 2 - 4, MP_ALIGN_RIGHT, 12, false, MP_COLOR_TEXT, mp_text("rank %d", rank));
    if (note) mp_canvas_text(p->canvas, RIGHT + 10, y + ROW / 2 - 4, MP_ALIGN_LEFT, 12, false, MP_COLOR_MUTED, note);
    for (size_t k = 0; k < n; k++) {
        const mp_turn *turn = &p->played->turns[(size_t)rank * n + k];
        const double x = mp_plot_at(&p->time, turn->begin), width = fmax(mp_plot_at(&p->time, turn->end) - x, 0.4);
        const char *number = mp_text("%lld", (long long)turn->micro_batch);
        mp_canvas_box(p->canvas, x, y, width, ROW, color_of(p, turn), width > 3 ? MP_COLOR_PAPER : NULL,
                      has_tooltips ? describe(p, rank, turn) : NULL);
        if (!has_tooltips && mp_canvas_text_width(number, NUMBER_SIZE, false) + 4 <= width)
            mp_canvas_text(p->canvas, x + width / 2, y + ROW / 2 - 3.5, MP_ALIGN_CENTER, NUMBER_SIZE, false, MP_COLOR_TEXT,
                           number);
    }
}

/* Draws the time axis, in milliseconds, below the rows of the ranks. */
static void draw_axis(const picture *p)
{
    double values[MP_PLOT_TICKS_MAX];
    const size_t n = mp_plot_ticks(&p->time, 10, values);
    for (size_t k = 0; k < n; k++) {
        const double x = mp_plot_at(&p->time, values[k]);
        mp_canvas_line(p->canvas, (double[]){x, BELOW, x, p->top}, 2, MP_COLOR_GRID, 0.75, false);
        mp_canvas_text(p->canvas, x, BELOW - 16, MP_ALIGN_CENTER, 11, false, MP_COLOR_MUTED, mp_text("%.6g", values[k]));
    }
    mp_canvas_text(p->canvas, (LEFT + RIGHT) / 2, BELOW - 36, MP_ALIGN_CENTER, 12, false, MP_COLOR_MUTED, "milliseconds");
}

static void draw_legend(const picture *p, double y)
{
    const struct {
        const char *name, *color;
    } rows[] = {{"forward", MP_COLOR_FORWARD_ONLY},
                {"backward", "#cdbffc"},
                {"gradients of parameters", MP_COLOR_WORKSPACE},
                {"waits (bubble)", MP_COLOR_PAPER}};
    double x = LEFT;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (k == 2 && p->shape->schedule != MP_SCHEDULE_ZB_H1) continue;
        mp_canvas_box(p->canvas, x, y, 16, 12, rows[k].color, MP_COLOR_WIRE, NULL);
        mp_canvas_text(p->canvas, x + 22, y + 1, MP_ALIGN_LEFT, 12, false, MP_COLOR_MUTED, rows[k].name);
        x += 44 + mp_canvas_text_width(rows[k].name, 12, false);
    }
}

mp_status mp_pipeline_picture(const mp_pipeline_shape *shape, const mp_played *played, const char *title,
                              const char *const *notes, const char *path, mp_error *err)
{
    MP_OWNED_BY(mp_canvas_free) mp_canvas *canvas = NULL;
    const double height = BELOW + ABOVE + shape->n_ranks * (ROW + GAP);
    picture p = {.shape = shape, .played = played, .top = height - ABOVE};
    MP_CHECK(mp_canvas_new(WIDTH, height, &canvas, err));
    p.canvas = canvas;
    p.time = (mp_plot_axis){MP_PLOT_LINEAR, 0, played->seconds * 1e3, LEFT, RIGHT, 1};
    draw_axis(&p);
    p.time.high /= 1e3; /* the times of turns are in seconds, but the axis shows milliseconds */
    mp_canvas_heading(canvas, LEFT - 60, height - 34, 17,
                      mp_text("%s: %lld micro-batches on %d ranks, %s, %.4g ms", title, (long long)shape->n_micro_batches,
                              shape->n_ranks, mp_schedule_name(shape->schedule), played->seconds * 1e3));
    draw_legend(&p, height - 64);
    for (int r = 0; r < shape->n_ranks; r++) draw_rank(&p, r, notes ? notes[r] : NULL);
    return mp_canvas_write(canvas, path, err);
}
