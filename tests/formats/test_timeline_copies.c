/* test_timeline_copies.c - columns, lanes and pictures of graphs with channels and tiers, compared with the timeline and brute
 * force. Labels must be readable. */
#include <unistd.h>

#include "estimator/base/memory.h"
#include "estimator/graph/order_rules.h"
#include "formats/base/file.h"
#include "formats/curves/chart.h"
#include "memplan/pictures/timeline_picture.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_copies.h"

enum { SEEDS = 400, ORDERS = 3 };

/* Calls `judge` with the columns of valid orders of many graphs, each with `most` columns. */
static void for_columns(size_t most, void (*judge)(const mp_timeline_columns *, uint64_t seed))
{
    int judged = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = random_copies(seed);
        for (uint64_t k = 0; k < ORDERS; k++) {
            size_t n;
            mp_timeline_columns *c = NULL;
            mp_step *steps = random_copies_schedule(graph, seed, k, &n);
            if (mp_timeline_columns_new(graph, steps, n, most, &c, NULL) == MP_OK) {
                judge(c, seed);
                judged++;
            }
            mp_timeline_columns_free(c);
            mp_free(steps);
        }
        mp_graph_free(graph);
    }
    assert_true(judged > SEEDS);
    assert_int_equal(mp_alloc_live, 0);
}

static int64_t host_seen, copied_seen;

static void layers_add_up(const mp_timeline_columns *c, uint64_t seed)
{
    for (size_t m = 0; m < c->graph->n_tiers; m++)
        for (size_t k = 0; k < c->n; k++) {
            const mp_timeline_column *column = &c->tiers[m].columns[k];
            const mp_tier_use *use = &c->timeline->tiers[m];
            int64_t sum = 0, most = 0;
            for (int layer = 0; layer < MP_N_LAYERS; layer++) sum += column->bytes[layer];
            for (int t = column->first; t <= column->last; t++)
                if (use->live_bytes[t] > most) most = use->live_bytes[t];
            if (sum != use->static_bytes + most || column->total != sum)
                fail_msg("seed %d, tier %d, column %d: the layers have %d", (int)seed, (int)m, (int)k, (int)sum);
            host_seen += m ? sum : 0;
            copied_seen += column->bytes[MP_LAYER_COPIED];
        }
}

TEST(the_layers_of_every_tier_add_up_to_its_live_bytes)
{
    for_columns(1000, layers_add_up);
    for_columns(3, layers_add_up);
    assert_true(host_seen > 1000 && copied_seen > 1000);
}

static int rows_seen;

/* Checks that a channel has as many rows as bars sharing a step, and no two bars overlap. */
static void lanes_hold_bars_apart(const mp_timeline_columns *c, uint64_t seed)
{
    mp_lanes lanes;
    assert_int_equal(mp_lanes_find(c, &lanes, NULL), MP_OK);
    for (int channel = 0; channel < (int)c->graph->n_channels && lanes.row; channel++) {
        int most = channel > MP_CHANNEL_SECOND_STREAM;
        for (int t = 0; t < (int)c->n_steps; t++) {
            int here = 0;
            unsigned taken = 0;
            for (int from = 0; from <= t; from++) {
                if (mp_step_channel(c->graph, c->steps[from]) != channel || mp_step_end(c->steps, from) <= t) continue;
                if (taken & 1u << lanes.row[from]) fail_msg("seed %d: two bars in a row at step %d", (int)seed, t);
                taken |= 1u << lanes.row[from];
                here++;
            }
            if (here > most) most = here;
        }
        if (channel == MP_CHANNEL_COMPUTE) most = 0;
        if (lanes.rows[channel] != most) fail_msg("seed %d, channel %d: %d rows", (int)seed, channel, lanes.rows[channel]);
        if (most > rows_seen) rows_seen = most;
    }
    mp_lanes_clear(&lanes);
}

