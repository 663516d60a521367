/* test_pipeline.c - ranks of pipelines over random networks: a rank's bytes compared with a simulation of all its
 * micro-batches, the totals of all ranks compared with one device, and plans and refusals of ranks. */
#include "estimator/base/memory.h"
#include "memplan/check.h"
#include "memplan/ranks/pipeline_cut.h"
#include "memplan/simplify.h"
#include "memplan/solver.h"
#include "memplan/training.h"
#include "planner/parallel/loads.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { CHUNKS_MAX = 2, RANKS_MAX = 4 };

/* ---- networks ---- */

static mp_graph *graph_of(const char *text)
{
    return model_text_graph(text,
                            (mp_training_options){.dtype = MP_DTYPE_FLOAT, .optimizer = MP_OPTIMIZER_ADAMW, .accumulate = 2});
}

/* Returns layers of random widths, some with a residual. In every second network, the last layer reuses the first weight. */
static mp_graph *random_network(uint64_t seed, int n_layers, bool is_tied)
{
    random_source random = {seed};
    char text[2048] = "data x 8 16; ", ops[1024] = "";
    int width = 16;
    for (int k = 0; k < n_layers; k++) {
        const bool adds = k && random_chance(&random, 40);
        const int next = adds || (is_tied && (k == 0 || k == n_layers - 2)) ? 16 : 8 + 4 * random_below(&random, 5);
        const int wide = adds ? width : next;
        snprintf(text + strlen(text), sizeof text - strlen(text), "param w%d %d %d; ", k, width, wide);
        snprintf(ops + strlen(ops), sizeof ops - strlen(ops), "MatMul %s%d w%d -> h%d; Tanh h%d -> %s%d; ", k ? "y" : "x",
                 k ? k - 1 : 0, k, k, k, adds ? "t" : "y", k);
        if (adds) snprintf(ops + strlen(ops), sizeof ops - strlen(ops), "Add t%d y%d -> y%d; ", k, k - 1, k);
        width = wide;
    }
    if (is_tied) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "param fit %d 16; ", width);
        snprintf(ops + strlen(ops), sizeof ops - strlen(ops), "MatMul y%d fit -> a; Tanh a -> b; MatMul b w0 -> out; ",
                 n_layers - 1);
    }
    char *first = strstr(ops, "x0");
    if (first) memcpy(first, "x ", 2);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s", ops);
    snprintf(text + strlen(text), sizeof text - strlen(text), is_tied ? "out out" : "out y%d", n_layers - 1);
    return graph_of(text);
}

static mp_ranks ranks_of(int pp)
{
    mp_ranks ranks = {.bucket_bytes = 0};
    assert_int_equal(mp_mesh_read("dp=1", &ranks.mesh, NULL), MP_OK);
    assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
    ranks.mesh.size[MP_DIM_PP] = pp;
    return ranks;
}

/* ---- a rank's whole step, with its micro-batches in order ---- */

enum { PASSES = 3, BATCHES_MAX = 8 };

/* Steps [begin, end), which a rank runs without interruption. */
typedef struct stretch {
    int begin, end;
} stretch;

typedef struct simulation {
    const mp_rank *rank;
    const mp_step *steps;
    int n, n_batch;  /* steps in all, and of a micro-batch; updates follow the latter */
    int64_t *alive;  /* per step: bytes of the micro-batch during the step, including workspace */
    int64_t *across; /* per step: the part of `alive` that also lives before the step */
    stretch turns[PASSES][CHUNKS_MAX];
    bool waits_with_batch; /* deferred gradients of parameters read the batch */
} simulation;

static bool contains(const int *list, size_t n, int s)
{
    for (size_t k = 0; k < n; k++)
        if (list[k] == s) return true;
    return false;
}

static const mp_alternative *at(const simulation *x, int t)
{
    return &x->rank->graph->nodes[x->steps[t].node].alternatives[x->steps[t].alternative];
}

