/* test_gathers.c - operators that read and write elements by index: values from ONNX's reference evaluator (numpy), gradients
 * compared with finite differences. */
#include "tests/cases/test.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include "executor/cpu/base/families.h"
#include "executor/cpu/cpu.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/value_case.h"

static const value_case values[] = {
    {"Gather", 13, "float32[4,3] int64[2,2]={0,-1,2,2}", "", 1, 0, 12, {1, 2, 3, 10, 11, 12, 7, 8, 9, 7, 8, 9}},
    {"Gather", 13, "float32[2,3,2] int32[2]={2,0}", "axis=1", 1, 0, 8, {5, 6, 1, 2, 11, 12, 7, 8}},
    {"Gather", 13, "float32[2,5] int64[3]={4,-5,1}", "axis=1", 1, 0, 6, {5, 1, 2, 10, 6, 7}},
    {"Gather", 13, "float32[3,2] int64[]={1}", "", 1, 0, 2, {3, 4}},
    {"Gather", 13, "float32[1,4,2,2] int64[3]={3,3,0}", "axis=1", 1, 0, 12, {13, 14, 15, 16, 13, 14, 15, 16, 1, 2, 3, 4}},
    {"GatherElements", 13, "float32[2,2] int64[2,2]={0,0,1,-2}", "axis=1", 1, 0, 4, {1, 1, 4, 3}},
    {"GatherElements", 13, "float32[3,3] int64[2,3]={1,2,0,2,0,0}", "axis=0", 1, 0, 6, {4, 8, 3, 7, 2, 3}},
    {"GatherElements", 13, "float32[1,3,2,2] int64[1,2,2,2]={0,1,2,2,-1,0,1,1}", "axis=1", 1, 0, 8, {1, 6, 11, 12, 9, 2, 7, 8}},
    {"GatherND", 13, "float32[2,2] int64[2,2]={0,0,1,-1}", "", 1, 0, 2, {1, 4}},
    {"GatherND", 13, "float32[2,2,2] int64[2,1]={1,0}", "batch_dims=1", 1, 0, 4, {3, 4, 5, 6}},
    {"GatherND", 13, "float32[2,3,2,2] int64[3,2]={1,2,0,0,1,2}", "", 1, 0, 12, {21, 22, 23, 24, 1, 2, 3, 4, 21, 22, 23, 24}},
    {"Compress", 11, "float32[3,2] bool[3]={0,1,1}", "axis=0", 1, 0, 4, {3, 4, 5, 6}},
    {"Compress", 11, "float32[1,3,2,2] bool[5]={0,1,0,0,1}", "", 1, 0, 2, {2, 5}},
    {"Compress", 11, "float32[2,3,2] bool[2]={0,1}", "axis=1", 1, 0, 4, {3, 4, 9, 10}},
    {"ScatterElements",
     13,
     "float32[3,3] int64[2,3]={1,0,2,0,2,1} float32[2,3]",
     "",
     1,
     0,
     9,
     {104, 102, 3, 101, 5, 106, 7, 105, 103}},
    {"ScatterElements", 13, "float32[1,5] int64[1,2]={1,-2} float32[1,2]", "axis=1", 1, 0, 5, {1, 101, 3, 102, 5}},
    {"ScatterElements", 18, "float32[1,5] int64[1,2]={1,1} float32[1,2]", "axis=1 reduction=add", 1, 0, 5, {1, 205, 3, 4, 5}},
    {"ScatterElements",
     18,
     "float32[1,5] int64[1,2]={1,1} float32[1,2]={2,3}",
     "axis=1 reduction=mul",
     1,
     0,
     5,
     {1, 12, 3, 4, 5}},
    {"ScatterElements",
     18,
     "float32[1,5] int64[1,2]={1,1} float32[1,2]={4,3}",
     "axis=1 reduction=max",
     1,
     0,
     5,
     {1, 4, 3, 4, 5}},
    {"ScatterElements",
     18,
     "int64[1,5]={5,6,7,8,9} int64[1,2]={1,1} int64[1,2]={4,3}",
     "axis=1 reduction=min",
     1,
     0,
     5,
     {5, 3, 7, 8, 9}},
    {"ScatterElements",
     16,
     "float32[1,3,2,2] int64[1,2,2,2]={0,1,2,2,-1,0,1,1} float32[1,2,2,2]",
     "axis=1 reduction=add",
     1,
     0,
     12,
     {102, 108, 3, 4, 5, 108, 114, 116, 114, 10, 114, 116}},
    {"ScatterND", 13, "float32[5] int64[3,1]={4,-4,2} float32[3]", "", 1, 0, 5, {1, 102, 103, 4, 101}},
    {"ScatterND",
     13,
     "float32[3,2,2] int64[2,1]={0,2} float32[2,2,2]",
     "",
     1,
     0,
     12,
     {101, 102, 103, 104, 5, 6, 7, 8, 105, 106, 107, 108}},
    {"ScatterND", 16, "float32[3,2] int64[3,1]={0,2,0} float32[3,2]", "reduction=add", 1, 0, 6, {207, 210, 3, 4, 108, 110}},
    {"ScatterND",
     16,
     "float32[3,2] int64[3,1]={0,2,0} float32[3,2]={2,3,4,5,6,7}",
     "reduction=mul",
     1,
     0,
     6,
     {12, 42, 3, 4, 20, 30}},
    {"ScatterND",
     18,
     "float32[3,2] int64[3,1]={0,2,0} float32[3,2]={9,0,4,5,6,7}",
     "reduction=max",
     1,
     0,
     6,
     {9, 7, 3, 4, 5, 6}},
    {"ScatterND",
     18,
     "float32[3,2] int64[3,1]={0,2,0} float32[3,2]={9,0,4,5,6,7}",
     "reduction=min",
     1,
     0,
     6,
     {1, 0, 3, 4, 4, 5}},
    {"ReverseSequence",
     10,
     "float32[4,3] int64[3]={4,1,2}",
     "time_axis=0 batch_axis=1",
     1,
     0,
     12,
     {10, 2, 6, 7, 5, 3, 4, 8, 9, 1, 11, 12}},
    {"ReverseSequence",
     10,
     "float32[2,4,2] int64[2]={3,2}",
     "time_axis=1 batch_axis=0",
     1,
     0,
     16,
     {5, 6, 3, 4, 1, 2, 7, 8, 11, 12, 9, 10, 13, 14, 15, 16}},
    {"OneHot", 11, "int64[3]={1,-1,7} int64[]={4} float32[2]={2,5}", "", 1, 0, 12, {2, 5, 2, 2, 2, 2, 2, 5, 2, 2, 2, 2}},
    {"OneHot",
     11,
     "int64[2,2]={1,0,2,2} int64[]={3} float32[2]={0,1}",
     "axis=1",
     1,
     0,
     12,
     {0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1}},
    /* by hand */
    {"Scatter", 9, "float32[1,4] int64[1,2]={3,0} float32[1,2]", "axis=1", 1, 0, 4, {102, 2, 3, 101}},
    {"Gather", 13, "uint8[3]={7,8,9} int32[2]={-3,-1}", "", 1, 0, 2, {7, 9}},
    {"Gather", 13, "float32[3,2] int64[0]", "", 1, 0, 0, {0}},
    {"ScatterND", 16, "int32[3]={1,2,3} int64[2,1]={2,2} int32[2]={10,20}", "reduction=add", 1, 0, 3, {1, 2, 33}},
    {"ScatterND", 13, "float32[2,2] int64[2,1]={1,1} float32[2,2]", "", 1, 0, 4, {1, 2, 103, 104}},
    {"OneHot", 11, "float32[2]={1.0,-2.0} int64[]={2} bool[2]={1,0}", "axis=0", 1, 0, 4, {1, 0, 0, 1}},
};

