/* fuzz_readers.c - files of all kinds that memplan reads. The first byte of an input selects the kind; the rest is the file:
 *
 *     o ONNX, through simplification, training graph, timeline and a cheap searcher
 *     g graph (JSON), d DOT: through timeline and that searcher      p plan for the graph of `graph.json`, checked
 *     c costs of that graph      v device      b buffers (CSV)       s safetensors
 *     a array (.npy, IDX)        t text        w vocabulary of a fixed text */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/data/dataset.h"
#include "formats/data/safetensors.h"
#include "memplan/check.h"
#include "memplan/memplan.h"
#include "memplan/workloads/own_device.h"
#include "tests/fuzz/reader_mutate.h"

/* libFuzzer's mutation of bytes, if linked. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most) __attribute__((weak));

enum { NODES_MAX = 600, EDGES_MAX = 6000 };

static char folder[64], path[128], text_path[128];
static uint8_t kind; /* kind of the current file */

static void take_away(void)
{
    unlink(path);
    unlink(text_path);
    rmdir(folder);
}

static void put_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(name, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) abort();
}

static void begin(void)
{
    if (*folder) return;
    const char *place = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/memplan-fuzz-XXXXXX", place ? place : "/tmp");
    if (!mkdtemp(folder)) abort();
    snprintf(path, sizeof path, "%s/input.json", folder);
    snprintf(text_path, sizeof text_path, "%s/text", folder);
    atexit(take_away);
    put_file(text_path, "to be or not to be\n", 19);
}

/* Checks that a refusal states a reason. */
static void said(mp_status st, const mp_error *err)
{
    if (getenv("FUZZ_VERBOSE")) fprintf(stderr, "%c %s %s\n", kind, st == MP_OK ? "read" : "refused", err->message);
    if (st == MP_OK || *err->message) return;
    fprintf(stderr, "status %d without a reason\n", (int)st);
    abort();
}

static void search(const mp_graph *graph)
{
    mp_error err = {0};
    mp_answer answer = {0};
    size_t edges = 0;
    for (size_t k = 0; k < graph->n_nodes; k++) edges += graph->nodes[k].alternatives[0].n_reads;
    if (graph->n_nodes > NODES_MAX || edges > EDGES_MAX) return;
    const mp_request request = {.graph = graph, .budget_bytes = mp_graph_static_bytes(graph), .solver = "none"};
    const mp_status st = mp_solve_with_arena(&request, &answer, &err);
    said(st, &err);
    if (st == MP_OK && mp_plan_check(graph, answer.smallest, &err) != MP_OK) {
        fprintf(stderr, "refuted: %s\n", err.message);
        abort();
    }
    mp_answer_free(&answer);
}

static void read_onnx(void)
{
    static const mp_dimension dims[] = {{"seq", 2}};
    static const mp_onnx_options tries[] = {{.batch = 2, .dimensions = dims, .n_dimensions = 1}, {.batch = 2}, {0}};
    const mp_training_options training = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT};
    const mp_target target = mp_roofline(mp_device_find("a100"));
    mp_error err = {0};
    mp_model *model = NULL;
    mp_graph *graph = NULL;
    int loss;
    mp_status st = MP_INVALID;
    for (size_t k = 0; st != MP_OK && k < sizeof tries / sizeof *tries; k++) st = mp_onnx_read(path, &tries[k], &model, &err);
    if (st == MP_OK) st = mp_model_simplify(model, training.rules, true, NULL, &err);
    if (st == MP_OK) st = mp_model_fuse_attention(model, training.rules, false, NULL, &err);
    if (st == MP_OK) st = mp_model_add_loss(model, &training, &loss, &err);
    if (st == MP_OK) st = mp_training_graph(model, &training, loss, &target, &graph, &err);
    said(st, &err);
    if (st == MP_OK) search(graph);
    mp_graph_free(graph);
    mp_model_free(model);
}

static void read_graph(mp_status (*read)(const char *path, mp_graph **out, mp_error *err))
{
    mp_error err = {0};
    mp_graph *graph = NULL;
    const mp_status st = read(path, &graph, &err);
    said(st, &err);
    if (st == MP_OK) search(graph);
    mp_graph_free(graph);
}

