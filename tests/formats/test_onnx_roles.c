/* test_onnx_roles.c - data and trained tensors: small files in the form of several exporters. */
#include "tests/cases/onnx_builder.h"

#include "estimator/model/model.h"
#include "tests/cases/test.h"

enum { FLOAT = 1, INT64 = 7, BOOL = 9 };

static mp_model *load(onnx_builder *b, int64_t batch)
{
    return onnx_load(b, &(mp_onnx_options){.batch = batch});
}

/* PyTorch's export without weights. The inputs include state: an embedding with tied weights, a causal mask, rotary tables and
 * one normalization written out. */
static void start_stripped(onnx_builder *b, const char *batch)
{
    char dims[40];
    onnx_start(b);
    snprintf(dims, sizeof dims, "%s,8", batch);
    onnx_input(b, "ids", INT64, dims);
    onnx_input(b, "pos_ids", INT64, "1,8");
    onnx_input(b, "rot_a", FLOAT, "1,8,4");
    onnx_input(b, "wte.weight", FLOAT, "10,4");
    onnx_input(b, "wpe.weight", FLOAT, "8,4");
    onnx_input(b, "h.scale", FLOAT, "4");
    onnx_input(b, "h.attn.mask", BOOL, "1,8,4");
    onnx_input(b, "h.learned", FLOAT, "1,8,4");
    onnx_node(b, "Gather", "", "wte.weight,ids", "e");
    onnx_node(b, "Gather", "", "wpe.weight,pos_ids", "p");
    onnx_node(b, "Add", "", "e,p", "s");
    onnx_node(b, "Mul", "", "s,rot_a", "q");
    onnx_node(b, "Mul", "", "q,rot_a", "k");
    onnx_node(b, "Mul", "", "k,h.scale", "n");
    onnx_node(b, "Where", "", "h.attn.mask,n,k", "m");
    onnx_node(b, "Add", "", "m,h.learned", "l");
    onnx_node(b, "Transpose", "", "wte.weight", "head");
    onnx_node(b, "MatMul", "", "l,head", "y");
    onnx_output(b, "y", FLOAT, "");
}

TEST(stripped_state_is_no_data)
{
    static const char *const batches[] = {"N", "2", "1"};
    for (int k = 0; k < 3; k++) {
        onnx_builder b;
        start_stripped(&b, batches[k]);
        mp_model *model = load(&b, k == 0 ? 3 : 0);
        assert_role(model, "ids", "data");
        if (k < 2) assert_role(model, "pos_ids", "buffer"); /* with a batch of 1 it looks like the ids */
        assert_role(model, "rot_a", k < 2 ? "buffer" : "data");
        assert_role(model, "wte.weight", "parameter");
        assert_role(model, "wpe.weight", "parameter");
        assert_role(model, "h.scale", "parameter");
        assert_role(model, "h.attn.mask", "buffer");
        assert_role(model, "h.learned", "parameter");
        mp_model_free(model);
        onnx_end(&b);
    }
}

/* Weights inside the file: integers, numbers and settings are no parameters; running statistics are buffers. */
/* Two inputs of fixed shape and no weight: the file may not be stripped, so inputs with a leading 1 and numbers are data. */
TEST(a_file_without_weights_has_no_state)
{
    static const char *const shapes[] = {"1,2,3,4", "1,4", ""};
    for (int k = 0; k < 3; k++) {
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,3,4");
        onnx_input(&b, "other", FLOAT, shapes[k]);
        onnx_node(&b, "Add", "", "x,other", "y");
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = load(&b, 0);
        assert_role(model, "x", "data");
        assert_role(model, "other", "data");
        mp_model_free(model);
        onnx_end(&b);
    }
}

