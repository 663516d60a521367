/* onnx_subgraphs.c - reads each subgraph once, as a region of the model. Later, mp_model_infer, which knows conditions and trip
 * counts, uses one branch of an If or copies the body of a loop.
 *
 * Tensors of regions are named NODE#then/NAME, NODE#else/NAME or NODE#/NAME. Constants and initializers are placed in the
 * main graph, because all iterations share them. */
#include "formats/onnx/onnx.h"

#include <string.h>

#include "estimator/model/model.h"
#include "formats/onnx/onnx_tensor.h"
#include "formats/onnx/onnx_weights.h"

static const struct {
    const char *kind;
    mp_control control;
    const char *attributes[2];
} controls[] = {{"If", MP_CONTROL_IF, {"then_branch", "else_branch"}},
                {"Loop", MP_CONTROL_LOOP, {"body", NULL}},
                {"Scan", MP_CONTROL_SCAN, {"body", NULL}}};

enum { N_CONTROLS = sizeof controls / sizeof *controls };

static int find_control(const char *kind)
{
    for (int k = 0; k < N_CONTROLS; k++)
        if (!strcmp(controls[k].kind, kind)) return k;
    return -1;
}

bool mp_onnx_is_control(const char *domain, const char *kind)
{
    return !*domain && find_control(kind) >= 0;
}

/* Creates a new tensor for a name that the subgraph defines. */
static mp_status define(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index)
{
    if (mp_names_find(s->tensors, name) != -1)
        return MP_FAIL(b->err, MP_PARSE, "the subgraph '%s' gives two tensors the name '%s'", s->prefix, name);
    return mp_onnx_define_tensor(b, s, name, index);
}

static mp_status add_initializers(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__GraphProto *graph)
{
    int index;
    for (size_t k = 0; k < graph->n_initializer; k++) {
        const char *name = mp_onnx_text(graph->initializer[k]->name);
        MP_ENSURE(*name, b->err, MP_PARSE, "the subgraph '%s' has an initializer without a name", s->prefix);
        MP_CHECK(define(b, s, name, &index));
        MP_CHECK(mp_onnx_initializer(b->model, graph->initializer[k], index, b->err));
        if (!b->model->tensors[index].value) MP_CHECK(mp_onnx_check_values(b, s, name, index));
    }
    MP_ENSURE(!graph->n_sparse_initializer, b->err, MP_UNSUPPORTED,
              "the subgraph '%s' has a sparse initializer, which is supported in the main graph only", s->prefix);
    return MP_OK;
}

/* Adds the inputs of a subgraph as formal parameters: the control operator passes new values in each iteration. */
static mp_status add_formals(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__GraphProto *graph, int *formals, int *n)
{
    for (size_t k = 0; k < graph->n_input; k++) {
        const char *name = mp_onnx_text(graph->input[k]->name);
        int known = mp_names_find(s->tensors, name);
        MP_ENSURE(*name, b->err, MP_PARSE, "the subgraph '%s' has an input without a name", s->prefix);
        if (known >= 0 && b->model->tensors[known].role == MP_ROLE_CONSTANT)
            continue; /* old files list initializers as inputs, too; these are not formal parameters */
        MP_CHECK(define(b, s, name, &formals[*n]));
        b->model->tensors[formals[(*n)++]].is_formal = true;
    }
    return MP_OK;
}

static mp_status add_results(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__GraphProto *graph, int *results)
{
    for (size_t k = 0; k < graph->n_output; k++) {
        MP_CHECK(mp_onnx_find_tensor(b, s, mp_onnx_text(graph->output[k]->name), &results[k]));
        MP_ENSURE(results[k] >= 0, b->err, MP_PARSE, "the subgraph '%s' has an output without a name", s->prefix);
    }
    return MP_OK;
}

