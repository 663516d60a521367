/* test_model.c - models built by hand: names, operators and attributes. Random models: the operators' order and the tensors'
 * readers. */
#include "estimator/base/names.h"
#include "estimator/model/model.h"
#include "estimator/model/order.h"
#include "tests/cases/test.h"

static mp_model *new_model(void)
{
    mp_model *model = NULL;
    assert_int_equal(mp_model_new("tiny", "", &model, NULL), MP_OK);
    return model;
}

static int tensor(mp_model *model, const char *name)
{
    int t = -1;
    assert_int_equal(mp_model_tensor(model, name, &t, NULL), MP_OK);
    return t;
}

static int input(mp_model *model, const char *name)
{
    int t = tensor(model, name);
    assert_int_equal(mp_model_declare_input(model, t, NULL), MP_OK);
    return t;
}

/* Adds an operator with one or two inputs ("" for none) and one output. */
static mp_status add(mp_model *model, const char *name, const char *a, const char *b, const char *out, mp_error *err)
{
    int in[2], n_in = 0, y = tensor(model, out), index;
    if (a[0]) in[n_in++] = tensor(model, a);
    if (b[0]) in[n_in++] = tensor(model, b);
    mp_operator_draft draft = {
        .name = name, .kind = "Add", .domain = "", .version = 14, .in = in, .n_in = n_in, .out = &y, .n_out = 1};
    return mp_model_operator(model, &draft, &index, err);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

TEST(names_are_found_again_and_replaced)
{
    static char text[2000][24];
    mp_names *names = mp_names_new();
    assert_non_null(names);
    for (int k = 0; k < 2000; k++) {
        snprintf(text[k], sizeof text[k], "name%d", k);
        assert_int_equal(mp_names_find(names, text[k]), -1);
        assert_true(mp_names_set(names, text[k], k));
    }
    assert_true(mp_names_set(names, "name7", 70000));
    assert_true(mp_names_set(names, "", 5));
    for (int k = 0; k < 2000; k++) assert_int_equal(mp_names_find(names, text[k]), k == 7 ? 70000 : k);
    assert_int_equal(mp_names_find(names, ""), 5);
    assert_int_equal(mp_names_find(names, "name"), -1);
    mp_names_free(names);
}

TEST(types_have_their_names_and_sizes)
{
    assert_string_equal(mp_dtype_name(MP_DTYPE_BFLOAT16), "bfloat16");
    assert_string_equal(mp_dtype_name((mp_dtype)99), "undefined");
    assert_string_equal(mp_dtype_name((mp_dtype)-1), "undefined");
    assert_int_equal(mp_dtype_bits(MP_DTYPE_INT4), 4);
    assert_int_equal(mp_dtype_bits(MP_DTYPE_STRING), 0);
    assert_int_equal(mp_dtype_bits((mp_dtype)99), 0);
    assert_true(mp_dtype_is_float(MP_DTYPE_FLOAT16) && mp_dtype_is_float(MP_DTYPE_FLOAT8E5M2FNUZ));
    assert_true(mp_dtype_is_integer(MP_DTYPE_UINT4) && mp_dtype_is_integer(MP_DTYPE_INT64));
    assert_false(mp_dtype_is_integer(MP_DTYPE_BOOL) || mp_dtype_is_float(MP_DTYPE_BOOL));
    assert_false(mp_dtype_is_float(MP_DTYPE_COMPLEX64) || mp_dtype_is_integer(MP_DTYPE_FLOAT));
    assert_string_equal(mp_role_name(MP_ROLE_PARAMETER), "parameter");
}

TEST(sizes_are_counted_and_refused_when_too_large)
{
    mp_model *model = new_model();
    mp_error err = {0};
    int t = tensor(model, "x");
    int64_t dims[40] = {3, 5}, huge[3] = {INT64_C(1) << 40, INT64_C(1) << 40, 1}, none[3] = {INT64_C(1) << 40, 1 << 30, 0};
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_FLOAT, 2, dims, &err), MP_OK);
    dims[0] = 4; /* the model has its own copy */
    assert_int_equal(mp_tensor_elements(&model->tensors[t]), 15);
    assert_int_equal(mp_tensor_bytes(&model->tensors[t]), 60);
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_INT4, 2, model->tensors[t].dims, &err), MP_OK);
    assert_int_equal(mp_tensor_bytes(&model->tensors[t]), 8);
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_FLOAT, 3, huge, &err), MP_PARSE);
    assert_string_equal(err.message, "tensor 'x' has more bytes than can be counted");
    huge[1] = INT64_C(1) << 22;
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_UINT8, 3, huge, NULL), MP_OK);
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_FLOAT, 3, huge, NULL), MP_PARSE);
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_FLOAT, 3, none, NULL), MP_PARSE); /* strides would overflow */
    none[1] = 1 << 20;
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_FLOAT, 3, none, NULL), MP_OK);
    assert_int_equal(mp_tensor_bytes(&model->tensors[t]), 0);
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_FLOAT, 33, dims, NULL), MP_PARSE);
    dims[1] = -1;
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_FLOAT, 2, dims, NULL), MP_PARSE);
    assert_int_equal(model->tensors[t].rank, 3); /* refused calls change nothing */
    assert_int_equal(mp_tensor_set(model, t, MP_DTYPE_STRING, 0, NULL, NULL), MP_OK);
    assert_int_equal(mp_tensor_elements(&model->tensors[t]), 1);
    assert_int_equal(mp_tensor_bytes(&model->tensors[t]), 0);
    mp_model_free(model);
}

