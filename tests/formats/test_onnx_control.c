/* test_onnx_control.c - If with a known condition is replaced by its branch. Also names, roles and values in subgraphs,
 * malformed or too many subgraphs, and one list of all unsupported operators. Expected graphs are written by hand. */
#include "estimator/base/memory.h"
#include "formats/onnx/onnx_weights.h"
#include "memplan/simplify.h"
#include "tests/cases/model_text.h"
#include "tests/cases/onnx_text.h"
#include "tests/cases/test.h"

static const char branches[] = "If yes -> y @if then_branch { Relu x -> t; out t } else_branch { Tanh x -> t; out t }; out y";

static mp_model *with(const char *start)
{
    char text[4096];
    snprintf(text, sizeof text, "input x float 2,3; %s; %s", start, branches);
    return onnx_text_model(17, text);
}

static void assert_kinds(mp_model *model, const char *kinds)
{
    assert_string_equal(model_kinds(model), kinds);
    mp_model_free(model);
}

TEST(a_constant_condition_picks_a_branch)
{
    assert_kinds(with("bool yes 1"), "Relu Identity"), assert_kinds(with("bool yes 0"), "Tanh Identity");
}

/* PyTorch exports this test for a tensor with one dimension. */
TEST(a_condition_that_shapes_decide_picks_a_branch)
{
    assert_kinds(with("int two 2; Shape x -> s; Size s -> n; Equal n two -> yes"), "Shape Size Equal Relu Identity");
    mp_model *model = with("int three 3; Shape x -> s; Size s -> n; Equal n three -> yes");
    assert_int_equal(onnx_find(model, "y")->rank, 2);
    assert_int_equal(onnx_find(model, "y")->dims[1], 3);
    assert_kinds(model, "Shape Size Equal Tanh Identity");
}

/* A branch's result computed from data has the shape that the file declares for the If. */
TEST(declared_shapes_hold_within_the_branch)
{
    static const char text[] = "input x float 2,3; bool yes 1; If yes -> y @if then_branch { NonZero x -> t; out t }"
                               "else_branch { Shape x -> t; out t }; Neg y -> z; out z";
    onnx_builder b;
    onnx_text_start(&b, 17, text);
    onnx_push(&b, &b.graph.n_value_info, &b.graph.value_info, onnx_value_info(&b, "y", 7, "2,5"));
    mp_model *model = onnx_load(&b, NULL);
    assert_int_equal(onnx_find(model, "z")->dims[1], 5);
    mp_model_free(model);
    onnx_end(&b);
    onnx_text_refused(17, text, MP_UNSUPPORTED, "'if#then/t',not declared");
}

TEST(branches_stand_in_branches_and_see_what_is_around_them)
{
    mp_model *model = onnx_text_model(17, "input x float 2,3; bool yes 1; bool no 0;"
                                          "If yes -> y @a then_branch { Relu x -> r;"
                                          "  If no -> z @b then_branch { out r } else_branch { Add r x -> s; out s };"
                                          "  Tanh z -> t; out t } else_branch { out x }; out y");
    assert_string_equal(model->operators[1].name, "Add(a#then/b#else/s)");
    onnx_find(model, "a#then/r");
    assert_kinds(model, "Relu Add Identity Tanh Identity");
}

TEST(a_name_of_its_own_hides_the_one_around_it)
{
    mp_model *model = onnx_text_model(17, "input x float 2,3; bool yes 1; Tanh x -> t;"
                                          "If yes -> y @a then_branch { Relu x -> t; Neg t -> u; out u } else_branch { out t };"
                                          "Add y t -> z; out z");
    const mp_operator *neg = &model->operators[model->tensors[mp_model_find(model, "a#then/u")].producer];
    assert_string_equal(model->tensors[neg->in[0]].name, "a#then/t");
    mp_model_free(model);
}

/* The file's nodes may be in any order. */
TEST(a_branch_may_read_what_is_computed_further_down)
{
    assert_kinds(onnx_text_model(17, "input x float 2,3; bool yes 1;"
                                     "If yes -> y then_branch { Relu late -> t; out t } else_branch { Neg late -> t; out t };"
                                     "Tanh x -> late; out y"),
                 "Tanh Relu Identity");
    /* an unread tensor may be computed later */
    assert_kinds(onnx_text_model(17,
                                 "input x float 2,3; bool yes 1; Neg y -> z; Tanh x -> late;"
                                 "If yes -> y then_branch { Relu x -> t; Abs late -> u; out t } else_branch { out x }; out z"),
                 "Relu Identity Neg Tanh");
}

