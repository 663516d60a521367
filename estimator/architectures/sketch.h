/* sketch.h - builds a model operator by operator, so that the code reads like the network.
 *
 * Tensors are indices. After a failure all later calls do nothing and return -1, and the first failure is kept. The caller
 * therefore checks mp_sketch.status once, at the end. An operator and its output share one name, MODULE/KIND:
 * "layers.3/attention/query/MatMul". A second operator of the same kind in a module has a number appended. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/architecture.h"

typedef struct mp_sketch {
    mp_model *model;
    const mp_architecture *shape;
    int64_t batch, sequence;
    char layer[40];   /* name of the current layer, such as "layers.3"; "": outside of layers */
    bool is_causal;   /* true: attention reads only positions up to the position of the query */
    int bias, memory; /* bias: index of the tensor that is added to attention scores. memory: index of the encoder output, the
                         input of cross-attention. -1: none */
    int64_t depth;    /* width of one attention head */
    mp_status status;
    mp_error *err;
    /* The following members are indices of tensors that all layers share; -1 if the family has no such tensor. */
    int mask, hidden; /* mask: true for scores that causal attention keeps. hidden: the value that replaces all other scores */
    /* constant scale of attention scores. If queries and keys are scaled instead of the scores, the square root of this
     * scale */
    int scale;
    int cosine, sine;    /* cosine and sine of rotary position angles */
    int ratio, training; /* constant inputs of dropout operators: the dropout rate, and whether the model is in training mode */
    int split_heads,
        split_pairs; /* shape constants that split queries (split_heads), and keys and values (split_pairs), into heads */
    /* shape constants of reshapes. repeat: copies keys and values for the heads that share them. join_groups: merges the copies
     * into one head dimension */
    int repeat, join_groups;
    int merge_heads; /* shape constant that joins the heads of the attention output */
} mp_sketch;

/* Add an input of the model. A parameter's name gets the current layer as prefix; a data input's name does not. */
int mp_sketch_parameter(mp_sketch *n, const char *name, int rank, const int64_t *dims);
int mp_sketch_data(mp_sketch *n, const char *name, mp_dtype dtype, int rank, const int64_t *dims);

/* Add a Constant operator. Its value is integers of a shape, a list of `count` integers, real numbers of a shape, or one
 * boolean. */
int mp_sketch_integers(mp_sketch *n, const char *module, int rank, const int64_t *dims, const int64_t *values);
int mp_sketch_list(mp_sketch *n, const char *module, int64_t count, const int64_t *values);
int mp_sketch_numbers(mp_sketch *n, const char *module, int rank, const int64_t *dims, const double *values);
int mp_sketch_truth(mp_sketch *n, const char *module, bool value);

/* Adds an operator with one output, and returns the output. An input index of -1 means an omitted input. */
int mp_sketch_put(mp_sketch *n, const char *module, const char *kind, const int *in, int n_in, const mp_attribute *attributes,
                  size_t n_attributes);
/* Adds an operator with several outputs. */
void mp_sketch_put_all(mp_sketch *n, const char *module, const char *kind, const int *in, int n_in,
                       const mp_attribute *attributes, size_t n_attributes, int *out, int n_out);
/* Add an elementwise operator with one or two operands. */
int mp_sketch_of(mp_sketch *n, const char *module, const char *kind, int x);
int mp_sketch_of_two(mp_sketch *n, const char *module, const char *kind, int x, int y);

int mp_sketch_transpose(mp_sketch *n, const char *module, int x, const int64_t *order, size_t rank);
/* Computes x times MODULE.weight (in, out), plus MODULE.bias if `biased`. */
int mp_sketch_linear(mp_sketch *n, const char *module, int x, int64_t in, int64_t out, bool biased);
/* Adds a normalization over the last dimension of x. The architecture's family determines its type. */
int mp_sketch_norm(mp_sketch *n, const char *module, int x);
/* Like mp_sketch_norm, for an input whose last dimension has this width. */
int mp_sketch_norm_of(mp_sketch *n, const char *module, int x, int64_t width);
/* Adds a dropout operator that reads x, if the architecture's dropout rate is positive. */
int mp_sketch_dropout(mp_sketch *n, const char *module, int x);
