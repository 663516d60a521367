/* test_graph.c - estimator/graph: names, growth, refusals and derived fields of mp_graph_finish, and the hash. */
#include "estimator/base/memory.h"
#include "memplan/timeline.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

/* Two forward nodes, a loss, two backward nodes that add to one gradient, and its reader. Storages: 0 x (input), 1 a, 2 b, 3 d
 * (the sum), 4 w (parameter), 5 g (gradient of w). */
static mp_graph *small(void)
{
    static const struct {
        mp_kind kind;
        const char *name;
    } storages[] = {{MP_KIND_INPUT, "x"},      {MP_KIND_ACTIVATION, "a"},
                    {MP_KIND_ACTIVATION, "b"}, {MP_KIND_ACTIVATION_GRADIENT, "d"},
                    {MP_KIND_PARAMETER, "w"},  {MP_KIND_GRADIENT, "g"}};
    static const struct {
        mp_phase phase;
        const char *name;
        int reads[2], n_reads, writes[1], n_writes, adds[1], n_adds;
    } nodes[] = {
        {MP_PHASE_FORWARD, "f0", {0, 4}, 2, {1}, 1, {0}, 0},  {MP_PHASE_FORWARD, "f1", {1}, 1, {2}, 1, {0}, 0},
        {MP_PHASE_LOSS, "loss", {2}, 1, {0}, 0, {3}, 1},      {MP_PHASE_BACKWARD, "b1", {2}, 1, {0}, 0, {3}, 1},
        {MP_PHASE_BACKWARD, "b0", {3, 0}, 2, {5}, 1, {0}, 0}, {MP_PHASE_UPDATE, "u", {5, 4}, 2, {4}, 1, {0}, 0},
    };
    mp_graph *g;
    assert_int_equal(mp_graph_new("small", &g, NULL), MP_OK);
    for (size_t i = 0; i < sizeof storages / sizeof *storages; i++) {
        mp_storage *s;
        assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
        s->kind = storages[i].kind;
        s->name = storages[i].name;
        s->bytes = s->payload_bytes = 8 << i;
    }
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        mp_node *n;
        assert_int_equal(mp_graph_node(g, &n, NULL), MP_OK);
        mp_alternative *f = &n->alternatives[0];
        n->phase = nodes[i].phase;
        n->name = nodes[i].name;
        f->ticks = 1;
        f->reads = mp_graph_list(g, nodes[i].reads, f->n_reads = (size_t)nodes[i].n_reads);
        f->writes = mp_graph_list(g, nodes[i].writes, f->n_writes = (size_t)nodes[i].n_writes);
        f->adds = mp_graph_list(g, nodes[i].adds, f->n_adds = (size_t)nodes[i].n_adds);
    }
    return g;
}

TEST(names_are_found_again)
{
    for (int k = 0; k < MP_N_KINDS; k++) assert_int_equal(mp_kind_find(mp_kind_name((mp_kind)k)), k);
    for (int k = 0; k < MP_N_PHASES; k++) assert_int_equal(mp_phase_find(mp_phase_name((mp_phase)k)), k);
    for (int k = 0; k < MP_N_FUSES; k++) assert_int_equal(mp_fuse_find(mp_fuse_name((mp_fuse)k)), k);
    assert_string_equal(mp_kind_name(MP_KIND_ACTIVATION_GRADIENT), "activation_gradient");
    assert_int_equal(mp_kind_find("weights"), -1);
    assert_true(mp_kind_is_static(MP_KIND_BUFFER) && !mp_kind_is_static(MP_KIND_GRADIENT));
}

TEST(finish_derives_producers_adders_and_readers)
{
    mp_graph *g = small();
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    const int producer[] = {-1, 0, 1, -1, -1, 4};
    assert_memory_equal(g->producer, producer, sizeof producer);
    const int adders_start[] = {0, 0, 0, 0, 2, 2, 2}, adders[] = {2, 3};
    assert_memory_equal(g->adders_start, adders_start, sizeof adders_start);
    assert_memory_equal(g->adders, adders, sizeof adders);
    const int readers_start[] = {0, 2, 3, 5, 6, 8, 9}, readers[] = {0, 4, 1, 2, 3, 4, 0, 5, 5};
    assert_memory_equal(g->readers_start, readers_start, sizeof readers_start);
    assert_memory_equal(g->readers, readers, sizeof readers);
    assert_int_equal(mp_graph_static_bytes(g), 8 + (8 << 4));
    assert_int_equal(strlen(g->hash), 32);
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK); /* a second call has no effect */
    mp_graph_free(g);
    mp_graph_free(NULL);
    assert_int_equal(mp_alloc_live, 0);
}

