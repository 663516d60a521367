/* ops_rules.h - declares the rules that the rows of ops.def name. The rule types in ops.h define their contracts. */
#pragma once

#include "estimator/model/ops.h"

/* Every row of ops.def declares its shape rule and its fold rule. */
#define OP(op, of, version, in, out, shapes, folds, ...) \
    mp_status shapes(mp_infer *c);                       \
    bool folds(const struct mp_fold *f);
#include "estimator/model/ops.def"
#undef OP

/* Rules for FLOPs and for saved tensors of operators (costs.c). */
double mp_flops_attention(const mp_model *model, const mp_operator *op);
double mp_flops_conv(const mp_model *model, const mp_operator *op);
double mp_flops_einsum(const mp_model *model, const mp_operator *op);
double mp_flops_matmul(const mp_model *model, const mp_operator *op);
double mp_flops_recurrent(const mp_model *model, const mp_operator *op);
int mp_extras_added_relu(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_attention(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_indices(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_batch_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_cross_entropy(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_dropout(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_group_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_layer_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_lrn(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_max_pool(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_recurrent(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_rms_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);

/* Splitting over ranks (factors.c) */
bool mp_factors_all_to_all(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_attention(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_broadcast(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_channels(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_classes(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_conv(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_elements(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_gather(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_images(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_lines(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_matmul(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_parts(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_reduce(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
bool mp_factors_transpose(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);
