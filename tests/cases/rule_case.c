/* rule_case.c - runs an operator of a table row, and compares shapes, FLOPs and extras with the row. */
#include "tests/cases/rule_case.h"

#include "estimator/simplify/infer.h"
#include "tests/cases/test.h"

enum { MANY = 16, LIST = 64, TEXT = 512 };

static mp_dtype dtype_named(const char *name)
{
    for (int k = 0; k < MP_N_DTYPES; k++)
        if (!strcmp(mp_dtype_name((mp_dtype)k), name)) return (mp_dtype)k;
    fail_msg("no element type is called %s", name);
    return MP_DTYPE_UNDEFINED;
}

/* Parses "[1,2]" or "{1,2}" at *text, and moves *text past it. */
static int numbers(const char **text, char close, double *list)
{
    int n = 0;
    const char *p = *text + 1;
    while (*p && *p != close) {
        char *end;
        assert_true(n < LIST);
        list[n++] = strtod(p, &end);
        assert_ptr_not_equal(p, end);
        p = *end == ',' ? end + 1 : end;
    }
    assert_int_equal(*p, close);
    *text = p + 1;
    return n;
}

/* Adds a tensor without a producer from "float32[1,3]" or "int64[2]={4,-1}". */
static int add_input(mp_model *model, const char *text, int k)
{
    char name[32], dtype[32];
    double list[LIST];
    int64_t dims[LIST];
    int t, n = (int)strcspn(text, "[");
    mp_error err = {0};
    snprintf(name, sizeof name, "in%d", k);
    snprintf(dtype, sizeof dtype, "%.*s", n, text);
    text += n;
    int rank = numbers(&text, ']', list);
    for (int d = 0; d < rank; d++) dims[d] = (int64_t)list[d];
    assert_int_equal(mp_model_tensor(model, name, &t, &err), MP_OK);
    if (mp_tensor_set(model, t, dtype_named(dtype), rank, dims, &err) != MP_OK) fail_msg("%s", err.message);
    model->tensors[t].role = MP_ROLE_DATA;
    if (*text == '=') {
        text++;
        int count = numbers(&text, '}', list);
        bool is_real = mp_dtype_is_float(model->tensors[t].dtype);
        mp_value *value = mp_value_new(model, count, is_real);
        assert_non_null(value);
        for (int e = 0; e < count; e++) {
            if (is_real)
                value->f[e] = (float)list[e];
            else
                value->i[e] = (int64_t)list[e];
        }
        model->tensors[t].value = value;
    }
    return t;
}

typedef struct attribute_values {
    char name[32], text[64];
    int64_t ints[LIST];
    double floats[LIST];
} attribute_values;

/* Parses an attribute such as "strides=[2,2]". */
static void read_attribute(const char *text, attribute_values *values, mp_attribute *a)
{
    const char *value = strchr(text, '=');
    assert_non_null(value);
    snprintf(values->name, sizeof values->name, "%.*s", (int)(value - text), text);
    snprintf(values->text, sizeof values->text, "%s", ++value);
    bool is_real = strchr(value, '.') != NULL;
    memset(a, 0, sizeof *a);
    a->name = values->name;
    char *end;
    a->f = strtod(value, &end);
    if (*value == '[') {
        a->n = (size_t)numbers(&value, ']', values->floats);
        for (size_t k = 0; k < a->n; k++) values->ints[k] = (int64_t)values->floats[k];
        a->kind = is_real ? MP_ATTRIBUTE_FLOATS : MP_ATTRIBUTE_INTS;
        a->ints = is_real ? NULL : values->ints;
        a->floats = is_real ? values->floats : NULL;
    } else if (end > value && !*end) {
        a->kind = is_real ? MP_ATTRIBUTE_FLOAT : MP_ATTRIBUTE_INT;
        a->i = strtoll(value, NULL, 10);
    } else {
        a->kind = MP_ATTRIBUTE_TEXT;
        a->text = values->text;
    }
}

/* Splits a text at blanks into an array of pointers into `copy`. */
static int words_of(const char *text, char copy[TEXT], char *words[MANY])
{
    int n = 0;
    char *rest = copy, *word;
    assert_true(strlen(text) < TEXT);
    memcpy(copy, text, strlen(text) + 1);
    while ((word = strtok_r(rest, " ", &rest))) {
        assert_true(n < MANY);
        words[n++] = word;
    }
    return n;
}

