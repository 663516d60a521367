/* test_sequences.c - the recurrent layers cut into chunks, and the operands of each chunk. tests/executor/test_gradients.c
 * checks that chunks give the same values and PyTorch's gradients. */
#include "estimator/simplify/sequences.h"
#include "memplan/simplify.h"
#include "tests/cases/model_text.h"
#include "tests/cases/test.h"

static mp_model *cut(const char *text, int64_t steps, int n_layers, int n_chunks)
{
    mp_error err = {0};
    mp_sequence_report report;
    mp_model *model = model_text(text);
    if (mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err) != MP_OK ||
        mp_model_cut_sequences(model, steps, &report, &err) != MP_OK)
        fail_msg("%s: %s", text, err.message);
    if (report.n_layers != n_layers || report.n_chunks != n_chunks)
        fail_msg("%s: %d layers in %d chunks", text, report.n_layers, report.n_chunks);
    return model;
}

static void check(const char *text, int64_t steps, int n_layers, int n_chunks, const char *kinds)
{
    mp_model *model = cut(text, steps, n_layers, n_chunks);
    if (strcmp(model_kinds(model), kinds) != 0) fail_msg("%s\ngives: %s\nnot:   %s", text, model_kinds(model), kinds);
    mp_model_free(model);
}

#define X "data x 10 2 3; "
#define LSTM_WEIGHTS "param w 1 16 3; param r 1 16 4; "

static const mp_operator *named(const mp_model *model, const char *name)
{
    for (size_t k = 0; k < model->n_operators; k++)
        if (!strcmp(model->operators[k].name, name)) return &model->operators[k];
    fail_msg("there is no operator %s", name);
    return NULL;
}

TEST(chunks_are_chained_by_their_states)
{
    mp_model *model = cut(X LSTM_WEIGHTS "data h 1 2 4; data c 1 2 4; LSTM x w r - - h c -> y yh yc; out y yh yc", 4, 1, 3);
    assert_string_equal(model_kinds(model), "Slice Slice Slice LSTM LSTM LSTM Concat");
    const mp_operator *chunk[3] = {named(model, "y/op:0"), named(model, "y/op:1"), named(model, "y/op:2")};
    const int64_t steps[3] = {4, 4, 2};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(mp_operator_in(model, chunk[k], 0)->dims[0], steps[k]);
        assert_int_equal(mp_operator_out(model, chunk[k], 0)->dims[0], steps[k]);
        assert_int_equal(chunk[k]->in[1], chunk[0]->in[1]);
        for (int s = 0; k && s < 2; s++) assert_int_equal(chunk[k]->in[5 + s], chunk[k - 1]->out[1 + s]);
    }
    assert_string_equal(mp_operator_in(model, chunk[0], 5)->name, "h");
    assert_string_equal(mp_operator_in(model, chunk[0], 6)->name, "c");
    assert_string_equal(mp_operator_out(model, chunk[2], 1)->name, "yh");
    assert_string_equal(mp_operator_out(model, chunk[2], 2)->name, "yc");
    mp_model_free(model);
}

TEST(a_layer_that_runs_backwards_starts_with_the_last_chunk)
{
    mp_model *model = cut(X "param w 1 12 3; param r 1 12 4; GRU x w r -> y h direction=reverse; out y h", 5, 1, 2);
    const mp_operator *first = named(model, "y/op:1"), *last = named(model, "y/op:0");
    assert_int_equal(last->in[5], first->out[1]);
    assert_int_equal(first->in[5], -1);
    assert_string_equal(mp_operator_out(model, last, 1)->name, "h");
    assert_string_equal(mp_operator_text(last, "direction", ""), "reverse");
    const mp_operator *whole = &model->operators[model->n_operators - 1];
    assert_string_equal(whole->kind, "Concat");
    assert_int_equal(whole->in[0], last->out[0]);
    mp_model_free(model);
}

