/* test_attention.c - tiled attention compared with its separate operators and with finite differences; masks, dropout, threads.
 */
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include "memplan/summary.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/training_case.h"

/* One attention: matrices of rows x depth, columns x depth and columns x value_depth, for batch x heads. */
typedef struct shape {
    int batch, heads, rows, columns, depth, value_depth;
    const char *mask; /* added mask; NULL: none */
    double ratio;
    bool turned; /* K is transposed */
} shape;

static char texts[8][256];

__attribute__((format(printf, 2, 3))) static void write_text(int k, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    assert_true(vsnprintf(texts[k], sizeof texts[k], format, list) < (int)sizeof texts[k]);
    va_end(list);
}

static kernel_run *begin(int k, const char *kind, int version, const char *inputs, const char *attributes, unsigned flags)
{
    static kernel_case cases[8];
    cases[k] = (kernel_case){kind, version, inputs, attributes, 1, -2, 2, strstr(kind, "Attention") ? 7 : 0, 0, 0};
    return kernel_begin(&cases[k], MP_MODE_TRAIN, flags);
}

static void copy(const mp_array *from, const mp_array *to)
{
    assert_int_equal(mp_array_elements(from), mp_array_elements(to));
    for (int64_t k = 0; k < mp_array_elements(from); k++) kernel_set(to, k, kernel_get(from, k));
}

static kernel_run *begin_fused(const shape *s, unsigned flags)
{
    write_text(0, "float32[%d,%d,%d,%d] float32[%d,%d,%d,%d] float32[%d,%d,%d,%d] %s", s->batch, s->heads, s->rows, s->depth,
               s->batch, s->heads, s->turned ? s->depth : s->columns, s->turned ? s->columns : s->depth, s->batch, s->heads,
               s->columns, s->value_depth, s->mask ? s->mask : "");
    write_text(1, "scale=0.4 ratio=%.3f transK=%d", s->ratio, s->turned);
    return begin(0, "memplan:ScaledDotProductAttention", 1, texts[0], texts[1], flags | KERNEL_BACKWARD);
}

/* Returns the largest difference, relative to the largest element (at least 1e-3). */
static double difference(const mp_array *a, const mp_array *b)
{
    double most = 0, largest = 1e-3;
    assert_int_equal(mp_array_elements(a), mp_array_elements(b));
    for (int64_t k = 0; k < mp_array_elements(a); k++) {
        most = fmax(most, fabs(kernel_get(a, k) - kernel_get(b, k)));
        largest = fmax(largest, fabs(kernel_get(b, k)));
        if (isnan(kernel_get(a, k))) return INFINITY;
    }
    return most / largest;
}

static void check_close(const shape *s, const char *what, const mp_array *fused, const mp_array *chain, double tolerance)
{
    double d = difference(fused, chain);
    if (!(d <= tolerance)) fail_msg("%d x %d, %s: %s is off by %g", s->rows, s->columns, s->mask ? s->mask : "", what, d);
}

