/* test_onnx_merged.c - PyTorch's exporters store tensors of equal values once; the model counts them as separate parameters and
 * statistics. */
#include "tests/cases/onnx_builder.h"

#include "estimator/model/model.h"
#include "tests/cases/test.h"

enum { FLOAT = 1 };

/* ResNet before training: running means and biases are zeros; variances and scales are ones. */
TEST(identities_of_the_older_exporter_are_tensors_of_their_own)
{
    static const char *const parameters[] = {"a.weight", "a.bias", "b.weight", "b.bias"};
    static const char *const buffers[] = {"a.running_mean", "a.running_var", "b.running_mean", "b.running_var"};
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4,6,6");
    onnx_initializer(&b, "a.weight", FLOAT, "4");
    onnx_initializer(&b, "a.bias", FLOAT, "4");
    onnx_node(&b, "Identity", "Identity_0", "a.weight", "b.weight");
    onnx_node(&b, "Identity", "Identity_1", "a.bias", "b.bias");
    onnx_node(&b, "Identity", "Identity_2", "a.bias", "a.running_mean");
    onnx_node(&b, "Identity", "Identity_3", "a.weight", "a.running_var");
    onnx_node(&b, "Identity", "Identity_4", "a.bias", "b.running_mean");
    onnx_node(&b, "Identity", "Identity_5", "a.weight", "b.running_var");
    onnx_node(&b, "BatchNormalization", "/a/BatchNormalization", "x,a.weight,a.bias,a.running_mean,a.running_var", "h");
    onnx_node(&b, "BatchNormalization", "/b/BatchNormalization", "h,b.weight,b.bias,b.running_mean,b.running_var", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = onnx_load(&b, &(mp_onnx_options){0});
    for (int k = 0; k < 4; k++) {
        assert_role(model, parameters[k], "parameter");
        assert_role(model, buffers[k], "buffer");
        assert_int_equal(onnx_find(model, parameters[k])->producer, -1);
        assert_int_equal(mp_tensor_elements(onnx_find(model, buffers[k])), 4);
    }
    mp_model_free(model);
    onnx_end(&b);
}

/* Two equal layers, each run twice: two weights. Modules whose names end in numbers are not counted as calls. */
TEST(transposed_weights_belong_to_the_module_that_reads_them)
{
    static const struct {
        const char *names[4];
        int weights;
    } rows[] = {{{"/a/MatMul", "/a_1/MatMul", "/b/MatMul", "/b_1/MatMul"}, 2},
                {{"/l.0/fc/MatMul", "/l.1/fc/MatMul", "/l.2/fc/MatMul", "/l.3/fc/MatMul"}, 4},
                {{"/block_1/MatMul", "/block_2/MatMul", "/block_1_1/MatMul", "/block_2_1/MatMul"}, 2},
                {{"/MatMul", "/MatMul_1", "/MatMul_2", "/MatMul_3"}, 1}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int n = 0;
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,4");
        onnx_initializer(&b, "onnx::MatMul_1", FLOAT, "4,4");
        onnx_node(&b, "Identity", "Identity_0", "onnx::MatMul_1", "onnx::MatMul_2");
        onnx_node(&b, "Identity", "Identity_1", "onnx::MatMul_1", "onnx::MatMul_3");
        onnx_node(&b, "Identity", "Identity_2", "onnx::MatMul_1", "onnx::MatMul_4");
        for (int k = 0; k < 4; k++) {
            char in[40], out[8];
            snprintf(in, sizeof in, "%s%d,onnx::MatMul_%d", k ? "h" : "x", k, k + 1);
            if (k == 0) snprintf(in, sizeof in, "x,onnx::MatMul_1");
            snprintf(out, sizeof out, "h%d", k + 1);
            onnx_node(&b, "MatMul", rows[r].names[k], in, out);
        }
        onnx_output(&b, "h4", FLOAT, "");
        mp_model *model = onnx_load(&b, &(mp_onnx_options){0});
        for (size_t k = 0; k < model->n_tensors; k++) n += model->tensors[k].role == MP_ROLE_PARAMETER;
        if (n != rows[r].weights) fail_msg("%s: %d weights, not %d", rows[r].names[0], n, rows[r].weights);
        mp_model_free(model);
        onnx_end(&b);
    }
}

/* The exporter takes the biases of query, key and value out of one zero vector. A module's second call reads the same ones. */
TEST(merged_parts_of_a_bias_count_once_per_use_in_a_call)
{
    static const struct {
        const char *names[4];
        int biases;
    } rows[] = {{{"/Add", "/Add_1", "/Add_2", "/Add_3"}, 4},
                {{"/a/Add", "/a/Add_1", "/b/Add", "/b/Add_1"}, 4},
                {{"/a/Add", "/a/Add_1", "/a_1/Add", "/a_1/Add_1"}, 2}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int n = 0;
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "h0", FLOAT, "2,4");
        onnx_initializer(&b, "l.bias", FLOAT, "4");
        for (int k = 0; k < 4; k++) {
            char in[40], out[40];
            snprintf(out, sizeof out, "onnx::Add_%d", k + 1);
            onnx_node(&b, "Identity", "", "l.bias", out);
            snprintf(in, sizeof in, "h%d,onnx::Add_%d", k, k + 1);
            snprintf(out, sizeof out, "h%d", k + 1);
            onnx_node(&b, "Add", rows[r].names[k], in, out);
        }
        onnx_node(&b, "Add", "/l/Add", "h4,l.bias", "y");
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = onnx_load(&b, &(mp_onnx_options){0});
        for (size_t k = 0; k < model->n_tensors; k++) n += model->tensors[k].role == MP_ROLE_PARAMETER;
        if (n != rows[r].biases + 1) fail_msg("%s: %d biases, not %d", rows[r].names[0], n, rows[r].biases + 1);
        mp_model_free(model);
        onnx_end(&b);
    }
}

