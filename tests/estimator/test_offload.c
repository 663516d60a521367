/* test_offload.c - storages of a model's graph that may be copied, the duration of a copy, and the time that copies add to a
 * step. */
#include "estimator/base/memory.h"
#include "memplan/makespan.h"
#include "memplan/training.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_copies.h"
#include "tests/oracles/random_graph.h"

/* Seven nodes of 3 ms: A writes a, which B and the backward node of A read. */
enum { A, B, C, LOSS, C_BACK, B_BACK, A_BACK, N_NODES, MS = 1000000, MIB = 1 << 20 };
enum { STORE_A, STORE_B, STORE_C, STORE_L, STORE_GC, STORE_GB, N_STORES };

static mp_graph *seven_nodes(void)
{
    static const int reads[N_NODES][2] = {{-1, -1},      {STORE_A, -1},       {STORE_B, -1},      {STORE_C, -1},
                                          {STORE_L, -1}, {STORE_GC, STORE_B}, {STORE_GB, STORE_A}};
    mp_graph *g;
    mp_storage *storage;
    mp_node *node;
    assert_int_equal(mp_graph_new("seven nodes", &g, NULL), MP_OK);
    g->tick_seconds = 1e-9;
    for (int s = 0; s < N_STORES; s++) {
        assert_int_equal(mp_graph_storage(g, &storage, NULL), MP_OK);
        storage->bytes = storage->payload_bytes = s == STORE_A ? 48 * MIB : 100;
        storage->kind = s >= STORE_GC ? MP_KIND_ACTIVATION_GRADIENT : MP_KIND_ACTIVATION;
        storage->name = s == STORE_A ? "a" : "";
    }
    for (int i = 0; i < N_NODES; i++) {
        assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
        node->phase = i < LOSS ? MP_PHASE_FORWARD : i == LOSS ? MP_PHASE_LOSS : MP_PHASE_BACKWARD;
        mp_alternative *f = node->alternatives;
        f->n_reads = (size_t)((reads[i][0] >= 0) + (reads[i][1] >= 0));
        f->n_writes = i != A_BACK;
        f->reads = mp_graph_list(g, reads[i], f->n_reads);
        f->writes = mp_graph_list(g, &i, f->n_writes); /* node i writes storage i */
        f->ticks = 3 * MS;
    }
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    return g;
}

static mp_graph *offloaded(const mp_link *host, const mp_link *disk)
{
    mp_graph *g = seven_nodes();
    size_t n;
    assert_int_equal(mp_graph_offload(g, &(mp_offload){.host = host, .disk = disk}, &n, NULL), MP_OK);
    assert_int_equal(n, 1);
    return g;
}

TEST(the_seven_nodes_of_the_document_get_one_copy_in_each_tier)
{
    const mp_link *host = mp_link_find("pcie4"), disk = mp_link_beyond(host, mp_link_find("nvme4"));
    mp_graph *g = offloaded(host, &disk);
    assert_int_equal(g->n_nodes, N_NODES + 2);
    assert_int_equal(g->n_storages, N_STORES + 2);
    assert_int_equal(g->n_tiers, 3);
    assert_string_equal(g->tiers[1], "host");
    assert_string_equal(g->tiers[2], "disk");
    assert_int_equal(g->n_channels, 5); /* both directions of a drive share a channel */
    assert_string_equal(g->channels[2], "copy out");
    assert_string_equal(g->channels[3], "copy in");
    assert_string_equal(g->channels[4], "disk");
    static const int64_t out_ticks[] = {2107152, 16887216}, in_ticks[] = {2107152, 10176330};
    for (int k = 0; k < 2; k++) {
        const mp_node *out = &g->nodes[N_NODES + k];
        const mp_alternative *there = out->alternatives, *back = &g->nodes[A].alternatives[1 + k];
        const int copy = N_STORES + k;
        assert_string_equal(g->storages[copy].name, k ? "a on disk" : "a on the host");
        assert_string_equal(out->name, k ? "a to disk" : "a to the host");
        assert_int_equal(g->storages[copy].bytes, 48 * MIB);
        assert_int_equal(g->storages[copy].tier, 1 + k);
        assert_true(out->flags == MP_NODE_OPTIONAL && out->n_alternatives == 1);
        assert_true(there->n_reads == 1 && there->reads[0] == STORE_A && there->n_writes == 1 && there->writes[0] == copy);
        assert_true(back->n_reads == 1 && back->reads[0] == copy && back->n_writes == 1 && back->writes[0] == STORE_A);
        assert_true(back->returns && !there->returns);
        assert_int_equal(there->ticks, out_ticks[k]);
        assert_int_equal(back->ticks, in_ticks[k]);
        assert_int_equal(there->channel, k ? 4 : 2);
        assert_int_equal(back->channel, k ? 4 : 3);
    }
    assert_int_equal(g->nodes[A].n_alternatives, 3);
    mp_graph_free(g);
}

