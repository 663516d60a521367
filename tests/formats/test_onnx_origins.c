/* test_onnx_origins.c - metadata of PyTorch's newer exporter: initializers that are parameters, and normalizations of the
 * network. */
#include "tests/cases/onnx_builder.h"

#include "estimator/model/model.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "tests/cases/test.h"

enum { FLOAT = 1 };

static mp_model *load(onnx_builder *b, int64_t batch)
{
    return onnx_load(b, &(mp_onnx_options){.batch = batch});
}

/* Adds an entry of metadata_props, which Debian's schema lacks in some messages. */
static void note(onnx_builder *b, ProtobufCMessage *message, uint32_t id, const char *key, const char *value)
{
    const char *const parts[] = {key, value};
    uint8_t bytes[1024];
    size_t n = 0;
    for (int k = 0; k < 2; k++) {
        size_t length = strlen(parts[k]);
        bytes[n++] = (uint8_t)((k + 1) << 3 | 2);
        bytes[n++] = (uint8_t)(length & 127) | 128;
        bytes[n++] = (uint8_t)(length >> 7);
        memcpy(bytes + n, parts[k], length);
        n += length;
    }
    onnx_unknown(b, message, id, bytes, n);
}

static void note_value(onnx_builder *b, const char *name, const char *dims, const char *key, const char *value)
{
    Onnx__ValueInfoProto *info = onnx_value_info(b, name, FLOAT, dims);
    note(b, &info->base, 4, key, value);
    onnx_push(b, &b->graph.n_value_info, &b->graph.value_info, info);
}

/* The newer exporter's metadata override names and uses. */
TEST(what_the_exporter_has_noted_decides)
{
    static const char folded[] = "pkg.onnxscript.optimizer.folded_from";
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4");
    onnx_initializer(&b, "val_1", FLOAT, "4,4");     /* transposed */
    onnx_initializer(&b, "val_2", FLOAT, "2,4");     /* a mask */
    onnx_initializer(&b, "unsqueeze", FLOAT, "2,4"); /* rows of positions */
    onnx_initializer(&b, "gain", FLOAT, "");
    onnx_initializer(&b, "m.offset.weight", FLOAT, "4");
    onnx_initializer(&b, "lifted", FLOAT, "4");
    onnx_initializer(&b, "factor", FLOAT, "");
    note(&b, &b.graph.base, 16, "something else", "l.weight: BUFFER target='val_1'");
    note(&b, &b.graph.base, 16, "pkg.torch.export.ExportedProgram.graph_signature",
         "\n# inputs\np_l_weight: PARAMETER target='l.weight'\np_gain: PARAMETER target='gain'\n"
         "b_m_offset_weight: BUFFER target='m.offset.weight' persistent=True\n"
         "c_lifted: CONSTANT_TENSOR target='lifted'\nx: USER_INPUT\n\n# outputs\ny: USER_OUTPUT\n");
    note_value(&b, "val_1", "4,4", folded, "['l.weight']");
    note_value(&b, "val_2", "2,4", folded, "['val_7', 'val_8']");
    note_value(&b, "unsqueeze", "2,4", folded, "['val_9', 'l.weight']");
    note_value(&b, "factor", "", "pkg.torch.export.graph_signature.InputSpec.kind", "PARAMETER");
    onnx_node(&b, "MatMul", "", "x,val_1", "a");
    onnx_node(&b, "Add", "", "a,val_2", "c");
    onnx_node(&b, "Add", "", "c,unsqueeze", "d");
    onnx_node(&b, "Mul", "", "d,gain", "e");
    onnx_node(&b, "Add", "", "e,m.offset.weight", "f");
    onnx_node(&b, "Mul", "", "f,lifted", "g");
    onnx_node(&b, "Mul", "", "g,factor", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 0);
    assert_role(model, "val_1", "parameter");
    assert_string_equal(onnx_find(model, "val_1")->role_reason, "computed from parameters, as the exporter has noted");
    assert_role(model, "val_2", "constant");
    assert_role(model, "unsqueeze", "parameter");
    assert_role(model, "gain", "parameter");
    assert_role(model, "factor", "parameter");
    assert_role(model, "m.offset.weight", "buffer");
    assert_role(model, "lifted", "constant");
    mp_model_free(model);
    onnx_unknown(&b, &b.graph.base, 16, "\x0a\x7fzz", 4); /* a key longer than the remaining bytes */
    onnx_refused(&b, &(mp_onnx_options){0}, MP_PARSE, "StringStringEntryProto");
    onnx_end(&b);
}