/* Computes the same with FusedMatMul, Add, Softmax, Dropout and MatMul, forward and backward, and compares. */
static void compare_with_chain(const shape *s, unsigned flags, double tolerance)
{
    kernel_run *r = begin_fused(s, flags), *add = NULL;
    const mp_operands *f = &r->forward, *b = &r->backward;
    const bool is_cpu = !strcmp(backend_of_tests()->name, "cpu"); /* cublasLt needs contiguous rows or columns */
    const unsigned products = is_cpu ? flags : flags & ~(unsigned)KERNEL_CHANNELS_LAST;
    flags |= KERNEL_BACKWARD;
    write_text(2, "float32[%d,%d,%d,%d] float32[%d,%d,%d,%d]", s->batch, s->heads, s->rows, s->depth, s->batch, s->heads,
               s->turned ? s->depth : s->columns, s->turned ? s->columns : s->depth);
    write_text(3, "transB=%d alpha=0.4", !s->turned);
    write_text(4, "float32[%d,%d,%d,%d]", s->batch, s->heads, s->rows, s->columns);
    write_text(5, "%s float32[]={%.3f} bool[]={1}", texts[4], s->ratio);
    write_text(6, "%s float32[%d,%d,%d,%d]", texts[4], s->batch, s->heads, s->columns, s->value_depth);
    if (s->mask) write_text(7, "%s %s", texts[4], s->mask);
    kernel_run *qk = begin(1, "com.microsoft:FusedMatMul", 1, texts[2], texts[3], products | KERNEL_BACKWARD);
    kernel_run *softmax = begin(2, "Softmax", 13, texts[4], "", flags);
    kernel_run *dropout = begin(3, "Dropout", 13, texts[5], "", flags);
    kernel_run *pv = begin(4, "MatMul", 13, texts[6], "", products | KERNEL_BACKWARD);
    if (s->mask) add = begin(5, "Add", 13, texts[7], "", flags & ~(unsigned)KERNEL_BACKWARD);

    copy(&f->in[0], &qk->forward.in[0]);
    copy(&f->in[1], &qk->forward.in[1]);
    kernel_forward(qk);
    if (add) {
        copy(&f->in[3], &add->forward.in[1]);
        copy(&qk->forward.out[0], &add->forward.in[0]);
        kernel_forward(add);
    }
    copy(add ? &add->forward.out[0] : &qk->forward.out[0], &softmax->forward.in[0]);
    kernel_forward(softmax);
    copy(&softmax->forward.out[0], &dropout->forward.in[0]);
    kernel_forward(dropout);
    copy(&dropout->forward.out[0], &pv->forward.in[0]);
    copy(&f->in[2], &pv->forward.in[1]);
    kernel_forward(pv);
    kernel_forward(r);
    check_close(s, "Y", &f->out[0], &pv->forward.out[0], tolerance);

    copy(&b->d_out[0], &pv->backward.d_out[0]);
    kernel_backward(pv);
    copy(&pv->backward.d_in[0], &dropout->backward.d_out[0]);
    kernel_backward(dropout);
    copy(&dropout->backward.d_in[0], &softmax->backward.d_out[0]);
    kernel_backward(softmax);
    copy(&softmax->backward.d_in[0], &qk->backward.d_out[0]);
    kernel_backward(qk);
    kernel_backward(r);
    check_close(s, "dQ", &b->d_in[0], &qk->backward.d_in[0], tolerance);
    check_close(s, "dK", &b->d_in[1], &qk->backward.d_in[1], tolerance);
    check_close(s, "dV", &b->d_in[2], &pv->backward.d_in[1], tolerance);

    kernel_run *all[] = {r, qk, softmax, dropout, pv, add};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k]) kernel_end(all[k]);
}

static const shape shapes[] = {
    {1, 1, 3, 5, 4, 4, NULL, 0, false},
    {2, 3, 64, 128, 16, 16, NULL, 0, false},
    {2, 3, 130, 201, 24, 40, NULL, 0, false},
    {1, 2, 201, 70, 40, 24, NULL, 0, true},
    {2, 2, 70, 150, 8, 12, "float32[2,1,1,150]", 0, false},
    {2, 2, 70, 150, 8, 12, "float32[70,150]", 0, true},
    {2, 2, 70, 150, 8, 12, "float32[2,2,70,1]", 0, false},
    {2, 3, 67, 133, 8, 12, NULL, 0.25, false},
    {2, 3, 67, 133, 8, 12, "float32[1,3,67,133]", 0.625, true},
    {1, 1, 1, 1, 1, 1, NULL, 0, false},
    {1, 2, 65, 1, 3, 1, NULL, 0, true},
};

TEST(it_is_the_chain_of_operators)
{
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) compare_with_chain(&shapes[k], 0, 1e-5);
}

TEST(it_is_the_chain_in_bfloat16)
{
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        if (shapes[k].columns > 1) compare_with_chain(&shapes[k], KERNEL_BFLOAT16, 2e-2);
}

TEST(it_is_the_chain_in_other_layouts)
{
    for (size_t k = 0; k < 4; k++) compare_with_chain(&shapes[k], KERNEL_CHANNELS_LAST, 1e-5);
}

/* Returns the index in `from` of element e of an array that is its transposition by `order`. */
static int64_t turned_index(const mp_array *to, const int *order, const mp_array *from, int64_t e)
{
    int64_t at[4], index = 0;
    for (int d = 3; d >= 0; e /= to->dims[d--]) at[order[d]] = e % to->dims[d];
    for (int d = 0; d < 4; d++) index = index * from->dims[d] + at[d];
    return index;
}

