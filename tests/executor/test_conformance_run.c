/* test_conformance_run.c - ONNX's own conformance vectors on the CPU's kernels. Each model's operators run in order on the
 * vectors' inputs. The outputs are compared with the vectors, by the rule of ONNX's own runner. Operators without a kernel are
 * listed with the reason. */
#include <dirent.h>
#include <sys/stat.h>

#include <onnx.pb-c.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/cpu.h"
#include "executor/train/evaluate.h"
#include "memplan/onnx.h"
#include "tests/cases/test.h"

#define DATA "/usr/share/libonnx-testdata/data"

enum { N_PASSED = 913, PATH = 1024, MANY = 400 };
static const double relative = 1e-3, absolute = 1e-7; /* as in onnx.backend.test.runner */
static const double cut = 1.0 / 128;                  /* the vectors truncate bfloat16 instead of rounding */

/* Operators that do not run, completely or in some form. For random operators only the shapes are compared. */
static const char *const unsupported[] = {"Add",      "Greater", "ConvInteger", "Bernoulli", "(several)",       "Cast",
                                          "CastLike", "Pad",     "Dropout",     "Einsum",    "MatMulInteger",   "Max",
                                          "MaxPool",  "Min",     "Mod",         "NonZero",   "ReduceLogSumExp", "Slice",
                                          "Unique"};

typedef struct count {
    char kind[64];
    int passed, unsupported, wrong;
    char reason[256];
} count;

typedef struct tally {
    int n, passed, unsupported, wrong, not_loaded;
    count counts[MANY];
} tally;