static int until(const simulation *x, int t)
{
    return x->steps[t].until > t ? x->steps[t].until : t + 1;
}

/* Returns the step that frees an instance written by step t: its last use before it is written again. */
static int end_of(const simulation *x, int s, int t)
{
    int end = until(x, t);
    for (int u = t + 1; u < x->n; u++) {
        if (contains(at(x, u)->writes, at(x, u)->n_writes, s)) break;
        if (contains(at(x, u)->reads, at(x, u)->n_reads, s) || contains(at(x, u)->adds, at(x, u)->n_adds, s))
            end = until(x, u) > end ? until(x, u) : end;
    }
    return end;
}

static bool is_made(const simulation *x, int s, int t)
{
    if (contains(at(x, t)->writes, at(x, t)->n_writes, s)) return true;
    if (!contains(at(x, t)->adds, at(x, t)->n_adds, s)) return false;
    for (int u = 0; u < t; u++) /* a sum begins with its first contribution */
        if (contains(at(x, u)->adds, at(x, u)->n_adds, s)) return false;
    return true;
}

/* Returns the bytes of outputs of step t that are in place of inputs ending there: each input at most once, for the first pair
 * that fits. */
static int64_t taken_over(const simulation *x, int t)
{
    const mp_graph *g = x->rank->graph;
    const mp_alternative *a = at(x, t);
    int64_t bytes = 0;
    bool used[64] = {false};
    if (until(x, t) > t + 1) return 0;
    for (size_t k = 0; k < a->n_in_place; k++) {
        const mp_in_place pair = a->in_place[k];
        bool is_free = !mp_storage_is_static(&g->storages[pair.from]) && is_made(x, pair.to, t) &&
                       !mp_storage_is_static(&g->storages[pair.to]) &&
                       g->storages[pair.from].bytes >= g->storages[pair.to].bytes;
        for (size_t j = 0; j < k; j++)
            is_free &= !(used[j] && (a->in_place[j].from == pair.from || a->in_place[j].to == pair.to));
        for (int u = t - 1; u >= 0 && is_free; u--) {
            if (!is_made(x, pair.from, u)) continue;
            is_free = end_of(x, pair.from, u) == t + 1;
            break;
        }
        used[k] = is_free;
        if (is_free) bytes += g->storages[pair.to].bytes;
    }
    return bytes;
}

/* Sets the pass and the chunk of a step. A step without its own inherits both from the previous step. */
static void place(simulation *x, int t, int gap, int mark, mp_pass *pass, int *chunk)
{
    const mp_alternative *a = at(x, t);
    const int *const lists[] = {a->writes, a->adds, a->reads};
    const size_t n[] = {a->n_writes, a->n_adds, a->n_reads};
    const mp_phase phase = x->rank->graph->nodes[x->steps[t].node].phase;
    *pass = t >= mark ? MP_PASS_WEIGHTS : t >= gap || phase != MP_PHASE_FORWARD ? MP_PASS_BACKWARD : MP_PASS_FORWARD;
    for (int l = 2; l >= 0; l--)
        for (size_t k = 0; k < n[l]; k++) {
            const int s = lists[l][k];
            if ((size_t)s < x->rank->n_storages && x->rank->chunk[s] >= 0) *chunk = x->rank->chunk[s];
        }
}

/* Returns whether a step only writes gradients of parameters. */
static bool makes_weights(const simulation *x, int t)
{
    const mp_alternative *a = at(x, t);
    bool is_alone = a->n_writes + a->n_adds > 0;
    for (size_t k = 0; k < a->n_writes; k++) is_alone &= x->rank->graph->storages[a->writes[k]].kind == MP_KIND_GRADIENT;
    for (size_t k = 0; k < a->n_adds; k++) is_alone &= x->rank->graph->storages[a->adds[k]].kind == MP_KIND_GRADIENT;
    return is_alone;
}