TEST(initializers_are_told_apart)
{
    onnx_builder b;
    static const float scales[] = {1, 1, 2, 2}, ends[] = {0, 6};
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "N,3,8,8");
    onnx_input(&b, "fixed", FLOAT, "1,3,8,8"); /* the file has its weights, so this input is no weight */
    onnx_initializer(&b, "w", FLOAT, "5,3,1,1");
    onnx_initializer(&b, "gamma", FLOAT, "5");
    onnx_initializer(&b, "beta", FLOAT, "5");
    onnx_initializer(&b, "mean", FLOAT, "5");
    onnx_initializer(&b, "var", FLOAT, "5");
    onnx_raw(onnx_initializer(&b, "scales", FLOAT, "4"), scales, sizeof scales);
    onnx_raw(onnx_initializer(&b, "low", FLOAT, ""), ends, 4);
    onnx_initializer(&b, "number", FLOAT, "");
    onnx_initializer(&b, "unread", FLOAT, "7");
    onnx_initializer(&b, "ids", INT64, "2");
    onnx_node(&b, "Add", "", "x,fixed", "a");
    onnx_node(&b, "Conv", "", "a,w", "c");
    onnx_node(&b, "BatchNormalization", "", "c,gamma,beta,mean,var", "n");
    onnx_node(&b, "Resize", "", "n,,scales", "r");
    onnx_node(&b, "Clip", "", "r,low", "l");
    onnx_node(&b, "Mul", "", "l,number", "m");
    onnx_node(&b, "Gather", "", "m,ids", "y");
    onnx_int(&b, b.graph.node[6], "axis", 3);
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 2);
    assert_role(model, "x", "data");
    assert_role(model, "fixed", "data");
    assert_role(model, "w", "parameter");
    assert_role(model, "gamma", "parameter");
    assert_role(model, "beta", "parameter");
    assert_role(model, "mean", "buffer");
    assert_role(model, "var", "buffer");
    assert_role(model, "scales", "constant");
    assert_role(model, "low", "constant");
    assert_role(model, "number", "constant");
    assert_role(model, "unread", "constant");
    assert_role(model, "ids", "constant");
    assert_int_equal(onnx_find(model, "y")->dims[3], 2);
    mp_model_free(model);
    onnx_end(&b);
}

/* Paddle's exporter formerly wrote weights as Constant operators, and the batch as -1. */
TEST(constant_operators_can_be_weights)
{
    onnx_builder b;
    static const float values[6] = {0};
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "-1,2");
    Onnx__NodeProto *w = onnx_node(&b, "Constant", "", "", "w"), *c = onnx_node(&b, "Constant", "", "", "c");
    Onnx__NodeProto *one = onnx_node(&b, "Constant", "", "", "one");
    onnx_attribute(&b, w, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = onnx_tensor(&b, "", FLOAT, "2,3");
    onnx_attribute(&b, c, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = onnx_tensor(&b, "", FLOAT, "3");
    onnx_attribute(&b, one, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = onnx_tensor(&b, "", FLOAT, "");
    onnx_raw(w->attribute[0]->t, values, 24);
    onnx_raw(c->attribute[0]->t, values, 12);
    onnx_raw(one->attribute[0]->t, values, 4);
    onnx_node(&b, "MatMul", "", "x,w", "h");
    onnx_node(&b, "Add", "", "h,c", "a");
    onnx_node(&b, "Mul", "", "a,one", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 4);
    assert_role(model, "x", "data");
    assert_role(model, "w", "parameter");
    assert_role(model, "c", "parameter");
    assert_role(model, "one", "activation");
    assert_int_equal(model->n_operators, 4);
    assert_int_equal(onnx_find(model, "y")->dims[1], 3);
    mp_model_free(model);
    onnx_initializer(&b, "filter", FLOAT, "3,3"); /* now the file has weights, so a Constant stays a constant */
    onnx_node(&b, "MatMul", "", "y,filter", "z");
    onnx_output(&b, "z", FLOAT, "");
    model = load(&b, 4);
    assert_role(model, "filter", "parameter");
    assert_role(model, "w", "activation");
    mp_model_free(model);
    onnx_end(&b);
}

TEST(data_can_be_named)
{
    onnx_builder b;
    const char *const one[] = {"h.learned"}, *const odd[] = {"ids", "nobody"};
    start_stripped(&b, "N");
    const mp_dimension size = {"N", 3};
    mp_onnx_options options = {.dimensions = &size, .n_dimensions = 1, .data = one, .n_data = 1};
    mp_model *model = onnx_load(&b, &options);
    assert_role(model, "h.learned", "data");
    assert_string_equal(onnx_find(model, "h.learned")->role_reason, "named with --data");
    assert_role(model, "ids", "buffer");
    assert_role(model, "wte.weight", "parameter");
    mp_model_free(model);
    onnx_refused(&b, &(mp_onnx_options){.batch = 3, .data = odd, .n_data = 2}, MP_INVALID, "--data,'nobody','ids'");
    onnx_end(&b);
}

/* Before IR version 4, files list every initializer also as an input. */
TEST(initializers_may_be_listed_as_inputs)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "w", FLOAT, "2,3");
    onnx_input(&b, "x", FLOAT, "4,2");
    onnx_initializer(&b, "w", FLOAT, "2,3");
    onnx_node(&b, "MatMul", "", "x,w", "y");
    onnx_output(&b, "y", FLOAT, "");
    b.model.ir_version = 3;
    mp_model *model = load(&b, 4);
    assert_role(model, "w", "parameter");
    assert_role(model, "x", "data");
    assert_int_equal(model->n_inputs, 1);
    mp_model_free(model);
    onnx_end(&b);
}