TEST(copies_beside_other_nodes_cost_no_time_and_a_slow_drive_is_waited_for)
{
    const mp_link *host = mp_link_find("pcie4"), disk = mp_link_beyond(host, mp_link_find("nvme4"));
    mp_graph *g = offloaded(host, &disk);
    mp_step steps[] = {{A, 0, 0},      {N_NODES, 0, 3}, {B, 0, 0},      {C, 0, 0},     {LOSS, 0, 0},
                       {C_BACK, 0, 0}, {A, 1, 8},       {B_BACK, 0, 0}, {A_BACK, 0, 0}};
    mp_copying copying;
    mp_timeline *tl;
    assert_int_equal(mp_makespan_copying(g, steps, 9, &copying, NULL), MP_OK);
    assert_int_equal(copying.out_bytes, 48 * MIB);
    assert_int_equal(copying.in_bytes, 48 * MIB);
    assert_int_equal(copying.copy_ticks, 2 * 2107152);
    assert_int_equal(copying.hidden_ticks, 2 * 2107152);
    assert_int_equal(copying.wait_ticks, 0);
    assert_int_equal(copying.longest_wait, -1);
    assert_int_equal(mp_timeline_build(g, steps, 9, &tl, NULL), MP_OK);
    assert_int_equal(tl->ticks, 21 * MS);
    static const bool has_a[] = {true,  true, true, false, false,
                                 false, true, true, true}; /* a is absent during C, the loss and the backward node of C */
    for (int t = 0; t < 9; t++) assert_int_equal(tl->live_bytes[t] >= 48 * MIB, has_a[t]);
    assert_int_equal(tl->tiers[1].peak_bytes, 48 * MIB);
    mp_timeline_free(tl);

    steps[1] = (mp_step){N_NODES + 1, 0,
                         6}; /* over the drive: copied out from 3 to 19.887216 ms, then immediately back, ready at the end */
    steps[6] = (mp_step){A, 2, 8};
    assert_int_equal(mp_makespan_copying(g, steps, 9, &copying, NULL), MP_OK);
    assert_int_equal(copying.copy_ticks, 16887216 + 10176330);
    assert_int_equal(copying.hidden_ticks, 12 * MS + 3 * MS); /* out: B to the backward node of C; in: the backward node of B */
    assert_int_equal(copying.wait_ticks, 16887216 - 12 * MS + 10176330 - 3 * MS); /* before the backward node of B, and of A */
    assert_int_equal(copying.longest_wait, 8);
    assert_int_equal(copying.longest_wait_ticks, 10176330 - 3 * MS);
    mp_graph_free(g);
}

/* The backward node of C is a collective of 7 ms that begins at 12 ms. Each further run takes 3 ms. */
TEST(recomputation_beside_a_collective_costs_no_time)
{
    static const struct {
        int n_again; /* number of nodes, in the order A, B, C, that run again after the collective is issued */
        int until;   /* the step that waits for the collective; 0: the next step */
        int64_t ticks, hidden_ticks;
    } cases[] = {{0, 5, 25 * MS, 0}, {1, 6, 25 * MS, 3 * MS}, {2, 7, 25 * MS, 6 * MS}, {3, 8, 27 * MS, 7 * MS},
                 {3, 0, 34 * MS, 0}, {3, 6, 31 * MS, 3 * MS}, {3, 7, 28 * MS, 6 * MS}, {1, 0, 28 * MS, 0}};
    mp_graph *g = seven_nodes();
    int channel;
    assert_int_equal(mp_graph_channel(g, "network", &channel, NULL), MP_OK);
    g->nodes[C_BACK].alternatives->channel = channel;
    g->nodes[C_BACK].alternatives->ticks = 7 * MS;
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_step steps[10] = {{A, 0, 0}, {B, 0, 0}, {C, 0, 0}, {LOSS, 0, 0}, {C_BACK, 0, cases[k].until}};
        mp_recomputation again;
        int64_t ticks;
        size_t n = 5;
        for (int v = A; v < A + cases[k].n_again; v++) steps[n++] = (mp_step){v, 0, 0};
        steps[n++] = (mp_step){B_BACK, 0, 0};
        steps[n++] = (mp_step){A_BACK, 0, 0};
        assert_int_equal(mp_makespan(g, steps, n, NULL, &ticks, NULL), MP_OK);
        assert_int_equal(mp_makespan_recomputation(g, steps, n, &again, NULL), MP_OK);
        assert_int_equal(ticks, cases[k].ticks);
        assert_int_equal(again.n_runs, cases[k].n_again);
        assert_int_equal(again.ticks, 3 * MS * cases[k].n_again);
        assert_int_equal(again.hidden_ticks, cases[k].hidden_ticks);
    }
    mp_graph_free(g);
}