/* Adds a subgraph of a node as a region. s is the scope of the node. */
static mp_status add_region(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__GraphProto *graph, const char *prefix,
                            int *region)
{
    mp_pool *pool = b->model->pool;
    MP_CLEARED_BY(mp_onnx_scope_free)
    mp_onnx_scope inner = {.outer = s,
                           .visible = s,
                           .depth = s->depth + 1,
                           .function = s->function,
                           .prefix = prefix,
                           .attributes = s->attributes,
                           .n_attributes = s->n_attributes};
    int *formals = NULL, *results = NULL, n_formals = 0, index;
    MP_ENSURE(s->depth < MP_ONNX_CALL_DEPTH_MAX, b->err, MP_PARSE, "subgraphs are nested more than %d deep, at '%s'",
              MP_ONNX_CALL_DEPTH_MAX, prefix);
    MP_CHECK(mp_onnx_charge(b, 1 + (int64_t)(graph->n_input + graph->n_output)));
    MP_CHECK(mp_model_region(b->model, s->region, prefix, region, b->err));
    inner.region = *region;
    MP_ENSURE((inner.tensors = mp_names_new()) && (formals = mp_pool_alloc(pool, graph->n_input, sizeof *formals)) &&
                  (results = mp_pool_alloc(pool, graph->n_output, sizeof *results)),
              b->err, MP_NOMEM, "no memory for the subgraph '%s'", prefix);
    MP_CHECK(add_initializers(b, &inner, graph));
    MP_CHECK(add_formals(b, &inner, graph, formals, &n_formals));
    for (size_t k = 0; k < graph->n_node; k++)
        for (size_t j = 0; j < graph->node[k]->n_output; j++)
            if (*mp_onnx_text(graph->node[k]->output[j])) MP_CHECK(define(b, &inner, graph->node[k]->output[j], &index));
    MP_CHECK(b->add_nodes(b, &inner, graph->node, graph->n_node));
    MP_CHECK(add_results(b, &inner, graph, results));
    mp_region *r = &b->model->regions[*region];
    r->n_formals = n_formals;
    r->formals = formals;
    r->n_results = (int)graph->n_output;
    r->results = results;
    return MP_OK;
}

/* Adds the subgraphs of a control operator; their names depend on the operator type. */
static mp_status add_regions(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node, const char *name,
                             const mp_onnx_binding *bindings, size_t n_bindings, int *regions)
{
    int kind = find_control(node->op_type);
    for (int k = 0; k < 2 && controls[kind].attributes[k]; k++) {
        const char *attribute = controls[kind].attributes[k];
        const Onnx__AttributeProto *a = mp_onnx_find_binding(bindings, n_bindings, attribute);
        MP_ENSURE(a && a->g, b->err, MP_PARSE, "%s '%s' lacks its subgraph '%s'", node->op_type, name, attribute);
        const char *prefix = mp_onnx_subgraph_prefix(b->model->pool, name, attribute);
        MP_ENSURE(prefix, b->err, MP_NOMEM, "no memory for the subgraph '%s'", attribute);
        MP_CHECK(add_region(b, s, a->g, prefix, &regions[k]));
    }
    return MP_OK;
}

/* Lists the operands of a control operator: the inputs of the node, followed by the results of its regions. */
static mp_status list_operands(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node, const int *regions,
                               int **out, int *n)
{
    MP_OWNED int *own = NULL;
    int *all = NULL;
    const mp_region *of = b->model->regions;
    *n = (int)node->n_input;
    for (int k = 0; k < 2; k++) *n += regions[k] ? of[regions[k]].n_results : 0;
    MP_CHECK(mp_onnx_find_tensors(b, s, node->input, node->n_input, &own));
    MP_ENSURE(all = mp_alloc((size_t)*n, sizeof *all), b->err, MP_NOMEM, "no memory for %d operands", *n);
    int at = 0;
    for (; at < (int)node->n_input; at++) all[at] = own[at];
    for (int k = 0; k < 2; k++)
        for (int j = 0; regions[k] && j < of[regions[k]].n_results; j++) all[at++] = of[regions[k]].results[j];
    *out = all;
    return MP_OK;
}

mp_status mp_onnx_add_control(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node, int version,
                              const mp_onnx_binding *bindings, size_t n_bindings)
{
    MP_OWNED int *in = NULL, *out = NULL;
    int regions[2] = {0, 0}, n_in = 0, index;
    MP_OWNED mp_attribute *attributes = NULL;
    const char *name = node->name && *node->name ? node->name : node->n_output ? node->output[0] : node->op_type;
    const char *own = s->prefix ? mp_onnx_join(b->model->pool, s->prefix, name) : name;
    MP_ENSURE(own && (attributes = mp_alloc(n_bindings, sizeof *attributes)), b->err, MP_NOMEM, "no memory for an operator");
    for (size_t k = 0; k < n_bindings; k++)
        MP_CHECK(mp_onnx_attribute(b->model, bindings[k].attribute, bindings[k].name, own, &attributes[k], b->err));
    MP_CHECK(add_regions(b, s, node, own, bindings, n_bindings, regions));
    MP_CHECK(list_operands(b, s, node, regions, &in, &n_in));
    MP_CHECK(mp_onnx_find_tensors(b, s, node->output, node->n_output, &out));
    mp_operator_draft draft = mp_draft(node->op_type, "", version, in, n_in, attributes, n_bindings);
    draft.name = own;
    draft.out = out;
    draft.n_out = (int)node->n_output;
    MP_CHECK(mp_model_operator(b->model, &draft, &index, b->err));
    mp_operator *op = &b->model->operators[index];
    op->region = s->region;
    op->control = controls[find_control(node->op_type)].control;
    memcpy(op->regions, regions, sizeof regions);
    return MP_OK;
}
