/* test_curve_picture.c - the picture of the trade-off curve: its contents, and equal files for equal input. */
#include <math.h>
#include <unistd.h>

#include "formats/canvas/plot.h"
#include "memplan/pictures/curve_picture.h"
#include "tests/cases/test.h"

static mp_sweep_point low[] = {{600, true, 600, 130, 3, 9}, {700, true, 690, 115, 5, 4}, {1000, true, 1000, 100, 12, 0}};
static mp_sweep_point high[] = {{500, false, 0, 0, 0, 0}, {800, true, 800, 120, 3, 9}, {1000, true, 1000, 100, 12, 0}};
static mp_sweep_curve curves[] = {{"chen", 600, 3, low}, {"lower-set", 800, 3, high}};
static mp_spread_point spread[] = {{0, 1000, 100}, {1, 900, 140}, {4, 500, 135}, {30, 950, 110}};
static const mp_sweep example = {.floor_bytes = 400,
                                 .static_bytes = 100,
                                 .keep_all_bytes = 1000,
                                 .keep_all_ticks = 100,
                                 .tick_seconds = 1,
                                 .n_curves = 2,
                                 .curves = curves,
                                 .n_spread = 4,
                                 .spread = spread};

/* Returns the file's bytes followed by a NUL; the caller frees them. */
static char *drawn(const mp_sweep *sweep, const char *title, const char *ending)
{
    char path[64];
    mp_error err = {0};
    snprintf(path, sizeof path, "/tmp/memplan_curve_%ld.%s", (long)getpid(), ending);
    if (mp_curve_picture(sweep, title, path, &err) != MP_OK) fail_msg("%s", err.message);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = calloc(1, 1 << 20);
    assert_non_null(bytes);
    assert_in_range(fread(bytes, 1, (1 << 20) - 1, file), 100, (1 << 20) - 2);
    fclose(file);
    unlink(path);
    return bytes;
}

TEST(the_picture_names_searchers_floor_and_ends)
{
    char *svg = drawn(&example, "a <model> & more", "svg");
    static const char *const texts[] = {"chen: 600 B, +30.0 %",
                                        "lower-set: 800 B, +20.0 %",
                                        "keep all",
                                        "floor",
                                        "4: 500 B",
                                        "too few",
                                        "too many",
                                        "a &lt;model&gt; &amp; more: down to 600 B of 1000 B, for +30.0 % time"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        char text[64] = "";
        /* names keep hyphens and blanks in one of the two forms of SVG */
        snprintf(text, sizeof text, "%s", texts[k]);
        if (strstr(svg, text)) continue;
        size_t n = 0;
        for (const char *c = texts[k]; *c && n + 7 < sizeof text; c++) {
            if (*c == '-')
                n += (size_t)snprintf(text + n, sizeof text - n, "&#45;");
            else
                text[n++] = *c;
        }
        text[n] = 0;
        if (!strstr(svg, text)) fail_msg("'%s' is not in the picture", texts[k]);
    }
    free(svg);
}

TEST(the_picture_is_the_same_every_time)
{
    char *once = drawn(&example, "model", "svg"), *twice = drawn(&example, "model", "svg");
    assert_string_equal(once, twice);
    free(once);
    free(twice);
}

/* Returns the next line (no polygon) of this width in the text of an SVG; NULL: none. */
static const char *next_line(const char *at, const char *width)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "stroke-width=\"%s\"", width);
    for (; (at = strstr(at, "<polyline")); at++) {
        const char *found = strstr(at, wanted);
        if (found && found < strchr(at, '>')) return at;
    }
    return NULL;
}

/* Curves are steps: each segment of a line of width 2 is horizontal or vertical. */
TEST(curves_are_steps)
{
    char *svg = drawn(&example, "model", "svg");
    int stretches = 0;
    for (const char *at = svg; (at = next_line(at, "2")); at++) {
        const char *p = strstr(at, "points=\"") + 8;
        double x0, y0, x1, y1;
        int read;
        for (bool first = true; sscanf(p, "%lf,%lf %n", &x1, &y1, &read) == 2; p += read, first = false) {
            if (!first) assert_true(x0 == x1 || y0 == y1);
            stretches += !first;
            x0 = x1;
            y0 = y1;
        }
    }
    assert_in_range(stretches, 2 + 4 + 2, 100); /* two in the legend, two drops on the first curve, one on the second */
    free(svg);
}