static count *count_of(tally *t, const char *kind)
{
    int k = 0;
    while (k < t->n && strcmp(t->counts[k].kind, kind) != 0) k++;
    assert_true(k < MANY);
    if (k == t->n) snprintf(t->counts[t->n++].kind, sizeof t->counts[0].kind, "%s", kind);
    return &t->counts[k];
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns "FOLDER/NAME", with k replacing a %d in the name. */
static const char *joined(char path[PATH], const char *folder, const char *name, int k)
{
    int n = snprintf(path, PATH, "%s/", folder);
    n += snprintf(path + n, PATH - (size_t)n, name, k);
    assert_true(n < PATH);
    return path;
}

/* Returns the sorted names in a folder with the prefix `begin`, ended by NULL; NULL: no such folder. */
static char **list_folder(const char *path, const char *begin)
{
    DIR *folder = opendir(path);
    if (!folder) return NULL;
    size_t n = 0;
    char **names = calloc(2048, sizeof *names);
    for (struct dirent *entry; (entry = readdir(folder));) {
        assert_true(n < 2047);
        if (!strncmp(entry->d_name, begin, strlen(begin)) && entry->d_name[0] != '.') names[n++] = strdup(entry->d_name);
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

static uint8_t *read_bytes(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status) != 0) return NULL;
    *size = (size_t)status.st_size;
    uint8_t *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static Onnx__ModelProto *read_model(const char *path)
{
    size_t size;
    uint8_t *bytes = read_bytes(path, &size);
    assert_non_null(bytes);
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, size, bytes);
    assert_non_null(proto);
    free(bytes);
    return proto;
}

static Onnx__TensorProto *read_tensor(const char *path)
{
    size_t size;
    uint8_t *bytes = read_bytes(path, &size);
    Onnx__TensorProto *proto = bytes ? onnx__tensor_proto__unpack(NULL, size, bytes) : NULL;
    free(bytes);
    return proto;
}

/* Copies a file's tensor into allocated memory, which the caller frees; data NULL: unsupported type. */
static mp_array unpacked(const Onnx__TensorProto *t)
{
    mp_dtype dtype = (mp_dtype)t->data_type;
    mp_array a = {.dtype = dtype};
    if (dtype <= 0 || dtype >= MP_N_DTYPES || mp_dtype_bits(dtype) < 8 || t->n_dims > MP_ARRAY_RANK) return a;
    a = mp_array_plain(dtype, (int)t->n_dims, t->dims);
    int64_t n = mp_array_elements(&a);
    size_t size = (size_t)mp_dtype_bits(dtype) / 8;
    char *data = calloc((size_t)n + 1, size);
    if (t->raw_data.len) {
        assert_int_equal(t->raw_data.len, (size_t)n * size);
        memcpy(data, t->raw_data.data, t->raw_data.len);
    }
    for (size_t k = 0; k < t->n_float_data && k < (size_t)n * (dtype == MP_DTYPE_COMPLEX64 ? 2 : 1); k++)
        memcpy(data + k * 4, &t->float_data[k], 4);
    for (size_t k = 0; k < t->n_int32_data && (int64_t)k < n; k++) memcpy(data + k * size, &t->int32_data[k], size);
    for (size_t k = 0; k < t->n_int64_data && (int64_t)k < n; k++) memcpy(data + k * size, &t->int64_data[k], size);
    for (size_t k = 0; k < t->n_uint64_data && (int64_t)k < n; k++) memcpy(data + k * size, &t->uint64_data[k], size);
    for (size_t k = 0; k < t->n_double_data && (int64_t)k < n && dtype == MP_DTYPE_DOUBLE; k++)
        memcpy(data + k * size, &t->double_data[k], size);
    a.data = data;
    return a;
}

/* Files store bfloat16 as uint16 with the same bits. */
static mp_array unpacked_as(const Onnx__TensorProto *t, mp_dtype dtype)
{
    mp_array a = unpacked(t);
    if (a.dtype == MP_DTYPE_UINT16 && dtype == MP_DTYPE_BFLOAT16) a.dtype = dtype;
    return a;
}

static bool is_comparable(mp_dtype dtype)
{
    bool is_float = dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_DOUBLE || dtype == MP_DTYPE_BFLOAT16;
    return is_float || dtype == MP_DTYPE_BOOL || (mp_dtype_is_integer(dtype) && mp_dtype_bits(dtype) >= 8);
}

/* Returns element k as a double. Callers have compared integers beyond 2^53 by bytes before. */
static double element(const mp_array *a, int64_t k)
{
    uint32_t word;
    float single;
    switch (a->dtype) {
    case MP_DTYPE_FLOAT:
        return (double)((const float *)a->data)[k];
    case MP_DTYPE_DOUBLE:
        return ((const double *)a->data)[k];
    case MP_DTYPE_BFLOAT16:
        word = (uint32_t)((const uint16_t *)a->data)[k] << 16;
        memcpy(&single, &word, sizeof single);
        return (double)single;
    case MP_DTYPE_INT64:
        return (double)((const int64_t *)a->data)[k];
    case MP_DTYPE_UINT64:
        return (double)((const uint64_t *)a->data)[k];
    case MP_DTYPE_INT32:
        return ((const int32_t *)a->data)[k];
    case MP_DTYPE_UINT32:
        return ((const uint32_t *)a->data)[k];
    case MP_DTYPE_INT16:
        return ((const int16_t *)a->data)[k];
    case MP_DTYPE_UINT16:
        return ((const uint16_t *)a->data)[k];
    case MP_DTYPE_INT8:
        return ((const int8_t *)a->data)[k];
    case MP_DTYPE_UINT8:
    case MP_DTYPE_BOOL:
        return ((const uint8_t *)a->data)[k];
    default:
        return NAN;
    }
}

/* Writes the difference of an output as text; "" if it is equal. */
static void compare(const mp_array *is, const mp_array *expected, char *verdict, size_t room)
{
    verdict[0] = 0;
    bool same = is->dtype == expected->dtype && is->rank == expected->rank;
    for (int d = 0; same && d < is->rank; d++) same = is->dims[d] == expected->dims[d];
    if (!same) {
        snprintf(verdict, room, "type or shape differ");
        return;
    }
    int64_t n = mp_array_elements(is);
    if (!memcmp(is->data, expected->data, (size_t)mp_array_bytes(is))) return;
    for (int64_t k = 0; k < n; k++) {
        double a = element(is, k), b = element(expected, k);
        bool close = a == b || (isnan(a) && isnan(b)) ||
                     (mp_dtype_is_float(is->dtype) &&
                      fabs(a - b) <= absolute + (is->dtype == MP_DTYPE_BFLOAT16 ? cut : relative) * fabs(b));
        if (close && (mp_dtype_is_float(is->dtype) || fabs(b) < 9e15)) continue;
        snprintf(verdict, room, "element %" PRId64 " of %" PRId64 " is %.9g, not %.9g", k, n, a, b);
        return;
    }
}

/* One model with one set of vectors. */
typedef struct trial {
    mp_model *model;
    const Onnx__ModelProto *proto;
    mp_array *values;   /* per tensor */
    mp_array *expected; /* per output of the graph */
    int *outputs;
    int n_outputs;
    bool storable; /* all tensors have a supported type */
} trial;

static bool is_initializer(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t k = 0; k < graph->n_initializer; k++)
        if (!strcmp(graph->initializer[k]->name, name)) return true;
    return false;
}

