/* onnx_nodes.c - converts nodes to operators, with functions inlined.
 *
 * A function call is replaced by the function's nodes. The inputs and outputs of the function are replaced by the tensors of
 * the call. Every other tensor of the function becomes a new tensor named CALL/NAME. An attribute that refers to an
 * attribute of the function (ref_attr_name) gets the call's value, else the function's default, else it is omitted.
 * Functions may call other functions, but not themselves. If each of ten functions calls the next one ten times, ten
 * thousand million nodes result. The work of inlining is therefore limited. */
#include "formats/onnx/onnx.h"

#include <string.h>

#include "estimator/model/ops.h"
#include "formats/onnx/onnx_tensor.h"
#include "formats/onnx/onnx_weights.h"
#include "formats/onnx/scan/onnx_scan.h"

enum {
    CALLS_MAX = 1 << 17,
    INLINE_WORK_MAX =
        1
        << 24 /* limit of the operands, attributes, elements and bytes of names that functions and subgraphs may add in total */
};

const char *mp_onnx_text(const char *s)
{
    return s ? s : "";
}

mp_status mp_onnx_charge(mp_onnx_builder *b, int64_t work)
{
    b->work += work;
    if (b->work <= INLINE_WORK_MAX && b->n_calls <= CALLS_MAX && b->model->n_operators <= MP_ONNX_NODES_MAX) return MP_OK;
    return MP_FAIL(b->err, MP_PARSE, "inlining the file's functions makes the graph too large");
}

mp_status mp_onnx_define_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index)
{
    const char *own = mp_onnx_join(b->model->pool, s->prefix, name);
    MP_ENSURE(own, b->err, MP_NOMEM, "no memory for the tensor '%s'", name);
    MP_CHECK(mp_onnx_charge(b, (int64_t)strlen(own) + 1));
    MP_CHECK(mp_model_fresh_tensor(b->model, own, index, b->err));
    MP_ENSURE(mp_names_set(s->tensors, name, *index), b->err, MP_NOMEM, "no memory for the tensor '%s'", name);
    return MP_OK;
}

mp_status mp_onnx_check_values(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int index)
{
    const char *own = mp_onnx_join(b->model->pool, s->prefix, name), *given = b->model->tensors[index].name;
    if (!own) return MP_FAIL(b->err, MP_NOMEM, "no memory for the tensor '%s'", name);
    if (!strcmp(own, given)) return MP_OK;
    return MP_FAIL(b->err, MP_UNSUPPORTED,
                   "the file has two large tensors '%s', since two nodes with subgraphs have the same name", own);
}

mp_status mp_onnx_find_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index)
{
    *index = -1;
    if (!*name) return MP_OK;
    for (; s->tensors; s = s->visible) {
        int found = mp_names_find(s->tensors, name);
        if (found == MP_ONNX_LEFT_OUT) return MP_OK;
        *index = found;
        if (found >= 0) return MP_OK;
        if (!s->visible) return mp_onnx_define_tensor(b, s, name, index);
    }
    return mp_model_tensor(b->model, name, index, b->err);
}

mp_status mp_onnx_find_tensors(mp_onnx_builder *b, const mp_onnx_scope *s, char *const *names, size_t n, int **out)
{
    MP_OWNED int *list = mp_alloc(n, sizeof *list);
    MP_ENSURE(list, b->err, MP_NOMEM, "no memory for %zu operands", n);
    for (size_t k = 0; k < n; k++) MP_CHECK(mp_onnx_find_tensor(b, s, mp_onnx_text(names[k]), &list[k]));
    *out = list;
    list = NULL;
    return MP_OK;
}

const Onnx__AttributeProto *mp_onnx_find_binding(const mp_onnx_binding *list, size_t n, const char *name)
{
    for (size_t k = 0; k < n; k++)
        if (!strcmp(list[k].name, name)) return list[k].attribute;
    return NULL;
}

enum { ATTRIBUTES_MAX = 128 }; /* maximum number of attributes per node */

/* Collects the attributes of a node. References to attributes of the function are replaced by their values; attributes
 * without a value are omitted. `list` has space for all. */