/* An unrolled recurrent network picks its steps from the batch: the sequence is not an embedding table. */
TEST(steps_of_a_sequence_are_data)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,8,4");
    onnx_input(&b, "h0", FLOAT, "2,3");
    onnx_input(&b, "wx", FLOAT, "4,3");
    onnx_initializer(&b, "step", INT64, "");
    onnx_node(&b, "Gather", "", "x,step", "x0");
    onnx_int(&b, b.graph.node[0], "axis", 1);
    onnx_node(&b, "MatMul", "", "x0,wx", "a");
    onnx_node(&b, "Add", "", "a,h0", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 0);
    assert_role(model, "x", "data");
    assert_role(model, "h0", "data");
    assert_role(model, "wx", "parameter");
    mp_model_free(model);
    onnx_end(&b);
}

/* PyTorch exports Linear with a transposed weight. It is a weight, although no dimension identifies the batch. */
TEST(a_rearranged_weight_is_a_weight)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "1,5,4");
    onnx_input(&b, "w", FLOAT, "3,4");
    onnx_node(&b, "Cast", "", "w", "c");
    onnx_int(&b, b.graph.node[0], "to", FLOAT);
    onnx_node(&b, "Transpose", "", "c", "t");
    onnx_node(&b, "MatMul", "", "x,t", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 0);
    assert_role(model, "x", "data");
    assert_role(model, "w", "parameter");
    mp_model_free(model);
    onnx_end(&b);
}

/* Names from a state dictionary, and masks that are only compared. */
TEST(names_and_comparisons_count)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "enc.bias", FLOAT, "4");
    onnx_input(&b, "x", FLOAT, "2,4");
    onnx_node(&b, "Add", "", "x,enc.bias", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 0);
    assert_role(model, "enc.bias", "parameter");
    assert_role(model, "x", "data");
    mp_model_free(model);
    onnx_input(&b, "dec.weight", FLOAT, "4");
    onnx_initializer(&b, "w", FLOAT, "4,4");
    onnx_initializer(&b, "zones", FLOAT, "4,4");
    onnx_node(&b, "MatMul", "", "y,w", "z");
    onnx_node(&b, "Mul", "", "z,dec.weight", "u");
    onnx_node(&b, "Equal", "", "zones,w", "v");
    onnx_output(&b, "u", FLOAT, "");
    onnx_output(&b, "v", BOOL, "");
    model = load(&b, 0);
    assert_role(model, "dec.weight", "parameter");
    assert_role(model, "x", "data");
    assert_role(model, "w", "parameter");
    assert_role(model, "zones", "buffer");
    mp_model_free(model);
    onnx_end(&b);
}

