/* test_infer.c - inference: shape rules of elementwise, layout, indexing and source operators, with cases computed by hand from
 * ONNX's operator descriptions. Also whole models with computed, declared or missing shapes. */
#include "estimator/simplify/infer.h"
#include "tests/cases/hand_model.h"
#include "tests/cases/rule_case.h"
#include "tests/cases/test.h"

#define CHECK(...)                                       \
    do {                                                 \
        const rule_case cases[] = {__VA_ARGS__};         \
        rule_check(cases, sizeof cases / sizeof *cases); \
    } while (0)

TEST(elementwise_operators_keep_or_broadcast_the_shape)
{
    CHECK({"Relu", 14, "float16[2,3]", "", "float16[2,3]"}, {"Neg", 13, "int32[]", "", "int32[]"},
          {"Add", 14, "float32[2,3,4] float32[4]", "", "float32[2,3,4]"},
          {"Add", 14, "float32[1,3,1] float32[2,1,4]", "", "float32[2,3,4]"},
          {"Mul", 14, "float32[] float32[0,2]", "", "float32[0,2]"},
          {"Sum", 13, "float32[3] float32[2,1] float32[5,1,1]", "", "float32[5,2,3]"},
          {"Equal", 13, "int64[2,1] int64[3]", "", "bool[2,3]"},
          {"Where", 16, "bool[2,1] float32[3] float32[4,1,1]", "", "float32[4,2,3]"},
          {"IsNaN", 13, "float64[7]", "", "bool[7]"}, {"PRelu", 16, "float32[2,3,4] float32[3,1]", "", "float32[2,3,4]"},
          {"com.microsoft:BiasGelu", 1, "float16[2,3,4] float16[4]", "", "float16[2,3,4]"},
          {"com.microsoft:BiasGelu", 1, "float32[2,3] float32[2]", "", "!has 2 elements for rows of 3"},
          {"com.microsoft:BiasGelu", 1, "float32[2,3] float32[1,3]", "", "!has 2 dimensions instead of 1"},
          {"com.microsoft:FastGelu", 1, "float32[]", "", "float32[]"},
          {"com.microsoft:FastGelu", 1, "float32[2,3] float32[4]", "", "!has 4 elements for rows of 3"},
          {"Add", 14, "float32[2,3] float32[2]", "", "!does not broadcast"},
          {"Where", 16, "bool[2] float32[3] float32[3]", "", "!does not broadcast"});
}

TEST(before_operator_set_7_an_axis_says_where_the_second_operand_lies)
{
    CHECK({"Add", 6, "float32[2,3,4,5] float32[3,4]", "broadcast=1 axis=1", "float32[2,3,4,5]"},
          {"Add", 6, "float32[2,3,4,5] float32[4,5]", "broadcast=1", "float32[2,3,4,5]"},
          {"Mul", 1, "float32[2,3] float32[2]", "broadcast=1 axis=-2", "float32[2,3]"},
          {"Greater", 1, "float32[2,3] float32[]", "broadcast=1", "bool[2,3]"},
          {"Add", 6, "float32[2,3,4] float32[3,4]", "broadcast=1 axis=2", "!do not fit under"},
          {"Add", 6, "float32[3] float32[2,3]", "broadcast=1", "!do not fit under"},
          {"Add", 7, "float32[2,3] float32[2]", "broadcast=1 axis=0", "!does not broadcast"});
}

TEST(casts_take_the_type_they_are_told)
{
    CHECK({"Cast", 13, "float32[2]", "to=7", "int64[2]"}, {"Cast", 1, "float32[2]", "to=INT32", "int32[2]"},
          {"Cast", 13, "float32[2]", "to=99", "!names no element type"},
          {"Cast", 13, "float32[2]", "", "!names no element type"}, {"CastLike", 15, "float32[2] bool[]", "", "bool[2]"},
          {"Dropout", 12, "float32[2,3]", "", "float32[2,3] bool[2,3]"},
          {"Dropout", 7, "float16[2,3]", "", "float16[2,3] float16[2,3]"},
          {"Dropout", 10, "float16[2,3]", "", "float16[2,3] bool[2,3]"},
          {"Dropout", 13, "float16[2,3] float32[] bool[]", "", "float16[2,3]"});
}