static const char signature_key[] = "pkg.torch.export.ExportedProgram.graph_signature",
                  folded_key[] = "pkg.onnxscript.optimizer.folded_from";

/* Operator set 17: PyTorch converts the finished file, which keeps the metadata of values and loses the signature. */
TEST(without_a_signature_names_and_uses_decide)
{
    static const float sines[8] = {0, 0, 1, 1, 0.84f, 0.01f, 0.54f, 0.99f};
    static const struct row {
        const char *name, *dims, *from, *role;
    } rows[] = {{"val_1", "4,4", "['l.weight']", "parameter"},       /* a transposed weight */
                {"slice_1", "2,4", "['pos', 'val_3']", "parameter"}, /* rows of a position table */
                {"unsqueeze", "4", "['n.gain', 'val_3']", "parameter"},
                {"val_2", "2,4", "['val_7', 'val_8']", "constant"}, /* computed only from constants */
                {"slice_2", "2,4", "['attn.mask', 'val_3']", "constant"},
                {"val_6", "4", "['n.running_var']", "constant"},
                {"sin_1", "2,4", "['pe', 'val_3']", "buffer"},
                {"val_9", "1", "['t0', 'val_3']", "constant"}}; /* a scale, from the shape of t0 */
    enum { N = sizeof rows / sizeof *rows };
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4");
    for (int k = 0; k < N; k++) {
        Onnx__TensorProto *t = onnx_initializer(&b, rows[k].name, FLOAT, rows[k].dims);
        if (!strcmp(rows[k].name, "sin_1")) onnx_raw(t, sines, sizeof sines);
        note_value(&b, rows[k].name, rows[k].dims, folded_key, rows[k].from);
    }
    onnx_node(&b, "MatMul", "", "x,val_1", "t0");
    for (int k = 1; k < N; k++) {
        char in[40], out[8];
        snprintf(in, sizeof in, "t%d,%s", k - 1, rows[k].name);
        snprintf(out, sizeof out, "t%d", k);
        onnx_node(&b, "Add", "", in, out);
    }
    onnx_output(&b, "t7", FLOAT, "");
    mp_model *model = load(&b, 0);
    for (int k = 0; k < N; k++) assert_role(model, rows[k].name, rows[k].role);
    assert_int_equal(model->doubts[MP_DOUBT_UNSIGNED].n, 4);
    assert_int_equal(model->doubts[MP_DOUBT_UNSIGNED].elements, 16 + 8 + 4 + 8);
    assert_string_equal(model->doubts[MP_DOUBT_UNSIGNED].names, "val_1, slice_1, unsqueeze, ...");
    mp_model_free(model);
    note(&b, &b.graph.base, 16, signature_key,
         "p_l_weight: PARAMETER target='l.weight'\n"); /* with this signature, the others are no parameters */
    model = load(&b, 0);
    for (int k = 0; k < N; k++) assert_role(model, rows[k].name, k ? "constant" : "parameter");
    assert_int_equal(model->doubts[MP_DOUBT_UNSIGNED].n, 0);
    mp_model_free(model);
    onnx_end(&b);
}