TEST(names_of_operators_and_fresh_tensors_are_unique)
{
    mp_model *model = new_model();
    int t;
    input(model, "x");
    assert_int_equal(add(model, "same", "x", "", "a", NULL), MP_OK);
    assert_int_equal(add(model, "same", "x", "", "b", NULL), MP_OK);
    assert_int_equal(add(model, NULL, "x", "", "c", NULL), MP_OK);
    assert_int_equal(add(model, "same_3", "x", "", "d", NULL), MP_OK);
    assert_int_equal(add(model, "same", "x", "", "e", NULL), MP_OK);
    const char *const expected[] = {"same", "same_2", "Add(c)", "same_3", "same_4"};
    for (int k = 0; k < 5; k++) assert_string_equal(model->operators[k].name, expected[k]);
    assert_int_equal(mp_model_fresh_tensor(model, "new", &t, NULL), MP_OK);
    assert_string_equal(model->tensors[t].name, "new");
    assert_int_equal(mp_model_fresh_tensor(model, "x", &t, NULL), MP_OK);
    assert_string_equal(model->tensors[t].name, "x_2");
    assert_int_equal(mp_model_find(model, "x_2"), t);
    assert_int_equal(mp_model_fresh_tensor(model, "x", &t, NULL), MP_OK);
    assert_string_equal(model->tensors[t].name, "x_3");
    mp_model_free(model);
}

TEST(a_tensor_has_one_producer)
{
    mp_model *model = new_model();
    mp_error err = {0}, self = {0}, outside = {0}, twice = {0};
    input(model, "x");
    assert_int_equal(add(model, "first", "x", "", "y", NULL), MP_OK);
    assert_int_equal(add(model, "second", "x", "", "y", &err), MP_PARSE);
    assert_string_equal(err.message, "operators 'first' and 'second' both write tensor 'y'");
    assert_int_equal(add(model, "loop", "x", "z", "z", &self), MP_PARSE);
    assert_string_equal(self.message, "operator 'loop' reads tensor 'z', which it writes itself");
    assert_int_equal(model->tensors[mp_model_find(model, "z")].producer, -1);
    model->tensors[tensor(model, "w")].role = MP_ROLE_PARAMETER;
    assert_int_equal(add(model, "over", "x", "", "w", &outside), MP_PARSE);
    assert_non_null(strstr(outside.message, "'w'"));
    int both[2] = {tensor(model, "p"), tensor(model, "p")}, index;
    mp_operator_draft draft = {.name = "pair", .kind = "Split", .out = both, .n_out = 2};
    assert_int_equal(mp_model_operator(model, &draft, &index, &twice), MP_PARSE);
    assert_string_equal(twice.message, "operator 'pair' writes tensor 'p' twice");
    assert_int_equal(model->tensors[both[0]].producer, -1);
    assert_int_equal(model->n_operators, 1);
    mp_model_free(model);
}

