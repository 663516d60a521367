/* test_stages.c - pipeline steps compared with every cut of the network and every way to keep less, simulated by independent
 * code; also the meshes rejected by the search. */
#include "estimator/base/memory.h"
#include "planner/math/splitmix.h"
#include "planner/parallel/stages.h"
#include "tests/cases/test.h"

enum { BLOCKS = 5, STAGES = 3, OPTIONS = 3, MICRO_BATCHES = 5, PARAMETERS = 8 };

typedef struct world {
    uint64_t random;
    mp_load load;
    mp_block_load blocks[BLOCKS];
    mp_parameter_load parameters[PARAMETERS];
    mp_ranks ranks;
    mp_link link;
    mp_step_request request;
} world;

static int64_t below(world *w, int64_t n)
{
    return mp_splitmix_below(&w->random, (int)n);
}

static void random_block(world *w, mp_block_load *b)
{
    *b = (mp_block_load){.forward_ticks = 1 + below(w, 20),
                         .backward_ticks = 1 + below(w, 40),
                         .output_bytes = 1 + below(w, 10),
                         .largest_bytes = 1 + below(w, 6),
                         .n_options = 1 + (int)below(w, OPTIONS)};
    int64_t kept = 30 + below(w, 30), extra = 0;
    for (int k = 0; k < b->n_options; k++) {
        b->options[k] =
            (mp_load_option){.kept_bytes = kept, .extra_ticks = extra, .transient_bytes = b->largest_bytes + below(w, 10)};
        kept -= 1 + below(w, 9);
        extra += 1 + below(w, 9);
    }
}

/* Draws a network, a pipeline and a memory in which the pipeline may or may not fit. */
static void random_world(world *w, uint64_t seed)
{
    *w = (world){.random = seed};
    w->load = (mp_load){.tick_seconds = 1, .blocks = w->blocks, .parameters = w->parameters, .n_parameters = PARAMETERS};
    w->load.n_blocks = STAGES + (int)below(w, BLOCKS - STAGES + 1);
    for (int k = 0; k < w->load.n_blocks; k++) random_block(w, &w->blocks[k]);
    for (int k = 0; k < PARAMETERS; k++) {
        const int first = (int)below(w, w->load.n_blocks);
        w->parameters[k] = (mp_parameter_load){.widened = 1,
                                               .value_bytes = 1 + below(w, 9),
                                               .gradient_bytes = 1 + below(w, 9),
                                               .state_bytes = below(w, 20),
                                               .update_ticks = below(w, 5),
                                               .first = first,
                                               .last = below(w, 4) ? first : w->load.n_blocks - 1};
    }
    assert_int_equal(mp_mesh_read("dp=1", &w->ranks.mesh, NULL), MP_OK);
    assert_int_equal(mp_network_read("nvlink4+ib400", &w->ranks.network, NULL), MP_OK);
    w->ranks.mesh.size[MP_DIM_PP] = 1 + below(w, STAGES);
    w->request = (mp_step_request){.load = &w->load,
                                   .ranks = &w->ranks,
                                   .schedule = below(w, 2) ? MP_SCHEDULE_1F1B : MP_SCHEDULE_GPIPE,
                                   .n_chunks = 1,
                                   .n_micro_batches = 1 + below(w, MICRO_BATCHES),
                                   .memory_bytes = 60 + below(w, 400)};
}

/* Draws a link to host memory, and the movable part of the kept bytes. */
static void add_host(world *w)
{
    const int64_t eighths = below(w, 9), times = 1 + below(w, 5);
    for (int k = 0; k < PARAMETERS; k++) w->parameters[k].state_bytes *= times;
    w->link = (mp_link){.out_bytes_per_second = (double)(1 + below(w, 9)),
                        .in_bytes_per_second = (double)(1 + below(w, 9)),
                        .latency_seconds = (double)below(w, 3) / 4,
                        .is_shared = below(w, 3) == 0};
    for (int b = 0; b < w->load.n_blocks; b++)
        for (int k = 0; k < w->blocks[b].n_options; k++) {
            mp_load_option *o = &w->blocks[b].options[k];
            o->movable_bytes = o->kept_bytes * eighths / 8;
            o->n_movable = 1 + (int)below(w, 2);
        }
    w->request.host = (mp_host){
        .link = &w->link, .bytes = below(w, 2) ? 0 : 40 + below(w, 200), .takes_state = below(w, 2), .least_state_bytes = 4};
}

