/* test_onnx_loops.c - Loop and Scan are unrolled, and their sequences become known. Loops over constant integers fold, so their
 * values are compared with values by hand from ONNX's operator descriptions. */
#include "estimator/base/memory.h"
#include "tests/cases/model_text.h"
#include "tests/cases/onnx_text.h"
#include "tests/cases/test.h"

/* Compares the shape and values of a known tensor: "[2,2] 1 2 3 4". */
static void assert_value(const mp_model *model, const char *name, const char *expected)
{
    const mp_tensor *t = onnx_find(model, name);
    char text[1024] = "[";
    size_t n = 1;
    if (!t->value) fail_msg("the value of '%s' is not known", name);
    for (int d = 0; d < t->rank; d++) n += (size_t)snprintf(text + n, sizeof text - n, "%s%" PRId64, d ? "," : "", t->dims[d]);
    n += (size_t)snprintf(text + n, sizeof text - n, "]");
    for (int64_t k = 0; k < t->value->n && n < sizeof text - 32; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %" PRId64, t->value->i[k]);
    assert_string_equal(text, expected);
}

/* The text names its result y, and z for a second result. */
static void check(int version, const char *text, const char *y, const char *z)
{
    mp_model *model = onnx_text_model(version, text);
    assert_value(model, "y", y);
    if (z) assert_value(model, "z", z);
    mp_model_free(model);
}

TEST(a_loop_with_a_trip_count_carries_and_stacks)
{
    /* 1, 2, 6, 24: v * (i + 1) */
    check(17,
          "int n 4; int one 1; Loop n - one -> y z body { formal i c v; Add i one -> j; Mul v j -> w; Identity c -> d; out d w "
          "w };"
          "out y z",
          "[] 24", "[4] 1 2 6 24");
    check(17, "int n 1; int one 1; Loop n - one -> y z body { formal i c v; Add v one -> w; out c w v }; out y z", "[] 2",
          "[1] 1");
}

TEST(a_condition_ends_a_loop)
{
    /* doubles while below 50; the trip count is the exporters' value for none */
    static const char body[] = "body { formal i c v; Add v v -> w; Less w fifty -> d; out d w i }; out y z";
    char text[512];
    snprintf(text, sizeof text, "int n 9223372036854775807; int one 1; int fifty 50; bool yes 1; Loop n yes one -> y z %s",
             body);
    check(17, text, "[] 64", "[6] 0 1 2 3 4 5");
    snprintf(text, sizeof text, "int one 1; int fifty 50; bool yes 1; Loop - yes one -> y z %s", body);
    check(17, text, "[] 64", "[6] 0 1 2 3 4 5");
    /* the trip count ends it first */
    snprintf(text, sizeof text, "int n 3; int one 1; int fifty 50; bool yes 1; Loop n yes one -> y z %s", body);
    check(17, text, "[] 8", "[3] 0 1 2");
    /* without an initial condition, the body's condition is ignored */
    snprintf(text, sizeof text, "int n 8; int one 1; int fifty 50; Loop n - one -> y z %s", body);
    check(17, text, "[] 256", "[8] 0 1 2 3 4 5 6 7");
}

TEST(a_loop_that_never_runs_hands_on_what_it_got)
{
    check(17, "int n 0; int one 1; Loop n - one -> y body { formal i c v; Add v v -> w; out c w }; out y", "[] 1", NULL);
    check(17, "int n -3; int one 1; Loop n - one -> y body { formal i c v; Add v v -> w; out c w }; out y", "[] 1", NULL);
    check(17, "int n 5; bool no 0; int one 1; Loop n no one -> y body { formal i c v; Add v v -> w; out c w }; out y", "[] 1",
          NULL);
    onnx_text_refused(17, "int n 0; int one 1; Loop n - one -> y z @l body { formal i c v; out c v v }; out y z",
                      MP_UNSUPPORTED, "Loop 'l',no iteration");
}

/* Carried values swap: each iteration reads the previous iteration's values. */
TEST(carried_values_may_change_places)
{
    check(17,
          "int n 7; int zero 0; int one 1; Loop n - zero one -> y z body { formal i c a b; Add a b -> s; out c b s }; out y z",
          "[] 13", "[] 21");
}

TEST(loops_stand_in_loops)
{
    /* the inner loop adds j * 10 + i for j = 0..i; both levels read tensors of the outer graph */
    check(17,
          "int n 3; int zero 0; int one 1; int ten 10; Loop n - zero -> y z body { formal i c v; Add i one -> m;"
          "  Loop m - v -> w k body { formal j e u; Mul j ten -> t; Add t i -> s; Add u s -> x; out e x x };"
          "  ReduceMax k -> r keepdims=0; out c w r }; out y z",
          "[] 48", "[3] 0 12 48");
    /* a branch inside, decided by the iteration number */
    check(17,
          "int n 4; int zero 0; int two 2; int ten 10; Loop n - zero -> y z body { formal i c v; Less i two -> l;"
          "  If l -> w then_branch { Add v ten -> s; out s } else_branch { Sub v i -> s; out s }; out c w w }; out y z",
          "[] 15", "[4] 10 20 18 15");
}

TEST(names_say_where_they_come_from)
{
    mp_model *model =
        onnx_text_model(17, "input x float 2,3; weight w 3,3; int n 2;"
                            "Loop n - x -> y z @/enc/Loop body { formal i c v; weight b 3; MatMul v w -> /enc/p @/enc/mm;"
                            "  Add /enc/p b -> q; Loop n - q -> r @in body { formal j d u; Relu u -> h; out d h };"
                            "  out c r q }; out y z");
    assert_string_equal(model->operators[0].name, "/enc/Loop#0/enc/mm");
    assert_role(model, "w", "parameter");
    assert_role(model, "/enc/Loop#/b", "parameter"); /* shared by all iterations */
    onnx_find(model, "/enc/Loop#1/enc/p");
    onnx_find(model, "/enc/Loop#1/in#1/h");
    int reads = 0;
    for (size_t k = 0; k < model->n_operators; k++)
        for (int j = 0; j < model->operators[k].n_in; j++)
            reads += model->operators[k].in[j] == mp_model_find(model, "/enc/Loop#/b");
    assert_int_equal(reads, 2);
    assert_string_equal(model_kinds(model),
                        "MatMul Add Relu Relu Identity MatMul Add Relu Relu Identity Identity Unsqueeze Unsqueeze "
                        "Concat");
    mp_model_free(model);
}

TEST(constants_are_not_copied)
{
    onnx_builder b;
    onnx_text_start(&b, 17,
                    "input x float 2,3; int n 50; Loop n - x -> y body { formal i c v; Constant -> k; Mul v k -> w; out c w };"
                    "out y");
    Onnx__GraphProto *body = b.graph.node[0]->attribute[0]->g;
    Onnx__AttributeProto *value = onnx_attribute(&b, body->node[0], "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
    static const float half = 0.5f;
    value->t = onnx_tensor(&b, "", 1, "");
    onnx_raw(value->t, &half, sizeof half);
    mp_model *model = onnx_load(&b, NULL);
    int n = 0;
    for (size_t k = 0; k < model->n_operators; k++) n += !strcmp(model->operators[k].kind, "Constant");
    assert_int_equal(n, 1);
    assert_int_equal(model->n_operators, 52);
    mp_model_free(model);
    onnx_end(&b);
}

/* Long lists are joined in steps, because an operator with a thousand operands has no gradient. */
TEST(a_hundred_iterations_are_joined_in_order)
{
    char expected[512];
    size_t n = (size_t)snprintf(expected, sizeof expected, "[100]");
    for (int k = 0; k < 100; k++) n += (size_t)snprintf(expected + n, sizeof expected - n, " %d", k);
    mp_model *model = onnx_text_model(17, "int n 100; Loop n - -> y body { formal i c; out c i }; out y");
    assert_value(model, "y", expected);
    for (size_t k = 0; k < model->n_operators; k++) assert_true(model->operators[k].n_in <= 32);
    mp_model_free(model);
}

TEST(a_scan_cuts_its_inputs_and_stacks_its_outputs)
{
    static const char start[] = "int zero 0; ints s 2,3; ints a 1,2,3,4,5,6; Reshape a s -> m;";
    static const struct {
        const char *scan, *y, *z;
    } cases[] = {
        /* running sums of rows, of columns, backwards, and the order of the results */
        {"ints v 0,0,0; Scan v m -> y z num_scan_inputs=1 body { formal p r; Add p r -> q; out q q }", "[3] 5 7 9",
         "[2,3] 1 2 3 5 7 9"},
        {"ints v 0,0; Scan v m -> y z num_scan_inputs=1 scan_input_axes=[1] body { formal p r; Add p r -> q; out q q }",
         "[2] 6 15", "[3,2] 1 4 3 9 6 15"},
        {"ints v 0,0; Scan v m -> y z num_scan_inputs=1 scan_input_axes=[-1] scan_output_axes=[1] body { formal p r; Add p r "
         "-> q; out q q }",
         "[2] 6 15", "[2,3] 1 3 6 4 9 15"},
        {"ints v 0,0,0; Scan v m -> y z num_scan_inputs=1 scan_input_directions=[1] body { formal p r; Add p r -> q; out q q }",
         "[3] 5 7 9", "[2,3] 4 5 6 5 7 9"},
        {"ints v 0,0,0; Scan v m -> y z num_scan_inputs=1 scan_output_directions=[1] body { formal p r; Add p r -> q; out q q "
         "}",
         "[3] 5 7 9", "[2,3] 5 7 9 1 2 3"},
        {"ints v 0,0,0; Scan v m -> y z num_scan_inputs=1 scan_output_axes=[-1] body { formal p r; Add p r -> q; out q q }",
         "[3] 5 7 9", "[3,2] 1 5 2 7 3 9"},
        /* two inputs, one of them backwards, and two outputs */
        {"Scan m m -> y z num_scan_inputs=2 scan_input_directions=[0,1] body { formal p r; Sub p r -> q; Add p r -> t; out q t "
         "}",
         "[2,3] -3 -3 -3 3 3 3", "[2,3] 5 7 9 5 7 9"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[1024];
        snprintf(text, sizeof text, "%s %s; out y z", start, cases[k].scan);
        check(17, text, cases[k].y, cases[k].z);
        check(9, text, cases[k].y, cases[k].z);
    }
}

/* Before operator set 9 the first dimension is the batch, the second one is scanned, and sequence lengths are the first input.
 */
TEST(an_old_scan_goes_over_each_sample)
{
    static const char start[] =
        "ints s 2,2,1; ints a 1,2,10,20; Reshape a s -> m; ints t 2,1; ints b 100,200; Reshape b t -> v;";
    char text[1024];
    snprintf(text, sizeof text, "%s Scan - v m -> y z num_scan_inputs=1 body { formal p r; Add p r -> q; out q q }; out y z",
             start);
    check(8, text, "[2,1] 103 230", "[2,2,1] 101 103 210 230");
    snprintf(text, sizeof text,
             "%s Scan - v m -> y z num_scan_inputs=1 directions=[1] body { formal p r; Add p r -> q; out q q }; out y z",
             start);
    check(8, text, "[2,1] 103 230", "[2,2,1] 102 103 220 230");
    snprintf(text, sizeof text, "%s ints l 2,1; Scan l v m -> y z @sc num_scan_inputs=1 body { formal p r; out p r }; out y z",
             start);
    onnx_text_refused(8, text, MP_UNSUPPORTED, "Scan 'sc',lengths");
}

TEST(sequences_that_a_loop_fills_are_joined)
{
    static const char fill[] = "int n 3; ints v 1,2; SequenceEmpty -> e;"
                               "Loop n - e v -> s w body { formal i c q u; Add u i -> x; SequenceInsert q x -> r; out c r x };";
    char text[1024];
    snprintf(text, sizeof text, "%s ConcatFromSequence s -> y axis=0; ConcatFromSequence s -> z axis=0 new_axis=1; out y z",
             fill);
    check(17, text, "[6] 1 2 2 3 4 5", "[3,2] 1 2 2 3 4 5");
    snprintf(text, sizeof text, "%s int last -1; SequenceAt s last -> y; SequenceLength s -> z; out y z", fill);
    check(17, text, "[2] 4 5", "[] 3");
}

TEST(sequences_are_made_and_changed)
{
    static const char start[] = "ints a 1,2; ints b 3; ints d 4,5,6; int one 1; int minus -1; SequenceConstruct a b d -> s;";
    static const struct {
        const char *text, *y;
    } cases[] = {{"ConcatFromSequence s -> y axis=0", "[6] 1 2 3 4 5 6"},
                 {"SequenceInsert s b one -> t; ConcatFromSequence t -> y axis=0", "[7] 1 2 3 3 4 5 6"},
                 {"SequenceInsert s b minus -> t; ConcatFromSequence t -> y axis=0", "[7] 1 2 3 3 4 5 6"},
                 {"SequenceInsert s b -> t; ConcatFromSequence t -> y axis=0", "[7] 1 2 3 4 5 6 3"},
                 {"SequenceErase s -> t; ConcatFromSequence t -> y axis=0", "[3] 1 2 3"},
                 {"SequenceErase s one -> t; ConcatFromSequence t -> y axis=0", "[5] 1 2 4 5 6"},
                 {"Identity s -> t; SequenceAt t one -> y", "[1] 3"},
                 /* two sequences extended from the same one are independent */
                 {"SequenceInsert s a -> t; SequenceInsert s b -> u; ConcatFromSequence t -> y axis=0", "[8] 1 2 3 4 5 6 1 2"},
                 {"SequenceInsert s a -> t; SequenceInsert s b -> u; ConcatFromSequence u -> y axis=0", "[7] 1 2 3 4 5 6 3"},
                 {"SplitToSequence d -> t; SequenceAt t one -> y", "[1] 5"},
                 {"SplitToSequence d -> t keepdims=0; SequenceAt t one -> y", "[] 5"},
                 {"int two 2; SplitToSequence d two -> t keepdims=0; SequenceAt t one -> y", "[1] 6"},
                 {"ints two 1,2; SplitToSequence d two -> t axis=-1; SequenceAt t one -> y", "[2] 5 6"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[1024];
        snprintf(text, sizeof text, "%s %s; out y", start, cases[k].text);
        check(17, text, cases[k].y, NULL);
    }
}

TEST(sequences_that_are_none_are_refused)
{
    static const struct {
        const char *text;
        mp_status expected;
        const char *words;
    } cases[] = {{"SequenceConstruct a -> s; Neg s -> y @neg; out y", MP_UNSUPPORTED, "Neg 'neg',sequence 's'"},
                 {"SequenceConstruct a -> y; out y", MP_UNSUPPORTED, "output 'y' is a sequence"},
                 {"SequenceInsert a a -> s @in; out a", MP_PARSE, "SequenceInsert 'in',reads a tensor"},
                 {"SequenceEmpty -> s; ConcatFromSequence s -> y @cat axis=0; out y", MP_UNSUPPORTED, "'cat',empty sequence"},
                 {"SequenceEmpty -> s; SequenceAt s one -> y @at; out y", MP_PARSE, "'at',outside its sequence"},
                 {"SequenceEmpty -> s; SequenceErase s -> t @del; out a", MP_PARSE, "'del',outside its sequence"},
                 {"SequenceConstruct a -> s; SequenceAt s at -> y @pick; out y", MP_UNSUPPORTED,
                  "'pick',position 'at',dynamic control flow"},
                 {"SequenceConstruct a -> s; SequenceAt s -> y @pick; out y", MP_PARSE, "'pick',lacks an input"},
                 {"SplitToSequence a at -> s @cut; out a", MP_UNSUPPORTED, "'cut',sizes 'at',dynamic control flow"},
                 {"int zero 0; SplitToSequence a zero -> s @cut; out a", MP_PARSE, "'cut',parts of size 0"},
                 {"ints odd 1,3; SplitToSequence a odd -> s @cut; out a", MP_PARSE, "Split,sizes"},
                 {"SplitToSequence a -> s @cut axis=1; out a", MP_PARSE, "'cut',axis"},
                 {"SequenceMap a -> y body { formal q; out q }; out y", MP_UNSUPPORTED, "SequenceMap (1)"},
                 {"SequenceConstruct a -> s; If at -> y then_branch { out s } else_branch { out s }; out y", MP_UNSUPPORTED,
                  "If,dynamic"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[1024];
        snprintf(text, sizeof text, "ints a 1,2; int one 1; input at int; %s", cases[k].text);
        onnx_text_refused(17, text, cases[k].expected, cases[k].words);
    }
}

TEST(unknown_trip_counts_are_refused)
{
    onnx_text_refused(17, "input n int; input x float 2; Loop n - x -> y @l body { formal i c v; out c v }; out y",
                      MP_UNSUPPORTED, "Loop 'l',its trip count 'n',dynamic control flow");
    onnx_text_refused(17, "input c bool; input x float 2; Loop - c x -> y @l body { formal i c v; out c v }; out y",
                      MP_UNSUPPORTED, "Loop 'l',its condition 'c',dynamic control flow");
    onnx_text_refused(17,
                      "input x float; int n 3; bool yes 1;"
                      "Loop n yes x -> y @l body { formal i c v; Less v x -> d; Add v v -> w; out d w }; out y",
                      MP_UNSUPPORTED, "Loop 'l',its body computes 'l#0/d',dynamic control flow");
    onnx_text_refused(17, "input x float 2; Loop - - x -> y @l body { formal i c v; out c v }; out y", MP_UNSUPPORTED,
                      "Loop 'l',never ends");
}

TEST(malformed_loops_are_refused)
{
    static const char start[] = "int n 3; int one 1; ints a 1,2; ints b 1,2,3;";
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"Loop n - one -> y @l body { formal i c; out c i }; out y", "Loop 'l',has 3 inputs,its body has 2"},
        {"Loop n -> y @l body { formal i; out i i }; out y", "Loop 'l',has 1 inputs"},
        {"Loop n - - -> y @l body { formal i c v; out c v }; out y", "Loop 'l',lacks its input 2"},
        {"Loop n - one -> y @l body { formal i c v; out c }; out y", "l#,has 1 outputs"},
        {"Loop n - one -> y z @l body { formal i c v; out c v }; out y", "l#,has 2 outputs,the operator has 2 outputs"},
        {"Loop n - one -> y @l body { formal i c i; out c i }; out y", "l#,two tensors,'i'"},
        {"Loop n - one -> y @l; out y", "Loop 'l',lacks its subgraph 'body'"},
        {"Loop a - one -> y @l body { formal i c v; out c v }; out y", "Loop 'l',trip count,not a single number"},
        {"Scan a b -> y @s num_scan_inputs=2 body { formal p q; out p }; out y", "Scan 's',2 elements,3 of 'b'"},
        {"Scan a -> y @s body { formal p; out p }; out y", "Scan 's',of which it scans 0"},
        {"Scan a -> y @s num_scan_inputs=2 body { formal p; out p }; out y", "Scan 's',of which it scans 2"},
        {"Scan a -> y @s num_scan_inputs=1 scan_input_axes=[1] body { formal p; out p }; out y",
         "Scan 's',axis 1,1 dimensions"},
        {"Scan one -> y @s num_scan_inputs=1 body { formal p; out p }; out y", "Scan 's',axis 0,0 dimensions"},
        {"Scan a a -> y @s num_scan_inputs=1 body { formal p; out p }; out y", "Scan 's',its body has 1"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[1024];
        snprintf(text, sizeof text, "%s %s", start, cases[k].text);
        onnx_text_refused(17, text, MP_PARSE, cases[k].words);
    }
}

TEST(huge_trip_counts_are_refused_with_the_number_needed)
{
    static const char body[] = "body { formal i c v; Neg v -> w; Neg w -> x; out c x }; out y";
    char text[1024];
    snprintf(text, sizeof text, "input x float 2; int n 30000; Loop n - x -> y @l %s", body);
    onnx_text_refused(17, text, MP_UNSUPPORTED,
                      "Loop 'l',90000 operators,30000 iterations of 3,65536 unrolled operators (MP_UNROLLED_MAX)");
    snprintf(text, sizeof text, "input x float 2; int n 9223372036854775807; Loop n - x -> y @l %s", body);
    onnx_text_refused(17, text, MP_UNSUPPORTED, "Loop 'l',iterations of 3,MP_UNROLLED_MAX");
    /* with a known condition; and an endless loop */
    snprintf(text, sizeof text, "input x float 2; bool yes 1; int n 30001; Loop n yes x -> y @l %s", body);
    onnx_text_refused(17, text, MP_UNSUPPORTED, "Loop 'l',90000 operators,30000 iterations of 3");
    snprintf(text, sizeof text, "input x float 2; bool yes 1; Loop - yes x -> y @l %s", body);
    onnx_text_refused(17, text, MP_UNSUPPORTED, "more than 65536 operators (MP_UNROLLED_MAX)");
    /* iterations of nested loops multiply */
    onnx_text_refused(17,
                      "input x float 2; int n 300; Loop n - x -> y @l body { formal i c v;"
                      "  Loop n - v -> w body { formal j d u; Neg u -> t; out d t }; out c w }; out y",
                      MP_UNSUPPORTED, "MP_UNROLLED_MAX");
    onnx_text_refused(17, "input x float 70000; Scan x -> y @s num_scan_inputs=1 body { formal p; Neg p -> q; out q }; out y",
                      MP_UNSUPPORTED, "Scan 's',210000 operators,70000 iterations");
    onnx_text_refused(17, "input x float 70000; SplitToSequence x -> s @cut; out x", MP_UNSUPPORTED, "'cut',MP_UNROLLED_MAX");
    onnx_text_refused(17, "input x float 30000; SplitToSequence x -> s; SplitToSequence x -> t; SplitToSequence x -> u; out x",
                      MP_UNSUPPORTED, "MP_UNROLLED_MAX");
}

/* A few iterations over a large body: bytes are limited as well. */
TEST(large_bodies_are_counted_in_bytes)
{
    onnx_builder b;
    onnx_text_start(&b, 17, "input x float 2; int n 10000; Loop n - x -> y body { formal i c v; Neg v -> w; out c w }; out y");
    Onnx__GraphProto *body = b.graph.node[0]->attribute[0]->g;
    body->node[0]->name = mp_pool_alloc(b.pool, 100001, 1);
    memset(body->node[0]->name, 'n', 100000);
    onnx_refused(&b, NULL, MP_UNSUPPORTED, "MP_UNROLLED_BYTES_MAX");
    onnx_end(&b);
}
