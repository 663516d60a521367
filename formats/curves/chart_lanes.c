/* chart_lanes.c - lanes of the channels beside compute: a bar from the issue of a step to its wait.
 *
 * The horizontal axis counts steps, as in the chart of memory. A channel runs its steps one after the other, but several
 * steps may be issued before the first wait. The bars of these steps are in separate rows. */
#include "formats/curves/chart.h"

#include <math.h>

#include "estimator/graph/order_rules.h"
#include "formats/base/text.h"
#include "formats/canvas/canvas.h"

#define ROW_HEIGHT 17.0
#define LANE_HEIGHT 54.0 /* maximum height of a lane in points. If a lane has many rows, the rows become lower */
#define LANE_GAP 5.0     /* space above each lane, in points */
#define NAME_SIZE 10.0
#define TITLE_SIZE 12.0
#define NAME_WIDTH 60.0 /* a bar shows a name only if it has at least this width, in points */

enum { TOOLTIPS_MAX = 600 };

static const mp_alternative *alternative_of(const mp_timeline_columns *c, size_t t)
{
    return &c->graph->nodes[c->steps[t].node].alternatives[c->steps[t].alternative];
}

mp_status mp_lanes_find(const mp_timeline_columns *c, mp_lanes *out, mp_error *err)
{
    int free_at[MP_MAX_CHANNELS][MP_LANE_ROWS_MAX] = {{0}};
    *out = (mp_lanes){.row = NULL};
    if (c->graph->n_channels <= MP_CHANNEL_SECOND_STREAM + 1) return MP_OK;
    MP_ENSURE(out->row = mp_alloc(c->n_steps, sizeof *out->row), err, MP_NOMEM, "no memory for lanes of %zu steps", c->n_steps);
    for (size_t k = MP_CHANNEL_SECOND_STREAM + 1; k < c->graph->n_channels; k++) out->rows[k] = 1;
    for (size_t t = 0; t < c->n_steps; t++) {
        const int channel = mp_step_channel(c->graph, c->steps[t]);
        int best = 0; /* chooses the first free row of the lane; if no row is free, the row that becomes free first */
        if (channel == MP_CHANNEL_COMPUTE) continue;
        for (int row = 0; row < MP_LANE_ROWS_MAX && free_at[channel][best] > (int)t; row++)
            if (free_at[channel][row] < free_at[channel][best]) best = row;
        free_at[channel][best] = mp_step_end(c->steps, (int)t);
        out->row[t] = best;
        if (out->rows[channel] <= best) out->rows[channel] = best + 1;
    }
    return MP_OK;
}

void mp_lanes_clear(mp_lanes *lanes)
{
    mp_free(lanes->row);
}

/* Returns the titles of the storages that a step copies, such as "a, b", or their short forms. If the step copies nothing,
 * returns the title of its node. */
static const char *names_of(const mp_timeline_columns *c, size_t t, bool are_short)
{
    const mp_alternative *alternative = alternative_of(c, t);
    const size_t n = alternative->returns ? alternative->n_writes : alternative->n_reads;
    const int *copied = alternative->returns ? alternative->writes : alternative->reads;
    const char *names = "", *title = mp_node_title(c->graph, c->steps[t].node);
    mp_label label;
    if (c->activity[t] != MP_ACTIVITY_COPY || !n) return are_short ? mp_short_name(title) : title;
    for (size_t k = 0; k < n; k++) {
        title = mp_storage_title(c->graph, copied[k], &label);
        names = mp_text("%s%s%.255s", names, k ? ", " : "", are_short ? mp_short_name(title) : title);
    }
    return names;
}

static double row_height(int rows)
{
    return fmin(ROW_HEIGHT, LANE_HEIGHT / rows);
}

double mp_lanes_height(const mp_timeline_columns *c, const mp_lanes *lanes)
{
    double height = 0;
    for (size_t k = 0; k < c->graph->n_channels; k++)
        if (lanes->rows[k]) height += LANE_GAP + row_height(lanes->rows[k]) * lanes->rows[k];
    return height;
}

static const char *describe(const mp_timeline_columns *c, size_t t)
{
    const int end = mp_step_end(c->steps, (int)t);
    const double start = (double)(c->ends[t] - alternative_of(c, t)->ticks);
    const char *waits =
        end < (int)c->n_steps ? mp_text("step %d of %zu waits for it", end + 1, c->n_steps) : "only the end waits for it";
    return mp_text("%s: %.255s\n%.255s\nissued in step %d, %s\nruns from %.6g s to %.6g s",
                   c->graph->channels[mp_step_channel(c->graph, c->steps[t])], mp_node_title(c->graph, c->steps[t].node),
                   names_of(c, t, true), (int)t + 1, waits, start * c->graph->tick_seconds,
                   (double)c->ends[t] * c->graph->tick_seconds);
}

/* Draws a bar of height `high` at y. If there is enough space, the bar contains its name. */
static void draw_bar(const mp_timeline_columns *c, mp_canvas *canvas, const mp_frame *frame, size_t t, double y, double high,
                     bool tooltip)
{
    const double x = mp_step_x(c, frame, (double)t);
    const double width = fmax(mp_step_x(c, frame, mp_step_end(c->steps, (int)t)) - x, 1.5);
    const char *name = names_of(c, t, true);
    const bool fits = mp_canvas_text_width(name, NAME_SIZE, false) + 8 <= width;
    mp_canvas_box(canvas, x, y, width, high, mp_activity_color(c->activity[t]), width > 4 ? MP_COLOR_PAPER : NULL, NULL);
    if (high > NAME_SIZE + 2 && (fits || width >= NAME_WIDTH))
        mp_canvas_text(canvas, x + width / 2, y + high / 2 - 3.5, MP_ALIGN_CENTER, NAME_SIZE, false, MP_COLOR_TEXT,
                       mp_canvas_distinct(mp_canvas_names(canvas), names_of(c, t, false), name, NAME_SIZE, false, width - 8));
    if (tooltip) mp_canvas_box(canvas, x, y, width, high, MP_COLOR_CLEAR, NULL, describe(c, t));
}

void mp_lanes_draw(const mp_timeline_columns *c, const mp_lanes *lanes, mp_canvas *canvas, const mp_frame *frame)
{
    double top[MP_MAX_CHANNELS], y = frame->high;
    size_t drawn = 0;
    for (size_t k = 0; k < c->graph->n_channels; k++) {
        const double height = row_height(lanes->rows[k] ? lanes->rows[k] : 1) * lanes->rows[k];
        if (!lanes->rows[k]) continue;
        top[k] = y - LANE_GAP;
        y = top[k] - height;
        mp_canvas_text(canvas, frame->left - 8, top[k] - height / 2 - 4, MP_ALIGN_RIGHT, TITLE_SIZE, false, MP_COLOR_MUTED,
                       mp_canvas_distinct(mp_canvas_names(canvas), c->graph->channels[k], c->graph->channels[k], TITLE_SIZE,
                                          false, frame->left - 14));
        mp_canvas_line(canvas, (double[]){frame->left, y, frame->right, y}, 2, MP_COLOR_GRID, 0.75, false);
    }
    for (size_t t = 0; t < c->n_steps; t++) {
        const int channel = mp_step_channel(c->graph, c->steps[t]);
        if (!lanes->rows[channel]) continue;
        const double high = row_height(lanes->rows[channel]);
        draw_bar(c, canvas, frame, t, top[channel] - high * (lanes->row[t] + 1), high, drawn++ < TOOLTIPS_MAX);
    }
}
