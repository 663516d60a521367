/* dropping_network.c - one layer of attention in exported form. */
#include "tests/cases/dropping_network.h"

#include <math.h>
#include <stdio.h>

static void scalar(onnx_builder *b, const char *name, float value)
{
    Onnx__TensorProto *t = onnx_initializer(b, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, "");
    float *data = mp_pool_alloc(b->pool, 1, sizeof *data);
    *data = value;
    onnx_raw(t, data, sizeof *data);
}

/* Fills weights with numbers around zero, of the size of typical initial weights. */
static void weights(onnx_builder *b, const char *name, int64_t depth)
{
    char dims[32];
    const size_t n = (size_t)(depth * depth);
    float *data = mp_pool_alloc(b->pool, n, sizeof *data);
    snprintf(dims, sizeof dims, "%lld,%lld", (long long)depth, (long long)depth);
    for (size_t k = 0; k < n; k++) data[k] = (float)(sin((double)(7 * k + (size_t)name[0])) / sqrt((double)depth));
    onnx_raw(onnx_initializer(b, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims), data, n * sizeof *data);
}

const char *dropping_network(onnx_builder *b, int64_t depth)
{
    static const bool yes = true;
    static int64_t order[] = {0, 1, 3, 2};
    char dims[32];
    snprintf(dims, sizeof dims, "2,4,6,%lld", (long long)depth);
    onnx_start(b);
    onnx_input(b, "input", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims);
    for (const char *name = "q\0k\0v\0o\0"; *name; name += 2) weights(b, name, depth);
    scalar(b, "scale", 1 / sqrtf((float)depth));
    scalar(b, "inside", 0.3f);
    scalar(b, "behind", 0.2f);
    onnx_raw(onnx_initializer(b, "training", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, ""), &yes, 1);
    onnx_node(b, "MatMul", "queries", "input,q", "Q");
    onnx_node(b, "MatMul", "keys", "input,k", "K");
    onnx_node(b, "MatMul", "values", "input,v", "V");
    Onnx__AttributeProto *perm =
        onnx_attribute(b, onnx_node(b, "Transpose", "turn", "K", "Kt"), "perm", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    perm->n_ints = 4;
    perm->ints = order;
    onnx_node(b, "MatMul", "scores", "Q,Kt", "S");
    onnx_node(b, "Mul", "scaled", "S,scale", "T");
    onnx_int(b, onnx_node(b, "Softmax", "softmax", "T", "P"), "axis", -1);
    onnx_node(b, "Dropout", "drop_inside", "P,inside,training", "D");
    onnx_node(b, "MatMul", "mixed", "D,V", "Y");
    onnx_node(b, "MatMul", "projected", "Y,o", "Z");
    onnx_node(b, "Dropout", "drop_behind", "Z,behind,training", "R");
    onnx_node(b, "Add", "residual", "input,R", "output");
    onnx_output(b, "output", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, dims);
    return onnx_save(b);
}
