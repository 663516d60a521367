/* test_timeline_picture.c - pictures of memory over time: figures compared with the timeline and sums by hand, and texts with
 * the requested contents. */
#include "memplan/pictures/timeline_picture.h"

#include <time.h>
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/base/file.h"
#include "formats/curves/chart.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

static char folder[64], svg[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/memplan-picture-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(svg, sizeof svg, "%s/p.svg", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(svg);
    return rmdir(folder);
}

static char *contents(const char *path)
{
    mp_file file;
    if (mp_file_open(path, 1 << 26, &file, NULL) != MP_OK) fail_msg("%s cannot be read", path);
    char *text = calloc(file.size + 1, 1);
    memcpy(text, file.bytes, file.size);
    mp_file_close(&file);
    return text;
}

static void assert_drawn(const mp_graph *graph, const mp_plan *plan, const char *title, mp_timeline_view view)
{
    mp_error err = {0};
    if (mp_timeline_picture(graph, plan, title, view, svg, &err) != MP_OK) fail_msg("%s", err.message);
}

/* ---- a chain with sums by hand ---- */

/* In units of 100 bytes: parameter p 1; x 2 -> f0 -> a 4 -> f1 -> b 8 -> loss -> gb 8 -> b1 (reads a) -> ga 4, gp 1 -> update.
 * f1 has a workspace of 16. */
enum { P, X, A, B, GB, GP };
enum { F0, F1, LOSS, B1, UPDATE };

static void add_storage(mp_graph *g, const char *name, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    s->name = name;
    s->kind = kind;
    s->bytes = s->payload_bytes = 100 * bytes;
}

static mp_alternative *add_node(mp_graph *g, const char *name, mp_phase phase, int read1, int read2, int write)
{
    mp_node *n;
    assert_int_equal(mp_graph_node(g, &n, NULL), MP_OK);
    n->name = name;
    n->op = "Op";
    n->phase = phase;
    n->forward_of = -1;
    n->alternatives[0].n_reads = read2 >= 0 ? 2 : 1;
    n->alternatives[0].reads = mp_graph_list(g, (int[]){read1, read2}, 2);
    n->alternatives[0].n_writes = write >= 0;
    n->alternatives[0].writes = mp_graph_list(g, &write, 1);
    n->alternatives[0].ticks = 1;
    return &n->alternatives[0];
}

static mp_graph *chain(const char *name_of_a)
{
    mp_error err = {0};
    mp_graph *g;
    assert_int_equal(mp_graph_new("chain", &g, NULL), MP_OK);
    add_storage(g, "p", MP_KIND_PARAMETER, 1);
    add_storage(g, "x", MP_KIND_INPUT, 2);
    add_storage(g, name_of_a, MP_KIND_ACTIVATION, 4);
    add_storage(g, "b", MP_KIND_ACTIVATION, 8);
    add_storage(g, "gb", MP_KIND_ACTIVATION_GRADIENT, 8);
    add_storage(g, "gp", MP_KIND_GRADIENT, 1);
    add_node(g, "f0", MP_PHASE_FORWARD, X, P, A);
    add_node(g, "f1", MP_PHASE_FORWARD, A, -1, B)->workspace_bytes = 1600;
    add_node(g, "loss", MP_PHASE_LOSS, B, -1, GB);
    add_node(g, "b1", MP_PHASE_BACKWARD, GB, A, GP);
    add_node(g, "up", MP_PHASE_UPDATE, GP, P, -1);
    if (mp_graph_finish(g, &err) != MP_OK) fail_msg("%s", err.message);
    return g;
}

static void assert_column(const mp_timeline_columns *c, size_t k, const int64_t *hundreds, int64_t keep_all,
                          mp_activity activity)
{
    for (int layer = 0; layer < MP_N_LAYERS; layer++) assert_int_equal(c->columns[k].bytes[layer], 100 * hundreds[layer]);
    assert_int_equal(c->columns[k].keep_all, 100 * keep_all);
    assert_int_equal(c->columns[k].activity, activity);
}

TEST(the_layers_of_a_chain_are_those_added_up_by_hand)
{
    mp_graph *g = chain("a");
    /* a is dropped after f1 and computed again: only forward reads the first instance */
    const mp_step steps[] = {{F0, 0, 0}, {F1, 0, 0}, {LOSS, 0, 0}, {F0, 0, 0}, {B1, 0, 0}, {UPDATE, 0, 0}};
    mp_timeline_columns *c;
    assert_int_equal(mp_timeline_columns_new(g, steps, 6, 100, &c, NULL), MP_OK);
    assert_int_equal(c->n, 6);
    /* Keep-all's five steps take 7, 31, 23, 16 and 4. A column of this plan is five sixths as wide as one of keep-all's. */
    /*                           parameters, optimizer, kept, forward only, recomputed, copied, gradients, workspace */
    assert_column(c, 0, (int64_t[]){3, 0, 0, 4, 0, 0, 0, 0}, 7, MP_ACTIVITY_FORWARD);
    assert_column(c, 1, (int64_t[]){3, 0, 0, 12, 0, 0, 0, 16}, 31, MP_ACTIVITY_FORWARD);
    assert_column(c, 2, (int64_t[]){3, 0, 0, 8, 0, 0, 8, 0}, 31, MP_ACTIVITY_FORWARD);
    assert_column(c, 3, (int64_t[]){3, 0, 0, 0, 4, 0, 8, 0}, 23, MP_ACTIVITY_RECOMPUTE);
    assert_column(c, 4, (int64_t[]){3, 0, 0, 0, 4, 0, 9, 0}, 16, MP_ACTIVITY_BACKWARD);
    assert_column(c, 5, (int64_t[]){3, 0, 0, 0, 0, 0, 1, 0}, 4, MP_ACTIVITY_UPDATE);
    assert_int_equal(c->peak_column, 1);
    mp_timeline_columns_free(c);
    /* if kept, backward reads it */
    assert_int_equal(mp_timeline_columns_new(g, (mp_step[]){{F0, 0, 0}, {F1, 0, 0}, {LOSS, 0, 0}, {B1, 0, 0}, {UPDATE, 0, 0}},
                                             5, 2, &c, NULL),
                     MP_OK);
    assert_int_equal(c->n, 2); /* columns of three steps and of two */
    assert_column(c, 0, (int64_t[]){3, 0, 4, 8, 0, 0, 0, 16}, 31, MP_ACTIVITY_FORWARD);
    assert_column(c, 1, (int64_t[]){3, 0, 4, 0, 0, 0, 9, 0}, 16, MP_ACTIVITY_BACKWARD);
    mp_timeline_columns_free(c);
    mp_graph_free(g);
}

TEST(layers_add_up_to_the_timeline_on_random_training_graphs)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mp_graph *g = random_graph(seed, 1 + (int)(seed % 12), (mp_fuse)(seed % MP_N_FUSES), seed % 5 == 0);
        size_t n;
        mp_step *steps = random_schedule(g, seed, (int)(seed % 4) * 6, &n);
        for (size_t most = 1; most <= n + 1; most += 1 + n / 3) {
            mp_timeline_columns *c;
            int64_t highest = 0;
            int next = 0;
            assert_int_equal(mp_timeline_columns_new(g, steps, n, most, &c, NULL), MP_OK);
            assert_true(c->n <= most);
            for (size_t k = 0; k < c->n; k++) {
                const mp_timeline_column *column = &c->columns[k];
                int64_t sum = 0, fullest = 0;
                for (int layer = 0; layer < MP_N_LAYERS; layer++) {
                    assert_true(column->bytes[layer] >= 0);
                    sum += column->bytes[layer];
                }
                assert_int_equal(column->first, next);
                next = column->last + 1;
                for (int t = column->first; t <= column->last; t++) {
                    int64_t total = c->timeline->static_bytes + c->timeline->live_bytes[t];
                    if (total > fullest) fullest = total;
                }
                assert_true(sum == fullest && column->total == fullest);
                if (column->keep_all > highest) highest = column->keep_all;
            }
            assert_int_equal(next, n);
            assert_int_equal(highest, c->keep_all->peak_bytes); /* columns preserve keep-all's peak */
            assert_int_equal(c->columns[c->peak_column].total, c->timeline->peak_bytes);
            mp_timeline_columns_free(c);
        }
        mp_free(steps);
        mp_graph_free(g);
    }
    assert_int_equal(mp_alloc_live, 0);
}

