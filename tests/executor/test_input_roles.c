/* test_input_roles.c - an input's role follows from the operators that finally read it, through casts, views and arithmetic. */
#include "executor/data/input_roles.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

typedef struct role_case {
    const char *model, *input;
    mp_input_kind kind;
    int64_t n_values;
    double fixed;
    const char *op; /* the output of the deciding operator; NULL: none */
} role_case;

static void check(const role_case *cases, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        mp_model *model = model_text(cases[k].model);
        mp_consumers consumers;
        mp_input_role role;
        mp_error err = {0};
        char op[64] = "";
        assert_int_equal(mp_model_consumers(model, &consumers, &err), MP_OK);
        assert_int_equal(mp_input_role_of(model, &consumers, mp_model_find(model, cases[k].input), &role, &err), MP_OK);
        if (cases[k].op) snprintf(op, sizeof op, "%s/op", cases[k].op);
        if (role.kind != cases[k].kind || role.n_values != cases[k].n_values || role.fixed != cases[k].fixed ||
            strcmp(role.op < 0 ? "" : model->operators[role.op].name, op) != 0)
            fail_msg("%s: '%s' is %s, %lld values, fixed %g, by '%s'", cases[k].model, cases[k].input,
                     mp_input_kind_name(role.kind), (long long)role.n_values, role.fixed,
                     role.op < 0 ? "" : model->operators[role.op].name);
        mp_consumers_free(&consumers);
        mp_model_free(model);
    }
}

#define CHECK(cases) check(cases, sizeof(cases) / sizeof *(cases))

TEST(row_numbers_stay_below_their_table)
{
    static const role_case cases[] = {
        {"data:7 i 2 3; param w 10 4; Gather w i -> y; out y", "i", MP_INPUT_IDS, 10, 0, "y"},
        {"data:7 i 2 3; param w 10 4; Gather w i -> y axis=1; out y", "i", MP_INPUT_IDS, 4, 0, "y"},
        /* several tables: the smallest one decides */
        {"data:7 i 2 3; param w 10 4; param v 7 4; Gather w i -> y; Gather v i -> z; out y z", "i", MP_INPUT_IDS, 7, 0, "z"},
        /* views, casts, slices and joins preserve the role */
        {"data:6 i 2 3; ints s 6; param w 10 4; Cast i -> c to=7; Reshape c s -> r; Concat r r -> j axis=0; "
         "Gather w j -> y; out y",
         "i", MP_INPUT_IDS, 10, 0, "y"},
        /* arithmetic: x + 2 below 10, 3 x below 10, x + {0, 6} below 10 */
        {"data:7 i 2 3; ints two 2; param w 10 4; Add i two -> a; Gather w a -> y; out y", "i", MP_INPUT_IDS, 8, 0, "y"},
        {"data:7 i 2 3; ints three 3; param w 10 4; Mul i three -> a; Gather w a -> y; out y", "i", MP_INPUT_IDS, 4, 0, "y"},
        {"data:7 i 3 2; ints from 0 6; param w 10 4; Add i from -> a; Gather w a -> y; out y", "i", MP_INPUT_IDS, 4, 0, "y"},
        {"data:7 i 2 4; param w 3 4; data u 2 4; ScatterElements w i u -> y axis=0; out y", "i", MP_INPUT_IDS, 3, 0, "y"},
        {"data:7 i 2 4; param w 3 4; GatherElements w i -> y axis=1; out y", "i", MP_INPUT_IDS, 4, 0, "y"},
        {"data:7 i 5 2; param w 6 3 8; data u 5 8; ScatterND w i u -> y; out y", "i", MP_INPUT_IDS, 3, 0, "y"},
        {"data:7 i 5 1; param w 6 3; GatherND w i -> y; out y", "i", MP_INPUT_IDS, 6, 0, "y"},
        {"data:7 i 2 3; ints five 5; ints v 0 1; OneHot i five v -> y; out y", "i", MP_INPUT_IDS, 5, 0, "y"},
        {"data x 2 5; data:7 target 2; SoftmaxCrossEntropyLoss x target -> y; out y", "target", MP_INPUT_TARGET, 5, 0, "y"},
        {"data x 2 5; data t 2 5; memplan:MeanSquaredError x t -> y; out y", "t", MP_INPUT_TARGET, 0, 0, "y"},
    };
    CHECK(cases);
}

