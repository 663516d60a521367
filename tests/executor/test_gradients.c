/* test_gradients.c - loss and gradients of whole networks compared with PyTorch's (tests/gradients/make_gradients.py), with
 * keep-all and with the most recomputation that plans allow. */
#include "formats/data/safetensors.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

typedef struct truth {
    training_case *t;
    const mp_safetensors *file;
} truth;

static mp_status fill(void *data, int64_t micro_batch, mp_execution *e, mp_error *err)
{
    mp_status st = MP_OK;
    const truth *all = data;
    (void)micro_batch;
    for (size_t k = 0; k < all->t->model->n_tensors; k++) {
        const mp_tensor *x = &all->t->model->tensors[k];
        const bool is_given = x->role == MP_ROLE_DATA || x->role == MP_ROLE_PARAMETER;
        const mp_named_tensor *saved = is_given ? mp_safetensors_find(all->file, x->name) : NULL;
        if (!saved) continue;
        mp_array there, host = mp_array_plain(saved->dtype, saved->rank, saved->dims);
        host.data = malloc((size_t)mp_array_bytes(&host));
        memcpy(host.data, saved->data, (size_t)mp_array_bytes(&host));
        st = mp_execution_tensor(e, (int)k, &there, err);
        if (st == MP_OK) st = all->t->program->backend->upload(all->t->program->backend, &host, &there, err);
        free(host.data);
    }
    return st;
}

static double at(const mp_named_tensor *t, int64_t k)
{
    float value;
    memcpy(&value, (const char *)t->data + 4 * k, sizeof value);
    return (double)value;
}

/* Compares |ours - theirs| / |theirs| over a whole tensor. */
static void compare_gradient(training_case *t, mp_execution *e, const mp_safetensors *file, const char *name, double norm)
{
    char key[256];
    mp_error err = {0};
    mp_array there, host;
    double difference = 0, size = 0;
    int tensor = mp_model_find(t->model, name);
    snprintf(key, sizeof key, "gradient of %s", name);
    const mp_named_tensor *theirs = mp_safetensors_find(file, key);
    if (!theirs) fail_msg("PyTorch has no gradient of %s", name);
    assert_int_equal(mp_execution_gradient(e, tensor, &there, &err), MP_OK);
    host = mp_array_plain(MP_DTYPE_FLOAT, there.rank, there.dims);
    int64_t n = mp_array_elements(&host);
    host.data = malloc((size_t)n * sizeof(float));
    assert_int_equal(t->program->backend->download(t->program->backend, &there, &host, &err), MP_OK);
    for (int64_t k = 0; k < n; k++) {
        difference += pow((double)((float *)host.data)[k] - at(theirs, k), 2);
        size += pow(at(theirs, k), 2);
    }
    free(host.data);
    /* a gradient that is zero except for rounding (a bias before a normalization) is compared with the norm of all gradients */
    if (sqrt(difference) > 1e-4 * fmax(sqrt(size), 1e-2 * norm))
        fail_msg("the gradient of %s is off by %.3g of %.3g", name, sqrt(difference), sqrt(size));
}

typedef training_case (*beginning)(const char *path, int64_t batch, const mp_training_options *options);