TEST(reshapes_fill_in_what_is_left_open)
{
    CHECK({"Reshape", 14, "float32[2,3,4] int64[2]={0,-1}", "", "float32[2,12]"},
          {"Reshape", 14, "float32[2,3,4] int64[1]={-1}", "", "float32[24]"},
          {"Reshape", 14, "float32[1] int64[0]", "", "float32[]"},
          {"Reshape", 14, "float32[0,3] int64[2]={3,0}", "allowzero=1", "float32[3,0]"},
          {"Reshape", 1, "float32[2,3]", "shape=[3,-1]", "float32[3,2]"},
          {"Reshape", 14, "float32[2,3] int64[2]={4,-1}", "", "!are not divisible"},
          {"Reshape", 14, "float32[2,3] int64[2]={-1,-1}", "", "!may not be -1"},
          {"Reshape", 14, "float32[2,3] int64[1]={5}", "", "!cannot become"},
          {"Reshape", 14, "float32[2,3] int64[3]={2,3,0}", "", "!only 2"},
          {"Reshape", 14, "float32[2,3] int64[2]={4294967296,4294967296}", "", "!more elements than can be counted"},
          {"Reshape", 14, "float32[2] float32[1]={2}", "", "!the operator needs int32 or int64"},
          {"Reshape", 14, "float32[2] int64[1]", "", "!known only at run time"},
          {"Flatten", 13, "float32[2,3,4]", "", "float32[2,12]"}, {"Flatten", 13, "float32[2,3,4]", "axis=0", "float32[1,24]"},
          {"Flatten", 13, "float32[2,3,4]", "axis=-1", "float32[6,4]"}, {"Flatten", 9, "float32[]", "axis=0", "float32[1,1]"},
          {"Flatten", 13, "float32[2]", "axis=2", "!no axis 2"});
}

TEST(axes_of_one_come_and_go)
{
    CHECK({"Squeeze", 11, "float32[1,2,1]", "axes=[0]", "float32[2,1]"}, {"Squeeze", 11, "float32[1,2,1]", "", "float32[2]"},
          {"Squeeze", 13, "float32[1,2,1] int64[1]={-1}", "", "float32[1,2]"},
          {"Squeeze", 13, "float32[1,2,1]", "", "float32[2]"},
          {"Squeeze", 13, "float32[1,2] int64[1]={1}", "", "!instead of 1"},
          {"Squeeze", 13, "float32[1,2] int64[1]={2}", "", "!no axis 2"},
          {"Unsqueeze", 11, "float32[2,3]", "axes=[0,3]", "float32[1,2,3,1]"},
          {"Unsqueeze", 13, "float32[2,3] int64[2]={-1,1}", "", "float32[2,1,3,1]"},
          {"Unsqueeze", 13, "float32[] int64[1]={0}", "", "float32[1]"},
          {"Unsqueeze", 13, "float32[2] int64[2]={0,-3}", "", "!named twice"},
          {"Unsqueeze", 11, "float32[2]", "", "!axes are missing"});
}

TEST(transposing_joining_and_splitting_rearrange_dimensions)
{
    CHECK({"Transpose", 13, "float32[2,3,4]", "", "float32[4,3,2]"},
          {"Transpose", 13, "float32[2,3,4]", "perm=[1,2,0]", "float32[3,4,2]"},
          {"Transpose", 13, "float32[2,3]", "perm=[0,0]", "!named twice"},
          {"Transpose", 13, "float32[2,3]", "perm=[0]", "!1 dimensions does not fit 2"},
          {"Concat", 13, "int64[1,2] int64[3,2]", "axis=0", "int64[4,2]"},
          {"Concat", 13, "int64[1,2] int64[1,5] int64[1,0]", "axis=-1", "int64[1,7]"},
          {"Concat", 1, "int64[1,2] int64[1,5]", "", "int64[1,7]"},
          {"Concat", 13, "int64[1,2] int64[3,3]", "axis=0", "!differ in dimension 1"},
          {"Concat", 13, "int64[1,2] int64[3]", "axis=0", "!dimensions"},
          {"Split", 11, "float32[6,2]", "split=[1,5]", "float32[1,2] float32[5,2]"},
          {"Split", 13, "float32[2,6] int64[3]={1,2,3}", "axis=1", "float32[2,1] float32[2,2] float32[2,3]"},
          {"Split", 13, "float32[6]", "", "float32[3] float32[3]"},
          {"Split", 18, "float32[7]", "num_outputs=3", "float32[3] float32[3] float32[1]"},
          {"Split", 18, "float32[5]", "num_outputs=4", "float32[2] float32[2] float32[1] float32[0]"},
          {"Split", 13, "float32[6] int64[1]={5}", "", "!do not fill"},
          {"Split", 13, "float32[6] int64[1]={7}", "", "!do not fit"});
}