/* Input files are numbered in the order of the graph's inputs. */
static void read_inputs(trial *t, const char *folder)
{
    const Onnx__GraphProto *graph = t->proto->graph;
    for (size_t k = 0; k < graph->n_initializer; k++) {
        int index = mp_model_find(t->model, graph->initializer[k]->name);
        if (index >= 0) t->values[index] = unpacked(graph->initializer[k]);
    }
    int file = 0;
    for (size_t k = 0; k < graph->n_input; k++) {
        char path[PATH];
        Onnx__TensorProto *proto = read_tensor(joined(path, folder, "input_%d.pb", file));
        if (!proto) {
            if (!is_initializer(graph, graph->input[k]->name)) t->storable = false;
            continue;
        }
        file++;
        int index = mp_model_find(t->model, graph->input[k]->name);
        if (index >= 0) {
            free(t->values[index].data);
            t->values[index] = unpacked_as(proto, t->model->tensors[index].dtype);
            if (!t->values[index].data) t->storable = false;
        }
        onnx__tensor_proto__free_unpacked(proto, NULL);
    }
}

static void read_outputs(trial *t, const char *folder)
{
    const Onnx__GraphProto *graph = t->proto->graph;
    t->outputs = calloc(graph->n_output + 1, sizeof *t->outputs);
    t->expected = calloc(graph->n_output + 1, sizeof *t->expected);
    for (size_t k = 0; k < graph->n_output; k++) {
        char path[PATH];
        Onnx__TensorProto *proto = read_tensor(joined(path, folder, "output_%d.pb", (int)k));
        int index = mp_model_find(t->model, graph->output[k]->name);
        if (!proto || index < 0) {
            t->storable = false;
            continue;
        }
        mp_array *a = &t->values[index];
        t->expected[t->n_outputs] = unpacked_as(proto, t->model->tensors[index].dtype);
        onnx__tensor_proto__free_unpacked(proto, NULL);
        if (!t->expected[t->n_outputs].data) t->storable = false;
        t->outputs[t->n_outputs++] = index;
        const mp_tensor *tensor = &t->model->tensors[index];
        if (!is_comparable(tensor->dtype) || tensor->rank > MP_ARRAY_RANK) {
            t->storable = false;
        } else if (!a->data) {
            *a = mp_array_plain(tensor->dtype, tensor->rank, tensor->dims);
            a->data = malloc((size_t)mp_array_bytes(a) + 64);
            memset(a->data, 0xa5, (size_t)mp_array_bytes(a));
        }
    }
}

static void free_trial(trial *t)
{
    for (size_t k = 0; k < t->model->n_tensors; k++) free(t->values[k].data);
    for (int k = 0; k < t->n_outputs; k++) free(t->expected[k].data);
    free(t->values);
    free(t->expected);
    free(t->outputs);
}

/* Copies the operator kind at the beginning of a message: "Conv ('conv1'): ...". */
static void kind_of(const char *message, char kind[64])
{
    snprintf(kind, 64, "%.*s", (int)strcspn(message, " "), message);
}

