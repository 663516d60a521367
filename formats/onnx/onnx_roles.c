/* onnx_roles.c - decides the roles of tensors that no operator computes: which are the batch, which are trained, and which are
 * neither.
 *
 * An ONNX file does not state the roles. Initializers may be weights, running statistics, masks, tables or elements of shapes.
 * A file without weights ("stripped") lists the weights as inputs beside the batch. The roles are therefore derived from the
 * exporter's metadata, the use of a tensor and its name. Each tensor gets the role of the first rule that applies. A name is
 * "like state" if it ends like an entry of a PyTorch state dictionary ("weight", "bias").
 *
 * Rules for inputs; "state" means that rules 7 to 12 decide:
 *
 *      1. The user has named the input with --data: data. No other input is data then.
 *      2. Batch normalizations read it as mean or variance, and no other operator reads it: buffer.
 *      3. It has an open dimension: data.
 *      4. The file has weights as initializers: data. There are two exceptions: the name of the input is like state; or all
 *         operators read it as a weight, and another input has an open dimension.
 *      5. Another input has an open dimension: state.
 *      6. The dimensions of all inputs are fixed:
 *         - an input that all operators read as a weight is a parameter;
 *         - an input after the first such weight in the list, or with a name like state, is state;
 *         - if the file has such inputs, a floating-point scalar is state too;
 *         - so is an input with leading dimension 1, if the first input has a batch dimension there;
 *         - all other inputs are data.
 *
 * Rules for initializers and state:
 *
 *      7. Integers and booleans: constant for an initializer, buffer for an input. A tensor that no operator reads: constant.
 *      8. The exporter has recorded the role (onnx_origins.c): this role. If the exporter has computed the tensor, it is a
 *         parameter if a parameter was among the sources, else a constant. If the sources are known by name only, and not
 *         whether they are parameters, rule 11 is skipped.
 *      9. Settings of operators, such as the scales of Resize: constant. A scalar is a constant in two cases: it scales scores
 *         before a softmax; or neither its name nor the names of the other initializers are like state. (CLIP's logit_scale
 *         has a name like state.)
 *     10. Buffers: a mask that is only compared; a frozen batch normalization; sines and cosines of positions; a table that
 *         many operators add or multiply, or whose name is like a table's (rotary embeddings, masks).
 *     11. The exporter generates such names for computed values (onnx_state_names.c), and the tensor is not read as a weight:
 *         constant.
 *     12. All other tensors: parameter.
 *
 * --train makes a parameter of other floating-point state, including constants that operators write. Some exporters write
 * weights as such constants. If these have more elements than the weights among initializers and inputs, they are treated as
 * initializers (onnx_roles_constants.c). */
#include "formats/onnx/onnx.h"

#include <fnmatch.h>
#include <string.h>

#include "estimator/model/model.h"
#include "estimator/model/ops.h"

/* Sets the role of a tensor. If training changes the tensor, its value is removed, so that it is not folded. */
void mp_onnx_set_role(mp_tensor *t, mp_role role, const char *reason)
{
    t->role = role;
    t->role_reason = reason;
    if (role == MP_ROLE_PARAMETER || role == MP_ROLE_BUFFER) t->value = NULL;
}

/* True for a table that is looked up, not learned: many operators add or multiply it. A learned tensor has only one such
 * reader (position embeddings), or has one dimension (biases, scales). */
static bool is_table(const mp_tensor *t, const mp_onnx_use *u)
{
    if (mp_onnx_names_table(t->name)) return true;
    if (u->how & MP_ONNX_READ_WEIGHT) return false;
    int wide = 0;
    for (int k = 0; k < t->rank; k++) wide += t->dims[k] > 1;
    return wide >= 2 && u->n_table >= 2 && u->n_table == u->n_reads && !strstr(t->name, "weight") && !strstr(t->name, "embed");
}

/* True if the file contains the elements of the tensor and they are all equal. */
bool mp_onnx_is_uniform(const mp_tensor *t)
{
    const mp_value *v = t->value;
    bool same = v && v->is_real && v->n > 0;
    for (int64_t k = 1; same && k < v->n; k++) same = v->f[k] == v->f[0];
    return same;
}

