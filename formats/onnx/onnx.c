/* onnx.c - ONNX files into models, step by step: map the file, scan it into a skeleton without weights (onnx_scan.c), unpack
 * that under a byte budget, add initializers and inputs, add the nodes with functions inlined (onnx_nodes.c), look at what
 * the file says of its modules (onnx_scopes.c) and initializers (onnx_origins.c), choose roles (onnx_roles.c), close the open
 * dimensions (onnx_dimensions.c), sort, infer, look at masks (onnx_masks.c). Time and memory follow the skeleton, not the file.
 */
#include "memplan/onnx.h"

#include <string.h>

#include "estimator/model/order.h"
#include "estimator/simplify/infer.h"
#include "formats/base/file.h"
#include "formats/onnx/onnx_dimensions.h"
#include "formats/onnx/onnx_foreign.h"
#include "formats/onnx/onnx_functions.h"
#include "formats/onnx/onnx_masks.h"
#include "formats/onnx/onnx_nodes.h"
#include "formats/onnx/onnx_roles.h"
#include "formats/onnx/onnx_scopes.h"
#include "formats/onnx/onnx_tensor.h"
#include "formats/onnx/scan/onnx_budget.h"
#include "formats/onnx/scan/onnx_scan.h"
#include "onnx.pb-c.h"

static const int64_t FILE_LIMIT_BYTES = (int64_t)1 << 40;

static mp_status check_file(const Onnx__ModelProto *file, mp_error *err)
{
    if (!file->graph) return MP_FAIL(err, MP_PARSE, "this is no ONNX model: the file holds no graph");
    if (!file->graph->n_output) return MP_FAIL(err, MP_PARSE, "the graph declares no output");
    if (!file->n_opset_import && file->ir_version >= 3) return MP_FAIL(err, MP_PARSE, "the file imports no operator set");
    return mp_onnx_check_imports(file, err);
}

static mp_status add_outputs(mp_model *model, const Onnx__GraphProto *graph, mp_error *err)
{
    for (size_t k = 0; k < graph->n_output; k++) {
        const char *name = graph->output[k]->name;
        MP_ENSURE(name && *name, err, MP_PARSE, "the graph has an output without a name");
        int index = mp_model_find(model, name);
        MP_ENSURE(index >= 0, err, MP_PARSE, "output '%s' is given by no operator, input or initializer", name);
        MP_ENSURE(!model->tensors[index].is_output, err, MP_PARSE, "the graph has two outputs named '%s'", name);
        MP_CHECK(mp_model_declare_output(model, index, err));
    }
    return MP_OK;
}

/* The file's base name without its ending. */
static mp_status new_model(const char *path, mp_model **out, mp_error *err)
{
    mp_status st = MP_OK;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    if (!strcmp(path, "-")) base = "standard input", dot = NULL;
    size_t length = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    char *name = mp_alloc(length + 1, 1);
    MP_REQUIRE(name, err, MP_NOMEM, "no memory for a model");
    memcpy(name, base, length);
    MP_TRY(mp_model_new(name, path, out, err));
done:
    mp_free(name);
    return st;
}

static mp_status build(const char *path, const Onnx__ModelProto *file, mp_onnx_budget *budget, const mp_onnx_options *options,
                       mp_model **out, mp_error *err)
{
    mp_status st = MP_OK;
    mp_model *model = NULL;
    mp_onnx_origins origins = {0};
    const Onnx__GraphProto *graph = file->graph;
    MP_TRY(new_model(path, &model, err));
    if (options->external_folder) {
        model->external_folder = mp_pool_text(model->pool, options->external_folder, strlen(options->external_folder));
        MP_REQUIRE(model->external_folder, err, MP_NOMEM, "no memory for a model");
    }
    for (size_t k = 0; k < graph->n_initializer; k++) MP_TRY(mp_onnx_initializer(model, graph->initializer[k], -1, err));
    for (size_t k = 0; k < graph->n_sparse_initializer; k++)
        MP_TRY(mp_onnx_sparse_initializer(model, graph->sparse_initializer[k], err));
    MP_TRY(mp_onnx_inputs(model, graph, options, err));
    MP_TRY(mp_onnx_nodes(model, file, budget, err));
    MP_TRY(add_outputs(model, graph, err));
    MP_TRY(mp_onnx_scopes_read(model, graph, budget, err));
    MP_TRY(mp_onnx_origins_read(model, graph, budget, &origins, err));
    model->folded_norms = origins.folded_norms;
    MP_TRY(mp_onnx_roles(model, &origins, options, err));
    MP_TRY(mp_onnx_bind(model, graph, options, err));
    MP_TRY(mp_model_sort(model, err));
    MP_TRY(mp_model_infer(model, err));
    MP_TRY(mp_onnx_masks(model, path, err));
    *out = model;
    model = NULL;
done:
    mp_onnx_origins_free(&origins);
    mp_model_free(model);
    return st;
}

/* A file that is no ONNX model and is named like one of another kind gets a word on that. */
static mp_status scan(const char *path, const mp_file *file, mp_onnx_skeleton *skeleton, mp_error *err)
{
    const char *hint = mp_onnx_foreign_by_name(path);
    mp_status st = mp_onnx_scan(file->bytes, file->size, skeleton, err);
    return st == MP_PARSE && hint ? MP_FAIL(err, MP_PARSE, "this is no ONNX model; %s", hint) : st;
}

mp_status mp_onnx_read(const char *path, const mp_onnx_options *options, mp_model **out, mp_error *err)
{
    mp_status st = MP_OK;
    mp_file file = {0};
    mp_onnx_skeleton skeleton = {0};
    mp_onnx_budget budget;
    Onnx__ModelProto *proto = NULL;
    mp_model *model = NULL;
    MP_TRY(mp_file_open(path, FILE_LIMIT_BYTES, &file, err));
    MP_REQUIRE(file.size > 0, err, MP_PARSE, "the file is empty");
    MP_TRY(mp_onnx_refuse_foreign(file.bytes, file.size, err));
    MP_TRY(scan(path, &file, &skeleton, err));
    mp_file_close(&file);
    mp_onnx_budget_start(&budget, skeleton.size);
    proto = onnx__model_proto__unpack(&budget.allocator, skeleton.size, skeleton.bytes);
    if (!proto) MP_TRY(mp_onnx_budget_failure(&budget, "the model", err));
    mp_onnx_skeleton_free(&skeleton);
    MP_TRY(check_file(proto, err));
    MP_TRY(build(path, proto, &budget, options, &model, err));
    *out = model;
done:
    if (proto) onnx__model_proto__free_unpacked(proto, &budget.allocator);
    mp_onnx_skeleton_free(&skeleton);
    mp_file_close(&file);
    if (st != MP_OK) mp_error_locate(err, path, 0, 0);
    return st;
}