/* Returns whether a is copied after a change to the graph. */
static bool is_copied(void (*change)(mp_graph *graph))
{
    mp_graph *g = seven_nodes();
    size_t n;
    change(g);
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_int_equal(mp_graph_offload(g, &(mp_offload){.host = mp_link_row(0)}, &n, NULL), MP_OK);
    assert_int_equal(g->n_nodes, N_NODES + n);
    mp_graph_free(g);
    return n == 1;
}

static void nothing(mp_graph *g)
{
    (void)g;
}
static void saved(mp_graph *g)
{
    g->storages[STORE_A].kind = MP_KIND_SAVED;
}
static void large_enough(mp_graph *g)
{
    g->storages[STORE_A].bytes = MP_OFFLOAD_LEAST_BYTES;
}
static void too_small(mp_graph *g)
{
    g->storages[STORE_A].bytes = MP_OFFLOAD_LEAST_BYTES - 1;
}
static void persistent(mp_graph *g)
{
    g->storages[STORE_A].persistent = true;
}
static void input(mp_graph *g)
{
    g->storages[STORE_A].kind = MP_KIND_INPUT;
}
static void gradient(mp_graph *g)
{
    g->storages[STORE_A].kind = MP_KIND_GRADIENT;
}
static void elsewhere(mp_graph *g)
{
    assert_int_equal(mp_graph_tier(g, "another", &g->storages[STORE_A].tier, NULL), MP_OK);
}
static void once_by_forward(mp_graph *g)
{
    g->nodes[A_BACK].alternatives->n_reads = 1;
}
static void twice_by_forward(mp_graph *g)
{
    once_by_forward(g);
    g->nodes[C].alternatives->n_reads = 2;
    g->nodes[C].alternatives->reads = mp_graph_list(g, (const int[]){STORE_A, STORE_B}, 2);
}
static void by_backward(mp_graph *g)
{
    g->nodes[A].phase = MP_PHASE_BACKWARD;
}

TEST(only_activations_that_are_large_and_read_later_are_copied)
{
    assert_true(is_copied(nothing));
    assert_true(is_copied(saved));
    assert_true(is_copied(large_enough));
    assert_true(is_copied(twice_by_forward));
    assert_false(is_copied(too_small));
    assert_false(is_copied(persistent));
    assert_false(is_copied(input));
    assert_false(is_copied(gradient));
    assert_false(is_copied(elsewhere));
    assert_false(is_copied(once_by_forward));
    assert_false(is_copied(by_backward));
}

static void refused(const mp_offload *offload, mp_status code, const char *what)
{
    mp_graph *g = seven_nodes();
    mp_error err = {0};
    assert_int_equal(mp_graph_offload(g, offload, NULL, &err), code);
    if (!strstr(err.message, what)) fail_msg("%s", err.message);
    mp_graph_free(g);
}

TEST(a_graph_is_offloaded_to_somewhere_once_and_in_countable_time)
{
    const mp_link slow = {.name = "slow", .out_bytes_per_second = 1e-9, .in_bytes_per_second = 1};
    mp_graph *g = offloaded(mp_link_row(0), NULL);
    mp_error err = {0};
    assert_int_equal(mp_graph_offload(g, &(mp_offload){.host = mp_link_row(0)}, NULL, &err), MP_PARSE);
    assert_non_null(strstr(err.message, "lists 'host' twice"));
    mp_graph_free(g);
    refused(&(mp_offload){0}, MP_INVALID, "no other tier to copy to");
    refused(&(mp_offload){.host = &slow}, MP_INVALID, "storage 0 (a) takes more ticks than can be counted");
}

TEST(what_a_graph_had_keeps_its_numbers_and_keep_all_its_bytes_and_ticks)
{
    const mp_link link = {.out_bytes_per_second = 7, .in_bytes_per_second = 3, .latency_seconds = 1, .is_shared = true};
    size_t n_copied = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        mp_graph *before = random_graph(seed, 6, (mp_fuse)(seed % MP_N_FUSES), false);
        mp_graph *after = random_graph(seed, 6, (mp_fuse)(seed % MP_N_FUSES), false);
        mp_step *steps = mp_alloc(after->n_nodes + 1000, sizeof *steps), *all = mp_alloc(before->n_nodes, sizeof *all);
        mp_timeline *one, *two;
        size_t n, found;
        assert_int_equal(mp_graph_offload(after, &(mp_offload){.host = &link, .disk = &link, .least_bytes = 1}, &found, NULL),
                         MP_OK);
        assert_int_equal(after->n_nodes, before->n_nodes + 2 * found);
        assert_int_equal(mp_graph_n_required(after), before->n_nodes);
        n = mp_keep_all(after, steps);
        assert_int_equal(n, mp_keep_all(before, all));
        assert_memory_equal(steps, all, n * sizeof *steps);
        assert_int_equal(mp_timeline_build(before, all, n, &one, NULL), MP_OK);
        assert_int_equal(mp_timeline_build(after, steps, n, &two, NULL), MP_OK);
        assert_true(one->peak_bytes == two->peak_bytes && one->ticks == two->ticks);
        n_copied += found;
        mp_timeline_free(one);
        mp_timeline_free(two);
        mp_free(steps);
        mp_free(all);
        mp_graph_free(before);
        mp_graph_free(after);
    }
    if (n_copied < 300) fail_msg("%zu may be copied", n_copied);
    assert_int_equal(mp_alloc_live, 0);
}