TEST(attributes_are_copied_deeply_and_have_defaults)
{
    mp_model *model = new_model();
    char text[] = "SAME_UPPER";
    int64_t ints[] = {1, 2}, dims[] = {2};
    double floats[] = {0.5};
    mp_value *value = mp_value_new(model, 2, true);
    value->f[1] = 7;
    mp_attribute attributes[] = {
        {.name = "i", .kind = MP_ATTRIBUTE_INT, .i = 3},
        {.name = "f", .kind = MP_ATTRIBUTE_FLOAT, .f = 1.5},
        {.name = "t", .kind = MP_ATTRIBUTE_TEXT, .text = text},
        {.name = "is", .kind = MP_ATTRIBUTE_INTS, .n = 2, .ints = ints},
        {.name = "fs", .kind = MP_ATTRIBUTE_FLOATS, .n = 1, .floats = floats},
        {.name = "v", .kind = MP_ATTRIBUTE_TENSOR, .dtype = MP_DTYPE_FLOAT, .rank = 1, .dims = dims, .value = value},
    };
    int y = tensor(model, "y"), index;
    size_t n;
    mp_operator_draft draft = {
        .kind = "Conv", .domain = "", .version = 1, .out = &y, .n_out = 1, .attributes = attributes, .n_attributes = 6};
    assert_int_equal(mp_model_operator(model, &draft, &index, NULL), MP_OK);
    memset(text, 'x', 4);
    ints[1] = 0;
    floats[0] = 0;
    value->f[1] = 0;
    const mp_operator *op = &model->operators[index];
    assert_string_equal(op->name, "Conv(y)");
    assert_int_equal(mp_operator_int(op, "i", -1), 3);
    assert_int_equal(mp_operator_int(op, "f", -1), -1);
    assert_int_equal(mp_operator_int(op, "absent", -1), -1);
    assert_true(mp_operator_float(op, "f", 0) == 1.5 && mp_operator_float(op, "i", 9) == 9);
    assert_string_equal(mp_operator_text(op, "t", ""), "SAME_UPPER");
    assert_int_equal(mp_operator_ints(op, "is", &n)[1], 2);
    assert_int_equal(n, 2);
    assert_null(mp_operator_ints(op, "t", &n));
    assert_int_equal(n, 0);
    assert_true(mp_operator_attribute(op, "fs")->floats[0] == 0.5);
    assert_true(mp_operator_attribute(op, "v")->value->f[1] == 7);
    assert_null(mp_operator_in(model, op, 0));
    assert_ptr_equal(mp_operator_out(model, op, 0), &model->tensors[y]);
    mp_model_free(model);
}

TEST(sorting_keeps_a_valid_order_and_moves_what_stands_too_late)
{
    mp_model *model = new_model();
    input(model, "x");
    assert_int_equal(add(model, "c", "b", "", "out", NULL), MP_OK);
    assert_int_equal(add(model, "side", "x", "", "s", NULL), MP_OK);
    assert_int_equal(add(model, "b", "a", "", "b", NULL), MP_OK);
    assert_int_equal(add(model, "a", "x", "", "a", NULL), MP_OK);
    assert_int_equal(add(model, "gone", "x", "", "g", NULL), MP_OK);
    model->operators[4].removed = true;
    assert_int_equal(mp_model_sort(model, NULL), MP_OK);
    const char *const expected[] = {"a", "b", "c", "side"};
    assert_int_equal(model->n_operators, 4);
    for (int round = 0; round < 2; round++) {
        for (int k = 0; k < 4; k++) {
            assert_string_equal(model->operators[k].name, expected[k]);
            assert_int_equal(model->tensors[model->operators[k].out[0]].producer, k);
        }
        assert_int_equal(mp_model_sort(model, NULL), MP_OK);
    }
    assert_int_equal(model->tensors[mp_model_find(model, "g")].producer, -1);
    mp_model_free(model);
}

