/* onnx_foreign.c - files that people have in place of an ONNX file, and the way from each of them to one.
 *
 * An ONNX file is a protobuf message whose fields have the numbers 1 to 25: it starts with one of their tags, and none of the
 * signatures below does. What starts like protobuf and is none of ours (TensorFlow's graphs) is told by its name, once reading
 * has failed.
 */
#include "formats/onnx/onnx_foreign.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define FROM_PYTORCH "export the network with torch.onnx.export (examples/export_pytorch.py does it)"
#define FROM_TENSORFLOW "convert it with tf2onnx: python -m tf2onnx.convert --help"

static const struct {
    size_t at;
    const char *bytes;
    size_t n;
    const char *sentence;
} kinds[] = {
    /* torch.save since PyTorch 1.6 writes a ZIP, as do TorchScript and torch.export */
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

/* An eight-byte length, then a JSON object of that length. */
static bool is_safetensors(const uint8_t *bytes, size_t size)
{
    uint64_t length = 0;
    if (size < 10) return false;
    for (int k = 7; k >= 0; k--) length = length << 8 | bytes[k];
    return length >= 2 && length <= size - 8 && bytes[8] == '{' && (bytes[9] == '"' || bytes[9] == ' ' || bytes[9] == '}');
}

mp_status mp_onnx_refuse_foreign(const uint8_t *bytes, size_t size, mp_error *err)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (size >= kinds[k].at + kinds[k].n && !memcmp(bytes + kinds[k].at, kinds[k].bytes, kinds[k].n))
            return MP_FAIL(err, MP_UNSUPPORTED, "%s", kinds[k].sentence);
    if (is_safetensors(bytes, size))
        return MP_FAIL(err, MP_UNSUPPORTED, "these are weights without the network (safetensors): " FROM_PYTORCH);
    return MP_OK;
}

const char *mp_onnx_foreign_by_name(const char *path)
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