TEST(slices_are_cut_to_the_tensor)
{
    CHECK({"Slice", 9, "float32[20,10,5]", "starts=[0,0] ends=[3,10] axes=[0,1]", "float32[3,10,5]"},
          {"Slice", 13, "float32[20,10] int64[2]={0,-3} int64[2]={1000,-1}", "", "float32[20,2]"},
          {"Slice", 13, "float32[20,10] int64[1]={1} int64[1]={9} int64[1]={-1} int64[1]={3}", "", "float32[20,3]"},
          {"Slice", 13, "float32[10] int64[1]={-1} int64[1]={-9223372036854775808} int64[1]={0} int64[1]={-1}", "",
           "float32[10]"},
          {"Slice", 13, "float32[10] int64[1]={8} int64[1]={1} - int64[1]={-3}", "", "float32[3]"},
          {"Slice", 13, "float32[10] int64[1]={5} int64[1]={2}", "", "float32[0]"},
          {"Slice", 13, "float32[10] int64[1]={5} int64[1]={2} - int64[1]={-9223372036854775808}", "", "float32[1]"},
          {"Slice", 13, "float32[0] int64[1]={5} int64[1]={-9} - int64[1]={-1}", "", "float32[0]"},
          {"Slice", 13, "float32[10] int64[1]={1} int64[1]={2} - int64[1]={0}", "", "!step of 0"},
          {"Slice", 13, "float32[10] int64[1]={1} int64[2]={2,2}", "", "!do not fit together"},
          {"Slice", 13, "float32[10,2] int64[2]={1,1} int64[2]={2,2} int64[2]={0,-2}", "", "!named twice"},
          {"Slice", 13, "float32[10] int64[1] int64[1]={2}", "", "!known only at run time"});
}

TEST(indexing_replaces_the_indexed_dimensions)
{
    CHECK({"Gather", 13, "float32[10,4] int64[2,3]", "", "float32[2,3,4]"},
          {"Gather", 13, "float32[10,4] int64[]", "axis=-1", "float32[10]"},
          {"GatherElements", 13, "float32[10,4] int64[2,4]", "", "float32[2,4]"},
          {"GatherElements", 13, "float32[10,4] int64[2]", "", "!indices of 1"},
          {"GatherND", 13, "float32[2,3,4] int64[5,2]", "", "float32[5,4]"},
          {"GatherND", 13, "float32[2,3,4] int64[2,5,1]", "batch_dims=1", "float32[2,5,4]"},
          {"GatherND", 13, "float32[2,3] int64[5,3]", "", "!do not fit"},
          {"Compress", 11, "float32[3,2] bool[3]={1,0,1}", "axis=0", "float32[2,2]"},
          {"Compress", 11, "float32[3,2] bool[5]={0,1,0,0,1}", "", "float32[2]"},
          {"Compress", 11, "float32[2] bool[3]={0,1,1}", "axis=0", "float32[1]"},
          {"NonZero", 13, "bool[2,2]={1,0,1,1}", "", "int64[2,3]"}, {"NonZero", 13, "bool[2]", "", "!known only at run time"},
          {"OneHot", 11, "int64[2,3] int64[]={10} float32[2]", "", "float32[2,3,10]"},
          {"OneHot", 11, "int64[2,3] float32[1]={10} float16[2]", "axis=0", "float16[10,2,3]"},
          {"TopK", 11, "float32[3,8] int64[1]={5}", "", "float32[3,5] int64[3,5]"},
          {"TopK", 1, "float32[3,8]", "axis=0 k=2", "float32[2,8] int64[2,8]"});
}

