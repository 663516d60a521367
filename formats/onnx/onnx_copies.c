/* onnx_copies.c - finds contiguous copies that PyTorch's newer exporter leaves out of the graph.
 *
 * The exporter writes x.contiguous() as nothing, or as an Identity. But each node records the call that it belongs to:
 *
 *     pkg.torch.onnx.fx_node    %linear : [..] = call_function[target=torch.ops.aten.linear.default](args = (%clone, ..
 *
 * If a call has an argument %clone, and the graph has no tensor `clone`, the call reads a copy. The copied tensor is the one
 * that the call's nodes read although no argument has its name. The copy becomes an Identity with the attribute `copies`. */
#include "formats/onnx/onnx.h"

#include <string.h>

enum { ARGUMENTS_MAX = 16, NAME_MAX_BYTES = 128 }; /* a call with more arguments is read as the graph states it */

struct mp_onnx_copies {
    mp_model *model;
    const Onnx__GraphProto *graph;
    mp_pool *pool;
    mp_names *calls;      /* map from the name of a call to its index */
    mp_names *copies;     /* map from the name of a copy to its tensor */
    const char **records; /* per call: its record */
    int n_calls;
    int *first, *next; /* per call its last node, and per node the node before it in the same call; -1: none */
    int *call_of;      /* per tensor of the file: 1 + index of the call whose node writes it; 0: none */
    int n_tensors;     /* number of tensors of the file; copies have higher indices */
    mp_error *err;
};

/* The arguments of a call, and the tensors that its nodes read under other names. */
typedef struct arguments {
    char names[ARGUMENTS_MAX][NAME_MAX_BYTES];
    int n;
    const char *copies[ARGUMENTS_MAX]; /* names of the copies that the graph lacks */
    const char *view; /* name of the last view that the graph lacks; the mask is the last argument of attention */
    int n_copies, n_views, n_others; /* numbers of names that the graph lacks: `copies`, views, and others */
    int tensors[ARGUMENTS_MAX];
    /* n_tensors: number of tensors that the call's nodes read under other names; n_inputs: inputs of the model among them */
    int n_tensors, n_inputs;
    bool is_whole; /* false: the call has too many arguments or tensors */
} arguments;

/* Copies the name after the next % to `name` and returns its end; NULL: there is no further name. */
static const char *next_name(const char *text, char name[NAME_MAX_BYTES])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    const char *at = strchr(text, '%');
    if (!at) return NULL;
    const size_t length = strspn(++at, letters), kept = length < NAME_MAX_BYTES ? length : 0;
    memcpy(name, at, kept);
    name[kept] = '\0';
    return at + length;
}

mp_status mp_onnx_copies_new(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_copies **out, mp_error *err)
{
    mp_pool *pool = mp_pool_new();
    mp_onnx_copies *c = pool ? mp_pool_alloc(pool, 1, sizeof *c) : NULL;
    if (!c) {
        mp_pool_free(pool);
        return MP_FAIL(err, MP_NOMEM, "no memory for the file's metadata");
    }
    *c = (mp_onnx_copies){.model = model, .graph = graph, .pool = pool, .n_tensors = (int)model->n_tensors, .err = err};
    *out = c;
    c->calls = mp_names_new();
    c->copies = mp_names_new();
    c->records = mp_pool_alloc(pool, graph->n_node + 1, sizeof *c->records);
    c->first = mp_pool_alloc(pool, graph->n_node + 1, sizeof *c->first);
    c->next = mp_pool_alloc(pool, graph->n_node + 1, sizeof *c->next);
    c->call_of = mp_pool_alloc(pool, model->n_tensors + 1, sizeof *c->call_of);
    MP_ENSURE(c->calls && c->copies && c->records && c->first && c->next && c->call_of, err, MP_NOMEM,
              "no memory for the file's metadata");
    return MP_OK;
}

void mp_onnx_copies_free(mp_onnx_copies *c)
{
    if (!c) return;
    mp_names_free(c->calls);
    mp_names_free(c->copies);
    mp_pool_free(c->pool);
}