/* The exporter merges small tensors of equal values, stores a transposed tied weight again, and drops unused ones. */
TEST(parameters_that_are_missing_or_there_twice_are_counted)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "ids", 7, "2,3");
    onnx_initializer(&b, "h.weight", FLOAT, "5,4");
    onnx_initializer(&b, "n.weight", FLOAT, "4");
    onnx_initializer(&b, "val_1", FLOAT, "4,5");
    onnx_node(&b, "Gather", "node_embedding", "h.weight,ids", "e");
    onnx_node(&b, "Mul", "node_mul", "e,n.weight", "s");
    onnx_node(&b, "Mul", "node_mul_1", "s,n.weight", "t");
    onnx_node(&b, "MatMul", "node_linear", "t,val_1", "y");
    onnx_output(&b, "y", FLOAT, "");
    note_value(&b, "val_1", "4,5", folded_key, "['h.weight']");
    mp_model *model = load(&b, 0); /* without a signature, the vector read by two operators may be two parameters */
    assert_int_equal(model->doubts[MP_DOUBT_SHARED].n, 1);
    assert_int_equal(model->doubts[MP_DOUBT_SHARED].elements, 4);
    assert_int_equal(model->doubts[MP_DOUBT_COPIED].elements, 20);
    assert_int_equal(model->doubts[MP_DOUBT_MISSING].n, 0);
    mp_model_free(model);
    note(&b, &b.graph.base, 16, signature_key,
         "p_h: PARAMETER target='h.weight'\np_n: PARAMETER target='n.weight'\np_m: PARAMETER target='m.weight'\n"
         "p_u: PARAMETER target='unused.bias'\nb_s: BUFFER target='steps'\n");
    model = load(&b, 0);
    assert_int_equal(model->doubts[MP_DOUBT_SHARED].n, 0);
    assert_int_equal(model->doubts[MP_DOUBT_COPIED].n, 1);
    assert_string_equal(model->doubts[MP_DOUBT_COPIED].names, "h.weight");
    assert_int_equal(model->doubts[MP_DOUBT_MISSING].n, 2);
    assert_string_equal(model->doubts[MP_DOUBT_MISSING].names, "m.weight, unused.bias");
    mp_model_free(model);
    onnx_end(&b);
}

/* Three normalizations in the program; one is frozen and one has an operator. */
TEST(folded_normalizations_are_counted)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4,6,6");
    onnx_initializer(&b, "c.weight", FLOAT, "4,4,1,1");
    onnx_initializer(&b, "c.weight_bias", FLOAT, "4");
    onnx_initializer(&b, "onnx::Conv_7", FLOAT, "4,4,1,1");
    onnx_initializer(&b, "onnx::Conv_8", FLOAT, "4");
    onnx_initializer(&b, "n.weight", FLOAT, "4");
    onnx_initializer(&b, "n.bias", FLOAT, "4");
    onnx_initializer(&b, "n.running_mean", FLOAT, "4");
    onnx_initializer(&b, "n.running_var", FLOAT, "4");
    onnx_node(&b, "Conv", "", "x,c.weight,c.weight_bias", "a");
    onnx_node(&b, "Conv", "", "a,onnx::Conv_7,onnx::Conv_8", "d");
    onnx_node(&b, "BatchNormalization", "", "d,n.weight,n.bias,n.running_mean,n.running_var", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 0); /* counted by their names */
    assert_int_equal(model->folded_norms, 2);
    mp_model_free(model);
    note(&b, &b.graph.base, 16, "pkg.torch.export.ExportedProgram.graph_signature",
         "p_n_weight: PARAMETER target='n.weight'\nb_n_running_mean: BUFFER target='n.running_mean' persistent=True\n"
         "p_o_weight: PARAMETER target='o.weight'\nb_o_running_mean: BUFFER target='o.running_mean' persistent=True\n"
         "b_f_weight: BUFFER target='f.weight'\nb_f_running_mean: BUFFER target='f.running_mean' persistent=True\n");
    model = load(&b, 0);
    assert_int_equal(model->folded_norms, 1);
    mp_model_free(model);
    onnx_end(&b);
}

/* Weight normalization, and a filter that the program reshapes, leave a computed filter beside a bias of the program, or none.
 */