TEST(repeating_and_padding_change_sizes)
{
    CHECK({"Expand", 13, "float32[3,1] int64[3]={2,1,6}", "", "float32[2,3,6]"},
          {"Expand", 13, "float32[3,4] int64[1]={1}", "", "float32[3,4]"},
          {"Expand", 13, "float32[3] int64[1]={2}", "", "!does not broadcast"},
          {"Tile", 13, "float32[2,3] int64[2]={2,0}", "", "float32[4,0]"},
          {"Tile", 1, "float32[2,3] int64[1]={4} int64[1]={1}", "", "float32[2,12]"},
          {"Tile", 13, "float32[2,3] int64[1]={4}", "", "!1 repetitions are given for 2"},
          {"Pad", 11, "float32[2,3] int64[4]={0,1,2,-1}", "", "float32[4,3]"},
          {"Pad", 2, "float32[2,3]", "pads=[1,1,1,1]", "float32[4,5]"},
          {"Pad", 1, "float32[2,3]", "paddings=[0,0,0,1]", "float32[2,4]"},
          {"Pad", 18, "float32[2,3] int64[2]={1,2} - int64[1]={-1}", "", "float32[2,6]"},
          {"Pad", 11, "float32[2,3] int64[4]={0,-2,0,-2}", "", "!leave axis"},
          {"Pad", 11, "float32[2,3] int64[2]={1,2}", "", "!2 pads are given for 2 axes"},
          {"DepthToSpace", 13, "float32[1,8,2,3]", "blocksize=2", "float32[1,2,4,6]"},
          {"SpaceToDepth", 13, "float32[1,2,4,6]", "blocksize=2", "float32[1,8,2,3]"},
          {"SpaceToDepth", 13, "float32[1,2,4,5]", "blocksize=2", "!cannot be split into"},
          {"DepthToSpace", 13, "float32[1,8,2,3]", "", "!block size of 0"});
}

TEST(sources_have_the_shape_they_are_given)
{
    CHECK({"Constant", 12, "", "value_ints=[1,2,3]", "int64[3]"}, {"Constant", 12, "", "value_float=1.5", "float32[]"},
          {"Constant", 12, "", "", "!neither a tensor nor numbers"},
          {"ConstantOfShape", 9, "int64[2]={3,4}", "", "float32[3,4]"}, {"ConstantOfShape", 9, "int64[0]", "", "float32[]"},
          {"ConstantOfShape", 9, "int64[1]={-1}", "", "!is negative"}, {"Shape", 13, "float32[2,3,4]", "", "int64[3]"},
          {"Shape", 15, "float32[2,3,4]", "start=-2 end=9", "int64[2]"},
          {"Shape", 15, "float32[2]", "start=1 end=0", "int64[0]"}, {"Size", 13, "float32[2,3,4]", "", "int64[]"},
          {"Range", 11, "int64[]={10} int64[]={4} int64[]={-4}", "", "int64[2]"},
          {"Range", 11, "float32[]={0} float32[]={1} float32[]={0.3}", "", "float32[4]"},
          {"Range", 11, "int32[]={3} int32[]={3} int32[]={1}", "", "int32[0]"},
          {"Range", 11, "int64[]={0} int64[]={3} int64[]={0}", "", "!steps of 0"},
          {"Range", 11, "int64[]={0} int64[]={9000000000000000000} int64[]={1}", "", "!more bytes"},
          {"EyeLike", 9, "float32[3,4]", "dtype=11", "float64[3,4]"}, {"EyeLike", 9, "float32[3]", "", "!instead of 2"},
          {"RandomNormal", 1, "", "shape=[2,3] dtype=10", "float16[2,3]"},
          {"RandomUniformLike", 1, "int32[2]", "dtype=1", "float32[2]"},
          {"Multinomial", 7, "float32[3,10]", "sample_size=5", "int32[3,5]"},
          {"HannWindow", 17, "int32[]={10}", "output_datatype=11", "float64[10]"});
}

TEST(the_number_of_operands_is_checked)
{
    CHECK({"Relu", 13, "float32[1] float32[1]", "", "!has 2 inputs"}, {"Add", 13, "float32[1]", "", "!has 1 inputs"},
          {"Add", 13, "float32[1] -", "", "!lacks its input 1"},
          {"Sum", 13, "float32[1] - float32[1]", "", "!lacks its input 1"});
}

TEST(an_operator_without_a_row_is_refused_by_name)
{
    CHECK(
        {"NonMaxSuppression", 13, "float32[1]", "", "!not supported: NonMaxSuppression (1); the first one is node 'the_node'"},
        {"Gelu", 13, "float32[1]", "", "!not supported: Gelu of operator set 13 (1); the first one is node 'the_node'"},
        {"org.example:Relu", 1, "float32[1]", "", "!not supported: org.example.Relu (1); the first one is node 'the_node'"});
}