TEST(the_scale_is_continuous_and_gives_the_plan_its_height)
{
    static const double cases[][3] = {{0, 100, 0},     {0, 100, 160},  {0, 100, 1000}, {90, 100, 0},
                                      {90, 100, 1000}, {10, 100, 120}, {0, 0, 0},      {100, 100, 100}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double always = cases[k][0], most = cases[k][1], beyond = cases[k][2], top = beyond > most ? beyond : most, before = -1;
        mp_byte_scale s = mp_byte_scale_choose(always, most, beyond, 50, 450);
        for (int i = 0; i <= 10000; i++) {
            double y = mp_byte_scale_y(&s, top * i / 10000);
            assert_true(y >= 50 - 1e-6 && y <= 450 + 1e-6);
            assert_true(y >= before - 1e-6 && (i == 0 || y - before < 4)); /* it rises without jumps */
            before = y;
        }
        double height = mp_byte_scale_y(&s, most) - mp_byte_scale_y(&s, s.cut_below ? always : 0);
        if (most > always) assert_true(height > 400 * 0.38);
    }
    assert_true(mp_byte_scale_choose(90, 100, 1000, 50, 450).cut_below &&
                mp_byte_scale_choose(90, 100, 1000, 50, 450).cut_above);
    assert_false(mp_byte_scale_choose(10, 100, 160, 50, 450).cut_below ||
                 mp_byte_scale_choose(10, 100, 160, 50, 450).cut_above);
}