TEST(a_function_may_contain_a_branch)
{
    onnx_builder b;
    onnx_text_start(&b, 17, "input x float 2,3; local.Block x -> y @call; out y");
    onnx_import(&b, "local", 1);
    Onnx__FunctionProto *f = onnx_function(&b, "local", "Block", "a", "c");
    onnx_builder inner;
    onnx_text_start(&inner, 17, "bool yes 1; If yes -> c @if then_branch { Relu a -> t; out t } else_branch { out a }");
    onnx_function_node(&b, f, "Constant", "", "yes");
    Onnx__AttributeProto *value = onnx_attribute(&b, f->node[0], "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
    value->t = inner.graph.initializer[0];
    onnx_push(&b, &f->n_node, &f->node, inner.graph.node[0]);
    mp_model *model = onnx_load(&b, NULL);
    assert_non_null(onnx_find(model, "call/if#then/t"));
    assert_kinds(model, "Constant Relu Identity");
    onnx_end(&inner);
    onnx_end(&b);
}

TEST(what_stands_in_a_subgraph_keeps_its_role)
{
    mp_model *model =
        onnx_text_model(17, "input x float 2,3; weight w 3,3; weight other 3,3; bool yes 1;"
                            "If yes -> y @a then_branch { weight inner 3,3; weight val_3 2,3; MatMul x w -> t;"
                            "  MatMul t inner -> u; Add u val_3 -> v; out v } else_branch { MatMul x other -> t; out t };"
                            "out y");
    assert_role(model, "w", "parameter");
    assert_role(model, "a#then/inner", "parameter");
    assert_role(model, "a#then/val_3", "constant"); /* named like a result, as in the main graph */
    assert_role(model, "other", "constant");        /* read only by the branch not taken */
    mp_model_free(model);
}

/* In a file without weights as initializers, an input that only a branch reads as a weight is a weight. */
TEST(an_input_that_a_subgraph_reads_as_a_weight_is_one)
{
    static const struct {
        int version;
        const char *text;
    } cases[] = {
        {17, "input w float 3,3; bool yes 1; If yes -> y then_branch { MatMul x w -> t; out t } else_branch { out x }"},
        {17,
         "input w float 3,3; int n 2; Loop n - w -> p y body { formal i c u; MatMul x u -> t; Identity c -> d; out d u t }"},
        {17, "input w float 4,3,3; Scan w -> y num_scan_inputs=1 body { formal u; MatMul x u -> t; out t }"},
        {8, "input w float 2,4,3,3; Scan - w -> y num_scan_inputs=1 body { formal u; MatMul x u -> t; out t }"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[512];
        snprintf(text, sizeof text, "input x float 2,3; %s; out y", cases[k].text);
        mp_model *model = onnx_text_model(cases[k].version, text);
        assert_role(model, "w", "parameter");
        assert_role(model, "x", "data");
        mp_model_free(model);
    }
}

/* Values too large for the model are read from the file on request, by the model's name for the tensor. */
TEST(large_values_in_a_subgraph_are_found)
{
    enum { N = 2000 };
    static float numbers[N];
    onnx_builder b;
    mp_onnx_weights *weights = NULL;
    mp_error err = {0};
    for (int k = 0; k < N; k++) numbers[k] = (float)k;
    onnx_text_start(
        &b, 17,
        "input x float 2000; bool yes 1;"
        "If yes -> y @a then_branch { weight w 2000; If yes -> z @b then_branch { weight v 2000; Mul x v -> t; out t }"
        "  else_branch { out x }; Mul z w -> t; out t } else_branch { out x }; out y");
    Onnx__GraphProto *a = b.graph.node[0]->attribute[0]->g, *inner = a->node[0]->attribute[0]->g;
    onnx_raw(a->initializer[0], numbers, sizeof numbers);
    onnx_raw(inner->initializer[0], numbers, sizeof numbers);
    mp_model *model = onnx_load(&b, NULL);
    assert_int_equal(mp_onnx_weights_open(b.path, NULL, &weights, &err), MP_OK);
    static const char *const names[] = {"a#then/w", "a#then/b#then/v"};
    for (int k = 0; k < 2; k++) {
        static float read[N];
        assert_null(onnx_find(model, names[k])->value);
        assert_true(mp_onnx_weights_have(weights, names[k]));
        memset(read, 0, sizeof read);
        assert_int_equal(mp_onnx_weights_read(weights, names[k], MP_DTYPE_FLOAT, N, read, &err), MP_OK);
        assert_true(read[N - 1] == (float)(N - 1));
    }
    mp_onnx_weights_close(weights);
    mp_model_free(model);
    /* with another tensor's name they could not be found */
    onnx_text(&b, "If yes -> q @a then_branch { weight w 2000; Mul x w -> t; out t } else_branch { out x }; out q");
    onnx_refused(&b, NULL, MP_UNSUPPORTED, "a#then/w,the same name");
    onnx_end(&b);
}

/* docs/internals/control-flow.md: three bags, the second one empty. */
TEST(the_example_of_the_documentation_holds)
{
    mp_error err = {0};
    mp_model *model = onnx_text_model(
        17, "input rows float 5,4; ints offsets 0,2,2,5; int one 1; int zero 0; int three 3; ints flat 1; bool yes 1;"
            "SequenceEmpty -> empty;"
            "Loop - yes empty zero -> bag last @LOOP body { formal i c list k; weight zeros 1,4; Reshape k flat -> k1;"
            "  Add k1 flat -> k2; Add k2 flat -> k3; Slice offsets k1 k2 -> begin; Slice offsets k2 k3 -> end; Equal begin end "
            "-> none;"
            "  If none -> row @IF then_branch { out zeros } else_branch { Slice rows begin end -> part @Slice;"
            "    ReduceSum part zero1 -> sum @ReduceSum; out sum };"
            "  SequenceInsert list row -> more; Add k one -> next; Less next three -> d; out d more next };"
            "ints zero1 0; ConcatFromSequence bag -> y @Concat axis=0; out y");
    assert_int_equal(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err), MP_OK);
    assert_string_equal(model_kinds(model), "Slice ReduceSum Slice ReduceSum Concat");
    assert_string_equal(model->operators[0].name, "LOOP#0/IF#else/Slice");
    assert_string_equal(model->operators[3].name, "LOOP#2/IF#else/ReduceSum");
    const mp_operator *concat = &model->operators[4];
    assert_int_equal(concat->n_in, 3);
    assert_string_equal(model->tensors[concat->in[1]].name, "LOOP#/zeros");
    mp_model_free(model);
}

TEST(dynamic_conditions_are_refused)
{
    char text[1024];
    snprintf(text, sizeof text, "input x float 2,3; input yes bool; %s", branches);
    onnx_text_refused(17, text, MP_UNSUPPORTED, "If 'if',its condition 'yes',depends on data,dynamic control flow");
    /* a parameter's initial value must not decide a condition */
    snprintf(text, sizeof text,
             "input x float 2,3; weight w.weight 1; weight zero 1; Mul x w.weight -> v;"
             "Greater w.weight zero -> yes; %s",
             branches);
    onnx_builder b;
    static const float numbers[] = {1, 0};
    onnx_text_start(&b, 17, text);
    for (int k = 0; k < 2; k++) onnx_raw(b.graph.initializer[k], &numbers[k], sizeof *numbers);
    onnx_refused(&b, NULL, MP_UNSUPPORTED, "If 'if',its condition 'yes'");
    onnx_end(&b);
}

TEST(malformed_subgraphs_are_refused)
{
#define IF(then) "input x float 2,3; bool yes 1; If yes -> y @if then_branch { " then " } else_branch { out x }; out y"
    onnx_text_refused(17, IF(""), MP_PARSE, "if#then,0 outputs,has 1");
    onnx_text_refused(17, IF("out x x"), MP_PARSE, "if#then,2 outputs,has 1");
    onnx_text_refused(17, IF("formal a; out a"), MP_PARSE, "if#then,1 inputs,a branch has none");
    onnx_text_refused(17, IF("out nothing"), MP_PARSE, "nothing");
    onnx_text_refused(17, IF("Relu nothing -> t; out t"), MP_PARSE, "nothing");
    onnx_text_refused(17, IF("Relu x -> t; Neg x -> t; out t"), MP_PARSE, "if#then,two tensors,'t'");
    onnx_text_refused(17, IF("weight t 3; Neg x -> t; out t"), MP_PARSE, "if#then,two tensors,'t'");
    onnx_text_refused(17, IF("Relu u -> t; Neg t -> u; out t"), MP_PARSE, "cycle");
    onnx_text_refused(17, IF("Relu y -> t; out t"), MP_PARSE, "cycle"); /* through a name of the enclosing graph */
    onnx_text_refused(17, IF("Relu -> t; out t"), MP_PARSE, "Relu,0 inputs");
    onnx_text_refused(17, "input x float 2,3; bool yes 1; If yes -> y @if then_branch { out x }; out y", MP_PARSE,
                      "If 'if',lacks,'else_branch'");
    onnx_text_refused(17, "input x float 2,3; If -> y @if then_branch { out x } else_branch { out x }; out y", MP_PARSE,
                      "If 'if',one input");
    onnx_text_refused(17, "input x float 2,3; ints yes 1,0; If yes -> y @if then_branch { out x } else_branch { out x }; out y",
                      MP_PARSE, "If 'if',not a single boolean");
    onnx_text_refused(17, "input x float 2,3; Relu x -> y body { out x }; out y", MP_PARSE, "Relu,subgraph 'body'");
#undef IF
}

/* Returns `depth` nested subgraphs. */
static const char *nested(int depth)
{
    static char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, "input x float 2,3; bool yes 1;");
    for (int k = 0; k < depth; k++) n += (size_t)snprintf(text + n, sizeof text - n, "If yes -> y%d then_branch { ", k);
    n += (size_t)snprintf(text + n, sizeof text - n, "out x ");
    for (int k = depth; k-- > 0;) n += (size_t)snprintf(text + n, sizeof text - n, "} else_branch { out x }; out y%d ", k);
    return text;
}

