/* onnx_roles.c - decides which tensors from outside are the batch, which are trained, and which are neither.
 *
 * An ONNX file does not say. Initializers are weights, but also running statistics, masks, tables and elements of
 * shapes; and a file without weights ("stripped") lists them as inputs beside the batch. So the roles follow from what
 * the exporter has noted, from how a tensor is used and from its name, by these rules, the first that applies:
 *
 *   inputs       1. named with --data: data (then no other input is)
 *                2. only read as batch normalization's mean and variance: buffer
 *                3. an open dimension: data
 *                4. the file has weights as initializers: data, unless it is called like state ("weight", "bias") or only
 *                   read as a weight while another input has an open dimension
 *                5. other inputs have an open dimension: this one is state (below)
 *                6. every input is fixed: what is only read as a weight is a parameter; what stands behind the first weight
 *                   in the list, what is called like state, a single floating-point number, and what has a leading 1 where
 *                   the first input has a batch, is state; the rest is data
 *   initializers and state
 *                7. integers, booleans: constant (initializers), buffer (inputs); what nothing reads: constant
 *                8. the exporter has noted what it is (onnx_origins.c): that; what it has computed is a parameter if it comes
 *                   from one, else a constant; rule 11 does not apply if it comes from named tensors of which nothing is noted
 *                9. what only sets how operators work (Resize's scales), and a single number that is not called like state
 *                   (CLIP's logit_scale is) in a file whose other initializers are not, either: constant
 *               10. a mask that is only compared; batch normalization that is frozen; sines and cosines of positions; a table
 *                   that many operators add or multiply, or that is called like one (rotary embeddings, masks): buffer
 *               11. called like a value that the exporter has computed (onnx_state_names.c), and not read as a weight: constant
 *               12. otherwise: parameter
 *
 * --train makes a parameter of floating-point state that is none by these rules. Some exporters write weights as
 * Constant operators. Where no tensor is a parameter by these rules, such constants are treated as initializers.
 */
#include "formats/onnx/onnx.h"

#include <fnmatch.h>
#include <string.h>

#include "estimator/model/model.h"
#include "estimator/model/ops.h"

/* How a tensor is read. ROWS is set together with WEIGHT where only some rows of it are read. */
enum { WEIGHT = 1, STATISTIC = 2, SETTING = 4, OTHER = 8, COMPARED = 16, ROWS = 32 };

enum { PASSES_MAX = 4 }; /* number of rearrangements in a row that are always followed */

typedef struct use {
    unsigned how;         /* set of WEIGHT, ... */
    int n_reads, n_table; /* operands that read it; those of them that are in elementwise operators */
} use;

static const mp_op *row_of(const mp_operator *op)
{
    return mp_op_find(op->domain, op->kind, op->version);
}

static unsigned how_read(const mp_operator *op, mp_input_use operand)
{
    static const unsigned how[] = {[MP_USE_UNSTATED] = OTHER,  [MP_USE_NONE] = OTHER,         [MP_USE_OTHER] = OTHER,
                                   [MP_USE_WEIGHT] = WEIGHT,   [MP_USE_ROWS] = WEIGHT | ROWS, [MP_USE_STATISTIC] = STATISTIC,
                                   [MP_USE_SETTING] = SETTING, [MP_USE_TABLE] = OTHER,        [MP_USE_COMPARED] = COMPARED,
                                   [MP_USE_THROUGH] = 0 /* as the output is read: see note_passes */};
    return operand == MP_USE_ROWS && mp_operator_int(op, "axis", 0) != 0 ? OTHER : how[operand];
}

static void note_reads(const mp_operator *op, use *uses)
{
    const mp_op *row = row_of(op);
    for (int k = 0; k < op->n_in; k++) {
        if (op->in[k] < 0) continue;
        use *u = &uses[op->in[k]];
        mp_input_use operand = mp_op_input_of(row, k).use;
        u->n_reads++;
        if (op->control) continue; /* as its regions read it: see note_regions */
        u->n_table += operand == MP_USE_TABLE;
        u->how |= how_read(op, operand);
    }
}

