/* shapes_loss.c - shapes of losses: scores (N, C, d1..dk) and integer labels (N, d1..dk) give one number per label, or with a
 * reduction one in all; predictions and targets of one shape give their mean loss. */
#include <inttypes.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/model/shape_rule.h"

mp_status mp_shape_loss(mp_infer *c)
{
    const mp_tensor *scores, *labels, *weights;
    MP_CHECK(mp_rule_input(c, 0, 2, MP_RANK_MAX, &scores));
    MP_CHECK(mp_rule_input(c, 1, scores->rank - 1, scores->rank - 1, &labels));
    for (int k = 0; k < labels->rank; k++)
        MP_FIT(labels->dims[k] == scores->dims[k ? k + 1 : 0],
               "the labels '%s' have %" PRId64 " along dimension %d where the scores '%s' have %" PRId64, labels->name,
               labels->dims[k], k, scores->name, scores->dims[k ? k + 1 : 0]);
    if (mp_infer_in(c, 2)) {
        MP_CHECK(mp_rule_input(c, 2, 1, 1, &weights));
        MP_FIT(weights->dims[0] == scores->dims[1], "%" PRId64 " weights are given for %" PRId64 " classes", weights->dims[0],
               scores->dims[1]);
    }
    const char *reduction = mp_operator_text(c->op, "reduction", "mean");
    bool none = !strcmp(reduction, "none");
    MP_FIT(none || !strcmp(reduction, "mean") || !strcmp(reduction, "sum"), "reduction '%s' is not known", reduction);
    MP_CHECK(mp_infer_set(c, 0, scores->dtype, none ? labels->rank : 0, labels->dims));
    MP_CHECK(mp_infer_set(c, 1, scores->dtype, scores->rank, scores->dims)); /* logarithms of the probabilities */
    return MP_OK;
}

mp_status mp_shape_element_loss(mp_infer *c)
{
    const mp_tensor *x, *target, *weights;
    char text[2][MP_SHAPE_TEXT];
    MP_CHECK(mp_rule_input(c, 0, 0, MP_RANK_MAX, &x));
    MP_CHECK(mp_rule_input(c, 1, 0, MP_RANK_MAX, &target));
    MP_FIT(x->rank == target->rank && !memcmp(x->dims, target->dims, (size_t)x->rank * sizeof *x->dims),
           "'%s' %s and its target '%s' %s differ in shape", x->name, mp_rule_shape_text(x->dims, x->rank, text[0]),
           target->name, mp_rule_shape_text(target->dims, target->rank, text[1]));
    if (mp_infer_in(c, 2)) {
        MP_CHECK(mp_rule_input(c, 2, 1, 1, &weights));
        MP_FIT(weights->dims[0] == 1 || (x->rank && weights->dims[0] == x->dims[x->rank - 1]),
               "%" PRId64 " weights are given for '%s' %s: one, or one for each place along the last dimension",
               weights->dims[0], x->name, mp_rule_shape_text(x->dims, x->rank, text[0]));
    }
    MP_FIT(mp_operator_float(c->op, "delta", 1) > 0, "delta is %g, and it has to be over 0",
           mp_operator_float(c->op, "delta", 1));
    return mp_infer_set(c, 0, x->dtype, 0, NULL);
}