/* ---- the oracle ---- */

typedef struct tried {
    int begin[STAGES + 1], option[BLOCKS];
    bool is_away[BLOCKS], state_is_away[STAGES];
} tried;

static bool reads(const world *w, const tried *t, int stage, int parameter)
{
    const mp_parameter_load *p = &w->parameters[parameter];
    return (p->first >= t->begin[stage] && p->first < t->begin[stage + 1]) ||
           (p->last >= t->begin[stage] && p->last < t->begin[stage + 1]);
}

static bool is_moved(const world *w, const tried *t, int stage, int parameter)
{
    return t->state_is_away[stage] && w->parameters[parameter].state_bytes >= w->request.host.least_state_bytes;
}

static double copy_seconds(const world *w, bool is_in, int64_t n, int64_t bytes)
{
    const double rate = is_in ? w->link.in_bytes_per_second : w->link.out_bytes_per_second;
    return (double)n * w->link.latency_seconds + (double)bytes / rate;
}

/* In time order: forward copies out after a block, backward copies in before it. At most two blocks are being copied, one of
 * them at a time. */
static double pass_of(const world *w, const tried *t, int stage, bool is_backward)
{
    double end[BLOCKS] = {0}, copied[BLOCKS] = {0}, clock = 0, link = 0;
    int away[BLOCKS], n = 0;
    for (int i = 0; i < t->begin[stage + 1] - t->begin[stage]; i++) {
        const int b = is_backward ? t->begin[stage + 1] - 1 - i : t->begin[stage] + i;
        const mp_load_option *o = &w->blocks[b].options[t->option[b]];
        const double ticks = (double)(is_backward ? w->blocks[b].backward_ticks + o->extra_ticks : w->blocks[b].forward_ticks);
        if (!t->is_away[b] || !o->movable_bytes) {
            clock += ticks;
            continue;
        }
        const double copy = copy_seconds(w, is_backward, o->n_movable, o->movable_bytes);
        const int before = n >= 2 ? away[n - 2] : -1;
        if (is_backward) { /* memory for the copy is free when the last block but one has run */
            link = copied[b] = fmax(link, before >= 0 ? end[before] : 0) + copy;
            clock = end[b] = fmax(clock, copied[b]) + ticks;
        } else {
            clock = end[b] = fmax(clock, before >= 0 ? copied[before] : 0) + ticks;
            link = copied[b] = fmax(link, end[b]) + copy;
        }
        away[n++] = b;
    }
    return is_backward ? clock : fmax(clock, link);
}

/* Returns the static bytes, without those on the host. */
static int64_t always_of(const world *w, const tried *t, int stage)
{
    int64_t bytes = 0;
    for (int k = 0; k < PARAMETERS; k++) {
        const mp_parameter_load *p = &w->parameters[k];
        if (reads(w, t, stage, k))
            bytes += p->value_bytes + p->gradient_bytes + (is_moved(w, t, stage, k) ? 0 : p->state_bytes);
    }
    return bytes;
}

/* Copies in each state as soon as the device has memory for it; *most: the largest state bytes on the device. */
static double updates_of(const world *w, const tried *t, int stage, int64_t *most)
{
    double gone[PARAMETERS] = {0}, came = 0, clock = 0, sent = 0;
    int64_t window = 0;
    *most = 0;
    for (int k = 0; k < PARAMETERS; k++)
        if (reads(w, t, stage, k) && is_moved(w, t, stage, k) && 3 * w->parameters[k].state_bytes > window)
            window = 3 * w->parameters[k].state_bytes;
    const int64_t room = w->request.memory_bytes - always_of(w, t, stage);
    if (room < window) window = room;
    for (int k = 0; k < PARAMETERS; k++) {
        const mp_parameter_load *p = &w->parameters[k];
        const bool is_first = p->first >= t->begin[stage] && p->first < t->begin[stage + 1];
        if (!reads(w, t, stage, k)) continue;
        if (!is_moved(w, t, stage, k)) {
            clock += is_first ? (double)p->update_ticks : 0;
            continue;
        }
        double at = w->link.is_shared ? fmax(came, sent) : came;
        int64_t there = 0;
        for (int j = -1; j < k; j++) { /* at `at`, or when an earlier state has left */
            const double moment = j < 0 ? at : gone[j];
            if (moment < at) continue;
            there = 0;
            for (int i = 0; i < k; i++)
                if (gone[i] > moment) there += w->parameters[i].state_bytes;
            if (there + p->state_bytes > window && j + 1 < k) continue;
            at = moment;
            break;
        }
        came = at + copy_seconds(w, true, 1, p->state_bytes);
        clock = fmax(clock, came) + (double)p->update_ticks;
        sent = gone[k] = fmax(clock, sent) + copy_seconds(w, false, 1, p->state_bytes);
        if (there + p->state_bytes > *most) *most = there + p->state_bytes;
    }
    return fmax(clock, sent);
}