/* Lets operands of a control operator be read as its regions read them, and results of regions as the operator's outputs. */
static void note_regions(const mp_model *model, const mp_operator *op, use *uses)
{
    for (int k = 0; k < 2 && op->regions[k]; k++) {
        const mp_region *r = &model->regions[op->regions[k]];
        for (int j = 0; j < r->n_formals; j++) {
            int input = mp_operator_input_of_formal(model, op, j);
            if (input >= 0) uses[input].how |= uses[r->formals[j]].how;
        }
        for (int j = 0; j < r->n_results; j++) {
            int output = mp_operator_output_of_result(op, j);
            if (output >= 0) uses[r->results[j]].how |= uses[output].how;
        }
    }
}

/* Lets the input of a rearrangement be read as its output. Goes backwards, so that one round is enough for a sorted file. */
static void note_passes(const mp_model *model, use *uses)
{
    for (int round = 0; round < PASSES_MAX; round++) {
        for (size_t n = model->n_operators; n-- > 0;) {
            const mp_operator *op = &model->operators[n];
            note_regions(model, op, uses);
            if (mp_op_input_of(row_of(op), 0).use != MP_USE_THROUGH || op->n_in < 1 || op->in[0] < 0) continue;
            for (int k = 0; k < op->n_out; k++)
                if (op->out[k] >= 0) uses[op->in[0]].how |= uses[op->out[k]].how;
        }
    }
}

static mp_status find_uses(const mp_model *model, use **out, mp_error *err)
{
    use *uses = mp_alloc(model->n_tensors, sizeof *uses);
    if (!uses) return MP_FAIL(err, MP_NOMEM, "no memory for the uses of %zu tensors", model->n_tensors);
    for (size_t k = 0; k < model->n_operators; k++) note_reads(&model->operators[k], uses);
    for (size_t k = 0; k < model->n_outputs; k++) {
        uses[model->outputs[k]].how |= OTHER;
        uses[model->outputs[k]].n_reads++;
    }
    note_passes(model, uses);
    *out = uses;
    return MP_OK;
}

/* Sets a role. A tensor that training changes loses its value, so that it is not folded. */
static void set_role(mp_tensor *t, mp_role role, const char *reason)
{
    t->role = role;
    t->role_reason = reason;
    if (role == MP_ROLE_PARAMETER || role == MP_ROLE_BUFFER) t->value = NULL;
}

/* True for a table that is looked up, not learned. A learned tensor that is added or multiplied has one such reader
 * (position embeddings) or one dimension (biases, scales). */
static bool is_table(const mp_tensor *t, const use *u)
{
    if (mp_onnx_names_table(t->name)) return true;
    if (u->how & WEIGHT) return false;
    int wide = 0;
    for (int k = 0; k < t->rank; k++) wide += t->dims[k] > 1;
    return wide >= 2 && u->n_table >= 2 && u->n_table == u->n_reads && !strstr(t->name, "weight") && !strstr(t->name, "embed");
}

/* True if the elements are in the file and all equal. */
static bool is_uniform(const mp_tensor *t)
{
    const mp_value *v = t->value;
    bool same = v && v->is_real && v->n > 0;
    for (int64_t k = 1; same && k < v->n; k++) same = v->f[k] == v->f[0];
    return same;
}

/* True for (C, 1, 1): one number per channel, as scale and shift of a normalization that is written out. */
static bool is_per_channel(const mp_tensor *t)
{
    int wide = 0;
    for (int k = 0; k < t->rank; k++) wide += t->dims[k] > 1;
    return wide == 1 && t->rank > 1 && t->dims[t->rank - 1] == 1;
}

/* True if the tensor is named like a result of the exporter, and is no weight: all elements are equal (a scale of ones), or
 * only rows of it are read, or it is neither read as a weight (perhaps a transposed one) nor one number per channel. */
static bool is_computed(const mp_tensor *t, const use *u)
{
    if (!mp_onnx_names_result(t->name)) return false;
    if (is_uniform(t)) return true;
    if (u->how & WEIGHT) return u->how & ROWS;
    return !is_per_channel(t);
}