TEST(both_directions_become_layers_of_their_own)
{
    mp_model *model = cut(X "param w 2 4 3; param r 2 4 4; param b 2 8; data h 2 2 4; RNN x w r b - h -> y yh "
                            "direction=bidirectional activations=Relu,Tanh; out y yh",
                          5, 2, 4);
    const mp_operator *forward = named(model, "y/op:0"), *backward = named(model, "y/op:0_2");
    int n[4] = {0};
    for (size_t k = 0; k < model->n_operators; k++) {
        n[0] += !strcmp(model->operators[k].kind, "RNN");
        n[1] += !strcmp(model->operators[k].kind, "Split");
        n[2] += !strcmp(model->operators[k].kind, "Concat");
        n[3] += !strcmp(model->operators[k].kind, "Slice");
    }
    assert_int_equal(n[0], 4);
    assert_int_equal(n[1], 4); /* operands w, r, b, h */
    assert_int_equal(n[3], 2); /* x, read once for both directions */
    assert_int_equal(n[2], 4);
    assert_string_equal(mp_operator_text(forward, "direction", ""), "forward");
    assert_string_equal(mp_operator_text(forward, "activations", ""), "Relu");
    assert_string_equal(mp_operator_text(backward, "direction", ""), "reverse");
    assert_string_equal(mp_operator_text(backward, "activations", ""), "Tanh");
    mp_model_free(model);
}

TEST(layers_above_each_other_are_cut_along_the_same_lines)
{
    check(X LSTM_WEIGHTS
          "param v 1 16 4; param s 1 16 4; ints one 1; LSTM x w r -> y; Squeeze y one -> z; LSTM z v s -> u; out u",
          5, 2, 4, "Slice Slice LSTM LSTM Reshape Reshape LSTM LSTM Concat");
    /* a layer whose result has other readers stays whole */
    check(X LSTM_WEIGHTS
          "param v 1 16 4; param s 1 16 4; ints one 1; LSTM x w r -> y; Squeeze y one -> z; LSTM z v s -> u; out u z",
          5, 2, 4, "Slice LSTM Slice LSTM Concat Squeeze Split LSTM LSTM Concat");
}

TEST(an_embedding_is_cut_in_its_indices)
{
    check("data:7 x 2 10; param e 9 3; " LSTM_WEIGHTS "Gather e x -> g; Transpose g -> t perm=[1,0,2]; LSTM t w r -> y; out y",
          5, 1, 2, "Slice Slice Gather Gather Transpose Transpose LSTM LSTM Concat");
}

TEST(a_layer_without_output_has_chunks_without)
{
    mp_model *model = cut(X LSTM_WEIGHTS "LSTM x w r -> - h; out h", 5, 1, 2);
    assert_string_equal(model_kinds(model), "Slice Slice LSTM LSTM");
    for (size_t k = 2; k < 4; k++) assert_int_equal(model->operators[k].out[0], -1);
    mp_model_free(model);
}

TEST(what_is_short_or_uneven_stays_whole)
{
    check(X LSTM_WEIGHTS "LSTM x w r -> y; out y", 10, 0, 0, "LSTM");
    check(X LSTM_WEIGHTS "data:6 n 2; LSTM x w r - n -> y; out y", 5, 0, 0, "LSTM");
    check(X "param w 1 16 3; param r 1 16 4; LSTM x w r -> y layout=1; out y", 1, 0, 0, "LSTM");
    check(X LSTM_WEIGHTS "LSTM x w r -> y; out y", 0, 0, 0, "LSTM");
    check("data x 64 2 3; " LSTM_WEIGHTS "LSTM x w r -> y; out y", 0, 1, 8,
          "Slice Slice Slice Slice Slice Slice Slice Slice LSTM LSTM LSTM LSTM LSTM LSTM LSTM LSTM Concat");
    assert_int_equal(mp_sequence_steps(63), 63);
    assert_int_equal(mp_sequence_steps(64), 8);
    assert_int_equal(mp_sequence_steps(1000), 32);
}
