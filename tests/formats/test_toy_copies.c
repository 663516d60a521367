/* test_toy_copies.c - a channel and a tier unknown to memplan: added by calls, planned by searchers that support copies, and
 * drawn. */
#include <memplan/memplan.h>

#include <unistd.h>

#include "tests/cases/test.h"

/* ---- the toy: a has 8 bytes and back is its last reader; wide has 12 bytes in between ---- */

enum { A, B, WIDE, D, GA, SHELVED };

static void storage(mp_graph *g, const char *name, mp_kind kind, int64_t bytes, int tier)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    *s = (mp_storage){.id = s->id, .name = name, .kind = kind, .bytes = bytes, .payload_bytes = bytes, .tier = tier};
}

/* Adds a node that reads up to two storages (-1: none) and writes one. */
static mp_node *node(mp_graph *g, const char *name, mp_phase phase, int read, int also, int write, int64_t ticks)
{
    mp_node *n;
    assert_int_equal(mp_graph_node(g, &n, NULL), MP_OK);
    n->name = name;
    n->phase = phase;
    n->forward_of = -1;
    n->alternatives[0] = (mp_alternative){.n_reads = (size_t)(read >= 0) + (size_t)(also >= 0),
                                          .reads = mp_graph_list(g, (int[]){read, also}, 2),
                                          .n_writes = 1,
                                          .writes = mp_graph_list(g, &write, 1),
                                          .ticks = ticks};
    return n;
}

static mp_graph *toy(void)
{
    int forklift, shelf;
    mp_graph *g;
    mp_error err = {0};
    assert_int_equal(mp_graph_new("toy", &g, NULL), MP_OK);
    assert_int_equal(mp_graph_channel(g, "forklift", &forklift, NULL), MP_OK);
    assert_int_equal(mp_graph_tier(g, "shelf", &shelf, NULL), MP_OK);
    storage(g, "a", MP_KIND_ACTIVATION, 8, MP_TIER_DEVICE);
    storage(g, "b", MP_KIND_ACTIVATION, 1, MP_TIER_DEVICE);
    storage(g, "wide", MP_KIND_ACTIVATION, 12, MP_TIER_DEVICE);
    storage(g, "d", MP_KIND_ACTIVATION_GRADIENT, 1, MP_TIER_DEVICE);
    storage(g, "ga", MP_KIND_ACTIVATION_GRADIENT, 8, MP_TIER_DEVICE);
    storage(g, "a shelved", MP_KIND_ACTIVATION, 8, shelf);
    mp_alternative *ways = mp_pool_alloc(g->pool, 2, sizeof *ways);
    mp_node *make = node(g, "make", MP_PHASE_FORWARD, -1, -1, A, 3);
    make->flags = MP_NODE_ONCE;
    ways[0] = make->alternatives[0];
    ways[1] = (mp_alternative){.n_reads = 1, .n_writes = 1, .ticks = 4, .channel = forklift, .returns = true};
    ways[1].reads = mp_graph_list(g, (int[]){SHELVED}, 1);
    ways[1].writes = ways[0].writes;
    make->alternatives = ways;
    make->n_alternatives = 2;
    mp_node *shelve = node(g, "shelve", MP_PHASE_FORWARD, A, -1, SHELVED, 5);
    shelve->flags = MP_NODE_OPTIONAL;
    shelve->alternatives[0].channel = forklift;
    node(g, "small", MP_PHASE_FORWARD, A, -1, B, 4);
    node(g, "spread", MP_PHASE_FORWARD, B, -1, WIDE, 4);
    node(g, "loss", MP_PHASE_LOSS, WIDE, -1, D, 3);
    node(g, "back", MP_PHASE_BACKWARD, A, D, GA, 5);
    if (mp_graph_finish(g, &err) != MP_OK) fail_msg("%s", err.message);
    return g;
}

/* ---- contents of the picture ---- */

static void assert_says(const char *path, const char *const *pieces, size_t n)
{
    static char text[1 << 18];
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    for (size_t k = 0; k < n; k++)
        if (!strstr(text, pieces[k])) fail_msg("'%s' is not in the picture", pieces[k]);
}

/* Plans the toy within a budget below keep-all's 21 and draws it. No order without copies meets this budget. */
static void assert_planned_and_drawn(const char *solver)
{
    char path[64];
    mp_error err = {0};
    mp_graph *g = toy();
    mp_answer answer = {0};
    const mp_request request = {.graph = g, .solver = solver, .budget_bytes = 17, .tier_bytes = {[1] = 9}};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s: %s", solver, err.message);
    if (!answer.plan) fail_msg("%s finds no plan", solver);
    assert_int_equal(answer.plan->peak_bytes, 17);
    assert_int_equal(answer.plan->tiers[1].peak_bytes, 8);
    snprintf(path, sizeof path, "/tmp/memplan_toy_%ld.svg", (long)getpid());
    if (mp_timeline_picture(g, answer.plan, "toy", MP_VIEW_ALL, path, &err) != MP_OK) fail_msg("%s", err.message);
    static const char *const pieces[] = {">toy: 17 B instead of 21 B, 19 % less<",
                                         "4 forward, 2 copy, 1 backward",
                                         ">copied<",
                                         ">forklift<",
                                         "forklift: shelve (forward)&#10;a&#10;issued in step ",
                                         "forklift: make (forward)&#10;a&#10;issued in step ",
                                         ">shelf<",
                                         ">live bytes over the same steps, at most 8 B",
                                         ">peak 8 B at<",
                                         ">9 B<"}; /* next to the line of the shelf's budget */
    assert_says(path, pieces, sizeof pieces / sizeof *pieces);
    unlink(path);
    mp_answer_free(&answer);
    mp_graph_free(g);
}

TEST(exact_plans_a_toy_channel_and_tier_and_they_are_drawn)
{
    assert_planned_and_drawn("exact");
}

TEST(anneal_plans_them_and_they_are_drawn)
{
    assert_planned_and_drawn("anneal");
}
