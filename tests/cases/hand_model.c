/* hand_model.c - adds tensors and operators to a model, one per call. */
#include "tests/cases/hand_model.h"

#include "estimator/simplify/infer.h"
#include "tests/cases/test.h"

static void must(mp_status status, const mp_error *err)
{
    if (status != MP_OK) fail_msg("%s: %s", mp_status_text(status), err->message);
}

int hand_tensor(mp_model *model, const char *name, mp_role role, mp_dtype dtype, int rank, ...)
{
    mp_error err = {0};
    int64_t dims[MP_RANK_MAX];
    int t;
    va_list args;
    va_start(args, rank);
    for (int d = 0; d < rank; d++) dims[d] = va_arg(args, int);
    va_end(args);
    must(mp_model_tensor(model, name, &t, &err), &err);
    must(mp_tensor_set(model, t, dtype, rank, dims, &err), &err);
    model->tensors[t].role = role;
    if (role == MP_ROLE_DATA) must(mp_model_declare_input(model, t, &err), &err);
    return t;
}

static int split_names(mp_model *model, const char *names, int *tensors)
{
    mp_error err = {0};
    char copy[512], *rest = copy, *name;
    int n = 0;
    snprintf(copy, sizeof copy, "%s", names);
    while ((name = strtok_r(rest, " ", &rest))) {
        tensors[n] = -1;
        if (strcmp(name, "-") != 0) must(mp_model_tensor(model, name, &tensors[n], &err), &err);
        n++;
    }
    return n;
}

int hand_operator_with(mp_model *model, const char *kind, const char *domain, int version, const char *in, const char *out,
                       const mp_attribute *attributes, size_t n_attributes)
{
    mp_error err = {0};
    int ins[64], outs[64], index;
    mp_operator_draft draft = {.kind = kind, .domain = domain, .version = version, .in = ins, .out = outs};
    draft.n_in = split_names(model, in, ins);
    draft.n_out = split_names(model, out, outs);
    draft.attributes = attributes;
    draft.n_attributes = n_attributes;
    must(mp_model_operator(model, &draft, &index, &err), &err);
    must(mp_operator_infer(model, index, &err), &err);
    return index;
}

int hand_operator(mp_model *model, const char *kind, const char *in, const char *out)
{
    return hand_operator_with(model, kind, "", 17, in, out, NULL, 0);
}

int hand_integers(mp_model *model, const char *name, int n, ...)
{
    int t = hand_tensor(model, name, MP_ROLE_CONSTANT, MP_DTYPE_INT64, 1, n);
    mp_value *value = mp_value_new(model, n, false);
    assert_non_null(value);
    va_list args;
    va_start(args, n);
    for (int k = 0; k < n; k++) value->i[k] = va_arg(args, int);
    va_end(args);
    model->tensors[t].value = value;
    return t;
}

void hand_output(mp_model *model, const char *name)
{
    mp_error err = {0};
    int t;
    must(mp_model_tensor(model, name, &t, &err), &err);
    must(mp_model_declare_output(model, t, &err), &err);
}