static void turn(const mp_array *from, const int *order, const mp_array *to)
{
    for (int64_t e = 0; e < mp_array_elements(to); e++) kernel_set(to, e, kernel_get(from, turned_index(to, order, from, e)));
}

static void assert_turned(const mp_array *from, const int *order, const mp_array *to, double tolerance)
{
    for (int64_t e = 0; e < mp_array_elements(to); e++) {
        const double expected = kernel_get(from, turned_index(to, order, from, e));
        assert_true(fabs(kernel_get(to, e) - expected) <= tolerance * (1 + fabs(expected)));
    }
}

/* Attention with heads in front and with heads side by side gives the same values, including the dropped elements. */
TEST(operands_may_lie_as_transpositions)
{
    static const int orders[][4] = {
        {0, 2, 1, 3}, {2, 0, 1, 3}, {1, 2, 0, 3}}; /* for Q, K, V and Y: from tensor to head order */
    static const char *const others[] = {"scale=0.4", "causal=1", "ratio=0.3"};
    const int sizes[4][4] = {{2, 3, 70, 16}, {2, 3, 130, 16}, {2, 3, 130, 24}, {2, 3, 70, 24}};
    for (int k = 0; k < 9; k++) {
        char text[4][40], perms[4][24];
        int inverse[4][4];
        for (int i = 0; i < 4; i++) {
            const int *order =
                orders[(k / 3 + i) % 3]; /* sizes[d] is dimension order[d] of the tensor; Y's perm is the inverse */
            int lies[4];
            for (int d = 0; d < 4; d++) lies[order[d]] = sizes[i][d], inverse[i][order[d]] = d;
            const int *perm = i < 3 ? order : inverse[i];
            snprintf(text[i], sizeof text[i], "float32[%d,%d,%d,%d]", lies[0], lies[1], lies[2], lies[3]);
            snprintf(perms[i], sizeof perms[i], "[%d,%d,%d,%d]", perm[0], perm[1], perm[2], perm[3]);
        }
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const unsigned flags = KERNEL_BACKWARD | (bf16 ? KERNEL_BFLOAT16 : 0);
            write_text(0, "float32[2,3,70,16] float32[2,3,130,16] float32[2,3,130,24]");
            write_text(1, "%s %s %s", text[0], text[1], text[2]);
            write_text(2, "%s permQ=%s permK=%s permV=%s permY=%s", others[k % 3], perms[0], perms[1], perms[2], perms[3]);
            kernel_run *front = begin(0, "memplan:ScaledDotProductAttention", 1, texts[0], others[k % 3], flags);
            kernel_run *side = begin(1, "memplan:ScaledDotProductAttention", 1, texts[1], texts[2], flags);
            for (int i = 0; i < 3; i++) turn(&front->forward.in[i], inverse[i], &side->forward.in[i]);
            turn(&front->backward.d_out[0], inverse[3], &side->backward.d_out[0]);
            kernel_forward(front);
            kernel_backward(front);
            kernel_forward(side);
            kernel_backward(side);
            const double tolerance = bf16 ? 1e-2 : 1e-6; /* a library may choose another engine */
            assert_turned(&front->forward.out[0], inverse[3], &side->forward.out[0], tolerance);
            for (int i = 0; i < 3; i++) assert_turned(&front->backward.d_in[i], inverse[i], &side->backward.d_in[i], tolerance);
            kernel_end(front);
            kernel_end(side);
        }
    }
}