/* x (n, 3, 4, 5) -> Reshape(x, Concat(Gather(Shape(x), 0), -1)): a flattening, as exported with dynamic axes. */
static mp_model *dynamic_flatten(mp_role role)
{
    mp_model *m = NULL;
    mp_error err = {0};
    assert_int_equal(mp_model_new("flatten", "", &m, &err), MP_OK);
    hand_tensor(m, "x", role, MP_DTYPE_FLOAT, 4, 2, 3, 4, 5);
    hand_integers(m, "first", 1, 0);
    hand_integers(m, "rest", 1, -1);
    hand_operator(m, "Shape", "x", "shape");
    hand_operator(m, "Gather", "shape first", "batch");
    const mp_attribute axis = {.name = "axis", .kind = MP_ATTRIBUTE_INT, .i = 0};
    hand_operator_with(m, "Concat", "", 17, "batch rest", "target", &axis, 1);
    hand_operator(m, "Reshape", "x target", "y");
    return m;
}

TEST(shapes_that_the_model_computes_are_folded)
{
    mp_model *m = dynamic_flatten(MP_ROLE_DATA);
    const mp_tensor *y = &m->tensors[mp_model_find(m, "y")];
    assert_int_equal(y->rank, 2);
    assert_int_equal(y->dims[0], 2);
    assert_int_equal(y->dims[1], 60);
    assert_null(y->value);
    /* another batch changes all shapes */
    mp_error err = {0};
    assert_int_equal(mp_tensor_set(m, mp_model_find(m, "x"), MP_DTYPE_FLOAT, 4, (int64_t[]){7, 3, 4, 5}, &err), MP_OK);
    assert_int_equal(mp_model_infer(m, &err), MP_OK);
    assert_int_equal(m->tensors[mp_model_find(m, "y")].dims[0], 7);
    mp_model_free(m);
}

TEST(a_shape_known_only_at_run_time_is_taken_from_the_file)
{
    mp_model *m = NULL;
    mp_error err = {0};
    int y, index;
    assert_int_equal(mp_model_new("declared", "", &m, &err), MP_OK);
    int x = hand_tensor(m, "x", MP_ROLE_DATA, MP_DTYPE_FLOAT, 1, 6),
        s = hand_tensor(m, "s", MP_ROLE_DATA, MP_DTYPE_INT64, 1, 2);
    assert_int_equal(mp_model_tensor(m, "y", &y, &err), MP_OK);
    int64_t declared[] = {2, 3}, open[] = {2, -1};
    m->tensors[y].declared_rank = 2;
    m->tensors[y].declared_dims = open;
    mp_operator_draft draft = {
        .name = "r", .kind = "Reshape", .version = 17, .in = (int[]){x, s}, .n_in = 2, .out = &y, .n_out = 1};
    assert_int_equal(mp_model_operator(m, &draft, &index, &err), MP_OK);
    assert_int_equal(mp_model_infer(m, &err), MP_UNSUPPORTED);
    assert_non_null(strstr(err.message, "depends on the value of 's'"));
    err = (mp_error){0};
    m->tensors[y].declared_dims = declared;
    assert_int_equal(mp_model_infer(m, &err), MP_OK);
    assert_int_equal(m->tensors[y].rank, 2);
    assert_int_equal(m->tensors[y].dims[1], 3);
    assert_int_equal(m->tensors[y].dtype, MP_DTYPE_FLOAT);
    mp_model_free(m);
}