/* True for the shape (C, 1, 1): one number per channel, like scale and shift of a normalization that is written as
 * arithmetic. */
static bool is_per_channel(const mp_tensor *t)
{
    int wide = 0;
    for (int k = 0; k < t->rank; k++) wide += t->dims[k] > 1;
    return wide == 1 && t->rank > 1 && t->dims[t->rank - 1] == 1;
}

/* True if the tensor has a name that the exporter generates for results, and is not a weight. One of three conditions shows
 * that it is no weight. Its elements are all equal (a scale of ones). Only some of its rows are read. Or it is not read as a
 * weight (not even transposed) and does not have one number per channel. */
static bool is_computed(const mp_tensor *t, const mp_onnx_use *u)
{
    if (!mp_onnx_names_result(t->name)) return false;
    if (mp_onnx_is_uniform(t)) return true;
    if (u->how & MP_ONNX_READ_WEIGHT) return u->how & MP_ONNX_READ_ROWS;
    return !is_per_channel(t);
}

/* Applies rules 10 to 12 of the file's header comment to a floating-point tensor. */
static void choose_state(const mp_model *model, mp_tensor *t, const mp_onnx_use *u, mp_onnx_origin origin)
{
    if (u->how == MP_ONNX_READ_STATISTIC)
        mp_onnx_set_role(t, MP_ROLE_BUFFER, "running statistics of batch normalization");
    else if (u->how == MP_ONNX_READ_COMPARED)
        mp_onnx_set_role(t, MP_ROLE_BUFFER, "a mask that is only compared, which has no gradient");
    else if (!(u->how & MP_ONNX_READ_WEIGHT) && mp_onnx_names_frozen_norm(model, t->name))
        mp_onnx_set_role(t, MP_ROLE_BUFFER, "of a batch normalization that is frozen");
    else if (!(u->how & MP_ONNX_READ_WEIGHT) && mp_onnx_is_sines(t))
        mp_onnx_set_role(t, MP_ROLE_BUFFER, "sines and cosines of positions, which are computed");
    else if (is_table(t, u))
        mp_onnx_set_role(t, MP_ROLE_BUFFER, "a table that is looked at, not learned");
    else if (origin == MP_ONNX_ORIGIN_OF_STATE)
        mp_onnx_set_role(t, MP_ROLE_PARAMETER, "computed from a named tensor, which is taken for a parameter");
    else if (is_computed(t, u))
        mp_onnx_set_role(t, MP_ROLE_CONSTANT, "named like a value that the exporter has computed");
    else
        mp_onnx_set_role(t, MP_ROLE_PARAMETER, "a floating-point weight");
}

/* Applies rule 8 of the file's header comment. Returns false if the exporter has recorded nothing. */
static bool choose_as_noted(mp_tensor *t, const mp_onnx_use *u, mp_onnx_origin origin)
{
    static const struct {
        mp_role role;
        const char *reason;
    } noted[] = {[MP_ONNX_ORIGIN_PARAMETER] = {MP_ROLE_PARAMETER, "a parameter, as the exporter has noted"},
                 [MP_ONNX_ORIGIN_OF_PARAMETERS] = {MP_ROLE_PARAMETER, "computed from parameters, as the exporter has noted"},
                 [MP_ONNX_ORIGIN_BUFFER] = {MP_ROLE_BUFFER, "a buffer, as the exporter has noted"},
                 [MP_ONNX_ORIGIN_CONSTANT] = {MP_ROLE_CONSTANT, "a constant, as the exporter has noted"},
                 [MP_ONNX_ORIGIN_OF_CONSTANTS] = {MP_ROLE_CONSTANT, "a constant, as the exporter has noted"}};
    const bool is_statistic = origin == MP_ONNX_ORIGIN_BUFFER && u->how == MP_ONNX_READ_STATISTIC;
    if (origin == MP_ONNX_ORIGIN_UNSAID || origin == MP_ONNX_ORIGIN_OF_STATE) return false;
    mp_onnx_set_role(t, noted[origin].role, is_statistic ? "running statistics of batch normalization" : noted[origin].reason);
    return true;
}

/* ---- helper functions of the rules for initializers ---- */
/* True for a tensor with exactly one element, of any rank. */
static bool is_single(const mp_tensor *t)
{
    return t->rank >= 0 && mp_tensor_elements(t) == 1;
}