/* Rules 10 to 12, for a floating-point tensor. */
static void choose_state(const mp_model *model, mp_tensor *t, const use *u, mp_onnx_origin origin)
{
    if (u->how == STATISTIC)
        set_role(t, MP_ROLE_BUFFER, "running statistics of batch normalization");
    else if (u->how == COMPARED)
        set_role(t, MP_ROLE_BUFFER, "a mask that is only compared, which has no gradient");
    else if (!(u->how & WEIGHT) && mp_onnx_names_frozen_norm(model, t->name))
        set_role(t, MP_ROLE_BUFFER, "of a batch normalization that is frozen");
    else if (!(u->how & WEIGHT) && mp_onnx_is_sines(t))
        set_role(t, MP_ROLE_BUFFER, "sines and cosines of positions, which are computed");
    else if (is_table(t, u))
        set_role(t, MP_ROLE_BUFFER, "a table that is looked at, not learned");
    else if (origin == MP_ONNX_ORIGIN_OF_STATE)
        set_role(t, MP_ROLE_PARAMETER, "computed from a named tensor, which is taken for a parameter");
    else if (is_computed(t, u))
        set_role(t, MP_ROLE_CONSTANT, "named like a value that the exporter has computed");
    else
        set_role(t, MP_ROLE_PARAMETER, "a floating-point weight");
}

/* Applies rule 8. Returns false where the file says nothing. */
static bool choose_as_noted(mp_tensor *t, const use *u, mp_onnx_origin origin)
{
    static const struct {
        mp_role role;
        const char *reason;
    } noted[] = {[MP_ONNX_ORIGIN_PARAMETER] = {MP_ROLE_PARAMETER, "a parameter, as the exporter has noted"},
                 [MP_ONNX_ORIGIN_OF_PARAMETERS] = {MP_ROLE_PARAMETER, "computed from parameters, as the exporter has noted"},
                 [MP_ONNX_ORIGIN_BUFFER] = {MP_ROLE_BUFFER, "a buffer, as the exporter has noted"},
                 [MP_ONNX_ORIGIN_CONSTANT] = {MP_ROLE_CONSTANT, "a constant, as the exporter has noted"},
                 [MP_ONNX_ORIGIN_OF_CONSTANTS] = {MP_ROLE_CONSTANT, "a constant, as the exporter has noted"}};
    const bool is_statistic = origin == MP_ONNX_ORIGIN_BUFFER && u->how == STATISTIC;
    if (origin == MP_ONNX_ORIGIN_UNSAID || origin == MP_ONNX_ORIGIN_OF_STATE) return false;
    set_role(t, noted[origin].role, is_statistic ? "running statistics of batch normalization" : noted[origin].reason);
    return true;
}

/* Chooses the role of an initializer. `state`: the file's initializers have the names of a state dictionary. */
static void choose_initializer(const mp_model *model, mp_tensor *t, const use *u, mp_onnx_origin origin, bool state)
{
    if (!mp_dtype_is_float(t->dtype))
        set_role(t, MP_ROLE_CONSTANT, "an initializer that is not floating-point");
    else if (!u->n_reads)
        set_role(t, MP_ROLE_CONSTANT, "an initializer that nothing reads");
    else if (choose_as_noted(t, u, origin))
        return;
    else if (t->rank == 0 && !state && !mp_onnx_names_state(t->name) && origin != MP_ONNX_ORIGIN_OF_STATE)
        set_role(t, MP_ROLE_CONSTANT, "an initializer that is a single number");
    else if (u->how == SETTING)
        set_role(t, MP_ROLE_CONSTANT, "an initializer that sets how operators work");
    else
        choose_state(model, t, u, origin);
}

/* True if the tensor is read only as weights are. STATISTIC is allowed: an exporter may merge an equal scale and
 * variance, both all ones. */
static bool is_weight(const mp_tensor *t, const use *u)
{
    return mp_dtype_is_float(t->dtype) && (u->how & WEIGHT) && !(u->how & ~(unsigned)(WEIGHT | ROWS | STATISTIC));
}