TEST(gradients_are_those_of_differences)
{
    const char *const kind = "memplan:ScaledDotProductAttention";
    const kernel_case cases[] = {
        {kind, 1, "float32[2,3,4] float32[2,5,4] float32[2,5,3]", "scale=0.5", 1, 0, 0, 7, 0, 0},
        {kind, 1, "float32[3,4] float32[4,5] float32[5,3]", "transK=1", 1, 0, 0, 7, 0, 0},
        {kind, 1, "float32[2,2,3,4] float32[2,2,5,4] float32[2,2,5,3]", "causal=1", 1, 0, 0, 7, 0, 0},
        {kind, 1, "float32[2,6,4] float32[2,3,4] float32[2,3,3]", "causal=1", 1, 0, 0, 7, 0, 0},
        {kind, 1, "float32[2,3,4] float32[2,5,4] float32[2,5,3]", "ratio=0.5", 1, 0, 0, 7, 0, 0},
        {kind, 1, "float32[2,3,4] float32[2,5,4] float32[2,5,3] float32[2,3,5]", "", 1, 0, 0, 7, 0, 0},
        {kind, 1, "float32[2,3,4] float32[2,5,4] float32[2,5,3] - bool[3,5]={1,0,1,1,0,0,1,1,1,0,1,0,0,0,0}", "fill=-3.0", 1, 0,
         0, 7, 0, 0},
        {kind, 1, "float32[2,3,4] float32[2,5,4] float32[2,5,3] float32[5] bool[1,5]={1,0,1,1,0}", "keeps=0", 1, 0, 0, 7, 0, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}

/* A causal mask as an attribute, as booleans, and as added minus infinity gives the same results. */
TEST(a_causal_mask_may_be_said_in_three_ways)
{
    static const int sizes[][2] = {{300, 300}, {150, 330}, {330, 150}};
    static const char *const masks[] = {"", "- bool[%d,%d]", "float32[%d,%d]"};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        const int rows = sizes[n][0], columns = sizes[n][1];
        kernel_run *r[3];
        for (int k = 0; k < 3; k++) {
            char mask[64];
            snprintf(mask, sizeof mask, masks[k], rows, columns);
            write_text(k, "float32[2,%d,8] float32[2,%d,8] float32[2,%d,8] %s", rows, columns, columns, mask);
            r[k] = begin(k, "memplan:ScaledDotProductAttention", 1, texts[k], k ? "" : "causal=1", KERNEL_BACKWARD);
            for (int64_t e = 0; k && e < (int64_t)rows * columns; e++)
                kernel_set(&r[k]->forward.in[k == 1 ? 4 : 3], e,
                           k == 1                       ? e % columns <= e / columns
                           : e % columns <= e / columns ? 0
                                                        : (double)-INFINITY);
            for (int i = 0; i < 3; i++) copy(&r[0]->forward.in[i], &r[k]->forward.in[i]);
            copy(&r[0]->backward.d_out[0], &r[k]->backward.d_out[0]);
            kernel_forward(r[k]);
            kernel_backward(r[k]);
            assert_true(difference(&r[k]->forward.out[0], &r[0]->forward.out[0]) <= 1e-6);
            for (int i = 0; i < 3; i++) assert_true(difference(&r[k]->backward.d_in[i], &r[0]->backward.d_in[i]) <= 1e-6);
        }
        for (int k = 0; k < 3; k++) kernel_end(r[k]);
    }
}

/* Two keys, one parallel and one orthogonal to the query: softmax computed by hand. */
TEST(values_are_those_computed_by_hand)
{
    const double e = exp(1.0);
    const char *const kind = "memplan:ScaledDotProductAttention";
    kernel_case c = {kind, 1, "float32[1,2]={1,0} float32[2,2]={2,0,0,3} float32[2,1]={10,20}", "scale=0.5", 1, 0, 0, 0, 0, 0};
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){(10 * e + 20) / (e + 1)}, 1, 1e-6);
    c.attributes = "scale=0.5 causal=1";
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){10}, 1, 1e-6);
    c.attributes = "ratio=0.5";
    kernel_check_values(&c, MP_MODE_EVALUATE, 0, (double[]){(10 * e * e + 20) / (e * e + 1)}, 1, 1e-6);
    c.inputs = "float32[1,2]={1,0} float32[2,2]={2,0,0,3} float32[2,1]={10,20} - bool[2]={0,1}";
    c.attributes = "";
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){20}, 1, 1e-6);
    c.attributes = "keeps=0";
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){10}, 1, 1e-6);
    c.attributes = "fill=2.0";
    kernel_check_values(&c, MP_MODE_TRAIN, 0, (double[]){(10 * e * e + 20) / (e * e + 1)}, 1, 1e-6);
}

/* A fully masked row is NaN, like softmax of only minus infinity. A choice stops the gradient of its scores. Other rows are
 * unaffected. */