TEST(computed_filters_are_no_folded_normalizations)
{
    static const struct {
        const char *operands;
        int norms, filters;
    } rows[] = {{"x,onnx::Conv_7", 0, 1}, {"x,onnx::Conv_7,c.bias", 0, 1}, {"x,onnx::Conv_7,onnx::Conv_8", 1, 0}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,4,6,6");
        onnx_initializer(&b, "onnx::Conv_7", FLOAT, "4,4,1,1");
        onnx_initializer(&b, "onnx::Conv_8", FLOAT, "4");
        onnx_initializer(&b, "c.bias", FLOAT, "4");
        onnx_node(&b, "Conv", "", rows[k].operands, "y");
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = load(&b, 0);
        assert_int_equal(model->folded_norms, rows[k].norms);
        assert_int_equal(model->doubts[MP_DOUBT_FOLDED].n, rows[k].filters);
        mp_model_free(model);
        onnx_end(&b);
    }
}

/* A linear layer stores its weight as the product reads it. A product of a computed weight has a generated name. */
TEST(computed_weights_of_products_are_doubted)
{
    static const char *const names[] = {"onnx::Gemm_7", "l.weight"};
    for (int k = 0; k < 2; k++) {
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "onnx::Gemm_0", FLOAT, "2,4");
        onnx_initializer(&b, names[k], FLOAT, "3,4");
        onnx_initializer(&b, "l.bias", FLOAT, "3");
        char operands[64];
        snprintf(operands, sizeof operands, "onnx::Gemm_0,%s,l.bias", names[k]);
        Onnx__NodeProto *node = onnx_node(&b, "Gemm", "", operands, "y");
        onnx_int(&b, node, "transB", 1);
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = load(&b, 0);
        assert_int_equal(model->doubts[MP_DOUBT_FOLDED].n, k == 0);
        mp_model_free(model);
        onnx_end(&b);
    }
}

/* Weight normalization, slices and copies along a dimension change the number of elements; transposes and spectral
 * normalization do not. */
TEST(tensors_computed_from_parameters_of_another_size_are_doubted)
{
    static const struct {
        const char *name, *from;
        bool is_doubted;
    } rows[] = {{"mul", "['div', 'linalg_vector_norm', 'l.g', 'l.v', 'val_0', 'val_1']", true},
                {"slice_1", "['l.v', 'val_0', 'val_1']", true},
                {"val_13", "['slice_1', 'val_0', 'l.v']", true},
                {"expand", "['l.g', 'val_1']", true},
                {"index_2", "['arange', 'l.v', 'val_4']", true},
                {"add", "['l.a', 'l.g']", true},
                {"mul_1", "['l.v', 'l.mask']", true},
                {"val_0", "['l.v']", false},
                {"permute", "['l.v']", false},
                {"neg", "['exp', 'l.v']", false},
                {"mul_2", "['l.v', 'val_2']", false},
                {"val_3", "['cat', 'l.v', 'l.a']", false},
                {"mul_3", "['l.mask', 'val_1']", false},
                {"div", "['dot', 'l.p.w.0._u', 'l.p.w.0._v', 'l.p.w.original', 'mv']", false},
                {"div_1", "['dot', 'l.w_orig', 'l.w_u', 'mv']", false},
                {"div_2", "['dot', 'l.mask', 'l.w_orig', 'l.w_u', 'mv']", true},
                {"div_3", "['dot', 'l.w_orig', 'l.p.w.0._u', 'mv']", true},
                {"div_4", "['dot', 'l.g', 'l.w_orig', 'l.w_u', 'mv']", true}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,4");
        onnx_initializer(&b, rows[k].name, FLOAT, "4,4");
        note(&b, &b.graph.base, 16, signature_key,
             "p_g: PARAMETER target='l.g'\np_v: PARAMETER target='l.v'\np_a: PARAMETER target='l.a'\n"
             "b_m: BUFFER target='l.mask' persistent=True\np_o: PARAMETER target='l.w_orig'\n"
             "p_p: PARAMETER target='l.p.w.original'\nb_u: BUFFER target='l.w_u' persistent=True\n"
             "b_0: BUFFER target='l.p.w.0._u' persistent=True\nb_1: BUFFER target='l.p.w.0._v' persistent=True\n");
        note_value(&b, rows[k].name, "4,4", folded_key, rows[k].from);
        char operands[32];
        snprintf(operands, sizeof operands, "x,%s", rows[k].name);
        onnx_node(&b, "MatMul", "", operands, "y");
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = load(&b, 0);
        if (model->doubts[MP_DOUBT_RESIZED].n != rows[k].is_doubted) fail_msg("%s of %s", rows[k].name, rows[k].from);
        if (rows[k].is_doubted) assert_int_equal(model->doubts[MP_DOUBT_RESIZED].elements, 16);
        mp_model_free(model);
        onnx_end(&b);
    }
}

