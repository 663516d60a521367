/* test_needs.c - the caching allocator and the memory of a process, against calculations by hand. */
#include <string.h>

#include "memplan/workloads/caching_allocator.h"
#include "memplan/workloads/needs.h"
#include "memplan/workloads/process_memory.h"
#include "tests/cases/test.h"

enum { KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30, MOST = 6 };

TEST(the_allocator_reserves_segments)
{
    /* expected values follow from PyTorch's notes on CUDA and c10/cuda/CUDACachingAllocator.cpp */
    static const struct {
        mp_memory_request requests[MOST]; /* ended by bytes and number 0 after the first */
        size_t n;
        int64_t limit, tensors_bytes, reserved_bytes, refused;
        int64_t expandable;
    } cases[] = {
        {{{0, 1}}, 1, 0, 512, 2 * MIB, -1, 0},                                      /* a segment of the small pool */
        {{{0, 3 * MIB}, {1, 5 * MIB}}, 2, 0, 8 * MIB, 20 * MIB, -1, 0},             /* both in a segment of 20 MiB */
        {{{0, 11 * MIB}}, 1, 0, 12 * MIB, 12 * MIB, -1, 0},                         /* a rest of 1 MiB is not split off */
        {{{0, 9 * MIB}, {0, 0}, {0, 12 * MIB}}, 3, 0, 12 * MIB, 20 * MIB, -1, 0},   /* the cached segment is split */
        {{{0, 12 * MIB}, {0, 0}, {0, 14 * MIB}}, 3, 0, 14 * MIB, 26 * MIB, -1, 0},  /* the cached segment is too small */
        {{{0, 12 * MIB}, {0, 0}, {0, 14 * MIB}}, 3, 16, 14 * MIB, 14 * MIB, -1, 0}, /* a full device frees it */
        {{{0, 12 * MIB}, {1, 14 * MIB}}, 2, 16, 12 * MIB, 12 * MIB, 1, 0},          /* both are in use */
        {{{0, 12 * MIB}, {0, 0}, {0, 14 * MIB}}, 3, 0, 14 * MIB, 20 * MIB, -1, 1},  /* pages of 20 MiB, one range */
        {{{0, 30 * MIB}, {0, 0}, {0, 50 * MIB}}, 3, 0, 50 * MIB, 60 * MIB, -1, 1},  /* the range grows */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_allocator_settings settings = mp_allocator_defaults();
        mp_allocator_use use;
        settings.expandable = cases[k].expandable;
        if (cases[k].limit) settings.limit = cases[k].limit * MIB;
        assert_int_equal(mp_allocator_replay(&settings, cases[k].requests, cases[k].n, NULL, &use, NULL), MP_OK);
        assert_int_equal(use.tensors_bytes, cases[k].tensors_bytes);
        assert_int_equal(use.reserved_bytes, cases[k].reserved_bytes);
        assert_int_equal(use.refused, cases[k].refused);
    }
}

TEST(an_expandable_segment_ends_with_a_whole_page)
{
    /* the largest request takes all pages of an address range of 2^46 bytes; a full device unmaps every one of them */
    const int64_t page = INT64_C(20) * MIB, range = (INT64_C(1) << 46) / page * page;
    const mp_memory_request requests[] = {{0, range}, {0, 0}, {1, 3 * MIB}, {2, MIB}};
    mp_allocator_settings settings = mp_allocator_defaults();
    mp_allocator_use use;
    settings.expandable = 1;
    settings.limit = range;
    assert_int_equal(mp_allocator_replay(&settings, requests, 4, NULL, &use, NULL), MP_OK);
    assert_int_equal(use.reserved_bytes, range);
    assert_int_equal(use.refused, -1);
    const mp_memory_request larger = {0, range + 1};
    settings.limit = 2 * range;
    assert_int_equal(mp_allocator_replay(&settings, &larger, 1, NULL, &use, NULL), MP_OK);
    assert_int_equal(use.refused, 0);
    settings.base = 3 * MIB; /* pages begin at the segment's address */
    settings.limit = 40 * MIB;
    const mp_memory_request cached[] = {{0, 30 * MIB}, {0, 0}, {1, MIB}, {2, 30 * MIB}};
    assert_int_equal(mp_allocator_replay(&settings, cached, 4, NULL, &use, NULL), MP_OK);
    assert_int_equal(use.refused, 3);
    assert_int_equal(use.held_bytes, 2 * MIB);
}

TEST(the_allocator_refuses_requests_without_a_meaning)
{
    static const mp_memory_request bad[][2] = {{{0, 1}, {0, 1}}, {{-1, 1}, {0, 1}}, {{2, 1}, {0, 1}}, {{0, -1}, {1, 1}}};
    const mp_allocator_settings settings = mp_allocator_defaults();
    mp_allocator_use use = {.refused = 7};
    mp_error err = {0};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(mp_allocator_replay(&settings, bad[k], 2, NULL, &use, &err), MP_INVALID);
    assert_int_equal(use.refused, 7);
}

