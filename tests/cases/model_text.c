/* model_text.c - parses statements separated by semicolons into tensors and operators. */
#include "tests/cases/model_text.h"

#include "estimator/simplify/infer.h"
#include "memplan/simplify.h"
#include "tests/cases/test.h"

enum { WORDS_MAX = 64 };

static void must(mp_status status, const mp_error *err, const char *where)
{
    if (status != MP_OK) fail_msg("'%s': %s: %s", where, mp_status_text(status), err->message);
}

static int tensor(mp_model *model, const char *name)
{
    mp_error err = {0};
    int t = -1;
    if (strcmp(name, "-") != 0) must(mp_model_tensor(model, name, &t, &err), &err, name);
    return t;
}

/* Parses data, param or buffer: name and dimensions. */
static void add_outside(mp_model *model, mp_role role, int dtype, char **words, int n)
{
    mp_error err = {0};
    int64_t dims[WORDS_MAX];
    int t = tensor(model, words[1]);
    for (int k = 2; k < n; k++) dims[k - 2] = strtoll(words[k], NULL, 10);
    must(mp_tensor_set(model, t, (mp_dtype)dtype, n - 2, dims, &err), &err, words[1]);
    model->tensors[t].role = role;
    if (role == MP_ROLE_DATA) must(mp_model_declare_input(model, t, &err), &err, words[1]);
}

/* Parses const: a name and a number, or a name and several numbers (a vector). `int` is similar with integers, `ints` is always
 * a vector. */
static void add_known(mp_model *model, bool is_real, int dtype, char **words, int n)
{
    mp_error err = {0};
    int64_t dims[1] = {n - 2};
    int t = tensor(model, words[1]);
    mp_value *value = mp_value_new(model, n - 2, is_real);
    assert_non_null(value);
    must(mp_tensor_set(model, t, (mp_dtype)dtype, !strcmp(words[0], "ints") || n > 3, dims, &err), &err, words[1]);
    for (int k = 2; k < n; k++) {
        if (is_real)
            value->f[k - 2] = strtod(words[k], NULL);
        else
            value->i[k - 2] = strtoll(words[k], NULL, 10);
    }
    model->tensors[t].role = MP_ROLE_CONSTANT;
    model->tensors[t].value = value;
}

static mp_attribute read_attribute(char *word, int64_t ints[WORDS_MAX])
{
    char *value = strchr(word, '='), *end;
    *value++ = 0;
    mp_attribute a = {.name = word, .kind = MP_ATTRIBUTE_TEXT, .text = value};
    if (*value == '[') {
        a = (mp_attribute){.name = word, .kind = MP_ATTRIBUTE_INTS, .ints = ints};
        for (char *item = value + 1; *item && *item != ']'; item = *end == ',' ? end + 1 : end)
            ints[a.n++] = strtoll(item, &end, 10);
        return a;
    }
    int64_t i = strtoll(value, &end, 10);
    if (end != value && !*end) return (mp_attribute){.name = word, .kind = MP_ATTRIBUTE_INT, .i = i};
    double f = strtod(value, &end);
    if (end != value && !*end) return (mp_attribute){.name = word, .kind = MP_ATTRIBUTE_FLOAT, .f = f};
    return a;
}

static void add_operator(mp_model *model, const char *domain, char *kind, char **words, int n)
{
    mp_error err = {0};
    int in[WORDS_MAX], out[WORDS_MAX], index, k = 1;
    int64_t ints[4][WORDS_MAX];
    mp_attribute attributes[4];
    char name[64], *version = strchr(kind, '@');
    mp_operator_draft draft = {
        .name = name, .kind = kind, .domain = domain, .version = 17, .in = in, .out = out, .attributes = attributes};
    if (version) draft.version = (int)strtol(version + 1, NULL, 10);
    if (version) *version = 0;
    for (; k < n && strcmp(words[k], "->") != 0; k++) in[draft.n_in++] = tensor(model, words[k]);
    snprintf(name, sizeof name, "%s/op", k + 1 < n ? words[k + 1] : "");
    for (k++; k < n && !strchr(words[k], '='); k++) out[draft.n_out++] = tensor(model, words[k]);
    for (; k < n; k++, draft.n_attributes++)
        attributes[draft.n_attributes] = read_attribute(words[k], ints[draft.n_attributes]);
    must(mp_model_operator(model, &draft, &index, &err), &err, name);
    must(mp_operator_infer(model, index, &err), &err, name);
}

static void add_statement(mp_model *model, char **words, int n)
{
    mp_error err = {0};
    int dtype = 0;
    char *colon = strchr(words[0], ':');
    if (colon) {
        *colon = 0;
        dtype = (int)strtol(colon + 1, NULL, 10);
    }
    if (!strcmp(words[0], "data")) {
        add_outside(model, MP_ROLE_DATA, dtype ? dtype : MP_DTYPE_FLOAT, words, n);
    } else if (!strcmp(words[0], "param")) {
        add_outside(model, MP_ROLE_PARAMETER, dtype ? dtype : MP_DTYPE_FLOAT, words, n);
    } else if (!strcmp(words[0], "const")) {
        add_known(model, true, dtype ? dtype : MP_DTYPE_FLOAT, words, n);
    } else if (!strcmp(words[0], "ints") || !strcmp(words[0], "int")) {
        add_known(model, false, dtype ? dtype : MP_DTYPE_INT64, words, n);
    } else if (!strcmp(words[0], "out")) {
        for (int k = 1; k < n; k++) must(mp_model_declare_output(model, tensor(model, words[k]), &err), &err, words[k]);
    } else {
        add_operator(model, colon ? words[0] : "", colon ? colon + 1 : words[0], words, n);
    }
}

mp_model *model_text(const char *text)
{
    mp_error err = {0};
    mp_model *model = NULL;
    char *copy = strdup(text), *statements = copy, *statement;
    assert_non_null(copy);
    must(mp_model_new("text", "", &model, &err), &err, "model");
    while ((statement = strtok_r(statements, ";", &statements))) {
        char *words[WORDS_MAX], *rest = statement, *word;
        int n = 0;
        while (n < WORDS_MAX && (word = strtok_r(rest, " \n", &rest))) words[n++] = word;
        if (n) add_statement(model, words, n);
    }
    free(copy);
    return model;
}

const char *model_kinds(const mp_model *model)
{
    static char kinds[4096];
    size_t n = 0;
    kinds[0] = 0;
    for (size_t k = 0; k < model->n_operators && n < sizeof kinds; k++)
        if (!model->operators[k].removed)
            n += (size_t)snprintf(kinds + n, sizeof kinds - n, "%s%s", n ? " " : "", model->operators[k].kind);
    return kinds;
}

mp_graph *model_text_graph(const char *text, mp_training_options options)
{
    mp_error err = {0};
    mp_model *model = model_text(text);
    const mp_target target = mp_roofline(mp_device_find("h100"));
    mp_graph *graph = NULL;
    int loss;
    options.loss = MP_LOSS_MSE;
    if (mp_model_simplify(model, options.rules, true, NULL, &err) != MP_OK ||
        mp_model_add_loss(model, &options, &loss, &err) != MP_OK ||
        mp_training_graph(model, &options, loss, &target, &graph, &err) != MP_OK)
        fail_msg("%s: %s", text, err.message);
    mp_model_free(model);
    return graph;
}
