/* test_fold.c - constant folding: small cases computed by hand from ONNX's operator descriptions, and ONNX's conformance data
 * (Debian's libonnx-testdata). Each conformance model with fold rules for all operators gets its input values. The folded
 * outputs are compared with the published ones. */
#include <dirent.h>

#include "estimator/rules/fold/fold.h"
#include "estimator/simplify/infer.h"
#include "formats/base/file.h"
#include "formats/onnx/onnx_tensor.h"
#include "memplan/onnx.h"
#include "tests/cases/rule_case.h"
#include "tests/cases/test.h"

typedef struct fold_case {
    const char *kind;
    int version;
    const char *inputs, *attributes;
    const char *values; /* of the first output, "1 2.5"; "?" if it must stay unknown */
} fold_case;

static void describe(const mp_value *v, char text[512])
{
    int length = 0;
    snprintf(text, 512, "%s", v ? "" : "?");
    for (int64_t k = 0; v && k < v->n && length < 480; k++)
        length += v->is_real ? snprintf(text + length, 512 - (size_t)length, "%s%g", k ? " " : "", v->f[k])
                             : snprintf(text + length, 512 - (size_t)length, "%s%" PRId64, k ? " " : "", v->i[k]);
}

#define CHECK(...)                                       \
    do {                                                 \
        const fold_case cases[] = {__VA_ARGS__};         \
        fold_check(cases, sizeof cases / sizeof *cases); \
    } while (0)

static void fold_check(const fold_case *cases, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const fold_case *a = &cases[k];
        char is[512];
        mp_model *m = rule_model(&(rule_case){a->kind, a->version, a->inputs, a->attributes, ""}, 1);
        describe(mp_operator_out(m, &m->operators[0], 0)->value, is);
        if (strcmp(is, a->values) != 0)
            fail_msg("%s-%d %s {%s} gives %s, not %s", a->kind, a->version, a->inputs, a->attributes, is, a->values);
        mp_model_free(m);
    }
}

TEST(integers_wrap_and_divide_as_their_type_does)
{
    CHECK({"Add", 14, "uint8[2]={250,1} uint8[1]={10}", "", "4 11"}, {"Sub", 14, "uint8[]={3} uint8[]={5}", "", "254"},
          {"Mul", 14, "int8[2]={100,-100} int8[]={2}", "", "-56 56"},
          {"Mul", 14, "int64[]={4611686018427387904} int64[]={4}", "", "0"},
          {"Add", 14, "int64[]={9223372036854774784} int64[]={1024}", "", "-9223372036854775808"},
          {"Neg", 13, "int8[2]={-128,7}", "", "-128 -7"}, {"Abs", 13, "int32[2]={-5,5}", "", "5 5"},
          {"Div", 14, "int32[4]={7,-7,7,-7} int32[4]={2,2,-2,-2}", "", "3 -3 -3 3"},
          {"Div", 14, "int32[2]={7,1} int32[2]={1,0}", "", "?"},
          {"Mod", 13, "int32[4]={7,-7,7,-7} int32[4]={3,3,-3,-3}", "", "1 2 -2 -1"},
          {"Mod", 13, "int32[4]={7,-7,7,-7} int32[4]={3,3,-3,-3}", "fmod=1", "1 -1 1 -1"},
          {"Mod", 13, "int32[1]={1} int32[1]={0}", "", "?"},
          {"Pow", 13, "int32[4]={2,-3,1,5} int32[4]={10,3,-4,0}", "", "1024 -27 1 1"},
          {"Pow", 13, "int32[1]={0} int32[1]={-1}", "", "?"},
          {"BitShift", 11, "uint8[4]={255,1,8,3} uint8[4]={1,7,8,0}", "direction=LEFT", "254 128 0 3"},
          {"BitShift", 11, "uint8[3]={255,1,8} uint8[3]={1,7,200}", "direction=RIGHT", "127 0 0"},
          {"BitwiseNot", 18, "uint8[2]={0,240}", "", "255 15"}, {"BitwiseXor", 18, "int16[]={-1} int16[]={5}", "", "-6"},
          {"Sign", 13, "int64[3]={-4,0,9}", "", "-1 0 1"});
}