static int add(mp_graph *g, const char *name, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(g, &s, NULL), MP_OK);
    s->name = name;
    s->kind = kind;
    s->bytes = s->payload_bytes = bytes;
    return (int)g->n_storages - 1;
}

static mp_alternative *run(mp_graph *g, const char *op, mp_phase phase, double flops, const int *reads, size_t n)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(g, &node, NULL), MP_OK);
    node->name = node->op = op;
    node->phase = phase;
    node->flops = flops;
    node->forward_of = -1;
    node->alternatives->reads = mp_graph_list(g, reads, n);
    node->alternatives->n_reads = n;
    return node->alternatives;
}

static void writes(mp_graph *g, mp_alternative *a, const int *storages, size_t n)
{
    a->writes = mp_graph_list(g, storages, n);
    a->n_writes = n;
}

/* Two layers without activations: parameters of 40 and 30 MiB, an activation of 20 MiB, and the optimizer's update. */
static mp_graph *two_parameters(const char *optimizer, int n_moments)
{
    static const int64_t sizes[] = {40 * MIB, 30 * MIB};
    int w[2], g[2], s[2] = {-1, -1}, y;
    mp_graph *graph;
    assert_int_equal(mp_graph_new("two", &graph, NULL), MP_OK);
    for (int k = 0; k < 2; k++) w[k] = add(graph, k ? "w1" : "w0", MP_KIND_PARAMETER, sizes[k]);
    for (int k = 0; k < 2; k++) g[k] = add(graph, k ? "g1" : "g0", MP_KIND_GRADIENT, sizes[k]);
    for (int k = 0; k < 2 && n_moments; k++) s[k] = add(graph, k ? "s1" : "s0", MP_KIND_OPTIMIZER_STATE, n_moments * sizes[k]);
    y = add(graph, "y", MP_KIND_ACTIVATION, 20 * MIB);
    writes(graph, run(graph, "forward", MP_PHASE_FORWARD, 1, w, 2), &y, 1);
    for (int k = 0; k < 2; k++) writes(graph, run(graph, "backward", MP_PHASE_BACKWARD, 1, &y, 1), &g[k], 1);
    for (int k = 0; k < 2; k++)
        writes(graph, run(graph, optimizer, MP_PHASE_UPDATE, 0, (int[]){w[k], g[k], s[k]}, n_moments ? 3 : 2),
               (int[]){w[k], s[k]}, n_moments ? 2 : 1);
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    return graph;
}

static mp_needs needs_of(const mp_graph *graph, const mp_needs_terms *terms)
{
    MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    const size_t n = mp_keep_all(graph, steps);
    mp_needs needs;
    assert_int_equal(mp_timeline_build(graph, steps, n, &timeline, NULL), MP_OK);
    assert_int_equal(mp_needs_of(graph, steps, timeline, terms, &needs, NULL), MP_OK);
    return needs;
}

TEST(the_needs_of_a_step_are_those_of_pytorchs_optimizers)
{
    enum { W = 70, Y = 20, CONTEXT = 24 + 305 + 30, WORKSPACE = 8320 * KIB }; /* 2.83 MiB x 108 multiprocessors = 305 MiB */
    static const struct {
        const char *optimizer;
        int n_moments;
        bool has_products;
        int tensors_mib, reserved_mib; /* without workspaces */
        int64_t workspace_bytes, workspace_segments;
    } cases[] = {
        /* parameters, gradients and y; both gradients exist until the last update */
        {"sgd", 0, false, 2 * W + Y, 2 * W + Y, 0, 0},
        /* parameters, gradients, two moments, and the square roots of one; y is cached */
        {"adamw", 2, false, 5 * W, 5 * W + Y, 0, 0},
        {"adam", 2, false, 5 * W, 5 * W + Y, 0, 0},
        /* the peak is at the end of backward of the second step, where y and the state exist */
        {"momentum", 1, false, 3 * W + Y, 3 * W + Y, 0, 0},
        /* 16-bit parameters: momentum and an fp32 copy, each twice as large as its parameter */
        {"momentum", 4, false, 6 * W + Y, 6 * W + Y, 0, 0},
        /* the workspaces of forward and of backward share a segment of 20 MiB */
        {"adamw", 2, true, 5 * W, 5 * W + Y, INT64_C(2) * WORKSPACE, 20 * MIB},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        MP_OWNED_BY(mp_graph_free) mp_graph *graph = two_parameters(cases[k].optimizer, cases[k].n_moments);
        const mp_needs_terms terms = {
            .card = "a100", .family = "convolution", .arena_bytes = -1, .has_products = cases[k].has_products, .network = ""};
        const mp_needs needs = needs_of(graph, &terms);
        assert_int_equal(needs.tensors_bytes, (int64_t)cases[k].tensors_mib * MIB + cases[k].workspace_bytes);
        assert_int_equal(needs.reserved_bytes, (int64_t)cases[k].reserved_mib * MIB + cases[k].workspace_segments);
        assert_int_equal(needs.process_bytes, needs.reserved_bytes + (int64_t)CONTEXT * MIB);
        mp_process_memory m;
        assert_true(mp_process_memory_of("a100", "convolution", needs.reserved_bytes, &m));
        assert_int_equal(needs.likely_bytes, m.likely_bytes);
        assert_int_equal(needs.card_bytes, INT64_C(81050) * MIB);
        assert_int_equal(needs.expandable_bytes, -1);
    }
}