/* In files of the newer exporter, batch normalization reads its bias as the running mean. */
TEST(statistics_are_no_parameters)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4,6,6");
    onnx_initializer(&b, "n.weight", FLOAT, "4");
    onnx_initializer(&b, "n.bias", FLOAT, "4");
    onnx_node(&b, "BatchNormalization", "node_norm", "x,n.weight,n.bias,n.bias,n.weight", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = onnx_load(&b, &(mp_onnx_options){0});
    const mp_operator *op = &model->operators[0];
    const mp_role wanted[] = {MP_ROLE_DATA, MP_ROLE_PARAMETER, MP_ROLE_PARAMETER, MP_ROLE_BUFFER, MP_ROLE_BUFFER};
    for (int k = 0; k < 5; k++) assert_int_equal(mp_operator_in(model, op, k)->role, wanted[k]);
    mp_model_free(model);
    onnx_end(&b);
}

/* The older exporter transposes the weight of a head tied to the embedding, and stores both. */
TEST(a_transposed_copy_of_an_embedding_is_counted)
{
    static const float table[6] = {1, 2, 3, 4, 5, 6}, turned[6] = {1, 3, 5, 2, 4, 6}, other[6] = {1, 2, 3, 4, 5, 6};
    for (int k = 0; k < 3; k++) { /* equal values, other values, no values */
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "ids", 7, "2,4");
        Onnx__TensorProto *rows = onnx_initializer(&b, "e.weight", FLOAT, "3,2");
        Onnx__TensorProto *matrix = onnx_initializer(&b, "onnx::MatMul_9", FLOAT, "2,3");
        if (k < 2) onnx_raw(rows, table, sizeof table), onnx_raw(matrix, k ? other : turned, sizeof turned);
        onnx_node(&b, "Gather", "/e/Gather", "e.weight,ids", "h");
        onnx_node(&b, "MatMul", "/head/MatMul", "h,onnx::MatMul_9", "y");
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = onnx_load(&b, &(mp_onnx_options){0});
        assert_int_equal(model->doubts[MP_DOUBT_COPIED].n, k != 1);
        mp_model_free(model);
        onnx_end(&b);
    }
}