TEST(reals_are_rounded_to_their_type)
{
    CHECK({"Add", 14, "float32[]={16777216} float32[]={1}", "", "1.67772e+07"},
          {"Sub", 14, "float16[]={2049} float16[]={0}", "", "2048"}, {"Sub", 14, "float16[]={2051} float16[]={0}", "", "2052"},
          {"Mul", 14, "float16[]={1000} float16[]={1000}", "", "inf"},
          {"Mul", 14, "bfloat16[]={257} bfloat16[]={1}", "", "256"}, {"Div", 14, "float32[]={1} float32[]={0}", "", "inf"},
          {"Round", 11, "float32[6]={0.5,1.5,2.5,-0.5,-1.5,0.4}", "", "0 2 2 -0 -2 0"},
          {"Floor", 13, "float32[2]={-1.5,1.5}", "", "-2 1"}, {"Ceil", 13, "float32[2]={-1.5,1.5}", "", "-1 2"},
          {"Sqrt", 13, "float32[2]={9,2}", "", "3 1.41421"}, {"Reciprocal", 13, "float64[]={4}", "", "0.25"},
          {"Max", 13, "float32[2]={1,5} float32[]={3}", "", "3 5"}, {"Min", 13, "int32[2]={1,5} int32[]={3}", "", "1 3"},
          {"Mean", 13, "float32[]={1} float32[]={2} float32[]={6}", "", "3"},
          {"Clip", 11, "float32[3]={-2,0.5,9} float32[]={-1} float32[]={1}", "", "-1 0.5 1"},
          {"Clip", 12, "int32[3]={-2,5,9} - int32[]={6}", "", "-2 5 6"},
          {"Clip", 6, "float32[3]={-2,0.5,9}", "max=0.75", "-2 0.5 0.75"});
}

TEST(casts_truncate_wrap_and_refuse)
{
    CHECK({"Cast", 13, "float32[4]={2.9,-2.9,0,1}", "to=7", "2 -2 0 1"}, {"Cast", 13, "float32[3]={0,0.1,-3}", "to=9", "0 1 1"},
          {"Cast", 13, "int64[3]={300,-1,256}", "to=2", "44 255 0"}, {"Cast", 13, "float32[1]={300}", "to=2", "?"},
          {"Cast", 13, "float32[2]={nan,1}", "to=6", "?"}, {"Cast", 13, "bool[2]={1,0}", "to=1", "1 0"},
          {"Cast", 13, "int64[1]={2049}", "to=10", "2048"}, {"CastLike", 15, "float32[1]={7.5} int32[3]", "", "7"},
          {"Cast", 19, "float32[1]={1}", "to=17", "?"});
}

TEST(logic_compares_and_chooses)
{
    CHECK({"Not", 1, "bool[2]={1,0}", "", "0 1"}, {"Xor", 7, "bool[2,1]={1,0} bool[2]={1,0}", "", "0 1 1 0"},
          {"Less", 13, "float32[3]={1,2,nan} float32[]={2}", "", "1 0 0"},
          {"GreaterOrEqual", 16, "uint64[2]={-1,1} uint64[]={2}", "", "1 0"}, /* -1 has the bits of 2^64 - 1 */
          {"Div", 14, "uint64[]={-2} uint64[]={2}", "", "9223372036854775807"},
          {"Equal", 6, "int64[2,2]={1,2,3,4} int64[2]={1,3}", "broadcast=1 axis=0", "1 0 1 0"},
          {"Where", 16, "bool[2]={1,0} int64[2,1]={1,2} int64[]={9}", "", "1 9 2 9"},
          {"Where", 16, "bool[2] int64[2]={1,2} int64[]={9}", "", "?"});
}

TEST(elements_are_moved_to_their_places)
{
    CHECK({"Transpose", 13, "int64[2,3]={1,2,3,4,5,6}", "", "1 4 2 5 3 6"},
          {"Slice", 13, "int64[6]={0,1,2,3,4,5} int64[]={4} int64[1]={-9} - int64[1]={-2}", "", "4 2 0"},
          {"Slice", 9, "int64[2,3]={1,2,3,4,5,6}", "starts=[-1] ends=[99] axes=[1]", "3 6"},
          {"Concat", 13, "int64[2,1]={1,2} int64[2,2]={3,4,5,6}", "axis=-1", "1 3 4 2 5 6"},
          {"Concat", 13, "int64[1]={1} int64[1]", "axis=0", "?"}, {"Concat", 13, "int64[0] int64[1]={1}", "axis=0", "1"},
          {"Gather", 13, "int64[3,2]={1,2,3,4,5,6} int64[2]={-1,0}", "", "5 6 1 2"},
          {"Gather", 13, "int64[3]={1,2,3} int64[1]={3}", "", "?"},
          {"GatherND", 13, "int64[2,2]={0,1,2,3} int64[2,1]={1,-2}", "", "2 3 0 1"},
          {"Expand", 13, "int64[2,1]={1,2} int64[2]={1,3}", "", "1 1 1 2 2 2"},
          {"Tile", 13, "int64[2]={1,2} int64[1]={2}", "", "1 2 1 2"},
          {"Trilu", 14, "int64[2,3]={1,2,3,4,5,6} int64[]={1}", "", "0 2 3 0 0 6"},
          {"Trilu", 14, "int64[2,3]={1,2,3,4,5,6}", "upper=0", "1 0 0 4 5 0"},
          {"Compress", 11, "int64[2,2]={1,2,3,4} bool[2]={0,1}", "axis=1", "2 4"},
          {"OneHot", 11, "int64[3]={0,-1,9} int64[]={3} float32[2]={0,5}", "", "5 0 0 0 0 5 0 0 0"},
          {"OneHot", 11, "float32[2]={1,0} int64[]={3} int32[2]={0,1}", "axis=0", "0 1 1 0 0 0"},
          {"Reshape", 13, "int64[2,2]={1,2,3,4} int64[1]={-1}", "", "1 2 3 4"},
          {"ScatterND", 18, "int64[3]={1,1,1} int64[2,1]={0,0} int64[2]={5,7}", "reduction=add", "13 1 1"},
          {"ScatterElements", 18, "int64[3]={1,1,1} int64[2]={-1,0} int64[2]={5,7}", "", "7 1 5"},
          {"ScatterElements", 18, "int64[3]={1,1,1} int64[1]={3} int64[1]={5}", "", "?"});
}