/* Finds the turns of a micro-batch: its forwards, its backwards, and the steps after the mark that ends a backward. */
static void find_turns(simulation *x)
{
    const mp_graph *g = x->rank->graph;
    bool seen[512] = {false};
    int gap = 0, mark = x->n, chunk = 0;
    mp_pass pass;
    for (x->n_batch = 0; x->n_batch < x->n; x->n_batch++)
        if (g->nodes[x->steps[x->n_batch].node].phase == MP_PHASE_UPDATE) break;
    for (int t = 0; t < x->n_batch && g->nodes[x->steps[t].node].phase == MP_PHASE_FORWARD; t++) {
        if (!seen[x->steps[t].node]) gap = t + 1;
        seen[x->steps[t].node] = true;
    }
    for (int t = 0; t < x->n_batch; t++)
        if (!strcmp(g->nodes[x->steps[t].node].op, "Turn")) mark = t + 1;
    assert_int_equal(mark < x->n, x->rank->shape.schedule == MP_SCHEDULE_ZB_H1 && x->rank->rank > 0);
    for (int t = 0; t < mark && mark < x->n; t++) assert_false(makes_weights(x, t));
    for (int t = 0; t < x->n_batch; t++) {
        place(x, t, gap, mark, &pass, &chunk);
        stretch *turn = &x->turns[pass][chunk];
        if (turn->end) assert_int_equal(turn->end, t);
        if (!turn->end) turn->begin = t;
        turn->end = t + 1;
        for (size_t k = 0; k < at(x, t)->n_reads && t >= mark; k++)
            x->waits_with_batch |= g->storages[at(x, t)->reads[k]].kind == MP_KIND_INPUT;
    }
}

static void prepare(simulation *x)
{
    const mp_graph *g = x->rank->graph;
    find_turns(x);
    for (int t = 0; t < x->n; t++) x->alive[t] = at(x, t)->workspace_bytes - taken_over(x, t);
    for (int s = 0; s < (int)g->n_storages; s++)
        for (int t = 0; t < x->n && !mp_storage_is_static(&g->storages[s]); t++) {
            if (!is_made(x, s, t)) continue;
            const int end = end_of(x, s, t);
            const bool is_of_batch = (size_t)s < x->rank->n_storages && x->rank->chunk[s] >= 0;
            for (int u = t; u < end; u++) x->alive[u] += g->storages[s].bytes;
            for (int u = t + 1; u < end && is_of_batch; u++) x->across[u] += g->storages[s].bytes;
        }
}

/* Returns the bytes of a micro-batch during another one's turn; its own next step is `next`. */
static int64_t resting(const simulation *x, int next)
{
    int64_t bytes = next < x->n_batch ? x->across[next] : 0;
    for (int c = 0; c < x->rank->shape.n_chunks; c++) {
        const stretch *last = x->waits_with_batch ? &x->turns[MP_PASS_WEIGHTS][c] : &x->turns[MP_PASS_BACKWARD][c];
        if (next >= x->turns[MP_PASS_FORWARD][c].end && next < last->end) bytes += x->rank->batch_bytes[c];
    }
    return bytes;
}