static int64_t in_flight(const world *w, int stage, int n)
{
    const int64_t m = w->request.n_micro_batches;
    return n > 1 && w->request.schedule == MP_SCHEDULE_GPIPE ? m : m < n - stage ? m : n - stage;
}

static int64_t bytes_of(const world *w, const tried *t, int stage, int n)
{
    int64_t kept = 0, transient = 0, moving = 0, updates;
    for (int b = t->begin[stage]; b < t->begin[stage + 1]; b++) {
        const mp_load_option *o = &w->blocks[b].options[t->option[b]];
        kept += o->kept_bytes - (t->is_away[b] ? o->movable_bytes : 0);
        if (o->transient_bytes > transient) transient = o->transient_bytes;
        if (t->is_away[b] && 2 * o->movable_bytes > moving) moving = 2 * o->movable_bytes;
    }
    updates_of(w, t, stage, &updates);
    const int64_t held = in_flight(w, stage, n) * kept + transient + moving;
    return always_of(w, t, stage) + (held > updates ? held : updates);
}

static int64_t host_bytes_of(const world *w, const tried *t, int stage, int n)
{
    int64_t bytes = 0;
    for (int b = t->begin[stage]; b < t->begin[stage + 1]; b++)
        if (t->is_away[b]) bytes += in_flight(w, stage, n) * w->blocks[b].options[t->option[b]].movable_bytes;
    for (int k = 0; k < PARAMETERS; k++)
        if (reads(w, t, stage, k) && is_moved(w, t, stage, k)) bytes += w->parameters[k].state_bytes;
    return bytes;
}

static int stage_of(const tried *t, int n, int block)
{
    int stage = n - 1;
    while (t->begin[stage] > block) stage--;
    return stage;
}

/* The first and the last stage that read a parameter sum its gradients. */
static double tied_sums_of(const world *w, const tried *t, int stage, int n)
{
    double seconds = 0;
    for (int k = 0; k < PARAMETERS; k++) {
        const int first = stage_of(t, n, w->parameters[k].first), last = stage_of(t, n, w->parameters[k].last);
        mp_rank_group two = mp_mesh_group(&w->ranks.mesh, MP_DIM_PP);
        if (first == last || (stage != first && stage != last)) continue;
        two.n = 2;
        two.stride *= last - first;
        seconds +=
            mp_collective_seconds(&w->ranks.network, MP_ALL_REDUCE, MP_ALGORITHM_AUTO, two, w->parameters[k].gradient_bytes);
    }
    return seconds;
}

/* Simulates all stages in the order of their schedule until no time changes. */
static double seconds_of(const world *w, const tried *t, int n)
{
    const int m = (int)w->request.n_micro_batches;
    double end[STAGES][2][MICRO_BATCHES] = {{{0}}}, last = 0;
    for (int round = 0; round < 2 * n * m + 2; round++)
        for (int i = 0; i < n; i++) {
            double clock = 0;
            const double ticks[2] = {pass_of(w, t, i, false), pass_of(w, t, i, true)};
            const int flight = (int)in_flight(w, i, n);
            for (int done = 0, f = 0, b = 0; done < 2 * m; done++) {
                const int is_backward = f == m || f - b == flight, k = is_backward ? b++ : f++;
                const int other = is_backward ? i + 1 : i - 1, giver = is_backward ? i : i - 1;
                double ready = 0;
                if (other >= 0 && other < n)
                    ready = end[other][is_backward][k] + mp_collective_seconds(&w->ranks.network, MP_SEND, MP_ALGORITHM_AUTO,
                                                                               mp_mesh_group(&w->ranks.mesh, MP_DIM_PP),
                                                                               w->blocks[t->begin[giver + 1] - 1].output_bytes);
                clock = end[i][is_backward][k] = fmax(clock, ready) + ticks[is_backward];
            }
        }
    for (int i = 0; i < n; i++) {
        int64_t most;
        const double update = updates_of(w, t, i, &most);
        last = fmax(last, end[i][1][m - 1] + tied_sums_of(w, t, i, n) + update);
    }
    return last;
}