TEST(bars_of_a_channel_that_share_a_step_have_rows_of_their_own)
{
    for_columns(1000, lanes_hold_bars_apart);
    assert_true(rows_seen > 1 && rows_seen < MP_LANE_ROWS_MAX);
}

/* ---- pictures ---- */

typedef struct label {
    double left, right, low, high; /* y increases downwards */
    char text[128];
} label;

/* Reads the texts of a picture, with their approximate extents. */
static size_t labels_of(const char *text, label *labels, size_t most, double height)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, "<text ")) && n < most; at++) {
        label *one = &labels[n++];
        char anchor[16];
        double x, y, size;
        assert_int_equal(sscanf(at, "<text text-anchor=\"%15[a-z]\" x=\"%lf\" y=\"%lf\"", anchor, &x, &y), 3);
        size = strtod(strstr(at, "font-size=\"") + 11, NULL);
        assert_int_equal(sscanf(strchr(at, '>'), ">%127[^<]", one->text), 1);
        const double wide = mp_canvas_text_width(one->text, size, false);
        one->left = !strcmp(anchor, "start") ? x : !strcmp(anchor, "end") ? x - wide : x - wide / 2;
        one->right = one->left + wide;
        one->low = height + y - 0.73 * size; /* height of capitals; some letters extend below the line */
        one->high = height + y;
    }
    return n;
}

/* Each dot at a peak is at the top of an area: in addition to its label's line, two corners have its height. */
static void assert_peaks_top_areas(const char *text, uint64_t seed)
{
    for (const char *at = text; (at = strstr(at, "<ellipse ")); at++) {
        char y[32], corner[40];
        int n = 0;
        assert_int_equal(sscanf(strstr(at, " cy=\""), " cy=\"%31[^\"]", y), 1);
        snprintf(corner, sizeof corner, ",%s ", y);
        for (const char *found = text; (found = strstr(found, corner)); found++) n++;
        if (n < 3) fail_msg("seed %d: nothing is drawn up to the peak at %s", (int)seed, y);
    }
}

/* Returns whether the legend has its largest number of entries. */
static bool has_every_layer(const mp_timeline_columns *c)
{
    int n = 0;
    for (int layer = 0; layer < MP_N_LAYERS; layer++) {
        bool used = false;
        for (size_t k = 0; k < c->n * c->graph->n_tiers; k++) used |= c->tiers[k / c->n].columns[k % c->n].bytes[layer] > 0;
        n += used;
    }
    return n == MP_N_LAYERS;
}

static char path[64];
static int pictures, tier_panels, full_legends;
static double all_width;

/* Checks that no label leaves the picture or overlaps another, and that areas have the height of the peaks. */
static void labels_are_readable(const mp_timeline_columns *c, uint64_t seed)
{
    static label labels[2000];
    double width, height;
    mp_error err = {0};
    mp_plan *plan;
    const bool full = has_every_layer(c);
    if (c->n_steps > 40 || (seed % 4 && !full)) return;
    assert_int_equal(mp_plan_new(c->graph, "random", c->steps, c->n_steps, &plan, &err), MP_OK);
    plan->budget_bytes = seed % 8 ? plan->peak_bytes + 1 : MP_NO_LIMIT;
    for (size_t m = 1; m < c->graph->n_tiers; m++)
        plan->tiers[m].budget_bytes = plan->tiers[m].peak_bytes + 1 + (int64_t)(seed % 3);
    if (mp_timeline_picture(c->graph, plan, "random", MP_VIEW_MEMORY, path, &err) != MP_OK) fail_msg("%s", err.message);
    mp_file file;
    assert_int_equal(mp_file_open(path, 1 << 24, &file, NULL), MP_OK);
    char *text = calloc(file.size + 1, 1);
    memcpy(text, file.bytes, file.size);
    mp_file_close(&file);
    assert_int_equal(sscanf(strstr(text, "<svg width"), "<svg width=\"%lfpt\" height=\"%lfpt\"", &width, &height), 2);
    if (pictures) assert_true(width == all_width); /* Graphviz would widen a picture for a label outside it */
    all_width = width;
    const size_t n = labels_of(text, labels, sizeof labels / sizeof *labels, height);
    assert_peaks_top_areas(text, seed);
    free(text);
    for (size_t i = 0; i < n; i++) {
        const label *a = &labels[i];
        if (a->left < 0 || a->right > width || a->low < 0 || a->high > height)
            fail_msg("seed %d: '%s' leaves the picture", (int)seed, a->text);
        for (size_t j = 0; j < i; j++) {
            const label *b = &labels[j];
            if (a->left < b->right && b->left < a->right && a->low < b->high && b->low < a->high)
                fail_msg("seed %d: '%s' covers '%s'", (int)seed, a->text, b->text);
        }
        tier_panels += !strncmp(a->text, "live bytes over the", 19);
    }
    full_legends += full && plan->budget_bytes < MP_NO_LIMIT;
    pictures++;
    mp_plan_free(plan);
}