/* Range(0, n, 1) -> Mul by a number -> Cos. Only the last shape is declared, as in ONNX's own body of HannWindow. */
TEST(a_declared_shape_reaches_back_through_elementwise_operators)
{
    mp_model *m = NULL;
    mp_error err = {0};
    int64_t ten = 10;
    static const char *const names[] = {"zero", "n", "one", "range", "scaled", "y"};
    int t[6], index;
    assert_int_equal(mp_model_new("window", "", &m, &err), MP_OK);
    for (int k = 0; k < 6; k++)
        if (k < 3)
            t[k] = hand_tensor(m, names[k], MP_ROLE_DATA, MP_DTYPE_FLOAT, 0);
        else
            assert_int_equal(mp_model_tensor(m, names[k], &t[k], &err), MP_OK);
    const mp_operator_draft drafts[] = {
        {.kind = "Range", .version = 17, .in = (int[]){t[0], t[1], t[2]}, .n_in = 3, .out = &t[3], .n_out = 1},
        {.kind = "Mul", .version = 17, .in = (int[]){t[1], t[3]}, .n_in = 2, .out = &t[4], .n_out = 1},
        {.kind = "Cos", .version = 17, .in = &t[4], .n_in = 1, .out = &t[5], .n_out = 1}};
    for (int k = 0; k < 3; k++) assert_int_equal(mp_model_operator(m, &drafts[k], &index, &err), MP_OK);
    assert_int_equal(mp_model_infer(m, &err), MP_UNSUPPORTED);
    err = (mp_error){0};
    m->tensors[t[5]].declared_rank = 1;
    m->tensors[t[5]].declared_dims = &ten;
    assert_int_equal(mp_model_infer(m, &err), MP_OK);
    for (int k = 3; k < 6; k++) assert_int_equal(m->tensors[t[k]].dims[0], 10);
    mp_model_free(m);
}

TEST(an_inferred_shape_wins_over_a_declared_one)
{
    mp_model *m = dynamic_flatten(MP_ROLE_DATA);
    mp_error err = {0};
    int64_t odd[] = {9};
    mp_tensor *y = &m->tensors[mp_model_find(m, "y")];
    y->declared_rank = 1;
    y->declared_dims = odd;
    assert_int_equal(mp_model_infer(m, &err), MP_OK);
    assert_int_equal(y->rank, 2);
    mp_model_free(m);
}

TEST(what_depends_on_a_parameter_is_not_folded)
{
    mp_model *m = dynamic_flatten(MP_ROLE_PARAMETER);
    hand_operator(m, "Neg", "y", "z");
    assert_null(m->tensors[mp_model_find(m, "y")].value);
    assert_null(m->tensors[mp_model_find(m, "z")].value);
    assert_non_null(m->tensors[mp_model_find(m, "shape")].value);
    mp_model_free(m);
}

/* Adds n Neg operators in a row on a vector of `size` zeros. The tensors are "<stem>0" to "<stem>n". */
static void chain(mp_model *m, char stem, int size, int n)
{
    char in[16], out[16] = {stem, '0', 0}, length[] = {stem, 0};
    hand_integers(m, length, 1, size);
    hand_operator(m, "ConstantOfShape", length, out);
    for (int k = 1; k <= n; k++) {
        memcpy(in, out, sizeof in);
        snprintf(out, sizeof out, "%c%d", stem, k);
        hand_operator(m, "Neg", in, out);
    }
}

static bool is_known(const mp_model *m, const char *name)
{
    return m->tensors[mp_model_find(m, name)].value != NULL;
}

/* A hostile file: many operators on values of the largest size. Folding of their values stops; shape arithmetic and inference
 * continue. */
TEST(folding_ends_when_the_budget_is_spent)
{
    mp_model *m = NULL;
    mp_error err = {0};
    assert_int_equal(mp_model_new("hostile", "", &m, &err), MP_OK);
    chain(m, 'l', MP_VALUE_MAX, 100);
    chain(m, 'm', 600, 300); /* uses the budget left by the large values */
    chain(m, 's', 400, 5);
    assert_true(is_known(m, "l100")); /* operators added one by one have a budget each */
    assert_int_equal(mp_model_infer(m, &err), MP_OK);
    assert_true(is_known(m, "l20"));
    assert_false(is_known(m, "l100"));
    assert_false(is_known(m, "m300"));
    assert_true(is_known(m, "s5"));
    assert_int_equal(m->tensors[mp_model_find(m, "l100")].dims[0], MP_VALUE_MAX);
    mp_model_free(m);
}

TEST(running_out_of_memory_is_reported)
{
    long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_model *m = dynamic_flatten(MP_ROLE_DATA);
        /* too large for the remaining space of the pool */
        hand_integers(m, "size", 1, 100000);
        hand_operator(m, "ConstantOfShape", "size", "zeros");
        hand_operator(m, "Abs", "zeros", "more_zeros");
        mp_error err = {0};
        mp_alloc_budget = k;
        st = mp_model_infer(m, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        mp_model_free(m);
        assert_int_equal(mp_alloc_live, live);
        assert_true(k < 100);
    }
}
