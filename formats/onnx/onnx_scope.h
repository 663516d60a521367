/* onnx_scope.h - where the names of a node are looked up: the graph, a call of a function, or a subgraph. Private to formats/.
 *
 * A subgraph sees the names around it, and what it defines itself hides them. A function sees its own only.
 */
#pragma once

#include "estimator/base/names.h"
#include "formats/onnx/onnx_functions.h"

enum { MP_ONNX_CALL_DEPTH_MAX = 64 }; /* calls and subgraphs within each other */

typedef struct mp_onnx_binding {
    const char *name;
    const Onnx__AttributeProto *attribute;
} mp_onnx_binding;

typedef struct mp_onnx_scope {
    const struct mp_onnx_scope *outer;   /* in which the call or the control operator stands; NULL: this is the graph */
    const struct mp_onnx_scope *visible; /* of a subgraph: where names are looked up that it does not define */
    int depth, region;
    const mp_onnx_function *function; /* that is being called, also around a subgraph; NULL: none */
    const char *prefix;               /* of new names; NULL: the graph's are as they are */
    mp_names *tensors; /* name -> the model's tensor, MP_ONNX_LEFT_OUT: left out by the call; NULL: the model's own names */
    const mp_onnx_binding *attributes; /* of the call */
    size_t n_attributes;
} mp_onnx_scope;

enum { MP_ONNX_LEFT_OUT = -2 };

/* What reading the nodes of one file keeps. */
typedef struct mp_onnx_builder {
    mp_model *model;
    /* Adds nodes as operators of the scope's region. */
    mp_status (*add_nodes)(struct mp_onnx_builder *b, const mp_onnx_scope *s, Onnx__NodeProto *const *nodes, size_t n);
    const Onnx__ModelProto *file;
    mp_onnx_functions functions;
    int64_t work, n_calls; /* what functions and subgraphs have added so far */
    mp_error *err;
} mp_onnx_builder;

/* "" for NULL. */
const char *mp_onnx_text(const char *s);
/* PREFIX/NAME, also where the name begins with a slash itself. In the pool; NULL: out of memory. */
const char *mp_onnx_join(mp_pool *pool, const char *prefix, const char *name);
/* Counts work that a small file can multiply. MP_PARSE: too much. */
mp_status mp_onnx_charge(mp_onnx_builder *b, int64_t work);

/* The model's tensor for a name in this scope; a new one for a name not seen yet. -1: left out. MP_PARSE, MP_NOMEM. */
mp_status mp_onnx_find_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index);
/* The same for a list; *out is released with mp_free. */
mp_status mp_onnx_find_tensors(mp_onnx_builder *b, const mp_onnx_scope *s, char *const *names, size_t n, int **out);
/* A new tensor PREFIX/NAME that this scope knows as `name`. */
mp_status mp_onnx_define_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index);

/* Refuses tensor `index`, defined as `name` in a subgraph, if it got another name there because that one was taken, and its
 * values stay in the file, where they are found by name. MP_UNSUPPORTED, MP_NOMEM. */
mp_status mp_onnx_check_values(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int index);

/* The attribute of this name, NULL: none. */
const Onnx__AttributeProto *mp_onnx_find_binding(const mp_onnx_binding *list, size_t n, const char *name);
