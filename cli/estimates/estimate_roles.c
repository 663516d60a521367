/* estimate_roles.c - prints the role (data, trained, kept or constant) of each tensor that no operator computes, as text and
 * JSON. */
#include "cli/estimates/estimate.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/print.h"
#include "formats/json/json.h"

/* True if the tensor is an input or a constant of the file: no operator computes it, and simplification did not create it. */
static bool is_listed(const mp_tensor *t)
{
    return t->producer < 0 && t->role != MP_ROLE_ACTIVATION && (t->role != MP_ROLE_CONSTANT || t->role_reason);
}

/* True if a tensor of this type could be trained. Other constants, which are integers and settings, are not listed because
 * there are too many. */
static bool is_decision(const mp_tensor *t)
{
    return t->role != MP_ROLE_CONSTANT || (mp_dtype_is_float(t->dtype) && t->rank > 0 && mp_tensor_elements(t) > 1);
}

static bool is_of_group(const mp_tensor *t, const mp_tensor *first, const mp_workload_options *o)
{
    return is_listed(t) && is_decision(t) && t->role == first->role &&
           !strcmp(mp_workload_role_reason(t, o), mp_workload_role_reason(first, o));
}

static void report_group(const mp_model *model, size_t k, const mp_workload_options *o)
{
    enum { NAMED = 3 };
    const mp_tensor *first = &model->tensors[k];
    const char *reason = mp_workload_role_reason(first, o);
    size_t n = 0, named = 0;
    for (size_t j = k; j < model->n_tensors; j++) n += is_of_group(&model->tensors[j], first, o);
    print("  %zu %s%s%s%s%s:", n, mp_role_name(first->role), n > 1 && first->role != MP_ROLE_DATA ? "s" : "",
          *reason ? " (" : "", reason, *reason ? ")" : "");
    for (size_t j = k; j < model->n_tensors && named < NAMED; j++)
        if (is_of_group(&model->tensors[j], first, o)) print("%s %s", named++ ? "," : "", model->tensors[j].name);
    print("%s\n", n > NAMED ? ", ..." : "");
}

void report_roles(const mp_model *model, const mp_workload_options *o)
{
    puts("\nInputs of the model:");
    for (int role = MP_ROLE_DATA; role <= MP_ROLE_CONSTANT; role++)
        for (size_t k = 0; k < model->n_tensors; k++) {
            const mp_tensor *first = &model->tensors[k];
            bool seen = (int)first->role != role || !is_listed(first) || !is_decision(first);
            for (size_t j = 0; j < k && !seen; j++) seen = is_of_group(&model->tensors[j], first, o);
            if (!seen) report_group(model, k, o);
        }
}

static json_t *role_json(const mp_tensor *t, const mp_workload_options *o)
{
    return json_pack("{s:o, s:s, s:o, s:I}", "name", mp_json_text(t->name), "role", mp_role_name(t->role), "reason",
                     mp_json_text(mp_workload_role_reason(t, o)), "elements",
                     (json_int_t)(t->rank < 0 ? 0 : mp_tensor_elements(t)));
}

json_t *roles_json(const mp_model *model, const mp_workload_options *o)
{
    json_t *list = json_array();
    for (size_t k = 0; k < model->n_tensors; k++)
        if (is_listed(&model->tensors[k])) mp_json_append(&list, role_json(&model->tensors[k], o));
    return list;
}
