/* onnx_weights.h - reads the values of an ONNX file's initializers and large constants on demand. */
#pragma once

#include <sys/types.h>

#include "estimator/model/model.h"
#include "memplan/memory.h"

typedef struct mp_onnx_weights mp_onnx_weights;

/* Maps the file and lists the tensors whose values its graph contains: initializers, and outputs of Constant nodes.
 * `permitted`: one more folder for external values, besides the model's folder; NULL: none. The text must outlive *out. Release
 * with mp_onnx_weights_close (NULL is allowed). MP_IO, MP_PARSE, MP_NOMEM; err->input is the path. O(messages of the graph). */
mp_status mp_onnx_weights_open(const char *path, const char *permitted, mp_onnx_weights **out, mp_error *err);
void mp_onnx_weights_close(mp_onnx_weights *weights);
MP_OWNER(mp_onnx_weights_close, mp_onnx_weights)

/* True if the file has values for this name. False for an initializer without data, or with a missing external file, because
 * models are also distributed without their weights. */
bool mp_onnx_weights_have(const mp_onnx_weights *weights, const char *name);

/* Returns the missing external file of this tensor, as named in the model; valid as long as `weights`. NULL: none is missing,
 * or memory is short. */
const char *mp_onnx_weights_missing(const mp_onnx_weights *weights, const char *name);

/* Writes the values of a tensor as n elements of type `dtype`, row-major. Floats of any width can be converted to FLOAT; other
 * types must match the file. MP_INVALID: another type or number of elements. MP_PARSE: external data outside its file, outside
 * the model's folder and the permitted one (links resolved), or not in a regular file. MP_IO. err->input is the model's
 * path. */
mp_status mp_onnx_weights_read(const mp_onnx_weights *weights, const char *name, mp_dtype dtype, int64_t n, void *to,
                               mp_error *err);

/* Returns a tensor whose external values are in the file with this device and inode; NULL: none. O(tensors). */
const char *mp_onnx_weights_in(const mp_onnx_weights *weights, dev_t device, ino_t inode);

/* Returns the prefix of names in a subgraph, used to look up their values: "NODE#then", from the operator's name and the
 * attribute with the subgraph. In the pool. NULL: out of memory. */
const char *mp_onnx_subgraph_prefix(mp_pool *pool, const char *node, const char *attribute);
/* Returns PREFIX/NAME in the pool, even if the name begins with a slash. NULL: out of memory. */
const char *mp_onnx_join(mp_pool *pool, const char *prefix, const char *name);