/* True for a scalar that is no bias. A tensor with dimensions and one element may be the bias of a layer with one output. */
static bool is_number(const mp_tensor *t, const mp_onnx_use *u)
{
    return t->rank == 0 || (is_single(t) && u->n_factor == u->n_reads && !mp_onnx_names_entry(t->name));
}

static bool scales_scores(const mp_onnx_use *u)
{
    return u->n_scaling == u->n_reads;
}

void mp_onnx_choose_initializer(const mp_model *model, mp_tensor *t, const mp_onnx_use *u, mp_onnx_origin origin, bool state)
{
    if (!mp_dtype_is_float(t->dtype))
        mp_onnx_set_role(t, MP_ROLE_CONSTANT, "an initializer that is not floating-point");
    else if (!u->n_reads)
        mp_onnx_set_role(t, MP_ROLE_CONSTANT, "an initializer that nothing reads");
    else if (choose_as_noted(t, u, origin))
        return;
    else if (is_single(t) && scales_scores(u) && !mp_onnx_names_state(t->name) && origin != MP_ONNX_ORIGIN_OF_STATE)
        mp_onnx_set_role(t, MP_ROLE_CONSTANT, "a single number that scales scores before a softmax");
    else if (is_number(t, u) && !state && !mp_onnx_names_state(t->name) && origin != MP_ONNX_ORIGIN_OF_STATE)
        mp_onnx_set_role(t, MP_ROLE_CONSTANT, "an initializer that is a single number");
    else if (u->how == MP_ONNX_READ_SETTING)
        mp_onnx_set_role(t, MP_ROLE_CONSTANT, "an initializer that sets how operators work");
    else
        choose_state(model, t, u, origin);
}

/* True if all operators read the tensor as a weight. They may also read it as a statistic, because an exporter may merge a
 * scale and a variance if both are all ones. */
bool mp_onnx_is_weight(const mp_tensor *t, const mp_onnx_use *u)
{
    return mp_dtype_is_float(t->dtype) && (u->how & MP_ONNX_READ_WEIGHT) &&
           !(u->how & ~(unsigned)(MP_ONNX_READ_WEIGHT | MP_ONNX_READ_ROWS | MP_ONNX_READ_STATISTIC));
}

static void choose_input_state(const mp_model *model, mp_tensor *t, const mp_onnx_use *u)
{
    if (!mp_dtype_is_float(t->dtype))
        mp_onnx_set_role(t, MP_ROLE_BUFFER, "an input beside the batch that is not floating-point");
    else
        choose_state(model, t, u, MP_ONNX_ORIGIN_UNSAID);
}

/* Facts about the whole file on which the rules depend. */
typedef struct evidence {
    bool weights_inside, open_inputs;
} evidence;

static evidence gather_evidence(const mp_model *model, const mp_onnx_use *uses)
{
    evidence e = {0};
    for (size_t k = 0; k < model->n_tensors; k++)
        if (model->tensors[k].role == MP_ROLE_PARAMETER && uses[k].how & MP_ONNX_READ_WEIGHT) e.weights_inside = true;
    for (size_t k = 0; k < model->n_inputs; k++) e.open_inputs |= model->tensors[model->inputs[k]].rank < 0;
    return e;
}

/* True for a floating-point scalar, and for an input with leading dimension 1 if the first input has a batch dimension
 * there. */
static bool looks_like_state(const mp_tensor *t, int64_t batch)
{
    return (batch > 1 && t->rank > 1 && t->dims[0] == 1) || (mp_dtype_is_float(t->dtype) && t->rank == 0);
}

/* Applies rule 6 of the file's header comment: sets the roles of all inputs, if all dimensions of all inputs are fixed and no
 * initializer is a weight. */
