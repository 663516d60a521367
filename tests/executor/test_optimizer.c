/* test_optimizer.c - updates compared with PyTorch 2.15's optimizers for the same three gradients, and learning-rate schedules
 * computed by hand. */
#include "executor/cpu/base/parallel.h"
#include "executor/kernel/optimizer.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"

enum { N = 3 };

/* Runs one update on the backend, with values copied from and to the host. */
static void run_update(const mp_update *here, int64_t state_bytes, const mp_update_factors *f)
{
    const mp_backend *b = backend_of_tests();
    mp_update u = *here;
    int64_t bytes = u.n * mp_dtype_bits(u.dtype) / 8;
    u.parameter = backend_bring(b, here->parameter, bytes);
    u.gradient = backend_bring(b, (void *)here->gradient, bytes);
    u.state = backend_bring(b, here->state, state_bytes);
    if (u.clip) u.clip = backend_bring(b, (void *)here->clip, sizeof *u.clip);
    b->update(b, &u, 1, f);
    backend_fetch(b, u.parameter, here->parameter, bytes);
    backend_fetch(b, u.state, here->state, state_bytes);
    if (!b->is_host) b->release(b, (void *)u.gradient, bytes);
    if (!b->is_host) b->release(b, (void *)u.clip, sizeof *u.clip);
}

/* Runs three steps from {1, -0.5, 0.25} with gradients {0.1 t, -0.2, 0.05 (t - 2)}. */
static void three_steps(const mp_hyper *h, float clip, float w[N])
{
    float state[2 * N] = {0}, factor = clip;
    w[0] = 1;
    w[1] = -0.5f;
    w[2] = 0.25f;
    for (int t = 0; t < 3; t++) {
        float g[N] = {0.1f * (float)(t + 1) / clip, -0.2f / clip, 0.05f * (float)(t - 1) / clip};
        mp_update_factors f = mp_update_factors_at(h, t);
        mp_update u = {.dtype = MP_DTYPE_FLOAT, .n = N, .parameter = w, .gradient = g, .state = state, .clip = &factor};
        run_update(&u, sizeof state, &f);
    }
}

static void check(mp_optimizer optimizer, bool nesterov, double decay, const double expected[N])
{
    mp_hyper h = mp_hyper_default(optimizer);
    float w[N];
    h.learning_rate = 0.1;
    h.nesterov = nesterov;
    h.weight_decay = decay;
    for (int k = 0; k < 2; k++) {
        three_steps(&h, k ? 0.5f : 1.0f, w);
        for (int e = 0; e < N; e++)
            if (fabs(w[e] - expected[e]) > 5e-7)
                fail_msg("%s: %.9g, not %.9g", mp_optimizer_name(optimizer), w[e], expected[e]);
    }
}

TEST(updates_are_those_of_pytorch)
{
    check(MP_OPTIMIZER_SGD, false, 0.01, (double[]){0.937043011, -0.438561469, 0.249240771});
    check(MP_OPTIMIZER_MOMENTUM, false, 0.01, (double[]){0.899352849, -0.385093391, 0.257129699});
    check(MP_OPTIMIZER_MOMENTUM, true, 0, (double[]){0.854409993, -0.339020014, 0.257694989});
    check(MP_OPTIMIZER_ADAM, false, 0.01, (double[]){0.706610084, -0.20004791, 0.394696712});
    check(MP_OPTIMIZER_ADAMW, false, 0.01, (double[]){0.704981148, -0.198801428, 0.407402873});
}

/* Parameters of one block, several blocks and partial blocks, each with its own gradient. sgd subtracts 0.1 times the gradient.
 */
TEST(many_parameters_are_updated_at_once)
{
    enum { MANY = 5 };
    const mp_backend *there = backend_of_tests();
    const int64_t sizes[MANY] = {3, MP_BLOCK, 2 * MP_BLOCK + 5, 1, MP_BLOCK + 1};
    mp_hyper h = mp_hyper_default(MP_OPTIMIZER_SGD);
    mp_update updates[MANY] = {{0}};
    float *values[MANY];
    h.learning_rate = 0.1;
    h.weight_decay = 0;
    for (int p = 0; p < MANY; p++) {
        const int64_t bytes = sizes[p] * (int64_t)sizeof(float);
        float *gradient = malloc((size_t)bytes);
        assert_non_null(gradient);
        assert_non_null(values[p] = malloc((size_t)bytes));
        for (int64_t k = 0; k < sizes[p]; k++) {
            values[p][k] = (float)(k % 7);
            gradient[k] = (float)(p + 1);
        }
        updates[p] = (mp_update){.dtype = MP_DTYPE_FLOAT, .n = sizes[p]};
        updates[p].parameter = backend_bring(there, values[p], bytes);
        updates[p].gradient = backend_bring(there, gradient, bytes);
        if (!there->is_host) free(gradient);
    }
    const mp_update_factors f = mp_update_factors_at(&h, 0);
    there->update(there, updates, MANY, &f);
    for (int p = 0; p < MANY; p++) {
        const int64_t bytes = sizes[p] * (int64_t)sizeof(float);
        backend_fetch(there, updates[p].parameter, values[p], bytes);
        for (int64_t k = 0; k < sizes[p]; k++)
            if (fabs((double)values[p][k] - ((double)(k % 7) - 0.1 * (p + 1))) > 1e-6)
                fail_msg("parameter %d of %d, element %d: %g", p, MANY, (int)k, (double)values[p][k]);
        if (there->is_host)
            free((void *)updates[p].gradient);
        else
            there->release(there, (void *)updates[p].gradient, bytes);
        free(values[p]);
    }
}