/* Simulates all turns of the rank, with separate memory for each micro-batch, before mp_rank_hold changes the graph. */
static int64_t simulate(const mp_rank *rank, const mp_step *steps, size_t n)
{
    const mp_graph *g = rank->graph;
    simulation x = {.rank = rank,
                    .steps = steps,
                    .n = (int)n,
                    .alive = mp_alloc(n, sizeof(int64_t)),
                    .across = mp_alloc(n, sizeof(int64_t))};
    const size_t n_turns = mp_schedule_turns(&rank->shape);
    mp_turn *turns = mp_alloc(n_turns, sizeof *turns);
    int64_t always = 0, most = 0;
    int next[BATCHES_MAX] = {0}; /* per micro-batch */
    prepare(&x);
    for (size_t s = 0; s < g->n_storages; s++)
        if (mp_storage_is_static(&g->storages[s]) && (int)s != rank->held) always += g->storages[s].bytes;
    mp_schedule_order(&rank->shape, rank->rank, turns);
    for (size_t k = 0; k < n_turns; k++) {
        const stretch turn = x.turns[turns[k].pass][turns[k].chunk];
        int64_t others = 0;
        if (!turn.end) continue; /* a turn without steps has no deferred gradients */
        assert_int_equal(turn.begin, next[turns[k].micro_batch]);
        for (int m = 0; m < rank->shape.n_micro_batches; m++)
            if (m != turns[k].micro_batch && next[m]) others += resting(&x, next[m]);
        for (int t = turn.begin; t < turn.end; t++)
            if (always + others + x.alive[t] > most) most = always + others + x.alive[t];
        next[turns[k].micro_batch] = turn.end;
    }
    for (int t = x.n_batch; t < x.n; t++)
        if (always + x.alive[t] > most) most = always + x.alive[t];
    mp_free(turns);
    mp_free(x.alive);
    mp_free(x.across);
    return most;
}

/* ---- the tests ---- */

static void hold_as(mp_rank *rank, const mp_step *steps, size_t n)
{
    int64_t held[CHUNKS_MAX];
    assert_int_equal(mp_rank_held_bytes(rank, steps, n, held, NULL), MP_OK);
    assert_int_equal(mp_rank_hold(rank, held, NULL), MP_OK);
}

static void is_checked(const mp_rank *rank, const mp_step *steps, size_t n)
{
    mp_error err = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    assert_int_equal(mp_plan_new(rank->graph, "", steps, n, &plan, &err), MP_OK);
    if (mp_plan_check(rank->graph, plan, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_rank_check(rank, steps, n, &err) != MP_OK) fail_msg("%s", err.message);
}

static int64_t peak_of(const mp_graph *graph, const mp_step *steps, size_t n)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    assert_int_equal(mp_timeline_build(graph, steps, n, &timeline, NULL), MP_OK);
    return timeline->peak_bytes;
}

static mp_pipeline *cut(const mp_graph *graph, const mp_ranks *ranks, mp_pipeline_shape shape)
{
    const mp_pipeline_request request = {.graph = graph, .ranks = ranks, .shape = shape};
    mp_pipeline *pipeline = NULL;
    mp_error err = {0};
    const mp_status st = mp_pipeline_new(&request, &pipeline, &err);
    if (st != MP_OK && !strstr(err.message, "blocks at most")) fail_msg("%s", err.message);
    return pipeline;
}

static mp_pipeline_shape shape_of(random_source *random)
{
    const int p = 2 + random_below(random, RANKS_MAX - 1);
    mp_pipeline_shape shape = {.schedule = (mp_schedule)random_below(random, MP_N_SCHEDULES), .n_ranks = p, .n_chunks = 1};
    shape.n_micro_batches = 1 + random_below(random, 7);
    if (shape.schedule != MP_SCHEDULE_INTERLEAVED) return shape;
    shape.n_ranks = 2;
    shape.n_chunks = CHUNKS_MAX;
    shape.n_micro_batches = 2 * (1 + random_below(random, 3));
    return shape;
}