TEST(a_script_keeps_the_outputs_until_its_next_forward_has_ended)
{
    enum { W = 70, Y = 20 };
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = two_parameters("adamw", 2);
    const mp_needs_terms terms = {.card = "a100", .family = "other", .arena_bytes = -1, .network = ""};
    mp_storage *y = &graph->storages[graph->n_storages - 1];
    assert_string_equal(y->name, "y");
    assert_int_equal(needs_of(graph, &terms).tensors_bytes, (int64_t)5 * W * MIB);
    y->is_output = true; /* y also exists during the updates; the previous y is freed before backward */
    const mp_needs needs = needs_of(graph, &terms);
    assert_int_equal(needs.tensors_bytes, (int64_t)(5 * W + Y) * MIB);
    /* the first y still exists, so the second y takes 20 MiB of a gradient's 30 MiB. The update needs a new segment */
    assert_int_equal(needs.reserved_bytes, (int64_t)(5 * W + Y + 30) * MIB);
    assert_string_equal(needs.family, "other");
}

TEST(memplans_executor_reserves_static_memory_and_an_arena)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = two_parameters("adamw", 2);
    const mp_needs_terms terms = {
        .card = "a100", .family = "other", .arena_bytes = 77 * MIB, .network = "nvlink3", .n_communicators = 2};
    const mp_needs needs = needs_of(graph, &terms);
    assert_int_equal(needs.tensors_bytes, (int64_t)(3 * 70 + 77) * MIB);
    assert_int_equal(needs.reserved_bytes, needs.tensors_bytes);
    assert_int_equal(needs.nccl_bytes, INT64_C(2) * 24 * 12 * MIB);
    assert_int_equal(needs.process_bytes, needs.reserved_bytes + needs.nccl_bytes + INT64_C(359) * MIB);
    assert_int_equal(needs.n_jobs, 0);
    assert_int_equal(mp_nccl_bytes("pcie", 1), INT64_C(2) * 12 * MIB);
    assert_int_equal(mp_nccl_bytes("nvlink4", 0), 0);
}

TEST(without_a_known_card_only_tensors_and_the_allocator_count)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = two_parameters("sgd", 0);
    static const char *const cards[] = {"", "mi300x", "cpu"};
    for (size_t k = 0; k < sizeof cards / sizeof *cards; k++) {
        const mp_needs_terms terms = {.card = cards[k], .family = "other", .arena_bytes = -1, .network = ""};
        const mp_needs needs = needs_of(graph, &terms);
        assert_int_equal(needs.tensors_bytes, INT64_C(160) * MIB);
        assert_int_equal(needs.process_bytes, -1);
        assert_int_equal(needs.likely_bytes, -1);
        assert_int_equal(mp_needs_room(&needs, needs.tensors_bytes), 0);
    }
}

TEST(a_full_card_frees_cached_blocks)
{
    /* 5 W = 350 MiB are in use in the update, and Y is cached. The allocator frees y's memory, so less than 5 W + Y suffices */
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = two_parameters("adamw", 2);
    const int64_t context = INT64_C(359) * MIB;
    mp_needs_terms terms = {.card = "a100", .family = "transformer", .arena_bytes = -1, .network = ""};
    terms.card_bytes = context + INT64_C(360) * MIB;
    mp_needs needs = needs_of(graph, &terms);
    assert_true(needs.reserved_bytes < INT64_C(360) * MIB && needs.reserved_bytes >= INT64_C(350) * MIB);
    assert_true(needs.likely_bytes <= needs.card_bytes);
    terms.card_bytes = context + INT64_C(340) * MIB; /* less than the tensors */
    needs = needs_of(graph, &terms);
    assert_true(needs.likely_bytes > needs.card_bytes);
    assert_true(needs.reserved_bytes >= INT64_C(350) * MIB);
    assert_true(mp_needs_room(&needs, needs.tensors_bytes) < needs.tensors_bytes);
}