/* Below operator set 18 there is no signature, and no bias if all shifts are zero. The optimizer's metadata list the applied
 * rules. */
TEST(folded_normalizations_are_counted_by_the_rules_of_the_optimizer)
{
    static const char key[] = "pkg.onnxscript.rewriter.rule_name";
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4,6,6");
    onnx_initializer(&b, "a.weight", FLOAT, "4,4,1,1");
    onnx_initializer(&b, "c.weight", FLOAT, "4,4,1,1");
    onnx_initializer(&b, "c.weight_bias", FLOAT, "4");
    onnx_initializer(&b, "d.weight", FLOAT, "4,4,1,1");
    Onnx__NodeProto *node = onnx_node(&b, "Conv", "node_Conv_40", "x,a.weight", "getitem");
    note(&b, &node->base, 9, key, "RemoveOptionalBiasFromConv, FuseBatchNormIntoConv, RemoveOptionalBiasFromConv");
    node = onnx_node(&b, "Conv", "node_Conv_41", "getitem,c.weight,c.weight_bias", "getitem_3");
    note(&b, &node->base, 9, key, "FuseBatchNormIntoConvTranspose");
    node = onnx_node(&b, "Conv", "node_conv2d", "getitem_3,d.weight", "y");
    note(&b, &node->base, 9, key, "RemoveOptionalBiasFromConv");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = load(&b, 0);
    assert_int_equal(model->folded_norms, 2);
    mp_model_free(model);
    onnx_end(&b);
}