static void run_set(mp_model *model, const Onnx__ModelProto *proto, const char *folder, const char *kind, tally *all)
{
    trial t = {.model = model, .proto = proto, .storable = true};
    t.values = calloc(model->n_tensors, sizeof *t.values);
    read_inputs(&t, folder);
    read_outputs(&t, folder);
    mp_evaluation how = {.backend = &mp_cpu, .mode = MP_MODE_AS_WRITTEN, .run = {.seed = 1, .step = 1, .first_run = true}};
    mp_error err = {0};
    char verdict[256] = "", failing[64];
    bool random = false;
    for (size_t k = 0; k < model->n_operators; k++) random |= (model->operators[k].op->traits & MP_TRAIT_RANDOM) != 0;
    mp_status st = t.storable ? mp_evaluate(model, &how, t.values, t.outputs, (size_t)t.n_outputs, &err) : MP_UNSUPPORTED;
    if (!t.storable) MP_FAIL(&err, MP_UNSUPPORTED, "%s ('?'): vectors of this type are not read here", kind);
    for (int k = 0; k < t.n_outputs && st == MP_OK && !verdict[0]; k++)
        compare(&t.values[t.outputs[k]], &t.expected[k], verdict, sizeof verdict);
    if (st == MP_OK && verdict[0] && random) {
        st = MP_FAIL(&err, MP_UNSUPPORTED, "%s ('?'): random numbers of its own", kind);
        verdict[0] = 0;
    }
    if (st == MP_OK && !verdict[0]) {
        count_of(all, kind)->passed++;
        all->passed++;
    } else if (st == MP_UNSUPPORTED) {
        kind_of(err.message, failing);
        count *c = count_of(all, failing);
        c->unsupported++;
        snprintf(c->reason, sizeof c->reason, "%.200s", strchr(err.message, ')') ? strchr(err.message, ')') + 3 : err.message);
        all->unsupported++;
    } else {
        print_error("WRONG %s: %s\n", folder + strlen(DATA) + 1, st == MP_OK ? verdict : err.message);
        count_of(all, kind)->wrong++;
        all->wrong++;
    }
    free_trial(&t);
}

static void run_model(const char *folder, tally *all)
{
    char path[PATH];
    joined(path, folder, "model.onnx", 0);
    mp_model *model = NULL;
    if (mp_onnx_read(path, &(mp_onnx_options){0}, &model, NULL) != MP_OK) {
        all->not_loaded++; /* test_conformance checks the message */
        return;
    }
    Onnx__ModelProto *proto = read_model(path);
    const char *kind = model->n_operators == 1 ? model->operators[0].kind : "(several)";
    char **sets = list_folder(folder, "test_data_set_");
    for (char **set = sets; *set; set++) {
        char name[PATH];
        run_set(model, proto, joined(name, folder, *set, 0), kind, all);
    }
    free_list(sets);
    onnx__model_proto__free_unpacked(proto, NULL);
    mp_model_free(model);
}

static bool is_known(const char *kind)
{
    for (size_t k = 0; k < sizeof unsupported / sizeof *unsupported; k++)
        if (!strcmp(unsupported[k], kind)) return true;
    return false;
}

static void print_table(const tally *t)
{
    for (int k = 0; k < t->n; k++) {
        const count *c = &t->counts[k];
        print_message("%-28s %3d passed", c->kind, c->passed);
        if (c->wrong) print_message(", %d WRONG", c->wrong);
        if (c->unsupported) print_message(", %d not supported: %s", c->unsupported, c->reason);
        print_message("\n");
    }
    print_message("%d passed, %d not supported, %d wrong; %d models are not loaded\n", t->passed, t->unsupported, t->wrong,
                  t->not_loaded);
}

TEST(kernels_give_what_onnx_says)
{
    static const char *const groups[] = {"node", "simple", "pytorch-operator", "pytorch-converted"};
    static tally t;
    long live = mp_alloc_live;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        char folder[PATH];
        joined(folder, DATA, groups[g], 0);
        char **names = list_folder(folder, "");
        if (!names) {
            print_message("SKIPPED: no %s (Debian package libonnx-testdata)\n", folder);
            skip();
        }
        for (char **name = names; *name; name++) {
            char path[PATH];
            run_model(joined(path, folder, *name, 0), &t);
        }
        free_list(names);
    }
    print_table(&t);
    assert_int_equal(mp_alloc_live, live);
    assert_int_equal(t.wrong, 0);
    for (int k = 0; k < t.n; k++)
        if (t.counts[k].unsupported && !is_known(t.counts[k].kind)) fail_msg("%s is not supported any more", t.counts[k].kind);
    assert_true(t.passed >= N_PASSED);
}