/* A random DAG of n operators, added in a random order (shuffled) or in a valid one. */
static mp_model *random_model(uint64_t seed, int n, bool shuffled)
{
    uint64_t s = seed;
    int order[64];
    mp_model *model = new_model();
    input(model, "t0");
    for (int k = 0; k < n; k++) order[k] = k;
    for (int k = n - 1; shuffled && k > 0; k--) {
        int j = (int)(next_random(&s) % (uint64_t)(k + 1)), swap = order[k];
        order[k] = order[j];
        order[j] = swap;
    }
    for (int k = 0; k < n; k++) {
        uint64_t own = seed * 1000 + (uint64_t)order[k];
        char name[16], a[16], b[16], out[16];
        next_random(&own);
        snprintf(name, sizeof name, "op%d", order[k]);
        snprintf(a, sizeof a, "t%d", (int)(next_random(&own) % (uint64_t)(order[k] + 1)));
        snprintf(b, sizeof b, "t%d", (int)(next_random(&own) % (uint64_t)(order[k] + 1)));
        snprintf(out, sizeof out, "t%d", order[k] + 1);
        assert_int_equal(add(model, name, a, b, out, NULL), MP_OK);
    }
    return model;
}

TEST(random_models_are_sorted_and_their_readers_listed)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        int n = 1 + (int)(seed % 40);
        mp_model *model = random_model(seed, n, seed % 2);
        assert_int_equal(mp_model_sort(model, NULL), MP_OK);
        for (int k = 0; k < n; k++) {
            const mp_operator *op = &model->operators[k];
            char expected[16];
            snprintf(expected, sizeof expected, "op%d", k);
            if (seed % 2 == 0 && strcmp(op->name, expected) != 0)
                fail_msg("seed %llu: order changed", (unsigned long long)seed);
            for (int j = 0; j < op->n_in; j++)
                if (model->tensors[op->in[j]].producer >= k) fail_msg("seed %llu: reads too early", (unsigned long long)seed);
        }
        mp_consumers readers;
        assert_int_equal(mp_model_consumers(model, &readers, NULL), MP_OK);
        for (int t = 0; t < (int)model->n_tensors; t++) {
            int found = readers.start[t];
            for (int k = 0; k < n; k++)
                for (int j = 0; j < model->operators[k].n_in; j++)
                    if (model->operators[k].in[j] == t) assert_int_equal(readers.list[found++], k);
            assert_int_equal(found, readers.start[t + 1]);
        }
        mp_consumers_free(&readers);
        mp_model_free(model);
    }
}

TEST(a_cycle_is_refused_by_an_operator_on_it)
{
    mp_model *model = new_model();
    mp_error err = {0};
    input(model, "x");
    assert_int_equal(add(model, "behind", "q", "x", "out", NULL), MP_OK);
    assert_int_equal(add(model, "ring1", "x", "r", "q", NULL), MP_OK);
    assert_int_equal(add(model, "ring2", "q", "x", "r", NULL), MP_OK);
    assert_int_equal(mp_model_sort(model, &err), MP_PARSE);
    assert_non_null(strstr(err.message, "cycle"));
    assert_true(strstr(err.message, "'ring1'") || strstr(err.message, "'ring2'"));
    assert_null(strstr(err.message, "'behind'"));
    assert_int_equal(model->n_operators, 3);
    mp_model_free(model);
}

