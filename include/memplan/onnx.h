/* onnx.h - ONNX files into models, and back.
 *
 *     mp_model *model = NULL;
 *     const mp_dimension dims[] = {{"sequence", 128}};
 *     const mp_onnx_options options = {.batch = 8, .dimensions = dims, .n_dimensions = 1};
 *     MP_CHECK(mp_onnx_read("gpt.onnx", &options, &model, err));        // err->input, err->message: what is wrong, and where
 *     ...
 *     mp_model_free(model);
 */
#pragma once

#include "memplan/model.h"

typedef struct mp_dimension {
    const char *name; /* a symbolic dimension of the file */
    int64_t size;
} mp_dimension;

typedef struct mp_onnx_options {
    int64_t batch;                  /* size of the batch dimension; 0: not given */
    const mp_dimension *dimensions; /* --dim NAME=N */
    size_t n_dimensions;
    const char *const *data; /* --data NAME: exactly these inputs are the batch; none: a rule decides */
    size_t n_data;
    const char *const *train; /* --train PATTERN: floating-point state whose name matches is trained, whatever the rules say */
    size_t n_train;
    const char *external_folder; /* --allow-external DIR: weights may come from there, beside the model's folder; NULL: no */
} mp_onnx_options;

/* Reads, sorts and infers. The batch dimension is the first dimension of the data inputs, if it is symbolic; a symbol of that
 * name elsewhere is bound with it. Weight payloads are never unpacked; external files are never opened. On MP_OK *out is
 * released with mp_model_free. MP_PARSE: malformed (protobuf, structure, cycle, sizes), an unbound dimension (named);
 * MP_UNSUPPORTED: an operator or feature that is not supported (named with its node); MP_INVALID: an option names something
 * that is not in the file; MP_IO; MP_NOMEM. err->input is the path. O(size of the file without weights). */
mp_status mp_onnx_read(const char *path, const mp_onnx_options *options, mp_model **out, mp_error *err);

/* Writes a model whose operators are as they were read or built (not yet simplified, say one of architecture.h), without
 * weights: its parameters become inputs, as torch.onnx.export writes them with export_params=False. open_batch: the first
 * dimension of data and outputs is the symbol "batch". The file is replaced as a whole; "-" is standard output. MP_UNSUPPORTED:
 * what a file cannot hold (named); MP_IO, MP_NOMEM. O(operators). */
mp_status mp_onnx_write(const mp_model *model, bool open_batch, const char *path, mp_error *err);