typedef struct best {
    double seconds; /* least seconds of fitting choices; INFINITY: none fits */
    int64_t bytes;  /* least bytes of the fullest stage */
} best;

static void try_options(const world *w, tried *t, int block, int n, best *out)
{
    if (block < w->load.n_blocks) {
        for (t->option[block] = 0; t->option[block] < w->blocks[block].n_options; t->option[block]++)
            for (int away = 0; away <= (w->request.host.link != NULL); away++) {
                t->is_away[block] = away;
                try_options(w, t, block + 1, n, out);
            }
        return;
    }
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        if (w->request.host.bytes && host_bytes_of(w, t, i, n) > w->request.host.bytes) return;
    for (int i = 0; i < n; i++) {
        const int64_t bytes = bytes_of(w, t, i, n);
        if (bytes > most) most = bytes;
    }
    if (most < out->bytes) out->bytes = most;
    if (most <= w->request.memory_bytes) out->seconds = fmin(out->seconds, seconds_of(w, t, n));
}

static void try_cuts(const world *w, tried *t, int stage, int n, best *out)
{
    if (stage == n) {
        for (int away = 0; away < (w->request.host.takes_state ? 1 << n : 1); away++) {
            for (int i = 0; i < n; i++) t->state_is_away[i] = away >> i & 1;
            try_options(w, t, 0, n, out);
        }
        return;
    }
    for (int b = t->begin[stage - 1] + 1; b <= w->load.n_blocks - (n - stage); b++) {
        t->begin[stage] = b;
        try_cuts(w, t, stage + 1, n, out);
    }
}

static best oracle(const world *w)
{
    const int n = (int)w->ranks.mesh.size[MP_DIM_PP];
    tried t = {.begin = {0}};
    best found = {.seconds = INFINITY, .bytes = INT64_MAX};
    t.begin[n] = w->load.n_blocks;
    try_cuts(w, &t, 1, n, &found);
    return found;
}

/* ---- the tests ---- */

typedef struct counts {
    int n_fit, n_best, n_missed, n_moved, n_state;
} counts;

static void compare(const world *w, counts *c)
{
    bool fits;
    mp_stage stages[STAGES];
    mp_mesh_choice choice = {.stages = stages};
    const best truth = oracle(w);
    assert_int_equal(mp_step_simulate(&w->request, &choice, &fits, NULL), MP_OK);
    assert_true(mp_step_floor(&w->request) <= truth.bytes);
    assert_true(mp_step_bound(&w->request) <= truth.seconds + 1e-9);
    if (isinf(truth.seconds)) assert_false(fits);
    c->n_missed += !fits && !isinf(truth.seconds);
    if (!fits) return;
    c->n_fit++;
    assert_true(choice.peak_bytes <= w->request.memory_bytes);
    assert_true(choice.seconds >= truth.seconds - 1e-9);
    c->n_best += choice.seconds <= truth.seconds + 1e-9;
    for (size_t k = 0; k < choice.n_stages; k++) {
        c->n_moved += stages[k].moved_bytes > 0;
        c->n_state += stages[k].moved_state_bytes > 0;
        assert_true(!w->request.host.bytes || stages[k].host_bytes <= w->request.host.bytes);
    }
}

TEST(nothing_beats_every_cut_and_bounds_are_below)
{
    enum { WORLDS = 400 };
    counts c = {0};
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        world w;
        random_world(&w, seed);
        compare(&w, &c);
    }
    print_message("%d fit, %d of them as fast as can be; %d that fit with another cut were missed\n", c.n_fit, c.n_best,
                  c.n_missed);
    assert_true(c.n_fit > WORLDS / 4);
    assert_true(c.n_best > c.n_fit / 2);
    assert_true(c.n_missed < WORLDS / 20);
    assert_int_equal(c.n_moved + c.n_state, 0);
}