/* ---- each function makes one fault; the table lists the expected messages ---- */

static void set(mp_graph *g, int **list, size_t *n, int s)
{
    *list = mp_graph_list(g, &s, 1);
    *n = 1;
}
static void read_instead(mp_graph *g, int node, int s)
{
    mp_alternative *f = &g->nodes[node].alternatives[0];
    set(g, &f->reads, &f->n_reads, s);
}
static void write_instead(mp_graph *g, int node, int s)
{
    mp_alternative *f = &g->nodes[node].alternatives[0];
    set(g, &f->writes, &f->n_writes, s);
}
static void add_instead(mp_graph *g, int node, int s)
{
    mp_alternative *f = &g->nodes[node].alternatives[0];
    set(g, &f->adds, &f->n_adds, s);
}
static void pair_up(mp_graph *g, int node, int from, int to)
{
    mp_alternative *f = &g->nodes[node].alternatives[0];
    f->in_place = mp_pool_alloc(g->pool, 1, sizeof *f->in_place);
    f->in_place[0] = (mp_in_place){from, to};
    f->n_in_place = 1;
}
static mp_alternative *second_alternative(mp_graph *g, int node)
{
    mp_alternative *alternatives = mp_pool_alloc(g->pool, 2, sizeof *alternatives);
    alternatives[0] = alternatives[1] = g->nodes[node].alternatives[0];
    g->nodes[node].alternatives = alternatives;
    g->nodes[node].n_alternatives = 2;
    return &alternatives[1];
}

static void storage_id(mp_graph *g)
{
    g->storages[3].id = 1;
}
static void node_id(mp_graph *g)
{
    g->nodes[5].id = 0;
}
static void unknown_storage(mp_graph *g)
{
    read_instead(g, 1, 6);
}
static void two_producers(mp_graph *g)
{
    write_instead(g, 1, 1), read_instead(g, 1, 0);
}
static void written_sum(mp_graph *g)
{
    write_instead(g, 1, 3);
}
static void forward_adds(mp_graph *g)
{
    add_instead(g, 1, 3);
}
static void reads_and_writes(mp_graph *g)
{
    read_instead(g, 1, 2);
}
static void reads_and_adds(mp_graph *g)
{
    read_instead(g, 3, 3);
}
static void twice_in_a_list(mp_graph *g)
{
    const int list[] = {0, 0};
    g->nodes[0].alternatives[0].reads = mp_graph_list(g, list, 2);
}
static void negative_bytes(mp_graph *g)
{
    g->storages[2].bytes = -1;
}
static void too_many_bytes(mp_graph *g)
{
    g->storages[1].bytes = g->storages[2].bytes = INT64_MAX / 2;
}
static void negative_ticks(mp_graph *g)
{
    g->nodes[1].alternatives[0].ticks = -5;
}
static void too_many_ticks(mp_graph *g)
{
    g->nodes[1].alternatives[0].ticks = INT64_MAX - 2;
}
static void negative_workspace(mp_graph *g)
{
    g->nodes[1].alternatives[0].workspace_bytes = -1;
}
static void wrong_kind(mp_graph *g)
{
    g->storages[1].kind = (mp_kind)77;
}
static void wrong_phase(mp_graph *g)
{
    g->nodes[1].phase = (mp_phase)9;
}
static void wrong_alignment(mp_graph *g)
{
    g->alignment = 0;
}
static void wrong_tick(mp_graph *g)
{
    g->tick_seconds = 0;
}
static void carried_and_persistent(mp_graph *g)
{
    g->storages[5].carried = g->storages[5].persistent = true;
}
static void forward_of_a_loss(mp_graph *g)
{
    g->nodes[3].forward_of = 2;
}
static void pair_from_no_read(mp_graph *g)
{
    pair_up(g, 1, 0, 2);
}
static void pair_to_no_write(mp_graph *g)
{
    pair_up(g, 1, 1, 3);
}
static void pair_from_carried(mp_graph *g)
{
    g->storages[3].carried = true;
    pair_up(g, 4, 3, 5);
}
static void alternative_adds_more(mp_graph *g)
{
    mp_alternative *f = second_alternative(g, 4);
    f->n_reads = 0;
    set(g, &f->adds, &f->n_adds, 3);
}
static void nothing_produces(mp_graph *g)
{
    g->nodes[0].alternatives[0].n_writes = 0;
}
static void only_an_alternative_produces(mp_graph *g)
{
    second_alternative(g, 0);
    g->nodes[0].alternatives[0].n_writes = 0;
}
static void swap_nodes(mp_graph *g, int i)
{
    mp_node node = g->nodes[i];
    g->nodes[i] = g->nodes[i + 1];
    g->nodes[i + 1] = node;
}
static void wrong_order(mp_graph *g)
{
    swap_nodes(g, 0);
}
static void half_a_sum(mp_graph *g)
{
    swap_nodes(g, 3);
}
static void cycle(mp_graph *g)
{
    read_instead(g, 0, 2);
}
static void cycle_through_a_sum(mp_graph *g)
{
    read_instead(g, 3, 5);
}