/* Files with removed metadata, and files of the older exporter. */
TEST(names_of_results_are_no_parameters)
{
    static const float ones[] = {1, 1, 1, 1}, uneven[] = {1, 2, 1, 1};
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4,6,6");
    onnx_initializer(&b, "val_3", FLOAT, "2,4,6,6");
    onnx_initializer(&b, "zeros_like", FLOAT, "2,4,6,6");
    onnx_raw(onnx_initializer(&b, "val_4", FLOAT, "4"), ones, sizeof ones);
    onnx_raw(onnx_initializer(&b, "val_5", FLOAT, "4"), uneven, sizeof uneven);
    onnx_initializer(&b, "val_6", FLOAT, "4,1,1");
    onnx_initializer(&b, "valve", FLOAT, "4,1,6");
    onnx_initializer(&b, "val_7", FLOAT, "6,6");
    onnx_initializer(&b, "unsqueeze_1", FLOAT, "5,6");
    onnx_initializer(&b, "table", FLOAT, "5,6");
    onnx_initializer(&b, "rows", INT64, "6");
    onnx_initializer(&b, "clip.logit_scale", FLOAT, "");
    onnx_initializer(&b, "/clip.1/Constant_output_0", FLOAT, "");
    onnx_initializer(&b, "fill.tmp_0", FLOAT, ""); /* Paddle */
    onnx_initializer(&b, "embed.embed_scale", FLOAT, "");
    onnx_initializer(&b, "attn.lifted_tensor_0", FLOAT, ""); /* from torch.export, in a file without its signature */
    onnx_initializer(&b, "attn.lifted_tensor_own", FLOAT, "");
    onnx_node(&b, "Add", "", "x,val_3", "a");
    onnx_node(&b, "Add", "", "a,zeros_like", "c");
    onnx_node(&b, "InstanceNormalization", "", "c,val_4,val_5", "d");
    onnx_node(&b, "Mul", "", "d,val_6", "e");
    onnx_node(&b, "Add", "", "e,valve", "f");
    onnx_node(&b, "MatMul", "", "f,val_7", "g");
    onnx_node(&b, "Gather", "", "unsqueeze_1,rows", "h");
    onnx_node(&b, "Gather", "", "table,rows", "i");
    onnx_node(&b, "Add", "", "g,h", "j");
    onnx_node(&b, "Add", "", "j,i", "k");
    onnx_node(&b, "Mul", "", "k,clip.logit_scale", "l");
    onnx_node(&b, "Mul", "", "l,/clip.1/Constant_output_0", "m");
    onnx_node(&b, "Mul", "", "m,fill.tmp_0", "n");
    onnx_node(&b, "Mul", "", "n,embed.embed_scale", "o");
    onnx_node(&b, "Mul", "", "o,attn.lifted_tensor_0", "p");
    onnx_node(&b, "Mul", "", "p,attn.lifted_tensor_own", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 0);
    assert_role(model, "val_3", "constant");
    assert_role(model, "zeros_like", "constant");
    assert_role(model, "val_4", "constant");
    assert_role(model, "val_5", "parameter");
    assert_role(model, "val_6", "parameter");
    assert_role(model, "valve", "parameter");
    assert_role(model, "val_7", "parameter");
    assert_role(model, "unsqueeze_1", "constant");
    assert_role(model, "table", "parameter");
    assert_role(model, "clip.logit_scale", "parameter");
    assert_role(model, "/clip.1/Constant_output_0", "constant");
    assert_role(model, "fill.tmp_0", "constant");
    assert_role(model, "embed.embed_scale", "constant");
    assert_role(model, "attn.lifted_tensor_0", "constant");
    assert_role(model, "attn.lifted_tensor_own", "parameter");
    mp_model_free(model);
    onnx_end(&b);
}

/* Batch normalization as frozen in detectors: arithmetic with four vectors. A scale without both statistics is trained. */
TEST(frozen_normalizations_are_buffers)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4");
    onnx_initializer(&b, "n.weight", FLOAT, "4");
    onnx_initializer(&b, "n.running_mean", FLOAT, "4");
    onnx_initializer(&b, "n.running_var", FLOAT, "4");
    onnx_initializer(&b, "s.weight", FLOAT, "4");
    onnx_initializer(&b, "s.running_var", FLOAT, "4");
    onnx_node(&b, "Sub", "", "x,n.running_mean", "a");
    onnx_node(&b, "Div", "", "a,n.running_var", "c");
    onnx_node(&b, "Mul", "", "c,n.weight", "d");
    onnx_node(&b, "Mul", "", "d,s.weight", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 0);
    assert_role(model, "n.weight", "buffer");
    assert_role(model, "n.running_mean", "buffer");
    assert_role(model, "n.running_var", "buffer");
    assert_role(model, "s.weight", "parameter");
    mp_model_free(model);
    onnx_end(&b);
}