TEST(half_precision_parameters_follow_their_master_copy)
{
    uint16_t w[N] = {0x3f80, 0xbf00, 0x3e80}; /* 1, -0.5, 0.25 */
    float memory[3 * N] = {0};
    mp_hyper h = mp_hyper_default(MP_OPTIMIZER_ADAMW);
    h.learning_rate = 1e-5; /* smaller than one rounding step of bfloat16 */
    memcpy(memory + 2 * N, (float[]){1, -0.5f, 0.25f}, N * sizeof(float));
    for (int t = 0; t < 2000; t++) {
        uint16_t g[N] = {0x3f80, 0xbf80, 0x3f80};
        mp_update_factors f = mp_update_factors_at(&h, t);
        mp_update u = {.dtype = MP_DTYPE_BFLOAT16, .n = N, .parameter = w, .gradient = g, .state = memory};
        run_update(&u, sizeof memory, &f);
    }
    /* 2000 steps of about 1e-5: 1 - 0.02, -0.5 + 0.02, 0.25 - 0.02, and a weight decay of 2e-4 relative to each */
    const double expected[N] = {0.9798, -0.4799, 0.22995};
    for (int e = 0; e < N; e++) {
        uint32_t word = (uint32_t)w[e] << 16;
        float rounded;
        memcpy(&rounded, &word, sizeof rounded);
        assert_true(fabs(memory[2 * N + e] - expected[e]) < 2e-4);
        assert_true(fabs(rounded - memory[2 * N + e]) <= fabs(memory[2 * N + e]) / 256);
    }
}

TEST(the_norm_of_all_gradients_is_brought_down_to_the_limit)
{
    const mp_backend *there = backend_of_tests();
    float a[2] = {3, 4}, b[1] = {12}, factor = 0;
    int64_t bytes = there->norm_workspace_bytes(there, 2);
    const double limits[] = {2, 13.5}, expected[] = {0.4615384340286255 / 3, 1}; /* from clip_grad_norm_ */
    mp_update gradients[2] = {{.dtype = MP_DTYPE_FLOAT, .n = 2, .gradient = backend_bring(there, a, sizeof a)},
                              {.dtype = MP_DTYPE_FLOAT, .n = 1, .gradient = backend_bring(there, b, sizeof b)}};
    void *room = there->allocate(there, bytes);
    for (int k = 0; k < 2; k++) {
        float *at = backend_bring(there, &factor, sizeof factor);
        there->clip(there, gradients, 2, limits[k], room, at);
        backend_fetch(there, at, &factor, sizeof factor);
        assert_true(fabs(factor - expected[k]) < 4e-7);
    }
    there->release(there, room, bytes);
    backend_fetch(there, (void *)gradients[0].gradient, a, sizeof a);
    backend_fetch(there, (void *)gradients[1].gradient, b, sizeof b);
}

TEST(the_rate_rises_and_falls)
{
    mp_hyper h = mp_hyper_default(MP_OPTIMIZER_ADAM);
    h.learning_rate = 1;
    h.warmup_steps = 4;
    h.n_steps = 12;
    assert_true(fabs(mp_learning_rate(&h, 0) - 0.25) < 1e-12);
    assert_true(fabs(mp_learning_rate(&h, 3) - 1) < 1e-12);
    assert_true(mp_learning_rate(&h, 100) == 1);
    h.schedule = MP_RATE_LINEAR;
    assert_true(fabs(mp_learning_rate(&h, 8) - 0.5) < 1e-12);
    assert_true(fabs(mp_learning_rate(&h, 12)) < 1e-12 && fabs(mp_learning_rate(&h, 99)) < 1e-12);
    h.schedule = MP_RATE_COSINE;
    assert_true(fabs(mp_learning_rate(&h, 4) - 1) < 1e-12);
    assert_true(fabs(mp_learning_rate(&h, 6) - 0.853553390593) < 1e-9);
    assert_true(fabs(mp_learning_rate(&h, 8) - 0.5) < 1e-9);
}

TEST(values_out_of_range_are_refused)
{
    mp_hyper h = mp_hyper_default(MP_OPTIMIZER_ADAM);
    mp_error err = {0};
    assert_int_equal(mp_hyper_check(&h, &err), MP_OK);
    h.learning_rate = NAN;
    assert_int_equal(mp_hyper_check(&h, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "learning rate"));
    h = mp_hyper_default(MP_OPTIMIZER_MOMENTUM);
    h.momentum = 1;
    assert_int_equal(mp_hyper_check(&h, NULL), MP_INVALID);
}