/* Reads a plan, or costs, for the corpus's graph. */
static void read_beside(bool is_plan)
{
    mp_error err = {0};
    mp_graph *graph = NULL;
    mp_plan *plan = NULL;
    const mp_costs_options options = {0};
    if (mp_graph_read("tests/fuzz/corpus/graph.json", &graph, &err) != MP_OK) abort();
    mp_status st = is_plan ? mp_plan_read(path, graph, &plan, &err) : mp_costs_apply(path, graph, &options, &err);
    if (st == MP_OK && is_plan) st = mp_plan_check(graph, plan, &err);
    said(st, &err);
    if (st == MP_OK && !is_plan) search(graph);
    mp_plan_free(plan);
    mp_graph_free(graph);
}

static void read_device(void)
{
    mp_error err = {0};
    char *text = NULL;
    mp_own_device device;
    const mp_status st = mp_device_file_read(path, &text, &err);
    said(st, &err);
    if (st == MP_OK && !mp_own_device_read(text, &device)) {
        fprintf(stderr, "no device: %s\n", text);
        abort();
    }
    mp_free(text);
}

static void read_buffers(void)
{
    mp_error err = {0};
    mp_pack_table table = {0};
    mp_pack_result result;
    const mp_pack_options options = {.node_limit = 2000};
    mp_status st = mp_pack_csv_read(path, &table, &err);
    if (st == MP_OK && table.packing.n_items <= NODES_MAX) st = mp_pack_minimize(&table.packing, -1, &options, &result, &err);
    said(st, &err);
    mp_pack_table_free(&table);
}

static void read_tensors(void)
{
    static const char *const names[] = {"w", "b", "x", "optimizer.1:w"};
    mp_error err = {0};
    mp_safetensors *file = NULL;
    unsigned sum = 0;
    said(mp_safetensors_open(path, &file, &err), &err);
    for (size_t k = 0; file && k < sizeof names / sizeof *names; k++) {
        const mp_named_tensor *t = mp_safetensors_find(file, names[k]);
        int64_t n = t ? mp_dtype_bits(t->dtype) / 8 : 0;
        for (int d = 0; t && d < t->rank; d++) n *= t->dims[d];
        for (int64_t i = 0; i < n; i++) sum += ((const uint8_t *)t->data)[i];
        if (mp_safetensors_metadatum(file, "step")) sum++;
    }
    put_file("/dev/null", &sum, sizeof sum);
    mp_safetensors_close(file);
}

static void read_data(char kind)
{
    mp_error err = {0};
    mp_dataset data = {0};
    float *values;
    const mp_status st = kind == 'a'   ? mp_dataset_open(path, &data, &err)
                         : kind == 't' ? mp_dataset_open_text(path, NULL, &data, &err)
                                       : mp_dataset_open_text(text_path, path, &data, &err);
    said(st, &err);
    if (st != MP_OK) return;
    int64_t n = 1;
    for (int d = 0; d < data.rank; d++) n *= data.dims[d];
    if ((values = calloc((size_t)n + 1, sizeof *values))) mp_dataset_floats(&data, 0, n, values);
    free(values);
    mp_dataset_close(&data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    begin();
    put_file(path, data + 1, n - 1);
    switch (kind = data[0]) {
    case 'o':
        read_onnx();
        break;
    case 'g':
        read_graph(mp_graph_read);
        break;
    case 'd':
        read_graph(mp_graph_dot_read);
        break;
    case 'p':
    case 'c':
        read_beside(data[0] == 'p');
        break;
    case 'v':
        read_device();
        break;
    case 'b':
        read_buffers();
        break;
    case 's':
        read_tensors();
        break;
    case 'a':
    case 't':
    case 'w':
        read_data((char)data[0]);
        break;
    default:
        break;
    }
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
    if (n < 2 || most < 2) return LLVMFuzzerMutate ? LLVMFuzzerMutate(data, n, most) : n;
    if (LLVMFuzzerMutate && seed % 4 == 0) return 1 + LLVMFuzzerMutate(data + 1, n - 1, most - 1);
    uint8_t *copy = malloc(n);
    if (!copy) return n;
    memcpy(copy, data, n);
    n = 1 + (*data == 'o' ? reader_mutate_message : reader_mutate_text)(copy + 1, n - 1, data + 1, most - 1, seed);
    free(copy);
    return n;
}