TEST(subgraphs_in_subgraphs_end_somewhere)
{
    mp_model_free(onnx_text_model(17, nested(15)));
    onnx_text_refused(17, nested(40), MP_PARSE, "nested more than 64 deep");
}

TEST(all_unsupported_operators_are_listed)
{
    onnx_text_refused(17,
                      "input x float 2,3; int n 2; bool yes 1; Odd x -> a @first; Relu a -> b; Strange b -> c; Odd c -> d;"
                      "Gelu d -> e; Loop n - e -> y body { formal i k v; Odd v -> w; Identity k -> l; out l w };"
                      "If yes -> z then_branch { out y } else_branch { Hidden y -> t; out t }; out z",
                      MP_UNSUPPORTED, "Odd (3),Strange (1),Gelu of operator set 17 (1),the first one is node 'first'");
    /* in a branch: refused only if the branch is taken */
    onnx_text_refused(17,
                      "input x float 2,3; bool yes 1; If yes -> z @if then_branch { Odd x -> t @odd; Odd t -> u; out u }"
                      "else_branch { Hidden x -> t; out t }; out z",
                      MP_UNSUPPORTED, "Odd (2),'if#then/odd'");
    assert_kinds(onnx_text_model(17, "input x float 2,3; bool yes 1; If yes -> z then_branch { Relu x -> u; out u }"
                                     "else_branch { Hidden x -> t; out t }; out z"),
                 "Relu Identity");
}