/* `model` names the network, `name` the file with its gradients. */
static void check_of(const char *model, const char *name, beginning begin)
{
    char path[256];
    mp_error err = {0};
    mp_safetensors *file;
    mp_training_options options = {.optimizer = MP_OPTIMIZER_NONE, .dtype = MP_DTYPE_FLOAT};
    mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
    snprintf(path, sizeof path, "tests/gradients/%s.safetensors", name);
    if (mp_safetensors_open(path, &file, &err) != MP_OK) fail_msg("%s: %s", path, err.message);
    snprintf(path, sizeof path, "tests/gradients/%s.onnx", model);
    training_case t = begin(path, 0, &options);
    truth all = {&t, file};
    double norm = 0;
    int n_parameters = 0;
    for (size_t k = 0; k < t.model->n_tensors; k++) {
        const mp_tensor *x = &t.model->tensors[k];
        char key[256];
        snprintf(key, sizeof key, "gradient of %s", x->name);
        const mp_named_tensor *g = x->role == MP_ROLE_PARAMETER ? mp_safetensors_find(file, key) : NULL;
        for (int64_t e = 0; g && e < mp_tensor_elements(x); e++) norm += pow(at(g, e), 2);
    }
    for (int part = 0; part < 3; part++) {
        mp_plan *plan = part ? training_plan(&t, part == 1 ? 0.5 : 0) : training_keep_all(&t);
        mp_execution *e = training_execution(&t, plan, &hyper);
        double loss;
        n_parameters = 0;
        if (mp_execution_step(e, 0, fill, &all, &loss, &err) != MP_OK) fail_msg("%s: %s", name, err.message);
        double expected = at(mp_safetensors_find(file, "loss"), 0);
        if (fabs(loss - expected) > 1e-5 * fabs(expected)) fail_msg("%s: the loss is %.9g, not %.9g", name, loss, expected);
        for (size_t k = 0; k < t.model->n_tensors; k++) {
            if (t.model->tensors[k].role != MP_ROLE_PARAMETER || t.program->bindings->storage[k] < 0) continue;
            if (t.model->tensors[k].is_frozen) {
                assert_int_equal(t.program->bindings->gradient[k], -1);
                continue;
            }
            compare_gradient(&t, e, file, t.model->tensors[k].name, sqrt(norm));
            n_parameters++;
        }
        mp_execution_free(e);
        mp_plan_free(plan);
    }
    assert_true(n_parameters >= 8);
    mp_safetensors_close(file);
    training_end(&t);
}

static void check_as(const char *name, beginning begin)
{
    check_of(name, name, begin);
}

static void check(const char *name)
{
    check_as(name, training_begin);
}

TEST(of_a_perceptron)
{
    check("mlp");
}
TEST(of_a_residual_network)
{
    check("cnn");
}
TEST(of_a_u_net)
{
    check("unet");
}
TEST(of_bert)
{
    check("bert");
}
TEST(of_gpt)
{
    check("gpt");
}

TEST(of_transformers_whose_attention_is_fused)
{
    check_as("bert", training_begin_fused);
    check_as("gpt", training_begin_fused);
}

TEST(of_normalizations_that_stay_in_inference_mode)
{
    check_as("fixed", training_begin_fixed);
}

TEST(of_recurrent_layers)
{
    check("recurrent");
}

TEST(of_recurrent_layers_whose_sequences_are_cut)
{
    check_as("recurrent", training_begin_cut);
}

TEST(of_networks_whose_logits_are_chunked)
{
    check_as("mlp", training_begin_chunked);
    check_as("cnn", training_begin_chunked);
    check_as("bert", training_begin_chunked);
    check_as("gpt", training_begin_chunked);
}
TEST(of_networks_with_regions_in_chunks_of_rows)
{
    check_as("mlp", training_begin_in_regions);
    check_as("bert", training_begin_in_regions);
    check_as("gpt", training_begin_in_regions);
}

/* Loops and branches, replaced by inference, in both exporters' forms. */
TEST(of_bags_and_neighbours)
{
    check("control");
    check("control_newer");
}

static training_case begin_adapted(const char *path, int64_t batch, const mp_training_options *options)
{
    static const char *const wanted[] = {"4:*qkv.weight", "4:*up*"}, *const train[] = {"head.*"};
    const mp_adapters adapters = {.wanted = wanted, .n = 2, .train = train, .n_train = 1};
    return training_begin_adapted(path, batch, options, &adapters);
}

/* Adapters in the form of the package peft (make_adapters.py). */
TEST(of_adapters_and_what_is_trained_besides)
{
    check_of("bert", "adapters", begin_adapted);
}