TEST(every_form_gives_the_reference_values)
{
    value_check_table(values, sizeof values / sizeof *values);
}

TEST(gradients_are_those_of_finite_differences)
{
    static const kernel_case cases[] = {
        {"Gather", 13, "float32[4,3] int64[2,3]={0,-1,2,2,2,-4}", "", .n_outputs = 1},
        {"Gather", 13, "float32[3,5] int64[4]={4,4,-5,1}", "axis=1", .n_outputs = 1},
        {"Gather", 13, "float32[2,5,3,2] int32[3]={4,0,4}", "axis=1", .n_outputs = 1},
        {"Gather", 13, "float32[2,5,3,2] int32[1,2]={1,1}", "axis=-2", .n_outputs = 1},
        {"Gather", 13, "float32[5,3,2] int64[]={-2}", "axis=0", .n_outputs = 1},
        {"GatherElements", 13, "float32[3,3] int64[2,3]={1,2,0,1,0,-3}", "axis=0", .n_outputs = 1},
        {"GatherElements", 13, "float32[2,3] int64[2,4]={1,2,0,1,0,-3,1,1}", "axis=1", .n_outputs = 1},
        {"GatherElements", 13, "float32[1,3,2,2] int64[1,2,2,2]={0,1,2,2,-1,1,1,1}", "axis=1", .n_outputs = 1},
        {"GatherND", 13, "float32[2,3,2,2] int64[3,2]={1,2,0,0,1,-1}", "", .n_outputs = 1},
        {"GatherND", 13, "float32[2,3,2] int64[2,2,1]={1,1,0,2}", "batch_dims=1", .n_outputs = 1},
        {"GatherND", 13, "float32[2,2] int64[3,2]={1,1,0,1,1,1}", "", .n_outputs = 1},
        {"Compress", 11, "float32[3,4,2] bool[4]={0,1,0,1}", "axis=1", .n_outputs = 1},
        {"Compress", 11, "float32[1,3,2,2] bool[6]={0,1,0,0,1,1}", "", .n_outputs = 1},
        {"ScatterElements", 13, "float32[3,3] int64[2,3]={1,0,2,0,2,1} float32[2,3]", "", .n_outputs = 1},
        {"ScatterElements", 18, "float32[2,3,2] int64[2,2,1]={1,1,0,2} float32[2,2,1]", "axis=1 reduction=add", .n_outputs = 1},
        {"ScatterElements", 18, "float32[3,3] int64[2,3]={1,0,2,0,2,1} float32[2,3]", "", 1, .wanted = 4},
        {"ScatterElements", 18, "float32[3,3] int64[2,3]={1,0,-1,0,2,1} float32[2,3]", "reduction=add", 1, .wanted = 4},
        {"ScatterND", 18, "float32[3,2] int64[2,1]={2,0} float32[2,2]", "", 1, .wanted = 4},
        {"Scatter", 9, "float32[1,4,2,2] int64[1,1,2,2]={3,0,-1,2} float32[1,1,2,2]", "axis=1", .n_outputs = 1},
        {"ScatterND", 13, "float32[4,2,2] int64[2,1]={0,-2} float32[2,2,2]", "", .n_outputs = 1},
        {"ScatterND", 16, "float32[3,2] int64[3,1]={0,2,0} float32[3,2]", "reduction=add", .n_outputs = 1},
        {"ScatterND", 16, "float32[2,3,2,2] int64[2,2]={1,0,0,2} float32[2,2,2]", "", .n_outputs = 1},
        {"memplan:ScatterElements", 1, "float32[3,3] int64[2,3]={1,0,2,1,2,1} float32[2,3]", "reduction=max", .n_outputs = 1},
        {"memplan:ScatterElements", 1, "float32[3,3] int64[2,3]={1,0,-1,1,2,1} float32[2,3]", "reduction=min", .n_outputs = 1},
        {"memplan:ScatterElements", 1, "float32[1,4,2,2] int64[1,2,2,2]={3,0,-1,2,3,0,1,2} float32[1,2,2,2]",
         "axis=1 reduction=mul", 1, 0.5, 2, 0, 0, 0},
        {"memplan:ScatterND", 1, "float32[3,2] int64[4,1]={0,2,0,0} float32[4,2]", "reduction=mul", 1, 0.5, 2, 0, 0, 0},
        {"memplan:ScatterND", 1, "float32[4,2,2] int64[3,1]={0,-2,0} float32[3,2,2]", "reduction=max", .n_outputs = 1},
        {"memplan:ScatterND", 1, "float32[2,3,2] int64[2,2]={1,0,1,0} float32[2,2]", "reduction=min", .n_outputs = 1},
        {"ReverseSequence", 10, "float32[4,3,2] int64[3]={4,0,3}", "time_axis=0 batch_axis=1", .n_outputs = 1},
        {"ReverseSequence", 10, "float32[2,4,2,2] int64[2]={3,2}", "time_axis=1 batch_axis=0", .n_outputs = 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        kernel_check_gradient(&cases[k]);
        value_check_overwriting(&cases[k]);
    }
}

TEST(an_index_outside_is_named_and_nothing_is_read)
{
    static const struct {
        kernel_case c;
        int at;
        int64_t bad;
    } cases[] = {
        {{"Gather", 13, "float32[4,3] int64[3]={0,1,2}", "", .n_outputs = 1}, 1, 4},
        {{"Gather", 13, "float32[4,3] int64[3]={0,1,2}", "axis=1", .n_outputs = 1}, 0, -4},
        {{"GatherElements", 13, "float32[2,4] int64[1,3]={0,1,0}", "axis=0", .n_outputs = 1}, 2, 2},
        {{"GatherND", 13, "float32[2,3] int64[2,2]={0,0,1,1}", "", .n_outputs = 1}, 2, INT64_MAX},
        {{"ScatterElements", 13, "float32[2,4] int64[1,3]={0,1,0} float32[1,3]", "axis=0", .n_outputs = 1}, 1, INT64_MIN},
        {{"ScatterND", 13, "float32[2,3] int64[2,2]={0,0,1,1} float32[2]", "", .n_outputs = 1}, 3, 3},
        {{"ReverseSequence", 10, "float32[4,3] int64[3]={4,1,2}", "time_axis=0 batch_axis=1", .n_outputs = 1}, 2, 5},
    };
    if (strcmp(backend_of_tests()->name, "cpu")) skip(); /* a GPU cannot report this: see its gathers.h */
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        kernel_run *r = kernel_begin(&cases[k].c, MP_MODE_TRAIN, KERNEL_BACKWARD);
        mp_error forward = {0}, backward = {0};
        kernel_forward(r);
        ((int64_t *)r->forward.in[1].data)[cases[k].at] = cases[k].bad;
        assert_int_equal(mp_call_run(&mp_cpu, &r->forward_call, &r->forward, &forward), MP_INVALID);
        assert_int_equal(mp_call_run(&mp_cpu, &r->backward_call, &r->backward, &backward), MP_INVALID);
        assert_non_null(strstr(forward.message, cases[k].c.kind));
        assert_non_null(strstr(forward.message, "'the_node'"));
        assert_non_null(strstr(backward.message, "'the_node'"));
        if (cases[k].bad > 0 && cases[k].bad < 10) {
            char number[32];
            snprintf(number, sizeof number, " %d ", (int)cases[k].bad);
            assert_non_null(strstr(forward.message, number));
        }
        kernel_end(r);
    }
}

