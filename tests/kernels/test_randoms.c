/* test_randoms.c - dropout: the dropped elements, their share, and equal masks in repeated runs; random sources by their
 * moments. */
#include "executor/cpu/base/families.h"
#include "executor/kernel/philox.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

static const kernel_case dropout = {"Dropout", 13, "float32[3,50001] float32[]={0.25}", "", 1, 1, 2, 1, 0, 0};
enum { N = 3 * 50001 };

TEST(a_quarter_is_dropped_and_the_rest_grows)
{
    kernel_run *r = kernel_begin(&dropout, MP_MODE_TRAIN, KERNEL_BACKWARD);
    kernel_forward(r);
    kernel_backward(r);
    int64_t n_dropped = 0;
    for (int64_t k = 0; k < N; k++) {
        bool kept = mp_random_uniform(7, 3, 0, (uint64_t)k) >= 0.25f;
        double x = kernel_get(&r->forward.in[0], k), y = kernel_get(&r->forward.out[0], k);
        double dy = kernel_get(&r->backward.d_out[0], k), dx = kernel_get(&r->backward.d_in[0], k);
        assert_true(fabs(y - (kept ? x / 0.75 : 0)) < 1e-6 && fabs(dx - (kept ? dy / 0.75 : 0)) < 1e-6);
        n_dropped += !kept;
    }
    assert_true(fabs((double)n_dropped / N - 0.25) < 0.005);
    kernel_end(r);
}

TEST(the_same_is_dropped_again_and_something_else_in_the_next_step)
{
    kernel_run *a = kernel_begin(&dropout, MP_MODE_TRAIN, 0), *b = kernel_begin(&dropout, MP_MODE_TRAIN, 0);
    kernel_forward(a);
    kernel_forward(b);
    assert_memory_equal(a->forward.out[0].data, b->forward.out[0].data, N * sizeof(float));
    b->run.step++;
    kernel_forward(b);
    assert_true(memcmp(a->forward.out[0].data, b->forward.out[0].data, N * sizeof(float)) != 0);
    b->run.step--;
    b->forward.op_index = 1;
    kernel_forward(b);
    assert_true(memcmp(a->forward.out[0].data, b->forward.out[0].data, N * sizeof(float)) != 0);
    kernel_end(a);
    kernel_end(b);
}

/* The alternative with a saved mask gives the same results and reads the mask. */
TEST(a_kept_mask_is_the_one_that_is_drawn)
{
    kernel_run *a = kernel_begin(&dropout, MP_MODE_TRAIN, KERNEL_BACKWARD);
    kernel_run *b = kernel_begin(&dropout, MP_MODE_TRAIN, KERNEL_BACKWARD);
    kernel_forward(a);
    kernel_backward(a);
    b->forward.alternative = b->backward.alternative = 1;
    kernel_extra(b, 0, MP_DTYPE_UINT8, N);
    kernel_forward(b);
    b->run.seed = 99; /* backward draws nothing */
    kernel_backward(b);
    assert_memory_equal(a->forward.out[0].data, b->forward.out[0].data, N * sizeof(float));
    assert_memory_equal(a->backward.d_in[0].data, b->backward.d_in[0].data, N * sizeof(float));
    kernel_end(a);
    kernel_end(b);
}

TEST(evaluation_drops_nothing)
{
    kernel_run *r = kernel_begin(&dropout, MP_MODE_EVALUATE, 0);
    kernel_forward(r);
    assert_memory_equal(r->forward.in[0].data, r->forward.out[0].data, N * sizeof(float));
    kernel_end(r);
}

static void check_moments(const char *kind, const char *attributes, double mean, double deviation)
{
    kernel_case c = {kind, 15, "float32[300,301]", attributes, 1, 0.3, 0.3, 0, 0, 0};
    if (!strstr(kind, "Like") && strcmp(kind, "Bernoulli") != 0) c.inputs = "";
    kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
    int64_t n = mp_array_elements(&r->forward.out[0]);
    double sum = 0, squares = 0;
    kernel_forward(r);
    for (int64_t k = 0; k < n; k++) {
        double v = kernel_get(&r->forward.out[0], k);
        sum += v / (double)n;
        squares += v * v / (double)n;
    }
    assert_true(fabs(sum - mean) < 0.02 && fabs(sqrt(squares - sum * sum) - deviation) < 0.02);
    kernel_end(r);
}

TEST(sources_have_the_moments_that_are_asked_for)
{
    check_moments("RandomNormal", "shape=[300,301] mean=1.0 scale=2.0", 1, 2);
    check_moments("RandomUniform", "shape=[300,301] low=-1.0 high=2.0", 0.5, 3 / sqrt(12));
    check_moments("RandomNormalLike", "mean=-1.0 scale=0.5", -1, 0.5);
    check_moments("RandomUniformLike", "", 0.5, 1 / sqrt(12));
    check_moments("Bernoulli", "", 0.3, sqrt(0.21));
}