mp_status mp_onnx_copies_take(mp_onnx_copies *c, size_t node, const char *record)
{
    char name[NAME_MAX_BYTES];
    const Onnx__NodeProto *proto = c->graph->node[node];
    if (!next_name(record, name) || !*name) return MP_OK;
    int call = mp_names_find(c->calls, name);
    if (call < 0) {
        const char *key = mp_pool_text(c->pool, name, strlen(name)), *kept = key;
        if (strstr(record, "%clone") || strstr(record, "view") || strstr(record, "reshape"))
            kept = mp_pool_text(c->pool, record, strlen(record));
        call = c->n_calls++;
        MP_ENSURE(key && kept && mp_names_set(c->calls, key, call), c->err, MP_NOMEM, "no memory for the file's metadata");
        c->records[call] = kept;
        c->first[call] = -1;
    }
    c->next[node] = c->first[call];
    c->first[call] = (int)node;
    for (size_t k = 0; k < proto->n_output; k++) {
        const int tensor = *proto->output[k] ? mp_model_find(c->model, proto->output[k]) : -1;
        if (tensor >= 0) c->call_of[tensor] = call + 1;
    }
    return MP_OK;
}

/* True for names of parameters, buffers and constants of the program: "p_layer_weight". */
static bool is_of_state(const char *name)
{
    return strlen(name) > 2 && name[1] == '_' && strchr("pbc", name[0]);
}

/* Adds the arguments that a call records. */
static void read_arguments(const mp_onnx_copies *c, const char *record, arguments *a)
{
    const char *at = strstr(record, "](args = ");
    for (char name[NAME_MAX_BYTES]; at && (at = next_name(at, name));) {
        bool again = false;
        for (int k = 0; k < a->n; k++) again |= !strcmp(a->names[k], name);
        if (again) continue;
        if (a->n == ARGUMENTS_MAX) {
            a->is_whole = false;
            return;
        }
        memcpy(a->names[a->n++], name, sizeof name);
        const int tensor = mp_model_find(c->model, name);
        if ((tensor >= 0 && tensor < c->n_tensors) || is_of_state(name)) continue;
        if (mp_onnx_names_result_of(name, "clone"))
            a->copies[a->n_copies++] = a->names[a->n - 1];
        else if (mp_onnx_names_result_of(name, "view _unsafe_view reshape"))
            a->view = a->names[a->n - 1], a->n_views++;
        else
            a->n_others++;
    }
}

/* Adds a tensor that a node of the call reads, unless an argument has its name. Weights, and results within a call, are never
 * copied. */
static void read_tensor(const mp_onnx_copies *c, int call, const char *name, arguments *a)
{
    const int tensor = *name ? mp_model_find(c->model, name) : -1;
    const mp_tensor *t = tensor >= 0 && tensor < c->n_tensors ? &c->model->tensors[tensor] : NULL;
    if (!t || c->call_of[tensor] == call + 1 || mp_onnx_names_result_of(name, "val")) return;
    if (t->producer < 0 && t->role != MP_ROLE_DATA) return;
    for (int k = 0; k < a->n; k++)
        if (!strcmp(a->names[k], name)) return;
    for (int k = 0; k < a->n_tensors; k++)
        if (a->tensors[k] == tensor) return;
    if (a->n_tensors == ARGUMENTS_MAX) {
        a->is_whole = false;
        return;
    }
    a->tensors[a->n_tensors++] = tensor;
    a->n_inputs += t->producer < 0;
}

/* True for the result of an Expand that repeats elements. */
static bool is_expanded(const mp_model *model, int tensor)
{
    const int producer = model->tensors[tensor].producer;
    return producer >= 0 && !strcmp(model->operators[producer].kind, "Expand");
}

/* Leaves only the tensors that the call must read as copies. Inputs of the model have other names in the program, so they
 * explain names that the graph lacks. Leaves none if the record does not decide. */
static void keep_copied(const mp_onnx_copies *c, arguments *a)
{
    int n = 0;
    if (!a->n_copies && a->n_views) { /* two reshapes that PyTorch runs: the first one copies an expanded tensor */
        for (int k = 0; k < a->n_tensors; k++)
            if (is_expanded(c->model, a->tensors[k])) a->tensors[n++] = a->tensors[k];
        a->n_tensors = n <= a->n_views && a->is_whole ? n : 0;
        return;
    }
    if (a->n_others && a->n_others >= a->n_inputs) {
        for (int k = 0; k < a->n_tensors; k++)
            if (c->model->tensors[a->tensors[k]].producer >= 0) a->tensors[n++] = a->tensors[k];
        a->n_tensors = n;
    }
    if (!a->is_whole || a->n_tensors > a->n_copies) a->n_tensors = 0;
}