TEST(a_tensor_that_nothing_gives_is_refused_with_its_reader)
{
    mp_model *model = new_model();
    mp_error err = {0}, output = {0};
    int w = tensor(model, "w");
    input(model, "x");
    assert_int_equal(add(model, "reader", "x", "w", "y", NULL), MP_OK);
    assert_int_equal(mp_model_sort(model, &err), MP_PARSE);
    assert_non_null(strstr(err.message, "operator 'reader' reads tensor 'w'"));
    model->tensors[w].role = MP_ROLE_PARAMETER;
    assert_int_equal(mp_model_sort(model, NULL), MP_OK);
    assert_int_equal(mp_model_declare_output(model, tensor(model, "nowhere"), NULL), MP_OK);
    assert_int_equal(mp_model_sort(model, &output), MP_PARSE);
    assert_non_null(strstr(output.message, "'nowhere'"));
    mp_model_free(model);
}

TEST(a_long_chain_written_backwards_is_no_deep_recursion)
{
    enum { N = 100000 };
    mp_model *model = new_model();
    char a[16], b[16];
    input(model, "t0");
    for (int k = N - 1; k >= 0; k--) {
        snprintf(a, sizeof a, "t%d", k);
        snprintf(b, sizeof b, "t%d", k + 1);
        assert_int_equal(add(model, "op", a, "", b, NULL), MP_OK);
    }
    assert_int_equal(mp_model_sort(model, NULL), MP_OK);
    for (int k = 0; k < N; k++) assert_int_equal(model->tensors[model->operators[k].in[0]].producer, k - 1);
    mp_model_free(model);
}

/* Builds a model and uses every function that allocates. */
static mp_status build(mp_error *err)
{
    MP_OWNED_BY(mp_model_free) mp_model *model = NULL;
    MP_CLEARED_BY(mp_consumers_free) mp_consumers readers = {NULL, NULL};
    int64_t dims[] = {2, 3}, ints[] = {1, 1};
    mp_attribute pads = {.name = "pads", .kind = MP_ATTRIBUTE_INTS, .n = 2, .ints = ints};
    MP_CHECK(mp_model_new("model", "model.onnx", &model, err));
    for (int k = 0; k < 40; k++) {
        int x, y, index;
        char name[16];
        snprintf(name, sizeof name, "t%d", k);
        MP_CHECK(mp_model_tensor(model, name, &x, err));
        MP_CHECK(mp_tensor_set(model, x, MP_DTYPE_FLOAT, 2, dims, err));
        if (k == 0) MP_CHECK(mp_model_declare_input(model, x, err));
        MP_CHECK(mp_model_fresh_tensor(model, "t0", &y, err));
        mp_operator_draft draft = {.name = "op",
                                   .kind = "Pad",
                                   .in = &x,
                                   .n_in = k == 0,
                                   .out = &y,
                                   .n_out = 1,
                                   .attributes = &pads,
                                   .n_attributes = 1};
        MP_CHECK(mp_model_operator(model, &draft, &index, err));
        MP_CHECK(mp_model_declare_output(model, y, err));
        MP_ENSURE(mp_value_new(model, 4, k % 2), err, MP_NOMEM, "no memory for a value");
    }
    MP_CHECK(mp_model_sort(model, err));
    return mp_model_consumers(model, &readers, err);
}

TEST(building_survives_every_allocation_failure)
{
    mp_status st = MP_NOMEM;
    long live = mp_alloc_live, k = 0;
    for (; st != MP_OK; k++) {
        mp_error err = {0};
        mp_alloc_budget = k;
        st = build(&err);
        mp_alloc_budget = -1;
        if (st != MP_OK) {
            assert_int_equal(st, MP_NOMEM);
            assert_int_equal(err.code, MP_NOMEM);
        }
        assert_int_equal(mp_alloc_live, live);
    }
    assert_true(k > 20);
}
