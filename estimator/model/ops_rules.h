/* ops_rules.h - the rule functions that the rows of ops.def name. Contracts stand with the rule types in ops.h. */
#ifndef ESTIMATOR_OPS_RULES_H
#define ESTIMATOR_OPS_RULES_H

#include "estimator/model/ops.h"

/* shapes_*.c */
mp_status mp_shape_arg_reduce(mp_infer *c);
mp_status mp_shape_attention(mp_infer *c);
mp_status mp_shape_batch_normalization(mp_infer *c);
mp_status mp_shape_broadcast(mp_infer *c);
mp_status mp_shape_cast(mp_infer *c);
mp_status mp_shape_cast_like(mp_infer *c);
mp_status mp_shape_compare(mp_infer *c);
mp_status mp_shape_compress(mp_infer *c);
mp_status mp_shape_concat(mp_infer *c);
mp_status mp_shape_constant(mp_infer *c);
mp_status mp_shape_constant_of_shape(mp_infer *c);
mp_status mp_shape_conv(mp_infer *c);
mp_status mp_shape_conv_transpose(mp_infer *c);
mp_status mp_shape_depth_to_space(mp_infer *c);
mp_status mp_shape_det(mp_infer *c);
mp_status mp_shape_dropout(mp_infer *c);
mp_status mp_shape_einsum(mp_infer *c);
mp_status mp_shape_expand(mp_infer *c);
mp_status mp_shape_eye_like(mp_infer *c);
mp_status mp_shape_flatten(mp_infer *c);
mp_status mp_shape_gather(mp_infer *c);
mp_status mp_shape_gather_elements(mp_infer *c);
mp_status mp_shape_gather_nd(mp_infer *c);
mp_status mp_shape_gemm(mp_infer *c);
mp_status mp_shape_global_pool(mp_infer *c);
mp_status mp_shape_grid_sample(mp_infer *c);
mp_status mp_shape_gru(mp_infer *c);
mp_status mp_shape_layer_normalization(mp_infer *c);
mp_status mp_shape_loss(mp_infer *c);
mp_status mp_shape_lstm(mp_infer *c);
mp_status mp_shape_matmul(mp_infer *c);
mp_status mp_shape_max_roi_pool(mp_infer *c);
mp_status mp_shape_max_unpool(mp_infer *c);
mp_status mp_shape_multinomial(mp_infer *c);
mp_status mp_shape_non_zero(mp_infer *c);
mp_status mp_shape_one_hot(mp_infer *c);
mp_status mp_shape_pad(mp_infer *c);
mp_status mp_shape_pool(mp_infer *c);
mp_status mp_shape_predicate(mp_infer *c);
mp_status mp_shape_random(mp_infer *c);
mp_status mp_shape_random_like(mp_infer *c);
mp_status mp_shape_range(mp_infer *c);
mp_status mp_shape_reduce(mp_infer *c);
mp_status mp_shape_reshape(mp_infer *c);
mp_status mp_shape_resize(mp_infer *c);
mp_status mp_shape_rnn(mp_infer *c);
mp_status mp_shape_roi_align(mp_infer *c);
mp_status mp_shape_same(mp_infer *c);
mp_status mp_shape_shape(mp_infer *c);
mp_status mp_shape_size(mp_infer *c);
mp_status mp_shape_slice(mp_infer *c);
mp_status mp_shape_space_to_depth(mp_infer *c);
mp_status mp_shape_split(mp_infer *c);
mp_status mp_shape_squared_error(mp_infer *c);
mp_status mp_shape_squeeze(mp_infer *c);
mp_status mp_shape_tile(mp_infer *c);
mp_status mp_shape_top_k(mp_infer *c);
mp_status mp_shape_transpose(mp_infer *c);
mp_status mp_shape_unique(mp_infer *c);
mp_status mp_shape_unsqueeze(mp_infer *c);
mp_status mp_shape_where(mp_infer *c);
mp_status mp_shape_window(mp_infer *c);

/* fold_*.c */
mp_status mp_fold_binary(mp_infer *c);
mp_status mp_fold_cast(mp_infer *c);
mp_status mp_fold_compress(mp_infer *c);
mp_status mp_fold_concat(mp_infer *c);
mp_status mp_fold_constant(mp_infer *c);
mp_status mp_fold_constant_of_shape(mp_infer *c);
mp_status mp_fold_copy(mp_infer *c);
mp_status mp_fold_cumsum(mp_infer *c);
mp_status mp_fold_expand(mp_infer *c);
mp_status mp_fold_eye_like(mp_infer *c);
mp_status mp_fold_gather(mp_infer *c);
mp_status mp_fold_gather_elements(mp_infer *c);
mp_status mp_fold_gather_nd(mp_infer *c);
mp_status mp_fold_non_zero(mp_infer *c);
mp_status mp_fold_one_hot(mp_infer *c);
mp_status mp_fold_range(mp_infer *c);
mp_status mp_fold_reduce(mp_infer *c);
mp_status mp_fold_scatter_elements(mp_infer *c);
mp_status mp_fold_scatter_nd(mp_infer *c);
mp_status mp_fold_shape(mp_infer *c);
mp_status mp_fold_slice(mp_infer *c);
mp_status mp_fold_split(mp_infer *c);
mp_status mp_fold_tile(mp_infer *c);
mp_status mp_fold_transpose(mp_infer *c);
mp_status mp_fold_trilu(mp_infer *c);
mp_status mp_fold_unary(mp_infer *c);
mp_status mp_fold_variadic(mp_infer *c);
mp_status mp_fold_where(mp_infer *c);

/* flops.c */
double mp_flops_attention(const mp_model *model, const mp_operator *op);
double mp_flops_conv(const mp_model *model, const mp_operator *op);
double mp_flops_conv_transpose(const mp_model *model, const mp_operator *op);
double mp_flops_einsum(const mp_model *model, const mp_operator *op);
double mp_flops_gemm(const mp_model *model, const mp_operator *op);
double mp_flops_matmul(const mp_model *model, const mp_operator *op);
double mp_flops_recurrent(const mp_model *model, const mp_operator *op);

/* extras.c */
int mp_extras_attention(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_batch_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_cross_entropy(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_dropout(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_group_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_layer_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_lrn(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_max_pool(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_recurrent(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);
int mp_extras_rms_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);

#endif
