/* placement.c - computes the coordinates of boxes, and the routes of the wires between them. */
#include "formats/drawings/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_GAP 14.0   /* distance between the boxes of a row, in points */
#define ROW_GAP 16.0    /* distance between two rows if no horizontal wire runs between them, in points */
#define TRACK_GAP 5.0   /* distance between neighbouring horizontal wires in a gap between rows, in points */
#define LANE_GAP 6.0    /* distance between neighbouring vertical wires beside a column, in points */
#define GUTTER_GAP 16.0 /* sum of the free space left and right of the lanes in the space beside a column, in points */

/* A stretch: a vertical part of a wire beside a column, or a horizontal part above all columns. A bundle with several boxes has
 * two lanes. One lane leads to readers in other columns, which read all boxes of the bundle. The other lane leads to readers in
 * the same column, which read only the boxes that joined this lane above them. */
typedef struct stretch {
    int from;   /* index of the bundle (boxes whose wires share a lane) whose outputs the stretch carries */
    int gutter; /* index of the gutter (the space beside a column) in which the stretch runs; -1: it runs above all columns */
    bool on;    /* true: the stretch leads to readers in other columns, and belongs to a bundle with several boxes */
    double low, high; /* y coordinates of the ends of the stretch. If it runs above all columns, the indices of the gutters at
                         its ends */
    int lane;
} stretch;

typedef struct router {
    mp_pool *pool; /* memory pool that owns all arrays except `stretches` */
    size_t n;
    const mp_block_edge *edges;
    size_t n_edges;
    double box_width, box_height;
    size_t n_rows, n_columns;
    int *row, *slot, *column; /* per box: its row, and its position in the row. Per row: the column that holds the row */
    size_t *outs, *ins; /* number of horizontal tracks (positions of horizontal wires between two rows) per row: below it for
                           wires that leave its boxes, above it for wires that enter them */
    int *out_track, *in_track; /* per box: its track below its row, and its track above its row; -1: it needs no track, because
                                  all its wires are straight */
    bool *routed;              /* per edge: true if its wire runs beside a column */
    int *bundle;               /* per box: index of the bundle (boxes whose wires share a lane) that contains the box */
    size_t *members;           /* per bundle: number of boxes that it contains */
    int *skip;     /* per bundle: number of the wire if it passes over rows; -1: the wire only leads to the next row */
    size_t *lanes; /* per gutter (the space beside a column): number of its lanes. Gutter 0 is left of all columns */
    double *top, *left, *gutter; /* per row: y of its upper edge. Per column: x of its left side, and x at which the lanes in
                                    the space beside it (its gutter) begin */
    stretch *stretches;
    size_t n_stretches, capacity;
    mp_placement *out;
    mp_error *err;
} router;

static int column_of(const router *r, int box)
{
    return r->column[r->row[box]];
}

static bool is_next(const router *r, const mp_block_edge *e)
{
    return r->row[e->to] == r->row[e->from] + 1 && column_of(r, e->to) == column_of(r, e->from);
}

static bool is_vertical(const router *r, const mp_block_edge *e)
{
    return is_next(r, e) && r->slot[e->from] == r->slot[e->to];
}

/* Numbers the horizontal tracks, the positions of horizontal wires between two rows. A box has a track in the gap above or
 * below it if some of its wires there are not vertical. */
static void number_tracks(router *r)
{
    for (size_t k = 0; k < r->n_rows; k++) r->outs[k] = r->ins[k] = 0;
    for (size_t k = 0; k < r->n; k++) r->out_track[k] = r->in_track[k] = -1;
    for (size_t k = 0; k < r->n_edges; k++) {
        const mp_block_edge *e = &r->edges[k];
        if (is_vertical(r, e)) continue;
        if (r->out_track[e->from] < 0) r->out_track[e->from] = (int)r->outs[r->row[e->from]]++;
        if (is_next(r, e)) continue;
        if (r->in_track[e->to] < 0) r->in_track[e->to] = (int)r->ins[r->row[e->to]]++;
    }
}

/* Wraps rows into columns. The heights of rows and the wires that cross below rows determine where columns end. The ends of
 * columns in turn determine which wires are straight, and so the heights of rows. This second effect is small, so one round
 * suffices. */