TEST(a_picture_says_what_its_plan_saves)
{
    mp_graph *g = chain("<a> & \"\xC3\xA9\"\nnext");
    const mp_step steps[] = {{F0, 0, 0}, {F1, 0, 0}, {LOSS, 0, 0}, {F0, 0, 0}, {B1, 0, 0}, {UPDATE, 0, 0}};
    mp_plan *plan;
    assert_int_equal(mp_plan_new(g, "hand", steps, 6, &plan, NULL), MP_OK);
    plan->budget_bytes = 3200;
    assert_drawn(g, plan, "a <title> & more", MP_VIEW_ALL);
    char *text = contents(svg);
    static const char *const pieces[] = {
        ">a &lt;title&gt; &amp; more: 3.03 KiB instead of 3.03 KiB, 0 % less<", /* f1 has both peaks */
        ">6 steps: 3 forward, 1 recompute, 1 backward, 1 update",
        "time +20.0 %",
        ">peak 3.03 KiB at<",
        ">f1 (Op, forward)<",
        ">budget<",
        ">keep everything: 3.03 KiB<",
        "&lt;a&gt; &amp; &quot;\xC3\xA9&quot; next<",
        "&lt;a&gt; &amp; &quot;\xC3\xA9&quot;&#10;next&#10;400 B, recomputed&#10;in memory from step 4 to 5 of 6&#10;"};
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++)
        if (!strstr(text, pieces[k])) fail_msg("'%s' is not in: %.9000s", pieces[k], text);
    assert_drawn(g, plan, "a <title> & more", MP_VIEW_ALL);
    char *again = contents(svg);
    assert_string_equal(text, again);
    free(text);
    free(again);
    assert_drawn(g, NULL, "chain", MP_VIEW_ALL);
    text = contents(svg);
    assert_non_null(strstr(text, ">chain: 3.03 KiB with everything kept<"));
    assert_null(strstr(text, "keep everything"));
    free(text);
    mp_plan_free(plan);
    mp_graph_free(g);
}

/* Finds the text that begins with `begins`: its left edge and its baseline, y downwards. */
static bool find_text(const char *picture, const char *begins, double *x, double *y)
{
    const char *at = strstr(picture, begins), *element = at;
    if (!at) return false;
    while (strncmp(element, "<text", 5) != 0) element--;
    assert_int_equal(sscanf(strstr(element, " x=\""), " x=\"%lf\" y=\"%lf\"", x, y), 2);
    return true;
}

/* Checks that the dashed curve does not cross the text line at (x, y): its height above the baseline, over its first 60 points.
 * All texts here are longer. */
static void assert_clear(const char *picture, double x, double y)
{
    const char *at = strstr(picture, "stroke-dasharray"); /* the first dashed line is in the legend */
    double x0, y0, x1, y1;
    int read;
    at = strstr(at + 1, "stroke-dasharray");
    assert_non_null(at);
    at = strstr(at, "points=\"") + 8;
    for (bool first = true; sscanf(at, "%lf,%lf %n", &x1, &y1, &read) == 2; at += read, first = false) {
        if (!first) {
            const bool beside = (x0 < x && x1 < x) || (x0 > x + 60 && x1 > x + 60);
            const bool above = y0 < y - 9 && y1<y - 9, below = y0> y + 1 && y1 > y + 1;
            assert_true(beside || above || below);
        }
        x0 = x1;
        y0 = y1;
    }
}