static mp_status bind_attributes(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node, mp_onnx_binding *list,
                                 size_t *n)
{
    *n = 0;
    for (size_t k = 0; k < node->n_attribute; k++) {
        const Onnx__AttributeProto *a = node->attribute[k];
        MP_ENSURE(a->name && *a->name, b->err, MP_PARSE, "%s '%s' has an attribute without a name", node->op_type,
                  mp_onnx_text(node->name));
        MP_ENSURE(!mp_onnx_find_binding(list, *n, a->name), b->err, MP_PARSE, "%s '%s' has two attributes '%s'", node->op_type,
                  mp_onnx_text(node->name), a->name);
        const char *name = a->name;
        if (a->ref_attr_name && *a->ref_attr_name) {
            MP_ENSURE(s->function, b->err, MP_PARSE, "%s '%s' refers to an attribute '%s', but is not in a function",
                      node->op_type, mp_onnx_text(node->name), a->ref_attr_name);
            a = mp_onnx_find_binding(s->attributes, s->n_attributes, a->ref_attr_name);
            if (!a) continue;
        }
        list[(*n)++] = (mp_onnx_binding){name, a};
    }
    return MP_OK;
}

/* Returns the number of elements that a copy of an attribute would add. */
static int64_t attribute_work(const mp_attribute *a)
{
    return 1 + (int64_t)a->n + (a->value ? a->value->n : 0) + (a->text ? (int64_t)strlen(a->text) : 0);
}

/* Adds one ONNX node to the model as an operator. */
static mp_status add_operator(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node, int version,
                              const mp_onnx_binding *bindings, size_t n_bindings)
{
    mp_model *model = b->model;
    MP_OWNED int *in = NULL, *out = NULL;
    int index;
    MP_OWNED mp_attribute *attributes = NULL;
    const char *name = mp_onnx_text(node->name), *own = name;
    if (s->prefix && *name) own = mp_onnx_join(model->pool, s->prefix, name);
    const char *what =
        mp_pool_format(model->pool, "%s '%s'", node->op_type, *name || !node->n_output ? mp_onnx_text(own) : node->output[0]);
    MP_ENSURE(own && what && (attributes = mp_alloc(n_bindings, sizeof *attributes)), b->err, MP_NOMEM,
              "no memory for an operator of kind %s", node->op_type);
    int64_t work = 1 + (int64_t)(node->n_input + node->n_output + strlen(own));
    for (size_t k = 0; k < n_bindings; k++) {
        MP_ENSURE(!bindings[k].attribute->g || !mp_op_find(mp_onnx_domain(node->domain), node->op_type, version), b->err,
                  MP_PARSE, "%s has the subgraph '%s', but operators of this kind have none", what, bindings[k].name);
        MP_CHECK(mp_onnx_attribute(model, bindings[k].attribute, bindings[k].name, what, &attributes[k], b->err));
        work += attribute_work(&attributes[k]);
    }
    if (s->prefix) MP_CHECK(mp_onnx_charge(b, work));
    MP_CHECK(mp_onnx_find_tensors(b, s, node->input, node->n_input, &in));
    MP_CHECK(mp_onnx_find_tensors(b, s, node->output, node->n_output, &out));
    mp_operator_draft draft =
        mp_draft(node->op_type, mp_onnx_domain(node->domain), version, in, (int)node->n_input, attributes, n_bindings);
    draft.name = own;
    draft.out = out;
    draft.n_out = (int)node->n_output;
    MP_CHECK(mp_model_operator(model, &draft, &index, b->err));
    /* a Constant has the same value in every iteration, so it is placed in the main graph */
    bool is_constant = !strcmp(draft.kind, "Constant") && !*draft.domain;
    model->operators[index].region = is_constant ? 0 : s->region;
    if (is_constant && s->visible && n_bindings && attributes[0].kind == MP_ATTRIBUTE_TENSOR && !attributes[0].value)
        MP_CHECK(mp_onnx_check_values(b, s, mp_onnx_text(node->output[0]), out[0]));
    return MP_OK;
}

/* Adds an Identity from one tensor to another. It is needed because a function may return one of its inputs, or one tensor
 * as two outputs. */
static mp_status add_identity(mp_onnx_builder *b, int region, int from, int to)
{
    int index;
    const mp_operator_draft draft = {
        .kind = "Identity", .domain = "", .version = 1, .in = &from, .n_in = 1, .out = &to, .n_out = 1};
    mp_status st = mp_model_operator(b->model, &draft, &index, b->err);
    if (st == MP_OK) b->model->operators[index].region = region;
    return st;
}