TEST(a_rank_takes_what_all_its_micro_batches_take_at_once)
{
    int n_ranks[MP_N_SCHEDULES] = {0};
    random_source random = {3};
    for (uint64_t seed = 1; seed <= 150; seed++) {
        const mp_pipeline_shape shape = shape_of(&random);
        mp_ranks ranks = ranks_of(shape.n_ranks);
        MP_OWNED_BY(mp_graph_free) mp_graph *whole = random_network(seed, 3 + random_below(&random, 5), seed % 2);
        MP_OWNED_BY(mp_pipeline_free) mp_pipeline *pipeline = cut(whole, &ranks, shape);
        for (int r = 0; pipeline && r < shape.n_ranks; r++) {
            MP_CLEARED_BY(mp_rank_free) mp_rank rank = {0};
            mp_error err = {0};
            if (mp_pipeline_rank_graph(pipeline, r, &rank, &err) != MP_OK) fail_msg("%s", err.message);
            MP_OWNED mp_step *steps = mp_alloc(rank.graph->n_nodes, sizeof *steps);
            const size_t n = mp_keep_all(rank.graph, steps);
            const int64_t truth = simulate(&rank, steps, n);
            hold_as(&rank, steps, n);
            is_checked(&rank, steps, n);
            const int64_t planned = peak_of(rank.graph, steps, n);
            assert_int_equal(planned, truth);
            n_ranks[shape.schedule]++;
        }
    }
    for (int k = 0; k < MP_N_SCHEDULES; k++) assert_true(n_ranks[k] > 50);
}

TEST(ranks_compute_and_hold_what_one_device_does_and_what_is_tied)
{
    random_source random = {5};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const mp_pipeline_shape shape = shape_of(&random);
        mp_ranks ranks = ranks_of(shape.n_ranks);
        MP_OWNED_BY(mp_graph_free) mp_graph *whole = random_network(seed, 3 + random_below(&random, 5), seed % 2);
        MP_OWNED_BY(mp_pipeline_free) mp_pipeline *pipeline = cut(whole, &ranks, shape);
        int64_t ticks[MP_N_PHASES] = {0}, bytes[MP_N_KINDS] = {0}, extra = 0, n_tied = 0;
        if (!pipeline) continue;
        for (int r = 0; r < shape.n_ranks; r++) {
            MP_CLEARED_BY(mp_rank_free) mp_rank rank = {0};
            assert_int_equal(mp_pipeline_rank_graph(pipeline, r, &rank, NULL), MP_OK);
            for (size_t v = 0; v < rank.graph->n_nodes; v++) {
                const mp_node *node = &rank.graph->nodes[v];
                if (node->alternatives->channel <= MP_CHANNEL_SECOND_STREAM) ticks[node->phase] += node->alternatives->ticks;
            }
            for (size_t s = 0; s < rank.graph->n_storages; s++) {
                bytes[rank.graph->storages[s].kind] += rank.graph->storages[s].bytes;
                if (rank.graph->storages[s].kind == MP_KIND_PARAMETER && strstr(rank.graph->storages[s].name, "w0"))
                    extra += rank.graph->storages[s].bytes * (n_tied++ > 0); /* the tied weight is on two ranks */
            }
        }
        for (size_t v = 0; v < whole->n_nodes; v++) ticks[whole->nodes[v].phase] -= whole->nodes[v].alternatives->ticks;
        for (size_t s = 0; s < whole->n_storages; s++) bytes[whole->storages[s].kind] -= whole->storages[s].bytes;
        for (int p = 0; p < MP_PHASE_UPDATE; p++) assert_int_equal(ticks[p], 0);
        assert_true(extra ? ticks[MP_PHASE_UPDATE] > 0 : ticks[MP_PHASE_UPDATE] == 0); /* both ranks update it */
        assert_int_equal(bytes[MP_KIND_PARAMETER], extra);
        assert_int_equal(bytes[MP_KIND_GRADIENT], extra);
        assert_int_equal(bytes[MP_KIND_OPTIMIZER_STATE], 2 * extra);
        assert_int_equal(bytes[MP_KIND_INPUT], 0);
    }
}

