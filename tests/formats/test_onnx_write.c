/* test_onnx_write.c - a model that is written and read again has the same training graph. */
#include <unistd.h>

#include "memplan/architecture.h"
#include "memplan/memplan.h"
#include "memplan/onnx.h"
#include "tests/cases/onnx_builder.h"
#include "tests/cases/test.h"

static const char *path_of(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/memplan-test-write-%ld.onnx", (long)getpid());
    return path;
}

/* Makes the training graph like the command line, and frees the model. */
static void hash_of(mp_model *model, mp_rules rules, char hash[33])
{
    mp_error err = {0};
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_BFLOAT16, .rules = rules};
    const mp_target target = mp_roofline(mp_device_find("a100"));
    mp_graph *graph = NULL;
    int loss;
    if (mp_model_simplify(model, rules, true, NULL, &err) != MP_OK ||
        mp_model_fuse_attention(model, rules, false, NULL, &err) != MP_OK ||
        mp_model_add_loss(model, &options, &loss, &err) != MP_OK ||
        mp_training_graph(model, &options, loss, &target, &graph, &err) != MP_OK || mp_graph_hash(graph, hash, &err) != MP_OK)
        fail_msg("%s", err.message);
    mp_graph_free(graph);
    mp_model_free(model);
}

static mp_model *built(const mp_architecture *a, int64_t batch)
{
    mp_error err = {0};
    mp_model *model = NULL;
    if (mp_architecture_model(a, batch, 0, &model, &err) != MP_OK) fail_msg("%s: %s", a->name, err.message);
    return model;
}

static mp_model *read_again(int64_t batch)
{
    mp_error err = {0};
    mp_model *model = NULL;
    const mp_onnx_options options = {.batch = batch};
    if (mp_onnx_read(path_of(), &options, &model, &err) != MP_OK) fail_msg("%s", err.message);
    return model;
}

/* Every network of the table, with two layers: written for its batch and read unchanged, or written with an open batch and read
 * for 8. */
TEST(a_network_that_is_written_is_read_as_it_was_built)
{
    for (size_t k = 0; k < mp_architecture_count(); k++)
        for (int open = 0; open < 2; open++) {
            mp_architecture a = *mp_architecture_row(k);
            mp_error err = {0};
            a.layers = 2;
            mp_model *model = built(&a, open ? 1 : 8);
            if (mp_onnx_write(model, open, path_of(), &err) != MP_OK) fail_msg("%s: %s", a.name, err.message);
            mp_model_free(model);
            for (int rules = 0; rules < MP_N_RULES; rules++) {
                char inside[33], file[33];
                hash_of(built(&a, 8), (mp_rules)rules, inside);
                hash_of(read_again(open ? 8 : 0), (mp_rules)rules, file);
                if (strcmp(inside, file) != 0) fail_msg("%s: another graph by rules %d", a.name, rules);
            }
        }
    unlink(path_of());
}

/* The reader's rules find the original role of every input and parameter. */
TEST(what_a_reader_takes_tensors_for_is_what_they_are)
{
    for (size_t k = 0; k < mp_architecture_count(); k++) {
        mp_architecture a = *mp_architecture_row(k);
        mp_error err = {0};
        a.layers = 1;
        mp_model *model = built(&a, 1);
        assert_int_equal(mp_onnx_write(model, true, path_of(), &err), MP_OK);
        mp_model *again = read_again(1);
        assert_int_equal(again->n_inputs, model->n_inputs);
        for (size_t i = 0; i < model->n_inputs; i++) {
            const mp_tensor *one = &model->tensors[model->inputs[i]], *two = &again->tensors[again->inputs[i]];
            assert_string_equal(two->name, one->name);
            assert_true(mp_same_shape(one, two));
            if (one->role != two->role) fail_msg("%s: %s", one->name, mp_role_name(two->role));
        }
        mp_model_free(again);
        mp_model_free(model);
    }
    unlink(path_of());
}

/* A file with weights, omitted operands and attributes: weights become inputs, constants stay. */
TEST(a_model_from_a_file_can_be_written_too)
{
    onnx_builder b;
    mp_error err = {0};
    onnx_start(&b);
    onnx_input(&b, "x", MP_DTYPE_FLOAT, "4,6");
    onnx_initializer(&b, "m.weight", MP_DTYPE_FLOAT, "6,6");
    const int64_t two[] = {2, -1};
    onnx_raw(onnx_initializer(&b, "shape", MP_DTYPE_INT64, "2"), two, sizeof two);
    Onnx__NodeProto *product = onnx_node(&b, "Gemm", "product", "x,m.weight", "p");
    onnx_int(&b, product, "transB", 1);
    onnx_node(&b, "Reshape", "shaped", "p,shape", "r");
    onnx_node(&b, "Clip", "clipped", "r,,", "y");
    onnx_output(&b, "y", MP_DTYPE_FLOAT, "2,12");
    mp_model *model = onnx_load(&b, NULL);
    assert_int_equal(mp_onnx_write(model, false, path_of(), &err), MP_OK);
    char before[33], after[33];
    hash_of(model, MP_RULES_EXECUTOR, before);
    mp_model *again = read_again(0);
    assert_int_equal(again->n_inputs, 2);
    assert_int_equal(onnx_find(again, "m.weight")->role, MP_ROLE_PARAMETER);
    assert_int_equal(onnx_find(again, "shape")->role, MP_ROLE_CONSTANT);
    hash_of(again, MP_RULES_EXECUTOR, after);
    assert_string_equal(before, after);
    onnx_end(&b);
    unlink(path_of());
}

TEST(what_a_file_cannot_hold_is_refused)
{
    mp_error err = {0};
    mp_architecture a = *mp_architecture_find("gpt2");
    a.layers = 1;
    mp_model *model = built(&a, 1);
    for (size_t k = 0; k < model->n_operators; k++)
        if (!strcmp(model->operators[k].kind, "Dropout")) model->operators[k].version = 13;
    assert_int_equal(mp_onnx_write(model, false, path_of(), &err), MP_UNSUPPORTED);
    assert_non_null(strstr(err.message, "two versions"));
    assert_int_equal(access(path_of(), F_OK), -1);
    mp_model_free(model);
    model = built(&a, 1);
    assert_int_equal(mp_onnx_write(model, false, "/nowhere/model.onnx", &err), MP_IO);
    mp_model_free(model);
}