/* The drawn mask hides no elements. */
TEST(masks_are_open)
{
    static const role_case cases[] = {
        /* (1 - m) * -10000 is added */
        {"data:7 m 2 3; data s 2 3; const one 1; const low -10000; Cast m -> f to=1; Sub one f -> n; Mul n low -> a; "
         "Add s a -> y; out y",
         "m", MP_INPUT_MASK, 0, 1, "y"},
        {"data:7 m 2 3; data s 2 3; const low -10000; Cast m -> f to=1; Mul f low -> a; Add s a -> y; out y", "m",
         MP_INPUT_MASK, 0, 0, "y"},
        /* a condition replaces elements by a number */
        {"data:9 m 2 3; data s 2 3; const low -10000; Where m low s -> y; out y", "m", MP_INPUT_MASK, 0, 0, "y"},
        {"data:9 m 2 3; data s 2 3; const low -10000; Where m s low -> y; out y", "m", MP_INPUT_MASK, 0, 1, "y"},
        {"data:9 m 2 3; data s 2 3; const low -10000; Not m -> n; Where n s low -> y; out y", "m", MP_INPUT_MASK, 0, 0, "y"},
        {"data:7 m 2 3; data s 2 3; const low -10000; ints zero 0; Equal m zero -> n; Where n low s -> y; out y", "m",
         MP_INPUT_MASK, 0, 1, "y"},
        /* a second mask does not close this one */
        {"data:9 m 2 3; data:9 o 2 3; data s 2 3; const low -10000; const nil 0; And o m -> b; Where b nil low -> a; "
         "Add a s -> y; out y",
         "m", MP_INPUT_MASK, 0, 1, "y"},
        {"data:9 m 2 3; data:9 o 2 3; data s 2 3; const low -10000; Or m o -> b; Where b low s -> y; out y", "m", MP_INPUT_MASK,
         0, 0, "y"},
        /* attention as one operator */
        {"data q 2 1 3 4; data:9 m 2 1 3 3; memplan:ScaledDotProductAttention q q q - m -> y keeps=1; out y", "m",
         MP_INPUT_MASK, 0, 1, "y"},
        {"data q 2 1 3 4; data:9 m 2 1 3 3; memplan:ScaledDotProductAttention q q q - m -> y keeps=0; out y", "m",
         MP_INPUT_MASK, 0, 0, "y"},
        {"data q 2 1 3 4; data:7 m 2 1 1 3; const low -10000; Cast m -> f to=1; Mul f low -> a; "
         "memplan:ScaledDotProductAttention q q q a -> y; out y",
         "m", MP_INPUT_MASK, 0, 0, "y"},
        /* inactive activations */
        {"data:7 m 2 3; data x 2 3; Relu x -> r; Cast m -> f to=1; Mul r f -> y; out y", "m", MP_INPUT_MASK, 0, 1, "y"},
        /* positions are sums of masks; gathering with them does not make the mask a row index */
        {"data:7 m 2 3; data s 2 3; ints one 1; const low -10000; param w 4 3; CumSum m one -> c; Gather w c -> d; "
         "Mul c m -> p; Gather w p -> e; Cast m -> f to=1; Mul f low -> a; Add s a -> y; out y d e",
         "m", MP_INPUT_MASK, 0, 0, "y"},
    };
    CHECK(cases);
}

TEST(positions_ascend_and_lengths_are_full)
{
    static const role_case cases[] = {
        {"data:7 position_ids 2 3; param w 10 4; Gather w position_ids -> y; out y", "position_ids", MP_INPUT_POSITIONS, 10, 0,
         "y"},
        {"data:7 i 2 3; param wpe.weight 10 4; Gather wpe.weight i -> y; out y", "i", MP_INPUT_POSITIONS, 10, 0, "y"},
        {"data:7 i 2 3 1; param f 1 1 4; Cast i -> c to=1; MatMul c f -> a; Cos a -> y; out y", "i", MP_INPUT_POSITIONS, 0, 0,
         "y"},
        {"data x 6 2 3; data:6 n 2; param w 1 16 3; param r 1 16 4; LSTM x w r - n -> y hidden_size=4; out y", "n",
         MP_INPUT_LENGTHS, 7, 6, "y"},
        {"data:7 n 2 1; ints steps 0 1 2 3 4; Less steps n -> b; Cast b -> y to=1; out y", "n", MP_INPUT_LENGTHS, 6, 5, "b"},
    };
    CHECK(cases);
}

TEST(the_rest_is_plain)
{
    static const role_case cases[] = {
        {"data x 2 3; Relu x -> y; out y", "x", MP_INPUT_PLAIN, 0, 0, NULL},
        {"data x 2 3; data z 2 3; Relu z -> r; Mul x r -> m; Add x m -> y; out y", "x", MP_INPUT_PLAIN, 0, 0, NULL},
        {"data:7 i 2 3; Cast i -> c to=1; Relu c -> y; out y", "i", MP_INPUT_PLAIN, 0, 0, NULL},
        /* the picked table row depends on more inputs than this one */
        {"data:7 i 2 3; data:7 j 2 3; param w 10 4; Mul i j -> k; Gather w k -> y; out y", "i", MP_INPUT_PLAIN, 0, 0, NULL},
        /* only the name shows the role */
        {"data:7 attention_mask 2 3; Cast attention_mask -> c to=1; Relu c -> y; out y", "attention_mask", MP_INPUT_MASK, 0, 1,
         NULL},
    };
    CHECK(cases);
}