/* Plans of ranks reserve exactly the bytes that they keep, and their peak equals the simulation's. */
TEST(plans_of_ranks_take_what_the_simulation_says)
{
    int n_plans = 0, n_refuted = 0;
    random_source random = {11};
    static const mp_schedule schedules[] = {MP_SCHEDULE_GPIPE, MP_SCHEDULE_1F1B, MP_SCHEDULE_ZB_H1};
    for (uint64_t seed = 1; seed <= 18; seed++) {
        const mp_pipeline_shape shape = {.schedule = schedules[seed % 3], .n_ranks = 2, .n_chunks = 1, .n_micro_batches = 4};
        const int number = shape.schedule == MP_SCHEDULE_ZB_H1; /* the rank with deferred gradients */
        mp_ranks ranks = ranks_of(2);
        MP_OWNED_BY(mp_graph_free) mp_graph *whole = random_network(seed, 6, seed % 3 == 0);
        MP_OWNED_BY(mp_pipeline_free) mp_pipeline *pipeline = cut(whole, &ranks, shape);
        MP_CLEARED_BY(mp_rank_free) mp_rank rank = {0};
        if (!pipeline) continue;
        assert_int_equal(mp_pipeline_rank_graph(pipeline, number, &rank, NULL), MP_OK);
        MP_OWNED mp_step *steps = mp_alloc(rank.graph->n_nodes, sizeof *steps);
        const int64_t live = peak_of(rank.graph, steps, mp_keep_all(rank.graph, steps)) - mp_graph_static_bytes(rank.graph);
        mp_request request = {.graph = rank.graph,
                              .budget_bytes = mp_graph_static_bytes(rank.graph) + live * (60 + random_below(&random, 30)) / 100,
                              .solver = "chen"};
        MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        const mp_plan *plan = answer.plan ? answer.plan : answer.smallest;
        hold_as(&rank, plan->steps, plan->n_steps);
        is_checked(&rank, plan->steps, plan->n_steps);
        assert_int_equal(peak_of(rank.graph, plan->steps, plan->n_steps), simulate(&rank, plan->steps, plan->n_steps));
        n_plans += plan->n_steps > rank.graph->n_nodes;
        int64_t held;
        mp_error err = {0};
        assert_int_equal(mp_rank_held_bytes(&rank, plan->steps, plan->n_steps, &held, NULL), MP_OK);
        assert_int_equal(mp_rank_hold(&rank, &(int64_t){held - rank.graph->alignment}, NULL), MP_OK);
        assert_int_equal(mp_rank_check(&rank, plan->steps, plan->n_steps, &err), MP_REFUTED);
        n_refuted += strstr(err.message, "other micro-batches keep") != NULL;
    }
    print_message("%d plans, %d refuted\n", n_plans, n_refuted);
    assert_true(n_plans > 3);
    assert_true(n_refuted > 6);
}

/* A rank that also copies its optimizer state to the host: every plan obeys the rules of issued steps, and the extra time is
 * relative to the step without any copy. */
TEST(plans_of_ranks_with_state_on_the_host_pass_the_checker)
{
    const mp_link link = {.out_bytes_per_second = 1e9, .in_bytes_per_second = 1e9};
    const mp_offload offload = {.host = &link, .least_bytes = 1, .moves_state = true};
    int n_beside = 0; /* transfers between stages that run parallel to compute */
    for (uint64_t seed = 1; seed <= 6; seed++)
        for (int number = 0; number < 2; number++) {
            const mp_pipeline_shape shape = {(mp_schedule)(seed % 2), .n_ranks = 2, .n_chunks = 1, .n_micro_batches = 4};
            mp_ranks ranks = ranks_of(2);
            ranks.network.inside.latency_seconds = 1e-5 * (double)(seed % 4);
            MP_OWNED_BY(mp_graph_free) mp_graph *whole = random_network(seed, 6, seed % 3 == 0);
            MP_OWNED_BY(mp_pipeline_free) mp_pipeline *pipeline = cut(whole, &ranks, shape);
            MP_CLEARED_BY(mp_rank_free) mp_rank rank = {0};
            MP_OWNED_BY(mp_plan_free) mp_plan *plain = NULL;
            MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
            mp_error err = {0};
            size_t n_moved;
            assert_int_equal(mp_pipeline_rank_graph(pipeline, number, &rank, NULL), MP_OK);
            MP_OWNED mp_step *steps = mp_alloc(rank.graph->n_nodes, sizeof *steps);
            assert_int_equal(mp_plan_new(rank.graph, "none", steps, mp_keep_all(rank.graph, steps), &plain, NULL), MP_OK);
            assert_int_equal(mp_graph_offload(rank.graph, &offload, &n_moved, NULL), MP_OK);
            const mp_request request = {
                .graph = rank.graph, .budget_bytes = plain->peak_bytes - (seed % 3 ? 0 : 256), .moves = 4000};
            if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
            assert_non_null(answer.plan);
            assert_int_equal(answer.plan->baseline_ticks, plain->ticks);
            hold_as(&rank, answer.plan->steps, answer.plan->n_steps);
            is_checked(&rank, answer.plan->steps, answer.plan->n_steps);
            for (size_t t = 0; t < answer.plan->n_steps; t++)
                n_beside +=
                    answer.plan->steps[t].until && strcmp(rank.graph->nodes[answer.plan->steps[t].node].op, "Copy") != 0;
        }
    assert_true(n_beside > 6);
}