/* Recomputes copying times tick by tick from the makespan's clocks. */
static mp_copying counted(const mp_graph *graph, const mp_step *steps, size_t n)
{
    mp_copying out = {.longest_wait = -1};
    int64_t ends[64], makespan, last = 0;
    assert_true(n <= 64);
    assert_int_equal(mp_makespan(graph, steps, n, ends, &makespan, NULL), MP_OK);
    bool *computes = mp_alloc((size_t)makespan + 1, sizeof *computes);
    for (size_t t = 0; t < n; t++) {
        const mp_alternative *a = &graph->nodes[steps[t].node].alternatives[steps[t].alternative];
        if (a->channel > MP_CHANNEL_SECOND_STREAM) continue;
        for (int64_t x = ends[t] - a->ticks; x < ends[t]; x++) computes[x] = true;
        if (ends[t] - a->ticks - last > out.longest_wait_ticks) {
            out.longest_wait_ticks = ends[t] - a->ticks - last;
            out.longest_wait = (int)t;
        }
        last = ends[t];
    }
    if (makespan - last > out.longest_wait_ticks) {
        out.longest_wait_ticks = makespan - last;
        out.longest_wait = (int)n;
    }
    for (int64_t x = 0; x < makespan; x++) out.wait_ticks += !computes[x];
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &graph->nodes[steps[t].node];
        const mp_alternative *a = &node->alternatives[steps[t].alternative];
        const bool is_out = node->flags & MP_NODE_OPTIONAL;
        if (!is_out && !a->returns) continue;
        out.copy_ticks += a->ticks;
        for (size_t i = 0; i < a->n_writes; i++)
            *(is_out ? &out.out_bytes : &out.in_bytes) += graph->storages[a->writes[i]].bytes;
        if (a->channel > MP_CHANNEL_SECOND_STREAM)
            for (int64_t x = ends[t] - a->ticks; x < ends[t]; x++) out.hidden_ticks += computes[x];
    }
    mp_free(computes);
    return out;
}

static bool is_same(const mp_copying *a, const mp_copying *b)
{
    return a->out_bytes == b->out_bytes && a->in_bytes == b->in_bytes && a->copy_ticks == b->copy_ticks &&
           a->hidden_ticks == b->hidden_ticks && a->wait_ticks == b->wait_ticks &&
           a->longest_wait_ticks == b->longest_wait_ticks && a->longest_wait == b->longest_wait;
}

TEST(what_copies_cost_is_what_counting_ticks_says)
{
    int64_t hidden = 0, waited = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        mp_graph *graph = random_copies(seed);
        for (uint64_t k = 0; k < 5; k++) {
            size_t n;
            mp_copying found;
            mp_step *steps = random_copies_schedule(graph, seed, k, &n);
            if (steps_obey(graph, steps, n)) {
                const mp_copying expected = counted(graph, steps, n);
                assert_int_equal(mp_makespan_copying(graph, steps, n, &found, NULL), MP_OK);
                if (!is_same(&found, &expected)) fail_msg("seed %d, %d", (int)seed, (int)k);
                hidden += found.hidden_ticks;
                waited += found.wait_ticks;
            }
            mp_free(steps);
        }
        mp_graph_free(graph);
    }
    assert_true(hidden > 1000 && waited > 1000);
}

TEST(links_are_found_by_name_and_every_device_has_one)
{
    assert_string_equal(mp_link_find("PCIe 5")->name, "pcie5");
    assert_null(mp_link_find("pcie"));
    for (size_t k = 0; k < mp_device_count(); k++) assert_non_null(mp_link_find(mp_device_row(k)->link));
    const mp_link near = {.out_bytes_per_second = 10, .in_bytes_per_second = 20, .latency_seconds = 1},
                  far = {.out_bytes_per_second = 15, .in_bytes_per_second = 5, .latency_seconds = 2, .is_shared = true},
                  way = mp_link_beyond(&near, &far);
    assert_true(way.out_bytes_per_second == 10 && way.in_bytes_per_second == 5 && way.latency_seconds == 3 && way.is_shared);
    assert_true(mp_link_beyond(&far, &near).is_shared);
}