TEST(shapes_ranges_and_reductions_are_computed)
{
    CHECK(
        {"Shape", 15, "float32[2,3,4]", "start=-2", "3 4"}, {"Size", 13, "float32[2,3,4]", "", "24"},
        {"Range", 11, "int64[]={7} int64[]={0} int64[]={-3}", "", "7 4 1"},
        {"NonZero", 13, "bool[2,2]={0,1,1,0}", "", "0 1 1 0"}, {"ConstantOfShape", 9, "int64[1]={3}", "", "0 0 0"},
        {"EyeLike", 9, "int32[2,3]", "k=1", "0 1 0 0 0 1"}, {"Constant", 13, "", "value_floats=[1.5,2.5]", "1.5 2.5"},
        {"Constant", 13, "", "value_int=-3", "-3"}, {"ReduceSum", 13, "int64[2,2]={1,2,3,4} int64[1]={0}", "keepdims=0", "4 6"},
        {"ReduceSum", 13, "int64[2]={1,2} int64[0]", "noop_with_empty_axes=1", "1 2"},
        {"ReduceProd", 11, "int64[2,2]={1,2,3,4}", "axes=[-1]", "2 12"}, {"ReduceMean", 11, "float32[4]={1,2,3,4}", "", "2.5"},
        {"ReduceMax", 18, "int64[3]={3,-1,7}", "", "7"}, {"ReduceMin", 18, "int64[3]={3,-1,7}", "", "-1"},
        {"ArgMax", 13, "int64[4]={1,7,7,2}", "", "1"}, {"ArgMax", 13, "int64[4]={1,7,7,2}", "select_last_index=1", "2"},
        {"ArgMin", 13, "float32[2,2]={3,1,2,5}", "axis=1 keepdims=0", "1 0"},
        {"CumSum", 14, "int64[4]={1,2,3,4} int64[]={0}", "", "1 3 6 10"},
        {"CumSum", 14, "int64[4]={1,2,3,4} int64[]={-1}", "exclusive=1 reverse=1", "9 7 4 0"});
}

/* The conformance data store bfloat16 numbers as uint16, the upper halves of float32. Converts them to the type that the model
 * declares. */
static void read_bfloat16(mp_model *m, mp_tensor *t, mp_dtype declared)
{
    if (declared != MP_DTYPE_BFLOAT16 || t->dtype != MP_DTYPE_UINT16 || !t->value) return;
    mp_value *v = mp_value_new(m, t->value->n, true);
    assert_non_null(v);
    for (int64_t k = 0; k < v->n; k++) {
        uint32_t bits = (uint32_t)t->value->i[k] << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        v->f[k] = (double)x;
    }
    t->value = v;
    t->dtype = declared;
}

/* Reads a file with one tensor of the declared type into a new model; NULL if the file holds another type. */
static mp_model *read_tensor(const char *path, mp_dtype declared, int *tensor)
{
    mp_file file;
    mp_error err = {0};
    mp_model *m = NULL;
    assert_int_equal(mp_file_open(path, 1 << 28, &file, &err), MP_OK);
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, file.size, file.bytes);
    assert_int_equal(mp_model_new("value", "", &m, &err), MP_OK);
    bool read = proto && proto->name && mp_onnx_initializer(m, proto, -1, &err) == MP_OK;
    *tensor = read ? mp_model_find(m, proto->name) : -1;
    if (*tensor < 0) {
        mp_model_free(m);
        m = NULL;
    } else {
        read_bfloat16(m, &m->tensors[*tensor], declared);
    }
    if (proto) onnx__tensor_proto__free_unpacked(proto, NULL);
    mp_file_close(&file);
    return m;
}