static void choose_among_fixed(mp_model *model, const mp_onnx_use *uses)
{
    bool behind_weights = false, is_stripped = false;
    int64_t batch = 0;
    for (size_t k = 0; k < model->n_inputs; k++) {
        const mp_tensor *t = &model->tensors[model->inputs[k]];
        is_stripped |= mp_onnx_is_weight(t, &uses[model->inputs[k]]) || mp_onnx_names_entry(t->name);
    }
    for (size_t k = 0; k < model->n_inputs; k++) {
        mp_tensor *t = &model->tensors[model->inputs[k]];
        const mp_onnx_use *u = &uses[model->inputs[k]];
        if (mp_onnx_is_weight(t, u)) {
            mp_onnx_set_role(t, MP_ROLE_PARAMETER, "an input that is only read as a weight");
            behind_weights = true;
        } else if (u->how == MP_ONNX_READ_STATISTIC || mp_onnx_names_entry(t->name) || (behind_weights && u->n_reads) ||
                   (is_stripped && looks_like_state(t, batch))) {
            choose_input_state(model, t, u);
        } else {
            mp_onnx_set_role(t, MP_ROLE_DATA, "an input that is not read as a weight");
            if (!batch && t->rank > 0) batch = t->dims[0];
        }
    }
}

static void choose_inputs(mp_model *model, const mp_onnx_use *uses)
{
    evidence e = gather_evidence(model, uses);
    if (!e.weights_inside && !e.open_inputs) {
        choose_among_fixed(model, uses);
        return;
    }
    for (size_t k = 0; k < model->n_inputs; k++) {
        mp_tensor *t = &model->tensors[model->inputs[k]];
        const mp_onnx_use *u = &uses[model->inputs[k]];
        if (u->how == MP_ONNX_READ_STATISTIC)
            choose_state(model, t, u, MP_ONNX_ORIGIN_UNSAID);
        else if (t->rank < 0)
            mp_onnx_set_role(t, MP_ROLE_DATA, "an input with an open dimension");
        else if (e.weights_inside && !mp_onnx_names_entry(t->name) && !(e.open_inputs && mp_onnx_is_weight(t, u)))
            mp_onnx_set_role(t, MP_ROLE_DATA, "an input of a file that has its weights as initializers");
        else
            choose_input_state(model, t, u);
    }
}

static mp_status choose_named(mp_model *model, const mp_onnx_use *uses, const char *const *data, size_t n_data, mp_error *err)
{
    for (size_t k = 0; k < model->n_inputs; k++)
        choose_input_state(model, &model->tensors[model->inputs[k]], &uses[model->inputs[k]]);
    for (size_t j = 0; j < n_data; j++) {
        mp_tensor *found = NULL;
        for (size_t k = 0; k < model->n_inputs; k++)
            if (!strcmp(model->tensors[model->inputs[k]].name, data[j])) found = &model->tensors[model->inputs[k]];
        MP_ENSURE(found, err, MP_INVALID, "--data: the model has no input '%s' (its first input is '%s')", data[j],
                  model->n_inputs ? model->tensors[model->inputs[0]].name : "none");
        mp_onnx_set_role(found, MP_ROLE_DATA, "named with --data");
    }
    return MP_OK;
}

/* Applies --train: parameters, buffers and constants with matching names become parameters. */
static mp_status train_named(mp_model *model, const mp_onnx_use *uses, const mp_onnx_options *options, mp_error *err)
{
    for (size_t p = 0; p < options->n_train; p++) {
        bool any = false;
        MP_CHECK(mp_onnx_roles_adopt_named(model, uses, options->train[p], &any, err));
        for (size_t k = 0; k < model->n_tensors; k++) {
            mp_tensor *t = &model->tensors[k];
            if (t->producer >= 0 || t->role == MP_ROLE_ACTIVATION || t->role == MP_ROLE_DATA || !mp_dtype_is_float(t->dtype) ||
                fnmatch(options->train[p], t->name, 0))
                continue;
            if (t->role != MP_ROLE_PARAMETER) mp_onnx_set_role(t, MP_ROLE_PARAMETER, "named with --train");
            any = true;
        }
        MP_ENSURE(any, err, MP_INVALID, "--train: there is no floating-point initializer or constant '%s'", options->train[p]);
    }
    return MP_OK;
}