TEST(a_row_of_which_nothing_is_left_is_no_number)
{
    static const char *const masks[] = {"float32[2,2]={-inf,-inf,-inf,0}", "- bool[2,2]={0,0,0,1}"};
    for (int k = 0; k < 2; k++) {
        write_text(0, "float32[2,2]={1,0,0,1} float32[2,2]={2,0,0,3} float32[2,1]={10,20} %s", masks[k]);
        kernel_run *r = begin(0, "memplan:ScaledDotProductAttention", 1, texts[0], "", KERNEL_BACKWARD);
        kernel_forward(r);
        assert_true(isnan(kernel_get(&r->forward.out[0], 0)));
        assert_true(kernel_get(&r->forward.out[0], 1) == 20);
        kernel_backward(r);
        assert_true(k ? kernel_get(&r->backward.d_in[0], 0) == 0 : isnan(kernel_get(&r->backward.d_in[0], 0)));
        assert_true(isfinite(kernel_get(&r->backward.d_in[0], 2)));
        assert_true(isnan(kernel_get(&r->backward.d_in[2], 0)));
        kernel_end(r);
    }
}

enum { ROWS = 24, COLUMNS = 16, DEPTH = 8, HEADS = 2 };

/* Computes the gradients of one matrix by their definition. V is the identity, so that Y shows the dropped elements. Returns
 * the number of kept elements. */
static int check_dropped(const kernel_run *run, int64_t m, double ratio, double tolerance)
{
    const mp_operands *b = &run->backward;
    double dk[COLUMNS][DEPTH] = {{0}}, dv[COLUMNS][COLUMNS] = {{0}};
    int n_kept = 0;
    for (int64_t r = 0; r < ROWS; r++) {
        const int64_t row = m * ROWS + r;
        double p[COLUMNS], ds[COLUMNS], w[COLUMNS], sum = 0, mean = 0;
        for (int64_t c = 0; c < COLUMNS; c++) {
            double s = 0;
            for (int64_t d = 0; d < DEPTH; d++)
                s += kernel_get(&b->in[0], row * DEPTH + d) * kernel_get(&b->in[1], (m * COLUMNS + c) * DEPTH + d);
            sum += p[c] = exp(0.4 * s);
        }
        for (int64_t c = 0; c < COLUMNS; c++) {
            const double y = kernel_get(&run->forward.out[0], row * COLUMNS + c);
            p[c] /= sum;
            w[c] = y > 0 ? 1 / (1 - ratio) : 0;
            n_kept += y > 0;
            assert_true(fabs(y - w[c] * p[c]) <= tolerance);
            mean += p[c] * w[c] * kernel_get(&b->d_out[0], row * COLUMNS + c);
            for (int64_t e = 0; e < COLUMNS; e++) dv[c][e] += w[c] * p[c] * kernel_get(&b->d_out[0], row * COLUMNS + e);
        }
        for (int64_t c = 0; c < COLUMNS; c++) ds[c] = 0.4 * p[c] * (w[c] * kernel_get(&b->d_out[0], row * COLUMNS + c) - mean);
        for (int64_t d = 0; d < DEPTH; d++) {
            double dq = 0;
            for (int64_t c = 0; c < COLUMNS; c++) {
                dq += ds[c] * kernel_get(&b->in[1], (m * COLUMNS + c) * DEPTH + d);
                dk[c][d] += ds[c] * kernel_get(&b->in[0], row * DEPTH + d);
            }
            assert_true(fabs(kernel_get(&b->d_in[0], row * DEPTH + d) - dq) <= tolerance);
        }
    }
    for (int64_t c = 0; c < COLUMNS; c++) {
        for (int64_t d = 0; d < DEPTH; d++)
            assert_true(fabs(kernel_get(&b->d_in[1], (m * COLUMNS + c) * DEPTH + d) - dk[c][d]) <= 4 * tolerance);
        for (int64_t e = 0; e < COLUMNS; e++)
            assert_true(fabs(kernel_get(&b->d_in[2], (m * COLUMNS + c) * COLUMNS + e) - dv[c][e]) <= 4 * tolerance);
    }
    return n_kept;
}

/* Holds for every generator; libraries have their own. */
TEST(what_forward_drops_has_no_gradient)
{
    const double ratio = 0.25;
    const shape s = {1, HEADS, ROWS, COLUMNS, DEPTH, COLUMNS, NULL, ratio, false};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        kernel_run *r = begin_fused(&s, bf16 ? KERNEL_BFLOAT16 : 0);
        int n_kept = 0;
        for (int64_t e = 0; e < HEADS * COLUMNS * COLUMNS; e++)
            kernel_set(&r->forward.in[2], e, e / COLUMNS % COLUMNS == e % COLUMNS);
        kernel_forward(r);
        kernel_backward(r);
        for (int64_t m = 0; m < HEADS; m++) n_kept += check_dropped(r, m, ratio, bf16 ? 5e-2 : 1e-5);
        const double share = n_kept / (double)(HEADS * ROWS * COLUMNS);
        assert_true(fabs(share - (1 - ratio)) < 0.06); /* four standard deviations */
        kernel_end(r);
    }
}