/* --train overrides the rules, but only for floating-point state. */
TEST(what_is_trained_can_be_named)
{
    const char *const patterns[] = {"val_*", "w"}, *const data[] = {"x"}, *const whole[] = {"ids"};
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4");
    onnx_initializer(&b, "w", FLOAT, "4,4");
    onnx_initializer(&b, "val_1", FLOAT, "2,4");
    onnx_initializer(&b, "val_2", FLOAT, "");
    onnx_initializer(&b, "zeros", FLOAT, "2,4");
    onnx_initializer(&b, "ids", INT64, "2");
    onnx_node(&b, "MatMul", "", "x,w", "a");
    onnx_node(&b, "Add", "", "a,val_1", "c");
    onnx_node(&b, "Mul", "", "c,val_2", "d");
    onnx_node(&b, "Add", "", "d,zeros", "e");
    onnx_node(&b, "Gather", "", "e,ids", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = onnx_load(&b, &(mp_onnx_options){.train = patterns, .n_train = 2});
    assert_role(model, "val_1", "parameter");
    assert_string_equal(onnx_find(model, "val_1")->role_reason, "named with --train");
    assert_role(model, "val_2", "parameter");
    assert_string_equal(onnx_find(model, "w")->role_reason, "a floating-point weight");
    assert_role(model, "zeros", "constant");
    mp_model_free(model);
    onnx_refused(&b, &(mp_onnx_options){.train = data, .n_train = 1}, MP_INVALID,
                 "--train: there is no floating-point initializer or constant 'x'");
    onnx_refused(&b, &(mp_onnx_options){.train = whole, .n_train = 1}, MP_INVALID,
                 "--train: there is no floating-point initializer or constant 'ids'");
    onnx_end(&b);
}

/* PyTorch's older exporter stores the state dictionary, and folded tensors under generated names. So a single number with an
 * ordinary name is a parameter of the module. */
TEST(single_numbers_of_a_state_dictionary_are_trained)
{
    static const char *const others[] = {NULL, "onnx::Mul_12", "val_3", "12"};
    static const float two = 2;
    for (int k = 0; k < 4; k++) {
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,4");
        onnx_initializer(&b, "c.weight", FLOAT, "4,4");
        onnx_raw(onnx_initializer(&b, "scale", FLOAT, ""), &two, sizeof two);
        if (others[k]) onnx_raw(onnx_initializer(&b, others[k], FLOAT, ""), &two, sizeof two);
        onnx_node(&b, "MatMul", "", "x,c.weight", "h");
        onnx_node(&b, "Mul", "", "h,scale", "y");
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = load(&b, 0);
        assert_role(model, "scale", k > 1 ? "constant" : "parameter");
        mp_model_free(model);
        onnx_end(&b);
    }
}

TEST(sines_of_positions_are_not_learned)
{
    /* Three positions of two sines and two cosines; then a table with another start, and one beyond the range. */
    float tables[3][12] = {{0, 0, 1, 1, 0.84f, 0.1f, 0.54f, 0.99f, 0.91f, 0.2f, -0.42f, 0.98f}};
    memcpy(tables[1], tables[0], sizeof tables[0]);
    memcpy(tables[2], tables[0], sizeof tables[0]);
    tables[1][1] = 0.01f;
    tables[2][9] = 1.01f;
    for (int k = 0; k < 3; k++) {
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,3,4");
        onnx_initializer(&b, "c.weight", FLOAT, "4,4");
        onnx_raw(onnx_initializer(&b, "positions", FLOAT, "1,3,4"), tables[k], sizeof tables[k]);
        onnx_node(&b, "Add", "", "x,positions", "h");
        onnx_node(&b, "MatMul", "", "h,c.weight", "y");
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = load(&b, 0);
        assert_role(model, "positions", k ? "parameter" : "buffer");
        mp_model_free(model);
        onnx_end(&b);
    }
}