static void choose_input_state(const mp_model *model, mp_tensor *t, const use *u)
{
    if (!mp_dtype_is_float(t->dtype))
        set_role(t, MP_ROLE_BUFFER, "an input beside the batch that is not floating-point");
    else
        choose_state(model, t, u, MP_ONNX_ORIGIN_UNSAID);
}

/* Facts about the whole file. */
typedef struct evidence {
    bool weights_inside, open_inputs;
} evidence;

static evidence gather_evidence(const mp_model *model, const use *uses)
{
    evidence e = {0};
    for (size_t k = 0; k < model->n_tensors; k++)
        if (model->tensors[k].role == MP_ROLE_PARAMETER && uses[k].how & WEIGHT) e.weights_inside = true;
    for (size_t k = 0; k < model->n_inputs; k++) e.open_inputs |= model->tensors[model->inputs[k]].rank < 0;
    return e;
}

/* Rule 6: no dimension of any input is open, and the weights are among the inputs. */
static void choose_among_fixed(mp_model *model, const use *uses)
{
    bool behind_weights = false;
    int64_t batch = 0;
    for (size_t k = 0; k < model->n_inputs; k++) {
        mp_tensor *t = &model->tensors[model->inputs[k]];
        const use *u = &uses[model->inputs[k]];
        if (is_weight(t, u)) {
            set_role(t, MP_ROLE_PARAMETER, "an input that is only read as a weight");
            behind_weights = true;
        } else if (u->how == STATISTIC || mp_onnx_names_entry(t->name) || (behind_weights && u->n_reads) ||
                   (batch > 1 && t->rank > 1 && t->dims[0] == 1) || (mp_dtype_is_float(t->dtype) && t->rank == 0)) {
            choose_input_state(model, t, u);
        } else {
            set_role(t, MP_ROLE_DATA, "an input that is not read as a weight");
            if (!batch && t->rank > 0) batch = t->dims[0];
        }
    }
}

static void choose_inputs(mp_model *model, const use *uses)
{
    evidence e = gather_evidence(model, uses);
    if (!e.weights_inside && !e.open_inputs) {
        choose_among_fixed(model, uses);
        return;
    }
    for (size_t k = 0; k < model->n_inputs; k++) {
        mp_tensor *t = &model->tensors[model->inputs[k]];
        const use *u = &uses[model->inputs[k]];
        if (u->how == STATISTIC)
            choose_state(model, t, u, MP_ONNX_ORIGIN_UNSAID);
        else if (t->rank < 0)
            set_role(t, MP_ROLE_DATA, "an input with an open dimension");
        else if (e.weights_inside && !mp_onnx_names_entry(t->name) && !(e.open_inputs && is_weight(t, u)))
            set_role(t, MP_ROLE_DATA, "an input of a file that has its weights as initializers");
        else
            choose_input_state(model, t, u);
    }
}

static mp_status choose_named(mp_model *model, const use *uses, const char *const *data, size_t n_data, mp_error *err)
{
    for (size_t k = 0; k < model->n_inputs; k++)
        choose_input_state(model, &model->tensors[model->inputs[k]], &uses[model->inputs[k]]);
    for (size_t j = 0; j < n_data; j++) {
        mp_tensor *found = NULL;
        for (size_t k = 0; k < model->n_inputs; k++)
            if (!strcmp(model->tensors[model->inputs[k]].name, data[j])) found = &model->tensors[model->inputs[k]];
        MP_ENSURE(found, err, MP_INVALID, "--data names '%s', which is no input of the model (its first input is '%s')",
                  data[j], model->n_inputs ? model->tensors[model->inputs[0]].name : "none");
        set_role(found, MP_ROLE_DATA, "named with --data");
    }
    return MP_OK;
}