/* An exported file without weights. */
/* Names include modules, as in the older exporter's files. The file's original names also find the tensors. */
TEST(modules_and_lines_come_from_the_metadata)
{
    static const char scopes[] = "pkg.torch.onnx.name_scopes", stack[] = "pkg.torch.onnx.stack_trace";
    onnx_builder b;
    mp_training_options wanted = {.loss = MP_LOSS_NONE};
    const mp_target target = mp_roofline(mp_device_find("a100"));
    mp_graph *graph = NULL;
    mp_error err = {0};
    int loss, lines = 0;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,4");
    onnx_initializer(&b, "scale.weight", FLOAT, "4");
    onnx_node(&b, "Mul", "", "x,scale.weight", "scaled");
    Onnx__NodeProto *first = onnx_node(&b, "Relu", "node_relu", "scaled", "relu");
    note(&b, &first->base, 9, scopes, "['', 'blocks.0', 'blocks.0.act', 'relu']");
    note(&b, &first->base, 9, stack,
         "File \"/home/me/net.py\", line 40, in forward\n    x = self.blocks(x)\n  File \"/home/me/net.py\", line 12, in "
         "forward\n    return self.act(x)\n  File \"/usr/lib/python3.11/site-packages/torch/act.py\", line 7, in f\n    return "
         "r(x)");
    Onnx__NodeProto *second = onnx_node(&b, "Relu", "node_relu_1", "relu", "relu_1");
    note(&b, &second->base, 9, scopes, "['', 'relu_1']");
    note(&b, &second->base, 9, stack, "File \"/usr/lib/python3.11/site-packages/torch/act.py\", line 7, in f");
    Onnx__NodeProto *third = onnx_node(&b, "Sqrt", "node_sqrt", "relu_1", "y");
    note(&b, &third->base, 9, scopes, "['', 'head', 'sqrt']");
    note(&b, &third->base, 9, stack,
         "File \"a.py\", line 4294967297, in f\n  File \"b.py\", line -3, in f\n  no file, no line");
    onnx_node(&b, "Exp", "/old/Exp", "relu_1", "z");
    onnx_output(&b, "y", FLOAT, "2,4");
    onnx_output(&b, "z", FLOAT, "2,4");
    mp_model *model = load(&b, 0);
    int at = mp_model_find(model, "relu");
    assert_true(at >= 0 && at == mp_model_find(model, "/blocks.0/blocks.0.act/relu"));
    assert_string_equal(model->tensors[at].name, "/blocks.0/blocks.0.act/relu");
    assert_string_equal(model->tensors[at].source, "net.py:12: return self.act(x)");
    assert_string_equal(model->operators[model->tensors[at].producer].name, "/blocks.0/blocks.0.act/relu");
    at = mp_model_find(model, "relu_1");
    assert_string_equal(model->tensors[at].name, "relu_1");
    assert_string_equal(model->tensors[at].source, "act.py:7");
    assert_string_equal(model->operators[model->tensors[at].producer].name, "node_relu_1");
    at = mp_model_find(model, "y"); /* an output keeps its name; its operator has a module */
    assert_string_equal(model->tensors[at].name, "y");
    assert_null(model->tensors[at].source);
    assert_string_equal(model->operators[model->tensors[at].producer].name, "/head/sqrt");
    at = mp_model_find(model, "z");
    assert_string_equal(model->operators[model->tensors[at].producer].name, "/old/Exp");
    if (mp_model_add_loss(model, &wanted, &loss, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_training_graph(model, &wanted, loss, &target, &graph, &err) != MP_OK) fail_msg("%s", err.message);
    for (size_t k = 0; k < graph->n_nodes; k++)
        lines += graph->nodes[k].source && !strcmp(graph->nodes[k].source, "net.py:12: return self.act(x)");
    assert_true(lines >= 1);
    mp_graph_free(graph);
    mp_model_free(model);
    onnx_end(&b);
}

TEST(reading_survives_every_allocation_failure)
{
    mp_status st = MP_NOMEM;
    long k = 0;
    for (; st != MP_OK; k++) {
        mp_error err = {0};
        mp_model *model = NULL;
        const long live = mp_alloc_live;
        mp_alloc_budget = k;
        st = mp_onnx_read("tests/networks/files/dropout_cnn.dynamo.onnx", &(mp_onnx_options){0}, &model, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        if (st == MP_OK) assert_int_equal(model->folded_norms, 1);
        mp_model_free(model);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_true(k > 20);
}

/* PyTorch's older exporter computes tensors that depend on no input, and names them after their reader. Swin: the table of
 * relative positions has 9 rows; its folded form has 32 elements and no trace of the table. */
TEST(tensors_that_constant_folding_may_have_computed_are_counted)
{
    static const float sines[16] = {0, 0, 1, 1, 0.84f, 0.01f, 0.54f, 0.99f};
    static const struct row {
        const char *kind, *name, *dims;
        bool is_doubted;
    } rows[] = {{"Add", "onnx::Add_1743", "1,2,4,4", true}, /* a bias of positions, from a smaller table */
                {"Mul", "onnx::Mul_859", "1,2,1,1", true},  /* a frozen batch normalization, from four buffers */
                {"Add", "onnx::Add_539", "1,4", true},      {"Add", "onnx::Add_540", "4", true},
                {"Add", "1744", "1,2,4,4", true},           /* releases before 1.11 */
                {"Mul", "onnx::Mul_41", "2,1,1", false},    /* the scale of a group normalization */
                {"MatMul", "onnx::MatMul_9", "4,4", false}, /* a transposed weight */
                {"Add", "positions", "1,2,4,4", false},     /* a parameter under its own name */
                {"Mul", "onnx::Mul_12", "", false},         /* a number is a constant */
                {"Add", "onnx::Add_13", "4,4", false}};     /* sines */
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        onnx_builder b;
        char in[40];
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "3,2,4,4");
        onnx_initializer(&b, "l.weight", FLOAT, "4,4");
        Onnx__TensorProto *t = onnx_initializer(&b, rows[k].name, FLOAT, rows[k].dims);
        if (!strcmp(rows[k].name, "onnx::Add_13")) onnx_raw(t, sines, sizeof sines);
        onnx_node(&b, "MatMul", "", "x,l.weight", "h");
        snprintf(in, sizeof in, "h,%s", rows[k].name);
        onnx_node(&b, rows[k].kind, "", in, "y");
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = load(&b, 0);
        if (model->doubts[MP_DOUBT_FOLDED].n != rows[k].is_doubted) fail_msg("%s: %d", rows[k].name, !rows[k].is_doubted);
        if (rows[k].is_doubted) {
            assert_string_equal(model->doubts[MP_DOUBT_FOLDED].names, rows[k].name);
            assert_int_equal(model->doubts[MP_DOUBT_FOLDED].elements, mp_tensor_elements(onnx_find(model, rows[k].name)));
        }
        mp_model_free(model);
        onnx_end(&b);
    }
}

/* A file in which all tensors are numbered does not come from constant folding. */
TEST(numbers_are_the_names_of_all_tensors_or_of_folded_ones)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "0", FLOAT, "3,2,4,4");
    onnx_initializer(&b, "1", FLOAT, "4,4");
    onnx_initializer(&b, "2", FLOAT, "1,2,4,4");
    onnx_node(&b, "MatMul", "", "0,1", "3");
    onnx_node(&b, "Add", "", "3,2", "4");
    onnx_output(&b, "4", FLOAT, "");
    mp_model *model = load(&b, 0);
    assert_int_equal(model->doubts[MP_DOUBT_FOLDED].n, 0);
    mp_model_free(model);
    onnx_end(&b);
}