/* Results are exactly equal for any number of threads, and in a second run. */
TEST(results_do_not_depend_on_threads_or_repetition)
{
    const shape s = {3, 3, 150, 140, 16, 16, NULL, 0.3, false};
    kernel_run *runs[2];
    for (int k = 0; k < 2; k++) {
#ifdef _OPENMP
        int before = omp_get_max_threads();
        omp_set_num_threads(k ? 5 : 1);
#endif
        runs[k] = begin_fused(&s, 0);
        for (int again = 0; again <= k; again++) {
            kernel_forward(runs[k]);
            kernel_backward(runs[k]);
        }
#ifdef _OPENMP
        omp_set_num_threads(before);
#endif
    }
    const mp_operands *a = &runs[0]->backward, *b = &runs[1]->backward;
    assert_memory_equal(a->out[0].data, b->out[0].data, (size_t)mp_array_bytes(&a->out[0]));
    assert_memory_equal(a->extra[0].data, b->extra[0].data, (size_t)mp_array_bytes(&a->extra[0]));
    for (int i = 0; i < 3; i++) assert_memory_equal(a->d_in[i].data, b->d_in[i].data, (size_t)mp_array_bytes(&a->d_in[i]));
    kernel_end(runs[0]);
    kernel_end(runs[1]);
}

static int64_t saved_bytes(const training_case *t)
{
    mp_error err = {0};
    mp_summary summary;
    assert_int_equal(mp_summarize(t->program->graph, MP_RULES_EXECUTOR, &summary, &err), MP_OK);
    int64_t bytes = summary.saved_activation_bytes;
    mp_summary_free(&summary);
    return bytes;
}

/* Forward computes two products and backward five, all of the same size. Forward saves only the extra, and no alternative saves
 * a dropout mask. On a GPU, Q, K and V are parts of one tensor, which has one gradient. */
TEST(its_nodes_cost_what_it_computes)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    training_case t = training_begin_fused("examples/gpt_bytes.onnx", 0, &options);
    const mp_graph *g = t.program->graph;
    const int n_gradients = strcmp(backend_of_tests()->name, "cpu") ? 1 : 3;
    int n = 0;
    for (size_t k = 0; k < g->n_nodes; k++) {
        const mp_node *node = &g->nodes[k];
        if (strcmp(node->op, "ScaledDotProductAttention") != 0) continue;
        bool backward = node->phase == MP_PHASE_BACKWARD;
        assert_true(node->flops == (backward ? 2.5 : 1) * 4.0 * 16 * 4 * 64 * 64 * 24);
        assert_int_equal(node->n_alternatives, 1);
        assert_int_equal(node->alternatives[0].n_writes + node->alternatives[0].n_adds, backward ? n_gradients : 2);
        n++;
    }
    assert_int_equal(n, 6);
    training_end(&t);
}

TEST(a_transformer_trains_the_same_and_keeps_less)
{
    enum { STEPS = 3 };
    mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};
    mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW);
    double losses[3][STEPS];
    int64_t saved[2], peak[2];
    for (int k = 0; k < 3; k++) { /* separate operators; fused; fused with recomputation */
        training_case t = (k ? training_begin_fused : training_begin)("examples/gpt_bytes.onnx", 0, &options);
        mp_plan *plan = k == 2 ? training_plan(&t, 0.2) : training_keep_all(&t);
        mp_execution *e = training_execution(&t, plan, &hyper);
        training_run(&t, e, 0, STEPS, losses[k]);
        if (k < 2) saved[k] = saved_bytes(&t), peak[k] = plan->peak_bytes;
        mp_execution_free(e);
        mp_plan_free(plan);
        training_end(&t);
    }
    assert_true(saved[1] < saved[0] && peak[1] < peak[0]);
    assert_true(losses[0][1] != losses[0][0]);
    for (int k = 0; k < STEPS; k++) {
        assert_true(fabs(losses[1][k] - losses[0][k]) <= 1e-5 * losses[0][k]);
        assert_true(losses[2][k] == losses[1][k]);
    }
}