TEST(a_condition_that_takes_another_number_of_elements_is_refused)
{
    kernel_case c = {
        .kind = "Compress", .version = 11, .inputs = "float32[3,2] bool[3]={0,1,1}", .attributes = "axis=0", .n_outputs = 1};
    if (strcmp(backend_of_tests()->name, "cpu")) skip(); /* as above */
    for (int value = 0; value < 2; value++) {
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
        mp_error err = {0};
        kernel_set(&r->forward.in[1], value ? 0 : 1, value);
        assert_int_equal(mp_call_run(&mp_cpu, &r->forward_call, &r->forward, &err), MP_INVALID);
        kernel_end(r);
    }
}

/* The output may be in place of any input with its size. */
TEST(scattering_works_in_place_of_every_operand)
{
    static const value_case cases[] = {
        {"ScatterElements",
         18,
         "float32[2,2] int32[2,2]={1,0,1,1} float32[2,2]",
         "axis=0 reduction=add",
         1,
         0,
         4,
         {1, 104, 207, 108}},
        {"ScatterElements", 13, "float32[2,2] int32[2,2]={1,0,0,1} float32[2,2]", "axis=1", 1, 0, 4, {102, 101, 103, 104}},
        {"ScatterND", 13, "float32[2,2] int32[2,1]={1,0} float32[2,2]", "", 1, 0, 4, {103, 104, 101, 102}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const value_case *v = &cases[k];
        for (int i = 0; i < 3; i++) {
            kernel_case c = {v->kind, v->version, v->inputs, v->attributes, .n_outputs = 1};
            kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
            void *own = r->forward.out[0].data;
            value_count_up(r);
            if (mp_array_bytes(&r->forward.in[i]) == 16) r->forward.out[0].data = r->forward.in[i].data;
            kernel_forward(r);
            for (int e = 0; e < v->n; e++)
                if (kernel_get(&r->forward.out[0], e) != v->expected[e])
                    fail_msg("%s in place of input %d: element %d is %g", v->kind, i, e, kernel_get(&r->forward.out[0], e));
            r->forward.out[0].data = own;
            kernel_end(r);
        }
    }
}

/* In ONNX's own domain backward reads only the indices. Simplification converts the operators to memplan's domain. */
TEST(gradients_of_larger_and_smaller_are_refused)
{
    static const char *const words[] = {"reduction=mul", "reduction=max", "reduction=min"};
    for (int k = 0; k < 3; k++) {
        kernel_case c = {.kind = "ScatterND",
                         .version = 18,
                         .inputs = "float32[3] int64[2,1]={0,1} float32[2]",
                         .attributes = words[k],
                         .n_outputs = 1};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, 0);
        mp_operands x = r->forward;
        mp_array d_in[3] = {r->forward.in[0], {0}, {0}}, d_out = r->forward.out[0];
        mp_call call;
        mp_error err = {0};
        x.is_backward = true;
        x.d_in = d_in;
        x.d_out = &d_out;
        x.to = 3;
        assert_int_equal(mp_call_prepare(&mp_cpu, mp_cpu_kernel(x.op), &x, &call, &err), MP_UNSUPPORTED);
        assert_non_null(strstr(err.message, "'the_node'"));
        kernel_end(r);
    }
}