/* An argument `clone` that is no tensor of the file stands for a contiguous copy of the tensor that the node reads instead. */
TEST(contiguous_copies_are_found_in_the_records_of_calls)
{
    static const struct {
        const char *call;
        bool is_copied;
    } rows[] = {{"add.Tensor](args = (%clone, %p_w), kwargs = {})", true},
                {"add.Tensor](args = (%clone_17, 2), kwargs = {})", true},
                {"add.Tensor](args = ([%clone, %clone_1], 2), kwargs = {})", true},
                {"add.Tensor](args = (%view, %clone), kwargs = {})", true}, /* one other name, which may be an input's */
                {"add.Tensor](args = (%t, %p_w), kwargs = {})", false},     /* read as it is */
                {"add.Tensor](args = (%view, %p_w), kwargs = {})", false},
                {"add.Tensor](args = (%cloned, %p_w), kwargs = {})", false},
                {"add.Tensor](args = (%p_w), kwargs = {})", false},
                {"add.Tensor](args = (%", false},
                {"add.Tensor", false}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        onnx_builder b;
        char record[256];
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,4");
        onnx_initializer(&b, "w", FLOAT, "2");
        onnx_node(&b, "Transpose", "", "x", "t");
        Onnx__NodeProto *node = onnx_node(&b, "Add", "", "t,w", "y");
        onnx_output(&b, "y", FLOAT, "");
        snprintf(record, sizeof record, "%%add : [num_users=1] = call_function[target=torch.ops.aten.%s", rows[k].call);
        note(&b, &node->base, 9, "pkg.torch.onnx.fx_node", record);
        mp_model *model = load(&b, 0);
        const mp_operator *add =
            onnx_find(model, "y")->producer >= 0 ? &model->operators[onnx_find(model, "y")->producer] : NULL;
        const int from = model->tensors[add->in[0]].producer;
        assert_true(from >= 0);
        if (rows[k].is_copied != (mp_operator_int(&model->operators[from], "copies", 0) == 1)) fail_msg("%s", rows[k].call);
        mp_model_free(model);
        onnx_end(&b);
    }
}