TEST(labels_neither_leave_the_picture_nor_cover_each_other)
{
    for_columns(1000, labels_are_readable);
    assert_true(pictures > 50 && tier_panels > 20 && full_legends > 0);
}

/* The lanes name a copied tensor as the rows of tensors do. A mark between two ellipses would say that they are two tensors. */
TEST(a_copied_tensor_has_one_name_in_a_picture)
{
    static const char ellipsis[] = "\xE2\x80\xA6";
    int drawn = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        mp_graph *graph = random_copies(seed);
        size_t n;
        mp_step *steps = random_copies_schedule(graph, seed, 0, &n);
        mp_plan *plan = NULL;
        for (size_t s = 0; s < graph->n_storages; s++)
            assert_non_null(graph->storages[s].name = mp_pool_format(graph->pool, "/a/a.b/%zu", s));
        if (n < 40 && mp_plan_new(graph, "random", steps, n, &plan, NULL) == MP_OK) {
            mp_file file;
            assert_int_equal(mp_timeline_picture(graph, plan, "random", MP_VIEW_MEMORY, path, NULL), MP_OK);
            assert_int_equal(mp_file_open(path, 1 << 24, &file, NULL), MP_OK);
            char *text = mp_alloc(file.size + 1, 1);
            memcpy(text, file.bytes, file.size);
            mp_file_close(&file);
            for (const char *at = text; (at = strstr(at, ellipsis)); at += strlen(ellipsis)) {
                const char *next = strstr(at + 1, ellipsis);
                if (next && next < strchr(at, '<')) fail_msg("seed %d: a second name, %.20s", (int)seed, at);
            }
            drawn += strstr(text, ">a.b.") != NULL;
            mp_free(text);
        }
        mp_plan_free(plan);
        mp_free(steps);
        mp_graph_free(graph);
    }
    assert_true(drawn > 10);
}

TEST(a_picture_of_lanes_and_tiers_that_lacks_memory_says_so)
{
    mp_graph *graph = random_copies(3);
    size_t n;
    mp_step *steps = random_copies_schedule(graph, 3, 0, &n);
    mp_plan *plan;
    assert_int_equal(mp_plan_new(graph, "random", steps, n, &plan, NULL), MP_OK);
    assert_true(graph->n_channels > 2 && graph->n_tiers > 1);
    const long live = mp_alloc_live;
    long k = 0;
    for (mp_status st = MP_NOMEM; st != MP_OK; k++) {
        mp_alloc_budget = k;
        st = mp_timeline_picture(graph, plan, "x", MP_VIEW_ALL, path, NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_true(k > 20);
    mp_plan_free(plan);
    mp_free(steps);
    mp_graph_free(graph);
}

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/memplan_copies_%ld.svg", (long)getpid());
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    return test_run(make_path, remove_path);
}
