/* simplify.h - the clean-up between the file and the training graph.
 *
 * One export writes LayerNormalization as one operator, another as nine; both must give the same training graph. In this order,
 * repeated until nothing changes: operators whose outputs are all known values are folded away; identities (Identity, Dropout
 * that drops nothing, Cast to the same type, ...) are passed through; dead operators are removed; equal operators on equal
 * inputs are merged (never random ones); A*B + A*C becomes A*(B+C) (executor rules only); decomposed LayerNormalization,
 * RMSNormalization, Gelu and Swish are recognised, and a softmax whose closed rows are made zeros; a reshape that splits
 * dimensions is moved before a transposition, where a joining one may wait for it; operators whose gradients read more than
 * those of their kind are named apart; a transposition of a parameter is folded into the product that uses it, and a bias into
 * the product that it is added to. Every tensor that disappears says which one took its place, so that every name in the file
 * still means something. O(n) per round.
 *
 *     MP_CHECK(mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, err));
 *     MP_CHECK(mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, NULL, err));
 */
#pragma once

#include "memplan/model.h"

typedef struct mp_simplify_report {
    int folded, identities, dead, merged, factored, views, patterns, apart, transpositions, biases;
} mp_simplify_report;

/* Simplifies in place; `report` may be NULL. `all` false (--no-simplify): only what the training graph cannot do without (known
 * values, dead operators, transposed parameters). MP_NOMEM. */
mp_status mp_model_simplify(mp_model *model, mp_rules rules, bool all, mp_simplify_report *report, mp_error *err);

/* Counts the products of a softmax and a matrix by what became of them. The names belong to the model. */
typedef struct mp_attention_report {
    int n, n_missed;    /* attention that became one operator; attention that stays written out */
    const char *missed; /* the first that stays written out: its product with V */
    const char *breaks; /* the operator (with its kind) or tensor (kind "") that prevented it */
    const char *kind;
    const char *why; /* the reason: "stands between the product and the softmax" */
} mp_attention_report;

/* Makes each attention that is written out into one operator that never holds the matrix of scores, in a model that has been
 * simplified. Under the executor's rules: for targets that have it. Under PyTorch's: where the file shows that it was PyTorch's
 * own attention, which runs as one without dropout and without a gradient of the mask; K and V are then read before they were
 * repeated for the heads that share them (attribute `groups`, which no backend runs). mask_gradients: the executor's operator
 * gives what is added to the scores, such as a learned bias of positions, its gradient; else such attention stays as it is.
 * `report` may be NULL. O(n). MP_NOMEM. */
mp_status mp_model_fuse_attention(mp_model *model, mp_rules rules, bool mask_gradients, mp_attention_report *report,
                                  mp_error *err);