/* Without a spread, the curves fill the picture. A curve with copies at 40 times the cost leaves the others readable. */
TEST(a_slow_curve_presses_no_other_flat)
{
    mp_sweep_point slow[] = {{600, true, 600, 500, 3, 0}, {800, true, 800, 300, 8, 0}, {1000, true, 1000, 100, 12, 0}};
    mp_sweep_point fast[] = {{600, true, 600, 110, 3, 9}, {800, true, 800, 105, 8, 4}, {1000, true, 1000, 100, 12, 0}};
    mp_sweep_curve both[] = {{"recompute only", 600, 3, fast}, {"offload only", 600, 3, slow}};
    mp_sweep apart = example;
    apart.n_spread = 0;
    apart.curves = both;
    char *svg = drawn(&apart, "model", "svg");
    int n_curves = 0;
    for (const char *at = svg; (at = next_line(at, "2")); at++) {
        double x, y, right = 0, low = INFINITY, high = -INFINITY;
        int read, n = 0;
        for (const char *p = strstr(at, "points=\"") + 8; sscanf(p, "%lf,%lf %n", &x, &y, &read) == 2; p += read, n++) {
            right = fmax(right, x);
            low = fmin(low, y);
            high = fmax(high, y);
        }
        if (n < 4) continue; /* the legend */
        n_curves++;
        assert_true(right > 900);
        assert_true(high - low > 80);
    }
    assert_int_equal(n_curves, 2);
    assert_non_null(strstr(svg, "logarithmic"));
    free(svg);
    svg = drawn(&example, "model", "svg");
    assert_null(strstr(svg, "logarithmic"));
    free(svg);
}

enum { MOST_POINTS = 3, MOST_LEADERS = 8 };

typedef struct leader {
    int n;
    double x[MOST_POINTS], y[MOST_POINTS];
} leader;

/* Lists the thin lines from the curves' ends to their labels. */
static int leaders_of(const char *svg, leader *leaders)
{
    int n = 0;
    for (const char *at = svg; (at = next_line(at, "0.75")); at++) {
        const char *p = strstr(at, "points=\"") + 8;
        leader *l = &leaders[n];
        double x, y;
        l->n = 0;
        for (int read; sscanf(p, "%lf,%lf %n", &x, &y, &read) == 2; p += read) {
            assert_in_range(l->n, 0, MOST_POINTS - 1);
            l->x[l->n] = x;
            l->y[l->n++] = y;
        }
        if (l->n == MOST_POINTS) assert_in_range(++n, 0, MOST_LEADERS - 1); /* grid lines have two points */
    }
    return n;
}

static double turn(double ax, double ay, double bx, double by, double cx, double cy)
{
    return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
}

static bool cross(const leader *a, int i, const leader *b, int k)
{
    const double *ax = a->x + i, *ay = a->y + i, *bx = b->x + k, *by = b->y + k;
    return turn(ax[0], ay[0], ax[1], ay[1], bx[0], by[0]) * turn(ax[0], ay[0], ax[1], ay[1], bx[1], by[1]) < -1e-6 &&
           turn(bx[0], by[0], bx[1], by[1], ax[0], ay[0]) * turn(bx[0], by[0], bx[1], by[1], ax[1], ay[1]) < -1e-6;
}

/* Curve ends close together on both sides of the picture: the lower end to the left, to the right, or at equal positions. */
TEST(leaders_do_not_cross)
{
    static const char *const names[] = {"chen", "segments", "lower-set", "chain", "anneal"};
    static const int64_t ends[][5][2] = {{{700, 130}, {690, 120}, {699, 119}, {500, 160}, {480, 150}},
                                         {{960, 150}, {961, 120}, {955, 110}, {962, 190}, {963, 115}},
                                         {{700, 130}, {700, 120}, {701, 110}, {702, 180}, {703, 190}}};
    for (size_t c = 0; c < sizeof ends / sizeof *ends; c++) {
        mp_sweep_point points[5];
        mp_sweep_curve many[5];
        leader leaders[MOST_LEADERS] = {0};
        mp_sweep sweep = example;
        for (size_t k = 0; k < 5; k++) {
            points[k] = (mp_sweep_point){ends[c][k][0], true, ends[c][k][0], ends[c][k][1], 3, 9};
            many[k] = (mp_sweep_curve){names[k], ends[c][k][0], 1, &points[k]};
        }
        sweep.curves = many;
        sweep.n_curves = 5;
        char *svg = drawn(&sweep, "model", "svg");
        const int n = leaders_of(svg, leaders);
        assert_int_equal(n, 5);
        for (int a = 0; a < n; a++)
            for (int b = 0; b < a; b++)
                for (int i = 0; i + 1 < MOST_POINTS; i++)
                    for (int k = 0; k + 1 < MOST_POINTS; k++) assert_false(cross(&leaders[a], i, &leaders[b], k));
        free(svg);
    }
}