/* Returns the tensor that is the copy of `from`, and adds it if it does not exist. `name` is its name in the program. */
static mp_status copy_of(mp_onnx_copies *c, int from, const char *name, int *copy)
{
    mp_model *model = c->model;
    const mp_attribute copies = mp_attribute_int("copies", 1);
    const char *path = model->tensors[from].name, *slash = strrchr(path, '/');
    const char *key = mp_pool_format(c->pool, "%s of %d", name, from);
    const char *full = mp_pool_format(model->pool, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
    int index;
    MP_ENSURE(key && full, c->err, MP_NOMEM, "no memory for the file's metadata");
    if ((*copy = mp_names_find(c->copies, key)) >= 0) return MP_OK;
    MP_CHECK(mp_model_fresh_tensor(model, full, copy, c->err));
    model->tensors[*copy].source = model->tensors[from].source;
    mp_operator_draft draft = mp_draft("Identity", "", 1, &from, 1, &copies, 1);
    draft.name = full;
    draft.out = copy;
    draft.n_out = 1;
    MP_CHECK(mp_model_operator(model, &draft, &index, c->err));
    model->operators[index].call = mp_pool_text(model->pool, name, strlen(name));
    MP_ENSURE(mp_names_set(c->copies, key, *copy), c->err, MP_NOMEM, "no memory for the file's metadata");
    return MP_OK;
}

/* Returns the operator that writes the first output of a node; NULL: there is none. */
static mp_operator *operator_of(const mp_onnx_copies *c, int node)
{
    const Onnx__NodeProto *proto = c->graph->node[node];
    const int y = proto->n_output && *proto->output[0] ? mp_model_find(c->model, proto->output[0]) : -1;
    return y >= 0 && c->model->tensors[y].producer >= 0 ? &c->model->operators[c->model->tensors[y].producer] : NULL;
}

/* Makes the nodes of a call read `copy` where they read `from`. */
static void read_copy(const mp_onnx_copies *c, int call, int from, int copy)
{
    for (int k = c->first[call]; k >= 0; k = c->next[k]) {
        const mp_operator *op = operator_of(c, k);
        for (int i = 0; op && i < op->n_in; i++)
            if (op->in[i] == from) op->in[i] = copy;
    }
}

/* Marks the Identity operators of a call that makes a contiguous copy. */
static mp_status mark(mp_onnx_copies *c, int call)
{
    const mp_attribute copies = mp_attribute_int("copies", 1);
    for (int k = c->first[call]; k >= 0; k = c->next[k]) {
        mp_operator *op = operator_of(c, k);
        if (!op || strcmp(op->kind, "Identity") || op->n_attributes) continue;
        MP_CHECK(mp_attributes_copy(c->model, &copies, 1, &op->attributes, c->err));
        op->n_attributes = 1;
    }
    return MP_OK;
}

mp_status mp_onnx_copies_add(mp_onnx_copies *c)
{
    for (int call = 0; call < c->n_calls; call++) {
        const char *record = c->records[call];
        arguments a = {.is_whole = true};
        if (strstr(record, "target=torch.ops.aten.clone.")) MP_CHECK(mark(c, call));
        read_arguments(c, record, &a);
        if (!a.n_copies && !a.n_views) continue;
        for (int k = c->first[call]; k >= 0; k = c->next[k])
            for (size_t i = 0; i < c->graph->node[k]->n_input; i++) read_tensor(c, call, c->graph->node[k]->input[i], &a);
        keep_copied(c, &a);
        for (int k = 0; k < a.n_tensors; k++) {
            int copy;
            const char *name = a.n_copies == 1 ? a.copies[0] : !a.n_copies ? a.view : "clone";
            MP_CHECK(copy_of(c, a.tensors[k], name, &copy));
            read_copy(c, call, a.tensors[k], copy);
        }
    }
    return MP_OK;
}