TEST(with_the_hosts_memory_nothing_beats_every_choice_of_what_is_there)
{
    enum { WORLDS = 1000 };
    counts c = {0};
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        world w;
        random_world(&w, seed);
        if (w.load.n_blocks > STAGES + 1) continue; /* too many combinations */
        add_host(&w);
        w.request.memory_bytes = 60 + below(&w, 240);
        compare(&w, &c);
    }
    print_message("%d fit, %d of them as fast as can be, %d that fit were missed; %d stages with activations on the host, %d "
                  "with state\n",
                  c.n_fit, c.n_best, c.n_missed, c.n_moved, c.n_state);
    assert_true(c.n_fit > WORLDS / 10);
    assert_true(c.n_best > c.n_fit / 2);
    assert_true(c.n_missed < c.n_fit / 20);
    assert_true(c.n_moved > 10 && c.n_state > 10);
}

/* 2 stages of one block, 3 micro-batches, forward 1 and backward 2 each: 1F1B takes 3 * 3, plus 1 and 2 of the other stage. */
TEST(a_pipeline_by_hand)
{
    world w;
    bool fits;
    mp_stage stages[2];
    mp_mesh_choice choice = {.stages = stages};
    random_world(&w, 1);
    w.load = (mp_load){.tick_seconds = 1, .n_blocks = 2, .blocks = w.blocks};
    w.request.load = &w.load;
    w.request.ranks = &w.ranks;
    for (int k = 0; k < 2; k++)
        w.blocks[k] = (mp_block_load){
            .forward_ticks = 1, .backward_ticks = 2, .n_options = 1, .options = {{.kept_bytes = 10, .transient_bytes = 3}}};
    w.ranks.mesh.size[MP_DIM_PP] = 2;
    w.request.schedule = MP_SCHEDULE_1F1B;
    w.request.n_micro_batches = 3;
    w.request.memory_bytes = 23;
    assert_int_equal(mp_step_simulate(&w.request, &choice, &fits, NULL), MP_OK);
    assert_true(fits);
    assert_true(fabs(choice.seconds - 12) < 1e-9);
    assert_true(fabs(choice.bubble_seconds - 3) < 1e-9);
    assert_int_equal(stages[0].in_flight, 2);
    assert_int_equal(stages[0].peak_bytes, 23);
    assert_int_equal(stages[1].peak_bytes, 13);
    w.request.memory_bytes = 22;
    assert_int_equal(mp_step_simulate(&w.request, &choice, &fits, NULL), MP_OK);
    assert_false(fits);
    w.request.schedule = MP_SCHEDULE_GPIPE;
    w.request.memory_bytes = 33;
    choice.seconds = 0;
    assert_int_equal(mp_step_simulate(&w.request, &choice, &fits, NULL), MP_OK);
    assert_true(fits);
    assert_int_equal(stages[0].in_flight, 3);
    assert_true(fabs(choice.seconds - 12) < 1e-9);
}

/* 12 blocks on 2 stages in 80 bytes. Each keeps 10 bytes, or 2 for 2 more ticks of backward. The first stage holds two
 * micro-batches. With 6 blocks it must recompute 3: 24 ticks per micro-batch; the other stage takes 18. With 5 blocks it
 * recomputes 2, in 19 ticks; the other takes 21. A step is the first forward of one stage, all of the other, and the last
 * backward. */
TEST(a_stage_that_recomputes_gets_fewer_blocks)
{
    enum { N = 12, M = 8 };
    mp_block_load blocks[N];
    for (int k = 0; k < N; k++)
        blocks[k] = (mp_block_load){.forward_ticks = 1,
                                    .backward_ticks = 2,
                                    .n_options = 2,
                                    .options = {{.kept_bytes = 10}, {.kept_bytes = 2, .extra_ticks = 2}}};
    const mp_load load = {.tick_seconds = 1, .n_blocks = N, .blocks = blocks};
    mp_ranks ranks = {.bucket_bytes = 0};
    mp_stage stages[2];
    mp_mesh_choice played = {.stages = stages};
    bool fits;
    assert_int_equal(mp_mesh_read("pp=2", &ranks.mesh, NULL), MP_OK);
    assert_int_equal(mp_network_read("nvlink4+ib400", &ranks.network, NULL), MP_OK);
    const mp_step_request step = {
        .load = &load, .ranks = &ranks, .schedule = MP_SCHEDULE_1F1B, .n_chunks = 1, .n_micro_batches = M, .memory_bytes = 80};
    assert_int_equal(mp_step_simulate(&step, &played, &fits, NULL), MP_OK);
    assert_true(fits && stages[0].end == 5);
    assert_true(fabs(stages[0].extra_seconds - 4) < 1e-9 && stages[1].extra_seconds == 0);
    assert_true(fabs(played.seconds - (5 + M * 21 + 14)) < 1e-9);
}
