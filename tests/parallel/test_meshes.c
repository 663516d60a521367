/* test_meshes.c - the search over meshes: each rejected mesh is simulated, and none is better than the best. */
#include "planner/parallel/stages.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"

enum { LAYERS = 6, BYTES = 1 << 20 };

/* Builds a chain whose tensors are split over tp. */
static mp_status build(void *data, const mp_mesh *mesh, int64_t micro_batch, mp_graph **out, mp_error *err)
{
    const int64_t tp = mesh->size[MP_DIM_TP];
    int *n_built = data;
    ++*n_built;
    if (tp == 3) return MP_FAIL(err, MP_INVALID, "three do not divide it");
    if (mesh->size[MP_DIM_EP] > 1) return MP_FAIL(err, MP_INVALID, "there are no experts");
    return chain_graph(LAYERS, BYTES * micro_batch / tp, BYTES / tp, true, out, err);
}

/* Builds a chain of four experts. */
static mp_status build_experts(void *data, const mp_mesh *mesh, int64_t micro_batch, mp_graph **out, mp_error *err)
{
    const int64_t tp = mesh->size[MP_DIM_TP], ep = mesh->size[MP_DIM_EP];
    int *n_built = data;
    ++*n_built;
    if (4 % ep || tp == 3) return MP_FAIL(err, MP_INVALID, "they do not divide it");
    return chain_graph(LAYERS, BYTES * micro_batch / tp, 8 * BYTES / tp / ep, true, out, err);
}

static mp_meshes_request request_of(int64_t devices, int64_t memory_bytes, int *n_built)
{
    mp_meshes_request r = {
        .devices = devices, .memory_bytes = memory_bytes, .global_batch = 24, .graph = build, .data = n_built};
    assert_int_equal(mp_network_read("nvlink4+ib400", &r.ranks.network, NULL), MP_OK);
    r.ranks.mesh.sequence = true;
    return r;
}

static int n_merged; /* choices that fit only with merged blocks */

/* Simulates one choice within a memory; returns its seconds, INFINITY if it does not fit. */
static double seconds_in(const mp_meshes_request *request, const mp_mesh_choice *c, int64_t memory_bytes)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    mp_stage stages[16];
    mp_mesh_choice again = {.stages = stages};
    mp_ranks ranks = request->ranks;
    bool fits = false;
    int n_built = 0;
    ranks.mesh = c->mesh;
    assert_int_equal(request->graph(&n_built, &c->mesh, c->micro_batch, &graph, NULL), MP_OK);
    for (int merged = 1; merged <= 8 && !fits; merged *= 2) {
        MP_OWNED_BY(mp_load_free) mp_load *load = NULL;
        assert_int_equal(mp_load_of(graph, merged, &load, NULL), MP_OK);
        const mp_step_request step = {.load = load,
                                      .ranks = &ranks,
                                      .schedule = c->schedule,
                                      .n_chunks = c->n_chunks,
                                      .n_micro_batches = c->n_micro_batches,
                                      .memory_bytes = memory_bytes,
                                      .host = request->host};
        if (c->mesh.size[MP_DIM_PP] * c->n_chunks > load->n_blocks) break;
        assert_int_equal(mp_step_simulate(&step, &again, &fits, NULL), MP_OK);
        n_merged += fits && merged > 1;
    }
    return fits ? again.seconds : INFINITY;
}

TEST(nothing_that_is_set_aside_is_better)
{
    static const int64_t devices[] = {1, 2, 4, 6, 12};
    int verdicts[MP_N_VERDICTS] = {0}, n_spread = 0, n_moved = 0;
    for (size_t d = 0; d < 4 * (sizeof devices / sizeof *devices); d++)
        for (int64_t memory = 3; memory <= 48; memory *= 2) {
            int n_built = 0;
            MP_OWNED_BY(mp_meshes_free) mp_meshes *found = NULL;
            const int64_t n = devices[d / 4];
            mp_meshes_request request = request_of(n, memory * BYTES, &n_built);
            request.n_best = 1;
            if (d % 2) request.graph = build_experts;
            if (d % 4 > 1) request.host = (mp_host){.link = mp_link_find("pcie4"), .takes_state = true};
            assert_int_equal(mp_meshes_search(&request, &found, NULL), MP_OK);
            const double best = found->n_best ? found->choices[0].seconds : INFINITY;
            for (size_t k = 0; k < found->n; k++) {
                const mp_mesh_choice *c = &found->choices[k];
                verdicts[c->verdict]++;
                assert_int_equal(mp_mesh_devices(&c->mesh), n);
                assert_true(c->mesh.size[MP_DIM_EP] <= (d % 2 ? 4 : 1));
                n_moved += c->verdict == MP_VERDICT_BEST && c->stages[0].host_bytes > 0;
                n_spread += c->mesh.size[MP_DIM_EP] > 1 && c->verdict == MP_VERDICT_BEST;
                assert_int_equal(c->mesh.size[MP_DIM_DP] * c->mesh.size[MP_DIM_SHARD] * c->micro_batch * c->n_micro_batches,
                                 24);
                const double seconds = seconds_in(&request, c, request.memory_bytes);
                assert_true(seconds >= best);
                assert_true(seconds >= c->bound_seconds);
                if (c->verdict == MP_VERDICT_FLOOR || c->verdict == MP_VERDICT_OVER_MEMORY) assert_true(isinf(seconds));
                if (c->verdict == MP_VERDICT_FLOOR) assert_true(isinf(seconds_in(&request, c, c->floor_bytes - 1)));
            }
        }
    for (int v = 0; v < MP_VERDICT_REFUSED; v++) assert_true(verdicts[v] > 0); /* without a judge nothing is refused */
    assert_true(n_spread > 0 && n_moved > 0);
    assert_true(n_merged > 0);
}