/* Binds the input names of a function to the tensors `in`, and the output names to `out`. If an output name is bound
 * already, the output is marked in `copied`, and an Identity copies it later. */
static mp_status bind_formals(mp_onnx_builder *b, mp_onnx_scope *s, const int *in, size_t n_in, const int *out, size_t n_out,
                              bool *copied)
{
    const Onnx__FunctionProto *f = s->function->proto;
    for (size_t k = 0; k < f->n_input; k++) {
        if (mp_names_find(s->tensors, mp_onnx_text(f->input[k])) != -1)
            return MP_FAIL(b->err, MP_PARSE, "function '%s' has two inputs '%s'", f->name, mp_onnx_text(f->input[k]));
        if (!mp_names_set(s->tensors, mp_onnx_text(f->input[k]), k < n_in && in[k] >= 0 ? in[k] : MP_ONNX_LEFT_OUT))
            return MP_FAIL(b->err, MP_NOMEM, "no memory for a call of '%s'", f->name);
    }
    for (size_t k = 0; k < f->n_output; k++) {
        if (k >= n_out || out[k] < 0) continue;
        copied[k] = mp_names_find(s->tensors, mp_onnx_text(f->output[k])) != -1;
        if (!copied[k] && !mp_names_set(s->tensors, mp_onnx_text(f->output[k]), out[k]))
            return MP_FAIL(b->err, MP_NOMEM, "no memory for a call of '%s'", f->name);
    }
    return MP_OK;
}

static mp_status check_call(const mp_onnx_builder *b, const mp_onnx_scope *s, const mp_onnx_function *function,
                            const Onnx__NodeProto *node)
{
    const Onnx__FunctionProto *f = function->proto;
    for (const mp_onnx_scope *o = s; o; o = o->outer)
        if (o->function == function) return MP_FAIL(b->err, MP_PARSE, "function '%s' calls itself", f->name);
    MP_ENSURE(s->depth < MP_ONNX_CALL_DEPTH_MAX, b->err, MP_PARSE, "functions call each other more than %d deep, at '%s'",
              MP_ONNX_CALL_DEPTH_MAX, f->name);
    MP_ENSURE(node->n_input <= f->n_input && node->n_output <= f->n_output, b->err, MP_PARSE,
              "%s '%s' gives function '%s' %zu inputs and %zu outputs, but it has %zu and %zu", node->op_type,
              mp_onnx_text(node->name), f->name, node->n_input, node->n_output, f->n_input, f->n_output);
    return MP_OK;
}

/* Replaces a call by the nodes of the function. */
static mp_status inline_call(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node,
                             const mp_onnx_function *function, const mp_onnx_binding *given, size_t n_given)
{
    const Onnx__FunctionProto *f = function->proto;
    MP_OWNED int *in = NULL, *out = NULL;
    MP_OWNED bool *copied = NULL;
    MP_OWNED mp_onnx_binding *bindings = NULL;
    const char *name = node->name && *node->name ? node->name : f->name;
    MP_CLEARED_BY(mp_onnx_scope_free)
    mp_onnx_scope inner = {.outer = s, .depth = s->depth + 1, .region = s->region, .function = function};
    MP_CHECK(check_call(b, s, function, node));
    b->n_calls++;
    MP_CHECK(mp_onnx_charge(b, 1 + (int64_t)(f->n_input + f->n_output + strlen(name)) +
                                   (s->prefix ? (int64_t)strlen(s->prefix) : 0)));
    inner.prefix = s->prefix ? mp_onnx_join(b->model->pool, s->prefix, name) : name;
    MP_ENSURE(inner.prefix && (inner.tensors = mp_names_new()) && (copied = mp_alloc(f->n_output, sizeof *copied)) &&
                  (bindings = mp_alloc(n_given + function->n_defaults, sizeof *bindings)),
              b->err, MP_NOMEM, "no memory for a call of '%s'", f->name);
    if (n_given) memcpy(bindings, given, n_given * sizeof *given);
    inner.n_attributes = n_given;
    for (size_t k = 0; k < function->n_defaults; k++) {
        const Onnx__AttributeProto *a = function->defaults[k];
        if (a->name && !mp_onnx_find_binding(given, n_given, a->name))
            bindings[inner.n_attributes++] = (mp_onnx_binding){a->name, a};
    }
    inner.attributes = bindings;
    MP_CHECK(mp_onnx_find_tensors(b, s, node->input, node->n_input, &in));
    MP_CHECK(mp_onnx_find_tensors(b, s, node->output, node->n_output, &out));
    MP_CHECK(bind_formals(b, &inner, in, node->n_input, out, node->n_output, copied));
    MP_CHECK(b->add_nodes(b, &inner, f->node, f->n_node));
    for (size_t k = 0; k < f->n_output; k++) {
        int from;
        if (!copied[k]) continue;
        MP_CHECK(mp_onnx_find_tensor(b, &inner, mp_onnx_text(f->output[k]), &from));
        MP_ENSURE(from >= 0, b->err, MP_PARSE, "function '%s' passes on its input '%s', which the call '%s' omits", f->name,
                  mp_onnx_text(f->output[k]), name);
        MP_CHECK(add_identity(b, s->region, from, out[k]));
    }
    return MP_OK;
}

