/* sketch.h - a model written operator by operator, for builders that read like the network.
 *
 * Tensors are indices. The first failure is kept, and every function after it does nothing and returns -1: a builder is checked
 * once, at its end. An operator and its output have one name, MODULE/KIND: "layers.3/attention/query/MatMul"; a second one
 * of a module gets a number.
 */
#pragma once

#include "estimator/model/model.h"
#include "memplan/architecture.h"

typedef struct mp_sketch {
    mp_model *model;
    const mp_architecture *shape;
    int64_t batch, sequence;
    char layer[40];   /* the module that everything is in: "layers.3"; "": none */
    bool is_causal;   /* attention sees what stands before alone */
    int bias, memory; /* added to scores; what a second attention reads; -1: there is none */
    int64_t depth;    /* of a head */
    mp_status status;
    mp_error *err;
    /* What all layers share; -1 where the family has none. */
    int mask, hidden;             /* which scores are kept where attention is causal; what others become */
    int scale;                    /* of scores, or its root for queries and keys */
    int cosine, sine;             /* of the angles of rotary positions */
    int ratio, training;          /* of dropout */
    int split_heads, split_pairs; /* shapes of queries, and of keys and values, by heads */
    int repeat, join_groups;      /* shapes in which keys and values are repeated, and then joined, for heads that share them */
    int merge_heads;              /* the shape of what attention puts out */
} mp_sketch;

/* A tensor from outside: a parameter, whose name gets the layer in front, or data. */
int mp_sketch_parameter(mp_sketch *n, const char *name, int rank, const int64_t *dims);
int mp_sketch_data(mp_sketch *n, const char *name, mp_dtype dtype, int rank, const int64_t *dims);

/* A Constant operator: integers of a shape (rank 1: of `count`), one number, one truth. */
int mp_sketch_integers(mp_sketch *n, const char *module, int rank, const int64_t *dims, const int64_t *values);
int mp_sketch_list(mp_sketch *n, const char *module, int64_t count, const int64_t *values);
int mp_sketch_numbers(mp_sketch *n, const char *module, int rank, const int64_t *dims, const double *values);
int mp_sketch_truth(mp_sketch *n, const char *module, bool value);

/* An operator with one output; -1 in `in` leaves an input out. */
int mp_sketch_put(mp_sketch *n, const char *module, const char *kind, const int *in, int n_in, const mp_attribute *attributes,
                  size_t n_attributes);
/* An operator with several. */
void mp_sketch_put_all(mp_sketch *n, const char *module, const char *kind, const int *in, int n_in,
                       const mp_attribute *attributes, size_t n_attributes, int *out, int n_out);
/* Elementwise, of one operand or two. */
int mp_sketch_of(mp_sketch *n, const char *module, const char *kind, int x);
int mp_sketch_of_two(mp_sketch *n, const char *module, const char *kind, int x, int y);

int mp_sketch_transpose(mp_sketch *n, const char *module, int x, const int64_t *order, size_t rank);
/* x times MODULE.weight (in, out), plus MODULE.bias if there are biases. */
int mp_sketch_linear(mp_sketch *n, const char *module, int x, int64_t in, int64_t out, bool biased);
/* Normalization over features, of the family's kind. */
int mp_sketch_norm(mp_sketch *n, const char *module, int x);
/* Dropout, if the shape has any. */
int mp_sketch_dropout(mp_sketch *n, const char *module, int x);
