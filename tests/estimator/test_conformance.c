/* test_conformance.c - ONNX's own conformance models (Debian's libonnx-testdata). A model loads with the types and shapes that
 * it declares for its outputs, or is refused in one sentence that names the operator or the feature. The oracle is the text of
 * each file, unpacked with protobuf-c. */
#include <dirent.h>
#include <sys/stat.h>

#include <onnx.pb-c.h>

#include "estimator/model/ops.h"
#include "memplan/onnx.h"
#include "tests/cases/test.h"

#define DATA "/usr/share/libonnx-testdata/data"

enum { N_FILES = 1072, N_LOADED = 987 };

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the sorted names in a folder, ended by NULL. */
static char **list_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return NULL;
    size_t n = 0;
    char **names = calloc(2048, sizeof *names);
    for (struct dirent *entry; (entry = readdir(folder));) {
        assert_true(n < 2047);
        if (entry->d_name[0] != '.') names[n++] = strdup(entry->d_name);
    }
    closedir(folder);
    qsort(names, n, sizeof *names, by_name);
    return names;
}
static void free_list(char **names)
{
    for (char **name = names; name && *name; name++) free(*name);
    free(names);
}

static Onnx__ModelProto *unpack(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status) != 0) return NULL;
    size_t size = (size_t)status.st_size;
    uint8_t *bytes = malloc(size + 1);
    Onnx__ModelProto *proto = NULL;
    if (fread(bytes, 1, size, file) == size) proto = onnx__model_proto__unpack(NULL, size, bytes);
    free(bytes);
    fclose(file);
    return proto;
}

static bool is_local_function(const Onnx__ModelProto *proto, const Onnx__NodeProto *node)
{
    for (size_t k = 0; k < proto->n_functions; k++)
        if (!strcmp(proto->functions[k]->name, node->op_type)) return true;
    return false;
}

/* Kinds without a row in the operator table. Inference replaces them if their conditions and lengths are known. */
static bool is_taken_out(const char *kind)
{
    static const char *const kinds[] = {"If",
                                        "Loop",
                                        "Scan",
                                        "SequenceEmpty",
                                        "SequenceConstruct",
                                        "SequenceInsert",
                                        "SequenceErase",
                                        "SequenceAt",
                                        "SequenceLength",
                                        "ConcatFromSequence",
                                        "SplitToSequence"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(kinds[k], kind)) return true;
    return false;
}

/* Returns the first operator missing in the registry; NULL: none. */
static const char *missing_operator(const Onnx__ModelProto *proto)
{
    for (size_t k = 0; k < proto->graph->n_node; k++) {
        const Onnx__NodeProto *node = proto->graph->node[k];
        const char *domain = node->domain ? node->domain : "";
        int version = 1;
        for (size_t i = 0; i < proto->n_opset_import; i++) {
            const char *imported = proto->opset_import[i]->domain ? proto->opset_import[i]->domain : "";
            if (!strcmp(imported, domain)) version = (int)proto->opset_import[i]->version;
        }
        if (!mp_op_find(domain, node->op_type, version) && !is_local_function(proto, node)) return node->op_type;
    }
    return NULL;
}

/* Writes to `odd` the word that a refusal must contain if this value causes it: the value is no tensor, or a dimension has no
 * size. "" if the value is ordinary. */