/* Two products read one tensor, like queries and keys, and one gradient. The operands of their deferred gradients are counted
 * once. */
TEST(what_gradients_of_parameters_wait_for_is_counted_once_in_a_block)
{
    MP_OWNED_BY(mp_graph_free)
    mp_graph *whole = graph_of("data x 8 16; param w 16 16; param q 16 16; param k 16 16; "
                               "MatMul x w -> h; Tanh h -> t; MatMul t q -> a; MatMul t k -> b; "
                               "Add a b -> s; Tanh s -> y; out y");
    MP_OWNED_BY(mp_load_free) mp_load *load = NULL;
    int64_t counted = 0, read = 0, n_twice = 0;
    assert_int_equal(mp_load_of(whole, 1, &load, NULL), MP_OK);
    for (int b = 0; b < load->n_blocks; b++) counted += load->blocks[b].weights_bytes;
    for (int s = 0; s < (int)whole->n_storages; s++)
        for (int b = 0; b < load->n_blocks && !mp_storage_is_static(&whole->storages[s]); b++) {
            int n = 0;
            for (int v = 0; v < (int)whole->n_nodes; v++) {
                const mp_alternative *a = whole->nodes[v].alternatives;
                const bool makes = whole->nodes[v].phase == MP_PHASE_BACKWARD && strstr(whole->nodes[v].name, "parameter");
                n += load->block[v] == b && makes && contains(a->reads, a->n_reads, s);
            }
            read += n ? whole->storages[s].bytes : 0;
            n_twice += n > 1;
        }
    assert_int_equal(counted, read);
    assert_true(n_twice > 0);
}

TEST(what_cannot_be_cut_is_refused)
{
    static const int wrong[][2] = {{0, 0}, {1, 2}, {0, 99}};
    mp_ranks ranks = ranks_of(2);
    MP_OWNED_BY(mp_graph_free) mp_graph *whole = random_network(1, 5, false);
    mp_pipeline_request request = {.graph = whole, .ranks = &ranks, .shape = {MP_SCHEDULE_1F1B, 2, 1, 2}};
    mp_pipeline *pipeline = NULL;
    mp_error err = {0};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        request.begins = wrong[k];
        err = (mp_error){0};
        assert_int_equal(mp_pipeline_new(&request, &pipeline, &err), MP_INVALID);
        assert_non_null(strstr(err.message, "ascending blocks"));
    }
    request.begins = NULL;
    err = (mp_error){0};
    request.shape.n_ranks = 40;
    assert_int_equal(mp_pipeline_new(&request, &pipeline, &err), MP_INVALID);
    if (!strstr(err.message, "40 stages are requested")) fail_msg("%s", err.message);
}
