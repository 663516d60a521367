/* simplify.h - simplification of a model between reading its file and building its training graph.
 *
 * Exporters write the same computation with different operators: LayerNormalization may be one operator or nine. Both forms
 * must give the same training graph. The following passes are repeated until nothing changes:
 *
 * - Constant folding: operators whose outputs are all known values are removed.
 * - Identities are bypassed: Identity, Dropout with rate 0, Cast to the same type, ...
 * - Dead operators are removed.
 * - Equal operators with equal inputs are merged, except random ones.
 * - A*B + A*C becomes A*(B+C) (executor rules only).
 * - Decomposed LayerNormalization, RMSNormalization, Gelu and Swish are recognised and replaced by one operator. So is a
 *   softmax that sets fully masked rows to zero.
 * - A reshape that splits dimensions is moved before a transposition. There it may cancel an earlier reshape that joined these
 *   dimensions.
 * - If the gradient of an operator reads more operands than usual for its type, the operator receives a special type.
 * - A transposition of a parameter is folded into the product that uses it, and a bias into the product that it is added to.
 *
 * A removed tensor records its replacement, so every tensor name in the file remains valid. O(n) per round.
 *
 *     // given: mp_model *model; mp_error *err
 *     MP_CHECK(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, err));
 *     MP_CHECK(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, NULL, err));
 */
#pragma once

#include "memplan/model.h"

typedef struct mp_simplify_report {
    int folded, identities, dead, merged, factored, views, patterns, apart, transpositions, biases;
} mp_simplify_report;

/* Simplifies the model in place; `report` may be NULL. `all` false (--no-simplify): only the passes that the training graph
 * requires (known values, dead operators, transposed parameters). MP_NOMEM. */
mp_status mp_model_simplify(mp_model *model, mp_rules rules, bool all, mp_simplify_report *report, mp_error *err);

/* Report on attention fusion. An attention pattern is a product of a softmax and a matrix. The names belong to the model. */
typedef struct mp_attention_report {
    int n, n_missed; /* number of attention patterns that were fused into one operator, and number of patterns that were not */
    int n_masked;    /* number of fused patterns with a mask that is not causal */
    int n_unmasked;  /* number of fused patterns without a mask, whose program may pass a boolean mask that hides nothing */
    const char *missed; /* name of the first unfused attention pattern: of its product with V */
    const char *breaks; /* name of the operator (`kind` is its type) or tensor (`kind` is "") that prevented this fusion */
    const char *kind;
    const char *why; /* reason why the fusion failed, such as "stands between the product and the softmax" */
} mp_attention_report;

/* Fuses each attention that a simplified model contains as separate operators into one operator that never stores the score
 * matrix. Under the executor's rules, call this function only if the target supports this operator. Under PyTorch's rules,
 * attention is fused if the file shows that the original was PyTorch's fused attention, without dropout and without a gradient
 * of the mask. If the attention itself repeats K and V for several heads of Q (enable_gqa), the fused operator reads them
 * unrepeated (attribute `groups`, which no backend executes).
 *
 * mask_gradients states whether the executor's operator computes the gradient of a term that is added to the scores, such as
 * a learned position bias. If it is false, attention with such a term is not fused. `report` may be NULL. O(n). MP_NOMEM. */
mp_status mp_model_fuse_attention(mp_model *model, mp_rules rules, bool mask_gradients, mp_attention_report *report,
                                  mp_error *err);