TEST(finish_refuses_what_is_no_training_graph)
{
    static const struct {
        void (*spoil)(mp_graph *);
        const char *message;
    } cases[] = {
        {storage_id, "storage id 1 is listed twice"},
        {node_id, "node id 0 is listed twice"},
        {unknown_storage, "node 1 (f1) reads a storage that does not exist"},
        {two_producers, "storage 1 (a) is written by node 0 (f0) and by node 1 (f1)"},
        {written_sum, "storage 3 (d) is both written by node 1 (f1) and added to by node 3 (b1)"},
        {forward_adds, "node 1 (f1) is a forward node and adds to storage 3 (d), but only loss and backward nodes may add"},
        {reads_and_writes, "node 1 (f1) reads and writes storage 2 (b), but only a static storage allows both"},
        {reads_and_adds, "node 3 (b1) reads and writes storage 3 (d), but only a static storage allows both"},
        {twice_in_a_list, "node 0 (f0) reads storage 0 (x) twice"},
        {negative_bytes, "storage 2 (b) has -1 bytes, but a size must be 0 or more"},
        {too_many_bytes, "up to storage 1 (a) the storages add up to more bytes than can be counted"},
        {negative_ticks, "node 1 (f1) takes -5 ticks, but the time must be 0 or more"},
        {too_many_ticks, "up to node 1 (f1) the nodes add up to more ticks than can be counted"},
        {negative_workspace, "node 1 (f1) has a workspace of -1 bytes, which is out of range"},
        {wrong_kind, "storage 1 (a) has an unknown kind"},
        {wrong_phase, "node 1 (f1) has an unknown phase"},
        {wrong_alignment, "the graph 'small' has the alignment 0, but it must be 1 or more"},
        {wrong_tick, "the graph 'small' has a tick of 0 seconds, but a tick must be over 0"},
        {carried_and_persistent, "storage 5 (g) is both carried and static"},
        {forward_of_a_loss, "node 3 (b1) names a forward node that is not in the forward phase"},
        {pair_from_no_read, "node 1 (f1) has an in-place pair that is not a read storage followed by a written storage"},
        {pair_to_no_write, "node 1 (f1) has an in-place pair that is not a read storage followed by a written storage"},
        {pair_from_carried, "node 4 (b0) would overwrite storage 3 (d), which is carried"},
        {alternative_adds_more, "an alternative of node 4 (b0) adds to storage 3 (d), but its first alternative does not"},
        {nothing_produces, "node 1 (f1) reads storage 1 (a), which no node produces"},
        {only_an_alternative_produces, "node 1 (f1) reads storage 1 (a), which no node produces"},
        {wrong_order, "node 1 (f1) reads storage 1 (a) before node 0 (f0), a later node, produces it"},
        {half_a_sum, "node 4 (b0) reads storage 3 (d) before node 3 (b1), a later node, produces it"},
        {cycle, "node 0 (f0) is on a dependency cycle"},
        {cycle_through_a_sum, "node 3 (b1) is on a dependency cycle"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mp_error err = {0};
        mp_graph *g = small();
        cases[i].spoil(g);
        assert_int_equal(mp_graph_finish(g, &err), MP_PARSE);
        assert_string_equal(err.message, cases[i].message);
        mp_graph_free(g);
    }
}

TEST(a_long_reversed_list_is_refused_at_once)
{
    enum { LENGTH = 30000 };
    mp_graph *g;
    mp_error err = {0};
    assert_int_equal(mp_graph_new("reversed", &g, NULL), MP_OK);
    for (int i = 0; i < LENGTH; i++) {
        mp_storage *s;
        mp_node *n;
        int next = i + 1;
        assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
        s->kind = MP_KIND_ACTIVATION;
        assert_int_equal(mp_graph_node(g, &n, NULL), MP_OK);
        n->alternatives[0].writes = mp_graph_list(g, &i, n->alternatives[0].n_writes = 1);
        n->alternatives[0].reads = mp_graph_list(g, &next, n->alternatives[0].n_reads = next < LENGTH);
    }
    assert_int_equal(mp_graph_finish(g, &err), MP_PARSE);
    assert_string_equal(err.message, "node 0 reads storage 1 before node 1, a later node, produces it");
    mp_graph_free(g);
}

static void carried(mp_graph *g)
{
    g->storages[5].carried = true;
}
static void persistent(mp_graph *g)
{
    g->storages[2].persistent = true;
}
static void any_order(mp_graph *g)
{
    g->storages[3].any_sum_order = true;
}
static void more_bytes(mp_graph *g)
{
    g->storages[2].bytes++;
}
static void more_ticks(mp_graph *g)
{
    g->nodes[2].alternatives[0].ticks++;
}
static void more_workspace(mp_graph *g)
{
    g->nodes[2].alternatives[0].workspace_bytes++;
}
static void other_name(mp_graph *g)
{
    g->storages[2].name = "c";
}
static void other_node_name(mp_graph *g)
{
    g->nodes[2].name = "c";
}
static void other_op(mp_graph *g)
{
    g->nodes[2].op = "c";
}
static void other_id(mp_graph *g)
{
    g->storages[2].id = 99;
}
static void other_kind(mp_graph *g)
{
    g->storages[2].kind = MP_KIND_SAVED;
}
static void other_phase(mp_graph *g)
{
    g->nodes[2].phase = MP_PHASE_BACKWARD;
}
static void flagged(mp_graph *g)
{
    g->nodes[1].flags = MP_NODE_ONCE;
}
static void other_flops(mp_graph *g)
{
    g->nodes[1].flops = 1;
}
static void belongs(mp_graph *g)
{
    g->nodes[3].forward_of = 1;
}
static void fused(mp_graph *g)
{
    g->fuse = MP_FUSE_BACKWARD;
}
static void aligned(mp_graph *g)
{
    g->alignment = 4;
}
static void longer_tick(mp_graph *g)
{
    g->tick_seconds = 2;
}
static void one_read_less(mp_graph *g)
{
    g->nodes[0].alternatives[0].n_reads--;
}
static void in_place(mp_graph *g)
{
    pair_up(g, 1, 1, 2);
}
static void another_alternative(mp_graph *g)
{
    second_alternative(g, 1);
}

TEST(hash_tells_any_two_graphs_apart)
{
    static void (*const changes[])(mp_graph *) = {
        carried,  persistent,      any_order,  more_bytes,          more_ticks,   more_workspace, other_name, other_op,
        other_id, other_node_name, other_kind, other_phase,         flagged,      fused,          aligned,    other_flops,
        belongs,  longer_tick,     in_place,   another_alternative, one_read_less};
    enum { N = sizeof changes / sizeof *changes };
    char hashes[N + 1][33];
    for (int i = 0; i <= N; i++) {
        mp_graph *g = small();
        if (i < N) changes[i](g);
        assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
        memcpy(hashes[i], g->hash, 33);
        for (int j = 0; j < i; j++)
            if (!strcmp(hashes[i], hashes[j])) fail_msg("changes %d and %d give the same hash", i, j);
        mp_graph_free(g);
    }
    mp_graph *g = small(); /* changes fields outside the hash */
    g->storages[1].payload_bytes = 3;
    g->name = "other";
    assert_int_equal(mp_graph_finish(g, NULL), MP_OK);
    assert_string_equal(g->hash, hashes[N]);
    /* the hash is equal on every machine and in every release */
    assert_string_equal(g->hash, "9cda251bffba16b4ef55f63d94120aea");
    mp_graph_free(g);
}

TEST(keep_all_of_every_random_graph_runs)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mp_graph *g = random_graph(seed, 1 + (int)(seed % 15), (mp_fuse)(seed % MP_N_FUSES), seed % 6 == 0);
        mp_step *steps = mp_alloc(g->n_nodes, sizeof *steps);
        mp_timeline *tl;
        mp_keep_all(g, steps);
        assert_int_equal(mp_timeline_build(g, steps, g->n_nodes, &tl, NULL), MP_OK);
        mp_timeline_free(tl);
        mp_free(steps);
        mp_graph_free(g);
    }
}

TEST(finish_survives_every_allocation_failure)
{
    mp_graph *g = small();
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_alloc_budget = k;
        st = mp_graph_finish(g, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
    }
    mp_graph_free(g);
    assert_int_equal(mp_alloc_live, 0);
    st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_storage *s;
        mp_node *n;
        g = NULL;
        mp_alloc_budget = k;
        st = mp_graph_new("g", &g, NULL);
        if (st == MP_OK) st = mp_graph_storage(g, &s, NULL);
        if (st == MP_OK) st = mp_graph_node(g, &n, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        mp_graph_free(g);
        assert_int_equal(mp_alloc_live, 0);
    }
}
