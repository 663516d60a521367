/* onnx_weights.h - reads the values of an ONNX file's initializers and large constants on demand. */
#pragma once

#include <sys/types.h>

#include "estimator/model/model.h"
#include "memplan/memory.h"

typedef struct mp_onnx_weights mp_onnx_weights;

/* Maps the file and lists the tensors whose values its graph contains: initializers, and outputs of Constant nodes. External
 * values must be in the model's folder or in the folder `permitted` (NULL: none); this text must outlive *out. Release *out
 * with mp_onnx_weights_close (NULL is allowed). MP_IO, MP_PARSE, MP_NOMEM; err->input is the path. O(messages of the graph). */
mp_status mp_onnx_weights_open(const char *path, const char *permitted, mp_onnx_weights **out, mp_error *err);
void mp_onnx_weights_close(mp_onnx_weights *weights);
MP_OWNER(mp_onnx_weights_close, mp_onnx_weights)

/* True if the file has values for the tensor of this name. False if the initializer has no data, or its external file is
 * missing: models are also distributed without their weights. */
bool mp_onnx_weights_have(const mp_onnx_weights *weights, const char *name);

/* Returns the name of the external file of this tensor, as the model states it, if this file is missing. The text is valid
 * as long as `weights`. NULL: no file is missing, or memory is short. */
const char *mp_onnx_weights_missing(const mp_onnx_weights *weights, const char *name);

/* Writes the values of a tensor as n elements of type `dtype`, row-major. Floats of any width can be converted to FLOAT;
 * other types must match the file. MP_INVALID: the tensor has another type or number of elements. MP_PARSE: external data
 * exceed their file, or the file is not a regular file in the model's folder or the permitted folder (after links are
 * resolved). MP_IO. err->input is the model's path. */
mp_status mp_onnx_weights_read(const mp_onnx_weights *weights, const char *name, mp_dtype dtype, int64_t n, void *to,
                               mp_error *err);

/* Returns the name of a tensor whose external values are in the file with this device and inode number; NULL: there is no
 * such tensor. O(tensors). */
const char *mp_onnx_weights_in(const mp_onnx_weights *weights, dev_t device, ino_t inode);

/* Returns the prefix of names in a subgraph, under which their values are found: "NODE#then" for operator NODE and the
 * attribute that contains the subgraph. The text is in the pool. NULL: out of memory. */
const char *mp_onnx_subgraph_prefix(mp_pool *pool, const char *node, const char *attribute);
/* Returns the text PREFIX/NAME in the pool. The slash is added even if the name begins with a slash. NULL: out of memory. */
const char *mp_onnx_join(mp_pool *pool, const char *prefix, const char *name);