/* Compares with PyTorch's scatter_reduce on the same numbers. Equal extremes share a gradient, and zeros in a product do not
 * hide the other factors' gradients. */
TEST(ties_share_and_zeros_hide_nothing)
{
    static const struct {
        const char *reduction;
        double d_data[4], d_updates[6];
    } rows[] = {{"reduction=max", {0.5, 5, 0, 1000}, {0.5, 0, 5, 0, 100, 0}},
                {"reduction=min", {0, 5, 50, 0}, {0, 1, 5, 50, 0, 1000}},
                {"reduction=mul", {2, 50, 0, 0}, {2, 4, 50, 0, 0, 3000}}};
    for (int k = 0; k < 6; k++) {
        char attributes[64];
        const bool nd = k % 2;
        snprintf(attributes, sizeof attributes, nd ? "%s" : "axis=0 %s", rows[k / 2].reduction);
        kernel_case c = {nd ? "memplan:ScatterND" : "memplan:ScatterElements", 1,
                         nd ? "float32[4] int64[6,1]={0,0,1,2,-2,3} float32[6]"
                            : "float32[4] int64[6]={0,0,1,2,-2,3} float32[6]",
                         attributes, .n_outputs = 1};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
        static const double data[] = {2, 5, 0, 3}, updates[] = {2, 1, 5, 0, 4, 0}, dy[] = {1, 10, 100, 1000};
        for (int e = 0; e < 6; e++) kernel_set(&r->backward.in[2], e, updates[e]);
        for (int e = 0; e < 4; e++) kernel_set(&r->backward.in[0], e, data[e]);
        for (int e = 0; e < 4; e++) kernel_set(&r->backward.d_out[0], e, dy[e]);
        kernel_backward(r);
        for (int e = 0; e < 4; e++)
            if (kernel_get(&r->backward.d_in[0], e) != rows[k / 2].d_data[e])
                fail_msg("%s %s: element %d of the data has %g", c.kind, attributes, e, kernel_get(&r->backward.d_in[0], e));
        for (int e = 0; e < 6; e++)
            if (kernel_get(&r->backward.d_in[2], e) != rows[k / 2].d_updates[e])
                fail_msg("%s %s: update %d has %g", c.kind, attributes, e, kernel_get(&r->backward.d_in[2], e));
        kernel_end(r);
    }
}

