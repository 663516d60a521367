/* control_join.c - Split and Squeeze; Unsqueeze and Concat. */
#include "estimator/simplify/control/control_join.h"

#include <string.h>

enum { VERSION = 11 }; /* of the operators made here: axes and sizes are attributes */

mp_status mp_control_number(mp_inference *w, const char *stem, mp_dtype dtype, int64_t number, int *tensor)
{
    mp_value *value = mp_value_new(w->model, 1, false);
    MP_ENSURE(value, w->err, MP_NOMEM, "no memory for a constant");
    value->i[0] = number;
    MP_CHECK(mp_model_fresh_tensor(w->model, stem, tensor, w->err));
    MP_CHECK(mp_tensor_set(w->model, *tensor, dtype, 0, NULL, w->err));
    w->model->tensors[*tensor].role = MP_ROLE_CONSTANT;
    w->model->tensors[*tensor].value = value;
    return MP_OK;
}

/* Squeeze or Unsqueeze. */
static mp_status reshape(mp_inference *w, const char *kind, int from, int64_t axis, const char *stem, int *to)
{
    const mp_attribute axes = {.name = "axes", .kind = MP_ATTRIBUTE_INTS, .n = 1, .ints = &axis};
    const mp_operator_draft draft = {.kind = kind,
                                     .version = VERSION,
                                     .in = &from,
                                     .out = to,
                                     .n_in = 1,
                                     .n_out = 1,
                                     .attributes = &axes,
                                     .n_attributes = 1};
    return mp_inference_emit(w, &draft, stem, to);
}

static mp_status concatenate(mp_inference *w, const int *items, int n, int64_t axis, const char *stem, int *to)
{
    const mp_attribute at = {.name = "axis", .kind = MP_ATTRIBUTE_INT, .i = axis};
    const mp_operator_draft draft = {.kind = "Concat",
                                     .version = VERSION,
                                     .in = items,
                                     .out = to,
                                     .n_in = n,
                                     .n_out = 1,
                                     .attributes = &at,
                                     .n_attributes = 1};
    return mp_inference_emit(w, &draft, stem, to);
}

mp_status mp_control_join(mp_inference *w, const int *items, int n, int64_t axis, bool stacked, const char *stem, int to,
                          int *out)
{
    mp_status st = MP_OK;
    int *list = mp_alloc((size_t)n, sizeof *list);
    MP_REQUIRE(list, w->err, MP_NOMEM, "no memory to join %d tensors", n);
    *out = to;
    for (int k = 0; k < n; k++) {
        list[k] = stacked ? n == 1 ? to : -1 : items[k];
        if (stacked) MP_TRY(reshape(w, "Unsqueeze", items[k], axis, stem, &list[k]));
    }
    for (; n > MP_JOINED_MAX; n = (n + MP_JOINED_MAX - 1) / MP_JOINED_MAX) {
        for (int k = 0; k < n; k += MP_JOINED_MAX) {
            int made = -1;
            MP_TRY(concatenate(w, list + k, n - k < MP_JOINED_MAX ? n - k : MP_JOINED_MAX, axis, stem, &made));
            list[k / MP_JOINED_MAX] = made;
        }
    }
    if (n == 1 && stacked)
        *out = list[0];
    else
        MP_TRY(concatenate(w, list, n, axis, stem, out));
done:
    mp_free(list);
    return st;
}

mp_status mp_control_part(mp_inference *w, int tensor, int axis, const int64_t *sizes, int n, bool squeezed, int *parts)
{
    mp_status st = MP_OK;
    const char *stem = w->model->tensors[tensor].name;
    int64_t *ones = mp_alloc((size_t)n, sizeof *ones);
    MP_REQUIRE(ones, w->err, MP_NOMEM, "no memory for %d parts of '%s'", n, stem);
    for (int k = 0; k < n; k++) {
        ones[k] = sizes ? sizes[k] : 1;
        parts[k] = -1;
    }
    const mp_attribute attributes[] = {{.name = "axis", .kind = MP_ATTRIBUTE_INT, .i = axis},
                                       {.name = "split", .kind = MP_ATTRIBUTE_INTS, .n = (size_t)n, .ints = ones}};
    const mp_operator_draft draft = {.kind = "Split",
                                     .version = VERSION,
                                     .in = &tensor,
                                     .out = parts,
                                     .n_in = 1,
                                     .n_out = n,
                                     .attributes = attributes,
                                     .n_attributes = 2};
    MP_TRY(mp_inference_emit(w, &draft, stem, parts));
    for (int k = 0; squeezed && k < n; k++) {
        int squeezed_part = -1;
        MP_TRY(reshape(w, "Squeeze", parts[k], axis, stem, &squeezed_part));
        parts[k] = squeezed_part;
    }
done:
    mp_free(ones);
    return st;
}