/* Adds the operator to a new model and infers it. left_out[k]: output k is omitted. */
static mp_status run(const rule_case *a_case, int n_outputs, const bool *left_out, mp_model **model, mp_error *err)
{
    char copy[TEXT], equation[TEXT], kind[64], domain[64] = "", *words[MANY];
    int in[MANY], out[MANY], index;
    mp_attribute attributes[MANY];
    static attribute_values values[MANY];
    const char *colon = strchr(a_case->kind, ':');
    snprintf(kind, sizeof kind, "%s", colon ? colon + 1 : a_case->kind);
    if (colon) snprintf(domain, sizeof domain, "%.*s", (int)(colon - a_case->kind), a_case->kind);
    assert_int_equal(mp_model_new("case", "", model, err), MP_OK);

    mp_operator_draft draft = {
        .name = "the_node", .kind = kind, .domain = domain, .version = a_case->version, .in = in, .out = out};
    draft.n_in = words_of(a_case->inputs, copy, words);
    for (int k = 0; k < draft.n_in; k++) in[k] = strcmp(words[k], "-") ? add_input(*model, words[k], k) : -1;
    draft.n_attributes = (size_t)words_of(a_case->attributes, equation, words);
    for (size_t k = 0; k < draft.n_attributes; k++) read_attribute(words[k], &values[k], &attributes[k]);
    draft.attributes = attributes;
    draft.n_out = n_outputs;
    for (int k = 0; k < n_outputs; k++) {
        char name[32];
        snprintf(name, sizeof name, "out%d", k);
        out[k] = -1;
        if (!left_out || !left_out[k]) assert_int_equal(mp_model_tensor(*model, name, &out[k], err), MP_OK);
    }
    mp_status st = mp_model_operator(*model, &draft, &index, err);
    return st == MP_OK ? mp_operator_infer(*model, index, err) : st;
}

static void describe(const mp_model *model, char text[TEXT])
{
    const mp_operator *op = &model->operators[0];
    int length = 0;
    text[0] = 0;
    for (int k = 0; k < op->n_out; k++) {
        const mp_tensor *t = mp_operator_out(model, op, k);
        length += snprintf(text + length, (size_t)(TEXT - length), "%s%s", k ? " " : "", t ? mp_dtype_name(t->dtype) : "-");
        for (int d = 0; t && d <= t->rank; d++)
            length += d < t->rank ? snprintf(text + length, (size_t)(TEXT - length), "%s%" PRId64, d ? "," : "[", t->dims[d])
                                  : snprintf(text + length, (size_t)(TEXT - length), "%s]", t->rank ? "" : "[");
    }
}

/* Writes the fault in the outcome of a case as text; "" if it is right. */
static void judge(const rule_case *a, char verdict[2 * TEXT])
{
    bool refused = a->outputs[0] == '!', left_out[MANY] = {false};
    char copy[TEXT], is[TEXT], *words[MANY];
    int n_outputs = refused ? 1 : words_of(a->outputs, copy, words);
    for (int w = 0; w < n_outputs && !refused; w++) left_out[w] = !strcmp(words[w], "-");
    mp_model *model = NULL;
    mp_error err = {0};
    mp_status st = run(a, n_outputs, left_out, &model, &err);
    verdict[0] = 0;
    if (refused && st != MP_PARSE && st != MP_UNSUPPORTED) {
        snprintf(verdict, 2 * TEXT, "is not refused");
    } else if (refused && (!strstr(err.message, a->outputs + 1) || !strstr(err.message, "the_node"))) {
        snprintf(verdict, 2 * TEXT, "is refused with \"%s\"", err.message);
    } else if (!refused && st != MP_OK) {
        snprintf(verdict, 2 * TEXT, "is refused: %s", err.message);
    } else if (!refused) {
        describe(model, is);
        if (strcmp(is, a->outputs) != 0) snprintf(verdict, 2 * TEXT, "gives %s", is);
    }
    mp_model_free(model);
}

void rule_check(const rule_case *cases, size_t n)
{
    long live = mp_alloc_live;
    for (size_t k = 0; k < n; k++) {
        const rule_case *a = &cases[k];
        char verdict[2 * TEXT];
        judge(a, verdict);
        if (verdict[0])
            fail_msg("%s-%d %s {%s} %s, not %s", a->kind, a->version, a->inputs, a->attributes, verdict, a->outputs);
    }
    assert_int_equal(mp_alloc_live, live);
}

mp_model *rule_model(const rule_case *a_case, int n_outputs)
{
    mp_model *model = NULL;
    mp_error err = {0};
    const bool first_left_out[MANY] = {n_outputs < 0};
    if (run(a_case, abs(n_outputs), first_left_out, &model, &err) != MP_OK) fail_msg("%s", err.message);
    return model;
}

double rule_flops(const char *kind, int version, const char *inputs, const char *attributes)
{
    mp_model *model = rule_model(&(rule_case){kind, version, inputs, attributes, ""}, 1);
    const mp_operator *op = &model->operators[0];
    assert_true(op->op->flops);
    double flops = op->op->flops(model, op);
    mp_model_free(model);
    return flops;
}

void rule_check_extras(const char *kind, int version, const char *inputs, const char *attributes, mp_rules rules,
                       const char *expected)
{
    mp_model *model = rule_model(&(rule_case){kind, version, inputs, attributes, ""}, 1);
    const mp_operator *op = &model->operators[0];
    mp_extra extras[MP_EXTRAS_MAX];
    assert_true(op->op->extras);
    char text[TEXT] = "";
    int length = 0, n = op->op->extras(model, op, rules, extras);
    assert_in_range(n, 0, MP_EXTRAS_MAX);
    for (int k = 0; k < n; k++)
        length +=
            snprintf(text + length, (size_t)(TEXT - length), "%s%s %" PRId64, k ? ", " : "", extras[k].name, extras[k].bytes);
    assert_string_equal(text, expected);
    mp_model_free(model);
}