/* 1000 equal tokens: 1 + 1000 * 2^-8 stays 1 if every sum is rounded to bfloat16. The kernel sums in float and rounds once,
 * without extra memory for the table. The third form alternates two words whose numbers end in the same bits. */
TEST(many_small_gradients_of_one_row_are_not_lost)
{
    static const char *const inputs[] = {"float32[50,300] int64[1000]", "float32[300,50] int64[300,1000]",
                                         "float32[4100,3] int64[1000]"};
    for (int form = 0; form < 3; form++) {
        kernel_case c = {.kind = form == 1 ? "GatherElements" : "Gather",
                         .version = 13,
                         .inputs = inputs[form],
                         .attributes = form == 1 ? "axis=1" : "axis=0",
                         .n_outputs = 1};
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD | KERNEL_BFLOAT16 | KERNEL_ADDS);
        int64_t n = mp_array_elements(&r->forward.in[1]), m = mp_array_elements(&r->backward.d_in[0]);
        for (int64_t k = 0; k < n; k++) kernel_set(&r->forward.in[1], k, form == 2 && k % 2 ? 2055 : 7);
        for (int64_t k = 0; k < mp_array_elements(&r->backward.d_out[0]); k++) kernel_set(&r->backward.d_out[0], k, 1.0 / 256);
        for (int64_t k = 0; k < m; k++) kernel_set(&r->backward.d_in[0], k, 1);
        if (!strcmp(backend_of_tests()->name, "cpu")) assert_true(r->backward_call.workspace_bytes <= 16 * n);
        kernel_backward(r);
        for (int64_t k = 0; k < m; k++) {
            int64_t word = form == 1 ? k % 50 : k / (form ? 3 : 300);
            double added = form == 2 ? 500.0 / 256 : 1000.0 / 256, expected = word % 2048 == 7 ? 1 + added : 1;
            double value = kernel_get(&r->backward.d_in[0], k);
            if (fabs(value - expected) > 0.02) fail_msg("element %d is %g and should be %g", (int)k, value, expected);
        }
        kernel_end(r);
    }
}

TEST(results_do_not_depend_on_the_number_of_threads)
{
#ifdef _OPENMP
    kernel_case c = {.kind = "Gather", .version = 13, .inputs = "float32[9,700] int64[500]", .attributes = "", .n_outputs = 1};
    static float sums[2][9 * 700];
    int threads = omp_get_max_threads();
    for (int t = 0; t < 2; t++) {
        omp_set_num_threads(t ? 3 : 1);
        kernel_run *r = kernel_begin(&c, MP_MODE_TRAIN, KERNEL_BACKWARD);
        for (int64_t k = 0; k < 500; k++) kernel_set(&r->forward.in[1], k, (double)(k * k % 9));
        kernel_backward(r);
        memcpy(sums[t], r->backward.d_in[0].data, sizeof sums[t]);
        kernel_end(r);
    }
    omp_set_num_threads(threads);
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
#endif
}