/* Turns a Constant operator of floating-point numbers into an initializer. */
static mp_status adopt_constant(mp_model *model, mp_operator *op, const use *uses, mp_error *err)
{
    const mp_attribute *a = mp_operator_attribute(op, "value");
    if (strcmp(op->kind, "Constant") || op->n_out != 1 || op->out[0] < 0 || !a || a->kind != MP_ATTRIBUTE_TENSOR ||
        !mp_dtype_is_float(a->dtype) || a->rank < 1)
        return MP_OK;
    mp_tensor *t = &model->tensors[op->out[0]];
    MP_CHECK(mp_tensor_set(model, op->out[0], a->dtype, a->rank, a->dims, err));
    choose_initializer(model, t, &uses[op->out[0]], MP_ONNX_ORIGIN_UNSAID, false);
    if (t->role == MP_ROLE_CONSTANT) { /* it stays a constant */
        set_role(t, MP_ROLE_ACTIVATION, NULL);
        return MP_OK;
    }
    t->producer = -1;
    op->removed = true;
    return MP_OK;
}

/* Looks for weights among Constant operators, if nothing is trained so far. */
static mp_status adopt_constants(mp_model *model, const use *uses, mp_error *err)
{
    bool weights = false;
    for (size_t k = 0; k < model->n_tensors; k++)
        if (model->tensors[k].role == MP_ROLE_PARAMETER) return MP_OK;
    for (size_t k = 0; k < model->n_operators && !weights; k++) {
        const mp_operator *op = &model->operators[k];
        weights = !strcmp(op->kind, "Constant") && op->n_out == 1 && op->out[0] >= 0 &&
                  (uses[op->out[0]].how & ~(unsigned)ROWS) == WEIGHT;
    }
    for (size_t k = 0; weights && k < model->n_operators; k++) MP_CHECK(adopt_constant(model, &model->operators[k], uses, err));
    return MP_OK;
}

/* Applies --train: state and constants of these names become parameters. */
static mp_status train_named(mp_model *model, const mp_onnx_options *options, mp_error *err)
{
    for (size_t p = 0; p < options->n_train; p++) {
        bool any = false;
        for (size_t k = 0; k < model->n_tensors; k++) {
            mp_tensor *t = &model->tensors[k];
            if (t->producer >= 0 || t->role == MP_ROLE_ACTIVATION || t->role == MP_ROLE_DATA || !mp_dtype_is_float(t->dtype) ||
                fnmatch(options->train[p], t->name, 0))
                continue;
            if (t->role != MP_ROLE_PARAMETER) set_role(t, MP_ROLE_PARAMETER, "named with --train");
            any = true;
        }
        MP_ENSURE(any, err, MP_INVALID, "--train '%s' is the name of no floating-point initializer", options->train[p]);
    }
    return MP_OK;
}

/* Counts the vectors that several operators read: in a file without signature equal ones may have been merged. */
static mp_status doubt_shared(mp_model *model, const use *uses, mp_error *err)
{
    for (size_t k = 0; k < model->n_tensors; k++) {
        const mp_tensor *t = &model->tensors[k];
        const int others = uses[k].n_reads - 1;
        if (t->role == MP_ROLE_PARAMETER && t->rank == 1 && others > 0)
            MP_CHECK(mp_model_doubt(model, MP_DOUBT_SHARED, t->name, others * mp_tensor_elements(t), err));
    }
    return MP_OK;
}

mp_status mp_onnx_roles(mp_model *model, const mp_onnx_origins *origins, const mp_onnx_options *options, mp_error *err)
{
    MP_OWNED use *uses = NULL;
    bool any_data = false;
    const bool is_state = mp_onnx_is_state_dictionary(model);
    MP_CHECK(find_uses(model, &uses, err));
    for (size_t k = 0; k < model->n_tensors; k++)
        if (model->tensors[k].role == MP_ROLE_CONSTANT)
            choose_initializer(model, &model->tensors[k], &uses[k], origins->of[k], is_state);
    if (options->n_data)
        MP_CHECK(choose_named(model, uses, options->data, options->n_data, err));
    else
        choose_inputs(model, uses);
    for (size_t k = 0; k < model->n_inputs; k++) any_data |= model->tensors[model->inputs[k]].role == MP_ROLE_DATA;
    if (!any_data && model->n_inputs)
        set_role(&model->tensors[model->inputs[0]], MP_ROLE_DATA, "the first input, as no other looks like the batch");
    MP_CHECK(adopt_constants(model, uses, err));
    if (origins->is_unsigned) MP_CHECK(doubt_shared(model, uses, err));
    return train_named(model, options, err);
}
