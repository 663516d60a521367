/* onnx.c - reads ONNX files as models. The steps:
 *
 * - map the file and scan it into a skeleton without weights (onnx_scan.c)
 * - unpack the skeleton under a byte budget
 * - add initializers and inputs, then the nodes with functions inlined (onnx_nodes.c)
 * - separate merged tensors (onnx_merged.c)
 * - read the metadata on modules (onnx_metadata.c) and initializers (onnx_origins.c)
 * - choose roles (onnx_roles.c) and bind open dimensions (onnx_dimensions.c)
 * - sort the operators, infer shapes, and recognise masks (onnx_generated.c)
 *
 * Time and memory depend on the size of the skeleton, not of the file. */
#include "memplan/onnx.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "estimator/model/order.h"
#include "estimator/simplify/infer.h"
#include "formats/base/file.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/onnx_tensor.h"
#include "formats/onnx/scan/onnx_scan.h"
#include "onnx.pb-c.h"

/* Other types of files that users may pass, with advice on how to make an ONNX file from each.
 *
 * An ONNX file is a protobuf message whose fields have the numbers 1 to 25. It starts with the tag of one of these fields.
 * None of the following signatures starts with such a tag. Other protobuf files (TensorFlow's graphs) are recognised by the
 * name of the file, after an attempt to read them has failed. */
#define FROM_PYTORCH "export the network with torch.onnx.export (examples/export_pytorch.py does it)"
#define FROM_TENSORFLOW "convert it with tf2onnx: python -m tf2onnx.convert --help"

static const struct {
    size_t at;
    const char *bytes;
    size_t n;
    const char *sentence;
} kinds[] = {
    /* the signature of a ZIP file, which torch.save writes since PyTorch 1.6, and TorchScript and torch.export write too */
    {0, "PK\3\4", 4, "this is a ZIP, as PyTorch's checkpoints (.pt, .pth) are, and not an ONNX file: " FROM_PYTORCH},
    {0, "\x80\2\x8a\nl\xfc\x9c", 7, "this is a PyTorch checkpoint: weights, without the network: " FROM_PYTORCH},
    {0, "\x80\2", 2, "this is a pickle of Python, as older PyTorch checkpoints are, and not an ONNX file: " FROM_PYTORCH},
    {0, "\x80\3", 2, "this is a pickle of Python, and not an ONNX file: " FROM_PYTORCH},
    {0, "\x80\4", 2, "this is a pickle of Python, and not an ONNX file: " FROM_PYTORCH},
    {0, "\x80\5", 2, "this is a pickle of Python, and not an ONNX file: " FROM_PYTORCH},
    {4, "TFL3", 4,
     "this is a TensorFlow Lite model, which is for inference: convert the model that it was made from with tf2onnx"},
    {4, "ORTM", 4, "this is a model in ONNX Runtime's own format (.ort): use the .onnx file that it was made from"},
    {0, "\x89HDF\r\n\x1a\n", 8, "this is an HDF5 file, as Keras writes it: " FROM_TENSORFLOW},
    {0, "GGUF", 4, "this is a GGUF file, with weights for inference: export the network that they belong to"},
    {0, "\x93NUMPY", 6, "this is an array of NumPy, not a model; data for training goes to --data NAME=FILE"},
    {0, "<?xml", 5, "this is XML, as OpenVINO's models are, and not an ONNX file: use the file that it was made from"},
    {0, "\x1f\x8b", 2, "this file is compressed: unpack it with gunzip"},
};

/* True if the bytes begin with a length of eight bytes and a JSON object of this length (a safetensors file). */
static bool is_safetensors(const uint8_t *bytes, size_t size)
{
    uint64_t length = 0;
    if (size < 10) return false;
    for (int k = 7; k >= 0; k--) length = length << 8 | bytes[k];
    return length >= 2 && length <= size - 8 && bytes[8] == '{' && (bytes[9] == '"' || bytes[9] == ' ' || bytes[9] == '}');
}

/* Fails for a file of a known type other than ONNX; the message says how to make an ONNX file from it. An ONNX file always
 * passes. */
static mp_status refuse_foreign(const uint8_t *bytes, size_t size, mp_error *err)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (size >= kinds[k].at + kinds[k].n && !memcmp(bytes + kinds[k].at, kinds[k].bytes, kinds[k].n))
            return MP_FAIL(err, MP_UNSUPPORTED, "%s", kinds[k].sentence);
    if (is_safetensors(bytes, size))
        return MP_FAIL(err, MP_UNSUPPORTED, "these are weights without the network (safetensors): " FROM_PYTORCH);
    return MP_OK;
}

