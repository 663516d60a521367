/* onnx_origins.h - what a file says itself of where its initializers come from. Private to formats/. */
#pragma once

#include "estimator/model/model.h"
#include "formats/onnx/scan/onnx_budget.h"
#include "onnx.pb-c.h"

typedef enum mp_onnx_origin {
    MP_ONNX_ORIGIN_UNSAID,
    MP_ONNX_ORIGIN_PARAMETER,
    MP_ONNX_ORIGIN_OF_PARAMETERS, /* the exporter computed it from parameters: a transpose, the rows of an embedding */
    MP_ONNX_ORIGIN_BUFFER,
    MP_ONNX_ORIGIN_CONSTANT,
    MP_ONNX_ORIGIN_OF_CONSTANTS /* the exporter computed it, and from no parameter: a mask, zeros, sines */
} mp_onnx_origin;

typedef struct mp_onnx_origins {
    mp_onnx_origin *of; /* per tensor of the model */
    int folded_norms;   /* batch normalizations of the exported programme that the graph has no operator for */
} mp_onnx_origins;

/* Reads what PyTorch's newer exporter leaves in a graph's metadata: the inputs of the exported programme by kind
 * (`pkg.torch.export.ExportedProgram.graph_signature`), the kind of an initializer, and the names from which constant folding
 * made it (`pkg.onnxscript.optimizer.folded_from`). A file without metadata leaves all UNSAID; folded normalizations are told
 * there by the names that exporters give to what they have folded. MP_PARSE: metadata that is
 * malformed; MP_NOMEM. On MP_OK released with mp_onnx_origins_free. O(metadata). */
mp_status mp_onnx_origins_read(const mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget,
                               mp_onnx_origins *out, mp_error *err);
void mp_onnx_origins_free(mp_onnx_origins *origins); /* zeroed is fine */