/* Finds the colour of a searcher's line in the legend. */
static void color_in_legend(const char *svg, const char *name, char color[8])
{
    const char *at = strstr(svg, name);
    assert_non_null(at);
    while (strncmp(at, "<polyline", 9) != 0) at--;
    assert_int_equal(sscanf(strstr(at, "stroke=\""), "stroke=\"%7s", color), 1);
}

TEST(a_searcher_has_its_colour_in_every_picture)
{
    mp_sweep_curve turned[] = {curves[1], curves[0]};
    mp_sweep sweep = example;
    char first[8], second[8], other[8];
    char *svg = drawn(&example, "model", "svg");
    color_in_legend(svg, ">chen<", first);
    color_in_legend(svg, ">lower&#45;set<", other);
    free(svg);
    sweep.curves = turned;
    svg = drawn(&sweep, "model", "svg");
    color_in_legend(svg, ">chen<", second);
    free(svg);
    assert_string_equal(first, second);
    assert_string_not_equal(first, other);
}

static double height_of(const char *svg, const char *text)
{
    double y = 0;
    const char *at = strstr(svg, text), *element = at;
    if (!at) fail_msg("'%s' is not in the picture", text);
    while (strncmp(element, "<text", 5) != 0) element--;
    assert_int_equal(sscanf(strstr(element, " y=\""), " y=\"%lf\"", &y), 1);
    return y;
}

/* The largest number of searchers: the legend is above the plot, and equal curves share a label. */
TEST(a_long_legend_covers_nothing)
{
    static const char *const names[] = {"searcher one", "searcher two",   "searcher three", "searcher four", "searcher five",
                                        "searcher six", "searcher seven", "searcher eight", "searcher nine", "searcher ten"};
    mp_sweep_curve many[10];
    mp_sweep sweep = example;
    for (size_t k = 0; k < 10; k++) many[k] = (mp_sweep_curve){names[k], 600, 3, low};
    sweep.curves = many;
    sweep.n_curves = 10;
    char *svg = drawn(&sweep, "model", "svg");
    const double heading = height_of(svg, "How many checkpoints?");
    for (size_t k = 0; k < 10; k++) {
        char text[64];
        snprintf(text, sizeof text, ">%s<", names[k]);
        assert_true(height_of(svg, text) < heading - 16);
    }
    assert_true(height_of(svg, ">searcher ten<") > height_of(svg, ">searcher one<") + 10); /* in the second row */
    assert_non_null(strstr(svg, ">searcher one, searcher two, searcher three and 7 more: 600 B, +30.0 %<"));
    free(svg);
}

/* No improvement, a sweep stopped immediately, no segments, and all points equal. */
TEST(poor_sweeps_are_drawn_too)
{
    mp_sweep poor = example;
    mp_sweep_curve flat[] = {{"chen", 1000, 1, &low[2]}};
    poor.n_spread = 0;
    poor.curves = flat;
    poor.n_curves = 1;
    char *svg = drawn(&poor, "model", "svg");
    assert_non_null(strstr(svg, "nothing was found"));
    free(svg);
    poor.n_curves = 0;
    poor.floor_bytes = poor.keep_all_bytes;
    free(drawn(&poor, "", "svg"));
    poor.keep_all_bytes = poor.floor_bytes = poor.keep_all_ticks = 0;
    poor.n_spread = 1;
    free(drawn(&poor, "", "svg"));
    poor.n_spread = 4;
    poor.keep_all_bytes = INT64_MAX / 4;
    free(drawn(&poor, "", "png"));
}

TEST(ticks_are_round_and_in_range)
{
    static const double highs[] = {0.003, 1, 7, 33.4, 100, 12345678, 9e18};
    for (size_t k = 0; k < sizeof highs / sizeof *highs; k++)
        for (size_t most = 2; most < 12; most++) {
            const mp_plot_axis axis = {MP_PLOT_LINEAR, -0.1 * highs[k], highs[k], 10, 400, 1};
            double values[MP_PLOT_TICKS_MAX];
            const size_t n = mp_plot_ticks(&axis, most, values);
            assert_in_range(n, 1, most);
            for (size_t i = 0; i < n; i++) {
                assert_true(values[i] >= axis.low * 1.001 && values[i] <= axis.high * 1.001);
                assert_true(mp_plot_at(&axis, values[i]) >= 9 && mp_plot_at(&axis, values[i]) <= 401);
            }
        }
    const mp_plot_axis counts = {MP_PLOT_COUNTS, 0, 391, 0, 300, 1};
    static const double expected[] = {0, 1, 2, 5, 10, 20, 50, 100, 200};
    double values[MP_PLOT_TICKS_MAX];
    const size_t n = mp_plot_ticks(&counts, 20, values);
    assert_int_equal(n, 9);
    for (size_t i = 0; i < n; i++) assert_true(values[i] == expected[i]);
}