static mp_status wrap(router *r, double aspect)
{
    double *heights = mp_pool_alloc(r->pool, r->n_rows, sizeof *heights);
    double *widths = mp_pool_alloc(r->pool, r->n_rows, sizeof *widths);
    size_t *crossing = mp_pool_alloc(r->pool, r->n_rows + 1, sizeof *crossing);
    if (mp_pool_failed(r->pool)) return MP_NO_MEMORY(r->err);
    for (size_t k = 0; k < r->n_rows; k++) r->column[k] = 0;
    number_tracks(r);
    for (size_t k = 0; k < r->n_edges;
         k++) { /* per box, only the wire to the farthest reader counts, because all wires of a box share one lane */
        const mp_block_edge *e = &r->edges[k];
        if (k + 1 < r->n_edges && r->edges[k + 1].from == e->from) continue;
        crossing[r->row[e->from]]++;
        crossing[r->row[e->to]]--; /* `crossing` contains differences; their cumulative sums are the numbers of wires, which are
                                      >= 0 */
    }
    for (size_t k = 1; k < r->n_rows; k++) crossing[k] += crossing[k - 1];
    for (size_t k = 0; k < r->n; k++)
        widths[r->row[k]] = fmax(widths[r->row[k]], (r->slot[k] + 1) * (r->box_width + SLOT_GAP) + GUTTER_GAP);
    for (size_t k = 0; k < r->n_rows; k++) {
        size_t tracks = r->outs[k] + (k + 1 < r->n_rows ? r->ins[k + 1] : 0);
        heights[k] = r->box_height + ROW_GAP + TRACK_GAP * (double)tracks;
        widths[k] += LANE_GAP * (double)crossing[k];
    }
    r->n_columns = mp_placement_wrap(r->n_rows, heights, widths, crossing, aspect, r->column);
    number_tracks(r);
    return MP_OK;
}

static double gap_below(const router *r, size_t row)
{
    return (double)r->outs[row] * TRACK_GAP + ROW_GAP / 2;
}
static double gap_above(const router *r, size_t row)
{
    return (double)r->ins[row] * TRACK_GAP + ROW_GAP / 2;
}
static double out_y(const router *r, int box)
{
    return r->top[r->row[box]] + r->box_height + ROW_GAP / 4 + (r->out_track[box] + 0.5) * TRACK_GAP;
}
static double in_y(const router *r, int box)
{
    return r->top[r->row[box]] - ROW_GAP / 2 - (r->in_track[box] + 0.5) * TRACK_GAP;
}

/* ---- lanes ---- */

/* Finds the bundles, and the bundles whose wire reaches beyond the next row. A box without a bundle has one lane for all its
 * readers. */
static mp_status find_bundles(router *r)
{
    int n_skips = 0;
    for (size_t k = 0; k < r->n_edges; k++) r->routed[k] = !is_next(r, &r->edges[k]);
    MP_CHECK(mp_placement_bundles(r->n, r->edges, r->n_edges, r->routed, r->row, r->bundle, r->err));
    for (size_t k = 0; k < r->n; k++) {
        r->members[r->bundle[k]]++;
        r->skip[k] = -1;
    }
    for (size_t k = 0; k < r->n_edges; k++) {
        const mp_block_edge *e = &r->edges[k];
        int *skip = &r->skip[r->bundle[e->from]];
        if (*skip < 0 && r->row[e->to] > r->row[e->from] + 1) *skip = n_skips++;
    }
    return MP_OK;
}

static bool leads_on(const router *r, const mp_block_edge *e)
{
    return r->members[r->bundle[e->from]] > 1 && column_of(r, e->from) != column_of(r, e->to);
}

static mp_status stretch_to(router *r, int from, int gutter, bool on, double a, double b)
{
    double low = fmin(a, b), high = fmax(a, b);
    for (size_t k = r->n_stretches; k-- > 0;)
        if (r->stretches[k].from == from && r->stretches[k].gutter == gutter && r->stretches[k].on == on) {
            r->stretches[k].low = fmin(r->stretches[k].low, low);
            r->stretches[k].high = fmax(r->stretches[k].high, high);
            return MP_OK;
        }
    if (!mp_grow(&r->stretches, &r->capacity, r->n_stretches + 1, sizeof *r->stretches)) return MP_NO_MEMORY(r->err);
    r->stretches[r->n_stretches++] = (stretch){.from = from, .gutter = gutter, .on = on, .low = low, .high = high};
    return MP_OK;
}

/* Returns the gutter (the space beside a column) through which a wire reaches its reader. If the wire stays in its column, this
 * is the gutter to the right of the column; else the gutter to the left of the reader's column. */
static int entry_gutter(const router *r, const mp_block_edge *e)
{
    int from = column_of(r, e->from), to = column_of(r, e->to);
    return to == from ? from : to - 1;
}

