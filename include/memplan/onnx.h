/* onnx.h - reads ONNX files as models, and writes models as ONNX files.
 *
 *     // given: mp_error *err
 *     mp_model *model = NULL;
 *     const mp_dimension dims[] = {{"sequence", 128}};
 *     const mp_onnx_options options = {.batch = 8, .dimensions = dims, .n_dimensions = 1};
 *     MP_CHECK(mp_onnx_read("gpt.onnx", &options, &model, err));        // err->input: the file; err->message: the failure
 *     mp_model_free(model);
 */
#pragma once

#include "memplan/model.h"

typedef struct mp_dimension {
    const char *name; /* a symbolic dimension of the file, and its size */
    int64_t size;
} mp_dimension;

typedef struct mp_onnx_options {
    int64_t batch;                  /* size of the batch dimension; 0: the file determines it */
    const mp_dimension *dimensions; /* --dim NAME=N */
    size_t n_dimensions;
    const char *const *data; /* --data NAME: exactly these inputs depend on the batch; empty: a rule chooses the inputs that
                                depend on the batch */
    size_t n_data;
    const char *const *train; /* --train PATTERN: floating-point parameters and buffers with a matching name are trained,
                                 whatever the rules say */
    size_t n_train;
    const char *external_folder; /* --allow-external DIR: weights may be stored in this folder, not only in the model's folder;
                                    NULL: no other folder */
} mp_onnx_options;

/* Reads a model, sorts its operators and infers shapes. If the first dimension of the data inputs is symbolic, it is the
 * batch dimension. Other dimensions with the same symbol receive the same size. Weight values are not decoded, and external
 * weight files are not opened. On MP_OK release *out with mp_model_free. MP_PARSE: malformed (protobuf, structure, cycle,
 * sizes), or a dimension without a size, which the message names. MP_UNSUPPORTED: an unsupported operator or feature, named
 * with its node. MP_INVALID: an option names something that is not in the file. MP_IO, MP_NOMEM. err->input is the path of
 * the file. O(size of the file without weights). */
mp_status mp_onnx_read(const char *path, const mp_onnx_options *options, mp_model **out, mp_error *err);

/* Writes a model to an ONNX file, without weights. Its operators must be as read or built, not simplified (for example a
 * model of architecture.h). Parameters become inputs, as torch.onnx.export writes them with export_params=False. With
 * open_batch, the first dimension of data inputs and outputs is written as the symbol "batch". The file is replaced
 * atomically; "-" is standard output. MP_UNSUPPORTED: an ONNX file cannot represent the model; the message names the reason.
 * MP_IO, MP_NOMEM. O(operators). */
mp_status mp_onnx_write(const mp_model *model, bool open_batch, const char *path, mp_error *err);