/* Returns advice, based on the name of a file that cannot be read as ONNX; NULL: there is no advice. */
static const char *foreign_by_name(const char *path)
{
    static const struct {
        const char *ending, *sentence;
    } names[] = {{".pb", "if it is a graph of TensorFlow: " FROM_TENSORFLOW},
                 {".pbtxt", "if it is a graph of TensorFlow: " FROM_TENSORFLOW},
                 {".pt", FROM_PYTORCH},
                 {".pth", FROM_PYTORCH},
                 {".py", "a network in Python is exported first: " FROM_PYTORCH}};
    const char *dot = strrchr(path, '.');
    for (size_t k = 0; dot && k < sizeof names / sizeof *names; k++)
        if (!strcasecmp(dot, names[k].ending)) return names[k].sentence;
    return NULL;
}

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
        MP_ENSURE(index >= 0, err, MP_PARSE, "output '%s' is not produced by any operator, input or initializer", name);
        MP_ENSURE(!model->tensors[index].is_output, err, MP_PARSE, "the graph has two outputs named '%s'", name);
        MP_CHECK(mp_model_declare_output(model, index, err));
    }
    return MP_OK;
}

/* Creates an empty model whose name is the name of the file, without folder and ending. */
static mp_status new_model(const char *path, mp_model **out, mp_error *err)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    if (!strcmp(path, "-")) base = "standard input", dot = NULL;
    size_t length = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    MP_OWNED char *name = mp_alloc(length + 1, 1);
    MP_ENSURE(name, err, MP_NOMEM, "no memory for a model");
    memcpy(name, base, length);
    return mp_model_new(name, path, out, err);
}

static mp_status build(const char *path, const Onnx__ModelProto *file, mp_onnx_budget *budget, const mp_onnx_options *options,
                       mp_model **out, mp_error *err)
{
    MP_OWNED_BY(mp_model_free) mp_model *model = NULL;
    MP_CLEARED_BY(mp_onnx_origins_free) mp_onnx_origins origins = {0};
    const Onnx__GraphProto *graph = file->graph;
    MP_CHECK(new_model(path, &model, err));
    if (options->external_folder) {
        model->external_folder = mp_pool_text(model->pool, options->external_folder, strlen(options->external_folder));
        MP_ENSURE(model->external_folder, err, MP_NOMEM, "no memory for a model");
    }
    for (size_t k = 0; k < graph->n_initializer; k++) MP_CHECK(mp_onnx_initializer(model, graph->initializer[k], -1, err));
    for (size_t k = 0; k < graph->n_sparse_initializer; k++)
        MP_CHECK(mp_onnx_sparse_initializer(model, graph->sparse_initializer[k], err));
    MP_CHECK(mp_onnx_inputs(model, graph, options, err));
    MP_CHECK(mp_onnx_nodes(model, file, budget, err));
    MP_CHECK(add_outputs(model, graph, err));
    MP_CHECK(mp_onnx_separate(model, err));
    MP_CHECK(mp_onnx_scopes_read(model, graph, budget, err));
    MP_CHECK(mp_onnx_origins_read(model, graph, budget, &origins, err));
    model->folded_norms = origins.folded_norms;
    model->is_foreign = !file->producer_name || strcmp(file->producer_name, "memplan");
    model->is_of_newer_exporter = origins.is_newer;
    MP_CHECK(mp_onnx_roles(model, &origins, options, err));
    MP_CHECK(mp_onnx_separate_statistics(model, err));
    MP_CHECK(mp_onnx_bind(model, graph, options, err));
    MP_CHECK(mp_model_sort(model, err));
    MP_CHECK(mp_model_infer(model, err));
    MP_CHECK(mp_onnx_masks(model, path, err));
    *out = model;
    model = NULL;
    return MP_OK;
}

/* Scans an ONNX file. If the file is not an ONNX model and its name suggests another type, the error message also contains
 * advice. */
static mp_status scan(const char *path, const mp_file *file, mp_onnx_skeleton *skeleton, mp_error *err)
{
    const char *hint = foreign_by_name(path);
    mp_status st = mp_onnx_scan(file->bytes, file->size, skeleton, err);
    return st == MP_PARSE && hint ? MP_FAIL(err, MP_PARSE, "this is no ONNX model; %s", hint) : st;
}

mp_status mp_onnx_read(const char *path, const mp_onnx_options *options, mp_model **out, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_CLEARED_BY(mp_file_close) mp_file file = {0};
    MP_CLEARED_BY(mp_onnx_skeleton_free) mp_onnx_skeleton skeleton = {0};
    mp_onnx_budget budget;
    MP_CHECK(mp_file_open(path, FILE_LIMIT_BYTES, &file, err));
    MP_ENSURE(file.size > 0, err, MP_PARSE, "the file is empty");
    MP_CHECK(refuse_foreign(file.bytes, file.size, err));
    MP_CHECK(scan(path, &file, &skeleton, err));
    mp_file_close(&file);
    mp_onnx_budget_start(&budget, skeleton.size);
    Onnx__ModelProto *proto = onnx__model_proto__unpack(&budget.allocator, skeleton.size, skeleton.bytes);
    if (!proto) return mp_onnx_budget_failure(&budget, "the model", err);
    mp_onnx_skeleton_free(&skeleton);
    mp_status st = check_file(proto, err);
    if (st == MP_OK) st = build(path, proto, &budget, options, out, err);
    onnx__model_proto__free_unpacked(proto, &budget.allocator);
    return st;
}