static mp_status find_stretches(router *r)
{
    for (size_t k = 0; k < r->n_edges; k++) {
        const mp_block_edge *e = &r->edges[k];
        if (is_next(r, e)) continue;
        const int leave = column_of(r, e->from), enter = entry_gutter(r, e), from = r->bundle[e->from];
        const bool on = leads_on(r, e);
        if (enter == leave) {
            MP_CHECK(stretch_to(r, from, leave, on, out_y(r, e->from), in_y(r, e->to)));
        } else { /* if the reader's column is not the next one, the wire runs above all columns */
            MP_CHECK(stretch_to(r, from, leave, on, out_y(r, e->from), 0));
            MP_CHECK(stretch_to(r, from, -1, on, leave, enter));
            MP_CHECK(stretch_to(r, from, enter, on, 0, in_y(r, e->to)));
        }
    }
    return MP_OK;
}

static int by_gutter(const void *a, const void *b)
{
    const stretch *x = a, *y = b;
    if (x->gutter != y->gutter) return x->gutter < y->gutter ? -1 : 1;
    double dx = x->high - x->low, dy = y->high - y->low;
    if (x->low != y->low) return x->low < y->low ? -1 : 1;
    if (dx != dy) return dx < dy ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->on - y->on;
}
static int by_box(const void *a, const void *b)
{
    const stretch *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->gutter != y->gutter) return x->gutter < y->gutter ? -1 : 1;
    return x->on - y->on;
}

/* Assigns lanes so that stretches in a lane do not overlap. Each stretch, from top to bottom, gets the first free lane.
 * lanes[g + 1] is the number of lanes in gutter g. */
static mp_status give_lanes(router *r, size_t *lanes)
{
    double *end = mp_pool_alloc(r->pool, r->n_stretches,
                                sizeof *end); /* per lane of the current gutter: y coordinate at which its last stretch ends */
    if (!end) return MP_NO_MEMORY(r->err);
    if (r->n_stretches) qsort(r->stretches, r->n_stretches, sizeof *r->stretches, by_gutter);
    for (size_t k = 0; k < r->n_stretches; k++) {
        stretch *s = &r->stretches[k];
        size_t *n = &lanes[s->gutter + 1], lane = 0;
        while (lane < *n && end[lane] + 1 > s->low) lane++;
        if (lane == *n) ++*n;
        end[lane] = s->high;
        s->lane = (int)lane;
    }
    if (r->n_stretches) qsort(r->stretches, r->n_stretches, sizeof *r->stretches, by_box);
    return MP_OK;
}

static const stretch *stretch_of(const router *r, int bundle, int gutter, bool on)
{
    stretch wanted = {.from = bundle, .gutter = gutter, .on = on};
    return bsearch(&wanted, r->stretches, r->n_stretches, sizeof *r->stretches, by_box);
}

static double lane_x(const router *r, int bundle, int gutter, bool on)
{
    return r->gutter[gutter] + stretch_of(r, bundle, gutter, on)->lane * LANE_GAP;
}

/* ---- coordinates ---- */

static void stack_rows(router *r)
{
    double y = 0;
    for (size_t k = 0; k < r->n_rows; k++) {
        if (k == 0 || r->column[k] != r->column[k - 1]) y = 0;
        y += gap_above(r, k);
        r->top[k] = y;
        y += r->box_height + gap_below(r, k);
        r->out->height = fmax(r->out->height, y);
    }
}

static mp_status place_columns(router *r, const size_t *lanes)
{
    double x = 0, above = (double)lanes[0] * TRACK_GAP;
    int *widest = mp_pool_alloc(r->pool, r->n_columns, sizeof *widest);
    if (!widest) return MP_NO_MEMORY(r->err);
    for (size_t k = 0; k < r->n; k++)
        if (r->slot[k] > widest[column_of(r, (int)k)]) widest[column_of(r, (int)k)] = r->slot[k];
    for (size_t c = 0; c < r->n_columns; c++) {
        r->left[c] = x;
        x += (widest[c] + 1) * (r->box_width + SLOT_GAP) - SLOT_GAP;
        r->gutter[c] = x + GUTTER_GAP / 2;
        r->out->width = fmax(x, r->gutter[c] + (double)lanes[c + 1] * LANE_GAP);
        x = r->gutter[c] + (double)lanes[c + 1] * LANE_GAP + GUTTER_GAP / 2;
    }
    for (size_t k = 0; k < r->n_rows; k++) r->top[k] += above;
    r->out->height += above;
    for (size_t k = 0; k < r->n; k++) {
        r->out->column[k] = column_of(r, (int)k);
        r->out->x[k] = r->left[column_of(r, (int)k)] + r->slot[k] * (r->box_width + SLOT_GAP);
        r->out->y[k] = r->top[r->row[k]];
    }
    return MP_OK;
}

