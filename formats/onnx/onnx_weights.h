/* onnx_weights.h - the values of an ONNX file's initializers and large constants, read when they are asked for. */
#ifndef FORMATS_ONNX_WEIGHTS_H
#define FORMATS_ONNX_WEIGHTS_H

#include "estimator/model/model.h"

typedef struct mp_onnx_weights mp_onnx_weights;

/* Maps the file and lists what its graph carries values for: initializers, and the tensors that Constant nodes give. Release
 * with mp_onnx_weights_close (NULL is fine). MP_IO, MP_PARSE, MP_NOMEM; err->input is the path. O(messages of the graph). */
mp_status mp_onnx_weights_open(const char *path, mp_onnx_weights **out, mp_error *err);
void mp_onnx_weights_close(mp_onnx_weights *weights);

/* Whether the file has values for this name. An initializer that was emptied, or whose external file is not there, has none:
 * models are passed around without their weights. */
bool mp_onnx_weights_have(const mp_onnx_weights *weights, const char *name);

/* Writes the values of a tensor as n elements of type `dtype`, row-major: floats of any width may be asked for as FLOAT,
 * everything else as what the file says. MP_INVALID: another type or another number of elements; MP_PARSE: external data that
 * lies outside its file, or outside the model's folder; MP_IO. */
mp_status mp_onnx_weights_read(const mp_onnx_weights *weights, const char *name, mp_dtype dtype, int64_t n, void *to,
                               mp_error *err);

#endif
