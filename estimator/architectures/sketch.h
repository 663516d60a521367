/* sketch.h - builds a model operator by operator, so that the code reads like the network.
 *
 * Tensors are indices. After a failure every function does nothing and returns -1, and the first failure is kept. The caller
 * therefore checks once, at the end. An operator and its output share one name, MODULE/KIND: "layers.3/attention/query/MatMul".
 * A second operator of the same kind in a module has a number appended. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/architecture.h"

typedef struct mp_sketch {
    mp_model *model;
    const mp_architecture *shape;
    int64_t batch, sequence;
    char layer[40];   /* name of the current layer, such as "layers.3"; "": outside of layers */
    bool is_causal;   /* true: attention reads only positions up to the query's own */
    int bias, memory; /* bias: tensor that is added to attention scores; memory: encoder output, the input of cross-attention;
                         -1: none */
    int64_t depth;    /* width of one attention head */
    mp_status status;
    mp_error *err;
    /* The indices of tensors that all layers share; -1 if the family has no such tensor. */
    int mask, hidden; /* mask: true for scores that causal attention keeps; hidden: the value that replaces the other scores */
    int scale; /* scale of attention scores: a constant tensor. For queries and keys it holds the square root of the scale */
    int cosine, sine;             /* cosine and sine of rotary position angles */
    int ratio, training;          /* constant inputs of dropout operators: the rate, and the training mode */
    int split_heads, split_pairs; /* shapes that split queries, and keys and values, into heads */
    int repeat, join_groups; /* shapes for repeating keys and values for heads that share them, and for joining the result */
    int merge_heads;         /* shape of the attention output */
} mp_sketch;

/* Adds an input or a parameter of the model: a parameter, whose name gets the layer as prefix, or data. */
int mp_sketch_parameter(mp_sketch *n, const char *name, int rank, const int64_t *dims);
int mp_sketch_data(mp_sketch *n, const char *name, mp_dtype dtype, int rank, const int64_t *dims);

/* Adds a Constant operator: integers of a shape, a list of `count` integers, real numbers of a shape, or one boolean. */
int mp_sketch_integers(mp_sketch *n, const char *module, int rank, const int64_t *dims, const int64_t *values);
int mp_sketch_list(mp_sketch *n, const char *module, int64_t count, const int64_t *values);
int mp_sketch_numbers(mp_sketch *n, const char *module, int rank, const int64_t *dims, const double *values);
int mp_sketch_truth(mp_sketch *n, const char *module, bool value);

/* Adds an operator with one output. An input of -1 is omitted. */
int mp_sketch_put(mp_sketch *n, const char *module, const char *kind, const int *in, int n_in, const mp_attribute *attributes,
                  size_t n_attributes);
/* Adds an operator with several outputs. */
void mp_sketch_put_all(mp_sketch *n, const char *module, const char *kind, const int *in, int n_in,
                       const mp_attribute *attributes, size_t n_attributes, int *out, int n_out);
/* Adds an elementwise operator with one or two operands. */
int mp_sketch_of(mp_sketch *n, const char *module, const char *kind, int x);
int mp_sketch_of_two(mp_sketch *n, const char *module, const char *kind, int x, int y);

int mp_sketch_transpose(mp_sketch *n, const char *module, int x, const int64_t *order, size_t rank);
/* Computes x times MODULE.weight (in, out), plus MODULE.bias if `biased`. */
int mp_sketch_linear(mp_sketch *n, const char *module, int x, int64_t in, int64_t out, bool biased);
/* Adds the normalization of the architecture's family over the last dimension of x. */
int mp_sketch_norm(mp_sketch *n, const char *module, int x);
/* Adds a dropout after x, if the architecture's dropout rate is positive. */
int mp_sketch_dropout(mp_sketch *n, const char *module, int x);
