/* estimate_inputs.c - prints the roles of inputs (executor/data/input_roles.h), as text and as JSON. */
#include "cli/estimates/estimate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/messages/print.h"
#include "executor/data/input_roles.h"
#include "formats/base/text.h"
#include "formats/json/json.h"

/* Computes the smallest and the largest synthetic value of an input. */
static void range_of(const mp_tensor *t, const mp_input_role *role, int64_t *least, int64_t *greatest)
{
    const int64_t last = t->rank ? t->dims[t->rank - 1] : 1;
    *least = 0;
    *greatest = role->n_values ? role->n_values - 1 : 1;
    if (role->kind == MP_INPUT_MASK || role->kind == MP_INPUT_LENGTHS)
        *least = *greatest = (int64_t)role->fixed;
    else if (role->kind == MP_INPUT_POSITIONS)
        *greatest = (role->n_values && role->n_values < last ? role->n_values : last) - 1;
    else if (mp_dtype_is_float(t->dtype))
        *least = -1, *greatest = 1;
}

static const char *values_text(const mp_tensor *t, const mp_input_role *role)
{
    int64_t least, greatest;
    range_of(t, role, &least, &greatest);
    if (least == greatest) return mp_text("%" PRId64, least);
    const char *second = role->kind == MP_INPUT_POSITIONS ? mp_text(", %" PRId64, least + 1) : "";
    return mp_text("%" PRId64 "%s .. %" PRId64, least, second, greatest);
}

static const char *shape_text(const mp_tensor *t)
{
    const char *text = t->rank ? "" : "single";
    for (int d = 0; d < t->rank; d++) text = mp_text("%s%s%" PRId64, text, d ? " x " : "", t->dims[d]);
    return text;
}

typedef void (*role_visitor)(const mp_model *model, const mp_tensor *t, const mp_input_role *role, void *data);

static mp_status visit(const mp_model *model, role_visitor visitor, void *data, mp_error *err)
{
    MP_CLEARED_BY(mp_consumers_free) mp_consumers consumers = {0};
    MP_CHECK(mp_model_consumers(model, &consumers, err));
    for (size_t k = 0; k < model->n_tensors; k++) {
        const mp_tensor *t = &model->tensors[k];
        mp_input_role role;
        if (t->role != MP_ROLE_DATA || t->producer >= 0 || consumers.start[k] == consumers.start[k + 1]) continue;
        MP_CHECK(mp_input_role_of(model, &consumers, (int)k, &role, err));
        visitor(model, t, &role, data);
    }
    return MP_OK;
}

static void widen(const mp_model *model, const mp_tensor *t, const mp_input_role *role, void *data)
{
    int *widths = data;
    const size_t sizes[] = {strlen(t->name), strlen(shape_text(t)), strlen(values_text(t, role))};
    (void)model;
    for (int k = 0; k < 3; k++)
        if ((int)sizes[k] > widths[k]) widths[k] = (int)sizes[k];
}

static void print_role(const mp_model *model, const mp_tensor *t, const mp_input_role *role, void *data)
{
    const int *widths = data;
    print("  %-*s  %-*s  %-7s  %-9s  %-*s", widths[0], t->name, widths[1], shape_text(t), mp_dtype_name(t->dtype),
          mp_input_kind_name(role->kind), role->op < 0 ? 0 : widths[2], values_text(t, role));
    if (role->op >= 0) {
        const mp_operator *op = &model->operators[role->op];
        print("  %s", op->name);
        if (!strstr(op->name, op->kind)) print(" (%s)", op->kind);
    }
    putchar('\n');
}

mp_status report_synthetic(const mp_model *model, mp_error *err)
{
    int widths[3] = {0};
    MP_CHECK(visit(model, widen, widths, err));
    puts("\nSynthetic data (train without files), and the operator that asks for it:");
    return visit(model, print_role, widths, err);
}

static void append_role(const mp_model *model, const mp_tensor *t, const mp_input_role *role, void *data)
{
    json_t **list = data, *shape = json_array();
    int64_t least, greatest;
    range_of(t, role, &least, &greatest);
    for (int d = 0; d < t->rank; d++) mp_json_append(&shape, json_integer(t->dims[d]));
    mp_json_append(list, json_pack("{s:o, s:o, s:s, s:s, s:I, s:I, s:o}", "name", mp_json_text(t->name), "shape", shape,
                                   "dtype", mp_dtype_name(t->dtype), "role", mp_input_kind_name(role->kind), "least",
                                   (json_int_t)least, "greatest", (json_int_t)greatest, "operator",
                                   role->op < 0 ? json_null() : mp_json_text(model->operators[role->op].name)));
}

json_t *synthetic_json(const mp_model *model)
{
    mp_error err = {0};
    json_t *list = json_array();
    if (visit(model, append_role, &list, &err) == MP_OK) return list;
    json_decref(list);
    return NULL;
}
