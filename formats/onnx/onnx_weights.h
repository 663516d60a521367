/* onnx_weights.h - the values of an ONNX file's initializers and large constants, read when they are asked for. */
#pragma once

#include <sys/types.h>

#include "estimator/model/model.h"
#include "memplan/memory.h"

typedef struct mp_onnx_weights mp_onnx_weights;

/* `permitted`: one more folder that external values may come from, beside the model's; NULL: none. The text must outlive *out.
 * Maps the file and lists what its graph carries values for: initializers, and the tensors that Constant nodes give. Release
 * with mp_onnx_weights_close (NULL is fine). MP_IO, MP_PARSE, MP_NOMEM; err->input is the path. O(messages of the graph). */
mp_status mp_onnx_weights_open(const char *path, const char *permitted, mp_onnx_weights **out, mp_error *err);
void mp_onnx_weights_close(mp_onnx_weights *weights);
MP_OWNER(mp_onnx_weights_close, mp_onnx_weights)

/* True if the file has values for this name. An initializer that was emptied, or whose external file is not there, has none:
 * models are passed around without their weights. */
bool mp_onnx_weights_have(const mp_onnx_weights *weights, const char *name);

/* Returns the missing file that should hold the values of this name, as the model names it; valid as long as `weights`. NULL if
 * none is missing, or memory is short. */
const char *mp_onnx_weights_missing(const mp_onnx_weights *weights, const char *name);

/* Writes the values of a tensor as n elements of type `dtype`, row-major: floats of any width may be asked for as FLOAT,
 * everything else as what the file says. MP_INVALID: another type or another number of elements; MP_PARSE: external data that
 * lies outside its file or, links followed, outside the model's folder and the permitted one, or in what is no regular
 * file; MP_IO. err->input is the model's path. */
mp_status mp_onnx_weights_read(const mp_onnx_weights *weights, const char *name, mp_dtype dtype, int64_t n, void *to,
                               mp_error *err);

/* Returns a tensor whose values are in the file of this device and inode, beside the model; NULL if there is none. O(tensors).
 */
const char *mp_onnx_weights_in(const mp_onnx_weights *weights, dev_t device, ino_t inode);

/* Returns the prefix of names in a subgraph, by which their values are found: "NODE#then", of the operator's name and
 * the attribute that has the subgraph. In the pool; NULL if memory is short. */
const char *mp_onnx_subgraph_prefix(mp_pool *pool, const char *node, const char *attribute);
/* Returns PREFIX/NAME in the pool, also where the name begins with a slash itself; NULL if memory is short. */
const char *mp_onnx_join(mp_pool *pool, const char *prefix, const char *name);