TEST(labels_cover_no_curve)
{
    int drawn = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *g = random_graph(seed, 6 + (int)(seed % 12), MP_FUSE_NONE, false);
        size_t n;
        mp_step *steps = random_schedule(g, seed, 8, &n);
        mp_plan *plan;
        double x, y, other_x, other_y;
        assert_int_equal(mp_plan_new(g, "random", steps, n, &plan, NULL), MP_OK);
        plan->budget_bytes = seed % 2 ? plan->peak_bytes : MP_NO_LIMIT;
        assert_drawn(g, plan, "x", MP_VIEW_MEMORY);
        char *text = contents(svg);
        if (find_text(text, ">keep everything: ", &other_x, &other_y)) {
            assert_clear(text, other_x, other_y);
            assert_true(find_text(text, ">peak ", &x, &y));
            assert_clear(text, x, y);
            assert_clear(text, x, y + 16); /* the second line of the text */
            assert_true(fabs(other_x - x) > 60 || other_y < y - 12 ||
                        other_y > y + 28); /* texts do not overlap each other either */
            drawn++;
        }
        free(text);
        mp_plan_free(plan);
        mp_free(steps);
        mp_graph_free(g);
    }
    assert_true(drawn > 30);
}

/* A small plan and a much larger keep-all: the scale has a break between them, and no label crosses its mark. The legend is
 * directly above the labels. */
TEST(labels_stand_clear_of_a_break)
{
    enum { LINKS = 12 };
    mp_graph *g;
    mp_step steps[4 * LINKS];
    size_t n = 0;
    mp_plan *plan;
    double x, peak, all, legend, low = INFINITY, high = -INFINITY;
    assert_int_equal(mp_graph_new("long", &g, NULL), MP_OK);
    add_storage(g, "x", MP_KIND_INPUT, 0);
    for (int k = 0; k < LINKS; k++) add_storage(g, "a", MP_KIND_ACTIVATION, 100);
    for (int k = 0; k < LINKS; k++) add_storage(g, "g", MP_KIND_GRADIENT, 1);
    for (int k = 0; k < LINKS; k++) add_node(g, "f", MP_PHASE_FORWARD, 0, -1, 1 + k);
    for (int k = LINKS; k-- > 0;) add_node(g, "b", MP_PHASE_BACKWARD, 1 + k, -1, 1 + LINKS + k);
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    for (int k = 0; k < LINKS; k++) steps[n++] = (mp_step){.node = k};
    for (int k = LINKS; k-- > 0;) {
        if (k + 1 < LINKS) steps[n++] = (mp_step){.node = k};
        steps[n++] = (mp_step){.node = 2 * LINKS - 1 - k};
    }
    assert_int_equal(mp_plan_new(g, "hand", steps, n, &plan, NULL), MP_OK);
    assert_drawn(g, plan, "x", MP_VIEW_MEMORY);
    char *text = contents(svg);
    for (const char *at = text; (at = strstr(at, "stroke-width=\"0.6\" points=\"")); at++) { /* the two edges of the mark */
        const double y = strtod(strchr(strstr(at, "points=\""), ',') + 1, NULL);
        low = fmin(low, y);
        high = fmax(high, y);
    }
    assert_true(high > low);
    assert_true(find_text(text, ">peak ", &x, &peak));
    assert_true(peak + 19 < low - 2 || peak - 12 > high + 2); /* both lines of text are completely outside the mark */
    assert_true(find_text(text, ">keep everything: ", &x, &all));
    assert_true(find_text(text, ">keep everything, with its own steps", &x, &legend));
    const double first = all < peak ? all : peak;
    assert_true(first > legend + 16 && first < legend + 70);
    free(text);
    mp_plan_free(plan);
    mp_graph_free(g);
}

/* Returns the number of names in an address map, and checks that no place is drawn over a name. */
static int names_in_places(const char *picture)
{
    int names = 0;
    const char *at = picture, *end = strstr(picture, "class=\"node\""); /* first of the transparent boxes above the map */
    while ((at = strstr(at, "font-size=\"10.00\"")) && at < end) {
        const char *box = strstr(at++, "<polygon");
        assert_true(!box || box > end);
        names++;
    }
    return names;
}