/* Counts the vectors that several operators read, in a file without signature. The exporter may have merged equal vectors. */
static mp_status doubt_shared(mp_model *model, const mp_onnx_use *uses, mp_error *err)
{
    for (size_t k = 0; k < model->n_tensors; k++) {
        const mp_tensor *t = &model->tensors[k];
        const int others = uses[k].n_reads - 1;
        if (t->role == MP_ROLE_PARAMETER && t->rank == 1 && others > 0)
            MP_CHECK(mp_model_doubt(model, MP_DOUBT_SHARED, t->name, others * mp_tensor_elements(t), err));
    }
    return MP_OK;
}

/* True for the shape (C, 1, 1) or (C, 1), in which the older exporter stores scale and shift of a group normalization. */
static bool is_unfolded_vector(const mp_tensor *t)
{
    return is_per_channel(t) && t->dims[0] > 1;
}

/* Counts the tensors with generated names whose origin the file does not state. Constant folding may have renamed a
 * parameter, or computed the tensor from a parameter, or from buffers. Call before roles are chosen, because values are
 * required. */
static mp_status doubt_folded(mp_model *model, const mp_onnx_use *uses, mp_error *err)
{
    /* true if a constant has the name of a parameter. Then plain numbers as names mark folded tensors (PyTorch before 1.11);
     * other exporters number all tensors */
    bool numbers = false;
    for (size_t k = 0; k < model->n_tensors; k++) {
        const mp_tensor *t = &model->tensors[k];
        numbers |= t->role == MP_ROLE_CONSTANT && strchr(t->name, '.') && mp_onnx_names_entry(t->name);
    }
    for (size_t k = 0; k < model->n_tensors; k++) {
        const mp_tensor *t = &model->tensors[k];
        const bool is_open =
            uses[k].how & MP_ONNX_READ_WEIGHT ? uses[k].how & MP_ONNX_READ_ROWS : uses[k].how & MP_ONNX_READ_OTHER;
        if (t->role != MP_ROLE_CONSTANT || !mp_dtype_is_float(t->dtype) || !is_open || mp_tensor_elements(t) < 2) continue;
        if (!mp_onnx_names_folded(t->name, numbers) || is_unfolded_vector(t) || mp_onnx_is_sines(t)) continue;
        MP_CHECK(mp_model_doubt(model, MP_DOUBT_FOLDED, t->name, mp_tensor_elements(t), err));
    }
    /* finds operators whose weight the exporter has computed: by weight normalization, or by a reshape */
    for (size_t k = 0; k < model->n_operators; k++) {
        bool is_norm;
        if (!mp_onnx_has_folded_filter(model, &model->operators[k], &is_norm) || is_norm) continue;
        const mp_tensor *t = &model->tensors[model->operators[k].in[1]];
        MP_CHECK(mp_model_doubt(model, MP_DOUBT_FOLDED, t->name, mp_tensor_elements(t), err));
    }
    return MP_OK;
}

mp_status mp_onnx_roles(mp_model *model, const mp_onnx_origins *origins, const mp_onnx_options *options, mp_error *err)
{
    MP_OWNED mp_onnx_use *uses = NULL;
    bool any_data = false;
    const bool is_state = mp_onnx_is_state_dictionary(model);
    MP_CHECK(mp_onnx_uses_find(model, &uses, err));
    MP_CHECK(mp_onnx_roles_doubt_tied(model, uses, err));
    MP_CHECK(doubt_folded(model, uses, err));
    for (size_t k = 0; k < model->n_tensors; k++)
        if (model->tensors[k].role == MP_ROLE_CONSTANT)
            mp_onnx_choose_initializer(model, &model->tensors[k], &uses[k], origins->of[k], is_state);
    MP_CHECK(mp_onnx_roles_adopt(model, uses, err));
    if (options->n_data)
        MP_CHECK(choose_named(model, uses, options->data, options->n_data, err));
    else
        choose_inputs(model, uses);
    for (size_t k = 0; k < model->n_inputs; k++) any_data |= model->tensors[model->inputs[k]].role == MP_ROLE_DATA;
    if (!any_data && model->n_inputs)
        mp_onnx_set_role(&model->tensors[model->inputs[0]], MP_ROLE_DATA, "the first input, as no other looks like the batch");
    if (origins->is_unsigned) MP_CHECK(doubt_shared(model, uses, err));
    MP_CHECK(train_named(model, uses, options, err));
    return mp_onnx_roles_doubt_constants(model, uses, err);
}