/* A hundred kinds: the message lists as many as fit, and the number of the others. */
TEST(a_list_that_is_too_long_is_counted)
{
    char text[8192];
    int n = snprintf(text, sizeof text, "input x float 2; ");
    for (int k = 0; k < 100; k++) n += snprintf(text + n, sizeof text - (size_t)n, "SomewhatLongKind%d x -> t%d; ", k, k);
    snprintf(text + n, sizeof text - (size_t)n, "out t0");
    onnx_text_refused(17, text, MP_UNSUPPORTED, "SomewhatLongKind0 (1), others; the first one");
}

/* Everything combined: a loop with a branch, a sequence and its own weight, and a scan. */
static const char *save_all(onnx_builder *b)
{
    onnx_text_start(
        b, 17,
        "input x float 2,3; bool yes 1; int n 2; SequenceEmpty -> e;"
        "Loop n yes x e -> y s z @l body { formal i c v q; weight w 3; If c -> t then_branch { Add v w -> a; out a }"
        "  else_branch { out v }; Identity c -> d; SequenceInsert q t -> r; Neg t -> u; out d t r u };"
        "ConcatFromSequence s -> j axis=0; Scan y z -> f g num_scan_inputs=1 body { formal a p; Add a p -> m; out m p };"
        "out j f g");
    return onnx_save(b);
}

TEST(running_out_of_memory_is_reported)
{
    onnx_builder b;
    const char *path = save_all(&b);
    mp_status st = MP_NOMEM;
    for (long k = 0, live = mp_alloc_live; st == MP_NOMEM; k++) {
        mp_error err = {0};
        mp_model *model = NULL;
        mp_alloc_budget = k;
        st = mp_onnx_read(path, &(mp_onnx_options){0}, &model, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK && st != MP_NOMEM) fail_msg("allocation %ld: %s", k, err.message);
        mp_model_free(model);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_int_equal(st, MP_OK);
    onnx_end(&b);
}

TEST(flipped_bits_are_survived)
{
    static uint8_t good[4096], bad[4096];
    onnx_builder b;
    FILE *file = fopen(save_all(&b), "rb");
    size_t n = fread(good, 1, sizeof good, file);
    fclose(file);
    uint64_t random = 1;
    for (int k = 0; k < 2000; k++) {
        memcpy(bad, good, n);
        for (int flips = 0; flips < 1 + k % 3; flips++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bad[(random >> 33) % n] ^= (uint8_t)(1u << (random >> 29 & 7));
        }
        mp_error err = {0};
        mp_model *model = NULL;
        long live = mp_alloc_live;
        mp_status st = mp_onnx_read(onnx_save_bytes(&b, bad, n), &(mp_onnx_options){0}, &model, &err);
        if ((st != MP_OK && st != MP_PARSE && st != MP_UNSUPPORTED && st != MP_INVALID) || (st != MP_OK && !err.message[0]))
            fail_msg("case %d: %s: %s", k, mp_status_text(st), err.message);
        mp_model_free(model);
        assert_int_equal(mp_alloc_live, live);
    }
    onnx_end(&b);
}