/* Returns the version of an operator set that the scope imports; 0: not imported. */
static int imported_version(const mp_onnx_builder *b, const mp_onnx_scope *s, const char *domain)
{
    const Onnx__FunctionProto *f = s->function ? s->function->proto : NULL;
    int version = f ? mp_onnx_version(f->opset_import, f->n_opset_import, domain) : 0;
    if (!version) version = mp_onnx_version(b->file->opset_import, b->file->n_opset_import, domain);
    bool imports_by_default = b->file->ir_version < 3 &&
                              !*domain; /* files before format version 3 do not state operator sets; they use operator set 1 */
    return version || !imports_by_default ? version : 1;
}

static mp_status add_node(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node)
{
    const mp_onnx_function *function = NULL;
    MP_OWNED mp_onnx_binding *bindings = NULL;
    size_t n_bindings;
    MP_ENSURE(node->op_type && *node->op_type, b->err, MP_PARSE, "node '%s' does not name its operator",
              mp_onnx_text(node->name));
    MP_ENSURE(node->n_attribute <= ATTRIBUTES_MAX, b->err, MP_PARSE, "%s '%s' has more than %d attributes", node->op_type,
              mp_onnx_text(node->name), ATTRIBUTES_MAX);
    MP_ENSURE(bindings = mp_alloc(node->n_attribute, sizeof *bindings), b->err, MP_NOMEM, "no memory for attributes of '%s'",
              mp_onnx_text(node->name));
    MP_CHECK(bind_attributes(b, s, node, bindings, &n_bindings));
    const char *domain = mp_onnx_domain(node->domain);
    int version = imported_version(b, s, domain);
    bool is_known = version && mp_op_find(domain, node->op_type, version);
    if (!is_known) MP_CHECK(mp_onnx_function_of(&b->functions, node, &function, b->err));
    if (function) {
        MP_CHECK(inline_call(b, s, node, function, bindings, n_bindings));
    } else {
        MP_ENSURE(version, b->err, MP_PARSE,
                  "operator %s.%s (node '%s') belongs to an operator set that the file does not import",
                  *domain ? domain : "ai.onnx", node->op_type, mp_onnx_text(node->name));
        if (mp_onnx_is_control(domain, node->op_type))
            MP_CHECK(mp_onnx_add_control(b, s, node, version, bindings, n_bindings));
        else
            MP_CHECK(add_operator(b, s, node, version, bindings, n_bindings));
    }
    return MP_OK;
}

static mp_status add_nodes(mp_onnx_builder *b, const mp_onnx_scope *s, Onnx__NodeProto *const *nodes, size_t n)
{
    for (size_t k = 0; k < n; k++) MP_CHECK(add_node(b, s, nodes[k]));
    return MP_OK;
}

mp_status mp_onnx_nodes(mp_model *model, const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_error *err)
{
    MP_CLEARED_BY(mp_onnx_functions_free) mp_onnx_functions functions = {0};
    const mp_onnx_scope graph = {0};
    MP_CHECK(mp_onnx_functions_read(file, budget, &functions, err));
    mp_onnx_builder b = {.model = model, .add_nodes = add_nodes, .file = file, .functions = functions, .err = err};
    return add_nodes(&b, &graph, file->graph->node, file->graph->n_node);
}