/* ---- wires ---- */

static mp_status add_wire(router *r, int from, mp_wire_end end, const double *xy, size_t n)
{
    mp_placement *out = r->out;
    if (!mp_grow(&out->wires, &out->wires_capacity, out->n_wires + 1, sizeof *out->wires)) return MP_NO_MEMORY(r->err);
    mp_wire *wire = &out->wires[out->n_wires++];
    *wire = (mp_wire){.from = from, .end = end, .bundle = r->bundle[from], .skip = r->skip[r->bundle[from]], .n = n};
    memcpy(wire->xy, xy, 2 * n * sizeof *xy);
    return MP_OK;
}

static double middle(const router *r, int box)
{
    return r->out->x[box] + r->box_width / 2;
}

/* Adds the parts of wires that run in lanes, and the parts that connect lanes above the columns. */
static mp_status wires_of_stretches(router *r, double above)
{
    for (size_t k = 0; k < r->n_stretches; k++) {
        const stretch *s = &r->stretches[k];
        const mp_wire_end end = r->members[s->from] > 1 ? MP_WIRE_TRUNK : MP_WIRE_PLAIN;
        if (s->gutter < 0) {
            double y = above - (s->lane + 0.5) * TRACK_GAP, a = lane_x(r, s->from, (int)s->low, s->on);
            MP_CHECK(add_wire(r, s->from, end, (double[]){a, y, lane_x(r, s->from, (int)s->high, s->on), y}, 2));
            continue;
        }
        const stretch *bus = stretch_of(r, s->from, -1, s->on);
        double x = lane_x(r, s->from, s->gutter, s->on), low = s->low + above, high = s->high + above;
        if (bus && s->low <= 0) low = above - (bus->lane + 0.5) * TRACK_GAP;
        if (low < high) MP_CHECK(add_wire(r, s->from, end, (double[]){x, low, x, high}, 2));
    }
    return MP_OK;
}

/* The two parts of the wire of an edge: from its box to the lane, and from the lane to its reader. */
typedef struct route {
    int bundle, from, to;
    bool on;
} route;

static int by_join(const void *a, const void *b)
{
    const route *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->on - y->on;
}
static int by_tap(const void *a, const void *b)
{
    const route *x = a, *y = b;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    if (x->bundle != y->bundle) return x->bundle < y->bundle ? -1 : 1;
    return x->on - y->on;
}

/* Adds the parts of wires that lead from boxes to lanes and from lanes to readers. Each part is added once, although several
 * edges share it. */
static mp_status wires_of_routes(router *r)
{
    size_t n = 0;
    route *routes = mp_pool_alloc(r->pool, r->n_edges, sizeof *routes);
    if (!routes) return MP_NO_MEMORY(r->err);
    for (size_t k = 0; k < r->n_edges; k++) {
        const mp_block_edge *e = &r->edges[k];
        if (r->routed[k]) routes[n++] = (route){r->bundle[e->from], e->from, e->to, leads_on(r, e)};
    }
    if (n) qsort(routes, n, sizeof *routes, by_join);
    for (size_t k = 0; k < n; k++) {
        const route *e = &routes[k];
        if (k > 0 && by_join(e, e - 1) == 0) continue;
        const double from = middle(r, e->from), bottom = r->out->y[e->from] + r->box_height, y = out_y(r, e->from);
        const double x = lane_x(r, e->bundle, column_of(r, e->from), e->on);
        MP_CHECK(add_wire(r, e->from, r->members[e->bundle] > 1 ? MP_WIRE_JOINT : MP_WIRE_PLAIN,
                          (double[]){from, bottom, from, y, x, y}, 3));
    }
    if (n) qsort(routes, n, sizeof *routes, by_tap);
    for (size_t k = 0; k < n; k++) {
        const route *e = &routes[k];
        if (k > 0 && by_tap(e, e - 1) == 0) continue;
        const mp_block_edge edge = {e->from, e->to};
        const double x = lane_x(r, e->bundle, entry_gutter(r, &edge), e->on), y = in_y(r, e->to), to = middle(r, e->to);
        MP_CHECK(add_wire(r, e->bundle, MP_WIRE_ARROW, (double[]){x, y, to, y, to, r->out->y[e->to]}, 3));
    }
    return MP_OK;
}