static void odd_value(const Onnx__ValueInfoProto *v, char *odd, size_t room)
{
    odd[0] = 0;
    if (v->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
        bool is_sequence = v->type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
        snprintf(odd, room, "%s", is_sequence ? "sequence" : "optional");
        return;
    }
    const Onnx__TensorShapeProto *shape = v->type->tensor_type->shape;
    for (size_t d = 0; shape && d < shape->n_dim; d++)
        if (shape->dim[d]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
            snprintf(odd, room, "dimension '%s'", shape->dim[d]->dim_param);
}

/* Writes a description of the first wrong output of a loaded model; "" if all are right. */
static void judge_outputs(const mp_model *model, const Onnx__ModelProto *proto, char *verdict, size_t room)
{
    verdict[0] = 0;
    for (size_t k = 0; k < proto->graph->n_output && !verdict[0]; k++) {
        const Onnx__ValueInfoProto *v = proto->graph->output[k];
        const Onnx__TypeProto__Tensor *declared = v->type->tensor_type;
        int index = mp_model_find(model, v->name);
        if (index < 0) {
            snprintf(verdict, room, "output %s is lost", v->name);
            continue;
        }
        const mp_tensor *t = &model->tensors[index];
        int length = 0;
        bool same = (int)t->dtype == declared->elem_type && (!declared->shape || t->rank == (int)declared->shape->n_dim);
        for (size_t d = 0; same && declared->shape && d < declared->shape->n_dim; d++)
            if (declared->shape->dim[d]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
                same = t->dims[d] == declared->shape->dim[d]->dim_value;
        if (same) continue;
        length = snprintf(verdict, room, "output %s is %s [", v->name, mp_dtype_name(t->dtype));
        for (int d = 0; d < t->rank && length < (int)room - 64; d++)
            length += snprintf(verdict + length, room - (size_t)length, "%s%" PRId64, d ? ", " : "", t->dims[d]);
        length +=
            snprintf(verdict + length, room - (size_t)length, "], declared %s [", mp_dtype_name((mp_dtype)declared->elem_type));
        for (size_t d = 0; declared->shape && d < declared->shape->n_dim && length < (int)room - 32; d++)
            length += snprintf(verdict + length, room - (size_t)length, "%s%" PRId64, d ? ", " : "",
                               declared->shape->dim[d]->dim_value);
        snprintf(verdict + length, room - (size_t)length, "]");
    }
}

/* Writes the fault of a refusal. A refusal must be one sentence on an operator missing in the registry, or on an odd input. */
static void judge_refusal(const mp_error *err, const char *missing, const char *odd, char *verdict, size_t room)
{
    size_t length = strlen(err->message);
    bool is_sentence = length > 10 && !strchr(err->message, '\n') && err->message[length - 1] != '.';
    bool names_it = (missing && strstr(err->message, missing)) || (odd[0] && strstr(err->message, odd));
    verdict[0] = 0;
    if (!is_sentence || !names_it) snprintf(verdict, room, "refused: %s", err->message);
}

/* Counts files, loaded models and wrong results, and refusals by reason. */
typedef struct tally {
    int n_files, n_loaded, n_wrong, n_reasons;
    struct {
        char name[64];
        int n;
    } reasons[128];
} tally;

static void count_reason(tally *t, const char *name)
{
    int k = 0;
    while (k < t->n_reasons && strcmp(t->reasons[k].name, name) != 0) k++;
    assert_true(k < 128);
    if (k == t->n_reasons) snprintf(t->reasons[t->n_reasons++].name, sizeof t->reasons[0].name, "%s", name);
    t->reasons[k].n++;
}

static void check_model(const char *path, tally *t)
{
    char verdict[1024];
    Onnx__ModelProto *proto = unpack(path);
    if (!proto) fail_msg("%s cannot be unpacked", path);
    const char *missing = missing_operator(proto);
    char odd[64] = "";
    for (size_t k = 0; k < proto->graph->n_input && !odd[0]; k++) odd_value(proto->graph->input[k], odd, sizeof odd);
    mp_model *model = NULL;
    mp_error err = {0};
    t->n_files++;
    if (mp_onnx_read(path, &(mp_onnx_options){0}, &model, &err) == MP_OK) {
        t->n_loaded++;
        judge_outputs(model, proto, verdict, sizeof verdict);
        if (missing && !is_taken_out(missing)) snprintf(verdict, sizeof verdict, "loaded, though there is no %s", missing);
    } else {
        judge_refusal(&err, missing, odd, verdict, sizeof verdict);
        count_reason(t, missing ? missing : odd[0] ? odd : "?");
        assert_null(model);
    }
    if (verdict[0]) {
        t->n_wrong++;
        print_error("%s: %s\n", path + strlen(DATA) + 1, verdict);
    }
    mp_model_free(model);
    onnx__model_proto__free_unpacked(proto, NULL);
}

TEST(every_conformance_model_loads_as_declared_or_is_refused_by_name)
{
    static const char *const groups[] = {"node", "pytorch-converted", "pytorch-operator", "simple"};
    static tally t;
    long live = mp_alloc_live;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        char folder[256];
        snprintf(folder, sizeof folder, DATA "/%s", groups[g]);
        char **names = list_folder(folder);
        if (!names) {
            print_message("SKIPPED: no %s (Debian package libonnx-testdata)\n", folder);
            skip();
        }
        for (char **name = names; *name; name++) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s/model.onnx", folder, *name);
            check_model(path, &t);
        }
        free_list(names);
    }
    print_message("%d conformance models: %d load, %d are refused for", t.n_files, t.n_loaded, t.n_files - t.n_loaded);
    for (int k = 0; k < t.n_reasons; k++) print_message("%s %s (%d)", k ? "," : "", t.reasons[k].name, t.reasons[k].n);
    print_message("\n");
    assert_int_equal(mp_alloc_live, live);
    assert_int_equal(t.n_wrong, 0);
    assert_true(t.n_files >= N_FILES);
    assert_true(t.n_loaded >= N_LOADED);
}