/* Returns whether all operators have fold rules, on types that a value can hold. */
static bool is_foldable(const mp_model *m)
{
    for (size_t k = 0; k < m->n_operators; k++)
        if (!m->operators[k].op->fold) return false;
    for (size_t k = 0; k < m->n_tensors; k++)
        if (!mp_fold_can_hold(m->tensors[k].dtype)) return false;
    return m->n_operators > 0;
}

/* Sets the inputs' values from the files; false if one is too large to be kept. */
static bool set_inputs(mp_model *m, const char *folder)
{
    for (size_t k = 0; k < m->n_inputs; k++) {
        char path[512];
        int t;
        snprintf(path, sizeof path, "%s/test_data_set_0/input_%zu.pb", folder, k);
        mp_model *given = read_tensor(path, m->tensors[m->inputs[k]].dtype, &t);
        if (!given) return false;
        const mp_value *v = given->tensors[t].value;
        mp_value *copy = v ? mp_value_new(m, v->n, v->is_real) : NULL;
        for (int64_t e = 0; copy && e < v->n; e++) mp_fold_move(copy, e, v, e);
        m->tensors[m->inputs[k]].value = copy;
        bool set = copy || mp_tensor_elements(&m->tensors[m->inputs[k]]) == 0;
        mp_model_free(given);
        if (!set) return false;
    }
    return true;
}

/* Returns the relative precision of the published values. The windows were published with 3.1415 for pi. */
static double precision_of(mp_dtype dtype, const char *folder)
{
    if (strstr(folder, "window")) return 2e-3;
    return dtype == MP_DTYPE_FLOAT16 || dtype == MP_DTYPE_BFLOAT16 ? 1e-2 : 1e-5;
}

static bool equal(const mp_value *is, const mp_value *should, int64_t k, double precision)
{
    if (!is->is_real) return is->i[k] == should->i[k];
    double a = is->f[k], b = should->f[k];
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= precision * (fabs(b) + 1e-2);
}

/* Describes how output k differs from its published value; NULL: equal. */
static const char *difference(const mp_tensor *is, const mp_tensor *should, double precision)
{
    if (!is->value && mp_tensor_elements(is)) return "is not known";
    if (is->dtype != should->dtype || is->rank != should->rank) return "is of another type or rank";
    for (int d = 0; d < is->rank; d++)
        if (is->dims[d] != should->dims[d]) return "is of another shape";
    if (mp_tensor_elements(is) && !should->value) return "was published in a type that cannot be read";
    for (int64_t e = 0; e < mp_tensor_elements(is); e++)
        if (!equal(is->value, should->value, e, precision)) return "has another value";
    return NULL;
}

/* Returns the number of outputs that differ. */
static int compare_outputs(const mp_model *m, const char *folder)
{
    int wrong = 0;
    for (size_t k = 0; k < m->n_outputs; k++) {
        const mp_tensor *is = &m->tensors[m->outputs[k]];
        char path[512];
        int t;
        snprintf(path, sizeof path, "%s/test_data_set_0/output_%zu.pb", folder, k);
        mp_model *given = read_tensor(path, is->dtype, &t);
        assert_non_null(given);
        const char *what = difference(is, &given->tensors[t], precision_of(is->dtype, folder));
        if (what) print_message("%s: output %zu %s\n", folder, k, what);
        wrong += what != NULL;
        mp_model_free(given);
    }
    return wrong;
}

TEST(the_conformance_models_give_their_published_values)
{
    const char *root = "/usr/share/libonnx-testdata/data/node";
    struct dirent **names;
    int n = scandir(root, &names, NULL, alphasort), compared = 0, loaded = 0, wrong = 0;
    if (n < 0) {
        print_message("SKIPPED: %s is missing (Debian package libonnx-testdata)\n", root);
        skip();
    }
    for (int k = 0; k < n; k++) {
        char folder[400], path[420];
        mp_model *m = NULL;
        mp_error err = {0};
        snprintf(folder, sizeof folder, "%s/%s", root, names[k]->d_name);
        snprintf(path, sizeof path, "%s/model.onnx", folder);
        bool is_case = names[k]->d_name[0] != '.';
        free(names[k]);
        if (!is_case || mp_onnx_read(path, &(mp_onnx_options){0}, &m, &err) != MP_OK) continue;
        loaded++;
        if (is_foldable(m) && set_inputs(m, folder)) {
            if (mp_model_infer(m, &err) != MP_OK) fail_msg("%s: %s", folder, err.message);
            wrong += compare_outputs(m, folder);
            compared++;
        }
        mp_model_free(m);
    }
    free(names);
    print_message("%d conformance models loaded, the values of %d compared\n", loaded, compared);
    assert_int_equal(wrong, 0);
    assert_true(compared >= 450);
}