static mp_status wires_to_the_next_row(router *r)
{
    for (size_t k = 0; k < r->n_edges; k++) {
        const mp_block_edge *e = &r->edges[k];
        const double to = middle(r, e->to), from = middle(r, e->from), top = r->out->y[e->to];
        const double bottom = r->out->y[e->from] + r->box_height;
        if (r->routed[k]) continue;
        if (is_vertical(r, e)) {
            MP_CHECK(add_wire(r, e->from, MP_WIRE_ARROW, (double[]){from, bottom, to, top}, 2));
        } else {
            const double y = out_y(r, e->from);
            MP_CHECK(add_wire(r, e->from, MP_WIRE_ARROW, (double[]){from, bottom, from, y, to, y, to, top}, 4));
        }
        r->out->wires[r->out->n_wires - 1].bundle = -1;
        r->out->wires[r->out->n_wires - 1].skip = -1;
    }
    return MP_OK;
}

/* ---- the whole placement ---- */

void mp_placement_free(mp_placement *placement)
{
    if (!placement) return;
    mp_pool_free(placement->pool);
    mp_free(placement->wires);
    mp_free(placement);
}

static mp_status start(router *r)
{
    const size_t n = r->n; /* limits the sizes of arrays: there are at most as many rows and columns as boxes */
    r->pool = mp_pool_new();
    r->row = mp_pool_alloc(r->pool, n, sizeof *r->row);
    r->slot = mp_pool_alloc(r->pool, n, sizeof *r->slot);
    r->column = mp_pool_alloc(r->pool, n, sizeof *r->column);
    r->outs = mp_pool_alloc(r->pool, n, sizeof *r->outs);
    r->ins = mp_pool_alloc(r->pool, n, sizeof *r->ins);
    r->out_track = mp_pool_alloc(r->pool, n, sizeof *r->out_track);
    r->in_track = mp_pool_alloc(r->pool, n, sizeof *r->in_track);
    r->top = mp_pool_alloc(r->pool, n, sizeof *r->top);
    r->left = mp_pool_alloc(r->pool, n, sizeof *r->left);
    r->gutter = mp_pool_alloc(r->pool, n, sizeof *r->gutter);
    r->routed = mp_pool_alloc(r->pool, r->n_edges, sizeof *r->routed);
    r->bundle = mp_pool_alloc(r->pool, n, sizeof *r->bundle);
    r->members = mp_pool_alloc(r->pool, n, sizeof *r->members);
    r->skip = mp_pool_alloc(r->pool, n, sizeof *r->skip);
    r->lanes = mp_pool_alloc(r->pool, n + 1, sizeof *r->lanes);
    if (mp_pool_failed(r->pool) || !(r->out = mp_alloc(1, sizeof *r->out))) return MP_NO_MEMORY(r->err);
    r->out->pool = mp_pool_new();
    r->out->x = mp_pool_alloc(r->out->pool, n, sizeof *r->out->x);
    r->out->y = mp_pool_alloc(r->out->pool, n, sizeof *r->out->y);
    r->out->column = mp_pool_alloc(r->out->pool, n, sizeof *r->out->column);
    return mp_pool_failed(r->out->pool) ? MP_NO_MEMORY(r->err) : MP_OK;
}

static void router_free(router *r)
{
    mp_pool_free(r->pool);
    mp_free(r->stretches);
    mp_placement_free(r->out);
}

mp_status mp_placement_new(size_t n, const mp_block_edge *edges, size_t n_edges, double box_width, double box_height,
                           double aspect, mp_placement **out, mp_error *err)
{
    MP_CLEARED_BY(router_free)
    router r = {.n = n, .edges = edges, .n_edges = n_edges, .box_width = box_width, .box_height = box_height, .err = err};
    MP_CHECK(start(&r));
    MP_CHECK(mp_placement_rows(n, edges, n_edges, r.row, r.slot, &r.n_rows, err));
    MP_CHECK(wrap(&r, aspect));
    stack_rows(&r);
    MP_CHECK(find_bundles(&r));
    MP_CHECK(find_stretches(&r));
    MP_CHECK(give_lanes(&r, r.lanes));
    MP_CHECK(place_columns(&r, r.lanes));
    MP_CHECK(wires_of_stretches(&r, (double)r.lanes[0] * TRACK_GAP));
    MP_CHECK(wires_of_routes(&r));
    MP_CHECK(wires_to_the_next_row(&r));
    r.out->n_columns = r.n_columns;
    *out = r.out;
    r.out = NULL;
    return MP_OK;
}