TEST(a_network_is_built_once_for_each_split_and_micro_batch)
{
    int n_built = 0;
    MP_OWNED_BY(mp_meshes_free) mp_meshes *found = NULL;
    mp_meshes_request request = request_of(12, INT64_C(1) << 40, &n_built);
    assert_int_equal(mp_meshes_search(&request, &found, NULL), MP_OK);
    assert_true(found->n > 100);
    /* tp of 1, 2, 4, 6, 12 and the refused 3, with 1, 2, 4, 8 samples; data=1; and ep, which is refused once */
    assert_true(n_built <= 5 * 4 + 4 * 4 + 1);
    for (size_t k = 0; k < found->n; k++) assert_int_not_equal(found->choices[k].mesh.size[MP_DIM_TP], 3);
}

/* A judge of which the results are known. It refuses every mesh with pp, and finds no plan for zero=2. */
static double judged_seconds(const mp_mesh_choice *c)
{
    return c->model_seconds * (c->mesh.size[MP_DIM_SHARD] > 1 ? 1.2 : c->mesh.size[MP_DIM_TP] > 1 ? 0.9 : 1.05);
}

static mp_status judge_by_formula(void *data, mp_mesh_choice *c, mp_error *err)
{
    int *n_judged = data;
    ++*n_judged;
    if (c->mesh.size[MP_DIM_PP] > 1) return MP_FAIL(err, MP_UNSUPPORTED, "pipelines are refused");
    if (c->mesh.zero == 2) return MP_OK;
    c->judge = MP_JUDGE_KEEP_ALL;
    c->seconds = judged_seconds(c);
    return MP_OK;
}

TEST(the_best_are_judged_before_they_are_returned)
{
    int n_refused = 0;
    for (int64_t devices = 2; devices <= 12; devices += 2) {
        int n_built = 0, n_judged = 0, n_marked = 0, n_before = n_refused;
        MP_OWNED_BY(mp_meshes_free) mp_meshes *found = NULL;
        mp_meshes_request request = request_of(devices, INT64_C(1) << 40, &n_built);
        request.judge = judge_by_formula;
        request.judge_data = &n_judged;
        assert_int_equal(mp_meshes_search(&request, &found, NULL), MP_OK);
        assert_true(found->n_best > 0);
        for (size_t k = 0; k < found->n; k++) {
            const mp_mesh_choice *c = &found->choices[k];
            n_marked += c->is_judged;
            n_refused += c->verdict == MP_VERDICT_REFUSED;
            if (k < found->n_best) assert_true(c->is_judged && c->mesh.size[MP_DIM_PP] == 1);
            if (k && k < found->n_best) assert_true(c->seconds >= found->choices[k - 1].seconds);
            if (c->verdict > MP_VERDICT_SLOWER) continue;
            const bool is_replaced = c->is_judged && c->mesh.zero != 2;
            assert_true(c->seconds == (is_replaced ? judged_seconds(c) : c->model_seconds));
            if (c->is_judged) assert_true(c->seconds >= found->choices[0].seconds);
        }
        for (size_t k = 0; k < found->n; k++)
            if (found->choices[k].verdict == MP_VERDICT_BOUND)
                assert_true(found->choices[k].bound_seconds >= found->choices[0].seconds);
        assert_int_equal(n_marked, n_judged);
        assert_true(n_judged - (n_refused - n_before) <= 5);
    }
    assert_true(n_refused > 0);
}

TEST(what_is_given_is_kept_and_a_batch_that_does_not_divide_is_refused)
{
    int n_built = 0;
    mp_error err = {0};
    mp_meshes *found = NULL;
    mp_meshes_request request = request_of(12, INT64_C(1) << 40, &n_built);
    request.fixed.size[MP_DIM_PP] = 3;
    request.fixed.size[MP_DIM_DP] = 2;
    assert_int_equal(mp_meshes_search(&request, &found, NULL), MP_OK);
    for (size_t k = 0; k < found->n; k++) {
        assert_int_equal(found->choices[k].mesh.size[MP_DIM_PP], 3);
        assert_int_equal(found->choices[k].mesh.size[MP_DIM_DP], 2);
    }
    mp_meshes_free(found);
    request = request_of(7, INT64_C(1) << 40, &n_built);
    request.fixed.size[MP_DIM_DP] = 7;
    assert_int_equal(mp_meshes_search(&request, &found, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "no mesh of 7 devices"));
}
