/* test_choices_trained.c - gradients with a choice of saved tensors, in planned and run networks: the graph saves enough for
 * backward, with and without simplification. tests/kernels/test_choices.c tests the kernels' values. */
#include "memplan/simplify.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

/* p is trained; a and b are data. The loss is the mean square of y + 1. */
typedef struct network {
    const char *text;
    double p[4], a[4], b[4], gradient[4];
} network;

static const network networks[] = {
    {"param p 4; Max@13 p p -> y; out y", {1, -2, 3, 0}, {0}, {0}, {1, -.5, 2, .5}},
    {"param p 4; data a 4; Max@13 p a -> y; out y", {1, 2, 0, 3}, {1, 3, 0, 1}, {0}, {.5, 0, .25, 2}},
    {"param p 4; data a 4; data b 4; Min@13 a p b -> y; out y",
     {1, 1, 2, 0},
     {1, 1, 1, 0},
     {2, 1, 3, 0},
     {.5, 1.0 / 3, 0, 1.0 / 6}},
    /* only backward reads the indices */
    {"param p 1 4; ints k 2; TopK@11 p k -> v i axis=1; out v", {1, 5, 3, 3}, {0}, {0}, {0, 6, 4, 0}},
    {"param p 4; data a 4; Mod@13 a p -> y fmod=1; out y", {2, -2, 3, 1}, {5, 5, 2, 1}, {0}, {-2, 2, 0, -.5}},
    {"param p 4; data a 4; Mod@13 p a -> y; out y", {5, -5, 2, 1}, {2, 2, 3, 1}, {0}, {1, 1, 1.5, .5}},
    {"param p 4; LeakyRelu@16 p -> y alpha=-0.5; out y", {2, -2, 0, -4}, {0}, {0}, {1.5, -.5, -.25, -.75}},
    {"param p 4; Elu@6 p -> y alpha=-1.0; out y", {2, 0, 1, 0}, {0}, {0}, {1.5, -.5, 1, -.5}},
    {"param p 4; data a 1; data b 1; Clip@13 p a b -> y; out y", {-3, -2, 1, 2}, {-2}, {2}, {0, -.25, 1, .75}},
    {"param p 4; data a 1; Clip@13 p a -> y; out y", {-3, -2, 1, 2}, {-2}, {0}, {0, -.25, 1, 1.5}},
    {"param p 4; Clip@6 p -> y min=-2.0 max=2.0; out y", {-3, -2, 1, 2}, {0}, {0}, {0, 0, 1, 0}},
};

typedef struct values {
    const network *n;
    training_case *t;
} values;

static mp_status put(training_case *t, mp_execution *e, const char *name, const double *numbers, double shift, mp_error *err)
{
    const int tensor = mp_model_find(t->model, name);
    mp_array there, host;
    float room[16] = {0};
    if (tensor < 0 || t->program->bindings->storage[tensor] < 0) return MP_OK;
    mp_status st = mp_execution_tensor(e, tensor, &there, err);
    host = mp_array_plain(MP_DTYPE_FLOAT, there.rank, there.dims);
    host.data = room;
    for (int64_t k = 0; k < mp_array_elements(&host); k++) room[k] = (float)((numbers && k < 4 ? numbers[k] : 0) + shift);
    return st == MP_OK ? t->program->backend->upload(t->program->backend, &host, &there, err) : st;
}

static mp_status fill(void *data, int64_t micro_batch, mp_execution *e, mp_error *err)
{
    const values *v = data;
    (void)micro_batch;
    MP_CHECK(put(v->t, e, "p", v->n->p, 0, err));
    MP_CHECK(put(v->t, e, "a", v->n->a, 0, err));
    MP_CHECK(put(v->t, e, "b", v->n->b, 0, err));
    return put(v->t, e, "target", NULL, -1, err);
}

static void check(const network *n, bool simplified)
{
    training_case t = {.model = model_text(n->text)};
    const mp_training_options options = {.loss = MP_LOSS_MSE, .optimizer = MP_OPTIMIZER_NONE, .dtype = MP_DTYPE_FLOAT};
    const mp_execution_options poisoned = {.hyper = mp_hyper_default(MP_OPTIMIZER_SGD), .poison = true};
    values all = {n, &t};
    mp_error err = {0};
    mp_array there;
    int loss;
    double value;
    float gradient[4];
    assert_int_equal(mp_model_simplify(t.model, MP_RULES_EXECUTOR, simplified, NULL, &err), MP_OK);
    assert_int_equal(mp_model_add_loss(t.model, &options, &loss, &err), MP_OK);
    if (mp_program_build(backend_of_tests(), t.model, &options, loss, &t.program, &err) != MP_OK)
        fail_msg("%s: %s", n->text, err.message);
    mp_plan *plan = training_keep_all(&t);
    mp_execution *e;
    assert_int_equal(mp_execution_new(t.program, plan, &poisoned, &e, &err), MP_OK);
    assert_int_equal(mp_execution_step(e, 0, fill, &all, &value, &err), MP_OK);
    assert_int_equal(mp_execution_gradient(e, mp_model_find(t.model, "p"), &there, &err), MP_OK);
    mp_array host = mp_array_plain(MP_DTYPE_FLOAT, there.rank, there.dims);
    host.data = gradient;
    assert_int_equal(t.program->backend->download(t.program->backend, &there, &host, &err), MP_OK);
    for (int k = 0; k < 4; k++)
        if (!(fabs((double)gradient[k] - n->gradient[k]) <= 1e-6))
            fail_msg("%s: gradient %d is %g, not %g", n->text, k, (double)gradient[k], n->gradient[k]);
    mp_execution_free(e);
    mp_plan_free(plan);
    training_end(&t);
}

TEST(gradients_with_a_choice_are_those_of_pytorch)
{
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) {
        check(&networks[k], true);
        check(&networks[k], false);
    }
}