TEST(an_address_map_needs_offsets)
{
    int names = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mp_graph *g = random_graph(seed, 8, MP_FUSE_NONE, false);
        mp_error err = {0};
        size_t n;
        mp_step *steps = random_schedule(g, seed, 6, &n);
        mp_plan *plan;
        assert_int_equal(mp_plan_new(g, "random", steps, n, &plan, NULL), MP_OK);
        assert_int_equal(mp_timeline_picture(g, plan, "x", MP_VIEW_ARENA, svg, &err), MP_INVALID);
        assert_non_null(strstr(err.message, "offsets"));
        assert_int_equal(mp_timeline_picture(g, NULL, "x", MP_VIEW_ARENA, svg, NULL), MP_INVALID);
        place_first_fit(g, plan);
        assert_drawn(g, plan, "x", MP_VIEW_ALL);
        char *text = contents(svg);
        assert_non_null(strstr(text, ">Address map<"));
        assert_non_null(strstr(text, ">arena<"));
        assert_non_null(strstr(text, "lives at the peak"));
        assert_non_null(strstr(text, ">peak "));
        free(text);
        assert_drawn(g, plan, "x", MP_VIEW_ARENA);
        text = contents(svg);
        assert_null(strstr(text, ">peak "));
        names += names_in_places(text);
        free(text);
        plan->places[0].end = (int)n + 1; /* after the last step */
        assert_int_equal(mp_timeline_picture(g, plan, "x", MP_VIEW_ARENA, svg, NULL), MP_INVALID);
        mp_plan_free(plan);
        mp_free(steps);
        mp_graph_free(g);
    }
    assert_true(names > 20);
}

TEST(what_cannot_be_drawn_is_said)
{
    mp_error err = {0};
    mp_graph *g = chain("a"), *empty;
    assert_int_equal(mp_timeline_picture(g, NULL, "x", MP_VIEW_ALL, "p.gif", &err), MP_INVALID);
    assert_int_equal(mp_timeline_picture(g, NULL, "x", MP_VIEW_ALL, "/nowhere/p.svg", NULL), MP_IO);
    assert_int_equal(mp_graph_new("empty", &empty, NULL), MP_OK);
    assert_int_equal(mp_graph_finish(empty, NULL), MP_OK);
    assert_int_equal(mp_timeline_picture(empty, NULL, "x", MP_VIEW_ALL, svg, &err), MP_INVALID);
    mp_graph_free(empty);
    long live = mp_alloc_live, k = 0;
    mp_status st = MP_NOMEM;
    for (; st != MP_OK; k++) {
        mp_alloc_budget = k;
        st = mp_timeline_picture(g, NULL, "x", MP_VIEW_ALL, svg, NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_true(k > 20);
    mp_graph_free(g);
}

/* Returns n layers with backward; the storages are x, then the activations, then their gradients. */
static mp_graph *long_chain(int n)
{
    mp_error err = {0};
    mp_graph *g;
    assert_int_equal(mp_graph_new("long", &g, NULL), MP_OK);
    add_storage(g, "x", MP_KIND_INPUT, 1);
    for (int k = 1; k <= n; k++) add_storage(g, "a", MP_KIND_ACTIVATION, 10 + k % 7);
    for (int k = 1; k <= n; k++) add_storage(g, "g", MP_KIND_ACTIVATION_GRADIENT, 10 + k % 7);
    for (int k = 1; k <= n; k++) add_node(g, "f", MP_PHASE_FORWARD, k - 1, -1, k);
    add_node(g, "loss", MP_PHASE_LOSS, n, -1, 2 * n);
    for (int k = n; k > 1; k--) add_node(g, "b", MP_PHASE_BACKWARD, n + k, k - 1, n + k - 1);
    if (mp_graph_finish(g, &err) != MP_OK) fail_msg("%s", err.message);
    return g;
}

/* The picture of thousands of steps stays small and is drawn quickly. */
TEST(thousands_of_steps_are_drawn_in_columns)
{
    mp_graph *g = long_chain(3000);
    struct timespec from, to;
    assert_true(g->n_nodes > 5000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    assert_drawn(g, NULL, "large", MP_VIEW_ALL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    char *text = contents(svg);
    assert_non_null(strstr(text, "each column shows the fullest of "));
    assert_true(strlen(text) < 1000000);
    free(text);
    assert_true((double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec) < 5); /* also with sanitizers */
    mp_graph_free(g);
}

/* Two lines of 13 points and their margins fit between the plan's peak and the upper break. */
TEST(a_broken_axis_leaves_room_for_the_label_of_the_peak)
{
    double from, to;
    const mp_byte_scale scale = mp_byte_scale_choose(40, 100, 1000, 0, 340);
    assert_true(mp_byte_scale_upper_break(&scale, &from, &to));
    assert_true(mp_byte_scale_y(&scale, 100) + 7 + 2 * 16 <= from);
}

int main(void)
{
    return test_run(make_folder, remove_folder);
}
